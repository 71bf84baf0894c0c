#!/usr/bin/env bash
# fuzz.sh TARGET SECONDS: fuzzes one target from its committed seeds; what it finds stays in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?which target? see cargo +nightly fuzz list} seconds=${2:-60}
# New inputs go to a folder outside the committed seeds.
mkdir -p "target/fuzz-corpus/$target"
seeds=fuzz/seeds/$target
cargo +nightly fuzz run "$target" "target/fuzz-corpus/$target" ${seeds:+$([[ -d $seeds ]] && echo "$seeds")} -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1

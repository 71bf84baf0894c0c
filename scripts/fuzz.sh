#!/usr/bin/env bash
# fuzz.sh TARGET SECONDS: fuzzes one target from its committed seeds; what it finds stays in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?which target? see cargo +nightly fuzz list} seconds=${2:-60}
# New inputs go to the first directory; the committed seeds are only read.
corpora=("fuzz/corpus/$target")
mkdir -p "${corpora[0]}"
[[ -d fuzz/seeds/$target ]] && corpora+=("fuzz/seeds/$target")
exec cargo +nightly fuzz run "$target" "${corpora[@]}" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048

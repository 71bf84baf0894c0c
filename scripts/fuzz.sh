#!/usr/bin/env bash
# fuzz.sh [SECONDS] [TARGET…]: fuzzes each target, or those named, for so many seconds (60), from the committed seeds.
# What it finds stays in fuzz/artifacts and is a failure. Without cargo-fuzz or nightly Rust it says so and skips.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60 targets=()
for word in "$@"; do
    if [[ $word =~ ^[0-9]+$ ]]; then seconds=$word; else targets+=("$word"); fi
done
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "skipped: fuzzing (cargo-fuzz is not installed: cargo install cargo-fuzz --locked)"
    exit 0
elif ! cargo +nightly --version >/dev/null 2>&1; then
    echo "skipped: fuzzing (no nightly Rust: rustup toolchain install nightly)"
    exit 0
fi
((${#targets[@]})) || mapfile -t targets < <(cargo +nightly fuzz list)

# DPDK keeps some of what it allocates until the process ends: leaks are not looked for.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}
for target in "${targets[@]}"; do
    # New inputs go to the first directory; the committed ones are only read.
    corpora=("fuzz/corpus/$target")
    mkdir -p "${corpora[0]}"
    for committed in "fuzz/seeds/$target" "fuzz/regressions/$target"; do
        [[ -d $committed ]] && corpora+=("$committed")
    done
    cargo +nightly fuzz run "$target" "${corpora[@]}" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -max_len=4096 -print_final_stats=1
done

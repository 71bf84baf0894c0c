#!/usr/bin/env bash
# fuzz.sh [--stable] [SECONDS] [TARGET…]: fuzzes each target, or those named, for so many seconds (60), from the
# committed seeds. What it finds stays in fuzz/artifacts and is a failure.
#
# With cargo-fuzz and nightly Rust it looks for errors of memory, too (AddressSanitizer). Without them, or with --stable,
# libFuzzer is built with the Rust that is there: it follows coverage all the same.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60 stable=false targets=()
for word in "$@"; do
    if [[ $word == --stable ]]; then
        stable=true
    elif [[ $word =~ ^[0-9]+$ ]]; then
        seconds=$word
    else
        targets+=("$word")
    fi
done
if ! $stable && ! { cargo fuzz --version && cargo +nightly --version; } >/dev/null 2>&1; then
    echo "without AddressSanitizer: that takes nightly Rust and cargo-fuzz (cargo install cargo-fuzz --locked)"
    stable=true
fi
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
fi

if $stable; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    out=$PWD/target/fuzz-stable
    # What cargo-fuzz hands to the compiler, without a sanitizer.
    coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions --cfg=fuzzing)
    bins=()
    for target in "${targets[@]}"; do bins+=(--bin "$target"); done
    RUSTFLAGS="${coverage[*]}" CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
        cargo build --quiet --locked --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$out" "${bins[@]}"
fi

# DPDK keeps some of what it allocates until the process ends: leaks are not looked for.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}
for target in "${targets[@]}"; do
    # New inputs go to the first directory; the committed ones are only read.
    corpora=("fuzz/corpus/$target")
    mkdir -p "${corpora[0]}" "fuzz/artifacts/$target"
    for committed in "fuzz/seeds/$target" "fuzz/regressions/$target"; do
        [[ -d $committed ]] && corpora+=("$committed")
    done
    options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1)
    if $stable; then
        "$out/$host/debug/$target" "${corpora[@]}" -artifact_prefix="fuzz/artifacts/$target/" "${options[@]}"
    else
        cargo +nightly fuzz run "$target" "${corpora[@]}" -- "${options[@]}"
    fi
done

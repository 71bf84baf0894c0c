#!/usr/bin/env bash
# bench.sh [PROGRAM [OPTION…]]: measures what Chainline promises on this host; docs/performance.md says what and how.
# The table goes to standard output, all figures to target/bench/results.json. --quick for a look, --help for the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/release/chainline}
(($#)) && shift
out=target/bench
mkdir -p "$out"

cargo build --release --locked --quiet -p chainline-bench
veth=()
# Not from a build script: the yardstick is no part of the product, and it is the only thing that needs a compiler here.
if command -v cc >/dev/null; then
    cc -O2 -Wall -Wextra -o "$out/veth-hop" crates/bench/veth-hop/veth-hop.c
    veth=(--veth-hop "$out/veth-hop")
fi
if ! scripts/instructions.sh --json >"$out/instructions.json"; then
    echo '{"unavailable": "scripts/instructions.sh failed"}' >"$out/instructions.json"
fi
exec target/release/bench --program "$program" --instructions "$out/instructions.json" "${veth[@]}" "$@"

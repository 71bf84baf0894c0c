#!/usr/bin/env bash
# instructions.sh [--update]: instructions a packet costs in each NF, by callgrind, against scripts/instructions.tsv.
#
# Counts do not depend on how busy the machine is, so unlike times they can be a test: within 2 %. They do depend on the
# compiler and on DPDK, whose versions stand in the file; with others there is nothing to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
figures=scripts/instructions.tsv
nfs=(forward firewall monitor l3fwd)
few=100 many=600 burst=32

command -v valgrind >/dev/null || { echo "skipped: instructions: valgrind is not installed"; exit 0; }
versions="rustc $(rustc --version | cut -d' ' -f2), DPDK $(pkg-config --modversion libdpdk), $(uname -m)"
if [[ ${1:-} != --update && $(sed -n 's/^# //p' "$figures") != "$versions" ]]; then
    echo "skipped: instructions: the figures are for $(sed -n 's/^# //p' "$figures"), this is $versions"
    exit 0
fi

programs=$(cargo bench --locked --no-run --bench instructions "${nfs[@]/#/-pnf-}" --message-format json-render-diagnostics |
    python3 -c 'import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable") and m["target"]["name"] == "instructions":
        print(m["manifest_path"].split("/")[-2], m["executable"])')

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# count PROGRAM BURSTS: instructions inside Nf::process alone. valgrind's own run, since it emulates no AVX-512.
count() {
    valgrind --tool=callgrind --toggle-collect='*NfObject*process*' --callgrind-out-file="$dir/out" "$1" "$2" \
        >"$dir/log" 2>&1 || { tail -20 "$dir/log" >&2; return 1; }
    sed -n 's/^\(summary\|totals\): //p' "$dir/out" | head -1
}

measured=$'# '$versions$'\n'
while read -r nf program; do
    a=$(count "$program" $few)
    b=$(count "$program" $many)
    measured+=$(awk -v nf="$nf" -v n=$(((many - few) * burst)) -v d=$((b - a)) 'BEGIN {printf "%s\t%.1f", nf, d / n}')$'\n'
done <<<"$programs"

if [[ ${1:-} == --update ]]; then
    printf %s "$measured" >"$figures"
    cat "$figures"
    exit 0
fi
printf %s "$measured" | awk -F '\t' -v figures="$figures" '
    BEGIN { while ((getline < figures) > 0) if ($0 !~ /^#/) { split($0, f, "\t"); wanted[f[1]] = f[2] } }
    /^#/ { next }
    {
        off = ($2 - wanted[$1]) / wanted[$1] * 100
        bad = off > 2 || off < -2 || !($1 in wanted)
        printf "%-10s %7.1f instructions a packet, committed %7.1f (%+.1f %%)%s\n", $1, $2, wanted[$1], off, bad ? "  FAILED" : ""
        seen[$1] = 1; failed += bad
    }
    END { for (nf in wanted) if (!(nf in seen)) { print nf ": not measured"; failed++ } exit failed > 0 }'

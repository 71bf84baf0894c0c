#!/usr/bin/env bash
# instructions.sh: instructions a packet costs in each NF, and in the making of traffic, by callgrind, against
# docs/reference/instructions.json.
#
#   scripts/instructions.sh            within 2 % of the committed figures, or it fails
#   UPDATE=1 scripts/instructions.sh   writes them anew
#   scripts/instructions.sh --json     prints what was counted, and compares nothing
#
# Counts do not depend on how busy the machine is, so unlike times they can be a test. They do depend on the compiler,
# on DPDK and on what valgrind lets the code see of the processor; these stand in the file, and with others there is
# nothing to compare with. DPDK's code counts too. Valgrind knows no AVX-512 and says so through cpuid, so rte_acl and
# rte_fib take their AVX2 ways here even where they would take wider ones outside: the figures tell one revision from
# another, not what a processor with AVX-512 executes.
set -euo pipefail
cd "$(dirname "$0")/.."
figures=docs/reference/instructions.json
nfs=(forward firewall monitor l3fwd lb router nat policer logger)
# Cases of some NFs besides: NF-CASE is counted with CASE as another argument.
cases=(firewall-stateful l3fwd-exact monitor-records monitor-heavy)
few=100 many=600 burst=32
# Traffic, by the cases of crates/workload/benches/instructions.rs.
loads=(few million random zipf interleave working-set tcp-lives) load_burst=64

mode=check
[[ -n ${UPDATE:-} ]] && mode=update
[[ ${1:-} == --json ]] && mode=json
[[ $# -gt 1 || ( $# -eq 1 && $mode != json ) ]] && { echo "usage: [UPDATE=1] scripts/instructions.sh [--json]" >&2; exit 2; }

if ! command -v valgrind >/dev/null; then
    [[ $mode == json ]] && echo '{"unavailable": "valgrind is not installed"}' || echo "skipped: instructions: valgrind is not installed"
    exit 0
fi
simd=none
for set in sse4_2 avx2; do grep -qw "$set" /proc/cpuinfo && simd=$set; done
versions="rustc $(rustc --version | cut -d' ' -f2), DPDK $(pkg-config --modversion libdpdk), $(uname -m) with $simd"
if [[ $mode == check ]]; then
    committed=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["counted_with"])' "$figures")
    if [[ $committed != "$versions" ]]; then
        echo "skipped: instructions: $versions, figures are for $committed"
        exit 0
    fi
fi

# In the release profile, as the program is built.
programs=$(cargo bench --locked --no-run --bench instructions "${nfs[@]/#/-pnf-}" -p chainline-workload --message-format json-render-diagnostics |
    python3 -c 'import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable") and m["target"]["name"] == "instructions":
        print(m["manifest_path"].split("/")[-2], m["executable"])')

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# count OPTION PROGRAM ARGUMENT…: all instructions, or those that the option leaves.
count() {
    # A thread that waits for files would else keep the one that reads or writes them from running.
    valgrind --fair-sched=yes --tool=callgrind --callgrind-out-file="$dir/out" "$@" >"$dir/log" 2>&1 ||
        { tail -20 "$dir/log" >&2; return 1; }
    sed -n 's/^\(summary\|totals\): //p' "$dir/out" | head -1
}

# The difference of two runs: what happens once is in both.
process=--toggle-collect='*NfObject*process*' # and what it calls
while read -r crate program; do
    if [[ $crate == workload ]]; then
        for load in "${loads[@]}"; do
            a=$(count --collect-atstart=yes "$program" "$load" $few)
            b=$(count --collect-atstart=yes "$program" "$load" $many)
            echo "traffic-$load $a $b $load_burst"
        done
        continue
    fi
    a=$(count "$process" "$program" $few)
    b=$(count "$process" "$program" $many)
    echo "$crate $a $b $burst"
    for case in "${cases[@]}"; do
        [[ $case == "$crate"-* ]] || continue
        a=$(count "$process" "$program" $few "${case#*-}")
        b=$(count "$process" "$program" $many "${case#*-}")
        echo "$case $a $b $burst"
    done
done <<<"$programs" >"$dir/counts"

python3 - "$mode" "$figures" "$versions" $((many - few)) "$dir/counts" "${nfs[@]}" "${cases[@]}" "${loads[@]/#/traffic-}" <<'PYTHON'
import json, sys

mode, figures, versions, bursts, counts, *nfs = sys.argv[1:]
seen = {nf: (int(b) - int(a)) / int(bursts) / int(burst) for nf, a, b, burst in map(str.split, open(counts))}
missing = [nf for nf in nfs if not seen.get(nf, 0) > 0]
if missing:
    sys.exit(f"nothing was counted for {', '.join(missing)}")
result = {"counted_with": versions, "instructions_per_packet": {nf: round(seen[nf], 1) for nf in nfs}}
text = json.dumps(result, indent=2) + "\n"
if mode == "json":
    print(text, end="")
elif mode == "update":
    open(figures, "w").write(text)
    print(text, end="")
else:
    wanted = json.load(open(figures))["instructions_per_packet"]
    failed = [nf for nf in wanted if nf not in seen]
    for nf in failed:
        print(f"{nf}: committed, but not counted any more")
    for nf in nfs:
        if nf not in wanted:
            print(f"{nf:20} {seen[nf]:7.1f} instructions a packet, none committed  FAILED")
            failed.append(nf)
            continue
        off = seen[nf] / wanted[nf] - 1
        bad = abs(off) > 0.02
        failed += [nf] if bad else []
        print(f"{nf:20} {seen[nf]:7.1f} instructions a packet, committed {wanted[nf]:7.1f} ({off:+.1%})" + "  FAILED" * bad)
    if failed:
        sys.exit(f"if this is meant: UPDATE=1 scripts/instructions.sh, and say why in the commit")
PYTHON

#!/usr/bin/env bash
# The whole test suite, step by step. One line a step with its time; a step's output comes only if it fails or with
# --verbose. Steps whose tool is not there are skipped by name. Ends with a summary; 1 when a step failed.
set -uo pipefail
cd "$(dirname "$0")/.."

verbose=false
[[ ${1:-} == --verbose || ${VERBOSE:-} ]] && verbose=true
logs=target/test-logs
rm -rf "$logs"
mkdir -p "$logs"
passed=() failed=() skipped=()

# step NAME COMMAND…
step() {
    local name=$1 log start=$SECONDS
    shift
    log=$logs/${name//[^a-z0-9]/-}.log
    if $verbose; then
        echo "──── $name"
        "$@" 2>&1 | tee "$log"
    else
        "$@" >"$log" 2>&1
    fi
    # Of a pipe, the first failure counts (pipefail).
    if (($? == 0)); then
        printf '%-44s ok       %4d s\n' "$name" $((SECONDS - start))
        passed+=("$name")
    else
        printf '%-44s FAILED   %4d s   %s\n' "$name" $((SECONDS - start)) "$log"
        $verbose || tail -n 60 "$log"
        failed+=("$name")
    fi
}

# skip NAME WHY
skip() {
    printf '%-44s skipped: %s\n' "$1" "$2"
    skipped+=("$1 ($2)")
}

# A disk that fills up in the middle looks like a fault of whatever was being built.
free_gb=$(($(df -Pk target | awk 'NR == 2 {print $4}') / 1024 / 1024))
if [[ ! -d target/debug ]] && ((free_gb < 12)); then
    echo "warning: builds take up to 12 GB under $PWD/target, and $free_gb GB are free"
fi

step "build" cargo build --workspace --all-targets --locked
step "format" cargo fmt --all --check
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
# Among them: the generated references are current, and the style test.
# Output of passing tests too: it says which were skipped.
step "cargo test" cargo test --workspace --locked --no-fail-fast -- --show-output
# The sleep and wake protocol under the model checker; everything is built again with its atomics, and optimised, since it
# tries millions of orders.
step "loom: no wake-up is lost, a shared key has one place" env RUSTFLAGS="--cfg loom" CARGO_PROFILE_DEV_OPT_LEVEL=3 \
    cargo test --package chainline-shm --lib --locked --target-dir target/loom -- handover counts
for example in examples/rust-nf examples/c-nf; do
    if [[ -f $example/Cargo.toml ]]; then
        step "$example" cargo test --locked --manifest-path "$example/Cargo.toml" --target-dir "target/${example//\//-}"
    elif [[ -f $example/Makefile ]]; then
        step "$example" make -C "$example" test
    fi
done
step "instructions a packet" scripts/instructions.sh
for file in examples/*.yaml; do
    step "validate $file" target/debug/chainline validate "$file"
done
if command -v shellcheck >/dev/null; then
    step "shellcheck" shellcheck -x scripts/*.sh .ci/run
else
    step "shell syntax" bash -c 'for s in scripts/*.sh .ci/run; do bash -n "$s" || exit 1; done'
fi

if command -v cargo-deny >/dev/null; then
    step "cargo deny: licences, bans, sources" cargo deny --locked check licenses bans sources
    # The database is a git repository on GitHub; where that cannot be had, the check says so.
    if cargo deny --locked fetch db >"$logs/advisory-db.log" 2>&1; then
        step "cargo deny: advisories" cargo deny --locked check --disable-fetch advisories
    else
        skip "cargo deny: advisories" "the advisory database cannot be fetched"
    fi
else
    skip "cargo deny" "not installed: cargo install cargo-deny --locked"
fi

# Three seconds from the committed seeds show that a target builds and nothing shallow has broken; make fuzz does more.
step "fuzzing: each target for 3 s" scripts/fuzz.sh --stable 3

# The test runners' own last words, and what tests skipped.
echo
grep -h '^test result:' "$logs"/*.log 2>/dev/null
grep -h '^skipped: ' "$logs"/*.log 2>/dev/null | sort | uniq -c
echo
echo "${#passed[@]} steps passed, ${#failed[@]} failed, ${#skipped[@]} skipped, $SECONDS s"
for s in "${skipped[@]}"; do echo "  skipped: $s"; done
for s in "${failed[@]}"; do
    echo "  FAILED:  $s"
    # Which tests, and their words without the backtraces: whoever reads only the end of this has them.
    log=$logs/${s//[^a-z0-9]/-}.log
    mapfile -t tests < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log")
    for test in "${tests[@]}"; do
        echo "    test $test ... FAILED"
        # The runner's last section of that name: those of what passed come first.
        awk -v head="---- $test stdout ----" '
            $0 == head { said = ""; on = 1; next }
            /^---- .* ----$/ || /^(failures|successes):$/ { on = 0 }
            on && !/^ +[0-9]+: / && !/^ +at / { said = said "      " $0 "\n" }
            END { printf "%s", said }' "$log" | grep -v '^ *$' | tail -n 25
    done
    ((${#tests[@]})) || tail -n 25 "$log" | sed 's/^/      /'
done
((${#failed[@]} == 0))

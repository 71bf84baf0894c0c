#!/usr/bin/env bash
# Does what write-an-nf.md says, word for word, and compares the results with examples/. Expects the command to be
# built: its directory, target/debug unless given, is the only argument. What the guide builds is kept in
# target/guide, so that only the first time is slow.
set -euo pipefail
cd "$(dirname "$0")/.."
export CHAINLINE=$PWD
bin=$(realpath "${1:-target/debug}")
export PATH=$bin:$PATH
unset CARGO_TARGET_DIR # The guide names files under target/.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One script from the page: `sh` blocks as they are, except the set-up; blocks with a file name become that file.
awk '
    !in_block && /^```sh$/ { in_block = 1; run = 1; next }
    !in_block && /^```[a-z]+ file=/ { in_block = 1; run = 1; sub(/^.*file=/, ""); print "cat > " $0 " <<\47END OF FILE\47"; file = 1; next }
    !in_block && /^```/ { in_block = 1; run = 0; next }
    in_block && /^```$/ { if (file) print "END OF FILE"; in_block = run = file = 0; next }
    run { print }
' docs/write-an-nf.md >"$work/guide.sh"

mkdir -p target/guide "$work/ttl-guard"
ln -s "$CHAINLINE/target/guide" "$work/ttl-guard/target"
cd "$work"
bash -euo pipefail guide.sh

diff ttl-guard/src/lib.rs "$CHAINLINE/examples/rust-nf/src/lib.rs"
diff -r ttl-guard/tests "$CHAINLINE/examples/rust-nf/tests"
diff reflect/reflect.c "$CHAINLINE/examples/c-nf/reflect.c"
diff -r reflect/tests "$CHAINLINE/examples/c-nf/tests"
# What new-nf makes builds and passes as well.
chainline new-nf made-up --lang rust >/dev/null
ln -s "$CHAINLINE/target/guide" made-up/target
(cd made-up && cargo test && chainline golden target/debug/deps/libmade_up.so tests/golden/*.golden)
echo "the guide works"

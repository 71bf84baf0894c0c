#!/usr/bin/env bash
# bundle.sh: makes echarts.min.js again from npm, by the versions and checksums of package-lock.json. The result is
# the same, byte for byte.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json entry.js "$work"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund >&2)
{
    echo "/*! Apache ECharts 6.1.0, zrender 6.1.0 and tslib 2.3.0, bundled; their licences and notice follow."
    for part in echarts/LICENSE echarts/NOTICE zrender/LICENSE tslib/LICENSE.txt; do
        printf '\n──── %s\n\n' "$part"
        sed 's|\*/|* /|g; s/[[:space:]]*$//' "$work/node_modules/$part"
    done
    echo "*/"
} >"$work/licences.txt"
(cd "$work" && node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=echarts \
    --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning --outfile=bundle.js)
cat "$work/licences.txt" "$work/bundle.js" >echarts.min.js
sed 's|/\*!.*||; s|^\*/$||' "$work/licences.txt" >LICENSES.txt
sha256sum echarts.min.js LICENSES.txt >SHA256SUMS

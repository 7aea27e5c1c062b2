#!/bin/bash
# Fetches NiiVue, and the licences of what is bundled in it, from npm: niivue.js.gz and
# niivue-licenses.txt beside this script. Needs npm.
set -eu
version=0.69.0
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --ignore-scripts --no-audit --no-fund "@niivue/niivue@$version" >/dev/null
gzip -n -9 -c node_modules/@niivue/niivue/dist/niivue.umd.js > "$here/niivue.js.gz"
{
	echo "niivue.js.gz is dist/niivue.umd.js of the npm package @niivue/niivue $version, unchanged."
	echo "The packages below are bundled in it."
	find node_modules -name package.json -not -path '*/dist/*' -not -path '*/build/*' -not -path '*/@rollup/*' | sort | while read -r file; do
		folder=$(dirname "$file")
		licence=$(ls "$folder" | grep -i '^licen[cs]e' | head -1 || true)
		name=$(node -p "const p = require('./$file'); p.name && p.version ? p.name + ' ' + p.version + ' (' + p.license + ')' : ''")
		[ -n "$name" ] || continue
		echo; echo "== $name"
		if [ -n "$licence" ]; then cat "$folder/$licence"; fi
		case "$name" in @niivue*) echo; cat "$here/niivue-license.txt" ;; esac # the package has no copy of it
	done
} > "$here/niivue-licenses.txt"

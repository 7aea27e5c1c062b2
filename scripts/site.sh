#!/usr/bin/env bash
# Builds docs/ as a site, with search, in dist/site. Fails at a link that leads nowhere. Needs npm.
#
#   bash scripts/site.sh          # dist/site/index.html
#   bash scripts/site.sh dev      # in the browser, as the pages change
set -euo pipefail
cd "$(dirname "$0")/../docs"
npm ci --silent --no-audit --no-fund --ignore-scripts >/dev/null
if [ "${1:-build}" = dev ]; then
  exec node_modules/.bin/vitepress dev .
fi
node_modules/.bin/vitepress build . --outDir ../dist/site

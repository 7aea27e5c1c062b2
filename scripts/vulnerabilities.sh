#!/usr/bin/env bash
# Looks for known vulnerabilities in code that the program calls. Fails if there are any.
#
#   bash scripts/vulnerabilities.sh
#   bash scripts/vulnerabilities.sh -db file:///FOLDER
#
# VOXSAW_PROGRAM names the program, with its symbols, where it has just been built of this source.
#
# Where the database (https://vuln.go.dev) cannot be reached it says so, and passes: a change cannot
# be blamed for that. On GitHub it fails, or nobody would notice that nothing is checked any more.
set -uo pipefail
cd "$(dirname "$0")/.."

unreachable() {
  echo "vulnerabilities: NOT CHECKED, because the database cannot be reached from here"
  [ -z "${GITHUB_ACTIONS:-}" ]
  exit
}
# before anything is compiled; by Python, where it is, for it knows the proxies, too
if [ $# = 0 ] && command -v python3 >/dev/null; then
  python3 -c 'import urllib.request as u; u.urlopen("https://vuln.go.dev/index/db.json", timeout=30).read()' 2>/dev/null || unreachable
fi

tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
# A binary, because `go run` turns every failure into exit code 1.
GOBIN=$tool go install golang.org/x/vuln/cmd/govulncheck@v1.9.0 || exit 1
program=${VOXSAW_PROGRAM:-$tool/voxsaw}
[ -n "${VOXSAW_PROGRAM:-}" ] || go build -o "$program" ./cmd/voxsaw || exit 1

# What is called is linked. Where something is found in the program, its source tells whether it is called, which
# takes a hundred times as long: methods are linked that nothing calls.
check() {
  "$tool/govulncheck" "$@" 2>&1 | tee "$tool/out"
  status=${PIPESTATUS[0]}
}
check -mode binary "$@" "$program"
[ "$status" != 3 ] || check "$@" ./cmd/voxsaw
if [ "$status" = 1 ] && grep -q 'fetching vulnerabilities' "$tool/out"; then
  unreachable
fi
exit "$status"

#!/usr/bin/env bash
# Unpacks a release's archive or Debian package for linux/amd64 into a root that has nothing else in
# it, no Go, no Python, no shell and no network, and uses the program there. Needs root, by sudo.
#
#   bash scripts/archive-check.sh dist/voxsaw_0.1.0_linux_amd64.tar.gz
#   bash scripts/archive-check.sh dist/voxsaw_0.1.0_linux_amd64.deb
#   bash scripts/archive-check.sh          # of a build of this checkout, packed here
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.tar.gz" "$root.demo"' EXIT
archive=${1:-}
if [ -z "$archive" ]; then
  cd "$(dirname "$0")/.."
  bash scripts/release-files.sh --plain
  mkdir -p .release/pack/man .release/pack/completions
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .release/pack/voxsaw ./cmd/voxsaw
  go run ./scripts/notices .release/pack/voxsaw >.release/pack/NOTICES
  go run ./scripts/sbom .release/pack/voxsaw >.release/pack/voxsaw.cdx.json
  cp LICENSE .release/README.md CHANGELOG.md CITATION.cff .release/pack
  cp .release/completions/* .release/pack/completions
  cp -r .release/man .release/pack/man/man1
  archive=$root.tar.gz
  tar -C .release/pack --transform 's,^\.,voxsaw_linux_amd64,' -czf "$archive" .
fi
chmod 755 "$root"
case $archive in
*.deb)
  dpkg-deb -x "$archive" "$root"
  program=usr/bin/voxsaw man=usr/share/man
  bash=usr/share/bash-completion/completions/voxsaw
  files="usr/share/doc/voxsaw/copyright usr/share/doc/voxsaw/voxsaw.cdx.json usr/share/zsh/vendor-completions/_voxsaw usr/share/fish/vendor_completions.d/voxsaw.fish"
  ;;
*)
  [ "$(tar -tzf "$archive" | cut -d/ -f1 | sort -u | wc -l)" = 1 ] || { echo "$archive holds more than one folder" >&2; exit 1; }
  tar -C "$root" --strip-components=1 -xzf "$archive"
  program=voxsaw man=man bash=completions/voxsaw.bash
  files="LICENSE README.md CHANGELOG.md CITATION.cff NOTICES voxsaw.cdx.json completions/voxsaw.zsh completions/voxsaw.fish completions/voxsaw.ps1"
  ;;
esac
for file in $program $bash $man/man1/voxsaw.1.gz $man/man1/voxsaw-predict.1.gz $files; do
  [ -s "$root/$file" ] || { echo "$archive lacks $file" >&2; exit 1; }
done
# All archives hold the pages that one platform's program made.
if zgrep -lE '(linux|darwin|windows)/(amd64|arm64)' "$root/$man"/man1/*; then
  echo "$archive: the manual pages above name a platform" >&2
  exit 1
fi
# Beside README.md there is nothing that a relative link could lead to.
if [ -e "$root/README.md" ] && grep -oE '\]\([^)]*\)' "$root/README.md" | grep -vE '^\]\((https?:|mailto:|#)'; then
  echo "$archive: README.md has the relative links above" >&2
  exit 1
fi
mkdir -m 1777 "$root/tmp"
as=
[ "$(id -u)" = 0 ] || as=sudo
inside() { $as unshare --net chroot --userspec="$(id -u):$(id -g)" "$root" /$program "$@"; }
cd /

inside version
inside version --json >"$root/tmp/version"
grep -q '"os": "linux"' "$root/tmp/version"
if [ -n "${1:-}" ]; then # what is published must tell which commit it was built from
  grep -qE '"(commit|revision)": "[0-9a-f]{40}"' "$root/tmp/version" || { echo "$archive does not know its commit" >&2; exit 1; }
fi
inside demo --quick --out /tmp/demo >"$root.demo" 2>&1 || { cat "$root.demo"; echo "demo fails in an empty root" >&2; exit 1; }
[ -s "$root/tmp/demo/report.html" ]
checkpoint=$(cd "$root" && find tmp/demo -name last.safetensors -path '*scratch*' | head -1)
inside predict /tmp/demo/scans/imagesTr --checkpoint "/$checkpoint" --out /tmp/labels --threads 1 2>/dev/null | tail -1
find "$root/tmp/labels" -name '*.nii.gz' | grep -q .
inside __complete predict --format '' 2>/dev/null | grep -q dicom-seg
bash -n "$root/$bash"
if command -v man >/dev/null; then
  MANPATH=$root/$man man voxsaw-predict | grep -q 'voxsaw predict'
fi
echo "$archive works in an empty root"

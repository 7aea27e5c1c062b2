#!/usr/bin/env bash
# Unpacks a release's archives and Debian packages, and looks at what is in them: all files, and the
# notices and the bill of materials beside what `go version -m` says of the program. Of linux/amd64,
# the static program is then used in a root that has nothing else in it: no Go, no Python, no shell and
# no network. Needs root for that, by sudo.
#
#   bash scripts/archive-check.sh dist/voxsaw_*.{tar.gz,zip,deb}
#   bash scripts/archive-check.sh          # of a build of this checkout, packed here
set -euo pipefail
if [ $# -gt 1 ]; then
  for archive; do bash "$0" "$archive"; done
  exit
fi
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
  notices=usr/share/doc/voxsaw/copyright materials=usr/share/doc/voxsaw/voxsaw.cdx.json
  files="usr/share/doc/voxsaw/LICENSE usr/share/zsh/vendor-completions/_voxsaw usr/share/fish/vendor_completions.d/voxsaw.fish"
  ;;
*)
  case $archive in
  *.zip) unzip -q "$archive" -d "$root" ;;
  *) tar -C "$root" -xzf "$archive" ;;
  esac
  folder=$(ls "$root")
  [ "$(wc -l <<<"$folder")" = 1 ] || { echo "$archive holds more than one folder" >&2; exit 1; }
  mv "$root/$folder"/* "$root"
  rmdir "$root/$folder"
  program=voxsaw man=man bash=completions/voxsaw.bash notices=NOTICES materials=voxsaw.cdx.json
  [ -e "$root/voxsaw" ] || program=voxsaw.exe
  files="LICENSE README.md CHANGELOG.md CITATION.cff completions/voxsaw.zsh completions/voxsaw.fish completions/voxsaw.ps1"
  ;;
esac
for file in $program $bash $man/man1/voxsaw.1.gz $man/man1/voxsaw-predict.1.gz $notices $materials $files; do
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
# What Go says of the program: each module has its licence in the notices and is in the bill of materials,
# no other is, and the bill is of this program.
wrong() {
  echo "$archive: $*" >&2
  exit 1
}
facts=$(go version -m "$root/$program")
modules=$(awk '$1 == "dep" { print $2 " " $3 }' <<<"$facts" | sort)
[ "$(wc -l <<<"$modules")" -ge 30 ] || wrong "go version -m lists few modules: $modules"
noticed=$(sed '/^====/q' "$root/$notices" | grep -E '^[^ ]+ v[0-9][^ ]*$' | sort)
diff - <(echo "$noticed") <<<"$modules" || wrong "the notices are of other modules"
billed=$(sed -n 's,.*"bom-ref": "pkg:golang/\(.*\)@\(v[^"]*\)".*,\1 \2,p' "$root/$materials" | sed 's,%2B,+,' |
  grep -v '^github.com/voxsaw/voxsaw ' | sort)
diff - <(echo "$billed") <<<"$modules" || wrong "the bill of materials is of other modules"
while read -r module version; do
  grep -qF "$module $version: " "$root/$notices" || wrong "no licence of $module"
done <<<"$modules"
for part in 'The Go Authors' 'Independent JPEG Group' NiiVue; do
  grep -qF "$part" "$root/$notices" || wrong "the notices lack $part"
done
digest=$(sha256sum "$root/$program" | cut -d' ' -f1)
grep -qF "\"$digest\"" "$root/$materials" || wrong "the bill of materials is of another program"
fact() { sed -n "s/^\tbuild\t$1=//p" <<<"$facts"; }
if [ -n "${1:-}" ]; then # what is published must tell which commit it was built from
  [ "$(fact vcs.modified)" = false ] || wrong "the program does not know its commit, or was built with changes"
fi
platform=$(fact GOOS)/$(fact GOARCH)
if [ "$platform" != linux/amd64 ] || [ "$(fact CGO_ENABLED)" = 1 ]; then
  echo "$archive holds what it should ($platform, tags: $(fact -tags))"
  exit
fi
mkdir -m 1777 "$root/tmp"
as=
[ "$(id -u)" = 0 ] || as=sudo
inside() { $as unshare --net chroot --userspec="$(id -u):$(id -g)" "$root" /$program "$@"; }
cd /

inside version
inside version --json >"$root/tmp/version"
grep -q '"os": "linux"' "$root/tmp/version"
if [ -n "${1:-}" ]; then # and says so
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

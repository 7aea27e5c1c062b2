#!/usr/bin/env bash
# Makes what goreleaser puts into every archive, in .release/: completion for shells, manual pages,
# README.md with links to the files at the tag or the commit;
# and what the build with CUDA needs: flags, and a C compiler that links for glibc 2.28.
#
#   bash scripts/release-files.sh [--plain]    # --plain: without the compilers
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .release
mkdir -p .release/completions

export CGO_ENABLED=0
go build -tags man -o .release/maker ./cmd/voxsaw
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .release/maker man .release/man >/dev/null
gzip -n -9 .release/man/*
for shell in bash zsh fish powershell; do
  .release/maker completion $shell >".release/completions/voxsaw.${shell/powershell/ps1}"
done
rm .release/maker
revision=$(git describe --exact-match --tags 2>/dev/null || git rev-parse HEAD)
go run ./scripts/readme "$revision" <README.md >.release/README.md
[ "${1:-}" != --plain ] || exit 0

# Zig brings clang and the stubs of each glibc. As a wheel it needs no package of the system.
python3 -m venv .release/zig
.release/zig/bin/pip install -q ziglang==0.15.2
cat >.release/cc <<EOF
for flag do # gorgonia.org/cu asks for the headers of this machine's glibc
  shift
  [ "\$flag" = -I/usr/include ] || set -- "\$@" "\$flag"
done
exec $PWD/.release/zig/bin/python -m ziglang cc -target x86_64-linux-gnu.2.28 "\$@"
EOF
python3 scripts/cuda-toolchain.py --cflags >.release/cuda-cflags

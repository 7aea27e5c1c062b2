#!/usr/bin/env bash
# Golden runs: what two programs compute, held against each other to the byte, before and after a change that is to
# change nothing. Both carry out the demo, three pretrainings, two fine-tunings, solve, predict, evaluate, and on
# made-up photographs a pretraining, solve and a transfer.
#
#   bash scripts/golden.sh OLD NEW [FOLDER]
#
# OLD and NEW are programs (go build ./cmd/voxsaw), not in FOLDER; OLD may be FOLDER/old of an earlier call, which saves its
# runs. Compared are weights, label maps, logs, scores and tables; times, versions and paths are left out, and so are
# pages and pictures. Exit code 1: something differs, and the files are named. A minute and a half on two cores.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scripts=$(realpath "$(dirname "$0")")
folder=${3:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(realpath "$folder")

runs() { # PROGRAM: all runs, in the current folder
  local program=$1
  v() { "$program" "$@" >"log-$((n += 1)).stdout" 2>>stderr.log || { tail -n 5 stderr.log >&2; echo "failed: voxsaw $*" >&2; exit 1; }; }
  local n=0 tiny="--steps 6 --threads 2 --seed 3"
  v demo --quick --out demo
  v pretrain --data demo/prepared --out jigsaw --channels 4 --levels 3 --crop 40 --patch 16 --grid 2 --rounds 2 --batch 2 --validate-every 3 $tiny
  v pretrain --data demo/prepared --out rotation --task rotation --channels 4 --levels 3 --crop 32 --batch 2 --validate-every 3 $tiny
  v pretrain --data demo/prepared --out mae --task mae --channels 4 --levels 3 --crop 32 --batch 2 --validate-every 3 $tiny
  v solve --data demo/prepared --checkpoint jigsaw --json
  v finetune --data demo/prepared --out organs --init jigsaw --crop 32 --batch 2 $tiny
  v finetune --data demo/prepared --out resenc --network resenc --channels 4 --levels 3 --crop 32 --batch 2 $tiny
  v predict demo/scans/imagesTr --checkpoint organs --out labels
  v evaluate labels demo/scans/labelsTr --out evaluation
  python3 "$scripts/golden.py" photographs photos
  v 2d prepare photos --out photographs --size 40x40 --hold-out 0.25
  v 2d pretrain --data photographs --out puzzles2d --backbone resnet18 --width 0.0625 --grid 2x2 --cell 20 --patch 16 --batch 2 --rounds 2 --validate-every 3 $tiny
  v 2d pretrain --data photographs --out rotation2d --task rotation --backbone resnet18 --width 0.0625 --crop 32 --batch 2 $tiny
  v 2d solve --data photographs --checkpoint puzzles2d --json
  v 2d transfer --data photographs --per-class 4 --checkpoint puzzles2d --threads 2 --json
}

side() { # NAME PROGRAM-OR-FOLDER: prints the folder with its runs
  if [ -d "$2" ]; then realpath "$2"; return; fi
  rm -rf "${folder:?}/$1"; mkdir "$folder/$1"
  cd "$folder/$1"
  runs "$2"
  echo "$folder/$1"
}

case $1 in /*) old=$1 ;; *) old=$PWD/$1 ;; esac
case $2 in /*) new=$2 ;; *) new=$PWD/$2 ;; esac
old=$(side old "$old")
new=$(side new "$new")
python3 "$scripts/golden.py" compare "$old" "$new"

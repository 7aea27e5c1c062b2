#!/usr/bin/env bash
# Checks and times the CUDA device on a machine with a GPU, where minutes are few.
#
#   scripts/gpu-check.sh pack gpu-check.tar.xz   here: builds, and packs what the machine with the GPU needs
#   python3 -m tarfile -e gpu-check.tar.xz check there: unpacks it
#   bash gpu-check.sh PART ...                   there, in the unpacked folder
#   scripts/gpu-check.sh --simulate [PART ...]   packs, unpacks elsewhere, and runs parts on the simulated GPU, small
#
#   first     is it right: versions, every family of kernels at each precision in a process of its own,
#             memcheck, racecheck, ten training steps beside those of a processor, a table of layers
#   second    is it fast: tune, steps at three batch sizes with and without what was tuned, PyTorch's
#             eager steps beside them, a whole scan, growth with the batch, a profile
#   compiled  beside all of PyTorch's variants, compiled ones too: the only part that gives a ratio
#   real      pretraining on OpenKBP at the paper's size, fine-tuning, Dice
#   peers     two ranks on two GPUs, whose gradients NCCL sums, beside sums through the host's memory
#
# Each part takes eight minutes at most (VOXSAW_CHECK_MINUTES), what matters most first. A check that
# fails, hangs or ends without having done its work is told and stops no other; where the GPU no longer
# answers, the rest of the part is left out. The exit code is 1 where any check failed.
#
# Results go to the folder that OUT names, or else to the current one, as they come: figures.txt with a line for
# each check, PART.log with what they printed, bench.jsonl with each timing, tuning.yaml as voxsaw tune
# wrote it, whole or cut: figures.txt says which. A ratio is printed where ours and every variant of
# PyTorch's finished on the same machine, and nowhere else.
#
# The pack holds the program (the kernels' machine code is in it), the device's test program, the peer in
# PyTorch, prepared scans of OpenKBP, and the losses of ten steps on the processor that packed: nothing is
# computed there that needs no GPU. VOXSAW_DATA names the folder of scans when packing (by default
# ../shared/data); without one, checks that need scans say so. There it needs bash and python3, and PyTorch
# for the comparison; compute-sanitizer and ncu are used where they are.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# --- Packing

# Of the repository's files and the pack, so many travel in all.
most_mib=64

pack() { # FILE [small]
  local root output folder data size others
  root=$(cd "$here/.." && pwd)
  output=$(realpath "$1") || exit 1
  folder=$(mktemp -d)
  packing= # the step that runs
  # shellcheck disable=SC2064 # as it is now
  trap "rm -rf '$folder' '$folder.tar.xz'" EXIT
  trap '[ -z "$packing" ] || kill "$packing" 2>/dev/null; exit 130' TERM INT HUP
  cd "$root" || exit 1
  CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags) || exit 1
  export CGO_CFLAGS VOXSAW_CHECK_SIMULATED=$simulated # ten steps are a process of their own
  made "the program" "$folder/voxsaw" go build -tags gpu,mpi -trimpath -ldflags '-s -w' -o "$folder/voxsaw" ./cmd/voxsaw
  made "the device's tests" "$folder/cuda.test" go test -tags gpu -trimpath -ldflags '-s -w' -c -o "$folder/cuda.test" ./internal/device/cuda
  [ "$("$folder/cuda.test" -test.list '^TestDevice$')" = TestDevice ] || refuse "the device's tests" "they do not list TestDevice"
  cp scripts/gpu-check.sh scripts/gpu-figures.py docs/peers/peer.py docs/peers/peer_vnet.py "$folder" && git log -1 --format='%H %s' >"$folder/commit.txt" || exit 1
  data=$(realpath "${VOXSAW_DATA:-../shared/data}")
  if [ -d "$data/openkbp/imagesTr" ]; then
    mkdir -p "$folder/scans/imagesTr" "$folder/scans/labelsTr"
    local taken=0 most=8 image name verb
    [ "${2:-}" = small ] && most=4
    for image in "$data"/openkbp/imagesTr/*.nii.gz; do
      name=$(basename "$image")
      [ "$taken" -ge "$most" ] && break
      taken=$((taken + 1))
      cp "$image" "$folder/scans/imagesTr/" && cp "$data/openkbp/labelsTr/$name" "$folder/scans/labelsTr/" || exit 1
      cp "$image" "$folder/scan.nii.gz" || exit 1
    done
    made "the prepared scans" "$folder/prepared" "$folder/voxsaw" prepare "$folder/scans" --out "$folder/prepared"
    [ "$(find "$folder/prepared" -type f | wc -l)" -ge "$taken" ] || refuse "the prepared scans" "there are fewer than $taken files"
    rm -r "$folder/scans"
    [ "${2:-}" = small ] || [ ! -e "$data/totalsegmentator/ct.nii.gz" ] || cp "$data/totalsegmentator/ct.nii.gz" "$folder/scan.nii.gz" || exit 1
    chmod u+w "$folder/scan.nii.gz"
    for verb in finetune pretrain; do
      made "ten steps of $verb" "$folder/runs/$verb-cpu/metrics.csv" bash "$folder/gpu-check.sh" --call ten "$verb" "runs/$verb-cpu" --conv direct
      [ "$(wc -l <"$folder/runs/$verb-cpu/metrics.csv")" = 11 ] || refuse "ten steps of $verb" "metrics.csv has no ten of them"
      rm -f "$folder/runs/$verb-cpu"/*.safetensors # the losses are what is compared
    done
  else
    echo "gpu-check: no scans in $data/openkbp: checks that need some will be left out" >&2
  fi
  tar -C "$folder" -cJf "$folder.tar.xz" . || refuse "the pack" "tar failed"
  size=$(stat -c %s "$folder.tar.xz")
  others=$(git ls-files -z --cached --others --exclude-standard | grep -zvxF "${output#"$root"/}" | xargs -0 stat -c %s 2>/dev/null | awk '{n += $1} END {print n + 0}')
  echo "$output: $(mib "$size") MiB, with the repository's files $(mib $((size + others))) of $most_mib MiB that travel"
  [ $((size + others)) -le $((most_mib << 20)) ] || refuse "the pack" "it is too large"
  mv "$folder.tar.xz" "$output" || exit 1
  rm -rf "$folder"
  trap - EXIT TERM INT HUP
}

mib() { awk -v n="$1" 'BEGIN {printf "%.1f", n / 1048576}'; }

# made WHAT PATH COMMAND...: a step of packing, a quarter of an hour at most, which must leave something at a path
made() {
  local what=$1 path=$2 code
  shift 2
  timeout -k 5 "${VOXSAW_PACK_SECONDS:-900}" "$@" </dev/null & # so that a signal is heard meanwhile
  packing=$!
  wait $packing
  code=$?
  packing=
  case $code in
    0) [ -s "$path" ] || refuse "$what" "the command ended well, and $(basename "$path") is not there" ;;
    124 | 137) refuse "$what" "not over after ${VOXSAW_PACK_SECONDS:-900} s" ;;
    *) refuse "$what" "the command failed with $code" ;;
  esac
}

refuse() { # WHAT WHY
  echo "gpu-check: nothing was packed: $1: $2" >&2
  exit 1
}

simulate() {
  local folder root
  root=$(cd "$here/.." && pwd)
  folder=$(mktemp -d)
  # shellcheck disable=SC2064 # as it is now
  trap "rm -rf '$folder'" EXIT
  simulated=1 # ten steps are small here, too
  (pack "$folder/pack.tar.xz" small) || exit 1
  mkdir "$folder/there"
  tar -C "$folder/there" -xJf "$folder/pack.tar.xz"
  "$root/internal/device/cuda/sim/build.sh" "$folder/there/libcudasim.so" || exit 1
  "$root/internal/device/cuda/sim/cudnn/build.sh" "$folder/there/libcudnnsim.so" || exit 1
  "$root/internal/device/cuda/sim/nccl/build.sh" "$folder/there/libncclsim.so" || exit 1
  [ $# -gt 0 ] || set -- first second compiled real peers
  OUT=${OUT:-$root/gpu-check-results} VOXSAW_CHECK_MINUTES=${VOXSAW_CHECK_MINUTES:-20} VOXSAW_CHECK_SIMULATED=1 VOXSAW_SIM_GPUS=2 VOXSAW_NCCL="$folder/there/libncclsim.so" \
    VOXSAW_CUDA_DRIVER="$folder/there/libcudasim.so" VOXSAW_CUDNN="$folder/there/libcudnnsim.so" bash "$folder/there/gpu-check.sh" "$@"
}

# --- Checks

simulated=${VOXSAW_CHECK_SIMULATED:-}
failed=0
gone=

figure() { printf '%s\n' "$*" | tee -a "$out/figures.txt"; }

# check NAME SECONDS PROOF COMMAND...: runs a command for so long at most, within what is left to the part.
# PROOF is what its output must have, an extended regular expression: a command that ends with 0 and has
# not done its work has failed. Exit code 77 says that there is nothing to check here.
check() {
  local name=$1 limit=$2 proof=$3 left start code
  shift 3
  left=$((deadline - SECONDS))
  if [ -n "$gone" ] || [ "$left" -lt 5 ]; then
    figure "$name: left out, ${gone:-the time of the part is over}"
    failed=1
    return 1
  fi
  [ "$limit" -gt "$left" ] && limit=$left
  [ "$limit" -gt "${VOXSAW_CHECK_SECONDS:-$limit}" ] && limit=$VOXSAW_CHECK_SECONDS # of the tests of this script
  start=$SECONDS
  running=$name
  timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1 & # so that a signal is heard meanwhile
  child=$!
  wait $child
  code=$?
  [ -n "$aside" ] || file_log "$name"
  [ $code = 0 ] && ! grep -qE -- "$proof" "$logs/$name.log" && code=lied
  case $code in
    0) figure "$name: ok, $((SECONDS - start)) s" ;;
    77) figure "$name: left out: $(tail -n 1 "$logs/$name.log")" ;;
    124 | 137) failed=1; figure "$name: FAILED: not over after $limit s" ;;
    lied) failed=1; code=1; figure "$name: FAILED: it ended well, and its output does not show what was to be checked ($proof)" ;;
    *) failed=1; figure "$name: FAILED with $code: $(grep -v '^\s*$' "$logs/$name.log" | tail -n 1 | cut -c1-300)" ;;
  esac
  [ -n "$aside" ] || still_there "$name" $code
  return $code
}

# still_there NAME CODE: whether the GPU answers after a check that was not over in time
still_there() {
  [ "$2" = 124 ] || [ "$2" = 137 ] || return 0
  timeout -k 5 "${VOXSAW_CHECK_SECONDS:-30}" ./voxsaw doctor --device cuda --crop 32 >"$logs/answer.log" 2>&1 || gone="the GPU no longer answers after $1"
  file_log answer
}

# Checks that time nothing run side by side: aside starts one where a place is free, and together waits for all of them.
aside() {
  while [ "$(jobs -rp | wc -l)" -ge "$places" ]; do sleep 0.1; done # wait may miss a signal that comes as it begins
  (aside=1 child='' && trap '[ -z "$child" ] || kill "$child"; exit 130' TERM && call "$@") &
  names+=("$1") pids+=($!)
}

together() {
  local i code
  for i in "${!pids[@]}"; do
    while kill -0 "${pids[i]}" 2>/dev/null; do sleep 0.1; done
    wait "${pids[i]}"
    code=$?
    running=
    [ -e "$logs/${names[i]}.log" ] && file_log "${names[i]}"
    case $code in 0 | 77) ;; *) failed=1 ;; esac
    [ -n "$gone" ] || still_there "${names[i]}" $code
  done
  names=() pids=()
}

# file_log NAME: what a check printed goes into the log of the part, its middle left out where it is long
file_log() {
  running=
  {
    printf '\n===== %s\n' "$1"
    if [ "$(stat -c %s "$logs/$1.log")" -gt 400000 ]; then
      head -c 150000 "$logs/$1.log"
      printf '\n[...]\n'
      tail -c 250000 "$logs/$1.log"
    else
      cat "$logs/$1.log"
    fi
  } >>"$out/$part.log"
}

# keep NAME PATTERN: lines of a check's log that are figures
keep() { grep -E -- "$2" "$logs/$1.log" 2>/dev/null | cut -c1-300 | sed 's/^/  /' | tee -a "$out/figures.txt"; }

call() { check "$1" "$2" "$3" bash "$here/gpu-check.sh" --call "${@:4}"; }

figures() { python3 "$here/gpu-figures.py" "$@"; }

versions() {
  cat commit.txt
  ./voxsaw --version
  uname -a
  nproc
  nvidia-smi -q 2>/dev/null || echo "no nvidia-smi"
  python3 -c 'import sys; print("python", sys.version)'
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.is_available())' 2>/dev/null || echo "no PyTorch"
  ./voxsaw doctor --device cuda --crop 32
}

suite() { # PRECISION FAMILY: one family of kernels, in this process alone
  VOXSAW_TEST_SUITE=$1 ./cuda.test -test.v -test.run "^TestDevice\$/^$2\$"
}

sanitized() { # TOOL FAMILY
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
  VOXSAW_TEST_SUITE=bf16 compute-sanitizer --tool "$1" --error-exitcode 9 ./cuda.test -test.v -test.run "^TestDevice\$/^$2\$"
}

# ten VERB OUT FLAGS...: ten steps, small enough for a processor
ten() {
  local verb=$1 run=$2 crop=64x64x64 patch=16x16x16 own=()
  shift 2
  [ -n "$simulated" ] && crop=8x8x8 patch=4x4x4
  if [ "$verb" = pretrain ]; then
    own=(--grid 2x2x2 --patch "$patch" --features 32 --hidden 16 --rounds 1)
  else
    own=(--validate-overlap 0)
  fi
  ./voxsaw "$verb" --data prepared --channels 16 --levels 1 --batch 1 --warmup 0 --seed 3 --steps 10 --validate-every 0 --hold-out 0 --crop "$crop" "${own[@]}" --out "$run" --force "$@"
}

tensteps() { # VERB
  [ -e "runs/$1-cpu/metrics.csv" ] || { echo "no scans were packed"; return 77; }
  local p
  for p in bf16 fp32; do
    ten "$1" "runs/$1-$p" --device cuda --precision "$p" || return 1
  done
  figures losses "ten steps, $1" "runs/$1-cpu" "runs/$1-fp32" 1e-4 "runs/$1-bf16" 2e-2
}

weights() { VOXSAW_TEST_PATCHES=$1 ./cuda.test -test.v -test.run '^TestWeightsTimed$'; }
layers() { VOXSAW_TEST_PATCHES=$1 ./cuda.test -test.v -test.run '^TestLayers$'; }

# tuned FLAGS...: measures a network's convolutions; the file has those of earlier calls, too
tuned() { ./voxsaw tune --device cuda --out "$out/tuning.yaml" "$@"; }

# cudnn: the library that PyTorch brings along
cudnn() {
  python3 - 2>/dev/null <<'P'
import glob, os, sys
for folder in sys.path:
    for library in glob.glob(os.path.join(folder, "nvidia", "cudnn", "lib", "libcudnn.so.9")):
        print(library)
        sys.exit()
P
}

# what is timed on a GPU; the simulated one computes one tiny case
steps=(--steps 10 --warmup 3)
norm=instance
[ -n "$simulated" ] && steps=(--steps 1 --warmup 1) && norm=none

ours() { # NAME TASK FLAGS...
  local name=$1 task=$2
  shift 2
  ./voxsaw bench "$task" --norm $norm --device cuda --precision bf16 "${steps[@]}" "$@" | figures record "$name" ours "$task" --norm $norm "$@"
}

# whether there is PyTorch: importing it would take as long as a timing
torch_there() { python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; }

peer() { # NAME VARIANT TASK FLAGS...
  local name=$1 variant=$2 task=$3 device=(--device cuda --amp bf16) flags=()
  shift 3
  torch_there || { echo "no PyTorch here"; return 77; }
  [ -n "$simulated" ] && device=(--device cpu) # there is no PyTorch on the simulated GPU
  case $variant in *channels-last*) flags+=(--channels-last) ;; esac
  case $variant in *compile*) flags+=(--compile) ;; esac
  python3 peer_vnet.py "$task" --norm $norm "${device[@]}" "${steps[@]}" "${flags[@]}" "$@" | figures record "$name" "$variant" "$task" --norm $norm "$@"
}

# beside NAME SECONDS TASK FLAGS...: ours and PyTorch's eager step in the layout of tensor cores
beside() {
  local name=$1 limit=$2
  shift 2
  call "$name-ours" "$limit" '"recorded"' ours "$name" "$@"
  keep "$name-ours" '^\{"recorded'
  with_tuning "$name" "$limit" "$@"
  call "$name-torch" 90 '"recorded"' peer "$name" torch-channels-last "$@"
  keep "$name-torch" '^\{"recorded'
}

# with_tuning NAME SECONDS TASK FLAGS...: ours by what was measured here, where something was
with_tuning() {
  local name=$1 limit=$2
  shift 2
  [ -s "$out/tuning.yaml" ] || return 0
  call "$name-ours-tuned" "$limit" '"recorded"' ours "$name-tuned" "$@" --tuning "$out/tuning.yaml"
  keep "$name-ours-tuned" '^\{"recorded'
}

# code VARIANT TASK FLAGS...: one step of a compiled variant, which leaves its code in PyTorch's cache
code() {
  local variant=$1 task=$2 device=(--device cuda --amp bf16) flags=(--compile)
  shift 2
  torch_there || { echo "no PyTorch here"; return 77; }
  [ -n "$simulated" ] && device=(--device cpu)
  case $variant in *channels-last*) flags+=(--channels-last) ;; esac
  python3 peer_vnet.py "$task" --norm $norm "${device[@]}" --steps 1 --warmup 1 "${flags[@]}" "$@"
}

# compiling NAME TASK FLAGS...: PyTorch's compiler takes a minute of the processor for each variant, which is
# no part of a step: so that is done before anything is timed, side by side
compiling() {
  local name=$1 variant
  shift
  for variant in torch-compile-channels-last torch-compile; do
    aside "$name-$variant-code" 240 '"median_s"' code "$variant" "$@"
  done
}

# against NAME TASK FLAGS...: ours and every variant of PyTorch's, and the ratio where all of them finished
against() {
  local name=$1 variant limit
  shift
  call "$name-ours" 60 '"recorded"' ours "$name" "$@"
  for variant in torch torch-channels-last torch-compile-channels-last torch-compile; do
    case $variant in *compile*) limit=240 ;; *) limit=60 ;; esac
    call "$name-$variant" $limit '"recorded"' peer "$name" "$variant" "$@"
  done
  figures ratio "$name" | tee -a "$out/figures.txt"
}

whole_scan() {
  [ -e scan.nii.gz ] || { echo "no scan was packed"; return 77; }
  local window=96x96x96 more=()
  [ -n "$simulated" ] && window=16x16x16 more=(--channels 2 --windows 1)
  ./voxsaw bench predict scan.nii.gz --norm $norm --device cuda --window $window "${more[@]}"
}

# growth: the same step with more and more puzzles
growth() {
  local batch most=64 flags=(--grid 3)
  [ -n "$simulated" ] && most=1 flags=(--grid 2 --channels 2)
  for ((batch = 1; batch <= most; batch *= 2)); do
    ours "growth-$batch" pretrain "${flags[@]}" --batch $batch || return 1
  done
  figures growth
}

training() { # pretrain or finetune
  [ -d prepared ] || { echo "no scans were packed"; return 77; }
  local grid=3x3x3 crop=120x120x120 patch=0x0x0 finecrop=96x96x96 most=400 more=(--fold 1)
  if [ -n "$simulated" ]; then
    grid=2x2x2 crop=16x16x16 patch=4x4x4 finecrop=8x8x8 most=2 more=(--hold-out 0 --channels 16 --levels 1) # no whole scans are predicted
  fi
  if [ "$1" = pretrain ]; then
    ./voxsaw pretrain --data prepared --grid $grid --crop $crop --patch $patch --batch 2 --steps $most --validate-every 0 --validate-cases 1 --device cuda --out runs/puzzles --force "${more[@]}"
  else
    ./voxsaw finetune --data prepared --init runs/puzzles/last.safetensors --crop $finecrop --batch 1 --steps $most --validate-every 0 --validate-cases 1 --device cuda --out runs/organs --force "${more[@]}"
  fi
}

# launcher is the command that starts two ranks, where there are as many GPUs
launcher() {
  local gpus=${VOXSAW_SIM_GPUS:-0} name
  [ -n "$simulated" ] || gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
  [ "$gpus" -ge 2 ] || { echo "one GPU alone"; return 77; }
  for name in mpirun mpiexec mpiexec.mpich; do
    command -v $name >/dev/null && { echo $name; return; }
  done
  echo "no mpirun"
  return 77
}

# ranks RUN [ENVIRONMENT]: two ranks for ten steps, or two on the simulated GPU
ranks() {
  local start run=$1 crop=96x96x96 most=10 more=()
  shift
  [ -d prepared ] || { echo "no scans were packed"; return 77; }
  start=$(launcher) || { echo "$start"; return 77; }
  [ -n "$simulated" ] && crop=8x8x8 most=2 more=(--channels 16 --levels 1)
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@" "$start" -n 2 ./voxsaw finetune --data prepared --device cuda --precision fp32 --crop $crop --batch 4 --steps $most \
    --warmup 0 --seed 3 --hold-out 0 --validate-every 0 --validate-overlap 0 "${more[@]}" --out "$run" --force
}

# summed: what both ways of summing took, and whether they agree
summed() {
  [ -f runs/peers-memory/metrics.csv ] || { echo "no two ranks"; return 77; }
  figures losses "two ranks" runs/peers-memory runs/peers-nccl 1e-5
}

# --- Parts

families=(Conv Activate Optimiser Blend Memory Weights Elementwise Concat Reshape Pool MatMul Softmax Loss Rows Tokens Images)

first() {
  local family tool most=45 wanted=("${families[@]}")
  call versions 60 '^device|cuda|GPU' versions
  keep versions 'Product Name|Driver Version|CUDA Version|FB Memory|Max Clocks|^torch|^voxsaw'
  if [ -n "$simulated" ]; then # the whole suite runs in the tests
    most=400 wanted=(Activate Optimiser Blend Elementwise)
  fi
  # Old and new gradients of weights, compared and timed; no shape asks for the new ones until a GPU has timed both.
  if [ -n "$simulated" ]; then call weights $most '^weights of a step' weights 0; else call weights 60 '^weights of a step' weights 432; fi
  keep weights '^weights'
  # An illegal address makes a context useless: each family has a process of its own, and bf16, which
  # training takes, comes first.
  each_family bf16
  aside kernels $most '^--- PASS: TestMoments' kernels
  together
  call ten-finetune $most '^ten steps, finetune' tensteps finetune
  keep ten-finetune '^ten steps'
  call ten-pretrain $most '^ten steps, pretrain' tensteps pretrain
  keep ten-pretrain '^ten steps'
  if [ -n "$simulated" ]; then call layers $most '^layer' layers 0; else call layers 150 '^--- PASS: TestLayers' layers 27; fi
  keep layers '^layer'
  each_family tf32
  each_family fp32
  together
  if [ -z "$simulated" ]; then # these slow a GPU down for all
    for tool in memcheck racecheck; do
      for family in Activate Conv Optimiser Blend; do
        aside "$tool-$family" 150 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' sanitized $tool $family
      done
    done
    together
  fi
}

each_family() { # PRECISION
  local family
  for family in "${wanted[@]}"; do
    aside "$1-$family" $most "^ *--- PASS: TestDevice/$family " suite "$1" "$family"
  done
}

kernels() { ./cuda.test -test.v -test.run '^(TestMoments|TestRowsAdjoint|TestGroups|TestRecord|TestGroupWeights)$'; }

second() {
  local b
  if [ -n "$simulated" ]; then
    call tune 400 'different convolutions' tuned --channels 2 --levels 1 --crop 4x4x4
    beside infer 400 infer --crop 16 --channels 2 --batch 1
    call whole-scan 400 '"task":"predict"' whole_scan
    call growth 400 '^growth' growth
    return
  fi
  beside pretrain3-16 40 pretrain --grid 3 --batch 16
  beside segment-2 40 segment --crop 128 --batch 2
  check profile 30 'Kernels' ./voxsaw bench pretrain --grid 3 --batch 16 --norm instance --device cuda --profile
  check profile-segment 30 'Kernels' ./voxsaw bench segment --crop 128 --batch 2 --norm instance --device cuda --profile
  call tune 150 'different convolutions' tuned --task pretrain --crop 32x32x32 --batch 432 || figure "  tuning.yaml is cut: it has the convolutions that were measured until then"
  keep tune 'different convolutions'
  with_tuning pretrain3-16 30 pretrain --grid 3 --batch 16
  call tune-segment 150 'different convolutions' tuned --task segment --crop 128x128x128 --batch 2 || figure "  tuning.yaml is cut: it has the convolutions that were measured until then"
  keep tune-segment 'different convolutions'
  with_tuning segment-2 30 segment --crop 128 --batch 2
  call whole-scan 60 '"task":"predict"' whole_scan
  keep whole-scan '^\{'
  call growth 90 '^growth' growth
  keep growth '^growth'
  for b in 4 32; do beside "pretrain3-$b" 30 pretrain --grid 3 --batch $b; done
  for b in 1 4; do beside "segment-$b" 30 segment --crop 128 --batch $b; done
  if command -v ncu >/dev/null; then
    check ncu 90 'Duration|SM Frequency' ncu --set basic --kernel-name 'regex:conv|activate' --launch-count 40 ./voxsaw bench pretrain --grid 3 --batch 2 --norm instance --device cuda --steps 1 --warmup 0
  else
    figure "ncu: left out: it is not there"
  fi
}

compiled() {
  if [ -n "$simulated" ]; then
    compiling infer-all infer --crop 16 --channels 2 --batch 1
    together
    against infer-all infer --crop 16 --channels 2 --batch 1
    return
  fi
  compiling pretrain3 pretrain --grid 3 --batch 16
  compiling segment segment --crop 128 --batch 2
  together
  against pretrain3 pretrain --grid 3 --batch 16
  against segment segment --crop 128 --batch 2
}

real() {
  call real-pretrain 240 'last.safetensors|finished|solved|puzzles' training pretrain
  keep real-pretrain 'D<=2|in place|Correct'
  call real-finetune 240 'last.safetensors|finished|DSC|crops' training finetune
  keep real-finetune 'DSC|Dice|mean'
}

peers() {
  local most=120
  [ -n "$simulated" ] && most=400
  call peers-nccl $most '^gradients are summed' ranks runs/peers-nccl
  keep peers-nccl '^gradients are summed'
  call peers-memory $most '^gradients are summed|hosts' ranks runs/peers-memory VOXSAW_NCCL=none
  call peers-summed 30 '^two ranks' summed
  keep peers-summed '^two ranks'
}

# stopped: the machine is taken away, or somebody has seen enough
stopped() {
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
  if [ -n "$running" ]; then
    kill "$child" 2>/dev/null
    file_log "$running"
  fi
  figure "== stopped from outside"
  exit 130
}

main() {
  local called=$PWD
  cd "$here" || exit 1
  [ $# -gt 0 ] || { echo "gpu-check: say which part: first, second, compiled, real or peers" >&2; exit 2; }
  logs=$here/logs
  mkdir -p "$logs" runs
  out=$(cd "$called" && mkdir -p "${OUT:-.}" && cd "${OUT:-.}" && pwd) || exit 1
  export simulated out logs
  # which driver: the simulator, or the machine's
  export VOXSAW_CUDA_DRIVER=${VOXSAW_CUDA_DRIVER:-libcuda.so.1}
  VOXSAW_CUDNN=${VOXSAW_CUDNN:-$(cudnn)}
  export VOXSAW_CUDNN
  running= aside= names=() pids=()
  places=$(($(nproc) < 8 ? $(nproc) : 8))
  trap stopped TERM INT HUP
  local started=$SECONDS
  for part in "$@"; do
    case $part in
      first | second | compiled | real | peers) ;;
      *) echo "gpu-check: there is no part $part: first, second, compiled, real, peers" >&2; exit 2 ;;
    esac
    figure "== $part, $(date -u +%FT%TZ)"
    deadline=$((SECONDS + 60 * ${VOXSAW_CHECK_MINUTES:-8}))
    gone=
    "$part"
  done
  figure "== $([ "$failed" = 0 ] && echo "everything is right" || echo "something failed, see above"), after $((SECONDS - started)) s"
  exit "$failed"
}

case ${1:-} in
  pack) [ $# -eq 2 ] || { echo "usage: gpu-check.sh pack FILE" >&2; exit 2; }; pack "$2" ;;
  --simulate) shift; simulate "$@" ;;
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d' ;;
  --call) shift; cd "$here" && "$@" ;; # what a check runs: a function of this file
  *) main "$@" ;;
esac

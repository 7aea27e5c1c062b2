#!/usr/bin/env bash
# Checks and times the CUDA device on a machine with a GPU, in a single go.
#
#   scripts/gpu-check.sh pack gpu-check.tar.gz   here: builds, and packs what the machine with the GPU needs
#   bash gpu-check.sh [right] [fast] [real] [peers]   there, in the unpacked folder; without a name all, in this order
#   scripts/gpu-check.sh --simulate              packs, unpacks elsewhere, and runs all parts on the simulated GPU, small
#
# The pack holds the program (the kernels' machine code is in it), the device's test program, the
# peer in PyTorch and scans of OpenKBP: 64 MiB at most. There it needs bash, python3 and, for the
# comparison, PyTorch; compute-sanitizer and ncu are used where they are. VOXSAW_DATA names the
# folder of scans when packing (by default ../shared/data); without one the third part is left out.
#
#   right   versions, the suite of all devices at each precision, ten steps against the processor,
#           every layer in every variant of our own and every plan of cuDNN against the processor, with
#           its time; what voxsaw tune measures, as results/tuning-GPU.yaml, which
#           internal/tuning/shipped/ may take as it is
#   fast    steps and inference beside PyTorch's best, peak memory, profiles, the processor's growth on
#           16 cores beside PyTorch's, ncu, memcheck, racecheck
#   real    pretraining on OpenKBP at the paper's size, fine-tuning, Dice
#   peers   two ranks on two GPUs, whose gradients NCCL sums, beside sums through the host's memory;
#           where there are two GPUs and mpirun
#
# Each part takes nine minutes at most, the cheapest first. Figures are written to results/ as they
# come: NAME.log of every check, figures.txt with a line for each; after each part, results.tar.gz
# has all of them, to be taken home (--simulate copies them to gpu-check-results/, which git
# ignores). A check that fails, or runs out of time, stops no other; the exit code is 1 where any
# failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# --- Packing

pack() { # FILE [small]
  local root output folder data
  root=$(cd "$here/.." && pwd)
  output=$(realpath "$1")
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' RETURN
  set -e
  cd "$root"
  CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
  export CGO_CFLAGS
  go build -tags gpu,mpi -trimpath -ldflags '-s -w' -o "$folder/voxsaw" ./cmd/voxsaw
  go test -tags gpu -trimpath -ldflags '-s -w' -c -o "$folder/cuda.test" ./internal/device/cuda
  cp scripts/gpu-check.sh scripts/gpu-peer.py "$folder"
  git log -1 --format='%H %s' >"$folder/commit.txt"
  data=${VOXSAW_DATA:-../shared/data}/openkbp
  if [ -d "$data/imagesTr" ]; then
    mkdir -p "$folder/scans/imagesTr" "$folder/scans/labelsTr"
    local taken=0 image name
    for image in "$data"/imagesTr/*.nii.gz; do
      name=$(basename "$image")
      [ "${2:-}" = small ] && [ $((taken++)) -ge 4 ] && break
      cp "$image" "$folder/scans/imagesTr/"
      [ -f "$data/labelsTr/$name" ] && cp "$data/labelsTr/$name" "$folder/scans/labelsTr/"
    done
  else
    echo "gpu-check: no scans in $data: the checks that need some will be left out" >&2
  fi
  tar -C "$folder" -czf "$output" .
  local size
  size=$(stat -c %s "$output")
  echo "$output: $((size / 1048576)) MiB"
  [ "$size" -le $((64 << 20)) ] || { echo "gpu-check: more than 64 MiB" >&2; return 1; }
}

simulate() {
  local folder root
  root=$(cd "$here/.." && pwd)
  folder=$(mktemp -d)
  # shellcheck disable=SC2064 # as it is now
  trap "rm -rf '$folder'" EXIT
  (pack "$folder/pack.tar.gz" small) # not before ||, where set -e has no effect
  [ $? = 0 ] || exit 1
  mkdir "$folder/there"
  tar -C "$folder/there" -xzf "$folder/pack.tar.gz"
  "$here/../internal/device/cuda/sim/build.sh" "$folder/there/libcudasim.so" || exit 1
  "$here/../internal/device/cuda/sim/cudnn/build.sh" "$folder/there/libcudnnsim.so" || exit 1
  "$here/../internal/device/cuda/sim/nccl/build.sh" "$folder/there/libncclsim.so" || exit 1
  VOXSAW_CHECK_SIMULATED=1 VOXSAW_SIM_GPUS=2 VOXSAW_NCCL="$folder/there/libncclsim.so" VOXSAW_CUDA_DRIVER="$folder/there/libcudasim.so" VOXSAW_CUDNN="$folder/there/libcudnnsim.so" bash "$folder/there/gpu-check.sh" "$@"
  local code=$?
  mkdir -p "$root/gpu-check-results" && cp "$folder/there/results/"* "$root/gpu-check-results/"
  exit $code
}

# --- Checks

simulated=${VOXSAW_CHECK_SIMULATED:-}
minutes=${VOXSAW_CHECK_MINUTES:-9} # of a part
failed=0

figure() { printf '%s\n' "$*" | tee -a "$results/figures.txt"; }

# check NAME SECONDS COMMAND...: runs a command for so long at most, within what is left to the part
check() {
  local name=$1 limit=$2 left start code
  shift 2
  left=$((deadline - SECONDS))
  if [ "$left" -lt 5 ]; then
    figure "$name: left out, the part's time is over"
    failed=1
    return
  fi
  [ "$limit" -gt "$left" ] && limit=$left
  start=$SECONDS
  timeout -k 5 "$limit" "$@" >"$results/$name.log" 2>&1
  code=$?
  case $code in
    0) figure "$name: ok, $((SECONDS - start)) s" ;;
    77) figure "$name: left out: $(tail -n 1 "$results/$name.log")" ;;
    124 | 137) failed=1; figure "$name: FAILED: not over after $limit s" ;;
    *) failed=1; figure "$name: FAILED with $code: $(grep -v '^\s*$' "$results/$name.log" | tail -n 1 | cut -c1-300)" ;;
  esac
  return $code
}

# keep NAME PATTERN: lines of a check's log that are figures
keep() { grep -E "$2" "$results/$1.log" 2>/dev/null | cut -c1-300 | sed 's/^/  /' | tee -a "$results/figures.txt"; }

versions() {
  cat commit.txt
  ./voxsaw --version
  uname -a
  nproc
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv 2>/dev/null || echo "no nvidia-smi"
  python3 -c 'import sys; print("python", sys.version)'
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.is_available())' 2>/dev/null || echo "no PyTorch"
  ./voxsaw doctor --device cuda --crop 32
}

suite() { # PRECISION PATTERN
  VOXSAW_TEST_SUITE=$1 ./cuda.test -test.v -test.run "^TestDevice\$$2"
}

prepared() {
  [ -d scans ] || { echo "no scans in the pack"; return 77; }
  ./voxsaw prepare scans --out prepared
}

# the flags of ten steps, small enough for the processor
ten() { # VERB OUT FLAGS...
  local verb=$1 out=$2 crop=64x64x64 patch=16x16x16 own=()
  shift 2
  [ -n "$simulated" ] && crop=8x8x8 patch=4x4x4
  if [ "$verb" = pretrain ]; then
    own=(--grid 2x2x2 --patch "$patch" --features 32 --hidden 16 --rounds 1)
  else
    own=(--validate-overlap 0)
  fi
  ./voxsaw "$verb" --data prepared --channels 16 --levels 1 --batch 1 --warmup 0 --seed 3 --steps 10 --validate-every 0 --hold-out 0 --crop "$crop" "${own[@]}" --out "$out" --force "$@"
}

tensteps() { # VERB
  [ -d prepared ] || { echo "no prepared scans"; return 77; }
  ten "$1" "runs/$1-cpu" --conv direct || return 1
  local p
  for p in fp32 bf16; do
    ten "$1" "runs/$1-$p" --device cuda --precision "$p" || return 1
  done
  python3 - "$1" <<'P'
import csv, sys
def losses(name): return [float(r["loss"]) for r in csv.DictReader(open(f"runs/{sys.argv[1]}-{name}/metrics.csv"))]
cpu, bad = losses("cpu"), False
for precision, most in (("fp32", 1e-4), ("bf16", 2e-2)):
    gpu = losses(precision)
    error = max(abs(a - b) / abs(a) for a, b in zip(cpu, gpu, strict=True))
    bad |= not error <= most or len(gpu) != 10
    print(f"ten steps {sys.argv[1]} {precision}: losses of the GPU differ by {error:.1e} at most, {most:g} is allowed")
sys.exit(bad)
P
}

layers() { VOXSAW_TEST_PATCHES=$1 ./cuda.test -test.v -test.run '^TestLayers$'; }

# tune FLAGS...: measures a network's convolutions; the file gets the GPU's name
tune() {
  local file name code
  file=$results/tuning.part
  ./voxsaw tune --device cuda --out "$file" "$@"
  code=$?
  name=$(sed -n 's/^processor: "\(.*\), driver [^,]*, \(.*\)"$/\1-\2/p' "$file" | tr '[:upper:] /' '[:lower:]--')
  [ -n "$name" ] && cp "$file" "$results/tuning-$name.yaml"
  return $code
}

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

# compare NAME SECONDS TASK FLAGS...: ours, then PyTorch's in each way, one after the other
compare() {
  local name=$1 limit=$2 task=$3 norm=instance flag
  shift 3
  local steps=(--steps 10 --warmup 3) device=(--device cuda --amp bf16)
  # the simulated GPU computes one tiny case; its peer is PyTorch on the processor
  [ -n "$simulated" ] && steps=(--steps 1 --warmup 1) && device=(--device cpu) && norm=none
  check "$name-ours" "$limit" ./voxsaw bench "$task" --norm "$norm" --device cuda --precision bf16 "${steps[@]}" "$@"
  keep "$name-ours" '^\{'
  for flag in "" "--channels-last" "--compile" "--compile --channels-last"; do
    # shellcheck disable=SC2086 # none, or words
    check "$name-torch$(tr -d ' ' <<<"$flag")" "$limit" bash "$here/gpu-check.sh" --call peer "$task" --norm "$norm" "${device[@]}" "${steps[@]}" $flag "$@"
    keep "$name-torch$(tr -d ' ' <<<"$flag")" '^\{'
    [ -n "$simulated" ] && break
  done
  ratio "$name"
}

peer() {
  python3 -c 'import torch' 2>/dev/null || { echo "no PyTorch here"; return 77; }
  python3 gpu-peer.py "$@"
}

ratio() { # NAME: ours beside PyTorch's best
  python3 - "$results" "$1" <<'P' | tee -a "$results/figures.txt"
import glob, json, sys
def lines(pattern):
    for f in glob.glob(f"{sys.argv[1]}/{sys.argv[2]}{pattern}.log"):
        yield from (json.loads(l) for l in open(f) if l.startswith("{"))
ours, theirs = min(lines("-ours"), key=lambda r: r["median_s"], default=None), min(lines("-torch*"), key=lambda r: r["median_s"], default=None)
if ours and theirs:
    print(f"  {sys.argv[2]}: {theirs['median_s'] / ours['median_s']:.2f} times as fast as PyTorch's best, {ours['peak_mib'] / theirs['peak_mib']:.2f} of its memory")
P
}

# growth: a step on 1, 2, 4, 8 and 16 threads of the processor, ours and PyTorch's
growth() {
  local cores most=16 crop=48 channels=16 peer=1 threads
  cores=$(nproc)
  [ -n "$simulated" ] && most=2 crop=32 channels=2
  python3 -c 'import torch' 2>/dev/null || peer=
  for ((threads = 1; threads <= most && threads <= cores; threads *= 2)); do
    local flags=(segment --crop $crop --channels $channels --batch 1 --norm instance --threads $threads --steps 2 --warmup 1)
    ./voxsaw bench "${flags[@]}" --device cpu | grep '^{' >"growth-ours-$threads.json" || return 1
    [ -z "$peer" ] || python3 gpu-peer.py "${flags[@]}" --device cpu | grep '^{' >"growth-torch-$threads.json" || return 1
  done
  python3 - <<'P'
import glob, json, re
def seconds(who):
    return {int(re.search(r"-(\d+)", f)[1]): json.load(open(f))["median_s"] for f in glob.glob(f"growth-{who}-*.json")}
found = {"voxsaw": seconds("ours"), "PyTorch": seconds("torch")}
for threads in sorted(found["voxsaw"]):
    said = [f"{who} {s[threads]:.3f} s, {s[1] / s[threads]:.2f} times one thread" for who, s in found.items() if threads in s]
    print(f"growth, {threads} threads: " + "; ".join(said))
if not found["PyTorch"]:
    print("growth: no PyTorch here to compare with")
P
}

training() { # pretrain or finetune
  [ -d prepared ] || { echo "no prepared scans"; return 77; }
  local grid=3x3x3 crop=120x120x120 patch=0x0x0 finecrop=96x96x96 steps=400 fine=400 more=(--fold 1)
  if [ -n "$simulated" ]; then
    grid=2x2x2 crop=16x16x16 patch=4x4x4 finecrop=8x8x8 steps=2 fine=2 more=(--hold-out 0 --channels 16 --levels 1) # no whole scans are predicted
  fi
  if [ "$1" = pretrain ]; then
    ./voxsaw pretrain --data prepared --grid $grid --crop $crop --patch $patch --batch 2 --steps $steps --validate-every 0 --validate-cases 1 --device cuda --out runs/puzzles --force "${more[@]}"
  else
    ./voxsaw finetune --data prepared --init runs/puzzles/last.safetensors --crop $finecrop --batch 1 --steps $fine --validate-every 0 --validate-cases 1 --device cuda --out runs/organs --force "${more[@]}"
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

# ranks OUT [ENVIRONMENT]: two ranks for ten steps, or two on the simulated GPU
ranks() {
  local start out=$1 crop=96x96x96 steps=10 more=()
  shift
  [ -d prepared ] || { echo "no prepared scans"; return 77; }
  start=$(launcher) || { echo "$start"; return 77; }
  [ -n "$simulated" ] && crop=8x8x8 steps=2 more=(--channels 16 --levels 1)
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@" "$start" -n 2 ./voxsaw finetune --data prepared --device cuda --precision fp32 --crop $crop --batch 4 --steps $steps \
    --warmup 0 --seed 3 --hold-out 0 --validate-every 0 --validate-overlap 0 "${more[@]}" --out "$out" --force
}

# summed: what both ways of summing took, and whether they agree
summed() {
  [ -f runs/peers-memory/metrics.csv ] || { echo "no two ranks"; return 77; }
  python3 - <<'P'
import csv, statistics, sys
def column(run, name): return [float(r[name]) for r in csv.DictReader(open(f"runs/peers-{run}/metrics.csv"))]
a, b = column("nccl", "loss"), column("memory", "loss")
error = max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))
seconds = [statistics.median(column(run, "seconds")) for run in ("nccl", "memory")]
print(f"two ranks: losses differ by {error:.1e} at most, 1e-5 is allowed; a step takes {seconds[0]:.3f} s with NCCL, {seconds[1]:.3f} s through the host's memory")
sys.exit(not error <= 1e-5)
P
}

right() {
  local p most=90 # seconds of a check
  [ -n "$simulated" ] && most=400 # which is slow
  check versions $most bash "$here/gpu-check.sh" --call versions
  keep versions '.'
  for p in fp32 tf32 bf16; do
    if [ -n "$simulated" ]; then # the whole suite runs in the tests
      check "suite-$p" $most bash "$here/gpu-check.sh" --call suite "$p" '/^(Memory|Weights|Elementwise|Concat|Reshape|Pool|Softmax|Rows|Tokens|Images|Optimiser|Blend)$'
    else
      check "suite-$p" 60 bash "$here/gpu-check.sh" --call suite "$p" ''
    fi
  done
  check kernels $most ./cuda.test -test.v -test.run '^(TestMoments|TestRowsAdjoint|TestGroups|TestRecord)$'
  check prepare 120 bash "$here/gpu-check.sh" --call prepared
  check ten-finetune $most bash "$here/gpu-check.sh" --call tensteps finetune
  keep ten-finetune '^ten steps'
  check ten-pretrain $most bash "$here/gpu-check.sh" --call tensteps pretrain
  keep ten-pretrain '^ten steps'
  if [ -n "$simulated" ]; then check layers $most bash "$here/gpu-check.sh" --call layers 0; else check layers 200 bash "$here/gpu-check.sh" --call layers 27; fi
  keep layers '^layer'
  if [ -n "$simulated" ]; then
    check tune $most bash "$here/gpu-check.sh" --call tune --channels 2 --levels 1 --crop 4x4x4
  else
    check tune 100 bash "$here/gpu-check.sh" --call tune --task pretrain --crop 32x32x32 --batch 432
    check tune-segment 100 bash "$here/gpu-check.sh" --call tune --task segment --crop 128x128x128 --batch 2
    keep tune-segment '^(forward|transposed|weights)|different convolutions'
  fi
  keep tune '^(forward|transposed|weights)|different convolutions'
}

fast() {
  local most=180 # seconds of a check
  if [ -n "$simulated" ]; then
    most=400
    compare infer 300 infer --crop 16 --channels 2
  else
    compare pretrain3 60 pretrain --grid 3 --batch 16
    compare segment 60 segment --crop 128 --batch 2
    compare pretrain2 60 pretrain --grid 2 --batch 16
    compare infer 60 infer --crop 128
    check profile 60 ./voxsaw bench pretrain --grid 3 --batch 16 --norm instance --device cuda --profile
  fi
  check growth $most bash "$here/gpu-check.sh" --call growth
  keep growth '^growth'
  if command -v compute-sanitizer >/dev/null && [ -z "$simulated" ]; then
    check memcheck 120 env VOXSAW_TEST_SUITE=bf16 compute-sanitizer --tool memcheck --error-exitcode 9 ./cuda.test -test.run '^TestDevice$/^(Elementwise|Loss|Reshape|MatMul)$'
    check racecheck 120 env VOXSAW_TEST_SUITE=bf16 compute-sanitizer --tool racecheck --error-exitcode 9 ./cuda.test -test.run '^TestDevice$/^(Loss|Reshape|MatMul)$'
  else
    figure "memcheck, racecheck: left out: no compute-sanitizer, or no GPU"
  fi
  if command -v ncu >/dev/null && [ -z "$simulated" ]; then
    check ncu 120 ncu --set basic --kernel-name 'regex:conv|activate' --launch-count 40 ./voxsaw bench pretrain --grid 3 --batch 2 --norm instance --device cuda --steps 1 --warmup 0
  else
    figure "ncu: left out: it is not there, or there is no GPU"
  fi
}

real() {
  [ -d prepared ] || check prepare-real 120 bash "$here/gpu-check.sh" --call prepared
  check real-pretrain 300 bash "$here/gpu-check.sh" --call training pretrain
  keep real-pretrain 'D<=2|in place|Correct'
  check real-finetune 300 bash "$here/gpu-check.sh" --call training finetune
  keep real-finetune 'DSC|Dice|mean'
}

peers() {
  local most=120
  [ -n "$simulated" ] && most=400
  [ -d prepared ] || check prepare-peers 120 bash "$here/gpu-check.sh" --call prepared
  check peers-nccl $most bash "$here/gpu-check.sh" --call ranks runs/peers-nccl
  keep peers-nccl '^gradients are summed'
  check peers-memory $most bash "$here/gpu-check.sh" --call ranks runs/peers-memory VOXSAW_NCCL=none
  check peers-summed 30 bash "$here/gpu-check.sh" --call summed
  keep peers-summed '^two ranks'
}

main() {
  cd "$here" || exit 1
  results=$here/results
  mkdir -p "$results" runs
  export simulated results
  # which driver: the simulator, or the machine's
  export VOXSAW_CUDA_DRIVER=${VOXSAW_CUDA_DRIVER:-libcuda.so.1}
  VOXSAW_CUDNN=${VOXSAW_CUDNN:-$(cudnn)}
  export VOXSAW_CUDNN
  [ $# -gt 0 ] || set -- right fast real peers
  local part
  for part in "$@"; do
    case $part in
      right | fast | real | peers) ;;
      *) echo "gpu-check: there is no part $part: right, fast, real, peers" >&2; exit 2 ;;
    esac
    figure "== $part, $(date -u +%FT%TZ)"
    deadline=$((SECONDS + 60 * minutes))
    $part
    tar -czf results.tar.gz results
  done
  figure "== $([ "$failed" = 0 ] && echo "everything is right" || echo "something failed, see above")"
  tar -czf results.tar.gz results
  exit "$failed"
}

case ${1:-} in
  pack) [ $# -eq 2 ] || { echo "usage: gpu-check.sh pack FILE" >&2; exit 2; }; pack "$2" ;;
  --simulate) shift; simulate "$@" ;;
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d' ;;
  --call) shift; cd "$here" && "$@" ;; # what a check runs: a function of this file
  *) main "$@" ;;
esac

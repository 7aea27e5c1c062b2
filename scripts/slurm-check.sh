#!/usr/bin/env bash
# Runs what docs/cluster.md says of Slurm, on this machine alone: an array of eight trials, of which one
# is killed and one is put back into the queue; an array whose trials have two ranks each; and the
# training of two ranks, which is put back into the queue. Runs as root, by hand, in a few minutes, and
# installs what is missing. The daemons have ports and folders of their own, and end with the script.
#
#   bash scripts/slurm-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null || ! command -v mpiexec.mpich >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends slurmctld slurmd slurm-client munge mpich
fi

here=$PWD scratch=$(mktemp -d)
chmod 755 "$scratch"
daemons=()
finish() {
  for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  rm -rf "$scratch"
}
trap finish EXIT
fail() {
  echo "$*" >&2
  tail -n 20 "$scratch"/*.log "$scratch"/jobs/*/slurm-*.log >&2 || true
  exit 1
}
# until_ COMMAND: waits until something is so, for three minutes
until_() {
  for _ in $(seq 900); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  fail "never came true: $*"
}

mkdir -p "$scratch"/{bin,jobs,state,spool}
CGO_ENABLED=0 go build -tags mpi -o "$scratch/bin/voxsaw" ./cmd/voxsaw
CGO_ENABLED=0 go test -c -o "$scratch/bin/phantom" ./cli/tests/scans # which this name makes write scans
export PATH="$scratch/bin:$PATH"

dd if=/dev/urandom of="$scratch/key" bs=128 count=1 status=none
chmod 600 "$scratch/key"
munged --foreground --force --key-file="$scratch/key" --socket="$scratch/munge" --pid-file="$scratch/munge.pid" --seed-file="$scratch/seed" --log-file="$scratch/munged.log" 2>/dev/null &
daemons+=($!)
export SLURM_CONF="$scratch/slurm.conf"
cat >"$SLURM_CONF" <<END
ClusterName=check
SlurmctldHost=$(hostname -s)
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket=$scratch/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$(hostname -s) CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
until_ test -S "$scratch/munge"
slurmctld -D -i 2>/dev/null &
daemons+=($!)
slurmd -D 2>/dev/null &
daemons+=($!)
until_ bash -c "sinfo -h -o %T | grep -qx idle"

cd "$scratch/jobs"
phantom -cases 6 -labelled 6 scans
voxsaw prepare scans --out prepared
cat >plan.yaml <<END
data: prepared
folds: 2
fractions: [1]
seeds: [1, 2]
initialisations:
  - {name: scratch}
  - {name: rotation, pretrain: {}}
pretrain:
  task: rotation
  network: {channels: 2, levels: 1}
  train: {steps: 10}
  crop: 16
  batch: 2
finetune:
  network: {channels: 2, levels: 1}
  train: {steps: 150, checkpoint_every: 5}
  crop: 16
  batch: 2
  labels: [2, 3]
END

state() { squeue -h -r -j "$1" -o %T 2>/dev/null; }
steps() { # FOLDER N: whether the log of a training has more than N steps
  [ "$(wc -l <"$1/metrics.csv")" -gt "$2" ]
}
gone() { [ -z "$(state "$1")" ]; }
is() { [ "$(state "$1")" = "$2" ]; }
again() { # a job that was put back waits two minutes; this one need not
  until_ is "$1" PENDING
  scontrol update "jobid=$1" starttime=now
}
trial() { # N: the folder of a trial below the experiment's
  voxsaw crossval --config plan.yaml --plan --json | python3 -c "
import json, sys
t = json.load(sys.stdin)['trials'][$1 - 1]
print('trials/%s/fold-%d/fraction-%g/seed-%d' % (t['initialisation'], t['fold'], t['fraction'], t['seed']))"
}

echo "== eight trials, of which one is killed and one is put back into the queue"
voxsaw crossval --config plan.yaml --out alone --threads 1 >/dev/null
voxsaw crossval --config plan.yaml --out array --threads 1 --memory 1 --write slurm
job=$(sbatch --parsable array/crossval.sbatch)
until_ steps "array/$(trial 1)" 10
scancel --batch --signal=KILL "${job}_1"
until_ steps "array/$(trial 2)" 10
scontrol requeue "${job}_2"
again "${job}_2"
until_ gone "$job"
grep -q "continuing at step" "array/slurm-${job}_2.log" || fail "trial 2 was not put back into the queue"
[ ! -e "array/$(trial 1)/scores.csv" ] || fail "trial 1 was not killed"
job=$(sbatch --parsable --array=1 array/crossval.sbatch)
until_ gone "$job"
grep -q "continuing at step" "array/slurm-${job}_1.log" || fail "trial 1 does not go on where it was killed"
voxsaw crossval --config array/crossval.yaml --out array --memory 1GiB >/dev/null
cmp alone/scores.csv array/scores.csv

echo "== a trial of two ranks, which is told to save and submitted again"
voxsaw crossval --config plan.yaml --out ranks --threads 1 --memory 1 --ranks 2 --write slurm
job=$(sbatch --parsable --array=3 ranks/crossval.sbatch)
until_ steps "ranks/$(trial 3)" 10
scancel --signal=USR1 "${job}_3"
until_ gone "$job"
grep -q "and saved" "ranks/slurm-${job}_3.log" || fail "nothing was saved"
job=$(sbatch --parsable --array=3 ranks/crossval.sbatch)
until_ gone "$job"
python3 - "$(trial 3)" <<END
import csv, sys
rows = [list(csv.DictReader(open(f"{study}/{sys.argv[1]}/scores.csv"))) for study in ("alone", "ranks")]
assert len(rows[0]) == len(rows[1]) > 0
for one, two in zip(*rows):
    assert one["case"] == two["case"] and abs(float(one["dsc"]) - float(two["dsc"])) < 0.02, (one, two)
END

echo "== the script of docs/cluster.md, on one node, which is put back into the queue"
{
  sed -n '/^#!\/bin\/bash$/,/^```$/p' "$here/docs/cluster.md" | sed '/^```$/d' |
    sed 's/--nodes=4/--nodes=1/; s/--cpus-per-task=16/--cpus-per-task=1/; s/--batch 32/--batch 4/'
} >pretrain.sbatch
settings="--task rotation --channels 2 --levels 1 --crop 16 --steps 200 --checkpoint-every 5 --schedule constant --threads 1"
sed -i "s/ --resume\$/ $settings --resume/" pretrain.sbatch
grep -q -- "--resume" pretrain.sbatch
job=$(sbatch --parsable --output=pretrain.log --open-mode=append pretrain.sbatch)
until_ steps runs/puzzles 10
scontrol requeue "$job"
again "$job"
until_ gone "$job"
# shellcheck disable=SC2086
mpiexec.mpich -n 2 voxsaw pretrain --data prepared --batch 4 --out runs/undisturbed $settings
voxsaw verify runs/puzzles
cmp runs/undisturbed/last.safetensors runs/puzzles/last.safetensors
grep -q "continuing at step" pretrain.log || fail "the job was not put back into the queue"
echo "== done"

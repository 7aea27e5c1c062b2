#!/usr/bin/env bash
# Carries out the steps of testdata/kubernetes/Containerfile and Containerfile.mpi without a container
# engine: debootstrap makes what they begin with, and each step is done in that folder. Then it runs, as
# the pods would, the command of the Job's first trial, and that of the first MPIJob, whose two workers
# are network namespaces that the launcher reaches by ssh. Runs as root, by hand, in some minutes, and
# installs what is missing.
#
#   bash scripts/container-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v debootstrap >/dev/null || ! command -v ip >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap iproute2
fi

files=$PWD/testdata/kubernetes scratch=$(mktemp -d)
chmod 755 "$scratch"
finish() {
  for host in launcher worker-0 worker-1; do
    if [ -e "/run/netns/vx-$host" ]; then
      ip netns pids "vx-$host" | xargs -r kill # the ssh servers
      ip netns del "vx-$host"
    fi
  done
  wait
  for root in one mpi; do umount "$scratch/$root"/{proc,sys,work} 2>/dev/null; done
  # nothing may be mounted below a folder that is removed
  if ! grep -q " $scratch" /proc/mounts; then rm -rf "$scratch"; fi
}
trap finish EXIT

# The environment is a container's, and nothing of this machine's.
clean=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)

# image FILE ROOT: does the steps of a container file in a folder that holds the image that it begins
# with. The context is $scratch/context.
image() {
  local word rest root=$2
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  while read -r word rest; do
    echo "$word $rest"
    case $word in
    RUN) chroot "$root" "${clean[@]}" /bin/sh -c "$rest" >"$scratch/step.log" 2>&1 || { cat "$scratch/step.log"; exit 1; } ;;
    COPY) read -r from to <<<"$rest" && cp "$scratch/context/$from" "$root$to" ;;
    USER) user=$rest ;;
    WORKDIR) mkdir -p "$root$rest" && mount --bind "$scratch/volume" "$root$rest" ;;
    CMD) chroot --userspec="$user" "$root" "${clean[@]}" $(tr -d '[]",' <<<"$rest") >/dev/null ;;
    FROM) ;;
    *) echo "$1: no step $word is known here" >&2 && exit 1 ;;
    esac
  done < <(grep -v '^#' "$1" | grep .)
}

mkdir -p "$scratch"/{context,volume,bin}
suite=$(sed -n 's/^FROM .*debian:\(.*\)-slim$/\1/p' "$files/Containerfile" "$files/Containerfile.mpi" | sort -u) # one for both
debootstrap --variant=minbase "$suite" "$scratch/one" http://deb.debian.org/debian >"$scratch/debootstrap.log" || { tail "$scratch/debootstrap.log" && exit 1; }
cp -a "$scratch/one" "$scratch/mpi"
CGO_ENABLED=0 go test -c -o "$scratch/bin/phantom" ./cli/tests/scans # which this name makes write scans

echo "== Containerfile"
CGO_ENABLED=0 go build -o "$scratch/context/voxsaw" ./cmd/voxsaw
image "$files/Containerfile" "$scratch/one"

cd "$scratch/volume"
"$scratch/bin/phantom" -cases 4 -labelled 4 scans
"$scratch/context/voxsaw" prepare scans --out prepared
cat >plan.yaml <<END
data: prepared
folds: 2
fractions: [1]
seeds: [1]
initialisations: [{name: scratch}]
finetune:
  network: {channels: 2, levels: 1}
  train: {steps: 10}
  crop: 16
  batch: 2
  labels: [2, 3]
END
for ranks in 0 2; do
  "$scratch/context/voxsaw" crossval --config plan.yaml --out "study-$ranks" --threads 1 --memory 1 --write kubernetes --ranks $ranks
done
chown -R 1000:1000 .

echo "== the first trial of the Job"
line=$(sed -n 's/^ *\(exec voxsaw .*\)$/\1/p' study-0/crossval.job.yaml)
chroot --userspec=1000:1000 "$scratch/one" "${clean[@]}" JOB_COMPLETION_INDEX=0 /bin/sh -c "cd /work && $line"
cd - >/dev/null

echo "== Containerfile.mpi"
CGO_ENABLED=0 go build -tags mpi -o "$scratch/context/voxsaw" ./cmd/voxsaw
image "$files/Containerfile.mpi" "$scratch/mpi"

echo "== the first MPIJob"
# on_host HOST COMMAND: a pod, which is a network namespace with a hostname of its own
on_host() {
  local host=$1
  shift
  ip netns exec "vx-$host" unshare --uts /bin/sh -c 'hostname "$0"; exec chroot --userspec=1000:1000 "$@"' "$host" "$scratch/mpi" "${clean[@]}" "$@"
}
ip netns add vx-launcher
ip -n vx-launcher link add pods type bridge
ip -n vx-launcher addr add 10.78.0.1/24 dev pods
ip -n vx-launcher link set pods up
ip -n vx-launcher link set lo up
# as the operator mounts them
mkdir -p "$scratch/mpi/etc/mpi" "$scratch/mpi/home/voxsaw/.ssh"
ssh-keygen -q -t rsa -N '' -f "$scratch/mpi/home/voxsaw/.ssh/id_rsa"
cp "$scratch/mpi/home/voxsaw/.ssh/id_rsa.pub" "$scratch/mpi/home/voxsaw/.ssh/authorized_keys"
chmod 644 "$scratch/mpi/home/voxsaw/.ssh/"*
for n in 0 1; do
  host=worker-$n
  ip netns add "vx-$host"
  ip -n vx-launcher link add "pod$n" type veth peer name eth0 netns "vx-$host"
  ip -n vx-launcher link set "pod$n" master pods up
  ip -n "vx-$host" addr add "10.78.0.$((n + 2))/24" dev eth0
  ip -n "vx-$host" link set eth0 up
  ip -n "vx-$host" link set lo up
  echo "10.78.0.$((n + 2)) slots=1" >>"$scratch/mpi/etc/mpi/hostfile"
  server=$(sed -n 's/^ *command: \[\(.*sshd.*\)\]$/\1/p' "$scratch/volume/study-2/crossval.mpijobs.yaml" | head -n 1 | tr -d ,)
  # shellcheck disable=SC2086
  on_host "$host" $server 2>"$scratch/$host.log" &
done
line=$(awk '/>-$/ {on = 1; next} /resources:/ {on = 0} on' "$scratch/volume/study-2/crossval.mpijobs.yaml" | head -n 2 | tr -s '\n ' ' ')
on_host launcher HOME=/home/voxsaw OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
  OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" /bin/sh -c "cd /work && $line"
cmp "$scratch"/volume/study-{0,2}/trials/scratch/fold-1/fraction-1/seed-1/scores.csv
echo "== done"

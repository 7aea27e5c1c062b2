#!/usr/bin/env bash
# Tries locks and renames on NFS: parts of a data set that are prepared at once, a run that another
# machine wants to go on with, and a study that two machines share. User-mode Linux is the machine, for
# it has a server and a client of NFS whatever the kernel here has; two mounts stand for two machines,
# as neither sees the other's locks but by the server. Runs as root, by hand, in a few minutes, and
# installs what is missing.
#
#   bash scripts/nfs-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v linux.uml >/dev/null || ! command -v rpc.nfsd >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends user-mode-linux nfs-kernel-server nfs-common kmod
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/modules"
go build -o "$scratch/voxsaw" ./cmd/voxsaw
CGO_ENABLED=0 go test -c -o "$scratch/phantom" ./cli/tests/scans # which this name makes write scans
"$scratch/phantom" -cases 6 -labelled 4 "$scratch/scans"
cat >"$scratch/plan.yaml" <<'END'
folds: 2
run_folds: [1]
fractions: [1]
seeds: [1, 2]
initialisations: [{name: scratch}, {name: rotation, pretrain: {}}]
pretrain:
  task: rotation
  network: {channels: 2, levels: 1}
  train: {steps: 10}
  crop: 16
finetune:
  network: {channels: 2, levels: 1}
  train: {steps: 20}
  crop: 16
  labels: [2, 3]
END

# What runs in there sees the files of this machine; what it mounts is its own.
cat >"$scratch/init" <<'END'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
scratch=$(dirname "$0")
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for folder in /run /mnt /var/lib/nfs "$scratch/modules"; do mount -t tmpfs tmpfs $folder; done
mkdir -p "$scratch/modules/lib/modules/$(uname -r)" /var/lib/nfs/v4recovery /run/rpc_pipefs /mnt/{export,a,b}
mount --bind "/usr/lib/uml/modules/$(uname -r)" "$scratch/modules/lib/modules/$(uname -r)"
for module in nfsd nfs nfsv4; do modprobe -d "$scratch/modules" $module; done
ip link set lo up
hostname uml
touch /var/lib/nfs/{etab,rmtab}
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
mount -t tmpfs -o size=400m tmpfs /mnt/export
exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/mnt/export'
rpc.mountd -N 2 -N 3
rpc.nfsd -N 3 -V 4 4
mount -t nfs4 -o vers=4.2,nosharecache 127.0.0.1:/ /mnt/a
mount -t nfs4 -o vers=4.1,nosharecache 127.0.0.1:/ /mnt/b
timeout 200 bash "$scratch/work" && echo fine >"$scratch/outcome"
sync
echo o >/proc/sysrq-trigger
sleep 60
END
cat >"$scratch/work" <<'END'
set -euo pipefail
scratch=$(dirname "$0")
grep nfs4 /proc/mounts
PATH=$scratch:$PATH
cp -r "$scratch/scans" /mnt/export/scans
sleep 10 # the server grants no locks at first
cd /mnt

echo "== two parts from two machines"
voxsaw prepare a/scans --out export/alone
voxsaw prepare a/scans --out a/prepared --part 1/2 & part=$!
voxsaw prepare a/scans --out b/prepared --part 2/2
wait $part
diff -r --exclude=.voxsaw.lock export/alone export/prepared

echo "== a run that is held on another machine"
run="pretrain --task rotation --data a/prepared --channels 2 --levels 1 --crop 16 --threads 1 --checkpoint-every 5 --resume"
voxsaw $run --steps 100000 --out a/run & held=$!
until [ -e a/run/last.safetensors ]; do sleep 0.2; done
if voxsaw $run --steps 100000 --out b/run 2>&1 | tee refused; then echo "two machines have one run" && exit 1; fi
grep -q "is in use by another run" refused
kill -TERM $held
wait $held || [ $? = 130 ]
voxsaw verify b/run

echo "== a study that two machines share"
study="crossval --config $scratch/plan.yaml --threads 1"
voxsaw $study --data a/prepared --out export/study-alone >/dev/null
voxsaw $study --data a/prepared --out a/study 2>a.log >/dev/null & one=$!
voxsaw $study --data b/prepared --out b/study 2>b.log >/dev/null
wait $one
cat a.log b.log
[ "$(cat a.log b.log | grep -c "[sz]/s  in ")" = 5 ] # four trials and an encoder, each once
voxsaw $study --data b/prepared --out b/study >/dev/null
cmp export/study-alone/scores.csv export/study/scores.csv
END
chmod +x "$scratch/init"
linux.uml mem=1500M rootfstype=hostfs rootflags=/ rw init="$scratch/init" con=null con0=fd:0,fd:1 con1=null ssl=null </dev/null || true # the outcome tells
if [ ! -s "$scratch/outcome" ]; then
  if grep -q amx_tile /proc/cpuinfo; then
    echo "NFS: user-mode Linux of Debian 12 ends at once on processors with AMX, whose registers it has no room for: try another machine" >&2
  fi
  echo "NFS: failed" >&2
  exit 1
fi
echo "== done"

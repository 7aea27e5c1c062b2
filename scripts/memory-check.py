#!/usr/bin/env python3
"""Predicts 105 classes on a CT of 512 x 512 x 700 voxels within 4 GiB and within 2 GiB, held by the kernel.

    go build -o voxsaw ./cmd/voxsaw
    sudo python3 scripts/memory-check.py ./voxsaw WORK [own|nnunet|plain] [4GiB|2GiB] ...

The scan has voxels of 0.8 x 0.8 x 1 mm, the networks 1.5 mm and windows of 128^3. Weights are drawn. own and nnunet are one small network, as a checkpoint of voxsaw's and, by convert, a model
of nnU-Net: what is measured is everything but the network's own activations. plain is nnU-Net's default PlainConvUNet (6 stages, 32 to 320 channels), activations and all.

Each prediction runs to its end in a control group of its own (version 1, or 2 where that is mounted) with the limit and no swap: the kernel kills
it, or lets it do with less page cache. Printed are the largest resident set, the seconds and the voxels of the label map that differ from
the one with the most memory. Needs root, for the groups, and nothing but Python's own library.
"""
import array
import glob
import gzip
import itertools
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "peers"))
from peer_plans import plans  # noqa: E402

STRUCTURES = 104


def nifti(path, size, spacing, kind, planes):
    """A NIfTI file whose planes of little-endian int16 (4) or uint8 (2) come from an iterator."""
    header = struct.pack("<i35xB8h14xhh2x8f", 348, 0, 3, *size, 1, 1, 1, 1, kind, 8 if kind == 2 else 16, 1, *spacing, 0, 0, 0, 0)
    header += struct.pack("<fff", 352, 1, 0) + struct.pack("<hBB", 0, 0, 2)
    header = header.ljust(252, b"\0") + struct.pack("<hh6f", 0, 1, 0, 0, 0, 0, 0, 0)
    rows = [(-spacing[0], 0, 0, 0), (0, -spacing[1], 0, 0), (0, 0, spacing[2], 0)]
    header += b"".join(struct.pack("<4f", *row) for row in rows)
    header = header.ljust(344, b"\0") + b"n+1\0" + b"\0" * 4
    with gzip.open(path, "wb", 1) as f:
        f.write(header)
        for plane in planes:
            f.write(plane)


def patient(size, spacing, seed):
    """Planes of an ellipse of soft tissue with smooth noise in air: what a body's box and percentiles need."""
    draw = random.Random(seed)
    w, h, d = size
    noise = array.array("h", (int(draw.gauss(40, 60)) for _ in range(4 * w)))
    for z in range(d):
        plane = array.array("h", [-1000]) * (w * h)
        for y in range(h):
            inside = 1 - ((2 * y / h - 1) / 0.8) ** 2 - (0.3 * (2 * z / d - 1)) ** 2
            half = int(w * 0.45 * inside**0.5) if inside > 0 else 0
            if half:
                at, shift = y * w + w // 2 - half, (y * 7 + z * 13) % w
                plane[at:at + 2 * half] = noise[shift:shift + 2 * half]
        yield plane.tobytes()


def cubes(size):
    """Planes of a label map: 104 cubes of 8^3 in rows."""
    w, h, d = size
    for z in range(d):
        plane = bytearray(w * h)
        for number in range(1, STRUCTURES + 1):
            x0, y0, z0 = 12 + (number % 7) * 10, 12 + (number // 7 % 7) * 10, 12 + (number // 49) * 24
            if z0 <= z < z0 + 8:
                for y in range(y0, y0 + 8):
                    plane[y * w + x0:y * w + x0 + 8] = bytes([number]) * 8
        yield bytes(plane)


def plain():
    """Plans of nnU-Net's default PlainConvUNet, with a patch that a step of training can afford."""
    made = plans("plain")
    made["configurations"]["3d_fullres"]["patch_size"] = [64] * 3
    return made


def windows(folder):
    """Has the converted model predict in windows of 128^3."""
    path = next(iter(glob.glob(f"{folder}/**/plans.json", recursive=True)))
    with open(path) as f:
        edited = json.load(f)
    edited["configurations"]["3d_fullres"]["patch_size"] = [128] * 3
    with open(path, "w") as f:
        json.dump(edited, f)


def run(*command):
    print("+", " ".join([os.path.basename(command[0]), *command[1:]]), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout[-3000:])


class Group:
    """A control group of memory, without swap."""

    def __init__(self, limit):
        one, two = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
        self.path = os.path.join(one if os.path.isdir(one) else two, f"voxsaw-{os.getpid()}")
        os.makedirs(self.path)
        for name in ("memory.limit_in_bytes", "memory.max"):
            if os.path.exists(f"{self.path}/{name}"):
                self.write(name, limit)
        for name, value in (("memory.memsw.limit_in_bytes", limit), ("memory.swap.max", 0)):
            if os.path.exists(f"{self.path}/{name}"):
                self.write(name, value)

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as f:
            f.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        os.rmdir(self.path)


def seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_of(pid):
    """The largest resident set so far, in MiB."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def main():
    voxsaw, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    models = [m for m in sys.argv[3:] if m in ("own", "nnunet", "plain")] or ["own", "nnunet"]
    limits = [m for m in sys.argv[3:] if m.endswith("GiB")] or ["4GiB", "2GiB"]
    os.makedirs(work, exist_ok=True)
    os.chdir(work)
    if not os.path.exists("made"):
        shutil.rmtree("set", ignore_errors=True)
        os.makedirs("set/imagesTr")
        os.makedirs("set/labelsTr")
        small = (96, 96, 96)
        for case in ("a", "b", "c"):
            nifti(f"set/imagesTr/{case}.nii.gz", small, (1.5,) * 3, 4, patient(small, (1.5,) * 3, case))
            nifti(f"set/labelsTr/{case}.nii.gz", small, (1.5,) * 3, 2, cubes(small))
        with open("set/dataset.json", "w") as f:
            json.dump({"channel_names": {"0": "CT"}, "labels": {"background": 0, **{f"structure_{n}": n for n in range(1, STRUCTURES + 1)}},
                       "numTraining": 3, "file_ending": ".nii.gz"}, f)
        nifti("large.nii.gz", (512, 512, 700), (0.8, 0.8, 1), 4, patient((512, 512, 700), (0.8, 0.8, 1), "large"))
        for folder in ("prepared", "run", "nnunet"):
            shutil.rmtree(folder, ignore_errors=True)
        run(voxsaw, "prepare", "set", "--spacing", "1.5,1.5,1.5", "--crop", "none", "--out", "prepared")
        run(voxsaw, "finetune", "--data", "prepared", "--network", "resenc", "--channels", "4", "--levels", "3", "--blocks", "1,1,1,1", "--crop", "32x32x32",
            "--steps", "3", "--out", "run")
        run(voxsaw, "convert", "run", "--to", "nnunet", "--out", "nnunet")
        windows("nnunet")
        open("made", "w").close()
    if "plain" in models and not os.path.exists("made-plain"):
        for folder in ("prepared-plain", "run-plain", "plain"):
            shutil.rmtree(folder, ignore_errors=True)
        with open("plans.json", "w") as f:
            json.dump(plain(), f)
        run(voxsaw, "prepare", "set", "--plans", "plans.json:3d_fullres", "--out", "prepared-plain")
        run(voxsaw, "finetune", "--data", "prepared-plain", "--plans", "plans.json:3d_fullres", "--batch", "1", "--steps", "1", "--out", "run-plain")
        run(voxsaw, "convert", "run-plain", "--to", "nnunet", "--out", "plain")
        windows("plain")
        open("made-plain", "w").close()
    checkpoint = {"own": "run", "nnunet": "nnunet", "plain": "plain"}
    failed = False
    for model, limit in itertools.product(models, limits):
        group, out = Group(int(limit[:-3]) << 30), f"labels-{model}-{limit}"
        shutil.rmtree(out, ignore_errors=True)
        before, began = seconds(), time.time()
        with open(f"{out}.log", "w") as log:
            command = [voxsaw, "predict", "large.nii.gz", "--checkpoint", checkpoint[model], "--out", out]
            if model == "own":
                command += ["--window", "128x128x128", "--components", "all"]
            process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=group.enter)
            peak, ended = [0], threading.Event()

            def watch():
                while not ended.wait(0.05):
                    peak[0] = max(peak[0], peak_of(process.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            code = process.wait()
            ended.set()
            watcher.join()
        group.remove()
        print(f"{model} in {limit}: rc {code}, largest resident set {peak[0]:.0f} MiB, {seconds() - before:.0f} s of CPU, {time.time() - began:.0f} s", flush=True)
        failed = failed or code != 0
    for model in models:
        maps = [gzip.open(p).read() for p in sorted(glob.glob(f"labels-{model}-*/large.nii.gz"))]
        same = len(maps) == len(limits) and all(m[352:] == maps[0][352:] for m in maps)
        labels = len(set(maps[0][352:])) if maps else 0
        print(f"{model}: {len(maps)} label maps of {labels} values, {'the same' if same else 'NOT THE SAME'} voxels", flush=True)
        failed = failed or not same
    sys.exit(failed)


if __name__ == "__main__":
    main()

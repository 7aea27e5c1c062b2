#!/usr/bin/env python3
"""Holds the time and the memory that `voxsaw plan` says against what the training takes, on three sets of real CTs.

    go build -o voxsaw ./cmd/voxsaw
    pip install nibabel
    sudo python3 scripts/plan-check.py ./voxsaw DATA WORK [--hours 0.03] [--core 0] [--turns 1]

DATA has openkbp, a data set, and totalsegmentator with ct.nii.gz, ct_seg.nii.gz (a trunk, cut into six parts along z) and aorta_ct.nii.gz,
aorta_seg.nii.gz (cut into four). Each set is prepared, planned for so many hours, and trained by its plan. Plan and
training have one core, for which others wait (`chrt -r 1`, which needs root), so that both find the machine alike.
Memory is the process's own: mapped files come on top. A line of JSON for each.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import nibabel
import numpy as np


def parts(work, name, ct, labels, n):
    """The scan in n parts along its last axis, in the Decathlon's layout. Labels are counted from 1."""
    folder = os.path.join(work, name)
    for kind in ("imagesTr", "labelsTr"):
        os.makedirs(os.path.join(folder, kind))
    image, seg = nibabel.load(ct), nibabel.load(labels)
    drawn = np.asarray(seg.dataobj).astype(np.int32)
    numbers = np.unique(drawn)
    drawn = np.searchsorted(numbers, drawn).astype(np.uint8)
    edges = np.linspace(0, image.shape[2], n + 1).astype(int)
    for part, (z0, z1) in enumerate(zip(edges, edges[1:])):
        affine = image.affine.copy()
        affine[:3, 3] += affine[:3, 2] * z0
        for kind, data in (("imagesTr", np.asarray(image.dataobj)), ("labelsTr", drawn)):
            nibabel.save(nibabel.Nifti1Image(data[:, :, z0:z1], affine), os.path.join(folder, kind, f"part_{part}.nii.gz"))
    with open(os.path.join(folder, "dataset.json"), "w") as f:
        json.dump({"modality": {"0": "CT"}, "labels": {str(k): "background" if k == 0 else f"structure_{v}" for k, v in enumerate(numbers)}}, f)
    return folder


def run(log, *command):
    """Runs it to its end. Its seconds, and the most memory of its own in MiB."""
    peak, ended, began = [0], threading.Event(), time.time()
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)

        def watch():
            while not ended.wait(0.02):
                try:
                    with open(f"/proc/{process.pid}/status") as f:
                        peak[0] = max(peak[0], next((int(line.split()[1]) / 1024 for line in f if line.startswith("RssAnon")), 0))
                except OSError:
                    pass
        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        ended.set()
        watcher.join()
    if code:
        with open(log) as f:
            sys.exit(f.read()[-3000:])
    return time.time() - began, peak[0]


def said(plan, what):
    """The value and the reason of a decision."""
    with open(plan) as f:
        found = re.search(rf"what: {what}\n\s*is: (.*)\n\s*because: ((?:.*\n)(?:\s{{6,}}.*\n)*)", f.read())
    return json.loads(found.group(1)), json.loads(found.group(2))


def seconds(text):
    unit = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3}
    return sum(float(n) * unit[u] for n, u in re.findall(r"([\d.]+) (h|min|s|ms)\b", text))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("voxsaw", "data", "work"):
        ap.add_argument(name)
    ap.add_argument("--hours", default="0.03")
    ap.add_argument("--core", default="0")
    ap.add_argument("--turns", type=int, default=1)
    a = ap.parse_args()
    voxsaw, total = os.path.abspath(a.voxsaw), os.path.join(a.data, "totalsegmentator")
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    sets = {"OpenKBP": os.path.join(a.data, "openkbp"),
            "a trunk": parts(a.work, "trunk", f"{total}/ct.nii.gz", f"{total}/ct_seg.nii.gz", 6),
            "an aorta": parts(a.work, "aorta", f"{total}/aorta_ct.nii.gz", f"{total}/aorta_seg.nii.gz", 4)}
    alone = ["chrt", "-r", "1", "taskset", "-c", a.core, voxsaw]
    for name, scans in sets.items():
        at = os.path.join(a.work, "run-" + name.split()[-1])
        run(at + ".prepare.log", voxsaw, "prepare", scans, "--out", at + ".prepared")
        for turn in range(a.turns):
            plan, out = f"{at}.{turn}.yaml", f"{at}.{turn}"
            run(out + ".plan.log", *alone, "plan", at + ".prepared", "--hours", a.hours, "--threads", "1", "--out", plan)
            took, peak = run(out + ".log", *alone, "finetune", "--config", plan, "--fold", "1", "--threads", "1", "--out", out)
            time_said, memory_said = seconds(said(plan, "time")[0]), float(re.match(r"[\d.]+", said(plan, "memory")[0]).group())
            print(json.dumps({"set": name, "time": said(plan, "time")[0], "said_s": round(time_said, 1), "took_s": round(took, 1),
                              "took/said": round(took / time_said, 3), "said_mib": memory_said, "took_mib": round(peak),
                              "memory": round(peak / memory_said, 3), "crop": said(plan, "crop")[0]}), flush=True)


if __name__ == "__main__":
    main()

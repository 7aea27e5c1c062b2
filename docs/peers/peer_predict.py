#!/usr/bin/env python3
"""The whole of a prediction, from a CT's file to the label map's, by nnU-Net and by Voxsaw in turns.

    pip install nnunetv2==2.8.1
    go build -o voxsaw ./cmd/voxsaw
    python3 docs/peers/peer_predict.py ./voxsaw WORK [plain|resenc|small] [--turns 2] [--core 0]

The CT has 512 x 512 x 300 voxels of 0.8 x 0.8 x 1 mm, the network 1.5 mm, patches of 128^3 and 25 classes, as a part of
TotalSegmentator's task total has: plain is nnU-Net's default PlainConvUNet (6 stages, 32 to 320 channels), resenc its ResEncM,
small the first with 4 to 8 channels, so that nearly all that is timed is not the network: reading, resampling, sums of
windows, writing.
Weights are drawn: what is measured does not depend on them. Both read the same folder in nnU-Net's own format. Neither mirrors
(--disable_tta, --mirror none), each has one core. A line of JSON for each run: seconds, the processor's seconds, and peak MiB, the
sum of the proportional set sizes of all its processes, looked at four times a second. At the end, the voxels that differ.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import nibabel
import numpy as np
import torch

import peer
from peer_plans import plans

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "compared"))
from measure import pss, tree  # noqa: E402

CLASSES = 25


def model(kind, folder):
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans
    os.makedirs(f"{folder}/fold_0")
    p = plans(kind)
    a = p["configurations"]["3d_fullres"]["architecture"]
    torch.manual_seed(1)
    net = get_network_from_plans(a["network_class_name"], a["arch_kwargs"], a["_kw_requires_import"], 1, CLASSES, deep_supervision=True)
    torch.save({"network_weights": net.state_dict(), "trainer_name": "nnUNetTrainer", "inference_allowed_mirroring_axes": (0, 1, 2),
                "init_args": {"configuration": "3d_fullres", "fold": 0}}, f"{folder}/fold_0/checkpoint_final.pth")
    labels = {"background": 0, **{f"structure_{n}": n for n in range(1, CLASSES)}}
    for name, value in (("plans", p), ("dataset", {"channel_names": {"0": "CT"}, "labels": labels, "numTraining": 3, "file_ending": ".nii.gz"})):
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(value, f)


def scan(path):
    """An ellipse of soft tissue and smooth shapes in air."""
    size, draw = (512, 512, 300), np.random.default_rng(1)
    i, j = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]), indexing="ij")
    body = (i / 0.9) ** 2 + (j / 0.7) ** 2 < 1
    ct = np.empty(size, np.int16)
    for k in range(size[2]):
        shapes = 60 * np.sin(9 * i + k / 17) * np.cos(7 * j - k / 23) + 40 + draw.normal(0, 12, size[:2])
        ct[..., k] = np.where(body, shapes, -1000)
    nibabel.save(nibabel.Nifti1Image(ct, np.diag([-0.8, -0.8, 1, 1])), path)


def run(name, core, log, environment, *command):
    begun, before, peak = time.time(), os.times(), 0
    with open(log, "w") as out:
        process = subprocess.Popen(["taskset", "-c", core, *command], stdout=out, stderr=out, env={**os.environ, **environment}, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, sum(map(pss, tree(process.pid))))
            time.sleep(0.25)
    after = os.times()
    if process.returncode:
        sys.exit(f"{name} ended with {process.returncode}: see {log}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    peer.line(name, seconds=round(time.time() - begun, 1), cpu_s=round(used, 1), peak_mib=peak >> 20)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("voxsaw")
    ap.add_argument("work")
    ap.add_argument("kind", nargs="?", choices=("plain", "resenc", "small"), default="plain")
    ap.add_argument("--turns", type=int, default=2)
    ap.add_argument("--core", default="0")
    a = ap.parse_args()
    voxsaw = os.path.abspath(a.voxsaw)
    os.makedirs(a.work, exist_ok=True)
    os.chdir(a.work)
    if not os.path.exists("scans/ct_0000.nii.gz"):
        os.makedirs("scans", exist_ok=True)
        scan("scans/ct_0000.nii.gz")
    folder = f"nnUNet_results/Dataset900_Whole/{a.kind}__nnUNetPlans__3d_fullres"
    shutil.rmtree(folder, ignore_errors=True)
    model(a.kind, folder)
    environment = {"OMP_NUM_THREADS": "1", "nnUNet_compile": "f", **{n: os.path.abspath(n) for n in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")}}
    theirs = os.path.join(os.path.dirname(sys.executable), "nnUNetv2_predict_from_modelfolder")
    for turn in range(a.turns):
        for out in ("ours", "theirs"):
            shutil.rmtree(out, ignore_errors=True)
        run("voxsaw", a.core, "ours.log", environment, voxsaw, "predict", "scans", "--checkpoint", folder, "--mirror", "none", "--threads", "1", "--out", "ours")
        run("nnunetv2", a.core, "theirs.log", environment, theirs, "-i", "scans", "-o", "theirs", "-m", folder, "-f", "0", "-device", "cpu", "--disable_tta",
            "-npp", "1", "-nps", "1")
        maps = [np.asarray(nibabel.load(p).dataobj) for p in ("ours/ct.nii.gz", "theirs/ct.nii.gz")]
        print(json.dumps({"voxels": maps[0].size, "labels": len(np.unique(maps[1])), "differ": int((maps[0] != maps[1]).sum())}), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What is no network: preparing scans, scoring label maps, and starting, by MONAI and by Voxsaw in turns on one core.

    pip install monai nibabel scipy torch
    go build -o voxsaw ./cmd/voxsaw
    python3 docs/peers/peer_files.py ./voxsaw IMAGES LABELS WORK [--turns 2] [--core 0] [--cases 20]

IMAGES and LABELS hold files of the same names (.nii.gz). prepare reads a scan and its labels, turns them to RAS, resamples both
to 2 mm, scales HU and writes them. evaluate takes the labels, moved by a voxel along each axis, for predictions, and computes DSC,
HD95, ASSD and NSD at 2 mm of every structure. start imports what a script needs, or prints the version. A line of JSON for each
run: seconds, the processor's seconds, and peak MiB. At the end the DSC of both, which have to agree.
"""
import argparse
import csv
import glob
import json
import os
import shutil
import sys

import nibabel
import numpy as np

from peer_predict import run

SPACING, HU = (2.0, 2.0, 2.0), (-200, 300)


def prepare(images, labels, out):
    from monai import transforms as mt
    keys = ["image", "label"]
    steps = mt.Compose([
        mt.LoadImaged(keys), mt.EnsureChannelFirstd(keys), mt.Orientationd(keys, axcodes="RAS"),
        mt.Spacingd(keys, SPACING, mode=("bilinear", "nearest")),
        mt.ScaleIntensityRanged("image", *HU, -1, 1, clip=True)])
    os.makedirs(out)
    for path in sorted(glob.glob(f"{images}/*.nii.gz")):
        name = os.path.basename(path)
        d = steps({"image": path, "label": f"{labels}/{name}"})
        np.savez(f"{out}/{name}.npz", image=d["image"].numpy().astype(np.float16), label=d["label"].numpy().astype(np.uint8))


def evaluate(predictions, labels, out):
    import torch
    from monai.metrics import compute_average_surface_distance, compute_dice, compute_hausdorff_distance, compute_surface_dice
    torch.set_num_threads(1)
    with open(out, "w") as f:
        for path in sorted(glob.glob(f"{labels}/*.nii.gz")):
            name = os.path.basename(path)
            truth = nibabel.load(path)
            spacing = [float(v) for v in truth.header.get_zooms()]
            maps = [np.asarray(m.dataobj) for m in (nibabel.load(f"{predictions}/{name}"), truth)]
            classes = int(maps[1].max()) + 1
            p, t = (torch.nn.functional.one_hot(torch.from_numpy(m.astype(np.int64)), classes).permute(3, 0, 1, 2)[None] for m in maps)
            dice = compute_dice(p, t, include_background=False)[0].tolist()
            compute_hausdorff_distance(p, t, percentile=95, spacing=spacing)
            compute_average_surface_distance(p, t, symmetric=True, spacing=spacing)
            compute_surface_dice(p, t, [2.0] * (classes - 1), spacing=spacing)
            f.writelines(f"{name.removesuffix('.nii.gz')},{label + 1},{value}\n" for label, value in enumerate(dice))


def main():
    ap = argparse.ArgumentParser()
    for name in ("voxsaw", "images", "labels", "work"):
        ap.add_argument(name)
    ap.add_argument("--turns", type=int, default=2)
    ap.add_argument("--core", default="0")
    ap.add_argument("--cases", type=int, default=20)
    a = ap.parse_args()
    voxsaw, this = os.path.abspath(a.voxsaw), os.path.abspath(__file__)
    images, labels = os.path.abspath(a.images), os.path.abspath(a.labels)
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    os.chdir(a.work)
    for group in ("imagesTr", "labelsTr", "moved"):
        os.makedirs(f"set/{group}" if group != "moved" else group)
    for name in sorted(n for n in os.listdir(images) if os.path.exists(f"{labels}/{n}"))[:a.cases]:
        os.symlink(f"{images}/{name}", f"set/imagesTr/{name}")
        os.symlink(f"{labels}/{name}", f"set/labelsTr/{name}")
        truth = nibabel.load(f"{labels}/{name}")
        nibabel.save(nibabel.Nifti1Image(np.roll(np.asarray(truth.dataobj), (1, 1, 1), (0, 1, 2)), truth.affine, truth.header), f"moved/{name}")
    one = {"OMP_NUM_THREADS": "1", "GOMAXPROCS": "1"}
    for _ in range(a.turns):
        for out in ("theirs", "ours", "ours-scores"):
            shutil.rmtree(out, ignore_errors=True)
        run("MONAI prepare", a.core, "log", one, sys.executable, this, "prepare", "set/imagesTr", "set/labelsTr", "theirs")
        run("Voxsaw prepare", a.core, "log", one, voxsaw, "prepare", "set", "--out", "ours", "--spacing", "2", f"--window={HU[0]},{HU[1]}")
        run("MONAI evaluate", a.core, "log", one, sys.executable, this, "evaluate", "moved", "set/labelsTr", "theirs.csv")
        run("Voxsaw evaluate", a.core, "log", one, voxsaw, "evaluate", "moved", "set/labelsTr", "--tolerance", "2", "--out", "ours-scores")
        run("MONAI start", a.core, "log", one, sys.executable, "-c", "import monai, torch")
        run("Voxsaw start", a.core, "log", one, voxsaw, "version")
    with open("ours-scores/scores.csv") as f:
        ours = {(r["case"], r["label"]): float(r["dsc"]) for r in csv.DictReader(f)}
    with open("theirs.csv") as f:
        theirs = {tuple(r[:2]): float(r[2]) for r in csv.reader(f)}
    worst = max(abs(ours[k] - v) for k, v in theirs.items())
    print(json.dumps({"scores": len(theirs), "largest difference of DSC": round(worst, 7)}))


if __name__ == "__main__":
    if sys.argv[1] in ("prepare", "evaluate"):
        {"prepare": prepare, "evaluate": evaluate}[sys.argv[1]](*sys.argv[2:])
    else:
        main()

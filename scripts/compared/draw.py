#!/usr/bin/env python3
"""Draws the patients of docs/compared.md, and lays them out for both contenders.

    python3 scripts/compared/draw.py OPENKBP OUT

OPENKBP has imagesTr and labelsTr. Of the patients that have all five structures, 20 are drawn to learn from and 20 others to be
tested on. OUT then holds nnU-Net's raw layout (nnUNet_raw/Dataset043_OpenKBP, which voxsaw reads too), test/images and
test/labels, all of links, and patients.json, which says who was drawn.
"""
import json
import os
import random
import sys

import numpy as np
import SimpleITK as sitk

SEED = 43
NAMES = ["background", "brainstem", "spinal_cord", "right_parotid", "left_parotid", "mandible"]

source, out = map(os.path.abspath, sys.argv[1:3])
cases = sorted(name.removesuffix(".nii.gz") for name in os.listdir(f"{source}/labelsTr") if name.endswith(".nii.gz"))
whole = [case for case in cases
         if set(np.unique(sitk.GetArrayFromImage(sitk.ReadImage(f"{source}/labelsTr/{case}.nii.gz")))) >= {1, 2, 3, 4, 5}]
drawn = random.Random(SEED).sample(whole, 40)
train, test = sorted(drawn[:20]), sorted(drawn[20:])

raw = f"{out}/nnUNet_raw/Dataset043_OpenKBP"
for folder in (f"{raw}/imagesTr", f"{raw}/labelsTr", f"{out}/test/images", f"{out}/test/labels"):
    os.makedirs(folder)
for chosen, images, labels in ((train, f"{raw}/imagesTr", f"{raw}/labelsTr"), (test, f"{out}/test/images", f"{out}/test/labels")):
    for case in chosen:
        os.symlink(f"{source}/imagesTr/{case}.nii.gz", f"{images}/{case}_0000.nii.gz")
        os.symlink(f"{source}/labelsTr/{case}.nii.gz", f"{labels}/{case}.nii.gz")
with open(f"{raw}/dataset.json", "w") as f:
    json.dump({"channel_names": {"0": "CT"}, "labels": {name: label for label, name in enumerate(NAMES)},
               "numTraining": len(train), "file_ending": ".nii.gz"}, f, indent=1)
with open(f"{out}/patients.json", "w") as f:
    json.dump({"seed": SEED, "have all structures": len(whole), "train": train, "test": test}, f, indent=1)
    f.write("\n")

#!/usr/bin/env python3
"""Draws the patients of docs/compared.md, and lays them out for both contenders.

    python3 scripts/compared/draw.py openkbp|hippocampus SOURCE OUT

SOURCE has the scans and their labels, in the folders that SETS names. Of the patients that have all structures, some are drawn to
learn from and others to be tested on. OUT then holds nnU-Net's raw layout (nnUNet_raw/Dataset043_OpenKBP or
Dataset044_Hippocampus, which voxsaw reads too), test/images and test/labels, all of links, and patients.json, which says who was
drawn.
"""
import json
import os
import random
import sys

import numpy as np
import SimpleITK as sitk

SETS = {
    "openkbp": dict(number=43, name="OpenKBP", channel="CT", images="imagesTr", labels="labelsTr", train=20, test=20,
                    structures=["brainstem", "spinal_cord", "right_parotid", "left_parotid", "mandible"]),
    "hippocampus": dict(number=44, name="Hippocampus", channel="MRI", images="images", labels="labels", train=20, test=100,
                        structures=["anterior", "posterior"]),
}

chosen_set, source, out = SETS[sys.argv[1]], *map(os.path.abspath, sys.argv[2:4])
number, structures = chosen_set["number"], chosen_set["structures"]
images, labels = (f"{source}/{chosen_set[key]}" for key in ("images", "labels"))
cases = sorted(name.removesuffix(".nii.gz") for name in os.listdir(labels)
               if name.endswith(".nii.gz") and os.path.exists(f"{images}/{name}"))
whole = [case for case in cases if set(np.unique(sitk.GetArrayFromImage(sitk.ReadImage(f"{labels}/{case}.nii.gz"))))
         >= set(range(1, len(structures) + 1))]
drawn = random.Random(number).sample(whole, chosen_set["train"] + chosen_set["test"])
train, test = sorted(drawn[:chosen_set["train"]]), sorted(drawn[chosen_set["train"]:])

raw = f"{out}/nnUNet_raw/Dataset{number:03}_{chosen_set['name']}"
for folder in (f"{raw}/imagesTr", f"{raw}/labelsTr", f"{out}/test/images", f"{out}/test/labels"):
    os.makedirs(folder)
for group, to_images, to_labels in ((train, f"{raw}/imagesTr", f"{raw}/labelsTr"),
                                    (test, f"{out}/test/images", f"{out}/test/labels")):
    for case in group:
        os.symlink(f"{images}/{case}.nii.gz", f"{to_images}/{case}_0000.nii.gz")
        os.symlink(f"{labels}/{case}.nii.gz", f"{to_labels}/{case}.nii.gz")
with open(f"{raw}/dataset.json", "w") as f:
    json.dump({"channel_names": {"0": chosen_set["channel"]},
               "labels": {name: label for label, name in enumerate(["background", *structures])},
               "numTraining": len(train), "file_ending": ".nii.gz"}, f, indent=1)
with open(f"{out}/patients.json", "w") as f:
    json.dump({"seed": number, "have all structures": len(whole), "train": train, "test": test}, f, indent=1)
    f.write("\n")

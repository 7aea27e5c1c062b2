"""Makes nnplan/: a small made-up data set of nnUNet_raw, and the fingerprint and the plans that nnU-Net 2.8.1 makes for it.

    pip install nnunetv2==2.8.1 SimpleITK
    python3 testdata/nnplan.py          # all
    python3 testdata/nnplan.py plans    # the plans alone, of the fingerprint that is there

Two channels, thick slices, margins of zeros, of which one holds labels: nnU-Net crops those away.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import SimpleITK as sitk

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nnplan")
NAME = "Dataset007_Tiny"
os.environ["nnUNet_raw"] = here
os.environ["nnUNet_preprocessed"] = os.environ["nnUNet_results"] = work = os.path.join(tempfile.gettempdir(), "nnplan-work")


def write(values, spacing, path):
    image = sitk.GetImageFromArray(values)
    image.SetSpacing(spacing)
    sitk.WriteImage(image, path)


def keep_fingerprint():
    """Copies nnU-Net's fingerprint, with the voxels of each label in the boxes that nnU-Net crops to."""
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO
    from nnunetv2.preprocessing.cropping.cropping import crop_to_nonzero

    with open(os.path.join(work, NAME, "dataset_fingerprint.json")) as f:
        fingerprint = json.load(f)
    fingerprint["label_voxels"] = []
    for n in range(4):
        images, _ = SimpleITKIO().read_images([f"{here}/{NAME}/imagesTr/c{n}_000{k}.nii.gz" for k in range(2)])
        labels, _ = SimpleITKIO().read_seg(f"{here}/{NAME}/labelsTr/c{n}.nii.gz")
        _, labels, _ = crop_to_nonzero(images, labels)
        fingerprint["label_voxels"].append({str(k): int((labels == k).sum()) for k in (1, 2)})
    with open(os.path.join(here, "dataset_fingerprint.json"), "w") as f:
        json.dump(fingerprint, f, indent=1)


def main():
    import torch

    torch.set_default_device("meta")
    if sys.argv[1:] == ["plans"]:
        os.makedirs(os.path.join(work, NAME), exist_ok=True)
        shutil.copy(os.path.join(here, "dataset_fingerprint.json"), os.path.join(work, NAME))
    else:
        make_set()
    make_plans()


def make_set():
    from nnunetv2.experiment_planning.dataset_fingerprint.fingerprint_extractor import DatasetFingerprintExtractor

    shutil.rmtree(here, ignore_errors=True)
    folder = os.path.join(here, NAME)
    for sub in ("imagesTr", "labelsTr"):
        os.makedirs(os.path.join(folder, sub))
    rng = np.random.default_rng(7)
    for n in range(4):
        shape, spacing = (6 + n, 40 + 2 * n, 36), (0.75, 0.8 + 0.01 * n, 4.0 + 0.5 * n)
        ct = rng.integers(-200, 300, shape).astype(np.int16)
        mr = rng.integers(1, 900, shape).astype(np.int16)
        for image in (ct, mr):
            image[:, : 6 + n] = 0
            image[:, :, 30:] = 0
        labels = np.zeros(shape, np.uint8)
        labels[1:4, 10:20, 5:15] = 1
        labels[2:5, 20:32, 8 : 20 + n] = 2
        labels[1:3, 2:5, 5:15] = 2  # outside of the box
        write(ct, spacing, f"{folder}/imagesTr/c{n}_0000.nii.gz")
        write(mr, spacing, f"{folder}/imagesTr/c{n}_0001.nii.gz")
        write(labels, spacing, f"{folder}/labelsTr/c{n}.nii.gz")
    with open(f"{folder}/dataset.json", "w") as f:
        json.dump({"channel_names": {"0": "CT", "1": "T1"}, "labels": {"background": 0, "liver": 1, "lesion": 2},
                   "numTraining": 4, "file_ending": ".nii.gz"}, f)
    DatasetFingerprintExtractor(NAME, 2).run(overwrite_existing=True)
    keep_fingerprint()


def make_plans():
    from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner
    from nnunetv2.experiment_planning.experiment_planners.residual_unets.residual_encoder_unet_planners import (
        nnUNetPlannerResEncL,
        nnUNetPlannerResEncM,
        nnUNetPlannerResEncXL,
    )

    for planner, plans in ((ExperimentPlanner, "nnUNetPlans"), (nnUNetPlannerResEncM, "nnUNetResEncUNetMPlans"),
                           (nnUNetPlannerResEncL, "nnUNetResEncUNetLPlans"), (nnUNetPlannerResEncXL, "nnUNetResEncUNetXLPlans")):
        planner(NAME).plan_experiment()
        shutil.copy(os.path.join(work, NAME, plans + ".json"), os.path.join(here, plans + ".json"))
    os.remove(os.path.join(work, NAME, "nnUNetPlans.json"))
    ExperimentPlanner(NAME, gpu_memory_target_in_gb=0.01).plan_experiment()  # as -gpu_memory_target 0.01
    shutil.copy(os.path.join(work, NAME, "nnUNetPlans.json"), os.path.join(here, "nnUNetPlans_0.01GB.json"))


if __name__ == "__main__":
    main()

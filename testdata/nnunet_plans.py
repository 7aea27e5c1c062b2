"""Makes nnunet_plans.json: what nnU-Net 2.8.1 plans for made-up sets.

    pip install nnunetv2==2.8.1 numpy nibabel
    python3 testdata/nnunet_plans.py > testdata/nnunet_plans.json

Each set is spacings and shapes as nnU-Net's own fingerprint has them, of scans as public sets have them: nnU-Net's
planner reads nothing else, but for the first image's file name. Axes are (k, j, i).
"""
import json
import os
import sys
import tempfile

import numpy as np

root = tempfile.mkdtemp()
for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ[name] = os.path.join(root, name)
    os.makedirs(os.environ[name])

import nibabel  # noqa: E402
import torch  # noqa: E402
from nnunetv2.experiment_planning.plan_and_preprocess_api import plan_experiment_dataset  # noqa: E402
from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner  # noqa: E402
from nnunetv2.experiment_planning.experiment_planners.residual_unets.residual_encoder_unet_planners import (  # noqa: E402
    nnUNetPlannerResEncL,
    nnUNetPlannerResEncM,
    nnUNetPlannerResEncXL,
)

torch.set_default_device("meta")  # networks without weights: their sizes alone count
rng = np.random.default_rng(1)


def around(values, spread, n):
    """n triples of about these whole values."""
    return [[int(max(1, round(v * (1 + s * rng.uniform(-1, 1))))) for v, s in zip(values, spread)] for _ in range(n)]


def spacings(low, high, n, plane):
    """n triples: slices from low to high mm apart, voxels in plane from plane[0] to plane[1] mm."""
    rows = []
    for _ in range(n):
        p = round(float(rng.uniform(*plane)), 6)
        rows.append([round(float(rng.uniform(low, high)), 4), p, p])
    return rows


SETS = {
    # name: spacings, shapes, labels with background, channels
    "ct-pancreas": (spacings(0.7, 7.5, 31, (0.6, 0.98)), around((93, 512, 512), (0.6, 0, 0), 31), 3, 1),
    "ct-head-and-neck": ([[2.5, 2.0, 2.0]] * 20, around((110, 200, 230), (0.2, 0.1, 0.1), 20), 6, 1),
    "ct-lung": (spacings(1.0, 1.3, 12, (0.6, 0.9)), around((280, 512, 512), (0.3, 0, 0), 12), 2, 1),
    "mr-brain": ([[1.0, 1.0, 1.0]] * 40, around((138, 170, 138), (0.1, 0.1, 0.1), 40), 4, 4),
    "mr-hippocampus": ([[1.0, 1.0, 1.0]] * 26, around((35, 51, 36), (0.2, 0.2, 0.2), 26), 3, 1),
    "mr-prostate-thick": ([[3.6, 0.625, 0.625]] * 16 + [[3.0, 0.6, 0.6]] * 4, around((20, 320, 320), (0.2, 0, 0), 20), 3, 2),
    "mr-heart-thick": (spacings(5.0, 10.0, 24, (1.37, 1.68)), around((9, 237, 208), (0.3, 0.1, 0.1), 24), 4, 1),
    "mr-heart": ([[1.37, 1.25, 1.25]] * 20, around((115, 320, 320), (0.2, 0, 0), 20), 2, 1),
    "ct-slices-in-i": ([[0.8, 0.8, 4.0]] * 9, around((256, 250, 30), (0.1, 0.1, 0.2), 9), 2, 1),
    "ct-body": ([[1.5, 1.5, 1.5]] * 25, around((260, 250, 330), (0.5, 0.2, 0.2), 25), 105, 1),
    "two-small": ([[1.0, 1.2, 1.1], [1.0, 1.0, 1.3]], [[46, 63, 96], [40, 70, 91]], 2, 1),
    "micro": ([[0.02, 0.02, 0.02]] * 5, around((900, 700, 800), (0.1, 0.1, 0.1), 5), 2, 1),
    "one-flat": ([[8.0, 0.4, 0.4]], [[5, 512, 480]], 2, 1),
}


PLANNERS = {"plain": ExperimentPlanner, "residual": nnUNetPlannerResEncM, "residual L": nnUNetPlannerResEncL,
            "residual XL": nnUNetPlannerResEncXL}


def plan(number, name, target):
    """What each planner plans, for so many GB of a GPU; 0: as many as it plans for by itself."""
    space, shapes, labels, channels = SETS[name]
    full = f"Dataset{number:03d}_{name}"
    raw = os.path.join(os.environ["nnUNet_raw"], full)
    out = os.path.join(os.environ["nnUNet_preprocessed"], full)
    for folder in (raw + "/imagesTr", raw + "/labelsTr", out):
        os.makedirs(folder, exist_ok=True)
    blank = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.uint8), np.eye(4))
    for n in range(len(space)):
        nibabel.save(blank, f"{raw}/labelsTr/c{n:03d}.nii.gz")
        for c in range(channels):
            nibabel.save(blank, f"{raw}/imagesTr/c{n:03d}_{c:04d}.nii.gz")
    kind = "CT" if name.startswith("ct") else "MR"
    dataset = {
        "channel_names": {str(c): kind for c in range(channels)},
        "labels": {"background": 0, **{f"l{n}": n for n in range(1, labels)}},
        "numTraining": len(space),
        "file_ending": ".nii.gz",
    }
    stats = {k: 1.0 for k in ("max", "mean", "median", "min", "percentile_00_5", "percentile_99_5", "std")}
    fingerprint = {
        "spacings": space,
        "shapes_after_crop": shapes,
        "foreground_intensity_properties_per_channel": {str(c): stats for c in range(channels)},
        "median_relative_size_after_cropping": 1.0,
    }
    for path, value in ((raw + "/dataset.json", dataset), (out + "/dataset_fingerprint.json", fingerprint)):
        with open(path, "w") as f:
            json.dump(value, f)
    planned = {}
    own = {"gpu_memory_target_in_gb": target} if target else {}
    for key, planner in PLANNERS.items():
        p = planner(full, plans_name=f"{key}{target}", **own).plan_experiment()
        one = {"forward": p["transpose_forward"]}
        for c in ("2d", "3d_fullres", "3d_lowres"):
            if c not in p["configurations"]:
                continue
            q = p["configurations"][c]
            a = q["architecture"]["arch_kwargs"]
            one[c] = {
                "spacing": [float(s) for s in q["spacing"]],
                "median": [float(s) for s in q["median_image_size_in_voxels"]],
                "patch": [int(s) for s in q["patch_size"]],
                "batch": int(q["batch_size"]),
                "features": list(a["features_per_stage"]),
                "strides": a["strides"],
                "kernels": a["kernel_sizes"],
                "blocks": list(a.get("n_conv_per_stage", a.get("n_blocks_per_stage"))),
                "decoder": list(a["n_conv_per_stage_decoder"]),
            }
        planned[key] = one
    return planned


made = []
stdout, sys.stdout = sys.stdout, sys.stderr
for number, name in enumerate(SETS, 1):
    space, shapes, labels, channels = SETS[name]
    for target in (0, 4, 11) if name in ("ct-pancreas", "mr-brain", "mr-heart-thick") else (0,):
        made.append({
            "name": name, "gigabytes": target, "spacings": space, "shapes": shapes, "outputs": labels, "plans": plan(number, name, target),
        })
sys.stdout = stdout
print("[\n" + ",\n".join(json.dumps(m) for m in made) + "\n]")

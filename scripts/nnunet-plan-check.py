#!/usr/bin/env python3
"""Holds what voxsaw plan --to nnunet writes against nnU-Net's own plans, for every data set in nnUNet_raw.

    pip install nnunetv2==2.8.1
    go build -o voxsaw ./cmd/voxsaw
    nnUNet_raw=RAW nnUNet_preprocessed=WORK nnUNet_results=WORK python3 scripts/nnunet-plan-check.py ./voxsaw [DRAWN]

nnunet-plan-sets.py and mr-set.py make such sets. All values are the same, but for statistics of intensities: nnU-Net draws voxels at random, and nothing is drawn here. These
differ by a thousandth of the standard deviation at most, extremes and percentiles by a fiftieth. Where nnU-Net draws
DRAWN voxels of a set, such as 1e6, and not 1e8, which takes minutes, they are told and not held. Then nnU-Net prepares the first set by the file.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import torch

torch.set_default_device("meta")  # networks without weights: their sizes alone count

from nnunetv2.experiment_planning.dataset_fingerprint.fingerprint_extractor import DatasetFingerprintExtractor  # noqa: E402
from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner  # noqa: E402
from nnunetv2.experiment_planning.experiment_planners.residual_unets.residual_encoder_unet_planners import (  # noqa: E402
    nnUNetPlannerResEncL,
    nnUNetPlannerResEncM,
    nnUNetPlannerResEncXL,
)

voxsaw, drawn = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0
raw, made = os.environ["nnUNet_raw"], os.environ["nnUNet_preprocessed"]
STATS = "foreground_intensity_properties_per_channel"
failed = 0


def differences(ours, theirs, path=""):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(set(ours) | set(theirs)):
            if path == "" and key == STATS:
                continue
            if key not in ours or key not in theirs:
                yield f"{path}/{key} is only {'theirs' if key in theirs else 'ours'}"
            else:
                yield from differences(ours[key], theirs[key], f"{path}/{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        for n, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, f"{path}/{n}")
    elif isinstance(theirs, float) and isinstance(ours, (int, float)):
        if abs(ours - theirs) > 1e-6 * abs(theirs):
            yield f"{path}: {ours}, nnU-Net has {theirs}"
    elif ours != theirs:
        yield f"{path}: {ours}, nnU-Net has {theirs}"


def main():
    global failed
    sets = sorted(name for name in os.listdir(raw) if re.match(r"Dataset\d{3}_", name))
    for name in sets:
        extractor = DatasetFingerprintExtractor(name, 2)
        extractor.num_foreground_voxels_for_intensitystats = drawn or extractor.num_foreground_voxels_for_intensitystats
        extractor.run(overwrite_existing=True)
        for to, planner, plans, gigabytes in (
            ("nnunet", ExperimentPlanner, "nnUNetPlans", 0), ("nnunet", ExperimentPlanner, "nnUNetPlans", 4),
            ("nnunet-resencm", nnUNetPlannerResEncM, "nnUNetResEncUNetMPlans", 0),
            ("nnunet-resencl", nnUNetPlannerResEncL, "nnUNetResEncUNetLPlans", 0),
            ("nnunet-resencxl", nnUNetPlannerResEncXL, "nnUNetResEncUNetXLPlans", 0),
        ):
            theirs = os.path.join(made, name, plans + ".json")
            if os.path.exists(theirs):
                os.remove(theirs)
            stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
            planner(name, **({"gpu_memory_target_in_gb": gigabytes} if gigabytes else {})).plan_experiment()
            sys.stdout = stdout
            out = os.path.join(made, f"{name}-{to}{gigabytes or ''}.json")
            subprocess.run([voxsaw, "plan", os.path.join(raw, name), "--to", to, "--gpu-memory-target", str(gigabytes), "--out", out, "--force"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            a, b = json.load(open(out)), json.load(open(theirs))
            wrong = list(differences(a, b))
            worst = 0.0
            for channel, stats in b[STATS].items():
                for key, value in stats.items():
                    off = abs(a[STATS][channel][key] - value) / stats["std"]
                    worst = max(worst, off)
                    if not drawn and off > (1e-3 if key in ("mean", "std") else 0.02):
                        wrong.append(f"{STATS}/{channel}/{key}: {a[STATS][channel][key]}, nnU-Net has {value}")
            failed += len(wrong) > 0
            print(f"{name}, {to}{f' {gigabytes} GB' if gigabytes else ''}: {', '.join(b['configurations'])}: "
                  f"{'the same' if not wrong else 'differs'}; intensities within {worst:.1e} of their standard deviation")
            for line in wrong:
                print("   ", line)
    # nnU-Net prepares by the file
    name = sets[0]
    shutil.copy(os.path.join(made, f"{name}-nnunet.json"), os.path.join(made, name, "nnUNetPlans.json"))
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "nnUNetv2_preprocess"), "-d", str(int(name[7:10])), "-plans_name",
                    "nnUNetPlans", "-c", "3d_fullres", "-np", "2"], check=True, stdout=subprocess.DEVNULL)
    cases = os.listdir(os.path.join(made, name, "nnUNetPlans_3d_fullres"))
    print(f"{name}: nnU-Net has prepared {sum(c.endswith('.pkl') for c in cases)} cases by it")
    sys.exit(failed)


if __name__ == "__main__":
    main()

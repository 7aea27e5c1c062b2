#!/usr/bin/env python3
"""Writes eval_tools.json: the metrics of MONAI, medpy and DeepMind's surface-distance for the masks of eval_golden.json, and for empty ones.

Made with Python 3.11, MONAI 1.6.1 and medpy 0.5.2 from PyPI, and surface-distance from its repository at commit 1f805ce:

    pip install monai==1.6.1 medpy==0.5.2 git+https://github.com/google-deepmind/surface-distance@1f805ce

Run it from this folder: python3 eval_tools.py
"""
import json
import math
import warnings

import numpy as np
import surface_distance
import torch
from medpy.metric import binary as medpy
from monai import metrics as monai


def mask(shape, ellipsoids):
    i, j, k = np.meshgrid(*[np.arange(n, dtype=float) for n in shape], indexing="ij")
    m = np.zeros(shape, bool)
    for c, r in ellipsoids:
        m |= ((i - c[0]) / r[0]) ** 2 + ((j - c[1]) / r[1]) ** 2 + ((k - c[2]) / r[2]) ** 2 <= 1
    return m


def text(value):
    """JSON has neither NaN nor infinity."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


def with_monai(p, r, spacing, tolerance):
    """As its metrics are called by default, but with all distances in mm and both directions."""
    p, r = (torch.tensor(np.stack([~m, m])[None]) for m in (p, r))
    return {
        "dsc": monai.compute_dice(p.float(), r.float(), include_background=False),
        "hd": monai.compute_hausdorff_distance(p, r, spacing=spacing),
        "hd95": monai.compute_hausdorff_distance(p, r, percentile=95, spacing=spacing),
        "assd": monai.compute_average_surface_distance(p, r, symmetric=True, spacing=spacing),
        "nsd": monai.compute_surface_dice(p, r, [tolerance], spacing=spacing),
    }


def with_medpy(p, r, spacing, _):
    values = {"dsc": medpy.dc(p, r)}
    for name, measure in ("hd", medpy.hd), ("hd95", medpy.hd95), ("assd", medpy.assd):
        try:
            values[name] = measure(p, r, voxelspacing=spacing)
        except RuntimeError:  # of an empty mask
            values[name] = "error"
    return values


def with_deepmind(p, r, spacing, tolerance):
    d = surface_distance.compute_surface_distances(r, p, spacing)
    return {
        "dsc": surface_distance.compute_dice_coefficient(r, p),
        "hd95": surface_distance.compute_robust_hausdorff(d, 95),
        "nsd": surface_distance.compute_surface_dice_at_tolerance(d, tolerance),
    }


warnings.simplefilter("ignore")  # all three warn of empty masks
cases = [(c["name"], c["shape"], [float(s) for s in c["spacing"]], c["tolerance"], c["prediction"], c["reference"]) for c in json.load(open("eval_golden.json"))["cases"]]
ball = [([4, 4, 4], [3, 2, 3])]
for name, p, r in ("both empty", [], []), ("missed", [], ball), ("invented", ball, []):
    cases.append((name, [9, 9, 9], [1.0, 1.0, 2.0], 2, p, r))

out = []
for name, shape, spacing, tolerance, prediction, reference in cases:
    p, r = mask(shape, prediction), mask(shape, reference)
    entry = {"name": name, "shape": shape, "spacing": spacing, "tolerance": tolerance, "prediction": prediction, "reference": reference}
    for tool, measure in ("monai", with_monai), ("medpy", with_medpy), ("deepmind", with_deepmind):
        entry[tool] = {k: v if v == "error" else text(v) for k, v in measure(p, r, spacing, tolerance).items()}
    out.append(entry)
with open("eval_tools.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(e) for e in out) + "\n]\n")

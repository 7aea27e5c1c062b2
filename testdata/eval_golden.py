#!/usr/bin/env python3
"""Writes eval_golden.json: segmentation metrics, distance transforms and paired tests as scipy computes them.

Needs numpy and scipy 1.15 or later; made with numpy 2.4 and scipy 1.17. The masks are unions of ellipsoids, so that the file holds their parameters and not their voxels.
Run it from this folder: python3 eval_golden.py
"""
import json
import warnings

import numpy as np
from scipy import ndimage, stats


def mask(shape, ellipsoids):
    i, j, k = np.meshgrid(*[np.arange(n, dtype=float) for n in shape], indexing="ij")
    m = np.zeros(shape, bool)
    for c, r in ellipsoids:
        m |= ((i - c[0]) / r[0]) ** 2 + ((j - c[1]) / r[1]) ** 2 + ((k - c[2]) / r[2]) ** 2 <= 1
    return m


def surface(m):
    return m ^ ndimage.binary_erosion(m)  # six neighbours, the outside of the image is background


def metrics(p, r, spacing, tolerance):
    ps, rs = surface(p), surface(r)
    to_r = ndimage.distance_transform_edt(~rs, sampling=spacing)[ps]
    to_p = ndimage.distance_transform_edt(~ps, sampling=spacing)[rs]
    both = np.concatenate([to_r, to_p])
    return {
        "dsc": 2 * np.sum(p & r) / (p.sum() + r.sum()),
        "hd": max(to_r.max(), to_p.max()),
        "hd95": max(np.percentile(to_r, 95), np.percentile(to_p, 95)),
        "assd": both.mean(),
        "nsd": np.mean(both <= tolerance),
        "predicted_ml": p.sum() * np.prod(spacing) / 1000,
        "reference_ml": r.sum() * np.prod(spacing) / 1000,
    }


random = np.random.RandomState(7)
cases = []
for name, shape, spacing, tolerance, prediction, reference in [
    ("shifted", (32, 28, 20), (0.8, 0.8, 2.5), 2, [([14, 13, 9], [7, 6, 5])], [([16, 13, 10], [7, 6, 5])]),
    ("isotropic, tolerance on the lattice", (24, 24, 24), (1, 1, 1), 1, [([11, 12, 12], [6, 6, 6])], [([12, 12, 12], [6, 6, 6])]),
    ("touching the edge", (20, 18, 12), (1.5, 1, 3), 3, [([2, 3, 1], [5, 6, 4]), ([18, 16, 11], [4, 4, 4])], [([1, 2, 0], [5, 6, 4])]),
    ("far apart", (48, 16, 16), (0.7, 0.9, 1.1), 2, [([5, 5, 5], [3, 4, 3])], [([41, 9, 9], [4, 3, 5])]),
    ("equal", (16, 16, 16), (1, 2, 3), 0, [([8, 8, 8], [4, 5, 3])], [([8, 8, 8], [4, 5, 3])]),
    ("one voxel", (9, 9, 9), (1, 1, 2), 2, [([4, 4, 4], [0.5, 0.5, 0.5])], [([6, 3, 5], [0.5, 0.5, 0.5])]),
    ("in two pieces", (40, 40, 24), (0.98, 0.98, 1.25), 1.5, [([12, 14, 10], [6, 7, 5]), ([28, 26, 14], [5, 4, 6])], [([13, 14, 10], [6, 6, 5]), ([27, 27, 13], [5, 5, 5]), ([33, 8, 5], [2, 3, 2])]),
    ("flat", (30, 30, 1), (1, 1, 5), 1, [([14, 15, 0], [9, 6, 1])], [([15, 14, 0], [8, 7, 1])]),
]:
    p, r = mask(shape, prediction), mask(shape, reference)
    cases.append({"name": name, "shape": shape, "spacing": spacing, "tolerance": tolerance, "prediction": prediction, "reference": reference, **metrics(p, r, spacing, tolerance)})

transforms = []
for shape, spacing, share in [((9, 7, 5), (1, 1, 1), 0.03), ((6, 11, 4), (0.7, 1.3, 2.5), 0.05), ((13, 1, 6), (2, 1, 0.5), 0.1), ((5, 5, 5), (1, 2, 4), 0.9)]:
    set_ = random.rand(*shape) < share
    set_[shape[0] // 2, 0, -1] = True
    d = ndimage.distance_transform_edt(~set_, sampling=spacing)
    transforms.append({"shape": shape, "spacing": spacing, "set": np.flatnonzero(set_.ravel(order="F")).tolist(), "distances": np.round(d.ravel(order="F"), 9).tolist()})

# Differences with and without zeros and ties, of as many pairs as the rules of scipy.stats.wilcoxon tell apart: up to 13, up to 50, more.
tests = []
random_w = np.random.RandomState(15)
for n in list(range(1, 17)) * 24 + [20, 30, 49, 50, 51, 52, 60, 80] * 6:
    kind = random_w.randint(4)
    if kind == 0:  # neither zeros nor ties
        d = random_w.permutation(np.arange(1, 3 * n + 1))[:n] * random_w.choice([-1, 1], n)
    elif kind == 1:  # ties, no zeros
        d = random_w.randint(1, max(n // 2, 2), n) * random_w.choice([-1, 1], n)
    elif kind == 2:  # zeros, no ties
        d = random_w.permutation(np.arange(1, 3 * n + 1))[:n] * random_w.choice([-1, 1, 1], n)
        d[: random_w.randint(1, n + 1)] = 0
    else:
        d = random_w.randint(-max(n // 3, 2), max(n // 2, 3), n)
    if n == 1 and d[0] == 0:
        continue  # scipy refuses to enumerate one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statistic, p = stats.wilcoxon(d.astype(float))
    if np.isnan(p):
        continue  # more than 13 zeros and nothing else
    tests.append({"d": d.tolist(), "statistic": statistic, "p": p})

quantiles = []
for n in [1, 2, 3, 10, 41]:
    v = np.round(random.rand(n) * 10, 4)
    quantiles.append({"values": v.tolist(), "q": [0, 0.05, 0.5, 0.95, 1], "want": np.percentile(v, [0, 5, 50, 95, 100]).tolist()})

means = []
for n in [2, 3, 4, 12, 40]:
    d = np.round(random.randn(n) * 5 + 2, 4)
    t, p = stats.ttest_1samp(d, 0)
    low, high = stats.t.interval(0.95, n - 1, loc=d.mean(), scale=stats.sem(d))
    means.append({"differences": d.tolist(), "statistic": t, "p": p, "low": low, "high": high})

with open("eval_golden.json", "w") as f:
    json.dump({"cases": cases, "transforms": transforms, "wilcoxon": tests, "quantiles": quantiles, "means": means}, f, default=float, separators=(",", ":"))
    f.write("\n")

#!/usr/bin/python3
"""Golden file of internal/quality: structures of made-up label maps by scipy.ndimage, robust z-scores by scipy.stats,
isotonic regression by scikit-learn."""
import json, os
import numpy as np
from scipy import ndimage, stats
from sklearn.isotonic import IsotonicRegression

rng = np.random.default_rng(3)
ball = np.ones((3, 3, 3))
maps = []
# (k, j, i); the affines: RAS, flipped and turned axes, oblique
for shape, affine in (((9, 11, 13), [[.9, 0, 0, -4], [0, 1.1, 0, 2], [0, 0, 3, 7]]),
                      ((12, 7, 10), [[-1, 0, 0, 30], [0, 0, 2.5, 1], [0, -1.5, 0, 9]]),
                      ((8, 14, 9), [[1.2, -.3, 0, 5], [.3, 1.2, 0, -6], [0, 0, -2, 40]])):
    labels = np.zeros(shape, int)
    for label in (1, 2, 4):  # blobs of smooth noise
        labels[ndimage.gaussian_filter(rng.normal(size=shape), 1.2) > (.16, .2, 0, .24)[label - 1]] = label
    m = np.array(affine + [[0, 0, 0, 1]], float)
    spacing = np.sqrt((m[:3, :3] ** 2).sum(0))
    world = np.abs(m[:3, :3] / spacing).argmax(0)  # of i, j, k
    found = []
    for label, box in enumerate(ndimage.find_objects(labels), 1):
        if box is None:
            continue
        mask = labels == label
        parts, n = ndimage.label(mask, ball)
        cut = []
        for axis in range(3):
            s, end = box[2 - axis], shape[2 - axis]
            up = m[world[axis], axis] > 0
            for there, last in ((s.start == 0, False), (s.stop == end, True)):
                if there:
                    cut.append("LRPAIS"[2 * world[axis] + (last == up)])
            if world[axis] == 2:
                height = (s.stop - s.start) * spacing[axis]
        k, j, i = ndimage.center_of_mass(mask)
        found.append({"Label": label, "Voxels": int(mask.sum()), "Volume": float(mask.sum() * spacing.prod() / 1000),
                      "Height": float(height), "Components": n,
                      "Largest": float(np.bincount(parts.ravel())[1:].max() / mask.sum()),
                      "Cut": "".join(sorted(cut, key="LRPAIS".index)), "Centre": (m @ [i, j, k, 1])[:3].tolist()})
    maps.append({"shape": shape[::-1], "affine": m.tolist(), "labels": "".join(map(str, labels.ravel())), "structures": found})

sets = []
for x in (rng.normal(3, 2, 9), np.append(rng.normal(0, 1, 20), [15, -30]), np.array([1., 1, 1, 1, 1, 1, 1, 2]), np.full(8, 4.)):
    scale = stats.median_abs_deviation(x, scale="normal")
    if scale == 0:
        scale = np.abs(x - np.median(x)).mean() / np.sqrt(2 / np.pi)
    sets.append({"values": x.tolist(), "z": [float((v - np.median(x)) / scale) if scale else 0. for v in x]})
curves = []
for n, ties in ((12, False), (25, True), (3, False)):
    x = rng.integers(0, 9, n) / 8. if ties else rng.uniform(0, 1, n)
    y = np.clip(x + rng.normal(0, .3, n), 0, 1)
    at = np.concatenate([x, rng.uniform(-.2, 1.2, 10)])
    fit = IsotonicRegression(out_of_bounds="clip").fit(x, y)
    curves.append({"x": x.tolist(), "y": y.tolist(), "at": at.tolist(), "want": fit.predict(at).tolist()})
with open(os.path.dirname(os.path.abspath(__file__)) + "/quality.json", "w") as f:
    json.dump({"maps": maps, "sets": sets, "curves": curves}, f)

#!/usr/bin/python3
"""Golden file of segment: the largest component of each class under 26-connectivity, by scipy.ndimage.label."""
import json, os
import numpy as np
from scipy import ndimage

rng = np.random.default_rng(0)
cases = []
for shape, background in (((11, 13, 17), 0.86), ((9, 8, 40), 0.7), ((1, 20, 30), 0.6), ((6, 1, 33), 0.5), ((12, 12, 1), 0.6)):  # (k, j, i)
    classes = rng.choice(4, size=shape, p=[background] + [(1 - background) / 3] * 3).astype(np.uint8)
    kept = np.zeros_like(classes)
    for c in range(1, 4):
        found, n = ndimage.label(classes == c, np.ones((3, 3, 3)))
        if n:
            kept[found == np.bincount(found.ravel())[1:].argmax() + 1] = c
    text = lambda a: "".join(map(str, a.ravel()))
    cases.append({"shape": shape[::-1], "classes": text(classes), "kept": text(kept)})
with open(os.path.dirname(os.path.abspath(__file__)) + "/segment_components.json", "w") as f:
    json.dump(cases, f)

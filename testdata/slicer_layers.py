"""Writes testdata/slicer_layers.json: segmentations as 3D Slicer lays them out, with the voxels of each
segment as Slicer's own Python package reads them.

    pip install slicerio==1.4.0 pynrrd==1.1.3 numpy==2.4.6
    python3 testdata/slicer_layers.py
"""

import base64
import json
import os
import tempfile

import nrrd
import numpy as np
import slicerio

SHAPE = (6, 5, 4)
rng = np.random.default_rng(5)
regions = rng.integers(0, 5, SHAPE)  # 0 is background
masks = {name: regions == n + 1 for n, name in enumerate(["ball", "box", "tube", "cone"])}
masks["shell"] = masks["ball"] | (regions == 0) & (rng.random(SHAPE) < 0.3)  # covers the ball

# Of each file, its segments: name, layer, LabelValue.
FILES = {
    "one": [("ball", 0, 1), ("box", 0, 2)],
    "values-again": [("ball", 0, 1), ("box", 1, 1)],
    "values-of-their-own": [("box", 0, 7), ("ball", 1, 3)],
    "several-in-a-layer": [("tube", 1, 1), ("ball", 0, 1), ("box", 0, 2), ("cone", 1, 2)],
    "overlap": [("ball", 0, 1), ("shell", 1, 1), ("box", 0, 2)],
    "empty": [("ball", 0, 1), ("nothing", 1, 1), ("box", 2, 1)],
}
masks["nothing"] = np.zeros(SHAPE, bool)

cases = []
for name, segments in FILES.items():
    layers = np.zeros((max(layer for _, layer, _ in segments) + 1,) + SHAPE, np.uint8)
    header = {"space": "left-posterior-superior", "space origin": [3.0, -4.0, 5.0], "encoding": "gzip"}
    for n, (segment, layer, value) in enumerate(segments):
        layers[layer][masks[segment]] = value
        for key, text in {"ID": f"Segment_{n}", "Name": segment, "LabelValue": value, "Layer": layer}.items():
            header[f"Segment{n}_{key}"] = str(text)
    axes = [[2.0, 0, 0], [0, 2.5, 0], [0, 0, 3.0]]
    if len(layers) == 1:
        header |= {"space directions": axes, "kinds": ["domain"] * 3}
    else:
        header |= {"space directions": [[np.nan] * 3] + axes, "kinds": ["list"] + ["domain"] * 3}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.seg.nrrd")
        nrrd.write(path, layers[0] if len(layers) == 1 else layers, header)
        back = slicerio.read_segmentation(path)
        read = {}
        for segment, _, _ in segments:
            voxels = slicerio.extract_segments(back, [(segment, 1)])["voxels"]
            assert (voxels == masks[segment]).all()
            read[segment] = np.flatnonzero(voxels.flatten(order="F")).tolist()
        with open(path, "rb") as f:
            cases.append({"name": name, "file": base64.b64encode(f.read()).decode(), "segments": read})

with open("testdata/slicer_layers.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

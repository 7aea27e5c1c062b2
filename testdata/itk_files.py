"""Writes testdata/itk_files.json: NRRD and MetaImage files that SimpleITK has written, with what it
reads in them.

    pip install SimpleITK==2.5.7 numpy
    python3 testdata/itk_files.py
"""

import base64
import json
import os
import tempfile

import numpy as np
import SimpleITK as sitk

rng = np.random.default_rng(3)
OBLIQUE = (0.8, 0.36, 0.48, 0.6, -0.48, -0.64, 0, 0.8, -0.6)


def image(dtype, direction=None, vector=False, fourth=False):
    shape = (3, 4, 5) + ((2,) if vector else ())
    if fourth:
        shape = (2,) + shape
    values = rng.normal(0, 300, shape) if dtype == "float32" else rng.integers(0 if dtype.startswith("u") else -1000, 200, shape)
    im = sitk.GetImageFromArray(values.astype(dtype), isVector=vector)
    extra = [1.0] if fourth else []
    im.SetSpacing([0.7, 1.9, 2.5] + extra)
    im.SetOrigin([-31.5, 12.25, 100.125] + [0.0] * len(extra))
    if direction:
        im.SetDirection(direction)
    return im


def affine(im):
    """Of RAS millimetres."""
    a = np.eye(4)
    tail = [0] * (im.GetDimension() - 3)
    origin = np.array(im.TransformIndexToPhysicalPoint([0, 0, 0] + tail))[:3]
    for axis in range(3):
        index = [0, 0, 0] + tail
        index[axis] = 1
        a[:3, axis] = np.array(im.TransformIndexToPhysicalPoint(index))[:3] - origin
    a[:3, 3] = origin
    return (np.diag([-1, -1, 1, 1]) @ a).tolist()


segments = image("uint8")
for key, value in {"Segment0_LabelValue": "3", "Segment0_Name": "Parotid left", "Segment1_LabelValue": "7", "Segment1_Name": "cord", "Segment2_Name": "no value"}.items():
    segments.SetMetaData(key, value)

cases = []
for name, im, compressed in [
    ("axial.nrrd", image("int16"), True),
    ("raw.nrrd", image("uint16"), False),
    ("oblique.nhdr", image("float32", OBLIQUE), False),
    ("packed.nhdr", image("int32", OBLIQUE), True),
    ("vector.nrrd", image("int16", vector=True), True),
    ("four.nrrd", image("int16", fourth=True), True),
    ("organs.seg.nrrd", segments, True),
    ("axial.mha", image("int16"), False),
    ("packed.mha", image("float32", OBLIQUE), True),
    ("double.mha", image("float64"), True),
    ("oblique.mhd", image("uint8", OBLIQUE), False),
    ("packed.mhd", image("int16", OBLIQUE), True),
    ("vector.mha", image("int16", vector=True), True),
    ("four.mha", image("int16", fourth=True), True),
]:
    with tempfile.TemporaryDirectory() as folder:
        sitk.WriteImage(im, f"{folder}/{name}", compressed)
        back = sitk.ReadImage(f"{folder}/{name}")
        files = {}
        for file in sorted(os.listdir(folder)):
            with open(f"{folder}/{file}", "rb") as f:
                files[file] = base64.b64encode(f.read()).decode()
        values = sitk.GetArrayFromImage(back)
        if back.GetNumberOfComponentsPerPixel() > 1:
            values = np.moveaxis(values, -1, 0)
        cases.append({"name": name, "files": files, "shape": list(back.GetSize()[:3]), "affine": affine(back), "volumes": values.reshape(-1, 60).astype(float).tolist()})

with open("testdata/itk_files.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

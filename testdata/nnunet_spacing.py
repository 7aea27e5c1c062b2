#!/usr/bin/env python3
"""Makes nnunet_spacing.json: headers of NIfTI whose pixdim, sform and qform say one thing or several, as whole files in base64, and the
spacing that SimpleITK reads, by which nnU-Net resamples; and "turned", that of nibabel for axes that are turned to the patient's, as
nnU-Net's NibabelIOWithReorient has it.

    pip install SimpleITK==2.5.7 nibabel numpy; python3 testdata/nnunet_spacing.py
"""
import base64
import json
import pathlib
import struct
import tempfile

import nibabel
import numpy as np
import SimpleITK as sitk

NONE, SCANNER, ALIGNED = 0, 1, 2


def file(pixdim, sizes=(0.7, 0.8, 2.5), sform=SCANNER, qform=SCANNER, quaternion=(0, 0, 0), turned=np.eye(3)):
    h = bytearray(352 + 8)
    struct.pack_into("<i", h, 0, 348)
    struct.pack_into("<8h", h, 40, 3, 2, 2, 2, 1, 1, 1, 1)
    struct.pack_into("<2h", h, 70, 2, 8)
    struct.pack_into("<8f", h, 76, 1, *pixdim, 0, 0, 0, 0)
    struct.pack_into("<2f", h, 108, 352, 1)
    struct.pack_into("<2h", h, 252, qform, sform)
    struct.pack_into("<6f", h, 256, *quaternion, 1, 2, 3)
    matrix = turned @ np.diag(sizes)
    for row in range(3):
        struct.pack_into("<4f", h, 280 + 16 * row, *matrix[row], row + 1)
    h[344:348] = b"n+1\0"
    return bytes(h)


def oblique(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]), (0, 0, np.sin(angle / 2))


def main():
    made = {
        "the same": file((0.7, 0.8, 2.5)), "another": file((1, 1, 3)), "nearly": file((0.7001, 0.8, 2.5)), "negative": file((-0.7, 0.8, -2.5)),
        "zero": file((0, 0.8, 2.5)), "no number": file((float("nan"), 0.8, 2.5)), "no sform": file((1, 2, 3), sform=NONE),
        "no qform": file((1, 2, 3), qform=NONE), "neither": file((1, 2, 3), sform=NONE, qform=NONE),
        "aligned": file((1, 2, 3), sform=ALIGNED, turned=oblique(np.pi / 2)[0]),
        "another, of axes to the left and the back": file((1, 1, 3), turned=np.diag([-1, -1, 1])),
    }
    for angle in (0.1, 0.3, 0.7):  # columns in float32 are a little shorter or longer
        turned, quaternion = oblique(angle)
        made[f"oblique by {angle}"] = file((0.4, 0.4, 0.4), (0.4, 0.4, 0.4), quaternion=quaternion, turned=turned)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/a.nii"
        for name, data in made.items():
            pathlib.Path(path).write_bytes(data)
            one = {"name": name, "file": base64.b64encode(data).decode(), "spacing": sitk.ReadImage(path).GetSpacing()}
            if name not in ("negative", "zero", "no number"):
                image = nibabel.load(path)
                image = image.as_reoriented(nibabel.orientations.io_orientation(image.affine))
                one["turned"] = [float(x) for x in image.header.get_zooms()]
            out.append(one)
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()

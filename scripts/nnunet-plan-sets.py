#!/usr/bin/env python3
"""Makes six data sets for scripts/nnunet-plan-check.py of public CTs and an MR scan; mr-set.py makes one more, of MR.

    pip install nibabel numpy
    python3 scripts/nnunet-plan-sets.py DATA nnUNet_raw

DATA has openkbp (its first eight patients are taken), totalsegmentator with ct.nii.gz, ct_seg.nii.gz (the trunk of a patient, 3 mm) and
aorta_ct.nii.gz, aorta_seg.nii.gz (1.5 mm), and nifti/nibabel/anatomical.nii, which comes with nibabel. What a set is to show and no scan has
is made of these: thick slices are the means of six along z, with a margin of zeros; fine scans have each voxel eight times; of two channels the
second is the first one's square. Labels that nobody drew are thresholds, of which a fingerprint asks no more.
"""
import glob
import json
import os
import sys

import nibabel as nib
import numpy as np


def write(raw, name, channels, cases):
    """A folder of nnUNet_raw. A case is its channels, its labels and its affine."""
    out, numbers = os.path.join(raw, name), np.unique(np.concatenate([np.unique(labels) for _, labels, _ in cases]))
    for part in ("imagesTr", "labelsTr"):
        os.makedirs(os.path.join(out, part))
    for n, (images, labels, affine) in enumerate(cases):
        for channel, image in enumerate(images):
            nib.save(nib.Nifti1Image(image.astype(np.float32), affine), os.path.join(out, "imagesTr", f"case_{n}_{channel:04d}.nii.gz"))
        drawn = np.searchsorted(numbers, labels).astype(np.uint8)
        nib.save(nib.Nifti1Image(drawn, affine), os.path.join(out, "labelsTr", f"case_{n}.nii.gz"))
    with open(os.path.join(out, "dataset.json"), "w") as f:
        json.dump({"channel_names": {str(n): channel for n, channel in enumerate(channels)}, "numTraining": len(cases), "file_ending": ".nii.gz",
                   "labels": {"background": 0, **{f"structure_{v}": k for k, v in enumerate(numbers) if k}}}, f)


def load(image, seg):
    scan = nib.load(image)
    return np.asarray(scan.dataobj).astype(np.float32), np.asarray(nib.load(seg).dataobj).astype(np.int32), scan.affine


def scaled(affine, by):
    return affine @ np.diag([*by, 1.0])


def parts(scan, n):
    """The scan in n parts along z."""
    ct, labels, affine = scan
    for image, drawn in zip(np.array_split(ct, n, 2), np.array_split(labels, n, 2)):
        yield image, drawn, affine


def thick(scan):
    ct, labels, affine = scan
    slices = ct.shape[2] // 6
    image = ct[..., :slices * 6].reshape(*ct.shape[:2], slices, 6).mean(3) + 1024
    margin = ((9, 5), (7, 11), (1, 2))
    return [np.pad(image, margin)], np.pad(labels[..., 3:slices * 6:6], margin), scaled(affine, (1, 1, 6))


def fine(scan):
    def larger(voxels):
        return voxels.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    ct, labels, affine = scan
    return [larger(ct)], larger(labels), scaled(affine, (0.5, 0.5, 0.5))


def main():
    data, raw = sys.argv[1:]
    total = os.path.join(data, "totalsegmentator")
    images = sorted(glob.glob(os.path.join(data, "openkbp", "imagesTr", "*.nii.gz")))[:8]
    patients = [load(image, image.replace("imagesTr", "labelsTr")) for image in images]
    trunk, aorta = load(f"{total}/ct.nii.gz", f"{total}/ct_seg.nii.gz"), load(f"{total}/aorta_ct.nii.gz", f"{total}/aorta_seg.nii.gz")
    write(raw, "Dataset001_HeadNeck", ["CT"], [([ct], labels, affine) for ct, labels, affine in patients])
    write(raw, "Dataset002_Trunk", ["CT"], [([ct], labels, affine) for ct, labels, affine in parts(trunk, 6)])
    write(raw, "Dataset003_Thick", ["MR"], [thick(scan) for scan in patients])
    small = [(ct[40:70, 40:64, :], labels[40:70, 40:64, :], affine) for ct, labels, affine in parts(aorta, 5)]
    write(raw, "Dataset004_Small", ["CT", "square"], [([ct, ct ** 2], labels, affine) for ct, labels, affine in small])
    write(raw, "Dataset005_Fine", ["CT"], [fine(aorta), fine(aorta)])
    head = nib.load(os.path.join(data, "nifti", "nibabel", "anatomical.nii"))
    values = np.asarray(head.dataobj).astype(np.float32)
    write(raw, "Dataset006_Head", ["MR"], [([values], (values > np.percentile(values, 90)).astype(np.int32), head.affine)])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes a data set of real MR scans for scripts/nnunet-plan-check.py, of public files (BSD licence).

    git clone https://github.com/neurolabusc/niivue-images
    pip install nibabel numpy
    python3 scripts/mr-set.py niivue-images nnUNet_raw/Dataset044_MR [MORE.nii.gz ...]

T1 with and without contrast, proton density, angiography and perfusion, each of another grid. Nobody drew labels: they are
thresholds of the intensities, of which a fingerprint asks no more.
"""
import json
import os
import sys

import nibabel as nib
import numpy as np

SCANS = ["MR_Gd", "chris_MRA", "chris_PD", "chris_t1", "pcasl", "spm152"]


def main():
    folder, out, more = sys.argv[1], sys.argv[2], sys.argv[3:]
    files = [os.path.join(folder, name + ".nii.gz") for name in SCANS] + more
    for part in ("imagesTr", "labelsTr"):
        os.makedirs(os.path.join(out, part))
    for path in files:
        scan = nib.load(path)
        values = np.asanyarray(scan.dataobj).astype(np.float32)
        if values.ndim == 4:
            values = values[..., 0]
        labels = np.zeros(values.shape, np.uint8)
        for label, percentile in ((1, 60), (2, 95)):
            labels[values > np.percentile(values[values > 0], percentile)] = label
        name = os.path.basename(path).split(".")[0]
        nib.save(nib.Nifti1Image(values, scan.affine), os.path.join(out, "imagesTr", name + "_0000.nii.gz"))
        nib.save(nib.Nifti1Image(labels, scan.affine), os.path.join(out, "labelsTr", name + ".nii.gz"))
    with open(os.path.join(out, "dataset.json"), "w") as f:
        json.dump({"channel_names": {"0": "MRI"}, "labels": {"background": 0, "bright": 1, "brightest": 2},
                   "numTraining": len(files), "file_ending": ".nii.gz"}, f)


main()

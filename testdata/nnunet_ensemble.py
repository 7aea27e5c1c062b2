#!/usr/bin/env python3
"""Makes testdata/nnunet_ensemble: the label map that nnU-Net's own functions of nnUNetv2_ensemble make of the probabilities of the 2D model
nnunet/flat and the 3D model nnunet/thick on the scan of the first, which both tell by the same labels.

    go build -o voxsaw ./cmd/voxsaw
    python3 testdata/nnunet_ensemble.py ./voxsaw       nnunetv2 2.8.1 and batchgenerators without what they need, numpy and nibabel, from PyPI

The probabilities are what voxsaw predict --probabilities writes: TestProbabilitiesOfNNUNet and TestGoldenModels hold those to nnU-Net's. Averaging
and deciding is nnU-Net's alone. Of PyTorch nothing is needed for that, so that it and others are stood in for.
"""
import importlib.abc
import importlib.machinery
import pathlib
import subprocess
import sys
import tempfile
from unittest.mock import MagicMock

import nibabel
import numpy as np

ABSENT = ("torch", "dynamic_network_architectures", "acvl_utils", "scipy", "skimage", "pandas", "SimpleITK", "tqdm", "tifffile")


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ABSENT else None

    def create_module(self, spec):
        return MagicMock(name=spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Absent())
# typing.Union and isinstance want classes
for name, attribute in (("torch", "Tensor"), ("torch", "device"), ("torch.nn", "Module")):
    setattr(__import__(name, fromlist=["x"]), attribute, type(attribute, (), {}))
sys.modules["torch"].inference_mode = lambda *_: lambda f: f
from nnunetv2.ensembling.ensemble import average_probabilities
from nnunetv2.utilities.label_handling.label_handling import LabelManager

HERE = pathlib.Path(__file__).resolve().parent


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    files = []
    for model in ("flat", "thick"):
        subprocess.run([sys.argv[1], "predict", HERE / "nnunet/flat/scan_0000.nii.gz", "--checkpoint", HERE / "nnunet" / model, "--probabilities", "--force",
                        "--out", work / f"{model}.nii.gz"], check=True)
        image = nibabel.load(work / f"{model}_probabilities.nii.gz")
        files.append(str(work / f"{model}.npz"))
        np.savez_compressed(files[-1], probabilities=np.asarray(image.dataobj, np.float32).transpose(3, 2, 1, 0))
    manager = LabelManager({"background": 0, "organ": 1, "lesion": 2}, None)
    labels = manager.convert_probabilities_to_segmentation(average_probabilities(files))
    for n, file in enumerate(files):
        one = manager.convert_probabilities_to_segmentation(np.load(file)["probabilities"])
        print(pathlib.Path(file).stem, np.bincount(one.ravel()), np.count_nonzero(one != labels), "voxels are others than together")
    print("together", np.bincount(labels.ravel()))
    made = nibabel.Nifti1Image(labels.transpose(2, 1, 0).astype(np.uint8), image.affine)
    made.header["intent_code"] = 1002
    (HERE / "nnunet_ensemble").mkdir(exist_ok=True)
    nibabel.save(made, HERE / "nnunet_ensemble" / "labels.nii.gz")


if __name__ == "__main__":
    main()

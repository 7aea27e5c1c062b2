#!/usr/bin/env python3
"""Makes testdata/nnunet/flat and flat_thick: small 2D models of nnU-Net with drawn weights, a scan for each, and the label maps that
nnU-Net itself predicts, with mirror images and without.

    python3 testdata/nnunet_flat.py       nnunetv2 2.8.1 and torch 2.15 from PyPI, on a CPU

The networks are made by nnU-Net from the plans, the label maps by its nnUNetPredictor.
"""
import json
import os
import pathlib
import shutil
import tempfile

os.environ.update(nnUNet_raw=tempfile.gettempdir(), nnUNet_preprocessed=tempfile.gettempdir(), nnUNet_results=tempfile.gettempdir())

import numpy as np
import SimpleITK as sitk
import torch
from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

HERE = pathlib.Path(__file__).resolve().parent / "nnunet"


def model(name, network, dataset, folds, transpose, spacing, patch, scheme):
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    kernels = {"conv_op": "torch.nn.modules.conv.Conv2d", "conv_bias": True, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm2d",
               "norm_op_kwargs": {"eps": 1e-5, "affine": True}, "dropout_op": None, "dropout_op_kwargs": None, "nonlin": "torch.nn.LeakyReLU",
               "nonlin_kwargs": {"inplace": True}}
    arch = {"network_class_name": "dynamic_network_architectures.architectures.unet." + network.pop("class"), "arch_kwargs": network | kernels,
            "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]}
    resampling = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    channels = len(dataset["channel_names"])
    plans = {
        "dataset_name": "Dataset901_Flat", "plans_name": "nnUNetPlans", "image_reader_writer": "SimpleITKIO",
        "transpose_forward": transpose, "transpose_backward": [int(n) for n in np.argsort(transpose)],
        "label_manager": "LabelManager", "experiment_planner_used": "ExperimentPlanner",
        "foreground_intensity_properties_per_channel": {str(c): {"mean": 20.5, "std": 81.25, "percentile_00_5": -150.0, "percentile_99_5": 240.0}
                                                        for c in range(channels)},
        "configurations": {"2d": {
            "data_identifier": "nnUNetPlans_2d", "preprocessor_name": "DefaultPreprocessor", "batch_size": 2, "patch_size": patch, "spacing": spacing,
            "normalization_schemes": [scheme] * channels, "use_mask_for_norm": [False] * channels,
            "resampling_fn_data": "resample_data_or_seg_to_shape", "resampling_fn_data_kwargs": resampling,
            "resampling_fn_seg": "resample_data_or_seg_to_shape", "resampling_fn_seg_kwargs": resampling | {"is_seg": True, "order": 1},
            "resampling_fn_probabilities": "resample_data_or_seg_to_shape", "resampling_fn_probabilities_kwargs": resampling | {"order": 1},
            "architecture": arch, "batch_dice": True}}}
    (folder / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (folder / "dataset.json").write_text(json.dumps(dataset, indent=1) + "\n")
    for fold in folds:
        torch.manual_seed(70 + fold)
        net = get_network_from_plans(arch["network_class_name"], dict(arch["arch_kwargs"]), arch["_kw_requires_import"], channels,
                                     len(dataset["labels"]), deep_supervision=False)
        for name_, p in net.named_parameters():
            if name_.endswith("norm.weight"):
                torch.nn.init.normal_(p, 1.0, 0.2)
            elif "seg_layers" in name_ and not name_.endswith("bias"):
                torch.nn.init.normal_(p, 0.0, 1.0)
            elif name_.endswith("bias"):
                torch.nn.init.normal_(p, 0.0, 0.1)
            else:
                torch.nn.init.normal_(p, 0.0, (2 / np.prod(p.shape[1:])) ** 0.5)
        (folder / f"fold_{fold}").mkdir(exist_ok=True)
        torch.save({
            "network_weights": net.state_dict(), "optimizer_state": {}, "trainer_name": "nnUNetTrainer", "_best_ema": np.float64(0.5),
            "init_args": {"configuration": "2d", "fold": fold, "device": torch.device("cpu")}, "inference_allowed_mirroring_axes": (0, 1),
        }, folder / f"fold_{fold}" / "checkpoint_final.pth")
    return folder


def scan(path, shape, spacing, direction, seed):
    """Smooth blobs under some noise, in a border of zeros along one side."""
    r = np.random.default_rng(seed)
    x = r.normal(0, 10, shape)
    z = np.indices(shape)
    for centre in r.uniform(0.2, 0.8, (4, 3)):
        x += 250 * np.exp(-sum(((z[a] - centre[a] * shape[a]) / (0.15 * shape[a])) ** 2 for a in range(3)))
    x[:, :3], x[:, :, :2] = 0, 0
    image = sitk.GetImageFromArray(np.round(x).astype(np.int16))
    image.SetSpacing(spacing)
    image.SetOrigin((-10.5, 20.25, 3.0))
    image.SetDirection(direction)
    sitk.WriteImage(image, str(path))


def main():
    torch.set_num_threads(1)
    flat = model("flat", {"class": "PlainConvUNet", "n_stages": 3, "features_per_stage": [4, 6, 7], "kernel_sizes": [[3, 3], [3, 3], [3, 3]],
                          "strides": [[1, 1], [2, 2], [2, 1]], "n_conv_per_stage": [2, 1, 2], "n_conv_per_stage_decoder": [1, 2]},
                 {"channel_names": {"0": "CT"}, "labels": {"background": 0, "organ": 1, "lesion": 2}, "file_ending": ".nii.gz"},
                 [0, 1], [0, 1, 2], [1.5, 1.9], [20, 32], "CTNormalization")
    scan(flat / "scan_0000.nii.gz", (19, 34, 27), (1.7, 1.2, 3.0), (1, 0, 0, 0, 1, 0, 0, 0, 1), 3)
    thick = model("flat_thick", {"class": "ResidualEncoderUNet", "n_stages": 3, "features_per_stage": [4, 5, 6], "kernel_sizes": [[3, 3], [3, 3], [3, 5]],
                                 "strides": [[1, 1], [1, 2], [2, 2]], "n_blocks_per_stage": [1, 2, 1], "n_conv_per_stage_decoder": [1, 1]},
                  {"channel_names": {"0": "T2"}, "labels": {"background": 0, "a": 1, "b": 2, "c": 3}, "file_ending": ".nii.gz"},
                  [0], [2, 0, 1], [1.5, 2.0], [16, 12], "ZScoreNormalization")
    scan(thick / "scan_0000.nii.gz", (26, 17, 14), (7.0, 1.9, 1.3), (0, 1, 0, 0, 0, -1, -1, 0, 0), 4)
    for folder in (flat, thick):
        for mirrored in (True, False):
            p = nnUNetPredictor(use_mirroring=mirrored, device=torch.device("cpu"), allow_tqdm=False, perform_everything_on_device=False)
            p.initialize_from_trained_model_folder(str(folder), None)
            out = pathlib.Path(tempfile.mkdtemp())
            p.predict_from_files_sequential([[str(folder / "scan_0000.nii.gz")]], str(out), overwrite=True)
            made = next(out.glob("*.nii.gz"))
            array = sitk.GetArrayFromImage(sitk.ReadImage(str(made)))
            print(folder.name, "mirrored" if mirrored else "plain", array.shape, np.bincount(array.ravel()))
            shutil.copy(made, folder / f"labels_{'mirrored' if mirrored else 'plain'}.nii.gz")
            shutil.rmtree(out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes testdata/nnunet_ensemble: a 2D and a 3D model of nnU-Net with drawn weights, of labels and of overlapping regions, a scan, and the label
map that nnUNetv2_ensemble makes of what nnUNetv2_predict --save_probabilities writes with each.

    python3 testdata/nnunet_ensemble.py       nnunetv2 2.8.1 and torch 2.15 from PyPI, on a CPU
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
from nnunetv2.ensembling.ensemble import ensemble_folders
from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

import nnunet_flat

HERE = pathlib.Path(__file__).resolve().parent / "nnunet_ensemble"


def model(folder, dimensions, dataset, heads, transpose, spacing, patch, seed):
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [[3] * dimensions] * 3
    arch = {"network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet", "arch_kwargs": {
        "n_stages": 3, "features_per_stage": [4, 5, 6], "kernel_sizes": kernels, "strides": [[1] * dimensions, [2] * dimensions, [2] * dimensions],
        "n_conv_per_stage": [1, 1, 1], "n_conv_per_stage_decoder": [1, 1], "conv_op": f"torch.nn.modules.conv.Conv{dimensions}d", "conv_bias": True,
        "norm_op": f"torch.nn.modules.instancenorm.InstanceNorm{dimensions}d", "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "dropout_op": None, "dropout_op_kwargs": None, "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": True}},
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]}
    resampling = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    configuration = "2d" if dimensions == 2 else "3d_fullres"
    plans = {
        "dataset_name": "Dataset902_Ensemble", "plans_name": "nnUNetPlans", "image_reader_writer": "SimpleITKIO",
        "transpose_forward": transpose, "transpose_backward": [int(n) for n in np.argsort(transpose)],
        "label_manager": "LabelManager", "experiment_planner_used": "ExperimentPlanner",
        "foreground_intensity_properties_per_channel": {"0": {"mean": 20.5, "std": 81.25, "percentile_00_5": -150.0, "percentile_99_5": 240.0}},
        "configurations": {configuration: {
            "data_identifier": f"nnUNetPlans_{configuration}", "preprocessor_name": "DefaultPreprocessor", "batch_size": 2, "patch_size": patch,
            "spacing": spacing, "normalization_schemes": ["CTNormalization"], "use_mask_for_norm": [False],
            "resampling_fn_data": "resample_data_or_seg_to_shape", "resampling_fn_data_kwargs": resampling,
            "resampling_fn_seg": "resample_data_or_seg_to_shape", "resampling_fn_seg_kwargs": resampling | {"is_seg": True, "order": 1},
            "resampling_fn_probabilities": "resample_data_or_seg_to_shape", "resampling_fn_probabilities_kwargs": resampling | {"order": 1},
            "architecture": arch, "batch_dice": True}}}
    (folder / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (folder / "dataset.json").write_text(json.dumps(dataset, indent=1) + "\n")
    torch.manual_seed(seed)
    net = get_network_from_plans(arch["network_class_name"], dict(arch["arch_kwargs"]), arch["_kw_requires_import"], 1, heads, deep_supervision=False)
    for name, p in net.named_parameters():
        if name.endswith("norm.weight"):
            torch.nn.init.normal_(p, 1.0, 0.2)
        elif "seg_layers" in name and not name.endswith("bias"):
            torch.nn.init.normal_(p, 0.0, 1.0)
        elif name.endswith("bias"):
            torch.nn.init.normal_(p, 0.0, 0.1)
        else:
            torch.nn.init.normal_(p, 0.0, (2 / np.prod(p.shape[1:])) ** 0.5)
    (folder / "fold_0").mkdir(exist_ok=True)
    torch.save({
        "network_weights": net.state_dict(), "optimizer_state": {}, "trainer_name": "nnUNetTrainer", "_best_ema": np.float64(0.5),
        "init_args": {"configuration": configuration, "fold": 0, "device": torch.device("cpu")},
        "inference_allowed_mirroring_axes": tuple(range(dimensions)),
    }, folder / "fold_0" / "checkpoint_final.pth")
    return folder


def main():
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    nnunet_flat.scan(HERE / "scan_0000.nii.gz", (21, 34, 27), (1.7, 1.2, 3.0), (1, 0, 0, 0, 1, 0, 0, 0, 1), 3)
    for kind, heads, labels in (
            ("labels", 3, {"labels": {"background": 0, "organ": 1, "lesion": 2}}),
            ("regions", 2, {"labels": {"background": 0, "whole": [1, 2], "core": 2}, "regions_class_order": [1, 2]})):
        dataset = {"channel_names": {"0": "CT"}, **labels, "file_ending": ".nii.gz"}
        folders = [model(HERE / kind / "2d", 2, dataset, heads, [0, 1, 2], [1.5, 1.9], [20, 32], 81),
                   model(HERE / kind / "3d", 3, dataset, heads, [1, 0, 2], [1.6, 2.6, 1.7], [16, 12, 16], 82)]
        probabilities = []
        for folder in folders:
            p = nnUNetPredictor(device=torch.device("cpu"), allow_tqdm=False, perform_everything_on_device=False)
            p.initialize_from_trained_model_folder(str(folder), None)
            out = pathlib.Path(tempfile.mkdtemp())
            p.predict_from_files_sequential([[str(HERE / "scan_0000.nii.gz")]], [str(out / "scan")], save_probabilities=True)
            probabilities.append(str(out))
            print(kind, folder.name, np.bincount(sitk.GetArrayFromImage(sitk.ReadImage(str(out / "scan.nii.gz"))).ravel()))
        out = pathlib.Path(tempfile.mkdtemp())
        ensemble_folders(probabilities, str(out), num_processes=1)
        print(kind, "both", np.bincount(sitk.GetArrayFromImage(sitk.ReadImage(str(out / "scan.nii.gz"))).ravel()))
        shutil.copy(out / "scan.nii.gz", HERE / kind / "labels.nii.gz")


if __name__ == "__main__":
    main()

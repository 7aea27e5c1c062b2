#!/usr/bin/env python3
"""Makes testdata/totalsegmentator: a folder of results as TotalSegmentator downloads it, with small networks of drawn weights in the place
of its own, two scans, and the label maps that TotalSegmentator itself makes of them.

    pip install TotalSegmentator==2.18.0 nnunetv2==2.8.1 dynamic_network_architectures==0.4.4
    python3 testdata/totalsegmentator_golden.py

Plans are those of nnU-Net for such data, with fewer stages and channels and a smaller patch. Names of classes are those of the package.
kbp.nii.gz is a part of a scan of OpenKBP (VOXSAW_DATA/openkbp), whose axes are neither RAS nor is its spacing that of the models.
"""
import json
import os
import pathlib
import shutil
import sys

import nibabel as nib
import numpy as np
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet

HERE = pathlib.Path(__file__).resolve().parent / "totalsegmentator"
PARTS = {
    291: "Dataset291_TotalSegmentator_part1_organs_1559subj", 292: "Dataset292_TotalSegmentator_part2_vertebrae_1532subj",
    293: "Dataset293_TotalSegmentator_part3_cardiac_1559subj", 294: "Dataset294_TotalSegmentator_part4_muscles_1559subj",
    295: "Dataset295_TotalSegmentator_part5_ribs_1559subj", 297: "Dataset297_TotalSegmentator_total_3mm_1559subj",
}


def model(number, trainer, names, patch, mm):
    folder = HERE / "results" / PARTS[number] / f"{trainer}__nnUNetPlans__3d_fullres"
    (folder / "fold_0").mkdir(parents=True)
    features, strides, spacing = [8, 8], [[1, 1, 1], [2, 2, 2]], [mm] * 3
    resampling = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    arch = {
        "n_stages": 2, "features_per_stage": features, "conv_op": "torch.nn.modules.conv.Conv3d", "kernel_sizes": [[3, 3, 3]] * 2, "strides": strides, "n_conv_per_stage": [1, 1],
        "n_conv_per_stage_decoder": [1], "conv_bias": True, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d", "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "dropout_op": None, "dropout_op_kwargs": None, "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": True},
    }
    plans = {
        "dataset_name": PARTS[number], "plans_name": "nnUNetPlans", "image_reader_writer": "NibabelIOWithReorient", "transpose_forward": [0, 1, 2], "transpose_backward": [0, 1, 2],
        "experiment_planner_used": "ExperimentPlanner", "label_manager": "LabelManager", "original_median_spacing_after_transp": spacing, "original_median_shape_after_transp": [64] * 3,
        "foreground_intensity_properties_per_channel": {"0": {"mean": -20.0, "std": 350.0, "percentile_00_5": -1000.0, "percentile_99_5": 1000.0, "min": -1024.0, "max": 3000.0, "median": 20.0}},
        "configurations": {"3d_fullres": {
            "data_identifier": "nnUNetPlans_3d_fullres", "preprocessor_name": "DefaultPreprocessor", "batch_size": 2, "patch_size": patch, "median_image_size_in_voxels": [64] * 3,
            "spacing": spacing, "normalization_schemes": ["CTNormalization"], "use_mask_for_norm": [False], "resampling_fn_data": "resample_data_or_seg_to_shape",
            "resampling_fn_seg": "resample_data_or_seg_to_shape", "resampling_fn_data_kwargs": resampling, "resampling_fn_seg_kwargs": resampling | {"is_seg": True, "order": 1},
            "resampling_fn_probabilities": "resample_data_or_seg_to_shape", "resampling_fn_probabilities_kwargs": resampling | {"order": 1},
            "architecture": {"network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet", "arch_kwargs": arch,
                             "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]}, "batch_dice": True}},
    }
    dataset = {"channel_names": {"0": "CT"}, "labels": {"background": 0} | {name: n + 1 for n, name in enumerate(names)}, "file_ending": ".nii.gz", "numTraining": 1559}
    (folder / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (folder / "dataset.json").write_text(json.dumps(dataset, indent=1) + "\n")
    torch.manual_seed(number)
    net = PlainConvUNet(1, 2, features, torch.nn.Conv3d, 3, strides, 1, len(names) + 1, 1, True, torch.nn.InstanceNorm3d, {"eps": 1e-5, "affine": True}, None, None,
                        torch.nn.LeakyReLU, {"inplace": True}, deep_supervision=True)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if "seg_layers" in name:
                p.normal_(0, 1)
                if p.dim() == 1:
                    p[0] = 2.0  # of the background
    state = {k: v for k, v in net.state_dict().items()}
    torch.save({"network_weights": state, "trainer_name": trainer, "init_args": {"configuration": "3d_fullres", "fold": 0, "plans": plans},
                "inference_allowed_mirroring_axes": None}, folder / "fold_0" / "checkpoint_final.pth")


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    (HERE / "home").mkdir(parents=True)
    (HERE / "home" / "config.json").write_text(json.dumps({"totalseg_id": "none", "send_usage_stats": False, "prediction_counter": 0, "statistics_disclaimer_shown": True}))
    os.environ["TOTALSEG_HOME_DIR"], os.environ["TOTALSEG_WEIGHTS_PATH"] = str(HERE / "home"), str(HERE / "results")
    from totalsegmentator.map_to_binary import class_map, class_map_5_parts
    from totalsegmentator.python_api import totalsegmentator
    for number, part in zip((291, 292, 293, 294, 295), class_map_5_parts.values()):
        model(number, "nnUNetTrainerNoMirroring", [part[n] for n in sorted(part)], [16, 12, 16], 1.5)
    model(297, "nnUNetTrainer_4000epochs_NoMirroring", [class_map["total"][n] for n in sorted(class_map["total"])], [8, 12, 8], 3.0)
    source = pathlib.Path(os.environ["VOXSAW_DATA"]) / "openkbp" / "imagesTr"
    scan = nib.load(source / sorted(os.listdir(source))[0]).slicer[50:62, 60:74, 40:56]
    turned = scan.affine.copy()
    turned[:3, 3] = (-31.5, 12.25, 7.0)
    nib.save(nib.Nifti1Image(np.asanyarray(scan.dataobj).astype(np.int16), turned), HERE / "kbp.nii.gz")
    for name, fast in (("total", False), ("total-fast", True)):
        totalsegmentator(HERE / "kbp.nii.gz", HERE / f"{name}.nii.gz", ml=True, fast=fast, device="cpu", nr_thr_saving=1)
        labels = np.asanyarray(nib.load(HERE / f"{name}.nii.gz").dataobj)
        print(name, labels.shape, len(np.unique(labels)), (labels > 0).mean())
    shutil.rmtree(HERE / "home")


if __name__ == "__main__":
    sys.exit(main())

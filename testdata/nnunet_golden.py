#!/usr/bin/env python3
"""Makes testdata/nnunet: two small models with drawn weights, in the files that nnU-Net v2 writes, a scan for each, and the label
maps that nnU-Net's arithmetic gives.

    python3 testdata/nnunet_golden.py REFERENCE     numpy, scipy, SimpleITK and torch from PyPI

REFERENCE is a program of numpy and PyTorch that computes nnU-Net's inference (nnunetv2 2.8.1) from the same files. It was written from
experiments, and no voxel of its label maps differs from those of nnU-Net itself on 28 test scans of four trained models, which
internal/nnunet's TestPredictionsOfNNUNet repeats where those models are at hand.
"""
import collections
import importlib.util
import json
import pathlib
import sys

import numpy as np
import SimpleITK as sitk
import torch

HERE = pathlib.Path(__file__).resolve().parent / "nnunet"


def weights(arch, channels, heads, seed):
    """Drawn weights by the names that nnU-Net saves: every convolution and norm twice, the encoder twice more."""
    g = torch.Generator().manual_seed(seed)
    k, found = arch["arch_kwargs"], collections.OrderedDict()
    residual = arch["network_class_name"].endswith("ResidualEncoderUNet")

    def put(name, *shape, around=0.0, spread=None):
        t = torch.randn(shape, generator=g) * (spread if spread is not None else (2 / np.prod(shape[1:])) ** 0.5) + around
        for alias in {name, "decoder." + name if name.startswith("encoder.") else name}:
            found[alias] = t
            for short, long in ((".conv.", ".all_modules.0."), (".norm.", ".all_modules.1.")):
                if short in alias:
                    found[alias.replace(short, long)] = t

    def unit(name, i, o, kernel, bias=True):
        put(f"{name}.conv.weight", o, i, *kernel)
        if bias:
            put(f"{name}.conv.bias", o, spread=0.1)
        put(f"{name}.norm.weight", o, around=1.0, spread=0.2)
        put(f"{name}.norm.bias", o, spread=0.2)

    f, width = k["features_per_stage"], channels
    if residual:
        unit("encoder.stem.convs.0", channels, f[0], k["kernel_sizes"][0])
        width = f[0]
    for s, o in enumerate(f):
        for i in range(k["n_blocks_per_stage" if residual else "n_conv_per_stage"][s]):
            if not residual:
                unit(f"encoder.stages.{s}.0.convs.{i}", width, o, k["kernel_sizes"][s])
            else:
                name = f"encoder.stages.{s}.blocks.{i}"
                unit(name + ".conv1", width, o, k["kernel_sizes"][s])
                unit(name + ".conv2", o, o, k["kernel_sizes"][s])
                if width != o:
                    unit(f"{name}.skip.{int(i == 0 and max(k['strides'][s]) > 1)}", width, o, (1, 1, 1), bias=False)
            width = o
    for d, n in enumerate(k["n_conv_per_stage_decoder"]):
        s = len(f) - 2 - d
        put(f"decoder.transpconvs.{d}.weight", f[s + 1], f[s], *k["strides"][s + 1])
        put(f"decoder.transpconvs.{d}.bias", f[s], spread=0.1)
        for i in range(n):
            unit(f"decoder.stages.{d}.convs.{i}", 2 * f[s] if i == 0 else f[s], f[s], k["kernel_sizes"][s])
        put(f"decoder.seg_layers.{d}.weight", heads, f[s], 1, 1, 1, spread=1.0)
        put(f"decoder.seg_layers.{d}.bias", heads, spread=0.1)
    return found


def model(name, arch, dataset, folds, mirror, transpose, spacing, patch, schemes, masked):
    folder = HERE / name
    channels = len(dataset["channel_names"])
    names = {k: v for k, v in dataset["labels"].items() if k != "ignore"}
    heads = len(names) - 1 if "regions_class_order" in dataset else len(names)
    resampling = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    plans = {
        "dataset_name": "Dataset900_Golden", "plans_name": "nnUNetPlans", "image_reader_writer": "SimpleITKIO", "transpose_forward": transpose,
        "foreground_intensity_properties_per_channel": {str(c): {"mean": 20.5 + c, "std": 81.25, "percentile_00_5": -150.0, "percentile_99_5": 240.0} for c in range(channels)},
        "configurations": {
            "3d_fullres": {
                "preprocessor_name": "DefaultPreprocessor", "patch_size": [64, 64, 64], "spacing": spacing, "normalization_schemes": schemes, "use_mask_for_norm": masked,
                "resampling_fn_data": "resample_data_or_seg_to_shape", "resampling_fn_data_kwargs": resampling,
                "resampling_fn_probabilities": "resample_data_or_seg_to_shape", "resampling_fn_probabilities_kwargs": resampling | {"order": 1}, "architecture": arch,
            },
            "3d_small": {"inherits_from": "3d_fullres", "patch_size": patch},
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (folder / "dataset.json").write_text(json.dumps(dataset, indent=1) + "\n")
    for n, fold in enumerate(folds):
        (folder / f"fold_{fold}").mkdir(exist_ok=True)
        torch.save({
            "network_weights": weights(arch, channels, heads, 7 + n), "optimizer_state": {}, "trainer_name": "nnUNetTrainer", "_best_ema": np.float64(0.5),
            "init_args": {"configuration": "3d_small", "fold": fold, "device": torch.device("cpu")}, "inference_allowed_mirroring_axes": mirror,
        }, folder / f"fold_{fold}" / "checkpoint_final.pth")
    return folder


def scan(folder, shape, spacing, direction, seed, background):
    """Smooth noise around a few blobs, in a border of zeros where there is a background."""
    r = np.random.default_rng(seed)
    files = []
    for c in range(2 if background else 1):
        x = r.normal(0, 60, shape)
        z = np.indices(shape)
        for centre in r.uniform(0, 1, (3, 3)):
            d = sum(((z[a] - centre[a] * shape[a]) / (0.2 * shape[a])) ** 2 for a in range(3))
            x += 150 * np.exp(-d)
        if background:
            x[:2], x[:, :3], x[:, :, -2:] = 0, 0, 0
        image = sitk.GetImageFromArray(np.round(x).astype(np.int16))
        image.SetSpacing(spacing)
        image.SetOrigin((-10.5, 20.25, 3.0))
        image.SetDirection(direction)
        files.append(str(folder / f"scan_{c:04d}.nii.gz"))
        sitk.WriteImage(image, files[-1])
    return files


def main():
    spec = importlib.util.spec_from_file_location("reference", sys.argv[1])
    reference = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = reference
    spec.loader.exec_module(reference)
    torch.set_num_threads(1)
    common = {"conv_op": "torch.nn.modules.conv.Conv3d", "conv_bias": True, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d", "norm_op_kwargs": {"eps": 1e-5, "affine": True},
              "dropout_op": None, "dropout_op_kwargs": None, "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": True}}
    thick = model(
        "thick", {"network_class_name": "dynamic_network_architectures.architectures.unet.ResidualEncoderUNet", "arch_kwargs": common | {
            "n_stages": 3, "features_per_stage": [3, 5, 6], "kernel_sizes": [[1, 3, 3], [3, 3, 3], [3, 3, 3]], "strides": [[1, 1, 1], [1, 2, 2], [2, 2, 1]],
            "n_blocks_per_stage": [1, 2, 1], "n_conv_per_stage_decoder": [2, 1]}},
        {"channel_names": {"0": "CT"}, "labels": {"background": 0, "organ": 1, "lesion": 2}, "file_ending": ".nii.gz"},
        [0, 1], (0, 1, 2), [2, 0, 1], [6.0, 1.5, 2.0], [8, 16, 12], ["CTNormalization"], [False])
    files = {thick: scan(thick, (26, 17, 14), (7.0, 1.9, 1.3), (0, 1, 0, 0, 0, -1, -1, 0, 0), 3, False)}
    regions = model(
        "regions", {"network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet", "arch_kwargs": common | {
            "n_stages": 3, "features_per_stage": [4, 5, 6], "kernel_sizes": [[3, 3, 3]] * 3, "strides": [[1, 1, 1], [2, 2, 2], [2, 2, 2]],
            "n_conv_per_stage": [2, 1, 2], "n_conv_per_stage_decoder": [1, 2]}},
        {"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "whole": [1, 2], "core": 2, "ignore": 3}, "regions_class_order": [1, 2], "file_ending": ".nii.gz"},
        ["all"], None, [0, 1, 2], [2.0, 2.0, 2.0], [12, 16, 16], ["ZScoreNormalization", "NoNormalization"], [True, False])
    files[regions] = scan(regions, (15, 22, 19), (1.7, 2.4, 2.1), (1, 0, 0, 0, 1, 0, 0, 0, 1), 4, True)
    for folder, names in files.items():
        for mirrored in (True, False):
            image = reference.predict(str(folder), names, reference.Options(mirror=mirrored))["image"]
            array = sitk.GetArrayFromImage(image)
            print(folder.name, "mirrored" if mirrored else "plain", array.shape, np.bincount(array.ravel()))
            sitk.WriteImage(image, str(folder / f"labels_{'mirrored' if mirrored else 'plain'}.nii.gz"))


if __name__ == "__main__":
    main()

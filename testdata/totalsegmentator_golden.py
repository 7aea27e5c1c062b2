#!/usr/bin/env python3
"""Makes testdata/totalsegmentator: a folder of results as TotalSegmentator downloads it, with small networks of drawn weights in the place
of its own, two scans, and the label maps that TotalSegmentator itself makes of them.

    pip install TotalSegmentator==2.18.0 nnunetv2==2.8.1 dynamic_network_architectures==0.4.4
    python3 testdata/totalsegmentator_golden.py

With a folder and the program voxsaw it writes no testdata, but holds that program against TotalSegmentator with networks as large as its own:
3 mm with 5 stages and patches of 112x112x128, 1.5 mm with 6 stages and 128x128x128. The scans are two of its own, with these voxels.

    python3 testdata/totalsegmentator_golden.py FOLDER VOXSAW

Plans are those of nnU-Net for such data, with fewer stages and channels and a smaller patch. Names of classes are those of the package.
kbp.nii.gz is a part of a scan of OpenKBP (VOXSAW_DATA/openkbp), whose axes are neither RAS nor is its spacing that of the models. box.nii.gz
is a larger one, for tasks that look at a box around organs: results_box has their models.
"""
import json
import os
import pathlib
import shutil
import subprocess
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


def model(number, trainer, names, patch, spacing, results="results", name=None, configuration="3d_fullres", features=(8, 8), background=2.0, organs=None, convolutions=1):
    """Makes a model. Spacing is along (z, y, x). With organs, which have a slope and an offset each, it finds them by the brightness of a voxel
    beside that of the window, so that they are where tissue is; otherwise its weights are drawn."""
    name = name or PARTS[number]
    folder = HERE / results / name / f"{trainer}__nnUNetPlans__{configuration}"
    (folder / "fold_0").mkdir(parents=True)
    features, stages = list(features), len(features)
    strides, encoder, decoder = [[1] * 3] + [[2] * 3] * (stages - 1), [convolutions] * stages, [convolutions] * (stages - 1)
    resampling = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    arch = {
        "n_stages": stages, "features_per_stage": features, "conv_op": "torch.nn.modules.conv.Conv3d", "kernel_sizes": [[3, 3, 3]] * stages, "strides": strides, "n_conv_per_stage": encoder,
        "n_conv_per_stage_decoder": decoder, "conv_bias": True, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d", "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "dropout_op": None, "dropout_op_kwargs": None, "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": True},
    }
    plans = {
        "dataset_name": name, "plans_name": "nnUNetPlans", "image_reader_writer": "NibabelIOWithReorient", "transpose_forward": [0, 1, 2], "transpose_backward": [0, 1, 2],
        "experiment_planner_used": "ExperimentPlanner", "label_manager": "LabelManager", "original_median_spacing_after_transp": spacing, "original_median_shape_after_transp": [64] * 3,
        "foreground_intensity_properties_per_channel": {"0": {"mean": -300.0 if organs else -20.0, "std": 350.0, "percentile_00_5": -300.0 if organs else -1000.0, "percentile_99_5": 1000.0, "min": -1024.0, "max": 3000.0, "median": 20.0}},
        "configurations": {configuration: {
            "data_identifier": f"nnUNetPlans_{configuration}", "preprocessor_name": "DefaultPreprocessor", "batch_size": 2, "patch_size": patch, "median_image_size_in_voxels": [64] * 3,
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
    net = PlainConvUNet(1, stages, features, torch.nn.Conv3d, 3, strides, encoder, len(names) + 1, decoder, True, torch.nn.InstanceNorm3d, {"eps": 1e-5, "affine": True}, None, None,
                        torch.nn.LeakyReLU, {"inplace": True}, deep_supervision=True)
    with torch.no_grad():
        for layer, p in net.named_parameters():
            if "seg_layers" in layer:
                p.normal_(0, 1)
                if p.dim() == 1:
                    p[0] = background
        for layer, p in net.named_parameters() if organs else ():
            p.zero_()
            if p.dim() == 1 and "norm" in layer and layer.endswith("weight"):
                p.fill_(1)
            elif p.dim() == 5 and "conv.weight" in layer and p.shape[2] == 3:  # one voxel's brightness goes through
                p[0, features[0] if "decoder" in layer else 0, 1, 1, 1] = 1
            elif "seg_layers" in layer:
                for organ, (slope, offset) in organs.items():
                    n = names.index(organ) + 1
                    if p.dim() == 5:
                        p[n, 0] = slope
                    else:
                        p[n] = offset
                if p.dim() == 1:
                    p[[n for n in range(1, len(p)) if names[n - 1] not in organs]] = -50
    state = {k: v for k, v in net.state_dict().items()}
    torch.save({"network_weights": state, "trainer_name": trainer, "init_args": {"configuration": configuration, "fold": 0, "plans": plans},
                "inference_allowed_mirroring_axes": None}, folder / "fold_0" / "checkpoint_final.pth")


def home():
    (HERE / "home").mkdir(parents=True)
    (HERE / "home" / "config.json").write_text(json.dumps({"totalseg_id": "none", "send_usage_stats": False, "prediction_counter": 0, "statistics_disclaimer_shown": True}))
    os.environ["TOTALSEG_HOME_DIR"], os.environ["TOTALSEG_WEIGHTS_PATH"] = str(HERE / "home"), str(HERE / "results")


def whole(voxsaw):
    """Networks as large as TotalSegmentator's own, each on a real scan of a window or two."""
    home()
    from totalsegmentator.map_tasks_config import TASK_CONFIGS, TASK_ID_WEIGHTS_CONFIGS
    from totalsegmentator.map_to_binary import class_map
    from totalsegmentator.python_api import totalsegmentator
    for task, mode, features, patch, scan in (("total", "fast", (32, 64, 128, 256, 320), [112, 112, 128], "ct.nii.gz"),
                                              ("trunk_cavities", "default", (32, 64, 128, 256, 320, 320), [128] * 3, "aorta_ct.nii.gz")):
        config = TASK_CONFIGS[task].get("sub_modes", {mode: TASK_CONFIGS[task]})[mode]
        number, scan = config["task_id"], pathlib.Path(os.environ["VOXSAW_DATA"]) / "totalsegmentator" / scan
        model(number, config["trainer"], [class_map[task][n] for n in sorted(class_map[task])], patch, np.full(3, config["resample"]).tolist(),
              name=TASK_ID_WEIGHTS_CONFIGS[number]["foldername"], features=features, convolutions=2)
        theirs, ours, probabilities = HERE / f"{task}_theirs.nii.gz", HERE / f"{task}_ours.nii.gz", HERE / f"{task}.npz"
        totalsegmentator(scan, theirs, task=task, ml=True, fast=mode == "fast", device="cpu", nr_thr_saving=1, save_probabilities=probabilities)
        subprocess.run([voxsaw, "predict", scan, "--checkpoint", HERE / "results", "--task", task if mode == "default" else f"{task}-{mode}", "--out", ours], check=True)
        want, got = (np.asanyarray(nib.as_closest_canonical(nib.load(file)).dataobj) for file in (theirs, ours))
        highest = np.sort(np.load(probabilities)["probabilities"].transpose(0, 3, 2, 1)[:, want != got], axis=0)[-2:]
        print(f"## {task}: {(want != got).sum()} of {want.size} voxels differ, where their two highest logits are {np.diff(np.log(highest), axis=0).max(initial=0):.4f} apart "
              f"at most; {len(np.unique(want))} labels, {(want > 0).mean():.3f} labelled", flush=True)


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    home()
    from totalsegmentator.map_to_binary import class_map, class_map_5_parts
    from totalsegmentator.python_api import totalsegmentator
    for number, part in zip((291, 292, 293, 294, 295), class_map_5_parts.values()):
        model(number, "nnUNetTrainerNoMirroring", [part[n] for n in sorted(part)], [16, 12, 16], [1.5] * 3)
    model(297, "nnUNetTrainer_4000epochs_NoMirroring", [class_map["total"][n] for n in sorted(class_map["total"])], [8, 12, 8], [3.0] * 3)
    source = pathlib.Path(os.environ["VOXSAW_DATA"]) / "openkbp" / "imagesTr"
    scan = nib.load(source / sorted(os.listdir(source))[0]).slicer[50:62, 60:74, 40:56]
    turned = scan.affine.copy()
    turned[:3, 3] = (-31.5, 12.25, 7.0)
    nib.save(nib.Nifti1Image(np.asanyarray(scan.dataobj).astype(np.int16), turned), HERE / "kbp.nii.gz")
    for name, fast in (("total", False), ("total-fast", True)):
        totalsegmentator(HERE / "kbp.nii.gz", HERE / f"{name}.nii.gz", ml=True, fast=fast, device="cpu", nr_thr_saving=1)
        labels = np.asanyarray(nib.load(HERE / f"{name}.nii.gz").dataobj)
        print(name, labels.shape, len(np.unique(labels)), (labels > 0).mean())
    boxes(source, scan.affine)
    table()
    shutil.rmtree(HERE / "home")


def table():
    """tasks.json: what the package's own tables say of each task but its tests."""
    from totalsegmentator.map_tasks_config import DEFAULT_CONFIG, TASK_CONFIGS
    from totalsegmentator.map_to_binary import class_map
    out = {}
    for name, raw in TASK_CONFIGS.items():
        if name in ("test", "total_highres_test"):
            continue
        for mode, own in raw.get("sub_modes", {"default": {}}).items():
            c = {**DEFAULT_CONFIG, **{k: v for k, v in raw.items() if k != "sub_modes"}, **own}
            s = c["resample"]
            out[name if mode == "default" else f"{name}-{mode}"] = {
                "parts": c["task_id"] if isinstance(c["task_id"], list) else [c["task_id"]],
                "spacing": [0] * 3 if s is None else s if isinstance(s, list) else [s] * 3,
                "folds": c["folds"], "licensed": c["commercial"], "organs": c["crop"], "near": c["remove_outside"],
                "reach": c["remove_outside_dilation"], "classes": len(class_map.get(name, {}))}
    (HERE / "tasks.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")


def boxes(source, affine):
    """Tasks that look at a box: of one voxel size and another, with several parts, by a finer task that looks at a box itself, by the body, and
    with what lies far from organs taken away. Weights of what finds the box are drawn so that it is a part of the scan."""
    import totalsegmentator.python_api as api
    from totalsegmentator.map_tasks_config import TASK_CONFIGS, TASK_ID_WEIGHTS_CONFIGS
    from totalsegmentator.map_to_binary import class_map, class_map_parts_headneck_muscles
    api.show_license_info = lambda: None  # weights are not TotalSegmentator's
    api.os.environ["TOTALSEG_WEIGHTS_PATH"] = str(HERE / "results_box")
    scan = nib.load(source / sorted(os.listdir(source))[0]).slicer[48:64, 44:60, 90:110]  # of the top of the head
    turned = affine.copy()
    turned[:3, 3] = (-61.5, 42.25, 17.0)
    nib.save(nib.Nifti1Image(np.asanyarray(scan.dataobj).astype(np.int16), turned), HERE / "box.nii.gz")

    def make(number, names, config, spacing, **weights):
        patch = [48] * 3 if min(spacing) < 0.6 else [24] * 3 if min(spacing) < 1 else [12] * 3
        model(number, config["trainer"], names, patch, spacing, "results_box", TASK_ID_WEIGHTS_CONFIGS[number]["foldername"], config.get("model", "3d_fullres"), (4, 4), **weights)

    api.convert_device_to_string = lambda device: "cpu"  # 2.18.0 has None for it, and teeth would fail
    low, high = (4, -2), (8, -8)
    for task, mode, mm, organs in (("total", "fastest", 6.0, {"clavicula_left": (2, -1), "liver": (4, -3), "spleen": (6, -6), "skull": (8, -10)}),
                                   ("total", "fast", 3.0, {"heart": high, "aorta": low}), ("body", "fast", 6.0, {"body_trunc": high, "body_extremities": low})):
        config = TASK_CONFIGS[task]["sub_modes"][mode]
        make(config["task_id"], [class_map[task][n] for n in sorted(class_map[task])], config, [mm] * 3, organs=organs)
    for task in BOXES:
        config = TASK_CONFIGS[task]
        names = [class_map[task][n] for n in sorted(class_map[task])] + list(class_map.get(task + "_auxiliary", {}).values())
        parts = [names] if task != "headneck_muscles" else [[p[n] for n in sorted(p)] for p in class_map_parts_headneck_muscles.values()]
        spacing = config.get("resample") or [2.5, 2.0, 2.0]  # of tasks that keep the scan's voxels, the model has its own
        spacing = [spacing] * 3 if isinstance(spacing, float) else spacing[::-1]
        for number, part in zip(config["task_id"] if isinstance(config["task_id"], list) else [config["task_id"]], parts):
            make(number, part, config, spacing, background=BOXES[task], organs={"teeth_lower": low, "teeth_upper": high} if task == "craniofacial_structures" else None)
    # what cleans up body, on components of many sizes
    from scipy.ndimage import gaussian_filter
    from totalsegmentator.postprocessing import keep_largest_blob_multilabel, remove_small_blobs_multilabel
    rng = np.random.default_rng(5)
    smooth = gaussian_filter(rng.standard_normal((40, 36, 32)), 1.6)
    messy = np.digitize(smooth, np.quantile(smooth, [0.55, 0.8])).astype(np.uint8)
    grid = np.diag([6.0, 5.0, 6.0, 1.0])
    nib.save(nib.Nifti1Image(messy, grid), HERE / "messy.nii.gz")
    clean = keep_largest_blob_multilabel(messy.copy(), class_map["body"], ["body_trunc"], quiet=True)
    clean = remove_small_blobs_multilabel(clean, class_map["body"], ["body_extremities"], interval=[50000 / 180, 1e10], quiet=True)
    print("##", [[(x == n).sum() for n in range(3)] for x in (messy, clean)])
    nib.save(nib.Nifti1Image(clean.astype(np.uint8), grid), HERE / "clean.nii.gz")
    for task in list(BOXES) + ["body"]:
        api.totalsegmentator(HERE / "box.nii.gz", HERE / f"{task}.nii.gz", task=task, ml=True, fast=task == "body", device="cpu", nr_thr_saving=1)
        labels = np.asanyarray(nib.load(HERE / f"{task}.nii.gz").dataobj)
        print("##", task, labels.shape, len(np.unique(labels)), (labels > 0).mean(), [(int(x.min()), int(x.max())) for x in np.nonzero(labels) if len(x)])


# with the bias of the background in each
BOXES = {"kidney_cysts": 2.0, "liver_vessels": -1.0, "craniofacial_structures": 2.0, "teeth": 2.0, "abdominal_muscles": 2.0, "heartchambers_highres": 0.0, "headneck_muscles": 2.0}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        HERE = pathlib.Path(sys.argv[1]).resolve()
        sys.exit(whole(sys.argv[2]))
    sys.exit(main())

"""Plans as nnU-Net makes them, of the networks that scripts here hold beside Voxsaw's. Needs Python's own library alone."""


def plans(kind):
    n, features = 6, [4, 4, 8, 8, 8, 8] if kind == "small" else [32, 64, 128, 256, 320, 320]
    kernels, strides, patch = [[3] * 3] * n, [[1] * 3] + [[2] * 3] * (n - 1), [128] * 3
    if kind == "thick":
        kernels[:2], strides[1], patch = [[1, 3, 3]] * 2, [1, 2, 2], [32, 192, 160]
    arguments = {"n_stages": n, "features_per_stage": features, "conv_op": "torch.nn.modules.conv.Conv3d", "kernel_sizes": kernels,
                 "strides": strides, "conv_bias": True, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
                 "norm_op_kwargs": {"eps": 1e-5, "affine": True}, "dropout_op": None, "dropout_op_kwargs": None,
                 "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": True}}
    if kind == "resenc":
        name = "ResidualEncoderUNet"
        arguments.update(n_blocks_per_stage=[1, 3, 4, 6, 6, 6], n_conv_per_stage_decoder=[1] * (n - 1))
    else:
        name = "PlainConvUNet"
        arguments.update(n_conv_per_stage=[2] * n, n_conv_per_stage_decoder=[2] * (n - 1))
    resample = "resample_data_or_seg_to_shape"
    data = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    configuration = {
        "data_identifier": "nnUNetPlans_3d_fullres", "preprocessor_name": "DefaultPreprocessor", "batch_size": 2, "patch_size": patch,
        "median_image_size_in_voxels": [200, 273, 273], "spacing": [1.5] * 3, "normalization_schemes": ["CTNormalization"], "use_mask_for_norm": [False],
        "resampling_fn_data": resample, "resampling_fn_data_kwargs": data,
        "resampling_fn_seg": resample, "resampling_fn_seg_kwargs": {**data, "is_seg": True, "order": 1},
        "resampling_fn_probabilities": resample, "resampling_fn_probabilities_kwargs": {**data, "order": 1},
        "architecture": {"network_class_name": f"dynamic_network_architectures.architectures.unet.{name}", "arch_kwargs": arguments,
                         "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]}, "batch_dice": False}
    intensities = {"max": 1500.0, "mean": 40.0, "median": 40.0, "min": -1000.0, "percentile_00_5": -120.0, "percentile_99_5": 250.0, "std": 80.0}
    return {"dataset_name": "Dataset900_Whole", "plans_name": "nnUNetPlans", "original_median_spacing_after_transp": [1.0, 0.8, 0.8],
            "original_median_shape_after_transp": [300, 512, 512], "image_reader_writer": "SimpleITKIO", "transpose_forward": [0, 1, 2],
            "transpose_backward": [0, 1, 2], "configurations": {"3d_fullres": configuration}, "experiment_planner_used": "ExperimentPlanner",
            "label_manager": "LabelManager", "foreground_intensity_properties_per_channel": {"0": intensities}}

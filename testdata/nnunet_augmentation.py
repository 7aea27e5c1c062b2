"""Makes nnunet_augmentation.json: what the transforms of nnU-Net's training make of two small
images, with fixed parameters, by batchgeneratorsv2's own classes.

    python3 -m venv v && v/bin/pip install nnunetv2==2.8.1 batchgeneratorsv2==0.3.6
    v/bin/python testdata/nnunet_augmentation.py

Images are (D, H, W), of float32. Sigmas and scales are listed along (W, H, D), as the tests have
them. Low resolution has PyTorch's interpolations nearest-exact and trilinear, blur reflects the
image at its ends. "transforms" are those that nnunetv2's trainer makes for a crop: the probability of
each, that of a channel, the range of its strength, and whether all channels have the same one.
"turning" is by how many degrees it rotates patches of some sizes, and whether all transforms of shape
leave the first axis alone ("flat").
"""
import json
from types import SimpleNamespace

import numpy as np
import torch
from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
from batchgeneratorsv2.transforms.intensity.contrast import ContrastTransform
from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

rng = np.random.default_rng(43)
first = torch.tensor([0])


def image(shape):
    smooth = np.add.outer(np.add.outer(np.linspace(-1, 0.5, shape[0]), np.linspace(0, 0.4, shape[1])),
                          np.sin(np.linspace(0, 5, shape[2])))
    return (smooth + 0.3 * rng.normal(size=shape)).astype(np.float32)


def apply(transform, x, **params):
    out = transform._apply_to_image(torch.from_numpy(x.copy())[None], **params)[0].numpy()
    return [float(f"{v:.7g}") for v in out.ravel()]


cases = []
for shape in [(5, 7, 9), (4, 6, 8)]:
    x = image(shape)
    case = {"size": list(shape[::-1]), "image": [float(v) for v in x.ravel()], "results": []}

    def add(name, transform, numbers, **params):
        case["results"].append({"transform": name, "parameters": numbers, "values": apply(transform, x, **params)})

    for sigmas in [(0.5, 0.75, 1.0), (0.95, 0.6, 0.55)]:
        add("blur", GaussianBlurTransform((0.5, 1), False, False, 1, benchmark=False), sigmas,
            apply_to_channel=np.array([True]), sigmas=[list(sigmas[::-1])])
    for f in (0.75, 1.2):
        add("brightness", MultiplicativeBrightnessTransform(f, False), [f], apply_to_channel=first,
            multipliers=torch.tensor([f]))
        add("contrast", ContrastTransform(f, True, False), [f], apply_to_channel=first,
            multipliers=torch.tensor([f]))
    for scale in [(0.5, 0.5, 0.5), (0.83, 0.83, 0.83), (0.6, 0.6, 1.0)]:
        add("low_resolution", SimulateLowResolutionTransform((0.5, 1), False, True, None), scale,
            apply_to_channel=first, scales=torch.tensor([scale[::-1]]))
    for gamma in (0.7, 1.5):
        for inverted in (True, False):
            add("inverted_gamma" if inverted else "gamma", GammaTransform(gamma, 1, False, 1, 1), [gamma],
                apply_to_channel=first, retain_stats=torch.tensor([True]), invert_image=torch.tensor([inverted]),
                gamma=torch.tensor([gamma]))
    cases.append(case)

names = {"GaussianNoiseTransform": "noise", "GaussianBlurTransform": "blur", "ContrastTransform": "contrast",
         "MultiplicativeBrightnessTransform": "brightness", "SimulateLowResolutionTransform": "low_resolution"}
strengths = {"noise": "noise_variance", "blur": "blur_sigma", "contrast": "contrast_range", "low_resolution": "scale",
             "brightness": "multiplier_range", "gamma": "gamma", "inverted_gamma": "gamma"}


def trainers(patch):
    itself = SimpleNamespace(configuration_manager=SimpleNamespace(patch_size=patch),
                             print_to_log_file=lambda *_: None)
    rotation, flat, _, mirror = nnUNetTrainer.configure_rotation_dummyDA_mirroring_and_inital_patch_size(itself)
    return nnUNetTrainer.get_training_transforms(patch, rotation, None, mirror, flat).transforms


def degrees(transforms):
    spatial = next(t for t in transforms if type(t).__name__ == "SpatialTransform")
    assert spatial.rotation[0] == -spatial.rotation[1]
    return round(float(np.degrees(spatial.rotation[1])), 6)


made = []
for t in trainers((64, 64, 64)):
    if type(t).__name__ == "SpatialTransform":
        made += [{"key": "rotation", "share": t.p_rotation}, {"key": "scale", "share": t.p_scaling, "strength": t.scaling}]
        assert t.p_synchronize_scaling_across_axes == 1 and t.p_rot_per_axis == 1 and t.p_elastic_deform == 0
    elif hasattr(t, "apply_probability"):
        inner = t.transform
        key = names.get(type(inner).__name__) or ("inverted_gamma" if inner.p_invert_image else "gamma")
        strength = getattr(inner, strengths[key])
        made.append({"key": key, "share": t.apply_probability, "channels": inner.p_per_channel,
                     "strength": getattr(strength, "contrast_range", strength), "alike": inner.synchronize_channels})

turning = []
for size in [(64, 64, 64), (48, 48, 160), (160, 48, 48), (128, 16, 64), (48, 48, 16), (49, 48, 16), (48, 49, 16),
             (96, 64, 1), (97, 64, 1), (64, 97, 1), (64, 64, 1), (20, 20, 2)]:
    patch = size[::-1] if size[2] > 1 else size[1::-1]  # two axes are a two-dimensional configuration
    transforms = trainers(patch)
    ignored = next(t.transform.ignore_axes for t in transforms if "LowRes" in type(getattr(t, "transform", t)).__name__)
    assert ignored in (None, (0,))
    turning.append({"size": size, "degrees": degrees(transforms), "flat": ignored is not None or size[2] == 1})

with open("testdata/nnunet_augmentation.json", "w") as f:
    json.dump({"transforms": made, "turning": turning, "cases": cases}, f)
    f.write("\n")

"""Makes nnunet_augmentation.json: what the transforms of nnU-Net's training make of two small
images, with fixed parameters, by batchgeneratorsv2's own classes.

    python3 -m venv v && v/bin/pip install nnunetv2==2.8.1 batchgeneratorsv2==0.3.6
    v/bin/python testdata/nnunet_augmentation.py

Images are (D, H, W), of float32. Sigmas and scales are listed along (W, H, D), as the tests have
them. Low resolution has PyTorch's interpolations nearest-exact and trilinear, blur reflects the
image at its ends. "shares" are the probabilities of the transforms that nnunetv2's trainer makes for
a crop, each with that of a channel.
"""
import json

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
shares = []
for t in nnUNetTrainer.get_training_transforms((64, 64, 64), (-0.5236, 0.5236), None, (0, 1, 2), False).transforms:
    if type(t).__name__ == "SpatialTransform":
        shares += [["rotation", t.p_rotation, 1], ["scale", t.p_scaling, 1]]
    elif hasattr(t, "apply_probability"):
        inner = type(t.transform).__name__
        name = names.get(inner) or ("inverted_gamma" if t.transform.p_invert_image else "gamma")
        shares.append([name, t.apply_probability, t.transform.p_per_channel])

with open("testdata/nnunet_augmentation.json", "w") as f:
    json.dump({"shares": shares, "cases": cases}, f)
    f.write("\n")

#!/usr/bin/env python3
"""Writes what MONAI's own VNet says, and its weights: monai_vnet.safetensors, monai_numbers.safetensors and monai_names.json.

    /usr/bin/python3 -m pip install --no-deps --target site monai==1.3.2 safetensors   # vnet.py is the same, to the byte, in 1.6.1
    PYTHONPATH=site /usr/bin/python3 monai_vnet.py            # from this folder, with Debian's python3-torch 1.13
    PYTHONPATH=site /usr/bin/python3 monai_vnet.py FILE       # does MONAI's network take FILE, and say the same? FILE is of voxsaw convert

MONAI's VNet has 16 channels and 45 million weights. `Small` is its class with its own blocks, at one channel, so that the files are small.
"""
import json
import sys

import monai
import numpy as np
import torch
from monai.data.utils import compute_importance_map
from monai.inferers import sliding_window_inference
from monai.networks.nets import VNet
from monai.networks.nets.vnet import DownTransition, InputTransition, OutputTransition, UpTransition
from safetensors.torch import load_file, save_file

CLASSES = 2


class Small(VNet):
    """monai.networks.nets.VNet, whose constructor says 16 where this one says c."""

    def __init__(self, c, classes, act):
        torch.nn.Module.__init__(self)
        self.in_tr = InputTransition(3, 1, c, act)
        self.down_tr32 = DownTransition(3, c, 1, act)
        self.down_tr64 = DownTransition(3, 2 * c, 2, act)
        self.down_tr128 = DownTransition(3, 4 * c, 3, act, dropout_prob=0.5)
        self.down_tr256 = DownTransition(3, 8 * c, 2, act, dropout_prob=0.5)
        self.up_tr256 = UpTransition(3, 16 * c, 16 * c, 2, act, dropout_prob=(0.5, 0.5))
        self.up_tr128 = UpTransition(3, 16 * c, 8 * c, 2, act, dropout_prob=(0.5, 0.5))
        self.up_tr64 = UpTransition(3, 8 * c, 4 * c, 1, act)
        self.up_tr32 = UpTransition(3, 4 * c, 2 * c, 1, act)
        self.out_tr = OutputTransition(3, 2 * c, classes, act)


def small():
    torch.manual_seed(20261122)
    net = Small(1, CLASSES, ("elu", {}))
    net.train()
    for _ in range(3):  # running means and variances that are not 0 and 1, and counts of batches
        net(torch.randn(2, 1, 32, 32, 32))
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm3d):
            torch.nn.init.uniform_(m.weight, 0.5, 1.5)
            torch.nn.init.uniform_(m.bias, -0.5, 0.5)
    return net.eval()


def numbers(net):
    """On HU from -125 to 275, scaled to [-1, 1], of 16 x 24 x 32 voxels (K, J, I): along each axis, windows of 16 that overlap by half lie at the same places here and there."""
    r = np.random.default_rng(1)
    hu = r.integers(-125, 276, (16, 24, 32)).astype(np.int16)
    x = torch.from_numpy((hu.astype(np.float64) - 75) / 200).float()[None, None]
    roi = (16, 16, 16)
    bell = torch.exp(-0.5 * ((torch.arange(16).double() - 7.5) / 2) ** 2)  # sigma: an eighth of the window
    weights = (bell[:, None, None] * bell[:, None] * bell).float()
    with torch.no_grad():
        out = dict(
            image=torch.from_numpy(hu.astype(np.float32)),
            logits=net(x[:, :, :, :16])[0],  # of (16, 16, 32)
            # MONAI's windows with the Gaussian as it is
            windows=sliding_window_inference(x, roi, 1, net, overlap=0.5, mode="gaussian", roi_weight_map=weights[None, None])[0],
            # and with MONAI's own, which is clamped at 0.001
            windows_clamped=sliding_window_inference(x, roi, 1, net, overlap=0.5, mode="gaussian", sigma_scale=0.125)[0],
        )
    assert torch.equal(torch.clamp(weights, min=1e-3), compute_importance_map(roi, mode="gaussian", sigma_scale=0.125)) or \
        torch.allclose(torch.clamp(weights, min=1e-3), compute_importance_map(roi, mode="gaussian", sigma_scale=0.125), atol=1e-6)
    return {k: v.contiguous() for k, v in out.items()}


net = small()
if len(sys.argv) > 1:
    state = load_file(sys.argv[1])
    other = Small(1, state["out_tr.conv2.bias"].numel(), ("elu", {}))
    print(other.load_state_dict(state, strict=True))
    same = load_file("monai_vnet.safetensors")
    print("of monai_vnet.safetensors, the same to the bit:", all(torch.equal(v, state[k]) for k, v in same.items() if not k.endswith("num_batches_tracked")))
    a, b = numbers(other.eval())["windows"], numbers(net)["windows"]
    print("logits differ by at most", (a - b).abs().max().item() if a.shape == b.shape else "another number of classes")
else:
    save_file(net.state_dict(), "monai_vnet.safetensors")
    out = numbers(net)
    save_file(out, "monai_numbers.safetensors")
    p, q = out["windows"].softmax(0), out["windows_clamped"].softmax(0)
    print("MONAI", monai.__version__, "the clamp moves logits by at most", (out["windows"] - out["windows_clamped"]).abs().max().item(), "of", out["windows"].abs().max().item(),
          "probabilities by", (p - q).abs().max().item(), "labels:", (p.argmax(0) != q.argmax(0)).sum().item(), "of", p[0].numel())
    names = {}
    for act in ("elu", "prelu"):
        full = VNet(spatial_dims=3, in_channels=1, out_channels=3, act=act if act == "prelu" else ("elu", {}))
        names[act] = {k: [list(v.shape), str(v.dtype)] for k, v in full.state_dict().items()}
    with open("monai_names.json", "w") as f:
        json.dump(names, f, indent=0)

#!/usr/bin/env python3
"""Golden values for VNet on scans of 2 and 4 channels: MONAI's own VNet, in float64, on weights and inputs that both sides compute from a formula.

    pip install torch==2.15.0 monai==1.6.0
    python3 testdata/vnet_channels_golden.py        # writes testdata/vnet_monai_*_channels.safetensors

`Small` is monai.networks.nets.VNet of MONAI's own blocks, whose constructor says 16 where this one says c. The input's channels are repeated until they are as many as
the first stage has, and added to it. Formulas, loss and what is written are those of vnet_golden.py.
"""
import re

import torch
from monai.networks.nets import VNet
from monai.networks.nets.vnet import DownTransition, InputTransition, OutputTransition, UpTransition

from vnet_golden import golden

LAYERS = {
    "conv_block.conv": "conv0", "conv_block.adn.N": "conv0.norm",  # of the first stage
    "down_conv": "down", "up_conv": "up",
}


class Small(VNet):
    def __init__(self, inputs, c, classes):
        torch.nn.Module.__init__(self)
        act, none = ("elu", {}), (0.0, 0.0)  # no dropout, which is random
        self.in_tr = InputTransition(3, inputs, c, act)
        for name, at, n in (("32", 1, 1), ("64", 2, 2), ("128", 4, 3), ("256", 8, 2)):
            setattr(self, "down_tr" + name, DownTransition(3, at * c, n, act))
        for name, i, o, n in (("256", 16, 16, 2), ("128", 16, 8, 2), ("64", 8, 4, 1), ("32", 4, 2, 1)):
            setattr(self, "up_tr" + name, UpTransition(3, i * c, o * c, n, act, dropout_prob=none))
        self.out_tr = OutputTransition(3, 2 * c, classes, act)


def stage(m):
    if m[1] == "in_tr":
        return "encoder.0"
    if m[1] == "out_tr":
        return "head"
    level = int(m[3]).bit_length() - 6  # of 32
    return f"encoder.{level + 1}" if m[2] == "down" else f"decoder.{level}"


def rename(m):
    inner, at = m[4], stage(m)
    inner = re.sub(r"^ops\.(\d)\.conv_block\.conv$", r"conv\1", inner)
    inner = re.sub(r"^ops\.(\d)\.conv_block\.adn\.N$", r"conv\1.norm", inner)
    inner = {"bn1": ("up" if m[2] == "up" else "down") + ".norm"}.get(inner, inner)
    if at == "head":
        inner = {"conv_block.conv": "conv", "conv_block.adn.N": "conv.norm", "conv2": "logits"}.get(inner, inner)
    return f"{at}.{LAYERS.get(inner, inner)}.{m[5]}"


# What vnet_golden calls the network's parameters; vnet/monai.go has the rule.
Small.names = [(r"^(in_tr|(down|up)_tr(\d+)|out_tr)\.(.+)\.(\w+)$", rename)]

if __name__ == "__main__":
    golden("monai_2_channels", Small(2, 4, 3), (2, 2, 32, 32, 16), 3)
    golden("monai_4_channels", Small(4, 4, 3), (2, 4, 32, 16, 32), 3)

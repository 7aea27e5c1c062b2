#!/usr/bin/env python3
"""Golden file of the arithmetic of a training step: what torch.utils.flop_counter counts in forward and backward passes of the same networks in PyTorch.

    python3 testdata/flops.py        # torch 2.9.1 from PyPI; writes testdata/flops.json

Nothing is computed: the tensors lie on PyTorch's device "meta". A step of a pretext task is its whole network with its head; losses, norms and activations count nothing, there as here.
"""
import json, os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

import vnet_golden


def paper(channels, classes):
    """VNet of the paper, as Network{Preset: paper, Norm: instance}."""
    return vnet_golden.Paper((1, 2, 3, 3, 3), (3, 3, 2, 1), "instance", lambda c: nn.PReLU(c), channels, classes, False)


def encode(net, x):
    """The encoder alone: the deepest stage."""
    y = net.first_act(net.first_norm(net.first(x)) + x)
    for d, n, a, s in zip(net.down, net.down_norm, net.down_act, net.enc):
        y = s(a(n(d(y))))
    return y


def counted(step):
    with FlopCounterMode(display=False) as forward:
        loss = step()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return {"forward": forward.get_total_flops(), "step": forward.get_total_flops() + backward.get_total_flops()}


def segmentation(channels, classes, n, size):
    net, x = paper(channels, classes), torch.zeros(n, 1, *size)
    return counted(lambda: net(x).sum())


def puzzle(channels, puzzles, cells, patch, features, hidden):
    """The symmetric head: each patch's feature beside the mean of the others'."""
    net = paper(channels, 2)
    width = encode(net, torch.zeros(1, 1, *patch)).numel()
    feature, own, others, position = nn.Linear(width, features), nn.Linear(features, hidden), nn.Linear(features, hidden, bias=False), nn.Linear(hidden, cells)

    def step():
        f = F.relu(feature(encode(net, torch.zeros(puzzles * cells, 1, *patch)).flatten(1)))
        boards = f.reshape(puzzles, cells, features)
        mean = ((boards.sum(1, keepdim=True) - boards) / (cells - 1)).reshape(puzzles * cells, features)
        return position(F.relu(own(f) + others(mean))).sum()

    return counted(step)


def rotation(channels, crops, size, features, classes):
    net = paper(channels, 2)
    feature, answer = nn.Linear(encode(net, torch.zeros(1, 1, *size)).numel(), features), nn.Linear(features, classes)
    return counted(lambda: answer(F.relu(feature(encode(net, torch.zeros(crops, 1, *size)).flatten(1)))).sum())


torch.set_default_device("meta")
golden = {
    "vnet": segmentation(8, 6, 1, (64, 64, 64)),
    "finetune": segmentation(4, 3, 2, (32, 32, 32)),
    "mae": segmentation(4, 1, 2, (32, 32, 32)),
    "jigsaw": puzzle(4, 2, 8, (16, 16, 32), 24, 12),
    "rotation": rotation(4, 3, (32, 32, 32), 24, 10),
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flops.json")
with open(path, "w") as f:
    json.dump(golden, f, indent=1)
    f.write("\n")
print(json.dumps(golden, indent=1))

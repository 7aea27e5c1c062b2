#!/usr/bin/env python3
"""Golden values for the tests of internal/photonet: torchvision's networks and operators in float64, on weights and inputs that both sides compute from a formula.

    pip install torch==2.9.1 torchvision==0.24.1      # the builds for CPU will do
    python testdata/photonet_golden.py                # writes testdata/photonet_*

The blocks of the ResNets are torchvision's; only the numbers of channels are divided, so that the tests are quick. AlexNet is written here after the Caffe prototxt of
Noroozi and Favaro 2016 with PyTorch's operators. For each: the logits, every parameter's gradient, the losses of ten steps of SGD, the running statistics and the logits in
evaluation mode after them. A tensor is kept as a digest: see vnet_golden.py, whose functions make them.

`photonet_names.json` holds names and shapes of torchvision's own resnet18 and resnet50; `photonet_operators.json` results of LocalResponseNorm, roi_pool, BCEWithLogitsLoss,
smooth_l1_loss and pooling with ceil_mode.
"""
import json, math, os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from vnet_golden import digest, noise, single, write

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = 5


class Thin(ResNet):
    """torchvision's ResNet with the numbers of channels multiplied: what ResNet.__init__ does, and no more."""

    def __init__(self, block, layers, width):
        nn.Module.__init__(self)
        c = int(64 * width)
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = nn.BatchNorm2d, c, 1, 1, 64
        self.conv1, self.bn1 = nn.Conv2d(3, c, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(c)
        self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, c, layers[0])
        self.layer2 = self._make_layer(block, 2 * c, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 4 * c, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 8 * c, layers[3], stride=2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8 * c * block.expansion, CLASSES)


class AlexNet(nn.Module):
    def __init__(self, width, stride, side, features, batch):
        super().__init__()
        c = lambda n: max(1, int(math.floor(n * width / 8 + 0.5))) * 8
        self.batch = batch
        sizes = [(3, 96, 11, stride, 0, 1), (96, 256, 5, 1, 2, 2), (256, 384, 3, 1, 1, 1), (384, 384, 3, 1, 1, 2), (384, 256, 3, 1, 1, 2)]
        for i, (a, b, k, s, p, g) in enumerate(sizes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a if a == 3 else c(a), c(b), k, s, p, groups=g, bias=not batch))
            if batch:
                setattr(self, f"bn{i}", nn.BatchNorm2d(c(b)))
        self.fc6 = nn.Linear(c(256) * side * side, features)
        self.fc7, self.fc8 = nn.Linear(features, features), nn.Linear(features, CLASSES)

    def forward(self, x):
        for i in range(1, 6):
            if i in (2, 3):
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
                if not self.batch:
                    x = F.local_response_norm(x, 5, 1e-4, 0.75, 1.0)
            x = getattr(self, f"conv{i}")(x)
            x = F.relu(getattr(self, f"bn{i}")(x) if self.batch else x)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        return self.fc8(F.relu(self.fc7(F.relu(self.fc6(x.flatten(1))))))


def fill(name, shape):
    v = noise(name, int(np.prod(shape))).reshape(shape)
    if len(shape) > 1:
        return v * (3.0 / np.prod(shape[1:])) ** 0.5
    if name.endswith(".bn3.weight"):  # of residuals that change little, so that a deep network does not make much of rounding
        return 0.2 + 0.1 * v
    return 1 + 0.2 * v if name.endswith(".weight") else 0.1 * v


def golden(name, net, size, rate=1e-3):
    net.double().train()
    with torch.no_grad():
        for k, p in net.named_parameters():
            p.copy_(torch.from_numpy(single(fill(k, tuple(p.shape)))))
    x = torch.from_numpy(single(noise("x", int(np.prod(size))))).reshape(size)
    target = torch.from_numpy(np.floor((noise("target", size[0]) + 1) / 2 * CLASSES)).long()
    out, losses = {}, []
    biases = [p for k, p in net.named_parameters() if k.endswith(".bias")]
    weights = [p for k, p in net.named_parameters() if not k.endswith(".bias")]
    opt = torch.optim.SGD([{"params": weights}, {"params": biases, "lr": 2 * rate, "weight_decay": 0}], rate, momentum=0.9, weight_decay=1e-2)
    for step in range(11):
        logits = net(x)
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"] = digest("logits", logits.detach().numpy(), 4096)
            for k, p in net.named_parameters():
                out["grad/" + k] = digest(k, p.grad.numpy(), 32)
            for k, b in net.named_buffers():
                if "running" in k:
                    out["first/" + k] = digest(k, b.numpy(), 32)
        if step < 10:
            opt.step()
    out["losses"] = np.array(losses)
    for k, p in net.named_parameters():
        out["last/" + k] = digest(k, p.detach().numpy(), 32)
    for k, b in net.named_buffers():
        if "running" in k:
            out["last/" + k] = digest(k, b.numpy(), 32)
    net.eval()
    with torch.no_grad():
        out["eval"] = digest("eval", net(x).numpy(), 4096)
    write(os.path.join(HERE, f"photonet_{name}.safetensors"), out)
    print(name, losses, sum(p.numel() for p in net.parameters()))


def names():
    """Names and shapes of torchvision's own networks."""
    listing = {}
    for kind in ("resnet18", "resnet50"):
        state = getattr(torchvision.models, kind)().state_dict()
        listing[kind] = {k: list(v.shape) for k, v in state.items() if not k.endswith("num_batches_tracked")}
    with open(os.path.join(HERE, "photonet_names.json"), "w") as f:
        json.dump(listing, f, separators=(",", ":"))


def operators():
    def case(of, x, **more):
        x = torch.from_numpy(single(x)).requires_grad_()
        y = of(x)
        dy = torch.from_numpy(single(noise("dy", y.numel()))).reshape(y.shape)
        (y * dy).sum().backward()
        return {"shape": list(x.shape), "y": y.detach().numpy().ravel().round(9).tolist(), "y_shape": list(y.shape), "dx": x.grad.numpy().ravel().round(9).tolist(), **more}

    n = lambda name, *shape: noise(name, int(np.prod(shape))).reshape(shape)
    out = {}
    out["lrn"] = case(lambda x: F.local_response_norm(x, 5, 1.5, 0.75, 2.0), 3 * n("lrn", 2, 9, 2, 3))
    out["lrn_even"] = case(lambda x: F.local_response_norm(x, 4, 1.5, 0.6, 1.0), 3 * n("even", 1, 7, 2, 3))
    boxes = [[0, 0, 0, 47, 35], [1, 7.9, 3, 22, 30], [1, 8, 8, 8, 8], [0, 40, 20, 200, 300], [1, -30, -9, 10, 10], [0, 300, 300, 310, 310], [1, 2, 6, 34, 10]]
    regions = torch.tensor(boxes, dtype=torch.float64)
    out["roi"] = case(lambda x: torchvision.ops.roi_pool(x, regions, (3, 2), 0.25), n("roi", 2, 3, 9, 12), regions=boxes)
    target = torch.from_numpy(np.floor(n("target", 4, 5) + 1))
    out["label"] = case(lambda x: F.binary_cross_entropy_with_logits(x, target).reshape(1), 8 * n("label", 4, 5), target=target.numpy().ravel().tolist())
    aim = torch.from_numpy(single(n("aim", 4, 8)))
    out["smooth"] = case(lambda x: (F.smooth_l1_loss(x, aim, beta=1 / 9, reduction="sum") / 4).reshape(1), n("smooth", 4, 8), target=aim.numpy().ravel().tolist())
    out["max_ceil"] = case(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), n("max", 1, 2, 6, 8))
    out["group"] = case(lambda x: F.conv2d(x, torch.from_numpy(single(n("w", 6, 2, 3, 3))), None, 2, 1, groups=2), n("group", 1, 4, 5, 6))
    with open(os.path.join(HERE, "photonet_operators.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))


if __name__ == "__main__":
    names()
    operators()
    golden("resnet18", Thin(BasicBlock, (2, 2, 2, 2), 0.25), (6, 3, 64, 64))
    golden("resnet50", Thin(Bottleneck, (3, 4, 6, 3), 0.125), (6, 3, 64, 64), 2e-4)
    golden("alexnet", AlexNet(0.25, 2, 3, 64, False), (4, 3, 64, 64))
    golden("alexnet_batch", AlexNet(0.5, 4, 6, 48, True), (3, 3, 227, 227))

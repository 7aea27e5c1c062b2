#!/usr/bin/env python3
"""A file of weights as PyTorch's users have them, for the tests of puzzle2d that read and write such files.

    pip install torch==2.9.1 torchvision==0.24.1 safetensors==0.8.0     # the builds for CPU will do
    python testdata/photonet_weights.py                                # writes testdata/photonet_weights.safetensors and .json

The network is a ResNet-18 of torchvision's blocks with 8, 8, 16 and 32 channels (width 0.0625 in Voxsaw), in half precision, with a classifier of 5 classes and the counters of batch
norm. Its weights, statistics among them, are drawn with a seed. The JSON holds the features (what the classifier sees, in float64, in evaluation mode) of a photograph of 48x40 pixels
whose red, green and blue at row y and column x are (7x + 13y + 31c) mod 256 for c = 0, 1, 2, seen as Voxsaw sees it: less ImageNet's mean, divided by 0.226 of 255.
"""
import json, os
import torch
import torch.nn as nn
from safetensors.torch import save_file
from torchvision.models.resnet import BasicBlock, ResNet

HERE = os.path.dirname(os.path.abspath(__file__))


class Thin(ResNet):
    def __init__(self, channels):
        nn.Module.__init__(self)
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = nn.BatchNorm2d, channels[0], 1, 1, 64
        self.conv1, self.bn1 = nn.Conv2d(3, channels[0], 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(channels[0])
        self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        for i, c in enumerate(channels):
            # torchvision projects a shortcut where stride or channels change: the stride does from layer2 on
            setattr(self, f"layer{i + 1}", self._make_layer(BasicBlock, c, 2, stride=1 if i == 0 else 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(channels[-1], 5)


torch.manual_seed(13)
net = Thin([8, 8, 16, 32])
with torch.no_grad():
    for name, b in net.named_buffers():
        if name.endswith("running_mean"):
            b.normal_(0, 0.1)
        elif name.endswith("running_var"):
            b.uniform_(0.5, 1.5)
        else:
            b.fill_(7)
    for name, p in net.named_parameters():
        if p.dim() == 1:
            p.uniform_(0.5, 1.5) if name.endswith("weight") else p.normal_(0, 0.1)
net = net.half()
save_file({k: v.contiguous() for k, v in net.state_dict().items()}, os.path.join(HERE, "photonet_weights.safetensors"))
net = net.double().eval()
y, x = torch.meshgrid(torch.arange(40), torch.arange(48), indexing="ij")
photo = torch.stack([(7 * x + 13 * y + 31 * c) % 256 for c in range(3)]).double()
mean = torch.tensor([0.485, 0.456, 0.406], dtype=torch.float64).reshape(3, 1, 1) * 255
net.fc = nn.Identity()
# 40 pixels in the middle are looked at
features = net(((photo[:, :, 4:44] - mean) / (0.226 * 255)).unsqueeze(0)).flatten().tolist()
with open(os.path.join(HERE, "photonet_weights.json"), "w") as f:
    json.dump({"features": [round(v, 9) for v in features]}, f)
    f.write("\n")

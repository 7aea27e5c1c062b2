#!/usr/bin/env python3
"""Golden values for vnet's tests: the networks in PyTorch, in float64, on weights and inputs that both sides compute from a formula.

    /usr/bin/python3 testdata/vnet_golden.py        # Debian's python3-torch; writes testdata/vnet_*.safetensors

`Paper` is VNet as Milletari et al. 2016 draw it, `Paper` with other counts and a wide head is their released prototxt, and `Monai` is written after
the public source of monai.networks.nets.VNet. For each: the logits, every parameter's gradient, the losses of 5 steps of SGD and the logits in evaluation
mode after them. A tensor is kept as a digest: its norm, 4 projections on random signs, and some of its elements.
"""
import json, os, re, struct, zlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
HERE = os.path.dirname(os.path.abspath(__file__))


def noise(name, n):
    """n numbers in [-1, 1): MurmurHash3's finaliser over the index and the CRC of the name."""
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x *= np.uint32(0xC2B2AE35)
        x ^= x >> np.uint32(16)
    return x.astype(np.float64) / 2.0**31 - 1


def single(v):
    """The numbers that float32 can hold: what the other side computes with."""
    return np.asarray(v, dtype=np.float32).astype(np.float64)


def digest(name, v, samples):
    g = v.ravel()
    at = (np.abs(noise("at/" + name, min(g.size, samples))) * g.size).astype(int) % g.size
    signs = [np.where(noise(f"sign{j}/" + name, g.size) < 0, -1.0, 1.0) @ g for j in range(4)]
    return np.concatenate([[np.linalg.norm(g)], signs, g[at]])


def norm(kind, c):
    return {"none": nn.Identity, "batch": lambda: nn.BatchNorm3d(c), "instance": lambda: nn.InstanceNorm3d(c, affine=True), "group": lambda: nn.GroupNorm(2, c)}[kind]()


class Stage(nn.Module):
    """n convolutions; the input is added before the last activation."""

    def __init__(self, n, c, kind, act):
        super().__init__()
        self.conv = nn.ModuleList(nn.Conv3d(c, c, 5, padding=2) for _ in range(n))
        self.norm = nn.ModuleList(norm(kind, c) for _ in range(n))
        self.act = nn.ModuleList(act(c) for _ in range(n))

    def forward(self, x):
        y = x
        for i, (conv, nor, act) in enumerate(zip(self.conv, self.norm, self.act)):
            y = nor(conv(y))
            y = act(y + x if i == len(self.conv) - 1 else y)
        return y


class Paper(nn.Module):
    def __init__(self, enc, dec, kind, act, c, classes, wide, deep=False):
        super().__init__()
        self.first, self.first_norm, self.first_act = nn.Conv3d(1, c, 5, padding=2), norm(kind, c), act(c)
        self.down = nn.ModuleList(nn.Conv3d(c << i, c << (i + 1), 2, stride=2) for i in range(4))
        self.down_norm = nn.ModuleList(norm(kind, c << (i + 1)) for i in range(4))
        self.down_act = nn.ModuleList(act(c << (i + 1)) for i in range(4))
        self.enc = nn.ModuleList(Stage(enc[i + 1], c << (i + 1), kind, act) for i in range(4))
        self.up, self.up_norm, self.up_act, self.dec, width = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), c * 16
        for i, n in enumerate(dec):
            skip = c << (3 - i)
            self.up.append(nn.ConvTranspose3d(width, skip, 2, stride=2))
            self.up_norm.append(norm(kind, skip))
            self.up_act.append(act(skip))
            self.dec.append(Stage(n, 2 * skip, kind, act))
            width = 2 * skip
        self.wide = wide
        if wide:
            self.head, self.head_act = nn.Conv3d(width, classes, 5, padding=2), act(classes)
            width = classes
        self.out = nn.Conv3d(width, classes, 1)
        self.coarser = nn.ModuleList(nn.Conv3d(2 * c << (2 - i), classes, 1) for i in range(2)) if deep else []

    def forward(self, x):
        y = self.first_act(self.first_norm(self.first(x)) + x)  # one channel, added to each
        f = [y]
        for d, n, a, s in zip(self.down, self.down_norm, self.down_act, self.enc):
            y = s(a(n(d(y))))
            f.append(y)
        ys = []
        for u, n, a, s, skip in zip(self.up, self.up_norm, self.up_act, self.dec, f[-2::-1]):
            y = s(torch.cat([a(n(u(y))), skip], 1))
            ys.append(y)
        if self.wide:
            y = self.head_act(self.head(y))
        if self.training and len(self.coarser):  # quarter and half the size
            return [self.out(y)] + [h(y) for h, y in zip(self.coarser, ys[1:3])][::-1]
        return self.out(y)

    names = [
        (r"^first_(norm|act)\.", r"encoder.0.conv0.\1."), (r"^first\.", "encoder.0.conv0."),
        (r"^down_(norm|act)\.(\d)\.", lambda m: f"encoder.{int(m[2])+1}.down.{m[1]}."), (r"^down\.(\d)\.", lambda m: f"encoder.{int(m[1])+1}.down."),
        (r"^enc\.(\d)\.conv\.(\d)\.", lambda m: f"encoder.{int(m[1])+1}.conv{m[2]}."), (r"^enc\.(\d)\.(norm|act)\.(\d)\.", lambda m: f"encoder.{int(m[1])+1}.conv{m[3]}.{m[2]}."),
        (r"^up_(norm|act)\.(\d)\.", lambda m: f"decoder.{3-int(m[2])}.up.{m[1]}."), (r"^up\.(\d)\.", lambda m: f"decoder.{3-int(m[1])}.up."),
        (r"^dec\.(\d)\.conv\.(\d)\.", lambda m: f"decoder.{3-int(m[1])}.conv{m[2]}."), (r"^dec\.(\d)\.(norm|act)\.(\d)\.", lambda m: f"decoder.{3-int(m[1])}.conv{m[3]}.{m[2]}."),
        (r"^coarser\.(\d)\.", lambda m: f"head.{2-int(m[1])}.logits."), (r"^head_act\.", "head.conv.act."), (r"^head\.", "head.conv."), (r"^out\.", "head.logits."),
    ]


class LUConv(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.bn = nn.Conv3d(c, c, 5, padding=2, bias=False), nn.BatchNorm3d(c)

    def forward(self, x):
        return F.elu(self.bn(self.conv(x)))


class Down(nn.Module):
    def __init__(self, c, n):
        super().__init__()
        self.down_conv, self.bn1 = nn.Conv3d(c, 2 * c, 2, stride=2, bias=False), nn.BatchNorm3d(2 * c)
        self.ops = nn.Sequential(*[LUConv(2 * c) for _ in range(n)])

    def forward(self, x):  # dropout of the convolutions' input left out: its rate is 0 here
        down = F.elu(self.bn1(self.down_conv(x)))
        return F.elu(self.ops(down) + down)


class Up(nn.Module):
    def __init__(self, cin, cout, n):
        super().__init__()
        self.up_conv, self.bn1 = nn.ConvTranspose3d(cin, cout // 2, 2, stride=2), nn.BatchNorm3d(cout // 2)
        self.ops = nn.Sequential(*[LUConv(cout) for _ in range(n)])

    def forward(self, x, skip):
        cat = torch.cat((F.elu(self.bn1(self.up_conv(x))), skip), 1)
        return F.elu(self.ops(cat) + cat)


class Monai(nn.Module):
    def __init__(self, c, classes):
        super().__init__()
        self.in_conv, self.in_bn, self.c = nn.Conv3d(1, c, 5, padding=2, bias=False), nn.BatchNorm3d(c), c
        self.down = nn.ModuleList(Down(c << i, n) for i, n in enumerate((1, 2, 3, 2)))
        self.up = nn.ModuleList(Up(i * c, o * c, n) for i, o, n in ((16, 16, 2), (16, 8, 2), (8, 4, 1), (4, 2, 1)))
        self.out_conv, self.out_bn, self.out_conv2 = nn.Conv3d(2 * c, classes, 5, padding=2, bias=False), nn.BatchNorm3d(classes), nn.Conv3d(classes, classes, 1)

    def forward(self, x):
        y = F.elu(self.in_bn(self.in_conv(x)) + x.repeat(1, self.c, 1, 1, 1))
        f = [y]
        for d in self.down:
            y = d(y)
            f.append(y)
        for u, skip in zip(self.up, f[-2::-1]):
            y = u(y, skip)
        return self.out_conv2(F.elu(self.out_bn(self.out_conv(y))))

    names = [
        (r"^in_conv\.", "encoder.0.conv0."), (r"^in_bn\.", "encoder.0.conv0.norm."),
        (r"^down\.(\d)\.down_conv\.", lambda m: f"encoder.{int(m[1])+1}.down."), (r"^down\.(\d)\.bn1\.", lambda m: f"encoder.{int(m[1])+1}.down.norm."),
        (r"^down\.(\d)\.ops\.(\d)\.conv\.", lambda m: f"encoder.{int(m[1])+1}.conv{m[2]}."), (r"^down\.(\d)\.ops\.(\d)\.bn\.", lambda m: f"encoder.{int(m[1])+1}.conv{m[2]}.norm."),
        (r"^up\.(\d)\.up_conv\.", lambda m: f"decoder.{3-int(m[1])}.up."), (r"^up\.(\d)\.bn1\.", lambda m: f"decoder.{3-int(m[1])}.up.norm."),
        (r"^up\.(\d)\.ops\.(\d)\.conv\.", lambda m: f"decoder.{3-int(m[1])}.conv{m[2]}."), (r"^up\.(\d)\.ops\.(\d)\.bn\.", lambda m: f"decoder.{3-int(m[1])}.conv{m[2]}.norm."),
        (r"^out_conv\.", "head.conv."), (r"^out_bn\.", "head.conv.norm."), (r"^out_conv2\.", "head.logits."),
    ]


def ours(net, name):
    for pattern, to in net.names:
        if re.search(pattern, name):
            return re.sub(pattern, to, name)
    raise KeyError(name)


def fill(name, p):
    """The formula of the weights: by the kind of parameter, so that activations keep their size through the network. The slopes are
    close to 1: a pre-activation within rounding of zero takes either slope, and with 0.25 one such voxel moves PyTorch's own float32 gradients by 3e-3 from its float64 ones.
    For the same reason the network with instance norm has ELU, whose slope is continuous: norms make more of such voxels."""
    v = torch.from_numpy(noise(name, p.numel())).reshape(p.shape)
    if p.dim() > 1:
        fan = p[0].numel() if ".up." not in name else p.shape[0]
        return v * (2.0 / fan) ** 0.5
    if name.endswith(".act.weight"):
        return 0.98 + 0.015 * v
    if name.endswith(".norm.weight"):
        return 1 + 0.2 * v
    return 0.1 * v


def loss_of(logits, target):
    """Cross-entropy + soft Dice over the foreground classes, sums over the batch, as device.LossSpec says."""
    if isinstance(logits, list):  # nnU-Net's deep supervision: each resolution counts half as much as the one before
        weights = [0.5**i for i in range(len(logits))]
        coarse = [F.interpolate(target[:, None].double(), y.shape[2:], mode="nearest-exact")[:, 0].long() for y in logits]
        return sum(w / sum(weights) * loss_of(y, t) for w, y, t in zip(weights, logits, coarse))
    p, t = logits.softmax(1), F.one_hot(target, logits.shape[1]).permute(0, 4, 1, 2, 3)
    over = (0, 2, 3, 4)
    dice = (2 * (p * t).sum(over) + 1e-5) / (p.sum(over) + t.sum(over) + 1e-5)
    return F.cross_entropy(logits, target) + 1 - dice[1:].mean()


def write(path, tensors):
    """safetensors: length of the header, header, values."""
    header, blobs, at = {}, [], 0
    for k, v in tensors.items():
        b = np.ascontiguousarray(v, dtype="<f4").tobytes()
        header[k], at = {"dtype": "F32", "shape": list(np.shape(v)), "data_offsets": [at, at + len(b)]}, at + len(b)
        blobs.append(b)
    h = json.dumps(header).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + b"".join(blobs))
    print(path, os.path.getsize(path))


def golden(name, net, size, classes):
    net.train()
    names = {k: ours(net, k) for k, _ in net.named_parameters()}
    with torch.no_grad():
        for k, p in net.named_parameters():
            p.copy_(torch.from_numpy(single(fill(names[k], p))))
    x = torch.from_numpy(single(noise("x", int(np.prod(size))))).reshape(size)
    target = torch.from_numpy(np.floor((noise("target", size[0] * int(np.prod(size[2:]))) + 1) / 2 * classes)).long().reshape(size[0], *size[2:])
    out, losses = {}, []
    opt = torch.optim.SGD(net.parameters(), 1e-2, momentum=0.9, weight_decay=1e-3)
    for step in range(6):
        logits = net(x)
        loss = loss_of(logits, target)
        opt.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"] = digest("logits", (logits[0] if isinstance(logits, list) else logits).detach().numpy(), 4096)
            for k, p in net.named_parameters():
                out["grad/" + names[k]] = digest(names[k], p.grad.numpy(), 64)
        if step < 5:
            opt.step()
    out["losses"] = np.array(losses)
    net.eval()
    with torch.no_grad():
        out["eval"] = digest("eval", net(x).numpy(), 4096)
    write(os.path.join(HERE, f"vnet_{name}.safetensors"), out)
    print(name, losses, sum(p.numel() for p in net.parameters()))


if __name__ == "__main__":
    size = (2, 1, 16, 32, 16)
    paper, caffe = ((1, 2, 3, 3, 3), (3, 3, 2, 1)), ((1, 1, 2, 3, 3), (3, 2, 1, 1))
    golden("paper", Paper(*paper, "none", nn.PReLU, 4, 3, False), size, 3)
    golden("paper_instance_elu", Paper(*paper, "instance", lambda c: nn.ELU(), 4, 3, False), (1, 1, 32, 32, 32), 3)
    golden("paper_group_elu", Paper(*paper, "group", lambda c: nn.ELU(), 4, 3, False), (2, 1, 16, 16, 16), 3)
    golden("paper_deep", Paper(*paper, "instance", lambda c: nn.ELU(), 4, 3, False, True), (1, 1, 32, 32, 32), 3)
    golden("caffe", Paper(*caffe, "none", nn.PReLU, 4, 2, True), size, 2)
    golden("monai", Monai(4, 3), (2, 1, 32, 32, 16), 3)

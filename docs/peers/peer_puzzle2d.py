#!/usr/bin/env python3
"""A step of pretraining on photographs in PyTorch, to be timed beside `voxsaw bench 2d`.

    python3 docs/peers/peer_puzzle2d.py --backbone resnet18 --batch 8     # 8 puzzles of 3x3 patches of 64x64
    options: --backbone alexnet|resnet18|resnet50 --grid 3 --patch 64 --threads 2 --steps 5 --warmup 2
             --amp none|bf16 --channels-last --compile --limit 0

The ResNets are torchvision's; AlexNet is the context-free network of Noroozi and Favaro 2016 (stride 2, two groups, poolings rounded up, local response
normalisation, fc6 of 1024). Patches become features of 1024, one linear map makes the unary matrix of all features of a puzzle; cross-entropy, SGD with momentum. It prints
the line of JSON that `voxsaw bench 2d` prints, with the seconds of CPU of all threads, which say more than the clock where other work runs. With --limit no step begins after so many seconds, and the
steps that were done count, the warm-up among them if nothing else was. It needs PyTorch and torchvision.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
import peer


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        c = nn.Conv2d
        pool, norm = lambda: nn.MaxPool2d(3, 2, ceil_mode=True), lambda: nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
        relu = lambda: nn.ReLU(inplace=True)
        self.features = nn.Sequential(
            c(3, 96, 11, 2), relu(), pool(), norm(), c(96, 256, 5, 1, 2, groups=2), relu(), pool(), norm(), c(256, 384, 3, 1, 1), relu(),
            c(384, 384, 3, 1, 1, groups=2), relu(), c(384, 256, 3, 1, 1, groups=2), relu(), pool(),
        )
        self.fc6 = nn.LazyLinear(1024)

    def forward(self, x):
        return F.relu(self.fc6(self.features(x).flatten(1)))


class Puzzle(nn.Module):
    def __init__(self, backbone, grid):
        super().__init__()
        self.cells = grid * grid
        if backbone == "alexnet":
            self.encoder, width = AlexNet(), 1024
        else:
            self.encoder = getattr(torchvision.models, backbone)()
            width = self.encoder.fc.in_features
            self.encoder.fc = nn.Identity()
        self.embed, self.unary = nn.Linear(width, 1024), nn.Linear(self.cells * 1024, self.cells ** 2)

    def forward(self, x):
        f = F.relu(self.embed(self.encoder(x)))
        return self.unary(f.reshape(-1, self.cells * 1024)).reshape(-1, self.cells)


def main():
    ap = peer.flags(__doc__)
    ap.add_argument("--backbone", default="resnet18", choices=["alexnet", "resnet18", "resnet50"])
    ap.add_argument("--grid", type=int, default=3)
    ap.add_argument("--patch", type=int, default=64)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--amp", default="none", choices=["none", "bf16"])
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--limit", type=float, default=0, help="seconds; 0: none")
    a = ap.parse_args()
    peer.begin(a.threads)
    fmt = torch.channels_last if a.channels_last else torch.contiguous_format
    cells = a.grid ** 2
    make, shape = lambda: Puzzle(a.backbone, a.grid), (a.batch * cells, 3, a.patch, a.patch)
    flops = 3 * peer.flops(make, shape)
    net, x = make(), torch.randn(shape)
    y = torch.cat([torch.randperm(cells) for _ in range(a.batch)])
    with torch.no_grad():
        net(x)  # gives a lazy layer its shape
    net, x = net.to(memory_format=fmt), x.to(memory_format=fmt)
    run = torch.compile(net) if a.compile else net

    def loss():
        with torch.autocast("cpu", torch.bfloat16, enabled=a.amp == "bf16"):
            return F.cross_entropy(run(x), y)

    # the first step compiles
    times, cpus = peer.timed(peer.training(net, loss), a.warmup, a.steps, limit=a.limit, least=2 if a.compile else 1)
    peer.line("torch", backbone=a.backbone, grid=a.grid, patch=a.patch, batch=a.batch, device="cpu", amp=a.amp, channels_last=a.channels_last,
              compile=a.compile, steps=len(times), **peer.seconds(times), cpu_s=round(sum(cpus) / len(cpus), 5), **peer.rate(flops, times),
              peak_mib=peer.peak())


if __name__ == "__main__":
    main()

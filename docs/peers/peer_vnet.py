#!/usr/bin/env python3
"""VNet training steps in PyTorch, to be timed beside `voxsaw bench`.

    python3 docs/peers/peer_vnet.py pretrain --grid 3 --batch 1   # a 3x3x3 puzzle of 32^3 patches a step
    python3 docs/peers/peer_vnet.py pretrain --grid 2 --batch 1   # a 2x2x2 puzzle of 48^3 patches a step
    python3 docs/peers/peer_vnet.py segment --crop 96 --batch 1   # whole VNet, CE + Dice, an SGD step
    python3 docs/peers/peer_vnet.py infer --crop 96 --batch 1
    options: --threads 2 --steps 5 --device cpu|cuda --amp none|bf16 --channels-last --compile
             --norm none|batch|instance

The network is the VNet of Milletari et al. 2016, as preset `paper` has it: 16 to 256 channels, 5^3
kernels, 1, 2, 3, 3, 3 convolutions in the encoder and 3, 3, 2, 1 in the decoder, PReLU, convolutions
of 2^3 and stride 2 down and up, residual stages. It takes the flags of `voxsaw bench` and prints the same line of
JSON: seconds of the median step, arithmetic of a step, peak memory. That both sides do the same work
at the same precision is the caller's to see to. It needs PyTorch.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import peer

ENC, DEC = (1, 2, 3, 3, 3), (3, 3, 2, 1)


def norm(kind, c):
    return {"none": nn.Identity, "batch": lambda: nn.BatchNorm3d(c), "instance": lambda: nn.InstanceNorm3d(c, affine=True)}[kind]()


class Stage(nn.Module):
    """n convolutions, the input added before the last activation."""

    def __init__(self, n, c, kind):
        super().__init__()
        self.conv = nn.ModuleList(nn.Conv3d(c, c, 5, padding=2) for _ in range(n))
        self.norm = nn.ModuleList(norm(kind, c) for _ in range(n))
        self.act = nn.ModuleList(nn.PReLU(c) for _ in range(n))

    def forward(self, x):
        y = x
        for i in range(len(self.conv)):
            y = self.norm[i](self.conv[i](y))
            if i == len(self.conv) - 1:
                y = y + x
            y = self.act[i](y)
        return y


class Encoder(nn.Module):
    def __init__(self, kind, c=16):
        super().__init__()
        self.first, self.first_norm, self.first_act = nn.Conv3d(1, c, 5, padding=2), norm(kind, c), nn.PReLU(c)
        self.down = nn.ModuleList(nn.Conv3d(c << i, c << (i + 1), 2, stride=2) for i in range(4))
        self.down_norm = nn.ModuleList(norm(kind, c << (i + 1)) for i in range(4))
        self.down_act = nn.ModuleList(nn.PReLU(c << (i + 1)) for i in range(4))
        self.stage = nn.ModuleList(Stage(ENC[i + 1], c << (i + 1), kind) for i in range(4))

    def forward(self, x):
        y = self.first_act(self.first_norm(self.first(x)) + x)
        out = [y]
        for d, n, a, s in zip(self.down, self.down_norm, self.down_act, self.stage):
            y = s(a(n(d(y))))
            out.append(y)
        return out


class VNet(nn.Module):
    def __init__(self, kind, c=16, classes=2):
        super().__init__()
        self.enc = Encoder(kind, c)
        width, self.up, self.up_norm, self.up_act, self.stage = c * 16, nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, n in enumerate(DEC):
            skip = c << (3 - i)
            self.up.append(nn.ConvTranspose3d(width, skip, 2, stride=2))
            self.up_norm.append(norm(kind, skip))
            self.up_act.append(nn.PReLU(skip))
            self.stage.append(Stage(n, 2 * skip, kind))
            width = 2 * skip
        self.out = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        f = self.enc(x)
        y = f[-1]
        for u, n, a, s, skip in zip(self.up, self.up_norm, self.up_act, self.stage, f[-2::-1]):
            y = s(torch.cat([a(n(u(y))), skip], 1))
        return self.out(y)


class Puzzle(nn.Module):
    """Shared encoder over the n^3 patches of a puzzle, 1024-way embedding, one linear map to the n^3 x n^3 unary matrix."""

    def __init__(self, kind, grid, side, c=16):
        super().__init__()
        self.cells, self.enc = grid ** 3, Encoder(kind, c)
        self.embed = nn.Linear(c * 16 * (side // 16) ** 3, 1024)
        self.unary = nn.Linear(self.cells * 1024, self.cells ** 2)

    def forward(self, x):  # (B*cells, 1, s, s, s) -> (B*cells, cells)
        f = F.relu(self.embed(self.enc(x)[-1].flatten(1)))
        return self.unary(f.reshape(-1, self.cells * 1024)).reshape(-1, self.cells)


def loss_seg(o, y):
    ce, p = F.cross_entropy(o, y), o.float().softmax(1)[:, 1]
    t = (y == 1).float()
    return ce + 1 - (2 * (p * t).sum() + 1e-5) / ((p * p).sum() + t.sum() + 1e-5)


def main():
    ap = peer.flags(__doc__)
    ap.add_argument("task", choices=["pretrain", "segment", "infer"])
    ap.add_argument("--grid", type=int, default=3)
    ap.add_argument("--crop", type=int, default=96)
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--channels", type=int, default=16)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--amp", default="none", choices=["none", "bf16"])
    ap.add_argument("--norm", default="none", choices=["none", "batch", "instance"])
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true")
    a = ap.parse_args()
    peer.begin(a.threads)
    cuda = a.device == "cuda"
    if cuda:
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    fmt = torch.channels_last_3d if a.channels_last else torch.contiguous_format
    if a.task == "pretrain":
        side = {2: 48, 3: 32}[a.grid]
        make, shape = lambda: Puzzle(a.norm, a.grid, side, a.channels), (a.batch * a.grid ** 3, 1, side, side, side)
        y = torch.cat([torch.randperm(a.grid ** 3) for _ in range(a.batch)])
    else:
        make, shape = lambda: VNet(a.norm, a.channels), (a.batch, 1, a.crop, a.crop, a.crop)
        y = (torch.rand(a.batch, a.crop, a.crop, a.crop) > 0.9).long()
    flops = peer.flops(make, shape) * (1 if a.task == "infer" else 3)
    net, x, y = make().to(a.device, memory_format=fmt), torch.randn(shape), y.to(a.device)
    x = x.to(a.device, memory_format=fmt)
    run, of = torch.compile(net) if a.compile else net, F.cross_entropy if a.task == "pretrain" else loss_seg

    def forward(f):
        with torch.autocast(a.device, torch.bfloat16, enabled=a.amp == "bf16"):
            return f()

    if a.task == "infer":
        step = torch.no_grad()(lambda: forward(lambda: run(x)))
    else:
        step = peer.training(net, lambda: forward(lambda: of(run(x), y)))
    times, _ = peer.timed(step, a.warmup, a.steps, torch.cuda.synchronize if cuda else lambda: None)
    peer.line("torch", task=a.task, grid=a.grid, crop=a.crop, batch=a.batch, device=a.device, amp=a.amp, norm=a.norm, **peer.seconds(times),
              **peer.rate(flops, times), peak_mib=round(torch.cuda.max_memory_allocated() / 2**20) if cuda else peer.peak())


if __name__ == "__main__":
    main()

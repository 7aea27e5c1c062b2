#!/usr/bin/env python3
"""Puzzle pretraining and fine-tuning on few cases in PyTorch, small enough for two CPU cores.

    python3 docs/peers/peer_jigsaw.py pretrain --data openkbp --minutes 30 --out encoder.pt
    python3 docs/peers/peer_jigsaw.py finetune --data openkbp --cases 6 --init encoder.pt --seed 0
    python3 docs/peers/peer_jigsaw.py finetune --data openkbp --cases 6 --seed 0     # from scratch

The data are a folder with imagesTr/*.nii.gz and labelsTr/*.nii.gz of 128^3 voxels and the labels 0 to 5
(docs/results/openkbp-cpu.md says where they come from). Every sixth case is held out. It is a plain
reading of the paper at a small size (8 base channels, instance norm, one round), to compare learning
curves with; Voxsaw was not derived from it. It prints a line for each validation, and needs PyTorch,
numpy, scipy and nibabel.
"""
import argparse, glob, os, time
import nibabel as nib, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
import peer_vnet

ap = argparse.ArgumentParser()
ap.add_argument("task", choices=["pretrain", "finetune"])
ap.add_argument("--data", required=True)
ap.add_argument("--minutes", type=float, default=30)
ap.add_argument("--steps", type=int, default=400)
ap.add_argument("--cases", type=int, default=6)
ap.add_argument("--grid", type=int, default=3)
ap.add_argument("--batch", type=int, default=2)
ap.add_argument("--channels", type=int, default=8)
ap.add_argument("--lr", type=float, default=1e-2)
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--head", default="paper", choices=["paper", "symmetric"])
ap.add_argument("--init")
ap.add_argument("--out")
a = ap.parse_args()
torch.manual_seed(a.seed)
rng = np.random.default_rng(a.seed)
files = sorted(glob.glob(a.data + "/imagesTr/*.nii.gz"))
test, train = files[::6], [f for i, f in enumerate(files) if i % 6]


def load(f):
    v = np.asanyarray(nib.as_closest_canonical(nib.load(f)).dataobj).astype(np.float32)
    return (np.clip(v, -200, 300) - 50) / 150


class Symmetric(nn.Module):
    """The paper's footnote: each patch's feature beside the mean of all, one map shared by the patches."""

    def __init__(self, base):
        super().__init__()
        self.cells, self.enc, self.embed = base.cells, base.enc, base.embed
        self.mlp = nn.Sequential(nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, base.cells))

    def forward(self, x):
        f = F.relu(self.embed(self.enc(x)[-1].flatten(1))).reshape(-1, self.cells, 1024)
        return self.mlp(torch.cat([f, f.mean(1, keepdim=True).expand_as(f)], 2)).reshape(-1, self.cells)


def puzzle(v, jitter, order):
    """One crop of 120^3 -> (n^3, 1, s, s, s) patches in the given order."""
    n, cell, s = a.grid, 120 // a.grid, {2: 48, 3: 32}[a.grid]
    o = [rng.integers(0, d - 119) if jitter else (d - 120) // 2 for d in v.shape]
    out = []
    for p in order:
        at = [o[k] + (p // n ** (2 - k)) % n * cell + (rng.integers(0, cell - s + 1) if jitter else (cell - s) // 2) for k in range(3)]
        out.append(v[at[0]:at[0] + s, at[1]:at[1] + s, at[2]:at[2] + s])
    return torch.from_numpy(np.stack(out)[:, None])


def pretrain():
    vols, held, n = [load(f) for f in train], [load(f) for f in test], a.grid ** 3
    net = peer_vnet.Puzzle("instance", a.grid, {2: 48, 3: 32}[a.grid], a.channels)
    if a.head == "symmetric":
        net = Symmetric(net)
    opt = torch.optim.SGD(net.parameters(), a.lr, momentum=0.9, weight_decay=1e-4)
    t0, it, avg = time.time(), 0, None
    while True:
        frac = (time.time() - t0) / 60 / a.minutes
        if it % 100 == 0 or frac >= 1:
            net.eval()
            ok = pa = d2 = 0
            with torch.no_grad():
                for v in held:
                    order = rng.permutation(n)
                    u = net(puzzle(v, False, order)).log_softmax(1).numpy()
                    c = linear_sum_assignment(-u)[1]
                    miss = int((c != order).sum())
                    ok, d2, pa = ok + (miss == 0), d2 + (miss <= 2), pa + 1 - miss / n
            print(f"{time.time()-t0:.0f}s it {it} loss {avg if avg is None else round(avg,3)} held-out {len(held)}: correct {ok/len(held):.2f} D<=2 {d2/len(held):.2f} patches {pa/len(held):.3f}", flush=True)
            net.train()
            if a.out:
                torch.save(net.enc.state_dict(), a.out)
            if frac >= 1:
                return
        for g in opt.param_groups:
            g["lr"] = a.lr * (1 - min(frac, 0.99)) ** 0.9 * min(1, (it + 1) / 50)
        orders = [rng.permutation(n) for _ in range(a.batch)]
        x = torch.cat([puzzle(vols[rng.integers(len(vols))], True, o) for o in orders])
        y = torch.from_numpy(np.concatenate(orders))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        opt.step()
        avg = loss.item() if avg is None else 0.98 * avg + 0.02 * loss.item()
        it += 1


def finetune():
    K = 6
    pick = [train[i] for i in np.random.default_rng(1).permutation(len(train))[: a.cases]]
    pairs = [(load(f), np.asanyarray(nib.as_closest_canonical(nib.load(f.replace("imagesTr", "labelsTr"))).dataobj)) for f in pick]
    held = [(load(f), np.asanyarray(nib.as_closest_canonical(nib.load(f.replace("imagesTr", "labelsTr"))).dataobj)) for f in test]
    net = peer_vnet.VNet("instance", a.channels, K)
    if a.init:
        print(net.enc.load_state_dict(torch.load(a.init)))
    opt = torch.optim.SGD(net.parameters(), a.lr, momentum=0.9, weight_decay=1e-4)
    t0 = time.time()
    for it in range(a.steps + 1):
        if it % 200 == 0 or it == a.steps:
            net.eval()
            dsc = []
            with torch.no_grad():
                for v, m in held:
                    p = net(torch.from_numpy(v)[None, None]).argmax(1)[0].numpy()
                    dsc.append([2 * ((p == k) & (m == k)).sum() / max(1, (p == k).sum() + (m == k).sum()) for k in range(1, K)])
            print(f"{time.time()-t0:.0f}s it {it} DSC {np.mean(dsc):.4f} per structure {np.round(np.mean(dsc,0),3)}", flush=True)
            net.train()
            if it == a.steps:
                return
        for g in opt.param_groups:
            g["lr"] = a.lr * (1 - it / a.steps) ** 0.9 * min(1, (it + 1) / 30)
        v, m = pairs[rng.integers(len(pairs))]
        s, fg = 64, np.argwhere(m > 0)
        c = fg[rng.integers(len(fg))] if rng.random() < 0.67 else rng.integers(0, 128, 3)
        o = np.clip(c - rng.integers(0, s, 3), 0, 128 - s)
        sl = tuple(slice(i, i + s) for i in o)
        x = torch.from_numpy(v[sl] * rng.uniform(0.9, 1.1) + rng.uniform(-0.1, 0.1)).float()[None, None]
        y = torch.from_numpy(m[sl].astype(np.int64))[None]
        lo = net(x)
        p, t = lo.softmax(1), F.one_hot(y, K).permute(0, 4, 1, 2, 3).float()
        dice = 1 - (2 * (p * t).sum((0, 2, 3, 4)) + 1e-5) / ((p + t).sum((0, 2, 3, 4)) + 1e-5)
        loss = F.cross_entropy(lo, y) + dice[1:].mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        opt.step()


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
pretrain() if a.task == "pretrain" else finetune()

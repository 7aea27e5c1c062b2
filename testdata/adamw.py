#!/usr/bin/python3
"""Golden file of internal/train: torch.optim.AdamW, with and without decay of vectors, clipping, and the moving average of the weights."""
import json, os
import numpy as np, torch

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(1)
STEPS = 20


def trajectory(lr, beta1, beta2, decay, clip, decay_all, average):
    """Twenty steps of two parameters under random gradients; the parameters after each step, and their moving average."""
    p = [torch.nn.Parameter(torch.from_numpy(rng.normal(size=s).astype(np.float32))) for s in ((3, 2), (5,))]
    start = [q.detach().flatten().tolist() for q in p]
    opt = torch.optim.AdamW([{"params": [p[0]], "weight_decay": decay}, {"params": [p[1]], "weight_decay": decay if decay_all else 0.0}], lr, betas=(beta1, beta2), eps=1e-8)
    mean = [torch.zeros_like(q) for q in p]
    grads, after, means = [], [], []
    for i in range(STEPS):
        g = [torch.from_numpy((rng.normal(size=tuple(q.shape)) * 10.0 ** rng.integers(-4, 2)).astype(np.float32)) for q in p]
        for q, d in zip(p, g):
            q.grad = d.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_(p, clip)
        opt.step()
        keep = min(average, (1 + i) / (10 + i)) if i else 0.0
        mean = [m.lerp(q.detach(), 1 - keep) for m, q in zip(mean, p)]
        grads.append([d.flatten().tolist() for d in g])
        after.append([q.detach().flatten().tolist() for q in p])
        means.append([m.flatten().tolist() for m in mean])
    return {"options": {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": decay, "clip": clip, "decay_all": decay_all, "average": average},
            "start": start, "gradients": grads, "after": after, "means": means}


with open(here + "/adamw.json", "w") as f:
    json.dump([trajectory(1e-2, 0.9, 0.999, 0.0, 0, True, 0.9), trajectory(3e-2, 0.9, 0.999, 0.1, 0, True, 0.99),
               trajectory(1e-2, 0.8, 0.95, 0.3, 0, False, 0.5), trajectory(1e-2, 0.9, 0.99, 0.05, 0.5, False, 0.999)], f)

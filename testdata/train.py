#!/usr/bin/python3
"""Golden files of internal/train: torch.optim.SGD, torch's schedulers, and files written by the safetensors package (pip install safetensors)."""
import json, os, warnings
import numpy as np, torch
from safetensors.numpy import save_file

warnings.filterwarnings("ignore")
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)
STEPS = 12


def trajectory(lr, momentum, decay, clip, schedule, warmup):
    """Twelve steps of two parameters under random gradients; the parameters after each step, and the learning rate of each."""
    p = [torch.nn.Parameter(torch.from_numpy(rng.normal(size=s).astype(np.float32))) for s in ((3, 2), (5,))]
    start = [q.detach().flatten().tolist() for q in p]
    opt = torch.optim.SGD(p, lr, momentum=momentum, weight_decay=decay)
    sch = {
        "constant": lambda: torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 1.0),
        "step": lambda: torch.optim.lr_scheduler.StepLR(opt, 5, gamma=0.1),
        "poly": lambda: torch.optim.lr_scheduler.PolynomialLR(opt, STEPS, power=0.9),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS),
    }[schedule]()
    rates, grads, after, norms = [], [], [], []
    for i in range(STEPS):
        base = opt.param_groups[0]["lr"]
        opt.param_groups[0]["lr"] = base * min(1, (i + 1) / warmup) if warmup else base
        g = [torch.from_numpy(rng.normal(size=tuple(q.shape)).astype(np.float32)) for q in p]
        for q, d in zip(p, g):
            q.grad = d.clone()
        n = torch.nn.utils.clip_grad_norm_(p, clip if clip else 1e9)
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        opt.param_groups[0]["lr"] = base
        sch.step()
        grads.append([d.flatten().tolist() for d in g])
        after.append([q.detach().flatten().tolist() for q in p])
        norms.append(float(n))
    return {"options": {"steps": STEPS, "lr": lr, "momentum": momentum, "weight_decay": decay, "clip": clip, "schedule": schedule, "warmup": warmup, "step_size": 5, "gamma": 0.1, "power": 0.9},
            "start": start, "gradients": grads, "norms": norms, "rates": rates, "after": after}


cases = [trajectory(0.1, 0.9, 0.0, 0, "constant", 0), trajectory(0.1, 0.9, 0.05, 2.0, "step", 3),
         trajectory(0.05, 0.0, 0.01, 1.0, "poly", 4), trajectory(0.2, 0.99, 5e-4, 3.0, "cosine", 0)]
with open(here + "/train_sgd.json", "w") as f:
    json.dump(cases, f)

save_file({"encoder.weight": rng.normal(size=(2, 3)).astype(np.float32), "scalar": np.array(-2.5, np.float64), "half": np.array([1.5, -0.0, 6e-8, 65504, np.inf], np.float16), "empty": np.zeros((0, 4), np.float32)},
          here + "/train_numpy.safetensors", metadata={"kind": "golden", "note": "written by safetensors"})

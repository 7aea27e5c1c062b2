#!/usr/bin/env python3
"""Golden file of internal/jigsaw: the attention head as torch.nn.TransformerEncoderLayer computes it, and the loss with several right answers, in float64.

    /usr/bin/python3 testdata/attention.py        # Debian's python3-torch; writes testdata/attention.json

Three puzzles of 2x2x2 patches, six of which are there, lie on three boards. Weights, features, slots and right answers are formulas that both sides compute.
"""
import json, os, zlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
BOARDS, THERE, CELLS, FEATURES, HIDDEN, HEADS, LAYERS = 3, 6, 8, 12, 8, 2, 2


def noise(name, n):
    """n numbers in [-1, 1): MurmurHash3's finaliser over the index and the CRC of the name; see vnet_golden.py."""
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x *= np.uint32(0xC2B2AE35)
        x ^= x >> np.uint32(16)
    return (x.astype(np.float64) / 2.0**31 - 1).astype(np.float32).astype(np.float64)


def formula(name, *shape):
    return torch.from_numpy(noise(name, int(np.prod(shape)))).reshape(shape).requires_grad_()


def parameters():
    p = {}

    def linear(name, rows, columns, bias=True):
        p[name + ".weight"] = formula(name + ".weight", rows, columns)
        if bias:
            p[name + ".bias"] = formula(name + ".bias", rows)

    linear("puzzle.token", HIDDEN, FEATURES)
    linear("puzzle.slot", HIDDEN, CELLS, False)
    for i in range(LAYERS):
        layer = f"puzzle.layer{i}."
        for name in ("query", "key", "value", "out"):
            linear(layer + name, HIDDEN, HIDDEN)
        linear(layer + "wide", 4 * HIDDEN, HIDDEN)
        linear(layer + "narrow", HIDDEN, 4 * HIDDEN)
        for name in ("norm1", "norm2"):
            p[layer + name + ".weight"], p[layer + name + ".bias"] = formula(layer + name + ".weight", HIDDEN), formula(layer + name + ".bias", HIDDEN)
    p["puzzle.norm.weight"], p["puzzle.norm.bias"] = formula("puzzle.norm.weight", HIDDEN), formula("puzzle.norm.bias", HIDDEN)
    linear("puzzle.position", CELLS, HIDDEN)
    return p


def encoder_layer(p, layer, x):
    """torch's own layer, called with our parameters."""
    torch_layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, 4 * HIDDEN, dropout=0, activation="relu", batch_first=True, norm_first=True)
    both = lambda kind: torch.cat([p[f"{layer}{name}.{kind}"] for name in ("query", "key", "value")])
    theirs = {"self_attn.in_proj_weight": both("weight"), "self_attn.in_proj_bias": both("bias")}
    for a, b in (("self_attn.out_proj", "out"), ("linear1", "wide"), ("linear2", "narrow"), ("norm1", "norm1"), ("norm2", "norm2")):
        for kind in ("weight", "bias"):
            theirs[f"{a}.{kind}"] = p[f"{layer}{b}.{kind}"]
    return torch.nn.utils.stateless.functional_call(torch_layer, theirs, (x,))


p = parameters()
features = formula("features", BOARDS, THERE, FEATURES)
slots = torch.tensor([[(3 * k + board) % CELLS for k in range(THERE)] for board in range(BOARDS)])
x = F.linear(features, p["puzzle.token.weight"], p["puzzle.token.bias"]) + F.linear(F.one_hot(slots, CELLS).double(), p["puzzle.slot.weight"])
for i in range(LAYERS):
    x = encoder_layer(p, f"puzzle.layer{i}.", x)
x = F.layer_norm(x, (HIDDEN,), p["puzzle.norm.weight"], p["puzzle.norm.bias"])
scores = F.linear(x, p["puzzle.position.weight"], p["puzzle.position.bias"]).reshape(BOARDS * THERE, CELLS)
# the first token of each board does not count; of the others one or two positions are right
right = torch.tensor([[k % THERE > 0 and c in (k % CELLS, (k * k) % CELLS) for c in range(CELLS)] for k in range(BOARDS * THERE)])
rows = right.any(1)
loss = -torch.logsumexp(F.log_softmax(scores[rows], 1).masked_fill(~right[rows], -torch.inf), 1).mean()
loss.backward()
flat = lambda t: [float(f"{v:.9g}") for v in t.flatten().tolist()]
golden = {
    "slots": slots.flatten().tolist(), "right": right.int().flatten().tolist(), "scores": flat(scores.detach()), "loss": loss.item(), "features": flat(features.grad),
    "gradients": {name: flat(q.grad) for name, q in p.items()},
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention.json")
with open(path, "w") as f:
    json.dump(golden, f)
print(path, os.path.getsize(path), "loss", golden["loss"])

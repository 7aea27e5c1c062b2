#!/usr/bin/env python3
"""Golden file of internal/jigsaw: equation 1 of Wei et al. 2019, S = sum of unary costs + w sum of binary costs over ordered pairs, as a loss and as what a puzzle is solved by, in float64.

    python3 testdata/equation1.py        # torch and scipy from PyPI; writes testdata/equation1.json

Four puzzles of 3x3 patches lie on four boards. The loss of weight w is S of the truth, divided by patches and boards; w = 0 stands for the mean over rows plus the mean over pairs. Answers are found by
listing every configuration within Hamming distance 2 or 3 of scipy's assignment and taking the one of smallest S. Weights, features and the truth are formulas that both sides compute.
"""
import itertools, json, os, zlib
import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

torch.set_default_dtype(torch.float64)
BOARDS, SIDE, FEATURES, RELATIONS = 4, 3, 4, 9
CELLS = SIDE * SIDE


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


def relation(p, q):
    """The paper's nine classes: q is one of the eight neighbours of p, or none (4)."""
    dy, dx = q // SIDE - p // SIDE, q % SIDE - p % SIDE
    return 3 * (dy + 1) + dx + 1 if max(abs(dy), abs(dx)) <= 1 else 4


def cost(u, v, c, w):
    """S of configuration c, where patch a goes to c[a]."""
    s = sum(u[a, c[a]] for a in range(CELLS))
    return s + w * sum(v[a, b, relation(c[a], c[b])] for a in range(CELLS) for b in range(CELLS) if a != b)


def within(c, distance):
    """Every configuration within a Hamming distance of c."""
    yield tuple(c)
    for size in range(2, distance + 1):
        for places in itertools.combinations(range(CELLS), size):
            for order in itertools.permutations(places):
                if all(a != b for a, b in zip(places, order)):
                    d = list(c)
                    for a, b in zip(places, order):
                        d[a] = c[b]
                    yield tuple(d)


p = {
    "puzzle.unary.weight": formula("puzzle.unary.weight", CELLS * CELLS, CELLS * FEATURES), "puzzle.unary.bias": formula("puzzle.unary.bias", CELLS * CELLS),
    "puzzle.first.weight": formula("puzzle.first.weight", RELATIONS, FEATURES), "puzzle.first.bias": formula("puzzle.first.bias", RELATIONS),
    "puzzle.second.weight": formula("puzzle.second.weight", RELATIONS, FEATURES),
}
features = formula("features", BOARDS, CELLS, FEATURES)
truth = [[(2 * s + board) % CELLS for s in range(CELLS)] for board in range(BOARDS)]  # 2 and 9 have no common factor

unary = -F.log_softmax(F.linear(features.flatten(1), p["puzzle.unary.weight"], p["puzzle.unary.bias"]).reshape(BOARDS, CELLS, CELLS), -1)
first = F.linear(features, p["puzzle.first.weight"], p["puzzle.first.bias"])
binary = -F.log_softmax(first[:, :, None] + F.linear(features, p["puzzle.second.weight"])[:, None], -1)

golden = {"truth": truth, "cases": []}
flat = lambda t: [float(f"{v:.7g}") for v in t.flatten().tolist()]
for w in (0, 0.1, 1, 3):
    if w == 0:
        rows = torch.stack([unary[b, a, truth[b][a]] for b in range(BOARDS) for a in range(CELLS)])
        pairs = torch.stack([binary[b, i, j, relation(truth[b][i], truth[b][j])] for b in range(BOARDS) for i in range(CELLS) for j in range(CELLS) if i != j])
        loss = rows.mean() + pairs.mean()
    else:
        loss = sum(cost(unary[b], binary[b], truth[b], w) for b in range(BOARDS)) / (BOARDS * CELLS)
    for t in (*p.values(), features):
        t.grad = None
    loss.backward(retain_graph=True)
    case = {"weight": w, "loss": loss.item(), "features": flat(features.grad), "gradients": {n: flat(q.grad) for n, q in p.items()}, "answers": {}}
    for distance in (2, 3):
        case["answers"][distance] = []
        for b in range(BOARDS):
            u, v = unary[b].detach().numpy(), binary[b].detach().numpy()
            _, start = linear_sum_assignment(u)
            case["answers"][distance].append([int(x) for x in min(within(start, distance), key=lambda c: cost(u, v, c, w or 1))])
    golden["cases"].append(case)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "equation1.json")
with open(path, "w") as f:
    json.dump(golden, f)
print(path, os.path.getsize(path), [(c["weight"], c["loss"], c["answers"]) for c in golden["cases"]])

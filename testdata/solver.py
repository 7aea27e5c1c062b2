#!/usr/bin/env python3
"""Writes solver.json: what scipy.optimize.linear_sum_assignment finds for cost matrices that both sides make from a formula.

    python3 testdata/solver.py          # needs numpy and scipy; scipy 1.10 made the file that is here
"""
import json, os
import numpy as np
from scipy.optimize import linear_sum_assignment


def uniform(seed, n):
    """n*n numbers in [0, 1): element k is SplitMix64's output for the state seed * 2^32 + k, its upper 53 bits."""
    z = np.uint64(seed << 32) + np.arange(n * n, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(n, n)


def matrix(kind, seed, n):
    u = uniform(seed, n)
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    return {
        "uniform": lambda: u,
        "ties": lambda: np.floor(u * 5),                          # whole numbers 0..4: many optima
        "product": lambda: (i + 1.0) * (j + 1.0),                 # every augmentation is long
        "likely": lambda: 8 * u - 9 * ((7 * i + 3) % n == j),     # rows mostly agree, as a trained network's
        "negative": lambda: 1000 * u - 2000,
        "forbidden": lambda: np.where((u > 0.3) & (i != j), np.inf, u),
    }[kind]()


if __name__ == "__main__":
    out = []
    for n in [1, 2, 3, 5, 8, 13, 27, 64, 100, 216, 500, 1000]:
        for k, kind in enumerate(["uniform", "ties", "product", "likely", "negative", "forbidden"]):
            for seed in [100 * n + k] + ([100 * n + k + 50] if n < 100 else []):
                c = matrix(kind, seed, n)
                r, s = linear_sum_assignment(c)
                out.append({"kind": kind, "seed": seed, "n": n, "cost": float(c[r, s].sum())})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solver.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")

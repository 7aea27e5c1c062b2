#!/usr/bin/python3
"""Writes labels.json: a small label map, and the labels that have the largest shares of voxels on other grids.

The share of a label is scipy.ndimage.map_coordinates(order=1) of its mask, as nnU-Net resamples segmentations, at coordinates clamped to the
voxel centres; where voxels are more than twice as large, it is the mean of the mask over a box of r - 1 source voxels around the centre, r the
ratio, by a matrix of overlaps for each axis. Outside the field of view there is background (0). Of labels with equal shares the rarer wins, and
background never. `nnunet` is what nnU-Net's rule makes of a map of one label: the label where the share is 0.5 or more.
"""
import json
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

r = np.random.default_rng(35)
shape = (13, 12, 10)
fields = [gaussian_filter(r.standard_normal(shape), 1.2) for _ in range(5)]
labels = np.argmax(np.stack(fields), 0) * 7
names = [int(x) for x in np.unique(labels)]
count = {x: int((labels == x).sum()) for x in names}


def rotation(a, b):
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    z = np.array([[np.cos(b), -np.sin(b), 0], [np.sin(b), np.cos(b), 0], [0, 0, 1]])
    return x @ z


def affine(direction, spacing, origin):
    m = np.eye(4)
    m[:3, :3] = direction @ np.diag(spacing)
    m[:3, 3] = origin
    return m


source = affine(np.diag([-1, -1, 1]), (1.5, 1.25, 3.0), (40.0, 30.0, -700.0))


def linear(mask, m, to):
    index = np.stack(np.meshgrid(*[np.arange(n) for n in to], indexing='ij'), -1).reshape(-1, 3)
    p = (np.linalg.inv(source) @ m @ np.c_[index, np.ones(len(index))].T)[:3]
    inside = np.ones(p.shape[1], bool)
    for a in range(3):
        inside &= (p[a] >= -0.5 - 1e-6) & (p[a] <= shape[a] - 0.5 + 1e-6)
        p[a] = np.clip(p[a], 0, shape[a] - 1)
    return np.where(inside, map_coordinates(mask.astype(float), p, order=1, mode='nearest'), 0).reshape(to), inside.reshape(to)


def mean(mask, m, to):
    back = np.linalg.inv(source) @ m
    out, inside = mask.astype(float), np.ones(to, bool)
    for a in range(3):
        ratio, n = abs(back[a, a]), shape[a]
        centre = back[a, a] * np.arange(to[a]) + back[a, 3]
        half = max(1, ratio - 1) / 2
        low, high = np.maximum(centre - half, -0.5), np.minimum(centre + half, n - 0.5)
        edges = np.arange(n)
        w = np.clip(np.minimum(high[:, None], edges + 0.5) - np.maximum(low[:, None], edges - 0.5), 0, None)
        out = np.moveaxis(np.tensordot(w / w.sum(1, keepdims=True), out, (1, a)), 0, a)
    return out, inside


def resampled(spacing):
    to, m = [], source.copy()
    for a in range(3):
        s, n = (1.5, 1.25, 3.0)[a], shape[a]
        k = max(1, int(np.floor(n * s / spacing[a] + 0.5)))
        to.append(k)
        m[:3, a] = source[:3, a] * spacing[a] / s
        m[:3, 3] += source[:3, a] * ((n - 1) / 2 - spacing[a] / s * (k - 1) / 2)
    return m, tuple(to)


def winners(share, inside):
    stack = np.stack([share[x] for x in names])
    best = stack.max(0)
    order = sorted(names, key=lambda x: (x == 0, count[x], x))
    out = np.zeros(best.shape, int)
    done = np.zeros(best.shape, bool)
    for x in order:
        here = ~done & (share[x] >= best - 1e-6) & inside
        out[here], done = x, done | here
    return out


flat = lambda a: [int(x) for x in np.asarray(a).ravel(order='F')]
middle = (source @ [6.1, 5.4, 4.6, 1])[:3]
cases = []
for how, grid in [(linear, resampled((1.0, 1.0, 1.0))), (linear, resampled((3.0, 2.5, 6.0))), (linear, resampled((2.25, 1.9, 3.0))),
                  (mean, resampled((4.5, 3.75, 9.0))), (mean, resampled((6.0, 5.2, 7.0))),
                  (linear, (affine(np.diag([-1, -1, 1]), (1.5, 1.25, 3.0), source[:3, 3] + [0.7, 3.1, -1.4]), (12, 11, 13))),
                  (linear, (affine(rotation(0.3, 0.5) @ np.diag([-1, -1, 1]), (1.3, 1.2, 1.4), middle - rotation(0.3, 0.5) @ [-6, -6, 7]), (10, 11, 12)))]:
    m, to = grid
    share = {}
    for x in names:
        share[x], inside = how(labels == x, m, to)
    one, _ = how(labels == names[1], m, to)
    cases.append(dict(affine=m.tolist(), shape=to, largest=flat(winners(share, inside)), nnunet=flat((one >= 0.5 - 1e-9) & inside)))
json.dump(dict(shape=shape, affine=source.tolist(), labels=flat(labels), one=names[1], cases=cases), open('testdata/labels.json', 'w'))

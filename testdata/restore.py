#!/usr/bin/python3
"""Writes restore.json: class probabilities on prepared grids, and what scipy, PyTorch and scikit-image make of them on the scans' own voxels.

    pip install --no-deps "scikit-image==0.24.0" lazy_loader networkx
    /usr/bin/python3 restore.py        # from this folder, with Debian's python3-scipy 1.10 and python3-torch 1.13

scipy: map_coordinates(order=1, mode='nearest') at the prepared indices of the scan's voxel centres, which come from the two affines.
PyTorch and scikit-image, where the extents divide so that a grid and its resampled one fill the same box: interpolate(mode='trilinear',
align_corners=False), and resize(order=1, mode='edge', anti_aliasing=False), which is what nnU-Net calls for each class.
The label map is the arg max, the first of equals.
"""
import json
import numpy as np
import torch
from scipy.ndimage import map_coordinates
from skimage.transform import resize

r = np.random.default_rng(20261122)
flat = lambda a: [round(float(x), 6) for x in np.asarray(a).ravel(order='F')]


def prepared_grid(affine, shape, spacing):
    """The grid of a scan that is turned to RAS and resampled about its centre, extents rounded to whole voxels; 0 keeps the spacing."""
    axis = [int(np.argmax(np.abs(affine[w, :3]))) for w in range(3)]
    m, n = np.eye(4), [shape[a] for a in axis]
    m[:3, 3] = affine[:3, 3]
    for w, a in enumerate(axis):
        step = affine[:3, a].copy()
        if step[w] < 0:
            m[:3, 3] += step * (n[w] - 1)
            step = -step
        m[:3, w] = step
    out = m.copy()
    to = list(n)
    for w in range(3):
        old = np.linalg.norm(m[:3, w])
        if spacing[w] == 0:
            continue
        to[w] = max(1, int(np.floor(n[w] * old / spacing[w] + 0.5)))
        ratio = spacing[w] / old
        out[:3, 3] += m[:3, w] * ((n[w] - 1) - ratio * (to[w] - 1)) / 2
        out[:3, w] = m[:3, w] * ratio
    return out, to


cases = []
for name, directions, own, shape, spacing in [
    ("coarser, extents that divide", [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (1, 1, 2), (12, 9, 8), (3, 3, 4)),
    ("finer along k, extents that divide", [[-1, 0, 0], [0, -1, 0], [0, 0, 1]], (1, 1, 4), (10, 8, 5), (2, 2, 2)),
    ("extents that do not divide", [[1, 0, 0], [0, -1, 0], [0, 0, 1]], (0.8, 0.7, 2.5), (19, 17, 11), (1.5, 1.5, 3)),
    ("sagittal slices, backwards", [[0, 0, -1], [-1, 0, 0], [0, 1, 0]], (1.1, 0.9, 3), (13, 15, 7), (2, 2, 2)),
    ("far coarser", [[-1, 0, 0], [0, 1, 0], [0, 0, -1]], (1, 1, 1), (11, 14, 13), (4.5, 4.5, 4.5)),
    ("one axis", [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (1, 1, 2.5), (9, 8, 10), (0, 0, 4)),
    ("an oblique scan", [[0.96, -0.28, 0], [0.28, 0.96, 0], [0, 0, 1]], (0.9, 0.9, 2), (14, 12, 9), (2, 1.5, 3)),
]:
    affine = np.eye(4)
    affine[:3, :3] = np.array(directions, float) @ np.diag(own)
    affine[:3, 3] = (-31.5, 17.25, 402)
    grid, to = prepared_grid(affine, shape, spacing)
    logits = 2 * r.standard_normal((3, *to))
    p = np.round((np.exp(logits) / np.exp(logits).sum(0)).astype(np.float32), 6)
    index = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing='ij'), -1).reshape(-1, 3)
    at = (np.linalg.inv(grid) @ affine @ np.c_[index, np.ones(len(index))].T)[:3]
    scipy = np.stack([map_coordinates(c.astype(np.float64), at, order=1, mode='nearest').reshape(shape) for c in p])
    case = dict(name=name, scan=dict(shape=shape, affine=affine.tolist()), prepared=dict(shape=to, affine=grid.tolist()), spacing=spacing,
                probabilities=flat(np.moveaxis(p, 0, -1)), scipy=flat(np.moveaxis(scipy, 0, -1)), labels=[int(x) for x in scipy.argmax(0).ravel(order='F')])
    if 'extents that divide' in name:
        # back along the scan's axes: these two know nothing of directions
        flips = [a + 1 for a in range(3) if directions[a][a] < 0]
        q = np.flip(p, flips)
        t = torch.nn.functional.interpolate(torch.from_numpy(q.astype(np.float64).copy())[None], shape, mode='trilinear', align_corners=False)[0].numpy()
        s = np.stack([resize(c.astype(np.float64), shape, order=1, mode='edge', anti_aliasing=False) for c in q])
        case.update(torch=flat(np.moveaxis(t, 0, -1)), skimage=flat(np.moveaxis(s, 0, -1)))
        print(name, 'torch', np.abs(t - scipy).max(), 'skimage', np.abs(s - scipy).max())
    cases.append(case)
with open('restore.json', 'w') as f:
    json.dump(cases, f)

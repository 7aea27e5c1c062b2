#!/usr/bin/python3
"""Writes resample.json: small volumes, and what scipy.ndimage and nibabel make of them on other grids.

Linear and cubic values come from map_coordinates(mode='mirror') at coordinates clamped to the voxel centres (the field of view reaches half a
voxel beyond them), nearest ones from order 0; outside the field of view the golden holds -1000. Orientations come from nibabel.
"""
import json
import numpy as np
import nibabel as nib
from nibabel.orientations import io_orientation, axcodes2ornt, ornt_transform, apply_orientation, inv_ornt_aff
from scipy.ndimage import map_coordinates

r = np.random.default_rng(20240607)
shape = (7, 6, 9)
data = r.integers(-1000, 1500, shape).astype(np.int16)


def rotation(a, b, c):
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return x @ y @ z


def affine(direction, spacing, origin):
    m = np.eye(4)
    m[:3, :3] = direction @ np.diag(spacing)
    m[:3, 3] = origin
    return m


source = affine(np.diag([-1, -1, 1]), (1.5, 1.25, 3.0), (40.0, 30.0, -700.0))
flat = lambda a: [round(float(x), 4) for x in np.asarray(a).ravel(order='F')]


def on_grid(m, to, order):
    index = np.stack(np.meshgrid(*[np.arange(n) for n in to], indexing='ij'), -1).reshape(-1, 3)
    p = (np.linalg.inv(source) @ m @ np.c_[index, np.ones(len(index))].T)[:3]
    inside = np.ones(p.shape[1], bool)
    for a in range(3):
        inside &= (p[a] >= -0.5 - 1e-6) & (p[a] <= shape[a] - 0.5 + 1e-6)
        p[a] = np.clip(p[a], 0, shape[a] - 1)
    v = map_coordinates(data.astype(np.float64), p, order=order, mode='mirror')
    v[~inside] = -1000
    return v.reshape(to)


cases = []
for spacing in [(1.0, 1.0, 1.0), (3.0, 2.0, 5.0), (1.5, 0.7, 3.0)]:
    to, m = [], source.copy()
    for a in range(3):
        s, n = (1.5, 1.25, 3.0)[a], shape[a]
        k = max(1, int(np.floor(n * s / spacing[a] + 0.5)))
        to.append(k)
        m[:3, a] = source[:3, a] * spacing[a] / s
        m[:3, 3] += source[:3, a] * ((n - 1) / 2 - spacing[a] / s * (k - 1) / 2)
    cases.append(dict(spacing=spacing, shape=to, affine=m.tolist(),
                      linear=flat(on_grid(m, to, 1)), cubic=flat(on_grid(m, to, 3)), nearest=flat(on_grid(m, to, 0))))
centre = source @ [3.05, 2.45, 4.1, 1]
for direction, spacing, to in [(rotation(0.3, -0.2, 0.5), (1.1, 1.3, 2.0), (6, 8, 7)),
                               (np.diag([-1, -1, 1]), (1.4, 1.1, 2.6), (9, 9, 12)),
                               (np.array([[0, 0, 1], [1, 0, 0], [0, -1, 0]]), (1.1, 1.3, 2.0), (7, 12, 9))]:
    m = affine(direction, spacing, (0, 0, 0))
    m[:3, 3] = centre[:3] - m[:3, :3] @ ((np.array(to) - 1) / 2)
    cases.append(dict(shape=to, affine=m.tolist(),
                      linear=flat(on_grid(m, to, 1)), cubic=flat(on_grid(m, to, 3)), nearest=flat(on_grid(m, to, 0))))

turned = []
for direction, codes in [(np.diag([-1, -1, 1]), 'RAS'), (rotation(0.3, -0.2, 0.5), 'SLA'), (rotation(2.0, 1.0, -2.2), 'PIR'),
                         (np.array([[1, .2, 0], [0, 1, -.4], [0, 0.1, 1]]), 'LPS'), (np.array([[0, 0, -1], [1, 0, 0], [0, -1, 0.]]), 'IAL')]:
    m = affine(direction, (1.5, 1.25, 3.0), (40, 30, -700))
    t = ornt_transform(io_orientation(m), axcodes2ornt(codes))
    out = apply_orientation(data, t)
    turned.append(dict(affine=m.tolist(), axcodes=''.join(nib.aff2axcodes(m)), codes=codes, shape=out.shape,
                       result=(m @ inv_ornt_aff(t, shape)).tolist(), voxels=[int(x) for x in out.ravel(order='F')]))

with open('resample.json', 'w') as f:
    json.dump(dict(shape=shape, affine=source.tolist(), voxels=[int(x) for x in data.ravel(order='F')], resampled=cases, oriented=turned), f)

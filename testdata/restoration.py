"""Makes restoration.json: what the pretext tasks fusion and mae make of a crop, by numpy. Arrays are
indexed [k, j, i].
"""

import json
import pathlib

import numpy as np

shape = (12, 4, 8)  # (k, j, i)
numbers = np.arange(np.prod(shape)).reshape(shape)
first = np.sin(numbers * 0.7).astype(np.float32)
second = np.cos(numbers * 0.3).astype(np.float32)


def listed(array):
    return np.asarray(array, np.float64).ravel().tolist()


# boxes as (origin i, j, k), (size i, j, k), class
boxes = [((1, 0, 2), (5, 3, 8), 3), ((4, 1, 0), (4, 2, 6), 1), ((0, 2, 5), (2, 2, 7), 4), ((3, 0, 4), (3, 4, 2), 0)]
classes = np.zeros(shape)
for (i, j, k), (ni, nj, nk), c in boxes:
    classes[k : k + nk, j : j + nj, i : i + ni] = c
share = np.linspace(0, 1, 5)[classes.astype(int)]
fusion = dict(boxes=[dict(origin=o, size=s, cls=c) for o, s, c in boxes], classes=listed(classes), mixed=listed(share * first + (1 - share) * second))

block, masked = 4, [1, 3, 4]  # blocks, i fastest: 2 along i, 1 along j, 3 along k
grid = np.zeros([s // block for s in shape])
grid.ravel()[masked] = 1
mask = np.kron(grid, np.ones([block] * 3))
mae = dict(block=block, masked=masked, mask=listed(mask), input=listed(first * (1 - mask)))

out = dict(size=shape[::-1], first=listed(first), second=listed(second), fusion=fusion, mae=mae)
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(out, separators=(",", ":")) + "\n")

#!/usr/bin/env python3
"""Golden file of internal/proposal: what OpenCV's selective search finds on twenty photographs.

    python3 testdata/proposals.py        # opencv-contrib-python-headless and scikit-image from PyPI; writes testdata/proposals/

The photographs are cut out of pictures that scikit-image ships and that are in the public domain or CC0: chelsea, coffee, rocket, hubble_deep_field, retina, astronaut. Each is scaled to 200x150 and
written as JPEG; OpenCV reads that file.
"""
import gzip, os
import cv2
from skimage import data, transform, util

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "proposals")
os.makedirs(folder, exist_ok=True)
CUTS = {  # of each picture: top, left, height as shares; the width is 4/3 of the height
    "chelsea": [(0, 0, 1), (0.1, 0.2, 0.7), (0.3, 0.3, 0.6)],
    "coffee": [(0, 0, 1), (0.2, 0.1, 0.7), (0.05, 0.3, 0.6), (0.4, 0.35, 0.6)],
    "rocket": [(0, 0, 1), (0.2, 0.2, 0.8), (0.5, 0.1, 0.5), (0.1, 0.4, 0.5)],
    "astronaut": [(0, 0, 0.75), (0.25, 0, 0.75), (0.3, 0.3, 0.5), (0, 0.1, 0.5)],
    "hubble_deep_field": [(0, 0, 1), (0.3, 0.3, 0.4), (0.6, 0.1, 0.3)],
    "retina": [(0.1, 0, 0.75), (0.3, 0.2, 0.5)],
}
lines, count = ["photo,xmin,ymin,xmax,ymax"], 0
for name, cuts in CUTS.items():
    picture = getattr(data, name)()[..., :3]
    h, w = picture.shape[:2]
    for n, (top, left, size) in enumerate(cuts):
        height = int(size * h)
        width = min(int(height * 4 / 3), w)
        y, x = min(int(top * h), h - height), min(int(left * w), w - width)
        small = util.img_as_ubyte(transform.resize(picture[y:y + height, x:x + width], (150, 200), anti_aliasing=True))
        stem = f"{name}_{n}"
        path = os.path.join(folder, stem + ".jpg")
        cv2.imwrite(path, cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
        search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
        search.setBaseImage(cv2.imread(path))
        search.switchToSelectiveSearchFast()
        boxes = sorted({(int(x) + 1, int(y) + 1, int(x + w_), int(y + h_)) for x, y, w_, h_ in search.process()})
        lines += [f"{stem},{a},{b},{c},{d}" for a, b, c, d in boxes]
        count += 1
        print(stem, len(boxes))
with open(os.path.join(folder, "opencv.csv.gz"), "wb") as f:
    f.write(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
print(count, "photographs,", len(lines) - 1, "boxes")

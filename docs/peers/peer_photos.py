#!/usr/bin/env python3
"""Decodes photographs and resizes them, as `voxsaw bench photos` does, by Pillow or torchvision.

    python3 docs/peers/peer_photos.py PHOTOS [--with pillow|torchvision] [--repeat 5] [--most 100]

Prints the same line of JSON, on one thread. Files are in memory before.
"""
import argparse
import io
import os

import peer


def photographs(root, most):
    names = []
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [f for f in folders if not f.startswith(".")]
        names += [os.path.join(folder, f) for f in files if f.lower().endswith((".jpg", ".jpeg", ".png")) and not f.startswith(".")]
    names.sort(key=lambda n: os.path.relpath(n, root).encode())
    n = min(len(names), most) if most else len(names)
    return [open(names[k * len(names) // n], "rb").read() for k in range(n)]


def pillow(size):
    import PIL
    from PIL import Image

    def one(data):
        return Image.open(io.BytesIO(data)).convert("RGB").resize(size, Image.BILINEAR).tobytes()
    return f"Pillow {PIL.__version__}", one


def torchvision(size):
    import torch
    import torchvision as tv
    from torchvision.transforms.v2 import functional as F
    torch.set_num_threads(1)

    def one(data):
        image = tv.io.decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=tv.io.ImageReadMode.RGB)
        return F.resize(image, [size[1], size[0]], antialias=True)
    return f"torchvision {tv.__version__}", one


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("photos")
    ap.add_argument("--with", dest="library", choices=["pillow", "torchvision"], default="pillow")
    ap.add_argument("--repeat", type=int, default=5)
    ap.add_argument("--most", type=int, default=100)
    ap.add_argument("--size", default="255x255")
    a = ap.parse_args()
    impl, one = {"pillow": pillow, "torchvision": torchvision}[a.library](tuple(map(int, a.size.split("x"))))
    files = photographs(a.photos, a.most)

    def all():
        for data in files:
            one(data)

    times, _ = peer.timed(all, 1, a.repeat)
    peer.line(impl, task="photos", photos=len(files), kib=round(sum(map(len, files)) / 1024 / len(files), 1),
              **peer.seconds([t / len(files) for t in times]))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""meta.mat as ImageNet's development kit has it, for puzzle2d/photos: made-up synsets, written by scipy.io.savemat."""
import numpy as np
import scipy.io

synsets = [  # ILSVRC2012_ID, WNID, words, gloss: not in the order of the names, and one above a leaf
    (1, "n02119789", "kit fox, Vulpes macrotis", "small grey fox"),
    (2, "n02100735", "English setter", "an English breed"),
    (3, "n01440764", "tench", "freshwater dace-like game fish"),
    (1001, "n02085374", "toy dog, toy", "any of several breeds"),
]
fields = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object), ("gloss", object), ("num_children", object),
          ("children", object), ("wordnet_height", object), ("num_train_images", object)]
s = np.zeros((len(synsets), 1), dtype=fields)
for n, (number, wnid, words, gloss) in enumerate(synsets):
    children = np.array([[1.0, 2.0]]) if number > 1000 else np.zeros((0, 0))
    s[n, 0] = (float(number), wnid, words, gloss, float(children.size), children, 0.0, 1300.0)
for name, compressed in [("imagenet_meta", False), ("imagenet_meta_compressed", True)]:
    scipy.io.savemat(f"{name}.mat", {"other": np.arange(3.0), "synsets": s}, do_compression=compressed)
for name in ["imagenet_meta", "imagenet_meta_compressed"]:
    print([(int(x["ILSVRC2012_ID"][0, 0]), str(x["WNID"][0])) for x in scipy.io.loadmat(f"{name}.mat")["synsets"][:, 0]])

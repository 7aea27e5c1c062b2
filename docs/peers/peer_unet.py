#!/usr/bin/env python3
"""Inference with a network that nnU-Net planned, in PyTorch, to be timed beside `voxsaw bench infer`.

    python3 docs/peers/peer_unet.py plans.json --threads 1 --steps 3 --warmup 1
    voxsaw bench infer --network plans.json --threads 1 --steps 3 --warmup 1

Both run one forward pass on a patch of the plan's size, and print a line of JSON: seconds of the median
and of the fastest step, the processor's seconds of the median one. It needs PyTorch and
dynamic_network_architectures, which come with nnU-Net.
"""
import json
import pydoc
import statistics

import torch

import peer


def network(configuration, channels, classes):
    a = configuration["architecture"]
    k = dict(a["arch_kwargs"])
    for name in a["_kw_requires_import"] if "_kw_requires_import" in a else ("conv_op", "norm_op", "dropout_op", "nonlin"):
        k[name] = k[name] and pydoc.locate(k[name])
    return pydoc.locate(a["network_class_name"])(input_channels=channels, num_classes=classes, deep_supervision=False, **k)


def main():
    ap = peer.flags(__doc__)
    ap.add_argument("plans")
    ap.add_argument("--configuration", default="3d_fullres")
    ap.add_argument("--inputs", type=int, default=1)
    ap.add_argument("--classes", type=int, default=2)
    a = ap.parse_args()
    peer.begin(a.threads)
    with open(a.plans) as f:
        configuration = json.load(f)["configurations"][a.configuration]
    net, patch = network(configuration, a.inputs, a.classes).eval(), configuration["patch_size"]
    x = torch.randn(1, a.inputs, *patch)
    with torch.inference_mode():
        times, cpus = peer.timed(lambda: net(x), a.warmup, a.steps)
    peer.line("torch", task="infer", patch=patch, **peer.seconds(times), cpu_s=round(statistics.median(cpus), 5), peak_mib=peer.peak())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the tables of docs/gpu-engine.md from what ptxas found (built/resources.json) and from formulas.

    python3 internal/device/cuda/kernels/table.py           rewrite them
    python3 internal/device/cuda/kernels/table.py --check   fail where they are not up to date

Nothing in them was measured: docs/results/gpu.md has what was. Occupancy is that of a Hopper
multiprocessor (65536 registers, 2048 threads, 32 blocks, 227 KiB of shared memory). The bound of a
layer is the larger of arithmetic over the matrix rate and of bytes over the bandwidth.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
DOC = ROOT / "docs/gpu-engine.md"
H200 = {"bf16": 989e12, "tf32": 494e12, "fp32": 67e12, "bytes": 4.8e12}
# the share of the matrix rate that mma.sync is known to reach on Hopper
MMA_SYNC = 0.63


def launch(name):
    """Threads and bytes of dynamic shared memory of a typical launch."""
    if m := re.fullmatch(r"conv_(\w+)_(\d+)", name):
        return 256, 4 * (128 + int(m[2])) * 80 + 128 * 20
    if m := re.fullmatch(r"convWeights_(\w+)_(\d+)", name):
        n = int(m[2])
        pitch = (lambda e: 2 * e + (0 if 2 * e // 16 % 2 else 16)) if m[1] == "bf16" else (lambda e: 4 * (e + 8))
        return 256, (4 if m[1] == "bf16" else 3) * 32 * (pitch(128) + pitch(n))
    if m := re.fullmatch(r"patches_(\w+)_(\d+)", name):
        return 256, 4 * (128 + int(m[2])) * 80 + 4 * (128 * (int(m[2]) + 4) + 3 * 256)
    if m := re.fullmatch(r"direct(Rows|Spread)_(\d)", name):  # 32 columns, and as adjoint 128
        groups = 1 if m[1] == "Rows" else 4
        return 128, groups * (2048 * int(m[2]) + 4 * 32 + 4)
    if name == "directHead":
        return 128, 512 + 4 * 8 + 4
    if name.startswith("scatterRows"):
        return 256, 4 * 1024
    if name.startswith("pointWeights"):
        return 256, 3 * 128 * (80 + 48 if "bf16" in name else 160 + 96)
    if name == "conv5_16":  # 32^3 patches, 16 channels: 16 rows of 32
        return 512, 2 * ((16 + 4) * 32 + 64) * 48
    if m := re.fullmatch(r"rowsWeights_(\d)", name):  # 16^3: rows of 16 voxels of 16 planes, of dy and of x; a list of them
        return 128 * int(m[1]), (3 + int(m[1]) // 2) * 2 * 16 * (16 * 64 + 16) + 8 * 2 * 16 * 16
    if m := re.fullmatch(r"groupWeights_(\d)", name):  # 16^3: stages of 16 rows of x, twice, and of dy
        k, ring = int(m[1]), {5: 3, 3: 4}[int(m[1])]
        return 128 * ((k + 1) // 2), ring * 16 * 4 * (16 * 2 * (15 + k + (2 if k == 5 else 0)) + (15 + k) * 18)
    if name == "sumWeights":  # 32 channels by 32 taps
        return 256, 4 * 32 * 33
    if name == "oneWeights":
        return 256, 2 * 8 * 8 * 16 * 32 + 2 * 2 * (20 * 12 * 12 + 32)
    if m := re.fullmatch(r"convGroup(\d)_(\d)", name):  # two planes of 2 x 16 x 16, 16 x 16 and 8 x 16 voxels
        k, units = int(m[1]), {4: 2 * (15 + int(m[1])) ** 2, 2: (15 + int(m[1])) ** 2, 1: (7 + int(m[1])) * (15 + int(m[1]))}[int(m[2])]
        units = -(-(units + 6) // 8) * 8 + 2
        return 256, 4 * k * 2 * 2048 + 2 * 4 * units * 16 + 2 * 8 * 32 * 12 + 32 + 8 * units
    if name == "conv5_32x2":
        return 256, 2 * ((16 + 4) * 16 + 64) * 80
    if name == "conv5_32":  # 16^3, 32 channels: 16 rows of 16
        return 512, 2 * ((16 + 4) * 16 + 64) * 80
    if name == "conv5One_bf16":  # two tiles of 8 planes, and moments
        return 256, 2 * 8 * 4 * 868 + 2 * 8 * 16 * 12
    if name.startswith("conv5One"):
        return 256, 4 * (512 * 17 + 3 * 256)
    if name.startswith("matrix"):
        return 256, 4 * 32 * 72 * 4
    if name in ("lossPair_f32", "lossPair_bf16"):
        return 256, 4 * 8 * 8
    if name.startswith("lossSums"):
        return 256, 4 * (256 * 17 + 256)
    if name.startswith("transpose"):
        return 256, 4 * 32 * 33
    if m := re.fullmatch(r"(moments|imageActivate|activateSums|activateSumsAny|imageGrad|sumChannels)_\w+_(\d)", name):
        # so many sums of each thread's channels, then of each thread
        sums = {"moments": 2, "imageActivate": 2, "activateSumsAny": 4, "sumChannels": 1}.get(m[1], 3)
        return 256, 4 * sums * 256 * (int(m[2]) + 1)
    if name in ("normGrad", "sumImages"):
        return 256, 4 * 4 * 256
    if name == "groupGrad":
        return 128, 0
    if name.startswith(("sumSquares", "sumDoubles", "decideStep")):
        return 256, 8 * 256
    if name in ("choiceLoss", "labelLoss", "smoothL1"):
        return 256, 4 * 256
    if name == "normFinishFew":
        return 128, 0
    if name in ("normFinish", "lossFinish", "diceFactors", "columnSums", "columnSumLoss", "columnSumLossGrad"):
        return 128, 4 * 3 * 128
    return 256, 0


def occupancy(registers, threads, shared):
    """Share of a multiprocessor's threads that can be there at once."""
    per_warp = (registers * 32 + 255) // 256 * 256
    blocks = min(65536 // (per_warp * threads // 32), 2048 // threads, 32, (227 << 10) // (shared + 1024) if shared else 32)
    return blocks * threads / 2048


E = 432 * 16**3 * 32  # activations of stage 1, 16 puzzles of 3^3
IMAGE = 2 * 128**3  # voxels of two crops of 128^3, with 9 classes
PARAMETERS = 65_200_000  # of the paper's VNet
FEATURES = 432 * 1024  # of 16 puzzles
PARTS = 432 * 32  # sums of each image and channel, of one chunk
LRN = 256 * 96 * 27**2  # AlexNet's first maps of 256 photographs
ROI = 128 * 36 * 256  # 128 regions, each a ninth of two photographs of 600 x 800, as 6 x 6 of AlexNet's last maps

# Kernel -> (activations that it reads and writes for one of its elements, other bytes, arithmetic), elements
ELEMENTWISE = {
    "activateGradAny": (4, 0, 12, E), "activateGradTiled": (3.125, 0, 13, 432 * 32**3 * 16), "activateGrad": (4, 0, 12, E), "activateSumsAny": (3, 0, 10, E), "activateSums": (3, 0, 10, E),
    "activateAny": (3, 0, 6, E), "activate": (3, 0, 6, E), "imageActivate": (2, 0, 10, 432 * 4**3 * 128), "imageGrad": (3, 0, 22, 432 * 4**3 * 128), "moments": (1, 0, 4, E), "sumChannels": (1, 0, 1, E), "scaleChannels": (2, 0, 1, E),
    "copyChannels": (2, 0, 0, E), "addScaled": (3, 0, 1, E), "tiledGrad": (32, 4, 128, 432 * 32**3), "poolGrad": (2.25, 0, 9, E), "pool": (1.125, 0, 1, E),
    "softmaxGrad": (3, 0, 4, 9 * IMAGE), "softmax": (2, 0, 5, 9 * IMAGE), "lossPairGrad": (4, 4, 20, IMAGE), "lossPair": (2, 4, 20, IMAGE), "lossSums": (1, 4 / 9, 8, 9 * IMAGE), "lossGrad": (2, 4 / 9, 10, 9 * IMAGE), "blend": (1, 8, 4, 9 * 128**3),
    "adamW": (0, 28, 14, PARAMETERS), "sgd": (0, 20, 6, PARAMETERS), "average": (0, 12, 3, PARAMETERS), "sumSquares": (0, 4, 2, PARAMETERS), "sumDoubles": (0, 8, 1, PARAMETERS // 8192),
    "restore": (0, 40, 153, 128**3), "decideStep": (0, 32, 2, 150), "gatherRows": (0, 8, 0, FEATURES), "scatterRows": (0, 8, 1, FEATURES), "meanOfOthers": (0, 8, 27, FEATURES), "pairSumGrad": (0, 4 * 29, 54, FEATURES),
    "pairSum": (0, 12, 1, 27 * FEATURES), "columnSumLossGrad": (0, 8, 8, 432 * 27), "columnSumLoss": (0, 4, 2, 16 * 27), "columnSums": (0, 4, 6, 432 * 27), "diceFactors": (0, 20, 8, 2 * 9),
    "lossFinish": (0, 24, 6, 2 * 9), "normFinish": (0, 20, 12, PARTS), "normFinishFew": (0, 20, 12, PARTS), "normGrad": (0, 7 * 12 + 24, 21 + 20, PARTS), "groupGrad": (0, 16 * 4, 20, 432 * 16), "sumImages": (0, 16, 4, PARTS), "sumTiles": (0, 20, 1, PARTS), "packConv5": (0, 6, 0, 64 * 64 * 125),
    "sumSplits": (0, 4 * 5, 4, FEATURES), "sumWeights": (0, 4 * 5, 4, 64 * 64 * 125),
    # 16 puzzles of 3^3, 256 columns of a token in 4 heads
    "attentionScores": (0, 4 + 19, 128, 16 * 4 * 27**2), "attentionValues": (0, 8 + 2, 54, 16 * 27 * 256), "choiceLossGrad": (0, 12, 12, 432 * 27), "choiceLoss": (0, 8, 12, 432 * 27),
    "lrnParts": (2, 4, 20, LRN), "lrnGrad": (3, 4, 26, LRN), "lrn": (2, 0, 20, LRN),
    "roiLargest": (4, 4, 20, ROI), "roiTake": (2, 4, 0, ROI), "roiGrad": (2.2, 4.8, 64 * 36 / 9, 2 * 38 * 50 * 256),
    "labelLossGrad": (0, 12, 8, 128 * 84), "labelLoss": (0, 8, 10, 128 * 84), "smoothL1Grad": (0, 16, 6, 128 * 84), "smoothL1": (0, 12, 6, 128 * 84),
}


def size_of(name):
    return 2 if "bf16" in name else 4


def cost(name):
    """Arithmetic and bytes of a typical launch, and which unit computes."""
    unit = "tf32" if "tf32" in name else "fp32"
    if name.startswith("matrix"):
        return 2 * FEATURES * 2048, 4 * (432 * 2048 + 2048 * 1024 + FEATURES), unit
    if name.startswith(("transpose", "convert")):
        return 0, E * sum({"f32": 4, "bf16": 2}[t] for t in name.split("_")[1:3]), unit
    if name.startswith("packWeights"):
        return 0, 64 * 64 * 125 * (4 + size_of(name)), unit
    if name.startswith(("patches", "pointWeights")):
        # the head of segmentation, and the first halving of 16 puzzles, forward or as adjoint
        rows, taps, fine, coarse = (432 * 16**3, 8, 16, 32) if name.endswith(("_32", "_64")) else (2 * 128**3, 1, 32, 9)
        sums = 4 * 264 * fine * coarse if name.startswith("pointWeights") else 4 * taps * fine * coarse
        return 2 * rows * taps * fine * coarse, size_of(name) * rows * (taps * fine + coarse) + sums, "bf16" if "bf16" in name else unit
    if name == "packGroup":
        return 0, 64 * 64 * 125 * (4 + 2 * 2), unit
    if m := re.fullmatch(r"convGroup(\d)_\d", name):
        voxels, taps = 432 * 16**3, int(m[1]) ** 3
        return 2 * voxels * 32 * 32 * taps, 2 * voxels * 64 + 2 * 2 * 32 * 32 * taps, "bf16"
    if m := re.fullmatch(r"direct(Rows|Spread)_(\d)|directHead|fewIn_(\d)", name):
        rows, depth, columns = (432 * 16**3, 32 * int(m[2]), 32 if m[1] == "Rows" else 128) if m[1] else (2 * 128**3, int(m[3] or 32), 32 if m[3] else 2)
        return 2 * rows * depth * columns, 2 * rows * (depth + columns) + 2 * depth * columns, "fp32" if m[3] else "bf16"
    if m := re.fullmatch(r"(?:rows|group)Weights_(\d)|oneWeights", name):
        i, o, side = (32, 32, 16) if m[1] else (1, 16, 32)
        voxels, taps = 432 * side**3, int(m[1] or 5) ** 3
        return 2 * voxels * i * o * taps, 2 * voxels * (i + o) + 4 * i * o * taps * (52 if m[1] else 264), "bf16"
    if name.startswith("conv"):
        i, o, side = {"conv5One_bf16": (1, 16, 32), "conv5One_f32": (1, 16, 32), "conv5_16": (16, 16, 32), "conv5_32": (32, 32, 16), "conv5_32x2": (32, 32, 16)}.get(name) or \
            {"16": (16, 16, 32), "32": (32, 32, 16), "64": (64, 64, 8)}[name.rsplit("_", 1)[1]]
        voxels = 432 * side**3
        weights = 4 * i * o * 125 * (264 // -(-i * 125 // 128) if name.startswith("convWeights") and i * 125 < 264 * 128 else 1)
        tensor_cores = "bf16" in name or name.startswith("conv5_")
        return 2 * voxels * i * o * 125, (2 if tensor_cores or "bf16" in name else 4) * voxels * (i + o) + weights, "bf16" if tensor_cores else unit
    moved, other, arithmetic, n = ELEMENTWISE[next(k for k in ELEMENTWISE if name == k or name.startswith(k + "_"))]
    return arithmetic * n, (size_of(name) * moved + other) * n, unit


def kernels():
    found = json.loads((HERE / "built/resources.json").read_text())
    yield "| kernel | registers | threads | shared memory, KiB | occupancy | GFLOP | MiB | bound, ms | bound by |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for name, r in sorted(found.items()):
        threads, shared = launch(name)
        flop, size, unit = cost(name)
        arithmetic, memory = flop / H200[unit], size / H200["bytes"]
        yield (f"| `{name}` | {r['registers']} | {threads} | {shared / 1024:.1f} | {100 * occupancy(r['registers'], threads, shared):.0f} % | "
               f"{flop / 1e9:.3g} | {size / 2**20:.3g} | {1e3 * max(arithmetic, memory):.2g} | {'arithmetic' if arithmetic > memory else 'memory'} |")


# stages of VNet on 432 patches of 32^3 (16 puzzles of 3^3): channels in and out, side, taps, kernel
STAGES = [
    ("first layer, 5^3, 1 to 16", 1, 16, 32, 125, "conv5One_bf16", "bf16"),
    ("stage 1, 5^3, 32 channels at 16^3", 32, 32, 16, 125, "convGroup5_4", "bf16"),
    ("stage 2, 5^3, 64 channels at 8^3", 64, 64, 8, 125, "convGroup5_2", "bf16"),
    ("stage 3, 5^3, 128 channels at 4^3", 128, 128, 4, 125, "convGroup5_2", "bf16"),
    ("stage 4, 5^3, 256 channels at 2^3, where 27 taps reach a voxel", 256, 256, 2, 125, "convGroup3_2", "bf16"),
    ("last decoder stage, 5^3, 32 channels at 128^3, batch 2", 32, 32, 128, 125, "convGroup5_4", "bf16"),
    ("head of segmentation, 1^3, 32 to 9 at 128^3, batch 2", 32, 9, 128, 1, "patches_bf16_16", "bf16"),
]


def live(taps, side):
    """Taps along an axis that reach a voxel: the others are not packed, nor multiplied."""
    return min(taps, 2 * side - 1)


def padding(kernel, out, side):
    """Share of the products that a kernel makes which are of the layer: the rest is padding."""
    if kernel == "conv5_32":
        rows = min(side, 256 // side)
        made = -(-rows * side // 16) * 16
        return rows * side / made
    if kernel == "conv5One_bf16":
        return 125 / 160
    if kernel == "patches_bf16_16":
        return out / (-(-out // 16) * 16)
    return 1


def group_share(kernel):
    """Share of the matrix rate that products of four warps can reach, since they read both matrices from shared memory at 128
    bytes a cycle: of K + 1 planes of x, K - 1 are multiplied for two planes of y, 64 x 64 x 16 in 32 cycles with 4 KiB, and two
    for one, 64 x 32 x 16 in 16 cycles with 3 KiB."""
    k = int(kernel[9])
    return (32 * (k - 1) + 2 * 16) / (32 * (k - 1) + 2 * 24)


def layers():
    yield "| layer, forward | kernel | GFLOP | MiB | bound, ms | bound by | what the kernel's own counts allow, ms |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for what, i, o, side, taps, kernel, unit in STAGES:
        images = 2 if side == 128 else 432
        voxels = images * side**3
        flop, size = 2 * voxels * i * o * live(round(taps ** (1 / 3)), side) ** 3, 2 * voxels * (i + o) + 4 * i * o * taps
        arithmetic, memory = flop / H200[unit], size / H200["bytes"]
        rate = H200[unit] * (group_share(kernel) if kernel.startswith("convGroup") else MMA_SYNC if unit == "bf16" else 0.8) * padding(kernel, o, side)
        yield (f"| {what} | `{kernel}` | {flop / 1e9:.0f} | {size / 2**20:.0f} | {1e3 * max(arithmetic, memory):.2f} | "
               f"{'arithmetic' if arithmetic > memory else 'memory'} | {1e3 * max(flop / rate, memory):.2f} |")


# --- Taps that do not overlap

ISSUED = 132 * 4 * 1.98e9  # instructions of a warp that an H200 can begin in a second
L2 = 50 << 20
# Instructions of the PTX that a thread executes to copy its part of a stage, of 128 rows of a tile and 64
# bytes of each, where rows are copied 16 bytes at a time; and for a single element of the left and the
# right matrix where they are not.
STAGE, ELEMENT = {"general": 170, "own": 110}, {"general": (76, 40), "own": (26, 40)}
# For the gradient of weights: for a piece of x and one of dy; own for 128 voxels, by the bytes of an element.
PIECE, POINTS = (113, 50), {2: 250, 4: 320}


def width_of(columns):
    """Columns of a tile, of which there are the fewest empty ones."""
    return min((64, 32, 16), key=lambda w: -(-columns // w) * w)


def copied(kernel, product, rows, taps, fine, coarse, size):
    """Instructions of a thread for the copies of all tiles of 128 voxels of the coarse tensor."""
    tiles = -(-rows // 128)
    if product == "weights":
        if kernel == "own":
            return tiles * POINTS[size]
        width, rows_of_tile = width_of(coarse), -(-taps * fine // 128)
        times = rows_of_tile * -(-coarse // width)
        pieces = 128 * 128 * size / 16 / 256, 128 * width / 256 / (16 // size if coarse * size % 16 == 0 else 1)
        return tiles * times * sum(n * p for n, p in zip(PIECE, pieces))
    phases = taps if product == "data" and kernel == "general" else 1
    depth, columns = (taps * fine, coarse) if product == "forward" else (coarse, fine if phases > 1 else taps * fine)
    chunk, width = 64 // size, width_of(columns)
    if kernel == "own" and size == 4 and width == 32:  # which has no such tile
        width = 16
    one = STAGE[kernel]
    if depth * size % 16:
        left = 128 * (depth if kernel == "own" else chunk) / 256
        one = sum(n * p for n, p in zip(ELEMENT[kernel], (left, width * chunk / 256)))
    return tiles * phases * -(-columns // width) * -(-depth // chunk) * one


def apart():
    yield "| layer | product | precision | bound, ms | general: MB | ms for these | ms for the copies' instructions | own: MB | ms for these | ms for the copies' instructions |"
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for what, rows, taps, fine, coarse in (("2^3, 16 to 32 at 32^3, 16 puzzles", 432 * 16**3, 8, 16, 32), ("2^3, 16 to 64 at 128^3, batch 2 (the last up-convolution)", 2 * 64**3, 8, 16, 64), ("1^3, 32 to 9 at 128^3, batch 2", 2 * 128**3, 1, 32, 9)):
        for product in ("forward", "data", "weights"):
            for unit in ("bf16", "tf32", "fp32"):
                size = 2 if unit == "bf16" else 4
                flop = 2 * rows * taps * fine * coarse
                read, written = size * rows * coarse, size * rows * taps * fine
                bytes_of = {"general": read + written, "own": read + written}
                if product == "data" and read > L2:  # each phase reads it again, and it is no longer in the cache
                    bytes_of["general"] = taps * read + written
                bound = max(flop / H200[unit], bytes_of["own"] / H200["bytes"])
                cells = []
                for kernel in ("general", "own"):
                    if kernel == "own" and product == "weights" and taps > 1:
                        cells += ["-", "-", "-"]
                    else:
                        cells += [f"{bytes_of[kernel] / 1e6:.0f}", f"{1e3 * bytes_of[kernel] / H200['bytes']:.3f}", f"{1e3 * 8 * copied(kernel, product, rows, taps, fine, coarse, size) / ISSUED:.3f}"]
                yield f"| {what} | {product} | {unit} | {1e3 * bound:.3f} | {' | '.join(cells)} |"


# --- Stages of a step

BANDWIDTH = 0.9  # share of the data sheet's that is taken to be reached


def network(images, side, decoder=None, classes=None):
    """(stage, kind, images, channels in and out, side in and out, taps along an axis) of the paper's VNet."""
    layers, c, s = [("enc0", "conv", 1, 16, side, side, 5)], 16, side
    for level, n in enumerate((2, 3, 3, 3), 1):
        layers.append((f"enc{level}", "down", c, 2 * c, s, s // 2, 2))
        c, s = 2 * c, s // 2
        layers += [(f"enc{level}", "conv", c, c, s, s, 5)] * n
    for level, n in zip((3, 2, 1, 0), decoder or ()):
        skip, s = 16 << level, side >> level
        layers.append((f"dec{level}", "up", c, skip, s // 2, s, 2))
        c = 2 * skip
        layers += [(f"dec{level}", "conv", c, c, s, s, 5)] * n
    if classes:
        layers.append(("head", "head", c, classes, side, side, 1))
    return [(stage, kind, images, *rest) for stage, kind, *rest in layers]


def own_rate(ci, co, side, taps):
    """FLOP/s that the kernel chosen for a layer can reach by its own counts."""
    if ci == 1:
        return H200["bf16"] * MMA_SYNC * padding("conv5One_bf16", co, side)
    if taps == 5:
        return H200["bf16"] * group_share("convGroup5")
    return H200["bf16"] * MMA_SYNC * co / (-(-co // 16) * 16)


def stages(what, layers):
    """Forward, backward and SGD, stage by stage."""
    found = {}
    for n, (stage, kind, images, ci, co, si, so, taps) in enumerate(layers):
        x, y, w = 2 * images * si**3 * ci, 2 * images * so**3 * co, ci * co * taps**3
        flop = 2 * images * (si if kind == "up" else so) ** 3 * ci * co * (live(taps, so) if kind == "conv" else taps) ** 3
        act = 0 if kind == "head" else 1
        # convolution, norm and activation; the gradients of these, of data and of weights; SGD
        products = [(flop, x + 2 * w + y), (flop if n else 0, x + 2 * w + y if n else 0), (flop, x + y + 4 * w)]
        # the norm's statistics are left by the convolution, where its tiles are of one image each
        passes = [act * (2 if kind != "up" and so**3 % 128 == 0 else 3) * y, act * 3 * y, act * 4 * y, 20 * w + 4 * w]
        entry = found.setdefault(stage, [0, 0, 0, 0])
        rate = own_rate(ci, co, so, taps)
        entry[0] += sum(f for f, _ in products)
        entry[1] += sum(b for _, b in products) + sum(passes)
        entry[2] += sum(max(f / H200["bf16"], b / H200["bytes"]) for f, b in products) + sum(passes) / H200["bytes"]
        entry[3] += sum(max(f / rate, b / (BANDWIDTH * H200["bytes"])) for f, b in products) + sum(passes) / (BANDWIDTH * H200["bytes"])
    for stage, (flop, size, bound, own) in found.items():
        yield f"| {what} | {stage} | {flop / 1e12:.3f} | {size / 1e9:.2f} | {1e3 * bound:.2f} | {'arithmetic' if flop / H200['bf16'] > size / H200['bytes'] else 'memory'} | {1e3 * own:.2f} |"
    sums = [sum(v) for v in zip(*found.values())]
    yield f"| {what} | all | {sums[0] / 1e12:.3f} | {sums[1] / 1e9:.2f} | {1e3 * sums[2]:.2f} | | {1e3 * sums[3]:.2f} |"


def step():
    yield "| step | stage | TFLOP | GB | bound, ms | bound by | what the kernels' own counts allow, ms |"
    yield "|---|---|---:|---:|---:|---|---:|"
    yield from stages("16 puzzles of 3^3", network(432, 32))
    yield from stages("segment 128^3, batch 2", network(2, 128, (3, 3, 2, 1), 9))


def plans():
    """How many convolutions of scripts/cudnn/plans.md have a plan, by precision and use."""
    yield "| precision | kernel | use | convolutions | planned for H200 | for A100 | largest workspace on H200, MiB | on A100 |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    found, precision = {}, None
    for line in (ROOT / "scripts/cudnn/plans.md").read_text().splitlines():
        if line.startswith("## "):
            precision = line[3:]
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 7 or cells[0] in ("convolution", "---"):
            continue
        of = found.setdefault((precision, cells[1], cells[2]), [])
        of.append([max(map(float, w.split(","))) if "none" not in engine else None for engine, w in (cells[3:5], cells[5:7])])
    for key, rows in found.items():
        planned = [[w for w in column if w is not None] for column in zip(*rows)]
        counts = " | ".join(str(len(column)) for column in planned)
        largest = " | ".join(f"{max(column):.0f}" if column else "-" for column in planned)
        yield f"| {' | '.join(key)} | {len(rows)} | {counts} | {largest} |"


def main():
    text = DOC.read_text()
    new = text
    for name, lines in (("kernels", kernels()), ("layers", layers()), ("apart", apart()), ("step", step()), ("cudnn", plans())):
        pattern = re.compile(f"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
        if not pattern.search(new):
            sys.exit(f"table.py: {DOC} has no table {name}")
        table = "\n".join(lines)
        new = pattern.sub(lambda m: m[1] + table + "\n" + m[2], new)
    if sys.argv[1:] == ["--check"]:
        if new != text:
            sys.exit("table.py: docs/gpu-engine.md is not what the kernels give: run table.py and commit it")
    else:
        DOC.write_text(new)


main()

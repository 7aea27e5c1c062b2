#!/usr/bin/env python3
"""Writes the tables of docs/gpu.md from what ptxas found (built/resources.json) and from formulas.

    python3 internal/device/cuda/kernels/table.py           rewrite them
    python3 internal/device/cuda/kernels/table.py --check   fail where they are not up to date

Nothing in them was measured: no GPU has run these kernels. Occupancy is that of a Hopper
multiprocessor (65536 registers, 2048 threads, 32 blocks, 227 KiB of shared memory). The bound of a
layer is the larger of arithmetic over the matrix rate and of bytes over the bandwidth.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOC = HERE.parents[3] / "docs/gpu.md"
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
        return 256, 3 * 32 * (pitch(128) + pitch(n))
    if name == "conv5_16":  # 32^3 patches, 16 channels: 16 rows of 32
        return 512, 2 * ((16 + 4) * 32 + 64) * 48
    if name == "conv5_32":  # 16^3, 32 channels: 16 rows of 16
        return 512, 2 * ((16 + 4) * 16 + 64) * 80
    if name.startswith("conv5One"):
        return 256, 4 * (512 * 17 + 2 * 256)
    if name.startswith("matrix"):
        return 256, 2 * 16 * 72 * 4
    if name.startswith("lossSums"):
        return 256, 4 * (256 * 17 + 256)
    if name.startswith("transpose"):
        return 256, 4 * 32 * 33
    if name.startswith(("moments", "activateSums", "sumChannels")):
        return 256, 8 * 256 * int(name.rsplit("_", 1)[1])
    if name.startswith(("sumSquares", "sumDoubles")):
        return 256, 8 * 256
    if name in ("normFinish", "normGrad", "lossFinish", "diceFactors", "columnSums", "columnSumLoss", "columnSumLossGrad"):
        return 128, 4 * 3 * 128
    return 256, 0


def occupancy(registers, threads, shared):
    """Share of a multiprocessor's threads that can be there at once."""
    per_warp = (registers * 32 + 255) // 256 * 256
    blocks = min(65536 // (per_warp * threads // 32), 2048 // threads, 32, (227 << 10) // (shared + 1024) if shared else 32)
    return blocks * threads / 2048


def kernels():
    found = json.loads((HERE / "built/resources.json").read_text())
    yield "| kernel | registers | threads | shared memory, KiB | occupancy |"
    yield "|---|---:|---:|---:|---:|"
    for name, r in sorted(found.items()):
        threads, shared = launch(name)
        yield f"| `{name}` | {r['registers']} | {threads} | {shared / 1024:.1f} | {100 * occupancy(r['registers'], threads, shared):.0f} % |"


# stages of VNet on 432 patches of 32^3 (16 puzzles of 3^3): channels in and out, side, taps, kernel
STAGES = [
    ("first layer, 5^3, 1 to 16", 1, 16, 32, 125, "conv5One_bf16", "fp32"),
    ("stage 1, 5^3, 32 channels at 16^3", 32, 32, 16, 125, "conv5_32", "bf16"),
    ("stage 2, 5^3, 64 channels at 8^3", 64, 64, 8, 125, "conv5_32", "bf16"),
    ("stage 3, 5^3, 128 channels at 4^3", 128, 128, 4, 125, "conv_bf16_64", "bf16"),
    ("stage 4, 5^3, 256 channels at 2^3", 256, 256, 2, 125, "conv_bf16_64", "bf16"),
    ("last decoder stage, 5^3, 32 channels at 128^3, batch 2", 32, 32, 128, 125, "conv5_32", "bf16"),
    ("head of segmentation, 1^3, 32 to 9 at 128^3, batch 2", 32, 9, 128, 1, "conv_bf16_16", "bf16"),
]


def padding(kernel, out, side):
    """Share of the products that a kernel makes which are of the layer: the rest is padding."""
    if kernel == "conv5_32":
        rows = min(side, 256 // side)
        made = -(-rows * side // 16) * 16
        return rows * side / made
    if kernel == "conv_bf16_16":
        return out / (-(-out // 16) * 16)
    return 1


def layers():
    yield "| layer, forward | kernel | GFLOP | MiB | bound, ms | bound by | what the kernel's own counts allow, ms |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for what, i, o, side, taps, kernel, unit in STAGES:
        images = 2 if side == 128 else 432
        voxels = images * side**3
        flop, size = 2 * voxels * i * o * taps, 2 * voxels * (i + o) + 4 * i * o * taps
        arithmetic, memory = flop / H200[unit], size / H200["bytes"]
        rate = H200[unit] * (MMA_SYNC if unit == "bf16" else 0.8) * padding(kernel, o, side)
        yield (f"| {what} | `{kernel}` | {flop / 1e9:.0f} | {size / 2**20:.0f} | {1e3 * max(arithmetic, memory):.2f} | "
               f"{'arithmetic' if arithmetic > memory else 'memory'} | {1e3 * max(flop / rate, memory):.2f} |")


def main():
    text = DOC.read_text()
    new = text
    for name, lines in (("kernels", kernels()), ("layers", layers())):
        pattern = re.compile(f"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
        if not pattern.search(new):
            sys.exit(f"table.py: {DOC} has no table {name}")
        table = "\n".join(lines)
        new = pattern.sub(lambda m: m[1] + table + "\n" + m[2], new)
    if sys.argv[1:] == ["--check"]:
        if new != text:
            sys.exit("table.py: docs/gpu.md is not what the kernels give: run table.py and commit it")
    else:
        DOC.write_text(new)


main()

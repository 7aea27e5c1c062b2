#!/usr/bin/env python3
"""Which engines of cuDNN 9 would make a network's convolutions, and with how much memory: without a GPU.

    pip install nvidia-cudnn-cu12==9.28.0.42 nvidia-cudnn-frontend==1.16.0 nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12
    python3 scripts/cudnn/plans.py           the table of docs/gpu.md
    python3 scripts/cudnn/plans.py --write   writes scripts/cudnn/plans.md, from which docs/gpu.md has it

A part of cuDNN is linked with libcuda.so.1: where there is no driver, that of Debian's package libcuda1
does, on LD_LIBRARY_PATH. Later frontends ask for a device even where its properties are given.

cuDNN plans for the properties of a device instead of for a device: h200.json and a100.json were written
by hand from the data sheets. A graph that no engine of the heuristics serves, or that does not build,
ends the program with 1. The graphs are those that would stand beside the kernels of our own: all in
bfloat16 with sums in float32, channels innermost.

    forward      as frameworks have it
    by data      the forward pass as a data gradient with flipped, exchanged weights
    data         the data gradient
    weights      the weight gradient
    slice        one of five 1x5x5 slices of it
"""
import argparse
import ctypes
import pathlib
import re
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ["cuda_runtime/lib/libcudart.so.12", "cuda_nvrtc/lib/libnvrtc.so.12", "cublas/lib/libcublasLt.so.12", "cublas/lib/libcublas.so.12", "cudnn/lib/libcudnn.so.9"]

# name, images, channels in and out, side, taps, stride
LAYERS = [
    ("16 puzzles of 3^3: first layer", 432, 1, 16, 32, 5, 1), ("stage 1", 432, 32, 32, 16, 5, 1), ("stage 2", 432, 64, 64, 8, 5, 1), ("stage 3", 432, 128, 128, 4, 5, 1),
    ("stage 4", 432, 256, 256, 2, 5, 1), ("down, 16 to 32", 432, 16, 32, 32, 2, 2), ("segment 128^3, batch 2: last stage", 2, 32, 32, 128, 5, 1), ("third stage", 2, 64, 64, 64, 5, 1),
]


def load():
    folder = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    for library in LIBRARIES:
        try:
            ctypes.CDLL(str(folder / library), mode=ctypes.RTLD_GLOBAL)
        except OSError as e:
            sys.exit(f"plans.py: {e}: install the packages that its first lines name")


def strides(shape):
    """Of (N, C, D, H, W) with channels innermost."""
    n, c, d, h, w = shape
    return [c * d * h * w, 1, h * w * c, w * c, c]


def plan(cudnn, device, kind, images, ci, co, side, taps, stride):
    """The engine that the heuristics prefer of those that build, and its workspace in MiB."""
    bf16, fp32 = cudnn.data_type.BFLOAT16, cudnn.data_type.FLOAT
    g = cudnn.pygraph(io_data_type=bf16, intermediate_data_type=fp32, compute_data_type=fp32, device_property=device)
    pad, out, kernel = (taps // 2 if stride == 1 else 0), side // stride, [taps] * 3
    pads = [pad] * 3
    if kind == "by data":
        ci, co = co, ci
    if kind == "slice":
        kernel, pads = [1, taps, taps], [0, pad, pad]
    x, y, w = [images, ci, *[side] * 3], [images, co, *[out] * 3], [co, ci, *kernel]
    ws = strides(w)

    def tensor(name, shape):
        return g.tensor(name=name, dim=shape, stride=strides(shape), data_type=bf16)

    options = {"pre_padding": pads, "post_padding": pads, "stride": [stride] * 3, "dilation": [1] * 3}
    if kind == "forward":
        o, shape = g.conv_fprop(image=tensor("x", x), weight=tensor("w", w), **options), y
    elif kind in ("data", "by data"):
        o, shape = g.conv_dgrad(loss=tensor("y", y), filter=tensor("w", w), **options), x
    else:
        o, shape = g.conv_wgrad(image=tensor("x", x), loss=tensor("y", y), **options), w
    o.set_output(True).set_dim(shape).set_stride(ws if shape is w else strides(shape)).set_data_type(bf16)
    g.validate()
    g.build_operation_graph()
    g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    error = "no engine"
    for i in range(g.get_execution_plan_count()):
        try:
            g.build_plan_at_index(i)
        except Exception as e:  # the next one then
            error = e
            continue
        return g.get_plan_name_at_index(i), g.get_workspace_size_plan_at_index(i) / 2**20
    raise RuntimeError(error)


def kinds(ci, taps, stride):
    yield "forward"
    if stride == 1:
        yield "by data"
    if ci > 1:  # nobody needs the image's gradient
        yield "data"
    yield "weights"
    if taps == 5:
        yield "slice"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--write", action="store_true")
    a = a.parse_args()
    load()
    import cudnn
    devices = {name: cudnn.create_device_properties((HERE / f"{name}.json").read_text()) for name in ("h200", "a100")}
    rows, failed = [f"cuDNN {cudnn.backend_version()}, planned without a device.", "", "| layer | pass | H200: engine | workspace, MiB | A100: engine | workspace, MiB |", "|---|---|---|---:|---|---:|"], False
    for name, images, ci, co, side, taps, stride in LAYERS:
        for kind in kinds(ci, taps, stride):
            cells = []
            for device in devices.values():
                try:
                    engine, workspace = plan(cudnn, device, kind, images, ci, co, side, taps, stride)
                    cells += [f"`{engine}`", f"{workspace:.1f}"]
                except Exception as e:  # the frontend raises what it likes
                    cells += [re.sub(r"\s+", " ", str(e)).replace("|", "/")[:160], "-"]
                    failed = True
            rows.append(f"| {name}, {ci} to {co} | {kind} | " + " | ".join(cells) + " |")
            print(rows[-1], file=sys.stderr, flush=True)
    text = "\n".join(rows) + "\n"
    if a.write:
        (HERE / "plans.md").write_text(text)
    else:
        print(text, end="")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

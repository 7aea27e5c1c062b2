#!/usr/bin/env python3
"""Networks that nnU-Net plans: PyTorch, ONNX Runtime and `voxsaw bench`, in turns, in inference or a training step.

    pip install nnunetv2==2.8.1 onnx onnxruntime onnxscript
    go build -o voxsaw ./cmd/voxsaw
    sudo chrt -r 1 python3 docs/peers/peer_unet.py plain resenc thick --voxsaw ./voxsaw --turns 3 --core 0
    sudo chrt -r 1 python3 docs/peers/peer_unet.py plain resenc thick --voxsaw ./voxsaw --turns 2 --core 0 --train

plain is nnU-Net's default PlainConvUNet (6 stages, 32 to 320 channels, a patch of 128^3), resenc its ResEncM, thick the
first with two stages of 1x3x3 kernels and strides of 1x2x2 for a patch of 32x192x160; or a plans.json. Each run is a process
of its own, on one core for which others wait, that makes a step on a patch of the plan's size to warm up, and then
times others. A step is a forward pass, or with --train that of one patch with deep supervision, cross-entropy and soft Dice at
each resolution but the lowest, gradients and SGD with momentum, without augmentation and without ONNX Runtime. This has the
network that PyTorch exports. bf16 is PyTorch with autocast and channels last, which is fast on processors with AMX (amx_bf16
in /proc/cpuinfo); the others compute in fp32. --sides leaves some out. A line of JSON for each run: seconds of the median and of the fastest step. At the end, how many
times as long the others take, the median of the turns.
"""
import json
import os
import pydoc
import statistics
import subprocess
import sys
import tempfile

import peer
import peer_plans

WHO = ("torch", "bf16", "onnxruntime", "voxsaw")


def plans(name):
    if name.endswith(".json"):
        with open(name) as f:
            return json.load(f)
    return peer_plans.plans(name)


def network(configuration, channels, classes, supervision=False):
    a = configuration["architecture"]
    k = dict(a["arch_kwargs"])
    for name in a["_kw_requires_import"] if "_kw_requires_import" in a else ("conv_op", "norm_op", "dropout_op", "nonlin"):
        k[name] = k[name] and pydoc.locate(k[name])
    return pydoc.locate(a["network_class_name"])(input_channels=channels, num_classes=classes, deep_supervision=supervision, **k)


def exported(net, x, threads):
    """One forward pass of the network that is exported, by ONNX Runtime."""
    import onnxruntime
    import torch
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.onnx")
        torch.onnx.export(net, (x,), path, input_names=["x"], dynamo=True)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    want, got = net(x).numpy(), session.run(None, {"x": x.numpy()})[0]
    if abs(want - got).max() > 1e-3 * abs(want).max():
        raise SystemExit("the exported network computes something else")
    return lambda: session.run(None, {"x": x.numpy()})


def learning(net, x, classes):
    """One step of training: deep supervision with weights that halve, nothing of the lowest resolution, as nnU-Net's trainer."""
    import torch
    from torch.nn import functional as F
    with torch.no_grad():
        targets = [torch.randint(0, classes, (1, *o.shape[2:])) for o in net(x)[:-1]]

    def loss():
        total = 0
        for n, (o, y) in enumerate(zip(net(x), targets)):
            p, t = o.softmax(1)[:, 1:], F.one_hot(y, classes).movedim(-1, 1)[:, 1:].float()
            dice = 2 * (p * t).sum((2, 3, 4)) / (p.sum((2, 3, 4)) + t.sum((2, 3, 4))).clamp_min(1e-8)
            total = total + 0.5 ** n * (F.cross_entropy(o, y) - dice.mean())
        return total
    return peer.training(net, loss)


def one(a):
    """Times one side of one network."""
    import torch
    peer.begin(a.threads)
    configuration = plans(a.networks[0])["configurations"][a.configuration]
    net, patch = network(configuration, a.inputs, a.classes, a.train), configuration["patch_size"]
    x = torch.randn(1, a.inputs, *patch)
    if a.only == "bf16":
        net, x = net.to(memory_format=torch.channels_last_3d), x.to(memory_format=torch.channels_last_3d)
    with torch.autocast("cpu", torch.bfloat16, enabled=a.only == "bf16"):
        if a.train:
            times, _ = peer.timed(learning(net, x, a.classes), a.warmup, a.steps)
        else:
            net.eval()
            with torch.inference_mode():
                step = exported(net, x, a.threads) if a.only == "onnxruntime" else lambda: net(x)
                times, _ = peer.timed(step, a.warmup, a.steps)
    peer.line(a.only, task="segment" if a.train else "infer", patch=patch, **peer.seconds(times), peak_mib=peer.peak())


def main():
    ap = peer.flags(__doc__, steps=1, warmup=1, threads=1)
    ap.add_argument("networks", nargs="+")
    ap.add_argument("--voxsaw", default="voxsaw")
    ap.add_argument("--turns", type=int, default=2)
    ap.add_argument("--core", default="0")
    ap.add_argument("--only", choices=WHO[:-1], help="time this side of one network, in this process")
    ap.add_argument("--configuration", default="3d_fullres")
    ap.add_argument("--inputs", type=int, default=1)
    ap.add_argument("--classes", type=int, default=2)
    ap.add_argument("--train", action="store_true", help="time steps of training")
    ap.add_argument("--sides", default=",".join(WHO), help="those that take turns, voxsaw the last")
    a = ap.parse_args()
    if a.only:
        return one(a)
    sides = [who for who in a.sides.split(",") if not (a.train and who == "onnxruntime")]
    if sides[-1:] != ["voxsaw"] or not set(sides) <= set(WHO):
        ap.error(f"--sides: some of {', '.join(WHO)}, and voxsaw at the end")
    timing = [f"--threads={a.threads}", f"--steps={a.steps}", f"--warmup={a.warmup}"]
    for name in a.networks:
        took = {who: [] for who in sides}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plans.json")
            with open(path, "w") as f:
                json.dump(plans(name), f)
            for _ in range(a.turns):
                for who in sides:
                    command = [sys.executable, __file__, path, "--only", who, "--inputs", str(a.inputs), "--classes", str(a.classes)]
                    if a.train:
                        command.append("--train")
                    if who == "voxsaw":
                        command = [a.voxsaw, "bench", "segment" if a.train else "infer", "--network", path]
                    done = subprocess.run(["taskset", "-c", a.core, *command, *timing], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
                    line = json.loads(done.stdout.splitlines()[-1])
                    took[who].append(line["median_s"])
                    print(json.dumps({"network": name, **line}), flush=True)
        for who in sides[:-1]:
            ratio = [other / own for other, own in zip(took[who], took["voxsaw"])]
            print(f"{name}: {who} takes {statistics.median(ratio):.2f} times as long ({min(ratio):.2f} to {max(ratio):.2f})", flush=True)


if __name__ == "__main__":
    main()

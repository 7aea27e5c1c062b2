#!/usr/bin/env python3
r"""Measures what docs/benchmarks.md reports, and prints its tables.

    python3 docs/benchmarks.py --voxsaw ./voxsaw [--scan scan.nii] [--prefix "chrt -r 1"] \
        [--photos FOLDER] [reach avx2 cores crops batches direct predict decode]

Both sides of a row run one after the other, on the same cores: the peer (docs/peers/peer_vnet.py,
which takes the flags of `voxsaw bench` and prints the same line of JSON), then voxsaw. With
--rounds 3 they take turns three times and the median counts. The prefix goes before every command:
chrt needs the right to real-time priority, and keeps other work on the machine from disturbing.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
CASES = [
    ("segment --crop 96", 3, 1), ("segment --crop 64", 5, 1), ("pretrain --grid 3", 5, 1), ("pretrain --grid 2", 5, 1), ("infer --crop 96", 5, 1),
]  # and how many steps are timed, after how many
LIMITS = {"segment --crop 96": (6, 0.6), "segment --crop 64": (6, 0.6), "pretrain --grid 3": (4, 0.7), "pretrain --grid 2": (5, 0.7), "infer --crop 96": (7, 0.6)}
AVX2 = {"VOXSAW_CPU": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


class Bench:
    def __init__(self, a):
        self.a = a

    def run(self, command, env={}):
        command = shlex.split(self.a.prefix) + command
        print("#", " ".join([f"{k}={v}" for k, v in env.items()] + command), file=sys.stderr, flush=True)
        done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.stderr.strip()[-400:] or f"exit code {done.returncode}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def ours(self, case, *more, env={}, cores=None):
        return self.run((["taskset", "-c", cores] if cores else []) + [self.a.voxsaw, "bench", *case.split(), *more], env)

    def peer(self, case, *more, env={}, cores=None):
        return self.run((["taskset", "-c", cores] if cores else []) + [self.a.python, self.a.peer, *case.split(), *more], env)

    def both(self, case, *more, env={}):
        """Medians over the rounds: seconds and MiB of the peer, then of voxsaw."""
        lines = [[], []]
        for _ in range(self.a.rounds):
            for side, of in zip((self.peer, self.ours), lines):
                of.append(side(case, *more, env=env))
        median = lambda side, key: statistics.median(line[key] for line in lines[side])
        return median(0, "median_s"), median(0, "peak_mib"), median(1, "median_s"), median(1, "peak_mib"), median(1, "plan_mib"), median(1, "gflops")


def table(title, header, rows):
    print(f"\n### {title}\n\n| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |", flush=True)


def flags(b, steps, warmup, norm):
    return ["--norm", norm, "--threads", str(b.a.threads), "--steps", str(steps), "--warmup", str(warmup)]


def reach(b, env={}, title="A step, beside PyTorch"):
    rows = []
    for case, steps, warmup in CASES:
        for norm in b.a.norms.split(","):
            t0, m0, t1, m1, plan, rate = b.both(case, *flags(b, min(steps, b.a.steps), warmup, norm), env=env)
            least, most = (3, "") if env else LIMITS[case]
            rows.append([f"`{case}`", norm, f"{t0:.2f}", f"{t1:.3f}", f"**{t0 / t1:.1f}**", least, f"{m0:.0f}", f"{m1:.0f}", f"**{m1 / m0:.2f}**", most, f"{plan:.0f}", f"{rate:.0f}"])
    table(title, ["case", "norm", "PyTorch, s", "Voxsaw, s", "times as fast", "floor", "PyTorch, MiB", "Voxsaw, MiB", "share", "ceiling", "of which planned", "GFLOP/s direct"], rows)


def avx2(b):
    reach(b, AVX2, "With AVX2 only, on both sides")


def cores(b):
    rows = []
    for case, steps, warmup in CASES:
        one = b.ours(case, "--norm", "instance", "--threads", "1", "--steps", str(steps), "--warmup", str(warmup), cores=b.a.core)
        two = b.ours(case, *flags(b, steps, warmup, "instance"))
        p1 = b.peer(case, "--norm", "instance", "--threads", "1", "--steps", "2", "--warmup", "1", cores=b.a.core) if b.a.peer_cores else None
        p2 = b.peer(case, *flags(b, 2, 1, "instance")) if b.a.peer_cores else None
        share = lambda one, two: f"{100 * b.a.threads * two['median_s'] / one['median_s']:.0f} %" if one and two else ""
        rows.append([f"`{case}`", f"{one['median_s']:.3f}", f"{two['median_s']:.3f}", f"{one['median_s'] / two['median_s']:.2f}", share(one, two), share(p1, p2)])
    table(f"One core and {b.a.threads}", ["case", "one core, s", f"{b.a.threads} cores, s", "speed-up", "one core's speed as a share of its part of all", "PyTorch's"], rows)


def crops(b):
    rows = []
    for crop in (48, 64, 80, 96, 112, 128, 144, 160):
        line = b.ours(f"segment --crop {crop}", *flags(b, 3, 1, "instance"))
        rows.append([f"{crop}^3", f"{line['median_s']:.3f}", f"{crop ** 3 / line['median_s'] / 1e6:.2f}", f"{line['gflops']:.0f}", line["plan_mib"], line["peak_mib"]])
    table("A training step by the side of the crop", ["crop", "s", "million voxels a second", "GFLOP/s direct", "planned, MiB", "peak, MiB"], rows)


def batches(b):
    rows = []
    for batch in (1, 2, 4, 8):
        ours, infer = (b.ours(f"{task} --batch {batch}", *flags(b, 3, 1, "instance")) for task in ("segment --crop 64", "infer --crop 64"))
        rows.append([batch, f"{ours['median_s'] / batch:.3f}", f"{ours['gflops']:.0f}", ours["peak_mib"], f"{infer['median_s'] / batch:.3f}", infer["peak_mib"]])
    table("By the batch, crops of 64^3", ["batch", "training, s a crop", "GFLOP/s direct", "peak, MiB", "inference, s a crop", "peak, MiB"], rows)


def direct(b):
    rows = []
    for case, steps, warmup in CASES:
        auto, plain = (b.ours(case, *flags(b, 2, 1, "instance"), "--conv", conv) for conv in ("auto", "direct"))
        rows.append([f"`{case}`", f"{plain['median_s']:.3f}", f"{auto['median_s']:.3f}", f"{plain['median_s'] / auto['median_s']:.1f}"])
    table("Direct convolutions, and those that are chosen", ["case", "`--conv direct`, s", "`--conv auto`, s", "times as fast"], rows)


def predict(b):
    if not b.a.scan:
        return print("predict: needs --scan", file=sys.stderr)
    window = os.path.join(PEERS, "peer_window.py")
    rows = []
    for norm in b.a.norms.split(","):
        peer = b.run([b.a.python, window, b.a.peer, b.a.scan, "--norm", norm, "--threads", str(b.a.threads), "--windows", str(b.a.peer_windows)])
        for batch in (1, 4):
            ours = b.run([b.a.voxsaw, "bench", "predict", b.a.scan, "--norm", norm, "--threads", str(b.a.threads), "--batch", str(batch), "--windows", str(b.a.windows)])
            rows.append([norm, batch, ours["windows"], f"{peer['voxels_s']:.0f} ({peer['timed_windows']})", f"{ours['voxels_s']:.0f} ({ours['timed_windows']})", f"**{ours['voxels_s'] / peer['voxels_s']:.1f}**", peer["peak_mib"], ours["peak_mib"]])
    table("A whole CT in windows", ["norm", "batch", "windows", "PyTorch, voxels a second (windows timed)", "Voxsaw", "times as fast", "PyTorch, MiB", "Voxsaw, MiB"], rows)


def decode(b):
    if not b.a.photos:
        return print("decode: needs --photos", file=sys.stderr)
    sides = {"Pillow": [b.a.python, os.path.join(PEERS, "peer_photos.py"), b.a.photos], "Voxsaw": [b.a.voxsaw, "bench", "photos", b.a.photos]}
    if b.a.torchvision:
        sides["torchvision"] = [*sides["Pillow"], "--with", "torchvision"]
    lines = {name: [] for name in sides}
    for _ in range(b.a.rounds):
        for name, command in sides.items():
            lines[name].append(b.run(command))
    least = {name: min(line["min_s"] for line in of) for name, of in lines.items()}
    ours = lines["Voxsaw"][0]
    rows = [[name, f"{1e3 * s:.2f}", f"**{s / least['Voxsaw']:.1f}**"] for name, s in least.items()]
    table(f"{ours['photos']} photographs of {ours['pixels']} pixels and {ours['kib']} KiB, to 255 x 255, on one thread", ["", "ms each", "Voxsaw is as many times as fast"], rows)


def main():
    sections = {f.__name__: f for f in (reach, avx2, cores, crops, batches, direct, predict, decode)}
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sections", nargs="*", help="which tables; all if none is named")
    ap.add_argument("--voxsaw", default="voxsaw")
    ap.add_argument("--peer", default=os.path.join(PEERS, "peer_vnet.py"), help="the same steps in PyTorch")
    ap.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    ap.add_argument("--scan", help="a CT for predict")
    ap.add_argument("--photos", help="a folder of photographs for decode")
    ap.add_argument("--torchvision", action="store_true", help="decode: beside torchvision, too")
    ap.add_argument("--windows", type=int, default=0, help="predict: windows that voxsaw runs; 0: all")
    ap.add_argument("--peer-windows", type=int, default=10, help="predict: windows that PyTorch runs")
    ap.add_argument("--peer-cores", action="store_true", help="cores: PyTorch, too")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--core", default="0", help="cores: the one that is used alone")
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--norms", default="none,instance")
    ap.add_argument("--steps", type=int, default=5, help="timed steps, at most")
    ap.add_argument("--prefix", default="")
    a = ap.parse_args()
    unknown = set(a.sections) - set(sections)
    if unknown:
        ap.error(f"no such tables: {', '.join(unknown)}")
    for name, section in sections.items():
        if not a.sections or name in a.sections:
            section(Bench(a))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
r"""Measures what docs/benchmarks.md reports, and prints its tables.

    python3 docs/benchmarks.py --voxsaw ./voxsaw [--scan scan.nii] [--prefix "chrt -r 1"] \
        [--photos FOLDER] [reach avx2 cores crops batches direct predict photos decode ranks scale]

Both sides of a row run one after the other, on the same cores: the peer (docs/peers/peer_vnet.py,
which takes the flags of `voxsaw bench` and prints the same line of JSON), then voxsaw. With
--rounds 3 they take turns three times and the median counts. The prefix goes before every command:
chrt needs the right to real-time priority, and keeps other work on the machine from disturbing.

photos times steps of puzzles on photographs beside PyTorch in each of its ways to run, and stops
after --minutes: `python3 docs/benchmarks.py --voxsaw ./voxsaw --photos imagenette photos decode`.

ranks trains with two ranks of one thread, and with one process of two threads, beside PyTorch's
DistributedDataParallel with gloo; scale measures what scripts/scale takes its constants from. Both
need a voxsaw of the tag mpi and an mpirun, and run only where they are named:
`python3 docs/benchmarks.py --voxsaw ./voxsaw --rounds 3 ranks`.
"""
import argparse
import json
import os
import random
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
CASES = [
    ("segment --crop 96", 3, 1), ("segment --crop 64", 5, 1), ("pretrain --grid 3", 5, 1), ("pretrain --grid 2", 5, 1), ("infer --crop 96", 5, 1),
]  # and how many steps are timed, after how many
LIMITS = {"segment --crop 96": (5.5, 0.6), "segment --crop 64": (4, 0.6), "pretrain --grid 3": (4, 0.7), "pretrain --grid 2": (4, 0.7), "infer --crop 96": (5, 0.6)}
AVX2 = {"VOXSAW_CPU": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


# Steps of 8 puzzles of 3x3 patches of 64x64 pixels: how many times as fast as the best of PyTorch in
# fp32 Voxsaw is to be at least, what the goal is, and the most memory beside it.
PHOTOS = {"resnet18": (1.8, 2.2, 0.4), "alexnet": (1.5, 1.8, 0.4), "resnet50": (1.2, 1.4, 0.6)}
WAYS = {
    "PyTorch": [], "PyTorch, channels last": ["--channels-last"], "PyTorch, compiled": ["--channels-last", "--compile"],
    "PyTorch, bf16": ["--channels-last", "--amp", "bf16"],
}


class Failed(Exception):
    """A command that did not end well, and why."""


class Bench:
    def __init__(self, a):
        self.a = a

    def attempt(self, command, env={}, limit=None):
        command = shlex.split(self.a.prefix) + command
        print("#", " ".join([f"{k}={v}" for k, v in env.items()] + command), file=sys.stderr, flush=True)
        try:
            done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"no step within {limit:.0f} s")
        if done.returncode:
            raise Failed(done.stderr.strip()[-400:] or f"exit code {done.returncode}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def run(self, command, env={}):
        try:
            return self.attempt(command, env)
        except Failed as e:
            sys.exit(str(e))

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


def photos(b):
    end = time.monotonic() + 60 * b.a.minutes
    kinds = ["resnet18"] if b.a.quick else list(PHOTOS)
    rows, promises, solving = [], [], []
    for i, kind in enumerate(kinds):
        lines, why = sides(b, kind, time.monotonic() + (end - time.monotonic()) / (len(kinds) - i))
        median = lambda name, key: statistics.median(line[key] for line in lines[name])
        ours = median("Voxsaw", "median_s")
        for name in ["Voxsaw", *WAYS]:
            if name in lines:
                s = median(name, "median_s")
                steps = sum(line.get("steps", b.a.steps) for line in lines[name])
                few = "" if b.a.quick or steps >= b.a.steps else f" ({steps} steps within the limit)"
                rows.append([kind, name + few, f"{s:.3f}", f"{median(name, 'cpu_s'):.2f}", "" if name == "Voxsaw" else f"{s / ours:.2f}", f"{median(name, 'peak_mib'):.0f}"])
            elif name in why:
                rows.append([kind, name, why[name], "", "", ""])
        peers = [name for name in WAYS if name in lines and "bf16" not in name]
        if peers:
            best = min(peers, key=lambda name: median(name, "median_s"))
            least, goal, most = PHOTOS[kind]
            share = median("Voxsaw", "peak_mib") / min(median(name, "peak_mib") for name in peers)
            promises.append([kind, best, f"**{median(best, 'median_s') / ours:.2f}**", least, goal, f"**{share:.2f}**", most])
        solve = median("Voxsaw", "solve_s")
        solving.append([kind, f"{1e3 * solve:.3f}", f"**{100 * solve / ours:.3f} %**", "1 %"])
    what = "1 puzzle on photographs, one step: no measurement" if b.a.quick else "8 puzzles on photographs: 72 patches of 64x64"
    table(f"A step of {what}", ["network", "", "s a step", "CPU s a step", "Voxsaw is as many times as fast", "MiB"], rows)
    table("Beside the best of PyTorch in fp32", ["network", "best", "times as fast", "at least", "goal", "share of the least memory", "at most"], promises)
    table("Solving the puzzles of a step with binary terms, 3x3, distance 3", ["network", "ms", "of a step", "at most"], solving)


def sides(b, kind, until):
    """Lines of Voxsaw and of each way to run PyTorch, which take turns until the time is up, and why some have none."""
    count = ["--batch", "1", "--steps", "1", "--warmup", "0"] if b.a.quick else ["--steps", str(b.a.steps), "--warmup", "2"]
    flags = ["--backbone", kind, "--threads", str(b.a.threads), *count]
    peer = [b.a.python, os.path.join(PEERS, "peer_puzzle2d.py"), *flags]
    commands = {name: [*peer, *way] for name, way in WAYS.items() if not b.a.quick or not way}
    commands["Voxsaw"] = [b.a.voxsaw, "bench", "2d", *flags]
    lines, why, took = {}, {}, {}
    for _ in range(1 if b.a.quick else max(2, b.a.rounds)):
        for name, command in commands.items():
            begun = time.monotonic()
            if name in why or begun + took.get(name, 0) > until and name in lines:
                continue
            try:
                if name == "Voxsaw":
                    line = b.attempt(command)
                else:
                    limit = max(20, min(b.a.limit, until - begun))
                    line = b.attempt([*command, "--limit", str(round(limit / 2))], limit=limit)
                lines.setdefault(name, []).append(line)
            except Failed as e:
                if name == "Voxsaw":
                    sys.exit(str(e))
                if name not in lines:
                    why[name] = str(e).splitlines()[-1][:80]
            took[name] = time.monotonic() - begun
    return lines, why


def decode(b):
    if not b.a.photos:
        return print("decode: needs --photos", file=sys.stderr)
    sides = {"Pillow": [b.a.python, os.path.join(PEERS, "peer_photos.py"), b.a.photos], "Voxsaw": [b.a.voxsaw, "bench", "photos", b.a.photos]}
    if subprocess.run([b.a.python, "-c", "import torchvision"], stderr=subprocess.DEVNULL).returncode == 0:
        sides["torchvision"] = [*sides["Pillow"], "--with", "torchvision"]
    else:
        print("decode: torchvision is not there", file=sys.stderr)
    lines = {name: [] for name in sides}
    for _ in range(b.a.rounds):
        for name, command in sides.items():
            lines[name].append(b.run(command))
    least = {name: min(line["min_s"] for line in of) for name, of in lines.items()}
    ours = lines["Voxsaw"][0]
    rows = [[name, f"{1e3 * s:.2f}", f"**{s / least['Voxsaw']:.1f}**"] for name, s in least.items()]
    table(f"{ours['photos']} photographs of {ours['pixels']} pixels and {ours['kib']} KiB, to 255 x 255, on one thread", ["", "ms each", "Voxsaw is as many times as fast"], rows)


def nifti(path, shape, code, bits, voxels):
    """Writes a NIfTI file of cubes of 1 mm."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *shape, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, code, bits)
    struct.pack_into("<9f", header, 76, 1, 1, 1, 1, 0, 0, 0, 0, 352)
    struct.pack_into("<h", header, 254, 1)  # sform
    struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
    header[344:348] = b"n+1\0"
    with open(path, "wb") as f:
        f.write(bytes(header) + voxels)


def made_up(folder, cases=4, side=96):
    """Writes scans of noise with a labelled slab each."""
    r = random.Random(1)
    for sub in ("imagesTr", "labelsTr"):
        os.makedirs(os.path.join(folder, sub))
    for n in range(cases):
        noise = r.randbytes(2 * side ** 3)  # any CT numbers
        slab = bytes(side ** 2) * (side // 3) + bytes([1]) * (side ** 2 * (side // 3)) + bytes(side ** 2) * (side - 2 * (side // 3))
        nifti(os.path.join(folder, "imagesTr", f"case_{n}.nii"), [side] * 3, 4, 16, noise)
        nifti(os.path.join(folder, "labelsTr", f"case_{n}.nii"), [side] * 3, 2, 8, slab)


def ran(b, folder, ranks, threads, line):
    """A run of voxsaw: seconds by the clock and of the processor, and the most MiB of a process, mapped cases among them."""
    line = (shlex.split(b.a.mpirun) + [str(ranks)] if ranks > 1 else []) + [b.a.voxsaw, *line, "--threads", str(threads), "--force", "--out", os.path.join(folder, "run")]
    print("#", *line, file=sys.stderr, flush=True)
    begun = time.monotonic()
    with open(os.path.join(folder, "stderr"), "w+") as told:
        process = subprocess.Popen(shlex.split(b.a.prefix) + line, stdout=subprocess.DEVNULL, stderr=told)
        _, status, spent = os.wait4(process.pid, 0)
        if status:
            told.seek(0)
            sys.exit(told.read()[-2000:])
    return time.monotonic() - begun, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024


COMMON = ["--preset", "paper", "--norm", "instance", "--hold-out", "0", "--clip", "0", "--checkpoint-every", "0"]
TASKS = {"finetune": ["finetune", "--labels", "1", "--crop", "64", *COMMON], "pretrain": ["pretrain", "--grid", "3x3x3", "--crop", "96", "--patch", "32", "--head", "paper", "--rounds", "1", "--validate-every", "0", *COMMON]}


def ranked(b, folder, ranks, threads, task, batch, *more):
    """A step of a training: the difference between runs of few steps and of many."""
    few, many = 2, 2 + 2 * b.a.steps
    line = TASKS[task] + ["--data", os.path.join(folder, "prepared"), "--batch", str(batch), *more]
    used = [ran(b, folder, ranks, threads, [*line, "--steps", str(steps)]) for steps in (few, many)]
    clock, cpu = ((used[1][k] - used[0][k]) / (many - few) for k in (0, 1))
    return {"median_s": clock, "cpu_s": cpu, "peak_mib": used[1][2]}


def prepared(b, folder):
    scans = os.path.join(folder, "scans")
    made_up(scans)
    subprocess.run([b.a.voxsaw, "prepare", scans, "--out", os.path.join(folder, "prepared")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ranks(b):
    names = b.a.sides.split(",")
    sides = {(name, n): [] for name in names for n in (1, 2)}
    with tempfile.TemporaryDirectory() as folder:
        prepared(b, folder)
        for _ in range(b.a.rounds):
            for (name, n), lines in sides.items():
                if name == "Voxsaw":
                    lines.append(ranked(b, folder, n, b.a.threads // n, "finetune", b.a.batch))
                else:
                    lines.append(b.run([b.a.python, os.path.join(PEERS, "peer_ddp.py"), "--batch", str(b.a.batch), "--ranks", str(n), "--threads", str(b.a.threads // n), "--steps", str(b.a.steps)]))
                print("#", name, n, lines[-1], file=sys.stderr, flush=True)
    rows = []
    for name in names:
        at = lambda n, key: statistics.median(line[key] for line in sides[name, n])
        cost = lambda key: f"**{100 * (at(2, key) / at(1, key) - 1):+.0f} %**"
        rows.append([name, *(f"{at(n, key):.2f}" for key in ("cpu_s", "median_s") for n in (1, 2)), cost("cpu_s"), cost("median_s"), *(f"{at(n, 'peak_mib'):.0f}" for n in (1, 2))])
    table(f"VNet at 64^3, a whole batch of {b.a.batch}: one process of {b.a.threads} threads, and two ranks of {b.a.threads // 2}",
          ["", "CPU s a step, one process", "two ranks", "s a step, one process", "two ranks", "second rank costs, CPU", "by the clock", "MiB, the process", "MiB, a rank"], rows)


# What scripts/scale takes its constants from, and what it predicts: task, ranks of one thread, whole batch, flags.
RUNS = [
    ("finetune", 1, 1), ("finetune", 1, 2), ("finetune", 2, 2), ("finetune", 2, 4), ("finetune", 4, 4), ("finetune", 1, 2, "--accumulate", "2"), ("finetune", 2, 4, "--accumulate", "2"),
    ("pretrain", 1, 1), ("pretrain", 1, 2), ("pretrain", 2, 2), ("pretrain", 2, 4),
]


def scale(b):
    """Prints the CPU seconds of a step of each run as JSON, the least of the rounds, as scripts/scale/measured.json has them."""
    least = {}
    with tempfile.TemporaryDirectory() as folder:
        prepared(b, folder)
        for _ in range(b.a.rounds):
            for task, ranks, batch, *more in RUNS:
                line = {"task": task, "ranks": ranks, "batch": batch, "accumulate": int(more[1]) if more else 1}
                line["cpu_s"] = round(ranked(b, folder, ranks, 1, task, batch, *more)["cpu_s"], 3)
                print("#", line, file=sys.stderr, flush=True)
                key = (task, ranks, batch, *more)
                if key not in least or line["cpu_s"] < least[key]["cpu_s"]:
                    least[key] = line
    print("[\n  " + ",\n  ".join(json.dumps(line) for line in least.values()) + "\n]")


def main():
    everywhere = (reach, avx2, cores, crops, batches, direct, predict, photos, decode)
    sections = {f.__name__: f for f in (*everywhere, ranks, scale)}
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sections", nargs="*", help="which tables; all if none is named")
    ap.add_argument("--voxsaw", default="voxsaw")
    ap.add_argument("--peer", default=os.path.join(PEERS, "peer_vnet.py"), help="the same steps in PyTorch")
    ap.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    ap.add_argument("--scan", help="a CT for predict")
    ap.add_argument("--photos", help="a folder of photographs for decode")
    ap.add_argument("--minutes", type=float, default=9, help="photos: how long it may take, about")
    ap.add_argument("--limit", type=float, default=90, help="photos: seconds that a run of PyTorch may take, compiling among them")
    ap.add_argument("--quick", action="store_true", help="photos: one step of one puzzle, to see that all runs")
    ap.add_argument("--windows", type=int, default=0, help="predict: windows that voxsaw runs; 0: all")
    ap.add_argument("--peer-windows", type=int, default=10, help="predict: windows that PyTorch runs")
    ap.add_argument("--peer-cores", action="store_true", help="cores: PyTorch, too")
    ap.add_argument("--mpirun", default="mpirun --allow-run-as-root --bind-to none -n", help="ranks: what starts as many ranks as the number after it says")
    ap.add_argument("--batch", type=int, default=2, help="ranks: crops of a whole step")
    ap.add_argument("--sides", default="PyTorch,Voxsaw", help="ranks: which of both")
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
        if name in a.sections or not a.sections and section in everywhere:
            section(Bench(a))


if __name__ == "__main__":
    main()

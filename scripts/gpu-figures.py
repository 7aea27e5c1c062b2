#!/usr/bin/env python3
"""What scripts/gpu-check.sh makes of its checks' figures. Standard library only.

    gpu-figures.py record NAME VARIANT TASK [FLAGS]   reads a line of voxsaw bench or of peer_vnet.py from standard input,
                                                      compares it with what was asked for, and adds it to bench.jsonl
    gpu-figures.py ratio NAME                         ours beside every variant of PyTorch's, where all of them finished
    gpu-figures.py growth                             puzzles a second by the number of puzzles in a step
    gpu-figures.py losses TITLE RUN OTHER MOST ...    compares the losses of runs with those of the first

bench.jsonl lies in the folder that the variable out names. Timings of another boot, or of another GPU, are
never put beside each other.
"""
import csv
import json
import math
import os
import statistics
import subprocess
import sys

VARIANTS = ["torch", "torch-channels-last", "torch-compile", "torch-compile-channels-last"]
FASTEST = 3e6  # GFLOP/s that no single GPU of today reaches in bf16: a time that means more is none


def machine():
    """Which machine this is since when, and which GPUs it has."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = f.read().strip()
    except OSError:
        boot = "?"
    try:
        gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        gpus = ""
    return boot + " " + " ".join(gpus.split())


def bench():
    return os.path.join(os.environ.get("out", "."), "bench.jsonl")


def lines(name):
    """The newest line of each variant, of this machine."""
    here, found = machine(), {}
    try:
        with open(bench()) as f:
            for text in f:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue  # half a line: the machine was taken away
                if line.get("recorded") == name and line.get("machine") == here:
                    found[line["variant"]] = line
    except FileNotFoundError:
        pass
    return found


def asked(flags):
    """What the flags of voxsaw bench and of peer_vnet.py ask for, of what their lines say."""
    want, rest = {}, list(flags)
    while rest:
        flag = rest.pop(0)
        if flag in ("--grid", "--crop", "--batch"):
            want[flag[2:]] = int(rest.pop(0))
        elif flag == "--norm":
            want["norm"] = rest.pop(0)
    return want


def wrong(line, variant, task, want):
    """Why a line is not the timing that was asked for; "" if it is."""
    impl = "voxsaw" if variant == "ours" else "torch"
    if not str(line.get("impl", "")).startswith(impl):
        return f"it is of {line.get('impl')}, not of {impl}"
    if line.get("task") != task:
        return f"its task is {line.get('task')}, not {task}"
    for key, value in want.items():
        if key == "grid" and task != "pretrain" or key == "crop" and task == "pretrain":
            continue
        if line.get(key) != value:
            return f"its {key} is {line.get(key)}, not {value}"
    if not os.environ.get("simulated") and (variant != "ours" and line.get("device") != "cuda" or line.get("amp") != "bf16"):
        return f"it was computed on {line.get('device')} with amp {line.get('amp')}, not on the GPU with bf16"
    for key in ("median_s", "min_s", "gflop_step", "peak_mib"):
        value = line.get(key)
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
            return f"its {key} is {value}"
    if line["min_s"] > line["median_s"]:
        return f"its fastest step of {line['min_s']} s is slower than its median of {line['median_s']} s"
    if line["gflop_step"] / line["median_s"] > FASTEST:
        return f"{line['gflop_step']} GFLOP in {line['median_s']} s is more than a GPU can do"
    return ""


def record(name, variant, task, *flags):
    text = sys.stdin.read()
    sys.stderr.write(text)  # for the log
    text = [l for l in text.splitlines() if l.startswith("{")]
    if len(text) != 1:
        sys.exit(f"{name}, {variant}: {len(text)} lines of figures, not one")
    try:
        line = json.loads(text[0])
    except ValueError as e:
        sys.exit(f"{name}, {variant}: {e}")
    fault = wrong(line, variant, task, asked(flags))
    if fault:
        sys.exit(f"{name}, {variant}: this is not what was asked for: {fault}")
    line.pop("profile", None)
    line = {"recorded": name, "variant": variant, "machine": machine()} | line
    with open(bench(), "a") as f:
        f.write(json.dumps(line) + "\n")
    print(json.dumps({k: line[k] for k in ("recorded", "variant", "batch", "median_s", "min_s", "gflops", "peak_mib")}))


def ratio(name):
    found = lines(name)
    missing = [v for v in ["ours", *VARIANTS] if v not in found]
    if missing:
        print(f"  {name}: no ratio: {', '.join(missing)} did not finish here")
        return
    ours = found["ours"]
    for variant in VARIANTS:  # the arithmetic is counted by both sides
        if abs(found[variant]["gflop_step"] / ours["gflop_step"] - 1) > 0.1:
            print(f"  {name}: no ratio: {variant} counts {found[variant]['gflop_step']} GFLOP a step, ours {ours['gflop_step']}")
            return
    best = min(VARIANTS, key=lambda v: found[v]["median_s"])
    least = min(VARIANTS, key=lambda v: found[v]["peak_mib"])
    print(f"  {name}: {found[best]['median_s'] / ours['median_s']:.2f} times as fast as the best of PyTorch's {len(VARIANTS)} variants ({best}), "
          f"{ours['peak_mib'] / found[least]['peak_mib']:.2f} of the memory of the leanest ({least})")


def growth():
    for power in range(12):
        line = lines(f"growth-{1 << power}").get("ours")
        if line:
            print(f"growth, {1 << power} puzzles in a step: {line['median_s']:.4f} s, {(1 << power) / line['median_s']:.1f} puzzles/s, {line['peak_mib']} MiB")


def losses(title, first, *others):
    def read(run):
        with open(os.path.join(run, "metrics.csv")) as f:
            rows = list(csv.DictReader(f))
        return [float(r["loss"]) for r in rows], [float(r["seconds"]) for r in rows if r.get("seconds")]

    (want, _), bad = read(first), False
    for run, most in zip(others[::2], map(float, others[1::2]), strict=True):
        got, seconds = read(run)
        # a loss that is not a number is further away than anything allowed
        errors = [abs(a - b) / abs(a) for a, b in zip(want, got)]
        error = max(errors, default=math.inf) if all(map(math.isfinite, errors)) else math.inf
        bad |= not error <= most or len(got) != len(want) or not want
        took = f"; a step takes {statistics.median(seconds):.4f} s" if seconds else ""
        print(f"{title}: {len(got)} losses of {run} differ from those of {first} by {error:.1e} at most, {most:g} is allowed{took}")
    sys.exit(bad)


if __name__ == "__main__":
    actions = {"record": record, "ratio": ratio, "growth": growth, "losses": losses}
    if len(sys.argv) < 2 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])

#!/usr/bin/env python3
"""python3 figure.py RUNS: collects RUNS/{auto-1,direct-1,auto-2}/{metrics,validation}.csv into loss.csv and validation.csv beside this file, and draws loss.svg."""
import csv
import pathlib
import statistics
import sys

RUNS = {"auto-2": ("auto, seed 2", "#8a8f98", ""), "auto-1": ("auto, seed 1", "#7fb3e0", ""), "direct-1": ("direct, seed 1", "#d1495b", "5 4")}
WINDOW = 10
here, folder = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1])
curves, scores = {}, {}
for run in RUNS:
    loss = {int(r["step"]): float(r["loss"]) for r in csv.DictReader(open(folder / run / "metrics.csv"))}
    curves[run] = [statistics.mean(loss[s] for s in range(end - WINDOW + 1, end + 1)) for end in range(WINDOW, len(loss) + 1, WINDOW)]
    scores[run] = {int(r["step"]): r for r in csv.DictReader(open(folder / run / "validation.csv"))}
with open(here / "loss.csv", "w") as f:
    print("steps", *RUNS, sep=",", file=f)
    for i, values in enumerate(zip(*curves.values())):
        print(f"{i * WINDOW + 1}-{(i + 1) * WINDOW}", *(f"{v:.4f}" for v in values), sep=",", file=f)
with open(here / "validation.csv", "w") as f:
    labels = [k for k in next(iter(scores["auto-1"].values())) if k.startswith("dsc")]
    print("run,step", *labels, sep=",", file=f)
    for run, rows in scores.items():
        for step, r in rows.items():
            print(run, step, *(f"{float(r[k]):.4f}" for k in labels), sep=",", file=f)
W, H, L, B = 640, 300, 48, 36
top = max(max(c) for c in curves.values())
x = lambda i: L + (W - L - 12) * (i + 1) / len(curves["auto-1"])
y = lambda v: H - B - (H - B - 12) * (v - 0.6) / (top - 0.6)
out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12"><rect width="{W}" height="{H}" fill="white"/>']
for v in (1, 1.5, 2, 2.5):
    out.append(f'<path d="M{L} {y(v):.1f}H{W - 12}" stroke="#ddd"/><text x="{L - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v}</text>')
for step in (0, 100, 200, 300):
    out.append(f'<text x="{x(step / WINDOW - 1):.1f}" y="{H - B + 18}" text-anchor="middle">{step}</text>')
out.append(f'<text x="{W - 12}" y="{H - 4}" text-anchor="end">steps</text><text x="{L}" y="11">training loss, mean of {WINDOW} steps</text>')
for n, (run, (name, colour, dash)) in enumerate(RUNS.items()):
    points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(curves[run]))
    out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{3.5 if run == "auto-1" else 1.8}" stroke-dasharray="{dash}"/>')
    out.append(f'<path d="M{W - 170} {30 + 18 * n}h28" stroke="{colour}" stroke-width="{3.5 if run == "auto-1" else 1.8}" stroke-dasharray="{dash}"/><text x="{W - 134}" y="{34 + 18 * n}">{name}</text>')
(here / "loss.svg").write_text("\n".join(out) + "\n</svg>\n")

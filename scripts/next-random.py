#!/usr/bin/env python3
"""Does `voxsaw next` choose better than chance what to label? The runs of docs/results/next-random.md.

    python3 scripts/next-random.py run ./voxsaw OPENKBP FOLD SEED WORK
    python3 scripts/next-random.py table WORK/fold-*-seed-*.csv

run trains on the seven labelled patients of a fold and a seed of docs/results/few-labels (subsets.json), on these and the five
that `voxsaw next` puts first, and on these and five at random, and tests all three. Two networks of the seven, whose seeds
differ, rank the others; the first is the one that is tested. It writes WORK/fold-FOLD-seed-SEED.csv: a row for each arm, test
patient and structure. What is there is kept, so the same command goes on after an interruption. table compares the arms over the
replicates.
"""
import csv
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

ARMS = ("seven", "next", "random")
MORE = 5  # labels
REPLICATES = 9
SETTINGS = """\
# those of the arm scratch in configs/few-labels.yaml, without its study
network: {preset: paper, channels: 8, norm: group, groups: 8}
crop: [64, 64, 64]
batch: 1
loss: dice+ce
max_air: 0.5
cases: {hold_out: 0} # all labelled cases are learnt from
train: {steps: 1750, lr: 0.05, warmup: 30, clip: 5, checkpoint_every: 250, validate_every: 0}
"""
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def draws(fold, seed):
    """The labelled cases of a fold and a seed, all others that may be labelled, and those that are tested on."""
    with open(f"{ROOT}/docs/results/few-labels/subsets.json") as f:
        of_fold = next(each for each in json.load(f)["folds"] if each["fold"] == fold)
    labelled = of_fold["fractions"][f"0.1, seed {seed}"]
    return sorted(labelled), sorted(set(of_fold["train"]) - set(labelled)), sorted(of_fold["test"])


def link(source, folder, cases):
    os.makedirs(folder)
    for case in cases:
        os.symlink(f"{source}/{case}.nii.gz", f"{folder}/{case}.nii.gz")


def once(path, make):
    """Makes a file or folder, which is there when it is whole."""
    if not os.path.exists(path):
        shutil.rmtree(f"{path}.part", ignore_errors=True)
        make(f"{path}.part")
        os.rename(f"{path}.part", path)
    return path


def run(voxsaw, openkbp, fold, seed, work):
    voxsaw, openkbp = map(os.path.abspath, (voxsaw, openkbp))
    fold, seed = int(fold), int(seed)
    labelled, others, test = draws(fold, seed)
    at = os.path.abspath(f"{work}/fold-{fold}-seed-{seed}")
    config = f"{at}/finetune.yaml"
    os.makedirs(at, exist_ok=True)
    with open(config, "w") as f:
        f.write(SETTINGS)

    def call(*command):
        print("#", " ".join(command), flush=True)
        subprocess.run(command, check=True)

    def prepared(arm, cases):
        scans = f"{at}/{arm}-scans"

        def lay_out(folder):
            link(f"{openkbp}/imagesTr", f"{folder}/imagesTr", labelled + others)
            link(f"{openkbp}/labelsTr", f"{folder}/labelsTr", cases)
        once(scans, lay_out)
        call(voxsaw, "prepare", scans, "--spacing", "own", "--window=-200,300", "--crop", "body", "--out", f"{at}/{arm}-prepared")
        return f"{at}/{arm}-prepared"

    def trained(arm, cases, seed=seed):
        data, network = prepared(arm, cases), f"{at}/{arm}-run-{seed}"
        call(voxsaw, "finetune", "--config", config, "--data", data, "--seed", str(seed), "--threads", "1", "--out", network,
             *(["--resume"] if os.path.exists(network) else []))
        return data, f"{network}/last.safetensors"

    def tested(arm, network):
        scans, truth, maps = f"{at}/test-scans", f"{at}/test-labels", f"{at}/{arm}-labels"
        once(scans, lambda folder: link(f"{openkbp}/imagesTr", folder, test))
        once(truth, lambda folder: link(f"{openkbp}/labelsTr", folder, test))
        call(voxsaw, "predict", scans, "--checkpoint", network, "--components", "all", "--threads", "1", "--out", maps)
        once(f"{at}/{arm}-scores", lambda folder: call(voxsaw, "evaluate", maps, truth, "--tolerance", "2", "--out", folder))
        with open(f"{at}/{arm}-scores/scores.csv") as f:
            return list(csv.DictReader(f))

    data, network = trained("seven", labelled)
    both = f"{network},{trained('seven', labelled, seed + 100)[1]}"
    once(f"{at}/next", lambda folder: call(voxsaw, "next", data, "--checkpoint", both, "--components", "all", "--count", "0",
                                           "--threads", "1", "--out", folder))
    with open(f"{at}/next/next.csv") as f:
        first = [row["case"] for row in csv.DictReader(f)][:MORE]
    drawn = random.Random(f"next-random {fold} {seed}").sample(others, MORE)
    for arm, more in (("next", first), ("random", drawn)):
        print(f"{arm}: {', '.join(more)}", flush=True)
    found = {"seven": tested("seven", network)}
    for arm, more in (("next", first), ("random", drawn)):
        found[arm] = tested(arm, trained(arm, sorted(labelled + more))[1])
    with open(f"{at}.csv.part", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["arm", "fold", "seed", "labelled", "case", "label", "dsc", "nsd"])
        for arm in ARMS:
            more = {"seven": [], "next": first, "random": drawn}[arm]
            for row in found[arm]:
                out.writerow([arm, fold, seed, " ".join(more), row["case"], row["label"], row["dsc"], row["nsd"]])
    os.rename(f"{at}.csv.part", f"{at}.csv")


def table(paths):
    from scipy.stats import t, ttest_rel
    means = {arm: [] for arm in ARMS}
    for path in sorted(paths):
        with open(path) as f:
            rows = list(csv.DictReader(f))
        for arm in ARMS:
            means[arm].append(100 * statistics.mean(float(row["dsc"]) for row in rows if row["arm"] == arm))
        print(f"{os.path.basename(path)}: " + ", ".join(f"{arm} {means[arm][-1]:.1f}" for arm in ARMS))
    for a, b in (("next", "random"), ("random", "seven"), ("next", "seven")):
        d = [x - y for x, y in zip(means[a], means[b])]
        if len(d) < REPLICATES:  # the protocol tests all of them, or nothing
            continue
        half = t.ppf(0.975, len(d) - 1) * statistics.stdev(d) / len(d) ** 0.5
        mean = statistics.mean(d)
        print(f"{a} - {b}: {mean:+.2f} points of DSC, 95 % interval {mean - half:+.2f} to {mean + half:+.2f}, "
              f"p = {ttest_rel(means[a], means[b]).pvalue:.3f}, {len(d)} replicates")


if __name__ == "__main__":
    if len(sys.argv) == 7 and sys.argv[1] == "run":
        run(*sys.argv[2:])
    elif len(sys.argv) > 2 and sys.argv[1] == "table":
        table(sys.argv[2:])
    else:
        sys.exit(__doc__)

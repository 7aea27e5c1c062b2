#!/usr/bin/env python3
"""Do the measures of quality.csv tell good label maps from bad ones? The runs of docs/results/quality.md.

    pip install nibabel scipy
    python3 scripts/quality.py run ./voxsaw OPENKBP FOLD NETWORK,NETWORK,NETWORK WORK
    python3 scripts/quality.py table CASES.csv...
    python3 scripts/quality.py body PREPARED

run makes the fold's test scans, as they are and changed, predicts them all with the networks together, and writes
WORK/fold-FOLD.csv: a row for each structure of each scan, with its DSC and each measure. What is there is kept.
table says how well each measure ranks the DSC, as Markdown. body says whether volumes of drawn structures are more alike once they are
divided by the size of the body: of its box, of that box's cross-section, or of what is not air in it.
"""
import csv
import json
import os
import random
import shutil
import subprocess
import sys

import nibabel
import numpy as np
from scipy.stats import rankdata, spearmanr
from scipy.stats import t as t_distribution

CHANGES = ("noise", "thick", "cut", "turned", "mirrored")
POOL = ("as it is", "noise", "thick", "cut", "turned")  # of mirrored, names alone are wrong
MEASURES = ("agreement", "entropy", "entropy_scan", "volume", "usual")
STRUCTURES = {"1": "brainstem", "2": "spinal_cord", "3": "right_parotid", "4": "left_parotid", "5": "mandible"}


def changed(data, affine, how, seed):
    """Voxels (i, j, k) and affine of a scan, or of its labels, whose third axis goes from feet to head."""
    if how == "noise":
        if np.issubdtype(data.dtype, np.floating):
            data = data + np.random.default_rng(seed).normal(0, 100, data.shape).astype(np.float32)
    elif how == "thick":
        data, affine = data[:, :, ::4], affine @ np.diag([1, 1, 4, 1])
    elif how == "cut":
        from_ = data.shape[2] // 2
        data, affine = data[:, :, from_:], affine.copy()
        affine[:3, 3] += affine[:3, 2] * from_
    elif how == "turned":
        data = data[:, :, ::-1]
    elif how == "mirrored":
        data = data[::-1]
    return data, affine


def make(openkbp, case, how, seed, images, labels):
    name = case if how == "as it is" else f"{case}_{how}"
    for group, folder, kind in (("imagesTr", images, np.float32), ("labelsTr", labels, np.uint8)):
        path = f"{folder}/{name}.nii.gz"
        if os.path.exists(path):
            continue
        source = nibabel.as_closest_canonical(nibabel.load(f"{openkbp}/{group}/{case}.nii.gz"))
        data, affine = changed(np.asarray(source.dataobj).astype(kind), source.affine, how, seed)
        nibabel.save(nibabel.Nifti1Image(data, affine), f"{folder}/half.nii.gz")
        os.rename(f"{folder}/half.nii.gz", path)
    return name


def entropies(path, labels):
    """Of the classes' probabilities, in nats: the mean over all voxels, and over those of each label of the map."""
    p = np.asarray(nibabel.load(path).dataobj, dtype=np.float32)
    entropy = -(p * np.log(np.maximum(p, 1e-7))).sum(axis=-1)
    drawn = np.asarray(nibabel.load(labels).dataobj)
    return entropy.mean(), {int(n): entropy[drawn == n].mean() for n in np.unique(drawn) if n}


def run(voxsaw, openkbp, fold, networks, work):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(f"{here}/../docs/results/nnunet-pretrained/patients.json") as f:
        test = sorted(json.load(f)[int(fold) - 1]["test"])
    images, labels, out = (f"{work}/fold-{fold}/{name}" for name in ("images", "labels", "predicted"))
    os.makedirs(images, exist_ok=True)
    os.makedirs(labels, exist_ok=True)
    drawn = random.Random(int(fold)).sample(test, 11 * 3)
    kinds = {}
    for case in test:
        kinds[make(openkbp, case, "as it is", 0, images, labels)] = (case, "as it is")
    for n, how in enumerate(CHANGES):
        for case in [drawn[(11 * n + k) % len(drawn)] for k in range(11)]:
            kinds[make(openkbp, case, how, int(fold) * 1000 + test.index(case), images, labels)] = (case, how)
    if not os.path.exists(f"{out}/quality.csv"):
        subprocess.run([voxsaw, "predict", images, "--checkpoint", networks, "--out", out, "--components", "all", "--agreement", "--probabilities",
                        "--force", "--threads", "1"], check=True)
    shutil.rmtree(f"{work}/fold-{fold}/scores", ignore_errors=True)
    subprocess.run([voxsaw, "evaluate", out, labels, "--out", f"{work}/fold-{fold}/scores"], check=True)
    dsc = {}
    with open(f"{work}/fold-{fold}/scores/scores.csv") as f:
        for row in csv.DictReader(f):
            if row["dsc"]:
                dsc[row["case"], row["label"]] = 100 * float(row["dsc"])
    rows = []
    with open(f"{out}/quality.csv") as f:
        for row in csv.DictReader(f):
            if (row["case"], row["label"]) in dsc:
                case, how = kinds[row["case"]]
                rows.append({"fold": fold, "case": case, "change": how, "structure": STRUCTURES[row["label"]], "dsc": dsc[row["case"], row["label"]],
                             "voxels": row["voxels"], "volume_ml": row["volume_ml"], "agreement": row["agreement"], "flag": row["flag"],
                             "label": int(row["label"]), "name": row["case"]})
    for name in {row["name"] for row in rows}:
        whole, each = entropies(f"{out}/{name}_probabilities.nii.gz", f"{out}/{name}.nii.gz")
        for row in rows:
            if row["name"] == name:
                row["entropy_scan"], row["entropy"] = f"{whole:.6f}", f"{each[row['label']]:.6f}" if row["label"] in each else ""
    rows.sort(key=lambda row: (POOL.index(row["change"]) if row["change"] in POOL else 9, row["case"], row["structure"]))
    with open(f"{work}/fold-{fold}.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, ["fold", "case", "change", "structure", "dsc", "voxels", "volume_ml", "agreement", "entropy", "entropy_scan", "flag"],
                                extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def logarithm(row):
    return np.log(max(float(row["volume_ml"]), 1e-3))


def confidence(rows, measure):
    """What grows with the quality that a measure promises; a structure that was not found has the least."""
    found = np.array([int(row["voxels"]) > 0 for row in rows])
    if measure == "usual":
        value = -np.abs([logarithm(row) - row["middle"] for row in rows])
    elif measure == "volume":
        value = np.array([float(row["volume_ml"]) for row in rows])
    elif measure == "agreement":
        value = np.array([float(row["agreement"] or 0) for row in rows])
    else:
        value = -np.array([float(row[measure] or 9) for row in rows])
    return np.where(found, value, -1e9)


def aurc(risks, sure):
    """The mean, over every number of cases kept, of the mean risk of the surest; ties in their mean order."""
    order = np.argsort(-sure, kind="stable")
    sorted_, ranks = risks[order], rankdata(-sure[order], method="dense")
    for rank in np.unique(ranks):
        sorted_[ranks == rank] = sorted_[ranks == rank].mean()
    return np.mean(np.cumsum(sorted_) / np.arange(1, len(sorted_) + 1))


def told(rows):
    """Of each measure Spearman with the DSC and the area under the risk-coverage curve, in points of DSC."""
    risks = np.array([100 - float(row["dsc"]) for row in rows])
    out = {"cases": len(rows), "random": risks.mean(), "best": aurc(risks.copy(), -risks)}
    for measure in MEASURES:
        sure = confidence(rows, measure)
        rho = spearmanr(sure, -risks).statistic if len(set(risks)) > 1 and len(set(sure)) > 1 else float("nan")
        out[measure] = (rho, aurc(risks.copy(), sure))
    return out


def table(paths):
    rows = [row for path in paths for row in csv.DictReader(open(path))]
    structures = list(dict.fromkeys(row["structure"] for row in rows))
    for row in rows:
        row["middle"] = np.median([logarithm(r) for r in rows if (r["fold"], r["structure"], r["change"]) == (row["fold"], row["structure"], POOL[0])])
    for title, kinds in (("As they are", POOL[:1]), ("With changed scans", POOL), ("Mirrored from left to right", ("mirrored",))):
        print(f"\n{title}\n\n| structure | fold | n | DSC | Spearman: " + " | ".join(MEASURES) + " | area: best order | " + " | ".join(MEASURES) +
              " | any order |\n|---|" + "--:|" * (2 * len(MEASURES) + 5))
        for structure in structures:
            for fold in sorted({row["fold"] for row in rows}):
                chosen = [row for row in rows if row["structure"] == structure and row["fold"] == fold and row["change"] in kinds]
                if not chosen:
                    continue
                t = told(chosen)
                print(f"| {structure} | {fold} | {t['cases']} | {100 - t['random']:.1f} | " + " | ".join(f"{t[m][0]:.2f}" for m in MEASURES) +
                      f" | {t['best']:.1f} | " + " | ".join(f"{t[m][1]:.1f}" for m in MEASURES) + f" | {t['random']:.1f} |")
    for title, kinds in (("as they are", POOL[:1]), ("with changed scans", POOL)):
        each = [np.mean([t["agreement"][1] - t["entropy"][1] for t in
                         (told([r for r in rows if r["structure"] == structure and r["fold"] == fold and r["change"] in kinds]) for structure in structures)])
                for fold in sorted({row["fold"] for row in rows})]
        print(f"\nArea by agreement less that by entropy, {title}: {np.mean(each):.2f}", end="")
        if len(each) > 1:
            half = t_distribution.ppf(0.975, len(each) - 1) * np.std(each, ddof=1) / len(each) ** 0.5
            print(f", 95 % interval {np.mean(each) - half:.2f} to {np.mean(each) + half:.2f}", end="")
    print()
    bad = [row for row in rows if float(row["dsc"]) < 50 and row["change"] in POOL]
    good = [row for row in rows if float(row["dsc"]) >= 50 and row["change"] in POOL]
    print(f"\nOf {len(bad)} structures below 50 DSC {sum(bool(r['flag']) for r in bad)} have a flag, of {len(good)} others "
          f"{sum(bool(r['flag']) for r in good)}.")


def body(prepared):
    with open(f"{prepared}/manifest.json") as f:
        cases = json.load(f)["cases"]
    for label, name in STRUCTURES.items():
        drawn = [c for c in cases if label in c.get("label_counts", {})]
        voxel = np.array([np.prod(c["spacing"]) for c in drawn])
        sizes = np.array([np.multiply(c["shape"], c["spacing"]) for c in drawn])
        volume, box = voxel * [c["label_counts"][label] for c in drawn], sizes.prod(1)
        ways = {"volume": 1, "by box": box, "by cross-section": box / sizes[:, 2], "by tissue": box * [1 - c["air"] for c in drawn]}

        def spread(x):  # the standard deviation by the median absolute deviation
            return np.median(abs(x - np.median(x))) / 0.6744897501960817
        print(f"{name}, {len(drawn)} cases, SD of the logarithm: " + ", ".join(f"{way} {spread(np.log(volume / by)):.2f}" for way, by in ways.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) == 7:
        run(*sys.argv[2:])
    elif sys.argv[1:2] == ["table"] and len(sys.argv) > 2:
        table(sys.argv[2:])
    elif sys.argv[1:2] == ["body"] and len(sys.argv) == 3:
        body(sys.argv[2])
    else:
        sys.exit(__doc__)

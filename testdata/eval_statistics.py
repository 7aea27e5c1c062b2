#!/usr/bin/env python3
"""Writes eval_statistics.json: Holm's adjustment, power, a mixed model, a bootstrap, intervals over folds and gains of labels, by statsmodels, scipy, lme4 and numpy.

Made with Python 3.11, numpy 2.4, scipy 1.17, pandas 3.1 and statsmodels 0.15 from PyPI, and R with lmerTest 3.1 (Debian's r-cran-lmertest),
from the scores of docs/results/openkbp-cpu. Run it from this folder: python3 eval_statistics.py
"""
import json
import math
import subprocess
import tempfile

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

SCORES = "../docs/results/openkbp-cpu/scores.csv"
random = np.random.RandomState(12)


def holm():
    out = []
    for n in (1, 2, 3, 5, 9):
        p = np.round(random.rand(n) ** 3, 4)
        out.append({"p": p.tolist(), "adjusted": multipletests(p, method="holm")[1].tolist()})
    p = [0.02, 0.02, 0.5, 0.01]
    out.append({"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()})
    return out


def power():
    t = TTestPower()
    points = [{"n": n, "effect": d, "alpha": a, "power": t.power(d, n, a)} for n in (2, 3, 4, 6, 12, 40, 300) for d in (0.05, 0.3, 1, 3) for a in (0.01, 0.05)]
    points = [p for p in points if not math.isnan(p["power"])]  # scipy gives up on some noncentral t near 1
    needed = []
    for sd in (1, 2, 4, 8):
        for difference in (1, 2, 3):
            needed.append({"difference": difference, "sd": sd, "power": 0.8, "n": math.ceil(t.solve_power(difference / sd, None, 0.05, 0.8))})
    for difference, sd, p in ((1.5, 3, 0.9), (0.2, 1, 0.95), (5, 4, 0.5)):
        needed.append({"difference": difference, "sd": sd, "power": p, "n": math.ceil(t.solve_power(difference / sd, None, 0.05, p))})
    return {"points": points, "needed": needed}


def cases():
    c = pd.read_csv(SCORES).groupby(["initialisation", "fold", "fraction", "seed", "case"]).dsc.mean().reset_index()
    c["dsc"] *= 100
    c["replicate"] = c.fold.astype(str) + "/" + c.fraction.astype(str) + "/" + c.seed.astype(str)
    c["run"] = c.initialisation + "/" + c.replicate
    c["method"] = (c.initialisation != "scratch").astype(float)
    c["f20"], c["f100"] = (c.fraction == 0.2).astype(float), (c.fraction == 1).astype(float)
    c["all"] = 1
    return c


R = """
library(lmerTest)
c <- read.csv("%s")
for (f in c("dsc ~ method + f20 + f100 + (1|run) + (1|case)", "dsc ~ method + f20 + f100 + (1|replicate) + (1|run) + (1|case)")) {
  m <- lmer(as.formula(f), data = c, REML = TRUE, control = lmerControl(optCtrl = list(xtol_abs = 1e-12, ftol_abs = 1e-14)))
  for (row in rownames(coef(summary(m)))) cat(coef(summary(m))[row, c(1, 2, 3, 5)], "", sep = " ", file = stdout())
  v <- as.data.frame(VarCorr(m)); cat(v$sdcor[match(c("replicate", "run", "case", "Residual"), v$grp)], REMLcrit(m), "\\n")
}
"""


def mixed(c):
    """Both models by lme4 and lmerTest; what statsmodels has of them must be the same."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as data, tempfile.NamedTemporaryFile("w", suffix=".R") as script:
        c.to_csv(data.name, index=False)
        script.write("options(digits = 15)\n" + R % data.name)
        script.flush()
        lines = subprocess.run(["Rscript", script.name], capture_output=True, text=True, check=True).stdout.split("\n")
    out = []
    for line, factors in zip(lines, (["run", "case"], ["replicate", "run", "case"])):
        v = [float("nan") if x == "NA" else float(x) for x in line.split()]
        sd = dict(zip(["replicate", "run", "case", "residual", "criterion"], v[16:]))
        out.append({
            "factors": factors, "criterion": sd["criterion"], "residual": sd["residual"], "sd": [sd[f] for f in factors],
            "effects": [{"name": name, "estimate": e, "se": s, "df": d, "p": p} for name, (e, s, d, p) in zip(["intercept", "method", "f20", "f100"], np.reshape(v[:16], (4, 4)))],
        })
        model = smf.mixedlm("dsc ~ method + f20 + f100", c, groups="all", vc_formula={f: f"0 + C({f})" for f in factors})
        fit = model.fit(reml=True, method=["bfgs", "powell", "bfgs"])
        out[-1]["statsmodels"] = {
            "criterion": -2 * fit.llf, "residual": fit.scale**0.5, "sd": [fit.vcomp[sorted(factors).index(f)] ** 0.5 for f in factors],
            "estimate": fit.fe_params.tolist(), "se": fit.bse_fe.tolist(),
        }
    return out


def bootstrap(c, fraction, resamples=200_000):
    """Folds, their pairs and their cases (the same for all pairs of a fold) are drawn with replacement."""
    c = c if fraction == 0 else c[c.fraction == fraction]
    wide = c.pivot_table(index=["fold", "replicate", "case"], columns="initialisation", values="dsc")
    difference = wide["3x3x3"] - wide["scratch"]
    folds = [difference[f].unstack("case").to_numpy() for f in difference.index.levels[0]]
    total, count = np.zeros(resamples), np.zeros(resamples)
    for _ in folds:
        chosen = random.randint(len(folds), size=resamples)
        for k, d in enumerate(folds):
            pairs, n = d.shape
            at = np.flatnonzero(chosen == k)
            drawn = random.randint(n, size=(len(at), n))
            for _ in range(pairs):
                total[at] += d[random.randint(pairs, size=len(at))[:, None], drawn].mean(axis=1)
            count[at] += pairs
    means = total / count
    return {"fraction": fraction, "low": np.percentile(means, 2.5), "high": np.percentile(means, 97.5), "sd": means.std()}


def folds(c, fraction):
    """The t interval of the folds' mean differences, each over its pairs."""
    c = c if fraction == 0 else c[c.fraction == fraction]
    run = c.groupby(["fold", "replicate", "initialisation"]).dsc.mean().unstack("initialisation")
    means = (run["3x3x3"] - run["scratch"]).groupby("fold").mean()
    low, high = stats.t.interval(0.95, len(means) - 1, loc=means.mean(), scale=stats.sem(means))
    return {"fraction": fraction, "low": low, "high": high}


def labels(c):
    """What each larger share of the training cases adds to the smallest, by method, and to the difference of the methods."""
    run = c.groupby(["initialisation", "fold", "seed", "fraction"]).dsc.mean().unstack(["initialisation", "fraction"])
    out = []
    for name, values in (("scratch", run["scratch"]), ("3x3x3", run["3x3x3"]), ("3x3x3 - scratch", run["3x3x3"] - run["scratch"])):
        for more in (0.2, 1):
            gains = (values[more] - values[0.1]).dropna()
            test = stats.ttest_1samp(gains, 0)
            low, high = test.confidence_interval(0.95)
            means = gains.groupby("fold").mean()
            folds_low, folds_high = stats.t.interval(0.95, len(means) - 1, loc=means.mean(), scale=stats.sem(means))
            out.append({
                "of": name, "more": more, "pairs": len(gains), "mean": gains.mean(), "sd": gains.std(), "low": low, "high": high, "p": test.pvalue,
                "folds_low": folds_low, "folds_high": folds_high,
            })
    return out


c = cases()
with open("eval_statistics.json", "w") as f:
    result = {"holm": holm(), "power": power(), "mixed": mixed(c), "bootstrap": [bootstrap(c, x) for x in (0.1, 0.2, 1, 0)]}
    result["folds"] = [folds(c, x) for x in (0.1, 0.2, 1)]
    result["labels"] = labels(c)
    json.dump(result, f, default=float, indent=1)
    f.write("\n")

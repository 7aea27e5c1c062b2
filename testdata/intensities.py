"""Makes intensities.json: what the schemes of intensities make of two made-up scans.

nnU-Net's own classes standardise them (nnunetv2/preprocessing/normalization/
default_normalization_schemes.py; the mask is that of its create_nonzero_mask, which is
scipy.ndimage.binary_fill_holes of what is not 0), numpy gives the percentiles.

pip install --no-deps nnunetv2==2.6.2; pip install numpy scipy
"""

import importlib.util
import json
import pathlib
import sysconfig

import numpy as np
import scipy.ndimage

source = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nnunetv2/preprocessing/normalization/default_normalization_schemes.py"
spec = importlib.util.spec_from_file_location("schemes", source)
schemes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(schemes)

SHAPE = (14, 12, 10)  # i, j, k


def scan(step, offset):
    """An MR of noise in a ball, with a hole of 0 within; beyond the ball is 0."""
    n = np.arange(np.prod(SHAPE), dtype=np.int64).reshape(SHAPE, order="F")
    noise = (n * 2654435761 % 2**32) >> 22  # 0 to 1023
    i, j, k = np.meshgrid(*[np.arange(s) for s in SHAPE], indexing="ij")
    far = (2 * i - 13) ** 2 + (2 * j - 11) ** 2 + (2 * k - 9) ** 2
    return np.where((far < 90) & (far > 6), noise * step + offset, 0).astype(np.float32)


def flat(a):
    return [round(float(x), 6) for x in np.asarray(a, dtype=np.float64).ravel(order="F")[::7]]


golden = {"shape": SHAPE, "every": 7, "scans": []}
labelled = []
for step, offset in ((0.375, 12.25), (3, -1100)):
    v = scan(step, offset)
    mask = scipy.ndimage.binary_fill_holes(v != 0)
    seg = np.where(mask, 0, -1)
    low, high = np.percentile(v.astype(np.float64), (0.5, 99.5))
    golden["scans"].append({
        "step": step, "offset": offset, "low": low, "high": high, "inside": int(mask.sum()),
        "zscore": flat(schemes.ZScoreNormalization(False, {}).run(v.copy(), seg)),
        "zscore-nonzero": flat(schemes.ZScoreNormalization(True, {}).run(v.copy(), seg)),
        "percentiles": flat(np.clip((v - low) / (high - low) * 2 - 1, -1, 1)),
    })
# A CT: the second scan, whose labels are what is above -200 HU. nnU-Net's fingerprint takes these from the foreground
# (nnunetv2/experiment_planning/dataset_fingerprint/fingerprint_extractor.py, analyze_dataset).
foreground = v[v > -200]
low, high = np.percentile(foreground, (0.5, 99.5))
properties = {"mean": float(foreground.mean(dtype=np.float64)), "std": float(foreground.std(dtype=np.float64)), "percentile_00_5": float(low), "percentile_99_5": float(high)}
golden["ct"] = {"foreground": [low, high, properties["mean"], properties["std"]],
                "ct-percentiles": flat(schemes.CTNormalization(None, properties).run(v.copy()))}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(golden) + "\n")

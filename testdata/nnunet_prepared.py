"""Makes nnunet_prepared/: a small made-up scan of two channels, plans for it, and what nnU-Net 2.8.1 makes of it before it
resamples: its own crop_to_nonzero and classes of normalisation, in the order of its DefaultPreprocessor.run_case_npy. And
arrays.json: small arrays, and what each of its classes of normalisation and its function of resampling make of them.

    pip install --no-deps nnunetv2==2.8.1 acvl_utils; pip install numpy scipy scikit-image nibabel
    python3 testdata/nnunet_prepared.py

The channels are not 0 in two boxes that overlap, the first with a hole; around both is a margin of zeros. nnU-Net's modules of
boxes and of resampling import torch, blosc2, pandas and batchgenerators, of which nothing is used here: mocks stand for them.
Spacings of the scan are the plans', so that nothing would be resampled.
"""
import importlib.util
import json
import pathlib
import sys
import sysconfig
import types
import unittest.mock

import nibabel
import numpy as np

for name in ("torch", "torch.nn", "torch.nn.functional", "blosc2", "pandas", "batchgenerators", "batchgenerators.augmentations",
             "batchgenerators.augmentations.utils"):
    sys.modules[name] = unittest.mock.MagicMock()
sys.modules["torch"].Tensor = type("Tensor", (), {})

packages = pathlib.Path(sysconfig.get_paths()["purelib"])


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, packages / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for parent in ("acvl_utils", "acvl_utils.cropping_and_padding"):
    sys.modules[parent] = types.ModuleType(parent)
boxes = "acvl_utils.cropping_and_padding.bounding_boxes"
sys.modules[boxes] = load("acvl_utils/cropping_and_padding/bounding_boxes.py", boxes)
cropping = load("nnunetv2/preprocessing/cropping/cropping.py", "cropping")
schemes = load("nnunetv2/preprocessing/normalization/default_normalization_schemes.py", "schemes")
resampling = load("nnunetv2/preprocessing/resampling/default_resampling.py", "resampling")

here = pathlib.Path(__file__).parent
out = here / "nnunet_prepared"
FORWARD = [1, 0, 2]
STATISTICS = {"mean": 60.0, "std": 80.0, "percentile_00_5": -100.0, "percentile_99_5": 200.0}
CONFIGURATIONS = {
    "3d_fullres": (["ZScoreNormalization", "ZScoreNormalization"], [True, True]),
    "3d_unmasked": (["ZScoreNormalization", "ZScoreNormalization"], [False, False]),
    "3d_ct": (["CTNormalization", "ZScoreNormalization"], [False, True]),
}


def preprocess(data, names, masked):
    data = data.astype(np.float32).transpose([0, *[i + 1 for i in FORWARD]])
    data, seg, box = cropping.crop_to_nonzero(data)
    for c, name in enumerate(names):
        how = getattr(schemes, name)(use_mask_for_norm=masked[c], intensityproperties=STATISTICS)
        data[c] = how.run(data[c], seg[0])
    return data, [[int(x) for x in b] for b in box]


# Arguments of resampling_fn_data_kwargs, the spacings before and after, and the shape after, of an array of SHAPE. Other ratios of
# spacings than of shapes are none that nnU-Net would make; the function takes them apart.
SHAPE = (5, 6, 4)
RESAMPLED = [
    ({"order": 0, "force_separate_z": None}, (2, 1.3, 1), (1, 1, 1), (10, 8, 4)),
    ({"order": 0, "force_separate_z": None}, (1, 1, 1), (2, 2, 2), (2, 3, 2)),  # halves
    ({"order": 1, "force_separate_z": None}, (2, 1.3, 1), (1, 1, 1), (10, 8, 4)),
    ({"order": 3, "force_separate_z": None}, (2, 1.3, 1), (1, 1, 1), (10, 8, 4)),
    ({"order": 3}, (5, 1.3, 1), (1.5, 1.6, 1.6), (17, 5, 3)),  # not apart: force_separate_z is false
    ({"order": 3, "order_z": 1, "force_separate_z": False}, (5, 1, 1), (1.5, 1.2, 1.6), (17, 5, 3)),
    ({"order": 3, "force_separate_z": True}, (1.3, 2, 1), (1, 1, 1), (6, 12, 5)),
    ({"order": 3, "order_z": 1, "force_separate_z": True}, (1.3, 1, 2), (1, 1.3, 1), (7, 5, 8)),
    ({"order": 1, "order_z": 1, "force_separate_z": True}, (2, 1.3, 1), (3, 1.5, 0.7), (3, 5, 6)),
    ({"order": 0, "order_z": 1, "force_separate_z": True}, (2, 1.3, 1), (1.4, 1.0, 0.7), (7, 8, 6)),
    ({"order": 3, "order_z": 1, "force_separate_z": True}, (2, 2, 1), (1, 1, 1), (9, 11, 4)),  # two axes are the coarsest
    ({"order": 3, "order_z": 1, "force_separate_z": True}, (1, 1, 1), (0.8, 0.9, 5), (6, 7, 2)),  # all are
    ({"order": 3, "order_z": 1, "force_separate_z": None}, (4, 1.3, 1), (2.5, 1, 1), (8, 8, 4)),
    ({"order": 3, "order_z": 1, "force_separate_z": None}, (1, 1.2, 1.3), (1.1, 4, 1), (4, 2, 5)),  # by the new spacing
    ({"order": 1, "order_z": 0, "force_separate_z": None, "separate_z_anisotropy_threshold": 1.5}, (2, 1.3, 1.1), (1, 1, 1), (10, 8, 4)),
    ({"order": 3, "order_z": 1, "force_separate_z": True}, (2, 1.3, 1), (2, 1, 0.8), (5, 8, 5)),  # as many slices
]


def single(x):
    return [float(str(v)) for v in np.asarray(x, np.float32).ravel()]  # digits that float32 has


def arrays():
    """Arrays in, arrays out."""
    rng = np.random.default_rng(4)
    image = rng.integers(0, 256, SHAPE).astype(np.float32)
    inside = rng.random(SHAPE) < 0.6
    masked = np.where(inside, image - 90.5, 0).astype(np.float32)
    normalised = []
    for name in ("RescaleTo01Normalization", "RGBTo01Normalization", "NoNormalization", "ZScoreNormalization", "CTNormalization"):
        for mask in (False, True):
            for x in (image, masked, np.full(SHAPE, 7, np.float32)):
                if x.min() >= 0 or not name.startswith("RGB"):
                    how = getattr(schemes, name)(use_mask_for_norm=mask, intensityproperties=STATISTICS)
                    got = how.run(x.copy(), np.where(inside, 0, -1))
                    normalised.append({"scheme": name, "masked": mask, "from": single(x), "want": single(got)})
    resampled = []
    for kwargs, spacing, new, shape in RESAMPLED:
        got = resampling.resample_data_or_seg_to_shape(image[None], shape, spacing, new, is_seg=False, **kwargs)[0]
        resampled.append({"kwargs": {"is_seg": False} | kwargs, "spacing": spacing, "new": new, "shape": shape, "want": single(got)})
    return {"shape": SHAPE, "values": single(image), "inside": [int(x) for x in inside.ravel()], "statistics": STATISTICS,
            "normalised": normalised, "resampled": resampled}


def main():
    out.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    shape = (9, 12, 11)  # k, j, i
    data = np.zeros((2, *shape), np.int16)
    data[0, 2:7, 3:9, 2:7] = rng.integers(-150, 400, (5, 6, 5))
    data[0, 4:5, 5:7, 4:5] = 0
    data[1, 3:8, 5:11, 1:6] = rng.integers(1, 900, (5, 6, 5))
    for c in range(2):
        image = nibabel.Nifti1Image(data[c].transpose(2, 1, 0), np.diag([-1.0, -1.0, 1.0, 1.0]))
        image.header.set_data_dtype(np.int16)
        nibabel.save(image, out / f"scan_000{c}.nii.gz")
    planned = json.loads((here / "nnplan" / "nnUNetPlans.json").read_text())
    one = planned["configurations"]["3d_fullres"]
    want = {}
    configurations = {}
    for key, (names, masked) in CONFIGURATIONS.items():
        configurations[key] = one | {"spacing": [1.0, 1.0, 1.0], "normalization_schemes": names, "use_mask_for_norm": masked}
        values, box = preprocess(data, names, masked)
        want[key] = {"box": box, "shape": values.shape[1:],
                     "channels": [[round(float(x), 6) for x in v.ravel()] for v in values]}
    plans = {"dataset_name": "Dataset008_Prepared", "plans_name": "nnUNetPlans", "transpose_forward": FORWARD,
             "transpose_backward": FORWARD, "image_reader_writer": "SimpleITKIO", "configurations": configurations,
             "foreground_intensity_properties_per_channel": {"0": STATISTICS, "1": STATISTICS}}
    (out / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (out / "want.json").write_text(json.dumps(want) + "\n")
    (out / "arrays.json").write_text(json.dumps(arrays()) + "\n")


if __name__ == "__main__":
    main()

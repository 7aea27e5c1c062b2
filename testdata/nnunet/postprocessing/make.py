"""Makes cases.json with nnU-Net 2.8.1's own functions: python make.py NNUNETV2 ACVL_UTILS > cases.json

The arguments are the unpacked sources of nnunetv2 2.8.1 and acvl_utils 0.2.6 from PyPI; numpy, scikit-image and connected-components-3d are
installed. What the two modules import beside them is left out.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import types

import numpy as np


class Anything(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        return Anything(name)

    def __call__(self, *_):
        return self


def module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    m = importlib.util.module_from_spec(spec)
    sys.modules[name] = m
    spec.loader.exec_module(m)
    return m


class LeftOut(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("nnunetv2", "batchgenerators", "acvl_utils"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, _):
        pass


sys.meta_path.append(LeftOut())
nnunet, acvl = sys.argv[1:]
module(f"{acvl}/acvl_utils/morphology/morphology_helper.py", "acvl_utils.morphology.morphology_helper")
module(f"{nnunet}/nnunetv2/evaluation/evaluate_predictions.py", "nnunetv2.evaluation.evaluate_predictions")
pp = module(f"{nnunet}/nnunetv2/postprocessing/remove_connected_components.py", "remove_connected_components")
keep = pp.remove_all_but_largest_component_from_segmentation

draw = np.random.default_rng(1)
shape = (6, 8, 10)  # (k, j, i)
noise = draw.choice(4, shape, p=[0.8, 0.08, 0.07, 0.05]).astype(np.uint8)
tie = np.zeros(shape, np.uint8)
tie[1, 1, 1:4], tie[4, 6, 2:5], tie[3, 3, 8] = 1, 1, 1
corners = np.zeros(shape, np.uint8)
corners[0, 0, 0], corners[1, 1, 1], corners[2, 2, 2], corners[5, 5, 5:7] = 1, 2, 1, 2
cases = []
for labels in (noise, tie, corners):
    for steps in ([], [[1, 2, 3]], [1], [2, 3], [(1, 2), [1, 2, 3], 2]):
        found = pp.apply_postprocessing(labels, [keep] * len(steps), [{"labels_or_regions": s} for s in steps])
        written = {"postprocessing_fns": [keep.__name__] * len(steps), "postprocessing_kwargs": [{"labels_or_regions": s} for s in steps]}
        cases.append({"labels": "".join(map(str, labels.ravel())), "postprocessing": written, "found": "".join(map(str, found.ravel()))})
json.dump({"shape": shape[::-1], "cases": cases}, sys.stdout, indent=1)

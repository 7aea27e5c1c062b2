#!/usr/bin/env python3
"""Writes monai_loss.json: MONAI's DiceLoss, cross-entropy and DiceCELoss, and their gradients, on random logits.

    /usr/bin/python3 -m pip install --no-deps --target site monai==1.3.2
    PYTHONPATH=site /usr/bin/python3 monai_loss.py        # from this folder, with Debian's python3-torch 1.13
"""
import json

import torch
from monai.losses import DiceCELoss, DiceLoss

torch.manual_seed(20261122)
dice = dict(include_background=False, to_onehot_y=True, softmax=True, batch=True, smooth_nr=1e-5, smooth_dr=1e-5)
cases = []
for shape, present in [((2, 3, 4, 5, 6), 3), ((3, 4, 3, 3, 2), 3), ((1, 2, 4, 4, 4), 1)]:  # the second has no voxel of class 3, the third no foreground at all
    logits = (2 * torch.randn(shape)).requires_grad_()
    target = torch.randint(0, present, (shape[0], 1, *shape[2:]))
    losses = {}
    for name, loss in dict(dice=DiceLoss(**dice), both=DiceCELoss(**dice)).items():
        logits.grad = None
        value = loss(logits, target)
        value.backward()
        losses[name] = dict(loss=value.item(), gradient=[round(x, 9) for x in logits.grad.ravel().tolist()])
    losses["ce"] = dict(loss=torch.nn.functional.cross_entropy(logits, target[:, 0]).item())
    cases.append(dict(shape=shape, logits=[round(x, 6) for x in logits.detach().ravel().tolist()], target=target.ravel().tolist(), **losses))
with open("monai_loss.json", "w") as f:
    json.dump(cases, f)

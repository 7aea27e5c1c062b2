#!/usr/bin/env python3
"""Golden values for nnU-Net's networks as its plans describe them: dynamic_network_architectures itself, in float64, on weights and inputs that both sides compute from a formula.

    pip install torch==2.15.0 dynamic_network_architectures==0.4.4 batchgeneratorsv2==0.3.6 safetensors==0.8.0
    python3 testdata/unet_golden.py        # writes testdata/unet_*.safetensors

For each network: the logits, every parameter's gradient, the losses of 5 steps of SGD and the logits in evaluation mode after them, as digests (see resenc_golden.py and
vnet_golden.py, whose formulas and loss these are). Kernels and strides differ by axis and stage. Resolutions and their weights are computed as nnU-Net 2.8.1 does in
nnUNetTrainer (`_get_deep_supervision_scales`, `_build_loss`): they follow the strides by axis, the weights do not. Targets are made by nnU-Net's own transform.
"""
import os

import numpy as np
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet
from resenc_golden import downsampled, fill, parameters
from vnet_golden import HERE, digest, loss_of, noise, single, write

torch.set_default_dtype(torch.float64)


def supervised(outputs, target, strides):
    scales = [list(s) for s in 1 / np.cumprod(np.vstack(strides), axis=0)][:-1]
    assert len(scales) == len(outputs)
    weights = np.array([1 / (2**i) for i in range(len(scales))])
    weights[-1] = 0
    weights = weights / weights.sum()
    loss = 0
    for w, y, t in zip(weights, outputs, downsampled(target, scales)):
        if w > 0:
            loss = loss + w * loss_of(y, t)
    return loss


def run(net, strides, size, classes, kind):
    net.to(kind).train()
    params = parameters(net)
    with torch.no_grad():
        for k, p in net.named_parameters():
            p.copy_(torch.from_numpy(single(fill(k, p))))
    x = torch.from_numpy(single(noise("x", int(np.prod(size))))).reshape(size).to(kind)
    target = torch.from_numpy(np.floor((noise("target", size[0] * int(np.prod(size[2:]))) + 1) / 2 * classes)).long().reshape(size[0], *size[2:])
    out, losses = {}, []
    opt = torch.optim.SGD(list(params.values()), 1e-2, momentum=0.9, weight_decay=1e-3)
    for step in range(6):
        logits = net(x)
        loss = supervised(logits, target, strides)
        opt.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"] = digest("logits", logits[0].detach().double().numpy(), 4096)
            for k, p in params.items():
                out["grad/" + k] = digest(k, p.grad.double().numpy(), 64)
        if step < 5:
            opt.step()
    out["losses"] = np.array(losses)
    net.eval()
    with torch.no_grad():
        out["eval"] = digest("eval", net(x)[0].double().numpy(), 4096)
    return out


def golden(name, network, size, classes, features, kernels, strides, blocks, decoder, bias=True, slope=0.01, eps=1e-5):
    key = "n_blocks_per_stage" if network is ResidualEncoderUNet else "n_conv_per_stage"
    net = network(
        input_channels=size[1], n_stages=len(features), features_per_stage=features, conv_op=torch.nn.Conv3d, kernel_sizes=kernels, strides=strides, num_classes=classes,
        n_conv_per_stage_decoder=decoder, conv_bias=bias, norm_op=torch.nn.InstanceNorm3d, norm_op_kwargs={"eps": eps, "affine": True}, nonlin=torch.nn.LeakyReLU,
        nonlin_kwargs={"inplace": True, "negative_slope": slope}, deep_supervision=True, **{key: blocks},
    )
    want = run(net, strides, size, classes, torch.float64)
    write(os.path.join(HERE, f"unet_{name}.safetensors"), want)
    # how far PyTorch itself is away in single precision: what a tolerance can be
    got = run(net, strides, size, classes, torch.float32)
    worst = max((np.linalg.norm(got[k][5:] - v[5:]) / max(np.linalg.norm(v[5:]), 1e-3), k) for k, v in want.items() if k.startswith("grad/"))
    print(name, want["losses"], sum(p.numel() for p in net.parameters()), "float32:", worst, np.abs(got["losses"] / want["losses"] - 1).max())


if __name__ == "__main__":
    thick = {"kernels": [[1, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 1]], "strides": [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 1]]}
    golden("plain", PlainConvUNet, (2, 1, 8, 16, 16), 3, [4, 6, 8, 8], thick["kernels"], thick["strides"], [2, 2, 1, 2], [2, 1, 2])
    golden("residual", ResidualEncoderUNet, (2, 2, 8, 16, 24), 3, [4, 6, 8, 8], thick["kernels"], thick["strides"], [1, 2, 1, 2], [1, 2, 1])
    golden("cubes", PlainConvUNet, (1, 1, 16, 16, 16), 2, [4, 8, 8], [[3, 3, 3]] * 3, [[1, 1, 1], [2, 2, 2], [2, 2, 2]], [2, 2, 2], [2, 2], bias=False, slope=0.1, eps=1e-2)

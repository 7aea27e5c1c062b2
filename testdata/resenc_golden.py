#!/usr/bin/env python3
"""Golden values for the residual encoder U-Net: dynamic_network_architectures itself, in float64, on weights and inputs that both sides compute from a formula.

    pip install torch==2.15.0 dynamic_network_architectures==0.4.4 batchgeneratorsv2==0.3.6 safetensors==0.8.0
    python3 testdata/resenc_golden.py        # writes testdata/resenc_*.safetensors

For each network: the logits, every parameter's gradient, the losses of 5 steps of SGD and the logits in evaluation mode after them, as digests
(see vnet_golden.py, whose formulas and loss these are). The loss is nnU-Net's deep supervision: each resolution counts half as much as the one before, the coarsest
does not count, and the weights sum to 1; targets are made by nnU-Net's own transform. Where there is a single resolution, it counts.

`resenc_nnunet.safetensors` is the state dict of a tiny network, every tensor under all of its names, and the logits of that network. `resenc_model.safetensors` holds the same network as
safetensors' save_model writes it, which keeps one name of each tensor; the order of its metadata changes from run to run.
"""
import os
import numpy as np
import torch
from batchgeneratorsv2.transforms.utils.deep_supervision_downsampling import DownsampleSegForDSTransform
from dynamic_network_architectures.architectures.unet import ResidualEncoderUNet
from safetensors.torch import save_file, save_model
from vnet_golden import HERE, digest, loss_of, noise, single, write

torch.set_default_dtype(torch.float64)


def network(channels, blocks, classes, norm=torch.nn.InstanceNorm3d, inputs=1):
    """The network as nnU-Net's planner for residual encoders sets it up, with fewer channels and blocks."""
    stages = len(blocks)
    return ResidualEncoderUNet(
        input_channels=inputs, n_stages=stages, features_per_stage=[min(channels << i, 320) for i in range(stages)], conv_op=torch.nn.Conv3d, kernel_sizes=3,
        strides=[1] + [2] * (stages - 1), n_blocks_per_stage=list(blocks), num_classes=classes, n_conv_per_stage_decoder=[1] * (stages - 1), conv_bias=True,
        norm_op=norm, norm_op_kwargs={"eps": 1e-5, "affine": True}, nonlin=torch.nn.LeakyReLU, nonlin_kwargs={"inplace": True}, deep_supervision=True,
    )


def fill(name, p):
    """The formula of the weights: by the kind of parameter, so that activations keep their size through the network."""
    v = torch.from_numpy(noise(name, p.numel())).reshape(p.shape)
    if p.dim() > 1:
        fan = p[0].numel() if "transpconvs" not in name else p.shape[0]
        return v * (2.0 / fan) ** 0.5
    return 1 + 0.2 * v if name.endswith(".norm.weight") else 0.1 * v


def downsampled(target, scales):
    """The targets of each resolution, whose scales are those by axis: nnU-Net's transform on each item of the batch, as its data loader calls it."""
    transform = DownsampleSegForDSTransform(scales)
    items = [transform(segmentation=t[None].to(torch.int16))["segmentation"] for t in target]
    return [torch.stack([item[level][0] for item in items]).long() for level in range(len(scales))]


def supervised(outputs, target):
    if len(outputs) > 1:
        outputs = outputs[:-1]  # of weight 0
    weights = np.array([0.5**i for i in range(len(outputs))])
    targets = downsampled(target, [[0.5**i] * 3 for i in range(len(outputs))])
    return sum(w * loss_of(y, t) for w, y, t in zip(weights / weights.sum(), outputs, targets))


def parameters(net):
    """The parameters under the shortest of their names, those that the loss does not reach left out."""
    unused = "decoder.seg_layers.0." if len(net.decoder.seg_layers) > 1 else " "
    return {k: p for k, p in net.named_parameters() if not k.startswith(unused)}


def run(net, size, classes, float_type):
    net.to(float_type).train()
    params = parameters(net)
    with torch.no_grad():
        for k, p in net.named_parameters():
            p.copy_(torch.from_numpy(single(fill(k, p))))
    x = torch.from_numpy(single(noise("x", int(np.prod(size))))).reshape(size).to(float_type)
    target = torch.from_numpy(np.floor((noise("target", size[0] * int(np.prod(size[2:]))) + 1) / 2 * classes)).long().reshape(size[0], *size[2:])
    out, losses = {}, []
    opt = torch.optim.SGD(list(params.values()), 1e-2, momentum=0.9, weight_decay=1e-3)
    for step in range(6):
        logits = net(x)
        loss = supervised(logits, target)
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


def golden(name, size, classes, *args, **more):
    net = network(*args, classes, **more)
    want = run(net, size, classes, torch.float64)
    write(os.path.join(HERE, f"resenc_{name}.safetensors"), want)
    # how far PyTorch itself is away in single precision: what a tolerance can be
    got = run(net, size, classes, torch.float32)
    worst = max((np.linalg.norm(got[k][5:] - v[5:]) / max(np.linalg.norm(v[5:]), 1e-3), k) for k, v in want.items() if k.startswith("grad/"))
    print(name, want["losses"], sum(p.numel() for p in net.parameters()), "float32:", worst, np.abs(got["losses"] / want["losses"] - 1).max())


def nnunet():
    torch.manual_seed(1)
    net = network(2, (1, 2), 3).eval()
    net.initialize(net)
    with torch.no_grad():
        for p in net.parameters():  # some of which would be exactly 0 or 1
            if p.dim() == 1:
                p += 0.1 * torch.randn_like(p)
    net.float()
    x = torch.from_numpy(single(noise("x", 8 * 12 * 16))).reshape(1, 1, 8, 12, 16).float()
    save_model(net, os.path.join(HERE, "resenc_model.safetensors"))
    tensors = {k: v.clone() for k, v in net.state_dict().items()}
    with torch.no_grad():
        tensors["logits of noise"] = net(x)[0].contiguous()
    save_file(tensors, os.path.join(HERE, "resenc_nnunet.safetensors"))


if __name__ == "__main__":
    golden("instance", (2, 1, 16, 32, 16), 3, 4, (1, 2, 1, 1))
    golden("batch", (2, 1, 16, 16, 24), 2, 4, (1, 1, 2), norm=torch.nn.BatchNorm3d)
    golden("two_stages", (1, 1, 12, 8, 16), 2, 4, (2, 1))
    # sizes at which no value lies so near to 0 that single precision takes the other slope of the leaky ReLU
    golden("2_channels", (2, 2, 16, 16, 24), 3, 4, (1, 1, 2), inputs=2)
    golden("4_channels", (2, 4, 16, 16, 24), 3, 4, (1, 1, 2), inputs=4)
    nnunet()

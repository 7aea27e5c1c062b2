"""Makes nnunet_names.txt: what nnU-Net's two networks call their parameters, with every name that there is.

    pip install dynamic_network_architectures==0.4.4
    python3 testdata/nnunet_names.py > testdata/nnunet_names.txt

A line is the network, the name, and the shape, each number with two digits.
"""
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet

for name, network, blocks in (("plain", PlainConvUNet, "n_conv_per_stage"), ("residual", ResidualEncoderUNet, "n_blocks_per_stage")):
    net = network(
        1, 3, (4, 6, 8), torch.nn.Conv3d, ((1, 3, 3), (3, 3, 3), (3, 3, 3)), ((1, 1, 1), (1, 2, 2), (2, 2, 1)), num_classes=3,
        n_conv_per_stage_decoder=(1, 2), conv_bias=True, norm_op=torch.nn.InstanceNorm3d, norm_op_kwargs={"eps": 1e-5, "affine": True},
        nonlin=torch.nn.LeakyReLU, **{blocks: (1, 2, 1)}
    )
    for key, value in sorted(net.state_dict().items()):
        print(name, key, "x".join(f"{n:02d}" for n in value.shape))

#!/usr/bin/env python3
"""VNet training steps in PyTorch with DistributedDataParallel and gloo, beside ranks of `voxsaw finetune`.

    python3 docs/peers/peer_ddp.py --crop 64 --batch 2 --ranks 1 --threads 2   # one process of two threads
    python3 docs/peers/peer_ddp.py --crop 64 --batch 2 --ranks 2 --threads 1   # two ranks of one thread

--batch is that of the whole step, and is divided over the ranks. The network and the loss are those
of peer_vnet.py; each rank takes the loss of its own crops, as DistributedDataParallel is used. It
prints a line of JSON: seconds of a step by the clock (median) and of all ranks' CPU time (user and
system, mean over the timed steps), and the most memory of a rank. It needs PyTorch.
"""
import os, resource, tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import peer
from peer_vnet import VNet, loss_seg


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rank(number, a, meet):
    peer.begin(a.threads)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=number, world_size=a.ranks)
    net = VNet(a.norm)
    torch.manual_seed(1 + number)
    x = torch.randn(a.batch // a.ranks, 1, a.crop, a.crop, a.crop)
    y = (torch.rand(a.batch // a.ranks, a.crop, a.crop, a.crop) > 0.9).long()
    if a.ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    step = peer.training(net, lambda: loss_seg(net(x), y))
    peer.timed(step, 0, a.warmup, dist.barrier)
    begun = cpu()
    times, _ = peer.timed(step, 0, a.steps, dist.barrier)
    used = torch.tensor([cpu() - begun, 0], dtype=torch.float64)
    most = torch.tensor([float(peer.peak())])
    dist.all_reduce(used)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    if number == 0:
        peer.line("torch", crop=a.crop, batch=a.batch, ranks=a.ranks, threads=a.threads, norm=a.norm, **peer.seconds(times),
                  cpu_s=round(used[0].item() / a.steps, 5), peak_mib=round(most.item()))
    dist.destroy_process_group()


def main():
    ap = peer.flags(__doc__, warmup=1, threads=1)
    ap.add_argument("--crop", type=int, default=64)
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--norm", default="instance", choices=["none", "instance"])
    a = ap.parse_args()
    if a.batch % a.ranks:
        ap.error(f"a batch of {a.batch} cannot be divided over {a.ranks} ranks")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (a, os.path.join(folder, "meet")), nprocs=a.ranks)


if __name__ == "__main__":
    main()

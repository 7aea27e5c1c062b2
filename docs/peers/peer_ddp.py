#!/usr/bin/env python3
"""VNet training steps in PyTorch with DistributedDataParallel and gloo, beside ranks of `voxsaw finetune`.

    python3 docs/peers/peer_ddp.py --crop 64 --batch 2 --ranks 1 --threads 2   # one process of two threads
    python3 docs/peers/peer_ddp.py --crop 64 --batch 2 --ranks 2 --threads 1   # two ranks of one thread

--batch is that of the whole step, and is divided over the ranks. The network and the loss are those
of peer_vnet.py; each rank takes the loss of its own crops, as DistributedDataParallel is used. It
prints a line of JSON: seconds of a step by the clock (median) and of all ranks' CPU time (user and
system, mean over the timed steps), and the most memory of a rank. It needs PyTorch.
"""
import argparse, json, os, resource, statistics, sys, tempfile, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_vnet import VNet, loss_seg


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rank(number, a, meet):
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=number, world_size=a.ranks)
    net = VNet(a.norm)
    torch.manual_seed(1 + number)
    x = torch.randn(a.batch // a.ranks, 1, a.crop, a.crop, a.crop)
    y = (torch.rand(a.batch // a.ranks, a.crop, a.crop, a.crop) > 0.9).long()
    if a.ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    opt = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=5e-4)
    times, begun = [], 0
    for i in range(a.warmup + a.steps):
        dist.barrier()
        if i == a.warmup:
            begun = cpu()
        t = time.perf_counter()
        loss = loss_seg(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        dist.barrier()
        if i >= a.warmup:
            times.append(time.perf_counter() - t)
    used = torch.tensor([cpu() - begun, 0], dtype=torch.float64)
    most = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])
    dist.all_reduce(used)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    if number == 0:
        print(json.dumps({"impl": "torch " + torch.__version__, "crop": a.crop, "batch": a.batch, "ranks": a.ranks, "threads": a.threads, "norm": a.norm,
                          "median_s": round(statistics.median(times), 5), "cpu_s": round(used[0].item() / a.steps, 5), "peak_mib": round(most.item())}))
    dist.destroy_process_group()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--crop", type=int, default=64)
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--threads", type=int, default=1, help="of a rank")
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--warmup", type=int, default=1)
    ap.add_argument("--norm", default="instance", choices=["none", "instance"])
    a = ap.parse_args()
    if a.batch % a.ranks:
        ap.error(f"a batch of {a.batch} cannot be divided over {a.ranks} ranks")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (a, os.path.join(folder, "meet")), nprocs=a.ranks)


if __name__ == "__main__":
    main()

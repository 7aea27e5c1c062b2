"""What the peers in this folder share: flags, steps that are timed, arithmetic, and the line of JSON that each prints."""
import argparse
import json
import resource
import statistics
import time


def flags(doc, steps=5, warmup=2, threads=0):
    """A parser with the flags of everything that times steps."""
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--steps", type=int, default=steps)
    ap.add_argument("--warmup", type=int, default=warmup)
    ap.add_argument("--threads", type=int, default=threads)
    return ap


def begin(threads, seed=0):
    import torch
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)


def timed(step, warmup, steps, around=lambda: None, limit=0, least=1):
    """Seconds of each step by the clock and of CPU, after a warm-up. around is called before and after a step. With a limit no
    step begins after so many seconds, and the steps that were done count, the warm-up among them if nothing else was, but for
    the first ones where at least more than one step is wanted."""
    times, cpus, begun = [], [], time.perf_counter()
    for _ in range(warmup + steps):
        if len(times) >= least and 0 < limit < time.perf_counter() - begun:
            break
        around()
        t, cpu = time.perf_counter(), time.process_time()
        step()
        around()
        times.append(time.perf_counter() - t)
        cpus.append(time.process_time() - cpu)
    skip = min(max(warmup, least - 1), len(times) - 1)
    return times[skip:], cpus[skip:]


def training(net, loss):
    """A step of SGD with momentum; loss computes what is minimised."""
    import torch
    opt = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=5e-4)

    def step():
        value = loss()
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
    return step


def flops(make, shape):
    """Multiply-adds x 2 of one forward pass, counted by hooks on the convolutions and linear maps of a network on the meta
    device: nothing is computed, and no memory is taken, which would count as the peer's."""
    import torch
    from torch import nn
    total = [0]
    with torch.device("meta"):
        net, x = make(), torch.empty(shape)

    def hook(m, i, o):
        if isinstance(m, nn.Linear):
            total[0] += 2 * i[0].numel() * m.out_features
        else:
            total[0] += 2 * (i[0] if isinstance(m, nn.ConvTranspose3d) else o).numel() * m.weight[0].numel()

    with torch.no_grad():
        net(x)  # gives a lazy layer its shape
        for m in net.modules():
            if isinstance(m, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose3d, nn.Linear)):
                m.register_forward_hook(hook)
        net(x)
    return total[0]


def peak():
    """The most memory of this process, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def seconds(times):
    return {"median_s": round(statistics.median(times), 6), "min_s": round(min(times), 6)}


def rate(step, times):
    """The arithmetic of a step, and that of a second."""
    return {"gflop_step": round(step / 1e9, 1), "gflops": round(step / statistics.median(times) / 1e9, 1)}


def line(impl, **found):
    """The line of JSON; impl may be PyTorch by default."""
    if impl == "torch":
        import torch
        impl += " " + torch.__version__
    print(json.dumps({"impl": impl, **found}), flush=True)

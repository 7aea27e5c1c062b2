#!/usr/bin/env python3
"""The peer of `voxsaw bench predict`: inference in windows over a whole CT, in PyTorch.

    python3 docs/peers/peer_window.py docs/peers/peer_vnet.py scan.nii --window 96 --overlap 0.5 --batch 1 --norm instance --threads 2 [--windows 20]

The network is that of peer_vnet.py (a file whose module has a class VNet(norm, channels)), with random weights. Windows lie where voxsaw puts them: evenly spread,
neighbours overlapping by at least the share. Class probabilities are weighted by a Gaussian with a standard deviation of an eighth of the window, as nnU-Net has it, and
summed over the scan in float32; the class with the highest sum wins. With --windows only so many are run, after one that is not timed, and the rest is
taken to be as fast: a whole scan takes PyTorch half an hour. Prints one JSON line.
"""
import argparse, importlib.util, math, time
import nibabel
import numpy
import torch
import peer


def positions(n, size, overlap):
    if n <= size:
        return [-((size - n) // 2)]
    count = math.ceil((n - size) / max(size * (1 - overlap), 1)) + 1
    return [round(i * (n - size) / (count - 1)) for i in range(count)]


def bell(n):
    return torch.exp(-(((torch.arange(n) - (n - 1) / 2) / (n / 8)) ** 2) / 2)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("peer")
    ap.add_argument("scan")
    ap.add_argument("--window", type=int, default=96)
    ap.add_argument("--overlap", type=float, default=0.5)
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--norm", default="none")
    ap.add_argument("--threads", type=int, default=0)
    ap.add_argument("--windows", type=int, default=0)
    a = ap.parse_args()
    spec = importlib.util.spec_from_file_location("network", a.peer)
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    peer.begin(a.threads)
    net = network.VNet(a.norm, 16).eval()
    hu = numpy.asarray(nibabel.load(a.scan).dataobj).astype(numpy.float32).transpose(2, 1, 0)
    scan = torch.from_numpy((numpy.clip(hu, -125, 275) + 125) / 200 - 1)
    w = a.window
    weight = bell(w)[:, None, None] * bell(w)[:, None] * bell(w)
    origins = [(z, y, x) for z in positions(scan.shape[0], w, a.overlap) for y in positions(scan.shape[1], w, a.overlap) for x in positions(scan.shape[2], w, a.overlap)]
    sums = torch.zeros(2, *scan.shape)

    def run(some):
        with torch.inference_mode():
            x = torch.stack([scan[None, z:z + w, y:y + w, x:x + w] for z, y, x in some])
            for (z, y, x), p in zip(some, net(x).softmax(1)):
                sums[:, z:z + w, y:y + w, x:x + w] += p * weight

    run(origins[:a.batch])
    timed = origins[:a.windows] if a.windows else origins
    sums.zero_()
    start = time.perf_counter()
    for i in range(0, len(timed), a.batch):
        run(timed[i:i + a.batch])
    if not a.windows:
        sums.argmax(0)
    seconds = time.perf_counter() - start
    peer.line("torch", task="predict", shape=list(scan.shape[::-1]), window=w, overlap=a.overlap, batch=a.batch, norm=a.norm,
              windows=len(origins), timed_windows=len(timed), seconds=round(seconds, 3),
              voxels_s=round(scan.numel() * len(timed) / len(origins) / seconds), peak_mib=peer.peak())


if __name__ == "__main__":
    main()

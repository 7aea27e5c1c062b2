#!/usr/bin/env python3
"""Makes voc.json: random answers and what others make of them.

    pip install scikit-learn==1.7.2 numpy
    python3 voc.py > voc.json

"steps" is scikit-learn's average_precision_score. The rest are line by line what the development
kits' VOCevalcls.m, VOCevaldet.m (VOC2007) and VOCap.m (VOC2010) do, and py_cpu_nms of Fast R-CNN.
"""
import json
import sys

import numpy as np
from sklearn.metrics import average_precision_score


def voc_ap(rec, prec):
    ap11 = 0.0
    for t in np.arange(0.0, 1.1, 0.1):
        p = prec[rec >= t]
        ap11 += (p.max() if p.size else 0.0) / 11
    mrec = np.concatenate([[0], rec, [1]])
    mpre = np.concatenate([[0], prec, [0]])
    for i in range(mpre.size - 2, -1, -1):
        mpre[i] = max(mpre[i], mpre[i + 1])
    i = np.where(mrec[1:] != mrec[:-1])[0] + 1
    return float(ap11), float(np.sum((mrec[i] - mrec[i - 1]) * mpre[i]))


def classification(confidence, gt):
    si = np.argsort(-confidence, kind="stable")
    tp = np.cumsum(gt[si] > 0)
    fp = np.cumsum(gt[si] < 0)
    with np.errstate(invalid="ignore"):
        prec = np.nan_to_num(tp / (tp + fp))  # before the first that counts
    return voc_ap(tp / (gt > 0).sum(), prec)


def overlap(bb, bbgt):
    bi = [max(bb[0], bbgt[0]), max(bb[1], bbgt[1]), min(bb[2], bbgt[2]), min(bb[3], bbgt[3])]
    iw, ih = bi[2] - bi[0] + 1, bi[3] - bi[1] + 1
    if iw <= 0 or ih <= 0:
        return None
    ua = (bb[2] - bb[0] + 1) * (bb[3] - bb[1] + 1) + (bbgt[2] - bbgt[0] + 1) * (bbgt[3] - bbgt[1] + 1) - iw * ih
    return iw * ih / ua


def detection(found, truth):
    npos = sum(not t["difficult"] for t in truth)
    det = [False] * len(truth)
    order = np.argsort([-f["confidence"] for f in found], kind="stable")
    tp, fp = np.zeros(len(found)), np.zeros(len(found))
    for d, k in enumerate(order):
        ovmax, jmax = -np.inf, -1
        for j, t in enumerate(truth):
            if t["photo"] != found[k]["photo"]:
                continue
            ov = overlap(found[k]["box"], t["box"])
            if ov is not None and ov > ovmax:
                ovmax, jmax = ov, j
        if ovmax >= 0.5:
            if not truth[jmax]["difficult"]:
                if not det[jmax]:
                    tp[d] = 1
                    det[jmax] = True
                else:
                    fp[d] = 1
        else:
            fp[d] = 1
    fp, tp = np.cumsum(fp), np.cumsum(tp)
    with np.errstate(invalid="ignore"):
        prec = np.nan_to_num(tp / (fp + tp))
    return voc_ap(tp / npos, prec)


def nms(boxes, scores, threshold):
    boxes, scores = np.array(boxes), np.array(scores)
    order = np.argsort(-scores, kind="stable")
    keep = []
    while order.size:
        i = order[0]
        keep.append(int(i))
        order = np.array([j for j in order[1:] if (overlap(boxes[i], boxes[j]) or 0) <= threshold], dtype=int)
    return keep


def boxes(r, n, shared=()):
    """Random boxes, some near given ones."""
    out = []
    for _ in range(n):
        if shared and r.random() < 0.7:
            b = np.array(shared[r.integers(len(shared))]) + r.integers(-12, 13, 4)
        else:
            x, y = r.integers(1, 300, 2)
            b = np.array([x, y, x + r.integers(5, 120), y + r.integers(5, 120)])
        b = [int(v) for v in b]
        out.append([min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])])
    return out


def main():
    r = np.random.default_rng(7)
    cases = {"classification": [], "detection": [], "nms": []}
    for n, ties, ignored in [(5, 0, 0), (40, 0, 0), (40, 1, 0), (200, 0, 0.1), (200, 1, 0.1), (10, 0, 0), (1, 0, 0)]:
        gt = np.where(r.random(n) < 0.3, 1, -1)
        gt[0] = 1
        gt[1:][r.random(n - 1) < ignored] = 0
        c = gt * 0.5 + r.normal(0, 1, n)
        if ties:
            c = np.round(c)
        ap11, area = classification(c, gt)
        cases["classification"].append({
            "confidences": c.round(6).tolist(), "truths": gt.tolist(), "11 points": ap11, "area": area,
            "steps": float(average_precision_score(gt[gt != 0] > 0, c.round(6)[gt != 0])),
        })
    for photos, objects, detections in [(3, 6, 12), (20, 60, 300), (20, 10, 200), (5, 10, 1)]:
        truth, found = [], []
        for p in range(photos):
            there = boxes(r, objects // photos + 1)
            truth += [{"photo": p, "box": b, "difficult": bool(r.random() < 0.2)} for b in there]
            for b in boxes(r, detections // photos + 1, there):
                found.append({"photo": p, "box": b, "confidence": float(np.round(r.random(), 2))})
        found += [{"photo": 99, "box": [1, 1, 5, 5], "confidence": 0.5}]  # nothing is there
        ap11, area = detection(found, truth)
        cases["detection"].append({"truth": truth, "found": found, "11 points": ap11, "area": area})
    for n, threshold in [(1, 0.3), (30, 0.3), (100, 0.5), (100, 0.0)]:
        b = boxes(r, n, boxes(r, 5))
        s = np.round(r.random(n), 2).tolist()
        cases["nms"].append({"boxes": b, "confidences": s, "threshold": threshold, "kept": nms(b, s, threshold)})
    json.dump(cases, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

"""Makes svm.json: what scikit-learn's LinearSVC says of data that svm_test.go makes, too.

    python3 internal/svm/testdata/svm.py > internal/svm/testdata/svm.json

Made with scikit-learn 1.9.1 and numpy 2.4.6. The data are drawn by a linear congruential generator, so
that both sides have the same.
"""
import json

import numpy as np
from sklearn.svm import LinearSVC


def data(samples, width, classes, noise):
    state = 12345

    def uniform():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 40) / 2**24 - 0.5

    centres = [[uniform() for _ in range(width)] for _ in range(classes)]
    x, y = [], []
    for i in range(samples):
        y.append(i % classes)
        x.append([centres[i % classes][k] + noise * uniform() for k in range(width)])
    return np.array(x, dtype=np.float32).astype(np.float64), np.array(y)


def objective(x, y, w, c, positive, squared):
    loss = np.maximum(0, 1 - y * (x @ w[:-1] + w[-1]))
    if squared:
        loss = loss**2
    return float(w @ w / 2 + (np.where(y > 0, c * positive, c) * loss).sum())


cases = []
for samples, width, classes, noise, c, loss, positive in [
    (120, 8, 3, 2.0, 1.0, "squared_hinge", 1), (120, 8, 3, 2.0, 10.0, "hinge", 1), (300, 30, 5, 3.0, 10.0, "squared_hinge", 1),
    (300, 30, 5, 3.0, 0.01, "squared_hinge", 2), (60, 100, 4, 1.0, 1.0, "squared_hinge", 1), (200, 10, 2, 3.0, 0.1, "hinge", 2),
]:
    x, y = data(2 * samples, width, classes, noise)
    train, test = slice(0, samples), slice(samples, 2 * samples)
    objectives, scores, weights = [], [], []
    for k in range(classes):
        sign = np.where(y[train] == k, 1, -1)
        m = LinearSVC(C=c, loss=loss, dual=True, tol=1e-9, max_iter=2000000, class_weight={1: positive, -1: 1}, intercept_scaling=1.0)
        m.fit(x[train], sign)
        w = np.append(m.coef_[0], m.intercept_[0])
        objectives.append(objective(x[train], sign, w, c, positive, loss == "squared_hinge"))
        weights.append([round(float(v), 7) for v in w])
        scores.append(x[test] @ w[:-1] + w[-1])
    cases.append({
        "samples": samples, "width": width, "classes": classes, "noise": noise, "c": c, "hinge": loss == "hinge", "positive": positive,
        "objectives": objectives, "weights": weights, "predictions": [int(v) for v in np.argmax(scores, axis=0)],
    })
print(json.dumps(cases))

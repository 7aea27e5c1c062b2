"""Makes marginal_loss.json: losses over images in which not every class was drawn, and their
gradients by the logits, in PyTorch.

    python3 -m venv v && v/bin/pip install torch && v/bin/python testdata/marginal_loss.py

The probability of an image's background is the sum of the softmax of class 0 and of the classes
that were not drawn there (Shi et al. 2021, equation 3; Fang and Yan 2020). Cross-entropy is the mean
of -log over the voxels that count; soft Dice takes each class over the images where it was drawn,
without the background, smoothed by 1e-5, and averages over the classes, 0 for one that was drawn
nowhere.
"""
import json
import torch

torch.manual_seed(39)
cases = []
for shape, drawn in [((2, 4, 3, 4, 5), [[1, 1, 0, 1], [1, 0, 1, 1]]),
                     ((2, 3, 2, 3, 4), [[1, 1, 1], [1, 0, 0]]),
                     ((1, 4, 3, 3, 3), [[1, 0, 1, 0]]),
                     ((2, 3, 2, 2, 2), [[1, 1, 0], [1, 1, 0]]),
                     ((2, 18, 2, 2, 3), [[1] * 9 + [0] * 9, [1] * 18])]:
    x = (2 * torch.randn(shape)).double().requires_grad_()
    drawn = torch.tensor(drawn, dtype=torch.float64)
    n, classes = shape[:2]
    target = torch.stack([torch.tensor([c for c in range(classes) if drawn[i, c]])[
        torch.randint(int(drawn[i].sum()), shape[2:])] for i in range(n)])
    target[0].view(-1)[0] = -1  # does not count
    p = torch.softmax(x, 1)
    mask = drawn.view(n, classes, 1, 1, 1)
    background = p[:, :1] + (p * (1 - mask)).sum(1, keepdim=True)
    p = torch.cat([background, (p * mask)[:, 1:]], 1)
    counts = (target >= 0).double()
    hot = torch.nn.functional.one_hot(target.clamp(min=0), classes).movedim(-1, 1) * counts[:, None]
    ce = -(torch.log((p * hot).sum(1) + (1 - counts)) * counts).sum() / counts.sum()
    dice = 0.0
    for c in range(1, classes):
        images = [i for i in range(n) if drawn[i, c]]
        if images:
            q, h = (p[:, c] * counts)[images], hot[:, c][images]
            dice = dice + (1 - (2 * (q * h).sum() + 1e-5) / (q.sum() + h.sum() + 1e-5)) / (classes - 1)
    case = {"shape": list(shape), "merged": (1 - drawn).flatten().tolist(),
            "logits": [float(v) for v in x.flatten().detach().float()],
            "target": target.flatten().tolist()}
    for name, loss in [("ce", ce), ("dice", dice), ("both", ce + dice)]:
        gradient, = torch.autograd.grad(loss, x, retain_graph=True)
        case[name] = {"loss": loss.item(), "gradient": [float(f"{v:.8g}") for v in gradient.flatten()]}
    cases.append(case)
with open("testdata/marginal_loss.json", "w") as f:
    json.dump(cases, f)
    f.write("\n")

"""Makes soft_loss.json: losses against probabilities instead of classes, and their gradients by the
logits, in PyTorch.

    python3 -m venv v && v/bin/pip install torch && v/bin/python testdata/soft_loss.py

Each voxel has a first and a second class, and the share of the first in 255ths. Classes that are
merged in an image are one with its background, in the targets and in the softmax. Cross-entropy is
torch.nn.functional.cross_entropy with probabilities; soft Dice is that of MONAI's DiceLoss with
soft targets over the batch, without the background, smoothed by 1e-5, where nothing is merged.
"""
import json
import torch

torch.manual_seed(39)
cases = []
for shape, merged, with_dice in [((2, 4, 3, 4, 5), [[0, 0, 1, 0], [0, 0, 0, 0]], False),
                                 ((1, 3, 2, 3, 4), [[0, 1, 0]], False),
                                 ((1, 3, 8, 8, 8), [[0, 0, 0]], True)]:
    x = (2 * torch.randn(shape)).double().requires_grad_()
    n, classes = shape[:2]
    first = torch.randint(classes, (n,) + shape[2:])
    second = (first + torch.randint(1, classes, first.shape)) % classes
    share = torch.randint(128, 256, first.shape)
    hot = lambda t: torch.nn.functional.one_hot(t, classes).movedim(-1, 1).double()
    q = hot(first) * (share / 255).double()[:, None] + hot(second) * (1 - share.double() / 255)[:, None]
    m = torch.tensor(merged, dtype=torch.float64).view(n, classes, 1, 1, 1)
    q = torch.cat([q[:, :1] + (q * m).sum(1, keepdim=True), (q * (1 - m))[:, 1:]], 1)
    background = torch.logsumexp(torch.where((m > 0) | (torch.arange(classes).view(1, -1, 1, 1, 1) == 0), x,
                                             -torch.inf), 1, keepdim=True)
    y = torch.cat([background, torch.where(m > 0, torch.tensor(-10000.0, dtype=torch.float64), x)[:, 1:]], 1)
    losses = {"ce": torch.nn.functional.cross_entropy(y, q)}
    if with_dice:
        p = torch.softmax(x, 1)
        over = (0, 2, 3, 4)
        dice = 1 - (2 * (p * q).sum(over) + 1e-5) / (p.sum(over) + q.sum(over) + 1e-5)
        losses["dice"] = dice[1:].mean()
    case = {"shape": list(shape), "merged": sum(merged, []), "first": first.flatten().tolist(),
            "second": second.flatten().tolist(), "share": share.flatten().tolist(),
            "logits": [float(f"{v:.8g}") for v in x.flatten().detach().float()]}
    for name, loss in losses.items():
        gradient, = torch.autograd.grad(loss, x, retain_graph=True)
        case[name] = {"loss": loss.item(), "gradient": [float(f"{v:.6g}") for v in gradient.flatten()]}
    cases.append(case)
with open("testdata/soft_loss.json", "w") as f:
    json.dump(cases, f)
    f.write("\n")

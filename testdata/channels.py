"""Makes channels.json and the scans in channels/: what nibabel and MONAI make of scans of several channels.

brain.nii.gz is a file of four volumes, as the Medical Segmentation Decathlon's brain tumours are, with
columns to the left and rows to the back; sub-01_T1w.nii.gz and sub-01_FLAIR.nii.gz are two files on one
grid. nibabel reads them and turns them to RAS, MONAI's NormalizeIntensity standardises each channel.

pip install nibabel monai
"""

import json
import pathlib

import nibabel as nib
import numpy as np
from monai.transforms import NormalizeIntensity

here = pathlib.Path(__file__).parent
folder = here / "channels"
SHAPE = (20, 18, 16)


def values(seed, n):
    """Channel n of a scan: whole numbers that a formula gives, brighter in a box."""
    i = np.arange(np.prod(SHAPE), dtype=np.int64).reshape(SHAPE, order="F")
    a = ((i * 2654435761 + seed * 987654321 + n * 123456789) % 2**32 >> 25) + 100 * (n + 1)
    a[5:12, 5:12, 5:12] += 60 + 10 * n
    return a.astype(np.int16)


def turned(a):
    return np.asarray(nib.as_closest_canonical(a).dataobj).astype(np.float32)


affine = np.array([[-2, 0, 0, 30], [0, -2, 0, 20], [0, 0, 2.5, -10], [0, 0, 0, 1.0]])
box = np.zeros(SHAPE, np.uint8)
box[5:12, 5:12, 5:12] = 1
folder.mkdir(exist_ok=True)


def save(name, a):
    image = nib.Nifti1Image(a, affine)
    nib.save(image, folder / name)
    return image


save("box.nii.gz", box)
brain = save("brain.nii.gz", np.stack([values(1, n) for n in range(4)], -1))
for other in (2, 3):  # other patients
    save(f"brain_{other}.nii.gz", np.stack([values(10 * other, n) for n in range(4)], -1))
t1w, flair = save("sub-01_T1w.nii.gz", values(2, 0)), save("sub-01_FLAIR.nii.gz", values(2, 1))

golden = {"shape": SHAPE, "every": 37}
for name, channels in {
    "brain": np.moveaxis(turned(brain), -1, 0),
    "bids": np.stack([turned(t1w), turned(flair)]),
}.items():
    standard = NormalizeIntensity(channel_wise=True)(channels).numpy()
    golden[name] = [[round(float(x), 5) for x in c.ravel(order="F")[::37]] for c in standard]
(here / "channels.json").write_text(json.dumps(golden) + "\n")

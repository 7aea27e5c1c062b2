"""Makes pet_ct/ and pet_ct.json: a study of a CT and its PET, and the PET's SUV on the voxels of the CT.

pydicom writes the series. SUVbw are computed here from what pydicom reads back, by the formula of QIBA's
profile FDG-PET/CT (activity * weight / decayed dose); scipy.ndimage.map_coordinates brings them onto the CT.

pip install pydicom numpy scipy
"""

import datetime
import json
import pathlib

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import map_coordinates

here = pathlib.Path(__file__).parent
folder = here / "pet_ct"
STUDY, FRAME = "2.25.1001", "2.25.1002"


def slice_of(modality, series, n, pixels, spacing, z, thickness, first, slope, **more):
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = {"CT": "1.2.840.10008.5.1.4.1.1.2", "PT": "1.2.840.10008.5.1.4.1.1.128"}[modality]
    meta.MediaStorageSOPInstanceUID = f"{series}.{n}"
    d = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    d.SOPClassUID, d.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    d.Modality, d.StudyInstanceUID, d.SeriesInstanceUID, d.FrameOfReferenceUID = modality, STUDY, series, FRAME
    d.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    d.SeriesNumber, d.InstanceNumber = {"CT": 2, "PT": 4}[modality], n
    d.ImagePositionPatient, d.ImageOrientationPatient = [first[0], first[1], z], [1, 0, 0, 0, 1, 0]
    d.PixelSpacing, d.SliceThickness = [spacing, spacing], thickness
    d.Rows, d.Columns, d.SamplesPerPixel, d.PhotometricInterpretation = *pixels.shape, 1, "MONOCHROME2"
    d.BitsAllocated, d.BitsStored, d.HighBit, d.PixelRepresentation = 16, 16, 15, 1
    d.RescaleSlope, d.RescaleIntercept = slope, -1024 if modality == "CT" else 0
    d.SeriesDate, d.AcquisitionDate = "20260131", "20260131"
    for key, value in more.items():
        setattr(d, key, value)
    d.PixelData = pixels.astype("<i2").tobytes()
    path = folder / modality.lower() / f"{n}.dcm"
    path.parent.mkdir(parents=True, exist_ok=True)
    d.save_as(path, enforce_file_format=True)


i = np.arange(16 * 14 * 12)
ct = (i * 2654435761 % 2**32 >> 21).reshape(12, 14, 16)
for n in range(12):
    slice_of("CT", "2.25.1003", n + 1, ct[n], 2.0, -20 + 3.0 * n, 3, (-16, -14), 1, SeriesTime="103000", AcquisitionTime="103000")
drug = Dataset()
drug.RadionuclideTotalDose, drug.RadionuclideHalfLife, drug.RadiopharmaceuticalStartTime = "350000000", "6586.2", "093015.50"
i = np.arange(8 * 7 * 9)
pet = (2000 + 30000 * (i * 2654435761 % 2**32) // 2**32).reshape(9, 7, 8)
for n in range(9):
    slice_of(
        "PT", "2.25.1004", n + 1, pet[n], 4.0, -22 + 4.0 * n, 4, (-15, -13), f"{0.5 + 0.01 * n:.2f}", SeriesTime="104005.25",
        AcquisitionTime=f"1041{n:02d}", Units="BQML", DecayCorrection="START", CorrectedImage=["DECY", "ATTN", "SCAT"], PatientWeight="72.5",
        RadiopharmaceuticalInformationSequence=Sequence([drug]),
    )

# What others make of the files.
read = sorted((pydicom.dcmread(p) for p in (folder / "pt").glob("*.dcm")), key=lambda d: d.ImagePositionPatient[2])
d, info = read[0], read[0].RadiopharmaceuticalInformationSequence[0]
when = lambda text: datetime.datetime.strptime("20260131" + text, "%Y%m%d%H%M%S.%f")
waited = (when(d.SeriesTime) - when(info.RadiopharmaceuticalStartTime)).total_seconds()
dose = float(info.RadionuclideTotalDose) * 2 ** (-waited / float(info.RadionuclideHalfLife))
factor = float(d.PatientWeight) * 1000 / dose
suv = np.stack([s.pixel_array * float(s.RescaleSlope) for s in read]) * factor  # (z, y, x)
z, y, x = np.meshgrid(-20 + 3.0 * np.arange(12), -14 + 2.0 * np.arange(14), -16 + 2.0 * np.arange(16), indexing="ij")
at = np.stack([(z + 22) / 4, (y + 13) / 4, (x + 15) / 4])
onto = map_coordinates(suv, at, order=1, mode="nearest")
inside = np.all((at >= 0) & (at <= np.array([8, 6, 7]).reshape(3, 1, 1, 1)), axis=0)
(here / "pet_ct.json").write_text(json.dumps({
    "factor": factor, "shape": [16, 14, 12], "suv": [round(float(v), 6) for v in suv.ravel()],
    "onto": [round(float(v), 6) if ok else -1 for v, ok in zip(onto.ravel(), inside.ravel())],
}) + "\n")
print(factor, suv.min(), suv.max(), inside.mean())

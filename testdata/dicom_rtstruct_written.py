"""Reads the RT structure sets that Voxsaw writes with pydicom and dcmrtstruct2nii, and compares the
voxels: those that dcmrtstruct2nii makes, and those of a polygon fill of its own, which knows the
geometry from the slices' headers alone. volume/dicom's TestStructuresRoundTrip and
TestContoursInEveryDirection have the digests of the files that passed.

    pip install dcmrtstruct2nii==5 pydicom==3.0.2 SimpleITK==2.5.7
    VOXSAW_RTSTRUCT=/tmp/rs go test ./volume/dicom -run 'TestStructuresRoundTrip|TestContoursInEvery'
    python3 testdata/dicom_rtstruct_written.py /tmp/rs
"""

import hashlib
import os
import sys
import tempfile

import numpy as np
import pydicom
import SimpleITK
from dcmrtstruct2nii import dcmrtstruct2nii

pydicom.read_file = pydicom.dcmread  # as dcmrtstruct2nii still calls it



def fill(mask, points, image):
    """Pixels (row, column) whose centres a contour encloses change sides."""
    o = np.array(image.ImageOrientationPatient, float)
    off = points - np.array(image.ImagePositionPatient, float)
    x, y = off @ o[:3] / image.PixelSpacing[1], off @ o[3:] / image.PixelSpacing[0]
    for n in range(len(x)):
        (x0, y0), (x1, y1) = (x[n - 1], y[n - 1]), (x[n], y[n])
        rows = np.arange(max(0, int(np.ceil(min(y0, y1)))), min(len(mask), int(np.ceil(max(y0, y1)))))
        for r in rows[(rows >= min(y0, y1)) & (rows < max(y0, y1))]:
            right = np.arange(mask.shape[1]) > x0 + (r - y0) * (x1 - x0) / (y1 - y0)
            mask[r] ^= right


folder = sys.argv[1]
for case in sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".rs")):
    path = f"{folder}/{case}.rs"
    ds = pydicom.dcmread(path)
    images = {}
    slices = len(os.listdir(f"{folder}/{case}"))
    for k in range(slices):
        image = pydicom.dcmread(f"{folder}/{case}/{k}.dcm")
        images[image.SOPInstanceUID] = np.array(image.ImagePositionPatient, float), image
    assert ds.SOPClassUID == ds.file_meta.MediaStorageSOPClassUID == "1.2.840.10008.5.1.4.1.1.481.3"
    for key in ("PatientName", "PatientID", "StudyInstanceUID", "FrameOfReferenceUID"):
        assert ds[key].value == image[key].value, key
    space = ds.ReferencedFrameOfReferenceSequence[0]
    series = space.RTReferencedStudySequence[0].RTReferencedSeriesSequence[0]
    assert space.FrameOfReferenceUID == image.FrameOfReferenceUID
    assert series.SeriesInstanceUID == image.SeriesInstanceUID
    assert {i.ReferencedSOPInstanceUID for i in series.ContourImageSequence} == set(images)
    numbers = [int(r.ROINumber) for r in ds.StructureSetROISequence]
    assert numbers == [int(r.ReferencedROINumber) for r in ds.ROIContourSequence]
    assert numbers == [int(r.ReferencedROINumber) for r in ds.RTROIObservationsSequence]
    order = sorted(images, key=lambda uid: int(images[uid][1].filename.split("/")[-1].split(".")[0]))
    filled, most = {}, 0
    for roi in ds.ROIContourSequence:
        mask = filled[int(roi.ReferencedROINumber)] = np.zeros((slices, image.Rows, image.Columns), bool)
        for c in roi.ContourSequence:
            origin, image = images[c.ContourImageSequence[0].ReferencedSOPInstanceUID]
            points = np.array(c.ContourData, float).reshape(-1, 3)
            assert len(points) == c.NumberOfContourPoints
            o = np.array(image.ImageOrientationPatient, float)
            assert np.abs((points - origin) @ np.cross(o[:3], o[3:])).max() < 1e-3  # in its slice
            most = max(most, len(points))
            fill(mask[order.index(image.SOPInstanceUID)], points, image)
    assert most <= 1200
    labels = np.fromfile(f"{folder}/{case}.labels", np.uint8)
    for roi in ds.StructureSetROISequence:
        with tempfile.TemporaryDirectory() as out:
            dcmrtstruct2nii(path, f"{folder}/{case}", out + "/", structures=[roi.ROIName],
                            convert_original_dicom=False)
            mask = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"{out}/mask_{roi.ROIName}.nii.gz")) > 0
        want = labels.reshape(mask.shape)[:, ::-1] == roi.ROINumber  # label maps begin at the last row
        own = filled[int(roi.ROINumber)]
        print(case, roi.ROIName, int(want.sum()), "voxels,", int((mask != want).sum()), "differ by dcmrtstruct2nii,",
              int((own != want).sum()), "by the fill here; contours of at most", most, "points")
        assert (mask == want).all() and (own == want).all()
    print(case, hashlib.sha256(open(path, "rb").read()).hexdigest())

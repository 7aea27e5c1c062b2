"""Reads the RT structure sets that Voxsaw writes with pydicom and dcmrtstruct2nii, and compares the
voxels. volume/dicom's TestStructuresRoundTrip has the digests of the files that passed.

    pip install dcmrtstruct2nii==5 pydicom==3.0.2 SimpleITK==2.5.7
    VOXSAW_RTSTRUCT=/tmp/rs go test ./volume/dicom -run TestStructuresRoundTrip
    python3 testdata/dicom_rtstruct_written.py /tmp/rs
"""

import hashlib
import sys
import tempfile

import numpy as np
import pydicom
import SimpleITK
from dcmrtstruct2nii import dcmrtstruct2nii

pydicom.read_file = pydicom.dcmread  # as dcmrtstruct2nii still calls it

folder = sys.argv[1]
for case in (0, 1):
    path = f"{folder}/{case}.rs"
    ds = pydicom.dcmread(path)
    images = {}
    for k in range(7):
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
    for roi in ds.ROIContourSequence:
        for c in roi.ContourSequence:
            origin, image = images[c.ContourImageSequence[0].ReferencedSOPInstanceUID]
            points = np.array(c.ContourData, float).reshape(-1, 3)
            assert len(points) == c.NumberOfContourPoints
            o = np.array(image.ImageOrientationPatient, float)
            assert np.abs((points - origin) @ np.cross(o[:3], o[3:])).max() < 1e-3  # in its slice
    labels = np.fromfile(f"{folder}/{case}.labels", np.uint8)
    for roi in ds.StructureSetROISequence:
        with tempfile.TemporaryDirectory() as out:
            dcmrtstruct2nii(path, f"{folder}/{case}", out + "/", structures=[roi.ROIName],
                            convert_original_dicom=False)
            mask = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"{out}/mask_{roi.ROIName}.nii.gz")) > 0
        want = labels.reshape(mask.shape)[:, ::-1] == roi.ROINumber  # label maps begin at the last row
        print(case, roi.ROIName, int(want.sum()), "voxels,", int((mask != want).sum()), "differ")
        assert (mask == want).all()
    print(case, hashlib.sha256(open(path, "rb").read()).hexdigest())

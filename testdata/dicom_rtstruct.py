"""Writes testdata/dicom_rtstruct.json: two small CT series, an RT structure set of each, and the
masks that dcmrtstruct2nii makes of them.

    pip install dcmrtstruct2nii==5 pydicom==3.0.2 SimpleITK==2.5.7
    python3 testdata/dicom_rtstruct.py
"""

import base64
import gzip
import json
import os
import tempfile

import numpy as np
import pydicom
import SimpleITK
from dcmrtstruct2nii import dcmrtstruct2nii
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian

pydicom.read_file = pydicom.dcmread  # as dcmrtstruct2nii still calls it

ROOT = "1.2.826.0.1.3680043.8.498.78"
COLUMNS, ROWS, SLICES = 32, 28, 7
SPACING = (2.1, 1.7)  # between rows, between columns
DISTANCE = 2.5
CT, RTSTRUCT = "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.481.3"


def new_file(path, sop_class, uid, study):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = sop_class, uid
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(path, {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID, ds.SOPInstanceUID, ds.StudyInstanceUID = sop_class, uid, study
    ds.PatientName, ds.PatientID = "Nobody", "0"
    return ds


def series(folder, number, row, column):
    normal = np.cross(row, column)
    study, uid = f"{ROOT}.{number}", f"{ROOT}.{number}.1"
    for k in range(SLICES):
        ds = new_file(f"{folder}/{k}.dcm", CT, f"{uid}.{k + 1}", study)
        ds.Modality, ds.SeriesInstanceUID, ds.FrameOfReferenceUID = "CT", uid, f"{study}.9"
        ds.InstanceNumber, ds.SeriesNumber = k + 1, number
        ds.ImagePositionPatient = [round(float(x), 6) for x in np.array([-30, 12, 5]) + DISTANCE * k * normal]
        ds.ImageOrientationPatient = [round(float(x), 6) for x in (*row, *column)]
        ds.PixelSpacing, ds.SliceThickness = list(SPACING), DISTANCE
        ds.Rows, ds.Columns, ds.SamplesPerPixel, ds.PhotometricInterpretation = ROWS, COLUMNS, 1, "MONOCHROME2"
        ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 16, 15, 1
        ds.RescaleIntercept, ds.RescaleSlope = 0, 1
        ds.PixelData = np.full((ROWS, COLUMNS), k, "<i2").tobytes()
        ds.save_as(f"{folder}/{k}.dcm", enforce_file_format=True)
    return study, uid


def star(rng, centre, radius, points=17):
    """A polygon (column, row) with dents, whose edges meet no centre of a pixel."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, points))
    radii = radius * rng.uniform(0.55, 1, points)
    return np.stack([centre[0] + radii * np.cos(angles), centre[1] + radii * np.sin(angles)], 1)


def structures(rng):
    """Contours by structure and slice."""
    solid = {k: [star(rng, (9.3, 9.1), 6.5)] for k in range(1, 6)}
    hole = {k: [star(rng, (21.2, 18.7), 8), star(rng, (21.4, 18.6), 3)] for k in range(2, 5)}
    two = {3: [star(rng, (5.1, 21.3), 3.5), star(rng, (27.2, 5.4), 3.5)], 6: [star(rng, (5.1, 21.3), 3.5)]}
    edge = {0: [star(rng, (1.2, 0.7), 5.5)]}  # reaches beyond the image
    body = {k: [np.array([[-0.3, -0.4], [31.3, -0.4], [31.3, 27.4], [-0.3, 27.4]])] for k in range(SLICES)}
    return {"Parotid_L": ("ORGAN", solid), "Ring ä": ("", hole), "two parts": ("ORGAN", two), "edge": ("ORGAN", edge), "BODY": ("EXTERNAL", body)}


def rtstruct(path, number, study, uid, row, column, drawn):
    normal = np.cross(row, column)
    ds = new_file(path, RTSTRUCT, f"{ROOT}.{number}.2.1", study)
    ds.SpecificCharacterSet = "ISO_IR 192"
    ds.Modality, ds.SeriesInstanceUID, ds.SeriesNumber, ds.StructureSetLabel = "RTSTRUCT", f"{ROOT}.{number}.2", 50 + number, "test"

    def item(**elements):
        d = Dataset()
        for key, value in elements.items():
            setattr(d, key, value)
        return d

    in_series = item(SeriesInstanceUID=uid, ContourImageSequence=Sequence([item(ReferencedSOPClassUID=CT, ReferencedSOPInstanceUID=f"{uid}.{k + 1}") for k in range(SLICES)]))
    in_study = item(ReferencedSOPClassUID="1.2.840.10008.3.1.2.3.1", ReferencedSOPInstanceUID=study, RTReferencedSeriesSequence=Sequence([in_series]))
    ds.ReferencedFrameOfReferenceSequence = Sequence([item(FrameOfReferenceUID=f"{study}.9", RTReferencedStudySequence=Sequence([in_study]))])
    rois, contours, observations = [], [], []
    for n, (name, (kind, slices)) in enumerate(drawn.items()):
        roi = 3 * n + 2
        rois.append(item(ROINumber=roi, ReferencedFrameOfReferenceUID=f"{study}.9", ROIName=name, ROIGenerationAlgorithm="MANUAL"))
        observations.append(item(ObservationNumber=n + 1, ReferencedROINumber=roi, RTROIInterpretedType=kind, ROIInterpreter=""))
        lines = []
        for k, polygons in slices.items():
            for polygon in polygons:
                points = np.array([-30, 12, 5]) + DISTANCE * k * normal + polygon[:, :1] * SPACING[1] * row + polygon[:, 1:] * SPACING[0] * column
                lines.append(item(ContourGeometricType="CLOSED_PLANAR", NumberOfContourPoints=len(points), ContourData=[f"{x:.5f}" for x in points.ravel()],
                                  ContourImageSequence=Sequence([item(ReferencedSOPClassUID=CT, ReferencedSOPInstanceUID=f"{uid}.{k + 1}")])))
        contours.append(item(ReferencedROINumber=roi, ROIDisplayColor=[255, 0, 0], ContourSequence=Sequence(lines)))
    ds.StructureSetROISequence, ds.ROIContourSequence, ds.RTROIObservationsSequence = Sequence(rois), Sequence(contours), Sequence(observations)
    ds.save_as(path, enforce_file_format=True)


def pack(data):
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def packed(path):
    with open(path, "rb") as f:
        return pack(f.read())


rng = np.random.default_rng(20)
cases = []
for number, (row, column) in enumerate([((1, 0, 0), (0, 1, 0)), ((0.8, 0.6, 0), (-0.36, 0.48, -0.8))], 1):
    row, column = np.array(row, float), np.array(column, float)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/ct")
        os.mkdir(f"{folder}/out")
        study, uid = series(f"{folder}/ct", number, row, column)
        drawn = structures(rng)
        rtstruct(f"{folder}/rs.dcm", number, study, uid, row, column, drawn)
        dcmrtstruct2nii(f"{folder}/rs.dcm", f"{folder}/ct", f"{folder}/out", mask_foreground_value=1, convert_original_dicom=False)
        masks = {}
        for name in drawn:
            found = [f for f in os.listdir(f"{folder}/out") if f.startswith("mask_") and f[5:].split(".")[0].lower()[:3] == name.lower()[:3]]
            assert len(found) == 1, (name, os.listdir(f"{folder}/out"))
            mask = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"{folder}/out/{found[0]}"))
            assert mask.shape == (SLICES, ROWS, COLUMNS)
            masks[name] = pack(mask.astype(np.uint8).tobytes())
        cases.append({"slices": [packed(f"{folder}/ct/{k}.dcm") for k in range(SLICES)], "structures": packed(f"{folder}/rs.dcm"), "masks": masks})

with open("testdata/dicom_rtstruct.json", "w") as f:
    json.dump({"cases": cases}, f, indent=1, ensure_ascii=False)
    f.write("\n")

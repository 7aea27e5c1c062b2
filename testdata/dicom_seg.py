"""Makes dicom_seg.json: SEG objects of a made-up series as highdicom, dcmqi and pydicom write them, with the labels that they were given, and what these read from
the object that Voxsaw writes of the same series.

Needs highdicom 0.28, pydicom 3.0, dcmqi 1.5 and pyjpegls from PyPI, dciodvfy (Debian's dicom3tools) and the go command. Run it in this folder:

    python dicom_seg.py
"""

import base64
import gzip
import io
import json
import os
import struct
import subprocess
import tempfile
import zlib

import highdicom as hd
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.encaps import encapsulate
from pydicom.pixels.encoders.native import _encode_row
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, DeflatedExplicitVRLittleEndian, RLELossless, JPEGLSLossless

COLUMNS, ROWS, SLICES = 11, 7, 6  # 77 pixels: frames of single bits begin anywhere in a byte
ROOT = "1.2.826.0.1.3680043.8.498.77"


def series(number, orientation, step, first):
    """Slices of a CT, in the order of their places along the normal."""
    out = []
    for k in range(SLICES):
        d = Dataset()
        d.file_meta = FileMetaDataset()
        d.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        d.SpecificCharacterSet = "ISO_IR 100"
        d.SOPClassUID = d.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
        d.SOPInstanceUID = d.file_meta.MediaStorageSOPInstanceUID = f"{ROOT}.{number}.1.{k + 1}"
        d.StudyInstanceUID, d.SeriesInstanceUID, d.FrameOfReferenceUID = f"{ROOT}.{number}", f"{ROOT}.{number}.1", f"{ROOT}.{number}.2"
        d.StudyDate, d.StudyTime, d.AcquisitionDate, d.AcquisitionTime, d.StudyID, d.AccessionNumber = "20200102", "101112", "20200102", "101200", "S1", "A1"
        d.PatientName, d.PatientID, d.PatientBirthDate, d.PatientSex = "Müller^Jörg", "PID-4711", "19640812", "M"
        d.ReferringPhysicianName, d.PositionReferenceIndicator, d.Manufacturer, d.Modality = "Arzt^Ä", "", "none", "CT"
        d.ImageType, d.SeriesNumber, d.InstanceNumber = ["ORIGINAL", "PRIMARY", "AXIAL"], number, SLICES - k
        d.ImageOrientationPatient = orientation
        d.ImagePositionPatient = [float(x) for x in np.array(first) + k * np.array(step)]
        d.PixelSpacing, d.SliceThickness = [0.75, 0.5], 2.5
        d.SamplesPerPixel, d.PhotometricInterpretation, d.Rows, d.Columns = 1, "MONOCHROME2", ROWS, COLUMNS
        d.BitsAllocated, d.BitsStored, d.HighBit, d.PixelRepresentation = 16, 16, 15, 1
        d.RescaleIntercept, d.RescaleSlope = 0, 1
        d.PixelData = (np.arange(ROWS * COLUMNS, dtype=np.int16) + 10 * k).tobytes()
        out.append(d)
    return out


def file_of(d, **kw):
    b = io.BytesIO()
    d.save_as(b, enforce_file_format=True, **kw)
    return b.getvalue()


def packed(data):
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


AXIAL = series(3, [1, 0, 0, 0, 1, 0], [0, 0, 2.5], [-20, 15, 100])
c, s = np.cos(0.3), np.sin(0.3)
OBLIQUE = series(4, [float(round(x, 6)) for x in (c, s, 0, 0, 0, -1)], np.array([-s, c, 0]) * 1.5, [3, 4, 5])

rng = np.random.default_rng(49)
LABELS = rng.integers(0, 4, (SLICES, ROWS, COLUMNS)).astype(np.uint8)
LABELS[1] = 0  # a slice without frames
LABELS[4][LABELS[4] == 2] = 0  # and one without a frame of a segment
NAMES = {1: "Leber (außen)", 2: "Pancreas", 3: "Mass"}


def segments(names=NAMES):
    types = {1: codes.SCT.Liver, 2: codes.SCT.Pancreas, 3: codes.SCT.Mass}
    return [hd.seg.SegmentDescription(number, name, codes.cid7150.AnatomicalStructure, types.get(number, codes.SCT.Tissue), hd.seg.SegmentAlgorithmTypeValues.MANUAL)
            for number, name in names.items()]


def seg(pixels, kind="BINARY", source=AXIAL, names=NAMES, uid=[0], **kw):
    uid[0] += 1
    return hd.seg.Segmentation(
        source_images=source, pixel_array=pixels, segmentation_type=kind, segment_descriptions=segments(names), series_instance_uid=f"{ROOT}.9.{uid[0]}",
        series_number=50 + uid[0], sop_instance_uid=f"{ROOT}.9.{uid[0]}.1", instance_number=1, manufacturer="m", manufacturer_model_name="n", software_versions="1",
        device_serial_number="2", **kw)


cases = []


def case(name, file, labels=LABELS, source="axial", names=NAMES, **more):
    if not isinstance(file, bytes):
        file = file_of(file)
    one = dict(name=name, file=packed(file), series=source, names={str(k): v for k, v in names.items()}, **more)
    if labels is not None:
        one["labels"] = packed(labels.astype("<u2").tobytes())
    cases.append(one)


binary = seg(LABELS)
case("binary", binary)
case("binary, empty frames too", seg(LABELS, omit_empty_frames=False))
case("binary, oblique", seg(LABELS, source=OBLIQUE), source="oblique")
label_map = seg(LABELS, "LABELMAP")
case("label map", label_map)
case("label map, RLE", seg(LABELS, "LABELMAP", transfer_syntax_uid=RLELossless))
case("label map, JPEG-LS", seg(LABELS, "LABELMAP", transfer_syntax_uid=JPEGLSLossless))
wide = {1: "Liver", 300: "Pancreas", 65535: "Mass"}
lookup = np.array([0, 1, 300, 65535], dtype=np.uint16)
wide_map = seg(lookup[LABELS], "LABELMAP", names=wide)
case("label map, 16 bits", wide_map, lookup[LABELS], names=wide)
case("fractions that are none, RLE", seg(LABELS, "FRACTIONAL", transfer_syntax_uid=RLELossless))
part = np.stack([(LABELS == n) * 0.5 for n in (1, 2, 3)], axis=-1)
case("fractions", seg(part, "FRACTIONAL"), None, error="holds fractions, such as 128 of 255 in frame 1")

over = np.stack([LABELS == 1, LABELS == 2, LABELS >= 2], axis=-1).astype(np.uint8)
case("overlap", seg(over), np.where(LABELS == 2, 3, LABELS), error=f"segments overlap: 2 (Pancreas) and 3 (Mass) in {(LABELS == 2).sum()} voxels", overlap="last")


def encoded(d, syntax, implicit=False, delimited=False):
    d = pydicom.dcmread(io.BytesIO(file_of(d)))

    def each(dataset):
        for e in dataset:
            if e.VR == "SQ":
                e.is_undefined_length = delimited
                for item in e.value:
                    item.is_undefined_length_sequence_item = delimited
                    each(item)

    each(d)
    d.file_meta.TransferSyntaxUID = syntax
    return file_of(d, implicit_vr=implicit, little_endian=True)


case("implicit", encoded(binary, ImplicitVRLittleEndian, implicit=True))
case("sequences of undefined length", encoded(binary, ExplicitVRLittleEndian, delimited=True))
case("deflated", encoded(binary, DeflatedExplicitVRLittleEndian))

# Rows from the last to the first, columns from the last to the first, slices from the last to the first, part of the image only.
turned = LABELS[::-1, 5:0:-1, 9:1:-1]
lost = np.zeros_like(LABELS)
lost[:, 1:6, 2:10] = LABELS[:, 1:6, 2:10]
places = []
for k in range(SLICES - 1, -1, -1):
    at = np.array(AXIAL[k].ImagePositionPatient) + np.array([9 * 0.5, 5 * 0.75, 0])
    places.append(hd.PlanePositionSequence("PATIENT", [float(x) for x in at]))
flipped = seg(np.ascontiguousarray(turned), plane_positions=places, plane_orientation=hd.PlaneOrientationSequence("PATIENT", [-1, 0, 0, 0, -1, 0]),
              pixel_measures=hd.PixelMeasuresSequence([0.75, 0.5], 2.5, 2.5))
case("turned, and a part", flipped, lost)
beside = [hd.PlanePositionSequence("PATIENT", [float(x) for x in np.array(d.ImagePositionPatient) + [0.2, 0, 0]]) for d in AXIAL]
case("beside", seg(LABELS, plane_positions=beside, plane_orientation=hd.PlaneOrientationSequence("PATIENT", [1, 0, 0, 0, 1, 0]),
                   pixel_measures=hd.PixelMeasuresSequence([0.75, 0.5], 2.5, 2.5)), None, error="does not lie on the voxels of the scan")
outside = [hd.PlanePositionSequence("PATIENT", [float(x) for x in np.array(d.ImagePositionPatient) + [0, 0, 2.5]]) for d in AXIAL]
case("outside", seg(LABELS, plane_positions=outside, plane_orientation=hd.PlaneOrientationSequence("PATIENT", [1, 0, 0, 0, 1, 0]),
                    pixel_measures=hd.PixelMeasuresSequence([0.75, 0.5], 2.5, 2.5)), None, error="reaches outside the scan")

# What is wrong.
d = pydicom.dcmread(io.BytesIO(file_of(binary)))
d.NumberOfFrames = 400
case("too many frames", d, None, error="claims 400 frames, but describes 14")
d = pydicom.dcmread(io.BytesIO(file_of(binary)))
d.PerFrameFunctionalGroupsSequence[3].SegmentIdentificationSequence[0].ReferencedSegmentNumber = 9
case("a segment that is not described", d, None, error="frame 4 belongs to segment 9, which is not described")
d = pydicom.dcmread(io.BytesIO(file_of(binary)))
d.Rows = 3000
case("too few pixels", d, None, error="is truncated")
d = pydicom.dcmread(io.BytesIO(file_of(binary)))
d.SegmentSequence[2].SegmentNumber = 2
case("a segment twice", d, None, error="describes segment 2 twice")
d = pydicom.dcmread(io.BytesIO(file_of(binary)))
del d.PerFrameFunctionalGroupsSequence[2].PlanePositionSequence
case("a frame without a place", d, None, error="does not say where frame 3 lies")
d = pydicom.dcmread(io.BytesIO(file_of(seg(LABELS, "LABELMAP"))))
del d.SegmentSequence[-1]
case("a value that is not described", d, None, error="holds segment 3, which is not described")

with tempfile.TemporaryDirectory() as folder:
    # dcmqi turns ITK's images, one a segment, into an object: MetaImage files are simple enough to write here.
    for n, d in enumerate(AXIAL):
        with open(f"{folder}/{n}.dcm", "wb") as f:
            f.write(file_of(d))
    attributes = []
    for n in NAMES:
        with open(f"{folder}/{n}.mhd", "w") as f:
            f.write(f"ObjectType = Image\nNDims = 3\nDimSize = {COLUMNS} {ROWS} {SLICES}\nElementSpacing = 0.5 0.75 2.5\nOffset = -20 15 100\n"
                    f"TransformMatrix = 1 0 0 0 1 0 0 0 1\nElementType = MET_UCHAR\nElementDataFile = {n}.raw\n")
        with open(f"{folder}/{n}.raw", "wb") as f:
            f.write((LABELS == n).astype(np.uint8).tobytes())
        attributes.append([{"labelID": 1, "SegmentDescription": "s", "SegmentLabel": NAMES[n], "SegmentAlgorithmType": "MANUAL",
                            "SegmentedPropertyCategoryCodeSequence": {"CodeValue": "85756007", "CodingSchemeDesignator": "SCT", "CodeMeaning": "Tissue"},
                            "SegmentedPropertyTypeCodeSequence": {"CodeValue": "85756007", "CodingSchemeDesignator": "SCT", "CodeMeaning": "Tissue"}}])
    NAMES_DCMQI = {1: "Leber", 2: "Pancreas", 3: "Mass"}  # it writes names in the character set of the series, as bytes
    for n, a in zip(NAMES, attributes):
        a[0]["SegmentLabel"] = NAMES_DCMQI[n]
    with open(f"{folder}/meta.json", "w") as f:
        json.dump({"ContentCreatorName": "c", "SeriesNumber": "300", "InstanceNumber": "1", "segmentAttributes": attributes,
                   "SeriesDescription": "Segmentation", "BodyPartExamined": "", "ClinicalTrialSeriesID": "", "ClinicalTrialTimePointID": ""}, f)
    subprocess.run(["itkimage2segimage", "--skip", "1", "--inputImageList", ",".join(f"{folder}/{n}.mhd" for n in NAMES), "--inputDICOMList",
                    ",".join(f"{folder}/{n}.dcm" for n in range(SLICES)), "--outputDICOM", f"{folder}/out.dcm", "--inputMetadata", f"{folder}/meta.json"],
                   check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/out.dcm", "rb") as f:
        case("dcmqi", f.read(), names=NAMES_DCMQI)


def run_lengths(data):
    """PackBits, by pydicom, behind the table of one segment (PS3.5 annex G)."""
    packed_bits = bytes(_encode_row(data))
    return struct.pack("<16L", 1, 64, *[0] * 14) + packed_bits + b"\0" * (len(packed_bits) % 2)


def deflated(data):
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    out = z.compress(data) + z.flush()
    return out + b"\0" * (len(out) % 2)


def by_frame(d, syntax, compress, bits=False):
    """The object with each frame compressed; single bits are packed again if asked for (CP 2301), or bytes."""
    d = pydicom.dcmread(io.BytesIO(file_of(d)))
    frames = d.pixel_array
    d.PixelData = encapsulate([compress(np.packbits(f.ravel(), bitorder="little").tobytes() if bits else f.tobytes()) for f in frames])
    d["PixelData"].is_undefined_length = True
    d["PixelData"].VR = "OB"
    d.file_meta.TransferSyntaxUID = RLELossless
    data = file_of(d, implicit_vr=False, little_endian=True)
    if syntax != RLELossless:  # pydicom 3.0 does not know it, nor writes it
        value = syntax.encode() + b"\0" * (len(syntax) % 2)
        before, behind = data.split(b"\2\0\x10\0UI\x14\0" + RLELossless.encode() + b"\0", 1)
        length = struct.unpack("<L", before[140:144])[0] + len(value) - 20
        data = before[:140] + struct.pack("<L", length) + before[144:] + b"\2\0\x10\0UI" + struct.pack("<H", len(value)) + value + behind
    return data


DEFLATED_IMAGE_FRAME = "1.2.840.10008.1.2.8.1"
case("binary, RLE", by_frame(binary, RLELossless, run_lengths, bits=True))
case("binary, RLE of bytes", by_frame(binary, RLELossless, run_lengths))
case("binary, deflated frames", by_frame(binary, DEFLATED_IMAGE_FRAME, deflated, bits=True))
case("label map, deflated frames", by_frame(label_map, DEFLATED_IMAGE_FRAME, deflated))
case("label map, 16 bits, deflated frames", by_frame(wide_map, DEFLATED_IMAGE_FRAME, deflated), lookup[LABELS], names=wide)
case("binary, deflated frames that are cut short", by_frame(binary, DEFLATED_IMAGE_FRAME, lambda data: deflated(data[:-3]), bits=True), None, error="cut short")
case("binary, damaged deflated frames", by_frame(binary, DEFLATED_IMAGE_FRAME, lambda data: b"\xff" * 8, bits=True), None, error="damaged")

result = {"shape": [COLUMNS, ROWS, SLICES], "series": {"axial": [packed(file_of(d)) for d in AXIAL], "oblique": [packed(file_of(d)) for d in OBLIQUE]}, "cases": cases}


def save():
    with open("dicom_seg.json", "w") as f:
        json.dump(result, f, indent=1, ensure_ascii=False)
        f.write("\n")


save()

# What Voxsaw writes, as the others read it. Labels are 2, 5 and 300, so that segments cannot have their numbers.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "written.dcm")
    subprocess.run(["go", "test", "-count=1", "-run", "^TestSegmentationIsWrittenAsOthersReadIt$", "../volume/dicom"], env={**os.environ, "VOXSAW_WRITE_SEG": path}, check=True,
                   stdout=subprocess.DEVNULL)
    verdict = subprocess.run(["dciodvfy", path], capture_output=True, text=True).stderr
    assert "Error" not in verdict, verdict
    d = pydicom.dcmread(path)
    frames = d.pixel_array  # pydicom's: one frame a segment and slice
    numbers = [f.SegmentIdentificationSequence[0].ReferencedSegmentNumber for f in d.PerFrameFunctionalGroupsSequence]
    heights = [f.PlanePositionSequence[0].ImagePositionPatient[2] for f in d.PerFrameFunctionalGroupsSequence]
    sources = [f.DerivationImageSequence[0].SourceImageSequence[0].ReferencedSOPInstanceUID for f in d.PerFrameFunctionalGroupsSequence]
    by_pydicom = np.zeros_like(LABELS)
    for frame, number, height, source in zip(frames, numbers, heights, sources):
        k = round((height - 100) / 2.5)
        assert source == AXIAL[k].SOPInstanceUID
        by_pydicom[k][frame == 1] = number
    h = hd.seg.segread(path)
    by_highdicom = h.get_pixels_by_source_instance([x.SOPInstanceUID for x in AXIAL], combine_segments=True, assert_missing_frames_are_empty=True)
    assert np.array_equal(by_pydicom, by_highdicom)
    subprocess.run(["segimage2itkimage", "--inputDICOM", path, "--outputDirectory", folder, "--outputType", "mhd"], check=True, stdout=subprocess.DEVNULL)
    for n in (1, 2, 3):  # dcmqi: an image of each segment
        with open(f"{folder}/{n}.mhd") as f:
            header = dict(line.strip().split(" = ", 1) for line in f)
        assert (header["DimSize"], header["Offset"], header["ElementSpacing"]) == ("11 7 6", "-20 15 100", "0.5 0.75 2.5"), header
        with open(f"{folder}/{n}.zraw", "rb") as f:
            voxels = np.frombuffer(zlib.decompress(f.read()), np.int16).reshape(LABELS.shape)
        assert np.array_equal(voxels != 0, by_pydicom == n)
    assert d.SegmentSequence[1].SegmentedPropertyTypeCodeSequence[0].CodeValue == codes.SCT.Pancreas.value
    for attribute in ("PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyInstanceUID", "StudyDate", "StudyTime", "StudyID", "AccessionNumber", "FrameOfReferenceUID",
                      "ReferringPhysicianName"):
        assert d[attribute].value == AXIAL[0][attribute].value, attribute
    references = d.ReferencedSeriesSequence[0]
    assert references.SeriesInstanceUID == AXIAL[0].SeriesInstanceUID and [r.ReferencedSOPInstanceUID for r in references.ReferencedInstanceSequence] == [x.SOPInstanceUID for x in AXIAL]
    with open(path, "rb") as f:
        result["written"] = {"file": packed(f.read()), "segments": packed(by_pydicom.astype("<u2").tobytes()), "names": [s.SegmentLabel for s in d.SegmentSequence]}
save()

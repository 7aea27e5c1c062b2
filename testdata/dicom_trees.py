#!/usr/bin/python3
"""Makes dicom_trees.json: small DICOM series as scanners and archives write them, and what dcm2niix makes of them.

Tilted gantries are not among them: of those dcm2niix (2022-07-20) writes forms that do not fit the positions of the slices. Nor are signed pixels of 12 bits, whose
sign it drops.

Run with Debian's python3-pydicom, python3-nibabel and dcm2niix:  /usr/bin/python3 dicom_trees.py
"""
import base64, io, json, os, subprocess, sys, tempfile, warnings, zipfile
import nibabel, numpy, pydicom
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian

warnings.simplefilter("ignore")
CT, MR, PT = "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.4", "1.2.840.10008.5.1.4.1.1.128"
ENHANCED_CT, ENHANCED_MR = CT + ".1", MR + ".1"
ROWS, COLUMNS = 6, 8


def unit(*v):
    return numpy.array(v, float) / numpy.linalg.norm(v)


AXIAL = (unit(1, 0, 0), unit(0, 1, 0))
SAGITTAL = (unit(0, 1, 0), unit(0, 0, -1))
CORONAL = (unit(1, 0, 0), unit(0, 0, -1))
FEET_FIRST = (unit(-1, 0, 0), unit(0, 1, 0))
PRONE = (unit(-1, 0, 0), unit(0, -1, 0))
OBLIQUE = (unit(0.8, 0.6, 0), unit(-0.36, 0.48, -0.8))
DOUBLY_OBLIQUE = (unit(0.9, 0.1, 0.42), numpy.cross(unit(*numpy.cross((0.9, 0.1, 0.42), (0, 1, 0.1))), unit(0.9, 0.1, 0.42)))


def text(values, digits):
    return [f"{v:.{digits}f}".rstrip("0").rstrip(".") or "0" for v in values]


def image(series, number, k, plane, position, digits=6, spacing=(0.9, 0.7), modality="CT", rng=None, slope=1, intercept=-1024, bits=12, signed=0):
    """One slice. Pixels are random, so that no two voxels can be mistaken for each other."""
    d = Dataset()
    d.SOPClassUID = {"CT": CT, "MR": MR, "PT": PT}[modality]
    d.SOPInstanceUID = f"{series}.{number}"
    d.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL" if modality == "CT" else "M"]
    d.Modality, d.Manufacturer = modality, "Voxsaw"
    d.PatientName, d.PatientID, d.PatientBirthDate = "Mustermann^Erika", "PID-4711", "19640812"
    d.StudyDate, d.StudyTime, d.SeriesTime, d.AcquisitionTime = "20200101", "120000", "120000", "120000"
    d.SliceThickness = "5"
    d.StudyInstanceUID, d.SeriesInstanceUID, d.FrameOfReferenceUID = "1.2.3", series, "1.2.3.4"
    d.SeriesNumber, d.AcquisitionNumber, d.InstanceNumber = 4, 1, number
    if modality == "MR":
        d.EchoTime, d.RepetitionTime, d.MagneticFieldStrength = "4.6", "500", "1.5"
    d.ImagePositionPatient = text(position, digits)
    d.ImageOrientationPatient = text(numpy.concatenate(plane), digits)
    d.SamplesPerPixel, d.PhotometricInterpretation = 1, "MONOCHROME2"
    d.Rows, d.Columns, d.PixelSpacing = ROWS, COLUMNS, text(spacing, 5)
    d.BitsAllocated, d.BitsStored, d.HighBit, d.PixelRepresentation = 16, bits, bits - 1, signed
    d.RescaleSlope, d.RescaleIntercept = f"{slope:g}", f"{intercept:g}"
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    pixels = rng.integers(low, high, (ROWS, COLUMNS))
    d.PixelData = pixels.astype("<i2").tobytes()
    return d


def stack(count, distance, plane=AXIAL, start=(-50.25, 20.5, 100), step=None, jitter=0, change=None, seed=1, series="1.2.9", **kwargs):
    """A series, its files in no order."""
    rng = numpy.random.default_rng(seed)
    normal = numpy.cross(*plane)
    out = []
    for k in range(count):
        position = numpy.array(start, float) + (normal if step is None else numpy.array(step, float)) * distance * k
        position = position + normal * jitter * rng.uniform(-1, 1)
        d = image(series, count - k, k, plane, position, rng=rng, **kwargs)
        if change:
            d = change(d, k) or d
        out.append(d)
    return out


def enhanced(slices, kind):
    """The slices as frames of one file, with functional groups."""
    first = slices[0]
    d = Dataset()
    for keep in ("Modality Manufacturer PatientName PatientID PatientBirthDate StudyDate StudyTime SeriesTime StudyInstanceUID SeriesInstanceUID FrameOfReferenceUID SeriesNumber "
                 "InstanceNumber SamplesPerPixel PhotometricInterpretation Rows Columns BitsAllocated BitsStored HighBit PixelRepresentation").split():
        setattr(d, keep, getattr(first, keep))
    d.SOPClassUID, d.SOPInstanceUID, d.ImageType = kind, first.SeriesInstanceUID + ".1", ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]
    d.NumberOfFrames, d.ContentTime, d.ContentDate = len(slices), "120000", "20200101"
    shared, orientation, measures, value = Dataset(), Dataset(), Dataset(), Dataset()
    orientation.ImageOrientationPatient = first.ImageOrientationPatient
    measures.PixelSpacing, measures.SliceThickness = first.PixelSpacing, first.SliceThickness
    value.RescaleSlope, value.RescaleIntercept, value.RescaleType = first.RescaleSlope, first.RescaleIntercept, "HU"
    shared.PlaneOrientationSequence, shared.PixelMeasuresSequence, shared.PixelValueTransformationSequence = Sequence([orientation]), Sequence([measures]), Sequence([value])
    d.SharedFunctionalGroupsSequence = Sequence([shared])
    frames = []
    for n, s in enumerate(slices):
        frame, content, position = Dataset(), Dataset(), Dataset()
        content.StackID, content.InStackPositionNumber, content.DimensionIndexValues = "1", n + 1, [1, n + 1]
        position.ImagePositionPatient = s.ImagePositionPatient
        frame.FrameContentSequence, frame.PlanePositionSequence = Sequence([content]), Sequence([position])
        frames.append(frame)
    d.PerFrameFunctionalGroupsSequence = Sequence(frames)
    d.PixelData = b"".join(s.PixelData for s in slices)
    return [d]


def private(d, k):
    block = d.private_block(0x0009, "VOXSAW PRIVATE", create=True)
    inner = Dataset()
    inner.add_new(0x00200032, "DS", ["7", "7", "7"])
    block.add_new(1, "SQ", Sequence([inner, Dataset()]))
    block.add_new(2, "OB", b"\1\2\3\4")
    d.private_block(0x0021, "VOXSAW PRIVATE", create=True).add_new(3, "LO", "anything")


def slopes(d, k):
    d.RescaleSlope, d.RescaleIntercept = ["1", "2", "0.5", "4"][k % 4], "0"


def phases(d, k):
    d.AcquisitionNumber = k // 5 + 1
    d.TemporalPositionIdentifier, d.NumberOfTemporalPositions = k // 5 + 1, 2
    d.ImagePositionPatient = text((-50.25, 20.5, 100 + 2.5 * (k % 5)), 6)


def acquisitions(d, k):
    d.AcquisitionNumber = k // 5 + 1
    d.AcquisitionTime = f"1200{k // 5:02d}"
    d.ImagePositionPatient = text((-50.25, 20.5, 100 + 2.5 * (k % 5)), 6)


def kernels(d, k):
    d.ConvolutionKernel = ["SOFT", "BONE"][k // 5]
    d.ImagePositionPatient = text((-50.25, 20.5, 100 + 2.5 * (k % 5)), 6)


def spaces(d, k):
    d.FrameOfReferenceUID = f"1.2.3.4.{k}"


def half_a_space(d, k):
    if k % 2:
        del d.FrameOfReferenceUID


def studies(d, k):
    d.StudyInstanceUID = f"1.2.3.{k}"


# name: data sets, transfer syntax
TREES = {
    "axial, numbered from head to feet": (stack(6, 2.5), ExplicitVRLittleEndian),
    "axial, downwards": (stack(6, -2.5), ExplicitVRLittleEndian),
    "sagittal": (stack(6, 2.5, SAGITTAL), ExplicitVRLittleEndian),
    "coronal": (stack(6, -2.5, CORONAL), ExplicitVRLittleEndian),
    "feet first": (stack(6, 3, FEET_FIRST), ExplicitVRLittleEndian),
    "prone": (stack(6, 3, PRONE), ExplicitVRLittleEndian),
    "oblique MR": (stack(6, 3, OBLIQUE, modality="MR", intercept=0), ExplicitVRLittleEndian),
    "doubly oblique MR, downwards": (stack(6, -3, DOUBLY_OBLIQUE, modality="MR", intercept=0), ExplicitVRLittleEndian),
    "oblique, few digits": (stack(7, 3, OBLIQUE, digits=4, modality="MR", intercept=0), ExplicitVRLittleEndian),
    "jitter of 0.01 mm": (stack(8, 1, jitter=0.01), ExplicitVRLittleEndian),
    "overlapping slices": (stack(6, 1.25), ExplicitVRLittleEndian),
    "gaps between slices": (stack(6, 8), ExplicitVRLittleEndian),
    "16 bits signed": (stack(5, 2, bits=16, signed=1, intercept=0), ExplicitVRLittleEndian),
    "a slope": (stack(5, 2, slope=0.25, intercept=-10), ExplicitVRLittleEndian),
    "PET, a slope for each slice": (stack(6, 2, modality="PT", change=slopes), ExplicitVRLittleEndian),
    "implicit, private elements": (stack(5, 2, change=private), ImplicitVRLittleEndian),
    "big endian": (stack(5, 2), ExplicitVRBigEndian),
    "two phases in one series": (stack(10, 2.5, modality="MR", intercept=0, change=phases), ExplicitVRLittleEndian),
    "two acquisitions in one series": (stack(10, 2.5, change=acquisitions), ExplicitVRLittleEndian),
    "a frame of reference for each slice": (stack(6, 2.5, change=spaces), ExplicitVRLittleEndian),
    "half without a frame of reference": (stack(7, 2.5, change=half_a_space), ExplicitVRLittleEndian),
    "a study for each slice": (stack(6, 2.5, change=studies), ExplicitVRLittleEndian),
    "enhanced CT": (enhanced(stack(6, 2.5), ENHANCED_CT), ExplicitVRLittleEndian),
    "enhanced MR, oblique": (enhanced(stack(6, 2.5, OBLIQUE, modality="MR", intercept=0), ENHANCED_MR), ExplicitVRLittleEndian),
}


def write(folder, datasets, syntax):
    order = numpy.random.default_rng(5).permutation(len(datasets))
    for n, k in enumerate(order):
        d = datasets[k]
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID = d.SOPClassUID, d.SOPInstanceUID, syntax
        path = os.path.join(folder, f"IM{n:04d}")
        f = FileDataset(path, d, file_meta=meta, preamble=b"\0" * 128)
        f.is_little_endian, f.is_implicit_VR = syntax != ExplicitVRBigEndian, syntax == ImplicitVRLittleEndian
        if syntax == ExplicitVRBigEndian:
            f.PixelData = numpy.frombuffer(f.PixelData, "<u2").astype(">u2").tobytes()
        f["PixelData"].VR = "OW"
        f.save_as(path, write_like_original=False)


def main():
    out = {}
    for name, (datasets, syntax) in TREES.items():
        with tempfile.TemporaryDirectory() as root:
            source, target = os.path.join(root, "in"), os.path.join(root, "out")
            os.mkdir(source), os.mkdir(target)
            write(source, datasets, syntax)
            subprocess.run(["dcm2niix", "-b", "n", "-z", "n", "-f", "v", "-o", target, source], stdout=subprocess.DEVNULL, check=False)
            volumes = {}
            for f in sorted(os.listdir(target)):
                v = nibabel.load(os.path.join(target, f))
                data = numpy.asanyarray(v.dataobj).astype(float)
                for t in range(data.shape[3] if data.ndim == 4 else 1):
                    one = data[..., t] if data.ndim == 4 else data
                    volumes[f"{f}#{t}"] = {"shape": list(one.shape), "affine": [[round(float(x), 6) for x in row] for row in v.affine],
                                           "voxels": [round(float(x), 4) for x in one.flatten(order="F")]}
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
                for f in sorted(os.listdir(source)):
                    z.write(os.path.join(source, f), f)
            out[name] = {"files": base64.b64encode(packed.getvalue()).decode(), "dcm2niix": volumes}
            print(f"{name}: {[(k, v['shape']) for k, v in volumes.items()]}", file=sys.stderr)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "dicom_trees.json"), "w") as f:
        json.dump(out, f)


if __name__ == "__main__":
    main()

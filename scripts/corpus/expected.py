#!/usr/bin/env python3
"""Writes expected.jsonl: what other programs read in the files that list.yaml names.

NIfTI files are read by nibabel, single DICOM images by pydicom (with pylibjpeg, GDCM and pyjpegls for
what is compressed), files of several frames and whole trees by dcm2niix. A folder under "stacks" is
one volume: its slices are read by pydicom and sorted along their normal.

    pip install pydicom nibabel numpy pyyaml dcm2niix python-gdcm pyjpegls \\
        pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg pylibjpeg-rle
    python3 scripts/corpus/expected.py FOLDER [owner/name ...]

FOLDER holds git clones, FOLDER/owner/name each. Nothing of Voxsaw is used. With names of repositories,
the lines of the others stay as they are.
"""
import json, os, re, subprocess, sys, tempfile, warnings
import nibabel, numpy, pydicom, SimpleITK, yaml

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "expected.jsonl")
NIFTI = (".nii", ".nii.gz", ".hdr", ".hdr.gz")
LOSSY = tuple("1.2.840.10008.1.2.4." + n for n in ("50", "51", "91", "203"))
SEG = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")


class Clone:
    """The files of one commit."""

    def __init__(self, folder, commit):
        self.git = ["git", "-C", folder]
        names = subprocess.run(self.git + ["ls-tree", "-r", "-z", "--name-only", commit], check=True, stdout=subprocess.PIPE).stdout
        self.batch, self.commit, self.paths = None, commit, [n.decode() for n in names.split(b"\0") if n]

    def matching(self, patterns):
        """Paths that a pattern fits, in which * stands for anything, slashes too."""
        patterns = [re.compile(re.escape(p).replace(r"\*", ".*")) for p in patterns]
        return [p for p in self.paths if any(r.fullmatch(p) for r in patterns)]

    def content(self, path):
        """None where the clone lacks the file."""
        if self.batch is None or self.batch.poll() is not None:
            self.batch = subprocess.Popen(self.git + ["cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.batch.stdin.write(f"{self.commit}:{path}\n".encode())
        self.batch.stdin.flush()
        answer = self.batch.stdout.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            return None
        return self.batch.stdout.read(int(answer[2]) + 1)[:-1]

    def write(self, paths, folder):
        """Writes files below a folder, and returns those that are there."""
        there = []
        for p in paths:
            content = self.content(p)
            if content is None:
                continue
            target = os.path.join(folder, p)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as f:
                f.write(content)
            there.append(target)
        return there


def number(x):
    return float(f"{float(x):.7g}")


def describe(values, affine=None, spacing=None, shape=None):
    """A volume in numbers: its extent and place, its values and where the brighter ones lie."""
    values = numpy.asarray(values, dtype=numpy.float32)
    d = {"shape": list(shape or values.shape)}
    finite = numpy.isfinite(values)
    if finite.any():
        inside = values[finite].astype(float)
        d.update(min=number(inside.min()), max=number(inside.max()), mean=number(inside.mean()))
    if values.ndim == 3 and finite.all() and d["max"] > d["min"]:
        weights = values.astype(float) - d["min"]
        d["centre"] = [number(round((weights.sum(axis=tuple(b for b in range(3) if b != a)) * numpy.arange(values.shape[a])).sum() / weights.sum(), 4)) for a in range(3)]
    if affine is not None:
        affine = numpy.asarray(affine, dtype=float)
        d["spacing"] = [number(s) for s in (spacing or numpy.sqrt((affine[:3, :3] ** 2).sum(axis=0)))]
        extent = (tuple(d["shape"]) + (1, 1, 1))[:3]
        d["first"] = [number(round(x, 4)) for x in affine[:3, 3]]
        d["last"] = [number(round(x, 4)) for x in affine[:3, :3] @ (numpy.array(extent) - 1) + affine[:3, 3]]
    return d


def by_nibabel(path):
    image = nibabel.load(path)
    if isinstance(image, nibabel.Cifti2Image):
        image = nibabel.Nifti2Image.from_filename(path)
    values = numpy.asanyarray(image.dataobj)
    shape = image.shape
    if tuple(image.header["dim"][1:4]) == (27307, 1, 6):  # which nibabel takes for FreeSurfer's 163842 vertices
        shape = tuple(int(n) for n in image.header["dim"][1:image.header["dim"][0] + 1])
        values = values.reshape(shape, order="F")
    if values.dtype.fields or numpy.iscomplexobj(values):
        return {"reader": f"nibabel {nibabel.__version__}", "is": ["colours" if values.dtype.fields else "complex numbers"]}
    if values.ndim < 3:
        values = values.reshape(values.shape + (1,) * (3 - values.ndim))
    affine = image.affine
    d = describe(values, affine, shape=shape)
    return {"reader": f"nibabel {nibabel.__version__}", "volumes": [d]}


def rescaled(data):
    try:
        values = data.pixel_array.astype(float)
    except RuntimeError:
        values = truncated_jpeg2000(data)
    slope, intercept = data.get("RescaleSlope"), data.get("RescaleIntercept")
    return values * float(1 if slope is None else slope) + float(0 if intercept is None else intercept)


def truncated_jpeg2000(data):
    """Stored values of a code stream that ends early, which OpenJPEG's own program reads on request."""
    if "JPEG 2000" not in data.file_meta.TransferSyntaxUID.name or data.BitsAllocated != 16 or data.PixelRepresentation:
        raise
    stream = next(pydicom.encaps.generate_frames(data.PixelData, number_of_frames=1))
    with tempfile.TemporaryDirectory() as where:
        source, target = os.path.join(where, "image.j2k"), os.path.join(where, "image.rawl")
        with open(source, "wb") as f:
            f.write(stream)
        subprocess.run(["opj_decompress", "-allow-partial", "-i", source, "-o", target], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return numpy.fromfile(target, "<u2").reshape(data.Rows, data.Columns).astype(float)


def by_simpleitk(path):
    """A single image. SimpleITK's axes are DICOM's, with the first row first."""
    image = SimpleITK.ReadImage(path)
    values = SimpleITK.GetArrayFromImage(image)[0][::-1].T[..., None]
    axes = numpy.array(image.GetDirection()).reshape(3, 3) * image.GetSpacing()
    affine = numpy.eye(4)
    affine[:3, :3] = axes * [1, -1, 1]
    affine[:3, 3] = image.GetOrigin() + axes[:, 1] * (values.shape[1] - 1)
    d = describe(values, numpy.diag([-1, -1, 1, 1]) @ affine, list(image.GetSpacing()[:2]))
    return {"reader": f"SimpleITK {SimpleITK.Version_VersionString()}", "lossy": True, "volumes": [d]}


def slice_affine(data):
    """Of voxel indices (column, row from the last, slice) to RAS, the way dcm2niix lays an image."""
    row, column = numpy.array(data.ImageOrientationPatient, dtype=float).reshape(2, 3)
    dy, dx = [float(x) for x in data.PixelSpacing]
    affine = numpy.eye(4)
    affine[:3, 0], affine[:3, 1], affine[:3, 2] = row * dx, -column * dy, numpy.cross(row, column)
    affine[:3, 3] = numpy.array(data.ImagePositionPatient, dtype=float) + column * dy * (data.Rows - 1)
    return numpy.diag([-1, -1, 1, 1]) @ affine


def by_pydicom(path):
    with open(path, "rb") as f:
        if f.read(2) == b"\x1f\x8b":
            return {"reader": "gzip", "is": ["compressed with gzip"]}
    try:
        return of_pydicom(path, pydicom.dcmread(path, force=True))
    except Exception:
        try:
            return by_simpleitk(path)
        except RuntimeError:
            pass
        raise


def of_pydicom(path, data):
    facts = no_scan(data)
    if facts:
        return {"reader": f"pydicom {pydicom.__version__}", "is": facts}
    if data.get("SOPClassUID") in SEG:
        return {"reader": f"pydicom {pydicom.__version__}", **labelled(data)}
    if int(data.get("NumberOfFrames") or 1) > 1:
        volumes = by_frames(data) or by_dcm2niix(path)
        if not volumes.get("volumes"):
            return {"error": f"{data.NumberOfFrames} frames, nothing by dcm2niix"}
        return volumes
    if "ImagePositionPatient" not in data:  # an enhanced image of one frame
        place, data.RescaleSlope, data.RescaleIntercept = places(data)[0]
        data.update(place)
    values = rescaled(data).reshape(data.Rows, data.Columns)[::-1].T[..., None]
    affine, spacing = slice_affine(data), [float(data.PixelSpacing[1]), float(data.PixelSpacing[0])]
    return {"reader": f"pydicom {pydicom.__version__}", **lossy(data), "volumes": [describe(values, affine, spacing)]}


# What the header says, and what that is called below. The runner knows with which words Voxsaw
# refuses each.
CLASSES = [(" SR ", "structured report"), ("RT Structure Set", "structure set"), ("Media Storage Directory", "directory"), ("RT Dose", "dose"), ("RT Plan", "RT object"),
           ("RT Ion", "RT object"), ("RT Image", "RT object"), ("Waveform", "waveform"), ("ECG", "waveform"), ("Presentation State", "presentation state"), ("Parametric Map", "parametric map"), ("Encapsulated", "document")]


def no_scan(data):
    """What a file is that is no scan, or no SEG object; [] where nothing speaks against one."""
    name = pydicom.uid.UID(str(data.get("SOPClassUID") or data.file_meta.get("MediaStorageSOPClassUID") or "")).name
    for part, fact in CLASSES:
        if part in name + " ":
            return [fact]
    facts = []
    if "FloatPixelData" in data or "DoubleFloatPixelData" in data:
        facts.append("floating-point pixels")
    elif "PixelData" not in data:
        if not data:
            raise ValueError("no elements")
        return ["no pixels"]
    if data.get("SamplesPerPixel", 1) != 1 or data.get("PhotometricInterpretation") == "PALETTE COLOR":
        facts.append("colours")
    if "ModalityLUTSequence" in data:
        facts.append("modality LUT")
    if "MOSAIC" in (data.get("ImageType") or []):
        facts.append("mosaic")
    frames = int(data.get("NumberOfFrames") or 1)
    if frames > 1 and name in ("CT Image Storage", "MR Image Storage", "Positron Emission Tomography Image Storage"):
        facts.append("frames of a class that has one")
    if not all(any(e.value not in (None, "") for e in inside(data, k)) for k in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")):
        facts.append("no place")
    return facts


def inside(data, keyword):
    """The elements of that name, also those of the groups that frames have together or each."""
    groups = list(data.get("SharedFunctionalGroupsSequence") or []) + list(data.get("PerFrameFunctionalGroupsSequence") or [])
    return [e for d in [data] + groups for e in (d.iterall() if d is not data else d) if e.keyword == keyword]


def places(data):
    """Of each frame of an enhanced image: its place as a data set, and its slope and intercept."""
    shared = (list(data.get("SharedFunctionalGroupsSequence") or []) + [pydicom.Dataset()])[0]
    found = []
    for frame in data.get("PerFrameFunctionalGroupsSequence") or []:
        def item(sequence):
            return (frame.get(sequence) or shared.get(sequence) or [pydicom.Dataset()])[0]
        one = pydicom.Dataset()
        one.Rows, one.Columns = data.Rows, data.Columns
        one.ImagePositionPatient = item("PlanePositionSequence").ImagePositionPatient
        one.ImageOrientationPatient = item("PlaneOrientationSequence").ImageOrientationPatient
        one.PixelSpacing = item("PixelMeasuresSequence").PixelSpacing
        value = item("PixelValueTransformationSequence")
        found.append((one, float(value.get("RescaleSlope", 1)), float(value.get("RescaleIntercept", 0))))
    return found


def by_frames(data):
    """The frames of an enhanced image as one volume, None where several lie in one place or askew."""
    found = places(data)
    if not found:
        return None
    row, column = numpy.array(found[0][0].ImageOrientationPatient, dtype=float).reshape(2, 3)
    heights = [numpy.cross(row, column) @ numpy.array(one.ImagePositionPatient, dtype=float) for one, _, _ in found]
    order = numpy.argsort(heights)
    steps = numpy.diff(numpy.sort(heights))
    if len({str(one.ImageOrientationPatient) for one, _, _ in found}) > 1 or steps.min() < 1e-3 or steps.max() > 1.02 * steps.min():
        return None
    frames = data.pixel_array.astype(float)
    values = numpy.stack([(frames[n] * found[n][1] + found[n][2])[::-1].T for n in order], axis=2)
    first, last = slice_affine(found[order[0]][0]), slice_affine(found[order[-1]][0])
    first[:3, 2] = (last[:3, 3] - first[:3, 3]) / (len(order) - 1)
    return {"reader": f"pydicom {pydicom.__version__}", **lossy(data), "volumes": [describe(values, first)]}


def lossy(data):
    return {"lossy": True} if data.file_meta.get("TransferSyntaxUID") in LOSSY else {}


def labelled(data):
    """Segments of a SEG object, and the pixels that are in any of them."""
    return {"segments": sum(s.SegmentNumber > 0 for s in data.SegmentSequence), "labelled": int((data.pixel_array > 0).sum())}


def by_dcm2niix(path):
    volumes, version = [], ""
    with tempfile.TemporaryDirectory() as out:
        ran = subprocess.run(["dcm2niix", "-b", "n", "-z", "n", "-m", "n", "-i", "n", "-x", "i", "-p", "n", "-f", "%s_%d", "-o", out, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        version = re.search(r"v1\.0\.\d+", ran.stdout)
        for name in sorted(os.listdir(out)):
            if "_Tilt" in name or "_Eq" in name or not name.endswith(".nii"):
                continue  # made by interpolation
            image = nibabel.load(os.path.join(out, name))
            values = numpy.asanyarray(image.dataobj)
            if values.dtype.fields:
                continue
            values = values.reshape(values.shape[:3] + (-1,)) if values.ndim > 3 else values[..., None]
            volumes += [describe(values[..., t], image.affine) for t in range(values.shape[3])]
    return {"reader": "dcm2niix " + (version.group() if version else ""), "volumes": volumes}


def by_stacking(paths):
    slices = []
    for p in paths:
        data = pydicom.dcmread(p, force=True)
        if "PixelData" in data:
            slices.append(data)
    row, column = numpy.array(slices[0].ImageOrientationPatient, dtype=float).reshape(2, 3)
    normal = numpy.cross(row, column)
    slices.sort(key=lambda d: normal @ numpy.array(d.ImagePositionPatient, dtype=float))
    values = numpy.stack([rescaled(d)[::-1].T.astype(numpy.float32) for d in slices], axis=2)
    first, last = slice_affine(slices[0]), slice_affine(slices[-1])
    first[:3, 2] = (last[:3, 3] - first[:3, 3]) / (len(slices) - 1)
    return {"reader": f"pydicom {pydicom.__version__}", "volumes": [describe(values, first)]}


def attempt(reader, argument):
    try:
        return reader(argument)
    except Exception as e:
        return {"error": " ".join(f"{type(e).__name__}: {e}".split())[:120]}


def lines(entry, clone, progress):
    for folder, reader in [(f, "tree") for f in entry.get("trees", [])] + [(f, "stack") for f in entry.get("stacks", [])]:
        with tempfile.TemporaryDirectory() as where:
            there = clone.write([p for p in clone.paths if p.startswith(folder + "/")], where)
            result = attempt(by_dcm2niix, os.path.join(where, folder)) if reader == "tree" else attempt(by_stacking, there)
        progress(folder + "/")
        yield {"path": folder + "/", "files": len(there), **result}
    inside = tuple(f + "/" for f in entry.get("trees", []) + entry.get("stacks", []))
    for path in clone.matching(entry.get("files", [])):
        if inside and path.startswith(inside):
            continue
        content = clone.content(path)
        if content is None:
            continue
        nifti = path.lower().endswith(NIFTI)
        if not nifti and content[128:132] != b"DICM" and not path.lower().endswith((".dcm", ".ima", ".dcm.gz")):
            continue
        with tempfile.TemporaryDirectory() as where:
            beside = []
            if path.lower().endswith((".hdr", ".hdr.gz")):
                stem = re.sub(r"\.hdr(\.gz)?$", "", path, flags=re.I)
                beside = [p for p in clone.paths if re.fullmatch(re.escape(stem) + r"\.img(\.gz)?", p, re.I)]
            there = clone.write([path] + beside, where)
            if path.endswith(".hdr") and beside and beside[0].endswith(".img.gz"):  # which nibabel does not look for
                subprocess.run(["gunzip", os.path.join(where, beside[0])], check=True)
            progress(path)
            yield {"path": path, **attempt(by_nibabel if nifti else by_pydicom, there[0])}


def main():
    clones, only = sys.argv[1], sys.argv[2:]
    with open(os.path.join(HERE, "list.yaml")) as f:
        repositories = yaml.safe_load(f)
    kept = []
    if only and os.path.exists(TARGET):
        with open(TARGET) as f:
            kept = [line for line in f if json.loads(line)["repository"] not in only]
    for entry in repositories:
        name = entry["repository"]
        if only and name not in only:
            continue
        clone = Clone(os.path.join(clones, name), entry["commit"])
        progress = lambda path: print(f"{name}\t{path}", file=sys.stderr)
        kept += [json.dumps({"repository": name, **line}, ensure_ascii=False) + "\n" for line in lines(entry, clone, progress)]
    kept.sort(key=lambda line: (json.loads(line)["repository"].lower(), json.loads(line)["path"]))
    with open(TARGET + ".tmp", "w") as f:
        f.writelines(kept)
    os.replace(TARGET + ".tmp", TARGET)


if __name__ == "__main__":
    main()

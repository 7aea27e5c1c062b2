#!/usr/bin/env python3
"""The peer of `voxsaw predict` on DICOM: MONAI reads a series, segments it and writes a label map on the scan's voxels.

    python3 docs/peers/peer_dicom.py make SCAN.nii.gz dicom --shape 512x512x200      # a series of a NIfTI scan's region
    python3 docs/peers/peer_dicom.py predict dicom labels.nii.gz --weights vnet.safetensors --classes 3 --spacing 2x2x2

The steps are those of MONAI's own tutorials: LoadImage, Orientation, Spacing, ScaleIntensityRange, sliding_window_inference with Gaussian weights, Invert with linear
interpolation, arg-max, SaveImage. The weights are those that `voxsaw convert --to monai` writes. Prints one JSON line; with --reference the share of voxels that agree and the
Dice of each class with another label map, too.
"""
import argparse
import os
import time

import numpy as np

import peer


def triple(text, of=float):
    values = [of(v) for v in text.split("x")]
    return values * 3 if len(values) == 1 else values


def make(a):
    import nibabel
    import pydicom
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
    from scipy.ndimage import zoom

    scan = nibabel.as_closest_canonical(nibabel.load(a.scan))
    voxels, shape = np.asarray(scan.dataobj, np.float32), triple(a.shape, int)
    spacing = [s * n / m for s, n, m in zip(scan.header.get_zooms(), voxels.shape, shape)]
    voxels = zoom(voxels, [m / n for n, m in zip(voxels.shape, shape)], order=1, mode="nearest", grid_mode=True)
    voxels = voxels[::-1, ::-1].round().clip(-1024, 3071).astype(np.int16)  # LPS
    os.makedirs(a.out)
    study, series, frame = (generate_uid(entropy_srcs=[name]) for name in ("study", "series", "frame"))
    for k in range(shape[2]):
        d = pydicom.Dataset()
        d.file_meta = pydicom.dataset.FileMetaDataset()
        d.file_meta.MediaStorageSOPClassUID, d.file_meta.TransferSyntaxUID = CTImageStorage, ExplicitVRLittleEndian
        d.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["slice", str(k)])
        d.SOPClassUID, d.SOPInstanceUID = CTImageStorage, d.file_meta.MediaStorageSOPInstanceUID
        d.PatientName = d.PatientID = "peer"
        d.Modality, d.InstanceNumber, d.StudyInstanceUID, d.SeriesInstanceUID, d.FrameOfReferenceUID = "CT", k + 1, study, series, frame
        d.ImageOrientationPatient, d.ImagePositionPatient = [1, 0, 0, 0, 1, 0], [0, 0, round(k * spacing[2], 6)]
        d.PixelSpacing, d.SliceThickness = [round(spacing[1], 6), round(spacing[0], 6)], round(spacing[2], 6)
        d.Rows, d.Columns, d.SamplesPerPixel, d.PhotometricInterpretation = shape[1], shape[0], 1, "MONOCHROME2"
        d.BitsAllocated, d.BitsStored, d.HighBit, d.PixelRepresentation = 16, 16, 15, 1
        d.RescaleIntercept, d.RescaleSlope, d.RescaleType, d.PixelData = 0, 1, "HU", voxels[:, :, k].T.tobytes()
        d.save_as(os.path.join(a.out, f"{k:04d}.dcm"), enforce_file_format=True)


def predict(a):
    import torch
    from monai import transforms as mt
    from monai.data import decollate_batch, list_data_collate
    from monai.inferers import sliding_window_inference
    from monai.networks.nets import VNet
    from safetensors.torch import load_file

    peer.begin(a.threads)
    begun = time.perf_counter()
    net = VNet(spatial_dims=3, in_channels=1, out_channels=a.classes, act=a.act)
    net.load_state_dict({**net.state_dict(), **load_file(a.weights)})
    net.eval()
    low, high = (float(v) for v in a.window.split(","))
    before = mt.Compose([
        mt.LoadImaged("image", reader="PydicomReader", ensure_channel_first=True), mt.Orientationd("image", axcodes="RAS"),
        mt.Spacingd("image", pixdim=triple(a.spacing), mode="bilinear"),
        mt.ScaleIntensityRanged("image", low, high, -1, 1, clip=True),
    ])
    after = mt.Compose([
        mt.Invertd("pred", transform=before, orig_keys="image", nearest_interp=False, to_tensor=True), mt.AsDiscreted("pred", argmax=True),
        mt.SaveImaged("pred", output_dir=os.path.dirname(os.path.abspath(a.out)), output_postfix="", separate_folder=False, output_dtype=np.uint8, print_log=False),
    ])
    batch = list_data_collate([before({"image": a.scan})])
    with torch.inference_mode():
        batch["pred"] = sliding_window_inference(batch["image"], triple(a.crop, int), 1, net, overlap=a.overlap, mode="gaussian", sigma_scale=0.125)
    result = [after(one) for one in decollate_batch(batch)][0]
    line = {"task": "dicom to labels", "seconds": round(time.perf_counter() - begun, 2), "peak_mib": peer.peak()}
    if a.reference:
        import nibabel
        ours = np.asarray(nibabel.as_closest_canonical(nibabel.load(a.reference)).dataobj)
        affine = result["pred"].affine.numpy()
        theirs = nibabel.as_closest_canonical(nibabel.Nifti1Image(result["pred"][0].numpy().astype(np.uint8), affine))
        theirs = np.asarray(theirs.dataobj)
        line["equal"] = round(float((ours == theirs).mean()), 6)
        line["dice"] = [round(float(2 * ((ours == c) & (theirs == c)).sum() / max(1, (ours == c).sum() + (theirs == c).sum())), 4) for c in range(1, a.classes)]
    peer.line("monai, torch " + torch.__version__, **line)


def main():
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(dest="task", required=True)
    one = sub.add_parser("make")
    one.add_argument("scan")
    one.add_argument("out")
    one.add_argument("--shape", default="512x512x200")
    two = sub.add_parser("predict")
    two.add_argument("scan")
    two.add_argument("out")
    two.add_argument("--weights", required=True)
    two.add_argument("--classes", type=int, required=True)
    two.add_argument("--act", default="elu")
    two.add_argument("--spacing", default="2x2x2")
    two.add_argument("--window", default="-200,300")
    two.add_argument("--crop", default="96")
    two.add_argument("--overlap", type=float, default=0.5)
    two.add_argument("--threads", type=int, default=2)
    two.add_argument("--reference")
    a = ap.parse_args()
    make(a) if a.task == "make" else predict(a)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Writes dicom_pixels.json: what dcmtk, gdcm and pydicom say about the stored pixels of each grey image in $VOXSAW_DATA/dicom.

For each file and frame: the SHA-256 of the stored values (before rescaling) as little-endian int32, their range and sum, and every 997th value.
JPEG is decompressed with dcmtk's dcmdjpeg, JPEG-LS with dcmdjpls, JPEG 2000 and RLE with gdcmconv; the rest is read by pydicom as it is.
Run with Debian's python3-pydicom, dcmtk and libgdcm-tools.
"""
import hashlib, json, os, subprocess, sys, tempfile, warnings
import numpy as np
import pydicom

warnings.simplefilter('ignore')
root = os.environ['VOXSAW_DATA']
out = {}
for folder in ['dicom/pydicom', 'dicom/wg04']:
    for where, _, files in os.walk(os.path.join(root, folder)):
        for f in files:
            path = os.path.join(where, f)
            try:
                ds = pydicom.dcmread(path)
                syntax = ds.file_meta.TransferSyntaxUID
                if ds.SamplesPerPixel != 1 or ds.BitsAllocated == 1 or 'PixelData' not in ds or ds.PhotometricInterpretation == 'PALETTE COLOR':
                    continue
            except Exception:
                continue
            tool = None
            if syntax.is_compressed and syntax.name.startswith('Deflated'):
                tool = None
            elif syntax.name.startswith('JPEG-LS'):
                tool = ['dcmdjpls']
            elif syntax.name.startswith('JPEG 2000') or syntax.name.startswith('RLE'):
                tool = ['gdcmconv', '--raw']
            elif syntax.name.startswith('JPEG'):
                tool = ['dcmdjpeg']
            try:
                if tool:
                    with tempfile.TemporaryDirectory() as t:
                        raw = os.path.join(t, 'raw.dcm')
                        subprocess.run(tool + [path, raw], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        ds = pydicom.dcmread(raw)
                        a = ds.pixel_array
                else:
                    a = ds.pixel_array
            except Exception as e:
                print(os.path.relpath(path, root), type(e).__name__, str(e)[:100], file=sys.stderr)
                continue
            for n, frame in enumerate(a if a.ndim == 3 else [a]):
                v = frame.astype(np.int64).astype(np.uint32).astype('<u4').ravel()
                s = frame.astype(np.int64).ravel()
                out[f'{os.path.relpath(path, root)}#{n + 1}'] = dict(
                    syntax=syntax.name, sha256=hashlib.sha256(v.tobytes()).hexdigest(), shape=list(frame.shape), min=int(s.min()), max=int(s.max()),
                    sum=int(s.sum()), every997=[int(x) for x in s[::997]])
                if n == 2:
                    break
with open('dicom_pixels.json', 'w') as f:
    f.write('{\n' + ',\n'.join(f'{json.dumps(k)}: {json.dumps(out[k])}' for k in sorted(out)) + '\n}\n')

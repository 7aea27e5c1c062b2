#!/usr/bin/python3
"""Writes codecs.json: a made-up image in many compressed encodings, made by dcmtk's dcmcjpeg, dcmcjpls and dcmcrle and by gdcmconv, and the pixels that the same tools get back.

The image is a disc with an edge, a ramp, noise in one corner and a flat half, 53 x 41 pixels of 8, 12 or 16 bits. Code streams and pixels (little-endian uint16) are in base64.
"""
import base64, json, os, subprocess, tempfile, warnings
import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import generate_pixel_data_frame

warnings.simplefilter('ignore')
rows, columns = 41, 53
r = np.random.default_rng(11)
y, x = np.mgrid[:rows, :columns]
base = 0.2 + 0.5 * ((x - 20) ** 2 + (y - 18) ** 2 < 150) + 0.2 * x / columns
base[:14, :17] = r.random((14, 17))
base[28:, 10:] = 0.25


def dataset(bits, signed):
    a = np.round(base * (2**bits - 1) * 0.99)
    if signed:
        a = a - 2 ** (bits - 1)
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = '1.2.840.10008.1.2.1'
    meta.MediaStorageSOPClassUID = '1.2.840.10008.5.1.4.1.1.2'
    meta.MediaStorageSOPInstanceUID = '1.2.3.4'
    ds = FileDataset('', {}, file_meta=meta, preamble=bytes(128))
    ds.is_little_endian, ds.is_implicit_VR = True, False
    ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality = meta.MediaStorageSOPClassUID, '1.2.3.4', 'CT'
    ds.PatientName, ds.PatientID, ds.StudyInstanceUID, ds.SeriesInstanceUID = 'X', 'X', '1.2.3', '1.2.3.5'
    ds.Rows, ds.Columns, ds.SamplesPerPixel, ds.PhotometricInterpretation = rows, columns, 1, 'MONOCHROME2'
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = (8 if bits <= 8 else 16), bits, bits - 1, int(signed)
    ds.PixelData = a.astype('i1' if bits <= 8 and signed else 'u1' if bits <= 8 else '<i2' if signed else '<u2').tobytes()
    if len(ds.PixelData) % 2:
        ds.PixelData += b'\0'
    return ds


cases = []


def add(name, bits, signed, encode, decode):
    with tempfile.TemporaryDirectory() as t:
        raw, packed, back = (os.path.join(t, f) for f in ('raw.dcm', 'packed.dcm', 'back.dcm'))
        dataset(bits, signed).save_as(raw)
        subprocess.run(encode + [raw, packed], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(decode + [packed, back], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        p, b = pydicom.dcmread(packed), pydicom.dcmread(back)
        frame = next(generate_pixel_data_frame(p.PixelData, 1))
        cases.append(dict(name=f'{name}, {bits} bits{" signed" if signed else ""}', syntax=str(p.file_meta.TransferSyntaxUID), columns=columns, rows=rows, bits=bits, signed=signed,
                          stream=base64.b64encode(frame).decode(), pixels=base64.b64encode((b.pixel_array.astype(np.int64) & 0xFFFF).astype('<u2').tobytes()).decode()))


for selection in range(1, 8):
    add(f'JPEG lossless, predictor {selection}', 16, False, ['dcmcjpeg', '+el', '+sv', str(selection)], ['dcmdjpeg'])
add('JPEG lossless, selection value 1', 12, False, ['dcmcjpeg', '+e1'], ['dcmdjpeg'])
add('JPEG lossless, selection value 1', 8, False, ['dcmcjpeg', '+e1'], ['dcmdjpeg'])
add('JPEG lossless, selection value 1', 16, True, ['dcmcjpeg', '+e1'], ['dcmdjpeg'])
add('JPEG lossless, point transform 3', 16, False, ['dcmcjpeg', '+el', '+sv', '4', '+pt', '3'], ['dcmdjpeg'])
for quality in (30, 90, 100):
    add(f'JPEG baseline, quality {quality}', 8, False, ['dcmcjpeg', '+eb', '+q', str(quality)], ['dcmdjpeg'])
    add(f'JPEG extended, quality {quality}', 12, False, ['dcmcjpeg', '+ee', '+q', str(quality)], ['dcmdjpeg'])
for bits in (8, 12, 16):
    add('JPEG-LS', bits, False, ['dcmcjpls', '+el'], ['dcmdjpls'])
    for near in (1, 3, 10):
        add(f'JPEG-LS near {near}', bits, False, ['dcmcjpls', '+en', '+md', str(near)], ['dcmdjpls'])
add('JPEG-LS, own thresholds', 12, False, ['dcmcjpls', '+el', '+t1', '9', '+t2', '30', '+t3', '90', '+rs', '31'], ['dcmdjpls'])
for bits in (8, 12, 16):
    for signed in (False, True):
        add('JPEG 2000', bits, signed, ['gdcmconv', '--j2k'], ['gdcmconv', '--raw'])
# gdcmconv's long names of these options abort.
for name, bits, signed, options in [
    ('tiles of 16x20', 12, False, ['-t', '16,20']), ('1 resolution', 12, False, ['-n', '1']), ('2 resolutions', 12, False, ['-n', '2']), ('irreversible', 12, False, ['-I']),
    ('irreversible, quality 40', 12, False, ['-I', '--lossy', '-q', '40']), ('irreversible, 2 layers, tiles', 16, True, ['-I', '--lossy', '-r', '8,4', '-t', '32,32']),
    ('lossy, 3 layers', 12, False, ['--lossy', '-r', '20,10,5']), ('lossy, quality 30', 16, False, ['--lossy', '-q', '30']),
]:
    add('JPEG 2000, ' + name, bits, signed, ['gdcmconv', '--j2k'] + options, ['gdcmconv', '--raw'])
for bits in (8, 16):
    add('RLE', bits, False, ['dcmcrle'], ['dcmdrle'])
with open('codecs.json', 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c) for c in cases) + '\n]\n')

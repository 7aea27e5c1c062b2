#!/usr/bin/python3
"""Writes codecs.json: a made-up image in many compressed encodings, made by dcmtk's dcmcjpeg, dcmcjpls and dcmcrle, by gdcmconv and by OpenJPEG's opj_compress, and the pixels that the
same tools get back.

The image is a disc with an edge, a ramp, noise in one corner and a flat half, 53 x 41 pixels of 8, 12 or 16 bits. Code streams and pixels (little-endian uint16) are in base64.
"""
import base64, json, os, subprocess, tempfile, warnings
import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate, generate_pixel_data_frame

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


def keep(name, syntax, bits, signed, stream, a):
    cases.append(dict(name=f'{name}, {bits} bits{" signed" if signed else ""}', syntax=syntax, columns=a.shape[1], rows=a.shape[0], bits=bits, signed=signed,
                      stream=base64.b64encode(stream).decode(), pixels=base64.b64encode((a.astype(np.int64) & 0xFFFF).astype('<u2').tobytes()).decode()))


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def add(name, bits, signed, encode, decode):
    with tempfile.TemporaryDirectory() as t:
        raw, packed, back = (os.path.join(t, f) for f in ('raw.dcm', 'packed.dcm', 'back.dcm'))
        dataset(bits, signed).save_as(raw)
        run(*encode, raw, packed)
        run(*decode, packed, back)
        p, b = pydicom.dcmread(packed), pydicom.dcmread(back)
        keep(name, str(p.file_meta.TransferSyntaxUID), bits, signed, next(generate_pixel_data_frame(p.PixelData, 1)), b.pixel_array)


def restarted(name, bits, lines, encode, decode, units, error=0, repeat=False):
    """One image of strips that are encoded on their own, with restart markers between them: none of the encoders writes any. Units is the restart interval in the frame.
    Repeat makes all strips the same, where each would have a Huffman table of its own."""
    with tempfile.TemporaryDirectory() as t:
        raw, packed, back = (os.path.join(t, f) for f in ('raw.dcm', 'packed.dcm', 'back.dcm'))
        whole, streams = dataset(bits, False), []
        a = np.frombuffer(whole.PixelData, 'u1' if bits <= 8 else '<u2')[:rows * columns].reshape(rows, columns)
        if repeat:
            a = np.tile(a[9:9 + lines], (rows // lines, 1))
        for y in range(0, len(a), lines):
            strip, ds = a[y:y + lines], dataset(bits, False)
            ds.Rows, ds.PixelData = strip.shape[0], strip.tobytes() + bytes(strip.nbytes % 2)
            ds.save_as(raw)
            run(*encode, raw, packed)
            p = pydicom.dcmread(packed)
            streams.append(bytes(next(generate_pixel_data_frame(p.PixelData, 1))))
        out = b''
        for k, stream in enumerate(streams):
            scan = stream.rindex(b'\xff\xda')
            data = scan + 2 + int.from_bytes(stream[scan + 2:scan + 4], 'big')
            if k == 0:
                frame = next(stream.index(bytes([0xFF, m])) for m in (0xC0, 0xC3, 0xF7) if bytes([0xFF, m]) in stream[:scan])
                out = stream[:frame + 5] + len(a).to_bytes(2, 'big') + stream[frame + 7:scan] + b'\xff\xdd\0\4' + units.to_bytes(2, 'big') + stream[scan:data]
            else:
                out += bytes([0xFF, 0xD0 + (k - 1) % 8])
            out += stream[data:stream.rindex(b'\xff\xd9')]
        out += b'\xff\xd9'
        whole.file_meta.TransferSyntaxUID = p.file_meta.TransferSyntaxUID
        whole.Rows, whole.PixelData = len(a), encapsulate([out + bytes(len(out) % 2)])
        whole['PixelData'].VR, whole['PixelData'].is_undefined_length = 'OB', True
        whole.save_as(packed)
        run(*decode, packed, back)
        b = pydicom.dcmread(back).pixel_array
        assert np.abs(a.astype(int) - b.astype(int)).max() <= error
        keep(name, str(p.file_meta.TransferSyntaxUID), bits, False, out, b)


def openjpeg(options, bits, signed=False, exact=True):
    """A part of the image by opj_compress. Exact says that the encoding is lossless: then what opj_decompress makes of it must be the image."""
    with tempfile.TemporaryDirectory() as t:
        raw, packed, back = (os.path.join(t, f) for f in ('raw.rawl', 'packed.j2k', 'back.rawl'))
        a = np.round(base[7:34, 9:40] * (2**bits - 1) * 0.99).astype(np.int64) - (2 ** (bits - 1) if signed else 0)
        kind = ('<i' if signed else '<u') + ('1' if bits <= 8 else '2')
        a.astype(kind).tofile(raw)
        run('opj_compress', '-i', raw, '-o', packed, '-F', f'{a.shape[1]},{a.shape[0]},1,{bits},{"s" if signed else "u"}', *options.split(), *([] if '-n' in options else ['-n', '5']))
        run('opj_decompress', '-i', packed, '-o', back)
        b = np.fromfile(back, kind).reshape(a.shape)
        if exact:
            assert not ((a ^ b.astype(np.int64)) & (2**bits - 1)).any()
        with open(packed, 'rb') as f:
            keep(f'JPEG 2000{", irreversible" if "-I" in options else ""}, {options}', '1.2.840.10008.1.2.4.9' + ('0' if exact else '1'), bits, signed, f.read(), b)


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
restarted('JPEG lossless, restarts', 8, 5, ['dcmcjpeg', '+el', '+sv', '7', '-ho'], ['dcmdjpeg'], 5 * columns, repeat=True)
restarted('JPEG baseline, restarts', 8, 16, ['dcmcjpeg', '+eb', '-ho'], ['dcmdjpeg'], 2 * ((columns + 7) // 8), 99)
for bits, lines, encode in [(8, 5, ['dcmcjpls', '+el']), (12, 1, ['dcmcjpls', '+el']), (12, 7, ['dcmcjpls', '+en', '+md', '2'])]:
    restarted(f'JPEG-LS, restarts every {lines} lines', bits, lines, encode, ['gdcmconv', '--raw'], lines, 2)
for near in (2, 4, 5, 6, 7):
    add(f'JPEG-LS near {near}', 12, False, ['dcmcjpls', '+en', '+md', str(near)], ['dcmdjpls'])
for options in ['-M 1', '-M 2', '-M 4', '-M 8', '-M 16', '-M 32', '-M 63', '-M 5 -b 4,1024', '-p RLCP -r 8,4,1', '-p RPCL -n 3 -c [16,8]', '-p PCRL -n 3 -c [16,8],[8,8] -t 19,17', '-p CPRL -n 4 -b 16,4',
                '-n 3 -d 5,3 -t 13,9 -T 4,2', '-SOP -EPH -PLT -TLM -TP R', '-ROI c=0,U=13', '-n 4 -POC T0=0,0,1,2,1,RLCP/T0=2,0,1,4,1,PCRL']:
    openjpeg(options, 12)
openjpeg('-n 3 -M 9 -c [32,32]', 8)
openjpeg('-n 3 -M 37 -p PCRL', 16, True)
openjpeg('-I -q 40,60 -p RPCL -M 13', 12, exact=False)
openjpeg('-I -n 4 -t 17,19 -d 3,7', 8, True, exact=False)
with open('codecs.json', 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c) for c in cases) + '\n]\n')

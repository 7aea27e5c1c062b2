#!/usr/bin/env python3
"""Writes nifti_cases.json: small NIfTI files of every kind, made with nibabel, and what nibabel reads from them.

Each case has the file's bytes (and the image's, for pairs) in base64, and the shape, affine, orientation and values (i fastest), or nothing but a name where the Go
test says what error is due. Made with nibabel 5.4 from PyPI; 5.0 computes the angle of a qform near half a turn, where float32 does not tell it.
"""
import base64, gzip, io, itertools, json
import nibabel as nib
import numpy as np

r = np.random.default_rng(7)
shape = (5, 4, 3)
oblique = np.array([[-0.8, 0.1, 0.3, 40], [0.05, 0.9, -0.2, -30], [0.2, 0.15, 2.4, 7], [0, 0, 0, 1]])
rotation = np.linalg.svd(oblique[:3, :3])
rigid = np.eye(4)
rigid[:3, :3] = (rotation[0] @ rotation[2]) @ np.diag([0.7, 0.8, 2.5])
rigid[:3, 3] = [11, -22, 33]
cases = []


def add(name, image, swap=False, change=None, gz=False, cut=None, pair=False, volume=0):
    if swap:
        image = image.__class__(np.asarray(image.dataobj), image.affine, image.header.as_byteswapped())
    files = image.__class__.make_file_map()
    for holder in files.values():
        holder.fileobj = io.BytesIO()
    image.file_map = files
    image.to_file_map(files)
    header = files['header' if pair else 'image'].fileobj.getvalue()
    if change:
        header = bytearray(header)
        change(header, image.header)
        header = bytes(header)
    case = dict(name=name, volume=volume)
    load = {k: nib.FileHolder(fileobj=io.BytesIO(v.fileobj.getvalue())) for k, v in files.items()}
    load['header' if pair else 'image'] = nib.FileHolder(fileobj=io.BytesIO(header))
    back = image.__class__.from_file_map(load)
    case['affine'] = np.round(back.affine, 6).tolist()
    case['axcodes'] = ''.join(nib.aff2axcodes(back.affine))
    data = back.get_fdata()
    data = data.reshape(data.shape[:3] + (-1,))[..., max(volume - 1, 0)] if data.ndim > 3 else data.reshape(data.shape + (1,) * (3 - data.ndim))
    case['shape'] = list(data.shape)
    case['values'] = [float(x) if np.isfinite(x) else str(x) for x in data.ravel(order='F')]
    if gz:
        header = gzip.compress(header, mtime=0)
    case['file'] = base64.b64encode(header).decode()
    if pair:
        body = files['image'].fileobj.getvalue()
        case['image'] = base64.b64encode(gzip.compress(body, mtime=0) if gz else body).decode()
    cases.append(case)


def data(dtype, full=False):
    d = np.dtype(dtype)
    if d.kind == 'f':
        a = r.normal(0, 300, shape).astype(dtype)
        a[0, 0, 0] = 0
        return a
    i = np.iinfo(dtype)
    lo, hi = (i.min, i.max) if full else (max(i.min, -1000), min(i.max, 3000))
    a = r.integers(lo, hi, shape, dtype=dtype, endpoint=True)
    if full:
        a[0, 0, 0], a[1, 0, 0] = lo, hi
    return a


for dtype, swap in itertools.product(['u1', 'i1', 'u2', 'i2', 'u4', 'i4', 'u8', 'i8', 'f4', 'f8'], [False, True]):
    for version, kind in ((1, nib.Nifti1Image), (2, nib.Nifti2Image)):
        if version == 2 and dtype not in ('i2', 'f4'):
            continue
        for full in ([False, True] if np.dtype(dtype).kind != 'f' and not swap and np.dtype(dtype).itemsize < 8 else [False]):
            image = kind(data(dtype, full), oblique if full else rigid, dtype=np.dtype(dtype))
            image.header.set_data_dtype(dtype)
            add(f'nifti{version} {dtype}{" swapped" if swap else ""}{" full range" if full else ""}', image, swap)


def put(header, fmt, offset, value):
    import struct
    struct.pack_into('<' + fmt, header, offset, value)


base = lambda d='i2', a=rigid: nib.Nifti1Image(data(d), a, dtype=np.dtype(d))
scl = lambda s, i: lambda h, _: (put(h, 'f', 112, s), put(h, 'f', 116, i))
add('gzip', base(), gz=True)
add('slope 2 intercept -1024', base(), change=scl(2, -1024))
add('slope 1 intercept -1024 of uint16', base('u2'), change=scl(1, -1024))
add('slope 0.25 intercept 0.5', base(), change=scl(0.25, 0.5))
add('slope 0', base(), change=scl(0, 7))
add('slope NaN', base(), change=scl(float('nan'), 7))
add('slope 3 of float', base('f4'), change=scl(3, 1))
add('slope 1000 leaves int16', base(), change=scl(1000, 0))
nan = data('f4')
nan[2, 1, 1] = np.nan
add('NaN', nib.Nifti1Image(nan, rigid))


def form(q, s):
    return lambda h, _: (put(h, 'h', 252, q), put(h, 'h', 254, s))


both = base()
both.set_qform(oblique, 1)
both.set_sform(rigid, 2)
add('qform and sform differ', both)
add('qform alone', both, change=form(1, 0))
add('sform alone', both, change=form(0, 1))
add('no code', both, change=form(0, 0))
add('qfac 0', both, change=lambda h, _: (form(1, 0)(h, _), put(h, 'f', 76, 0)))
flipped = base('i2', np.diag([1, 1, -1, 1]) @ rigid)
flipped.set_qform(flipped.affine, 1)
add('qfac -1', flipped, change=form(1, 0))
half = base('i2', np.diag([-2.0, -3, 4, 1]))
half.set_qform(half.affine, 1)
add('rotation by half a turn', half, change=form(1, 0))
add('sheared', base('i2', np.array([[1, 0.4, 0, 0], [0, 1, 0, 0], [0, 0.1, 2, 0], [0, 0, 0, 1.0]])))
add('no code, 2 dimensions', nib.Nifti1Image(data('i2')[:, :, 0], np.diag([2, 3, 1, 1])), change=form(0, 0))
add('4 dimensions, one volume', nib.Nifti1Image(data('i2')[..., None], rigid))
add('5 dimensions, one volume', nib.Nifti1Image(data('i2')[..., None, None], rigid))
many = np.stack([data('i2') for _ in range(3)], -1)
for k in (1, 2, 3):
    add(f'volume {k} of 3', nib.Nifti1Image(many, rigid), volume=k, gz=k == 2)
extended = base()
extended.header.extensions.append(nib.nifti1.Nifti1Extension('comment', b'a comment of some length' * 10))
add('extension', extended)
add('pair', nib.Nifti1Pair(data('i2'), rigid), pair=True)
add('pair swapped', nib.Nifti1Pair(data('i2'), rigid), pair=True, swap=True)
add('pair gzip', nib.Nifti1Pair(data('f4'), rigid), pair=True, gz=True)
add('pair version 2', nib.Nifti2Pair(data('i2'), rigid), pair=True)
wrong = base()
add('bitpix wrong', wrong, change=lambda h, _: put(h, 'h', 72, 8))
add('units metre', wrong, change=lambda h, _: put(h, 'B', 123, 1))

# What programs get wrong, and nibabel reads all the same.
puts = lambda *all: lambda h, _: [put(h, *p) for p in all]
code = lambda q, s: (('h', 252, q), ('h', 254, s))
add('mended: sizeof_hdr 0', both, change=puts(('i', 0, 0)))
add('mended: sizeof_hdr of the other byte order', both, change=puts(('i', 0, 0x5c010000)))
add('mended: sizeof_hdr of the other byte order, swapped', both, swap=True, change=puts(('i', 0, 348)))
add('mended: magic of a pair', both, change=puts(('4s', 344, b'ni1')))
add('mended: magic without line ends', nib.Nifti2Image(np.asarray(both.dataobj), rigid), change=puts(('4s', 8, bytes(4))))
add('mended: vox_offset 352.5', both, change=puts(('f', 108, 352.5)))
add('mended: voxel size negative, qform', both, change=puts(('f', 84, -0.8), *code(1, 0)))
add('mended: voxel size negative, no code', both, change=puts(('f', 80, -0.7), *code(0, 0)))
add('mended: voxel size 0, qform', both, change=puts(('f', 88, 0), *code(1, 0)))
add('mended: voxel size 0, no code', both, change=puts(('f', 88, 0), *code(0, 0)))
add('mended: sform code 200', both, change=puts(*code(1, 200)))
add('mended: qform code -1', both, change=puts(*code(-1, 0)))
add('qfac 2', both, change=puts(('f', 76, 2), *code(1, 0)))
add('intercept alone', base(), change=scl(0, -1024))
add('slope infinite', base(), change=scl(float('inf'), 3))
add('slope -1', base(), change=scl(-1, 5))
add('dim[4] beyond dim[0]', base(), change=puts(('h', 48, 7)))
add('bytes behind the voxels', base(), change=lambda h, _: h.extend(b'x' * 1000))
add('vox_offset 1003', base(), change=lambda h, _: (put(h, 'f', 108, 1003), h.__setitem__(slice(352, 352), bytes(651))))
add('vector, component 2', nib.Nifti1Image(np.stack([data('f4') for _ in range(3)], -1)[..., None, :], rigid), volume=2)
infinite = data('f8')
infinite[2, 1, 1], infinite[3, 1, 1], infinite[4, 1, 1], infinite[0, 2, 1] = np.inf, -np.inf, np.nan, 1e300
add('infinite, of float64', nib.Nifti1Image(infinite, rigid))
add('slope 1e38 leaves float32', base(), change=scl(1e38, 0))
slopes = nib.Nifti2Image(data('i2'), rigid)
slopes.header.set_slope_inter(2, -7)
add('NIfTI-2 swapped with slope', slopes, swap=True)


# Quaternions near half a turn: nibabel takes a^2 = 1 - b^2 - c^2 - d^2 below three float32 epsilons for 0, in NIfTI-2 three float64 ones.
def quaternion(code, *bcd):
    return lambda h, _: [put(h, 'h', 252, 1), put(h, 'h', 254, 0)] + [put(h, code, 256 + 4 * n, x) for n, x in enumerate(bcd)]


half_turn = np.array([0.6, -0.64, 0.48])  # an axis
for a2 in (0, 1e-7, 2.3e-7, 3.4e-7, 3.8e-7, 6e-7, 1e-5):
    bcd = np.sqrt(1 - a2) * half_turn
    add(f'qform, a^2 about {a2:g}', base(), change=quaternion('f', *bcd))
add('qform, a^2 below 0', base(), change=quaternion('f', *(half_turn * np.sqrt(1 + 2e-7))))
root = np.float32(np.sqrt(0.5))
add('qform, half a turn about a diagonal', base(), change=quaternion('f', root, -root, 0))
for a2 in (1e-7, 1e-12):
    fine = nib.Nifti2Image(data('i2'), rigid)
    bcd = np.sqrt(1 - a2) * half_turn
    add(f'NIfTI-2 qform, a^2 about {a2:g}', fine, change=lambda h, _: [put(h, 'i', 344, 1), put(h, 'i', 348, 0)] + [put(h, 'd', 352 + 8 * n, x) for n, x in enumerate(bcd)])
with open('nifti_cases.json', 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c) for c in cases) + '\n]\n')

#!/usr/bin/env python3
"""Writes nifti_placing.json: NIfTI scans whose qform and sform differ in every way, and the label maps that nibabel makes with their headers.

Each case has the scan's bytes in base64, what nibabel reads as qform and sform of it with their codes, and the bytes of the label map's header (NIfTI-1) that nibabel
writes with the scan's header. Made with nibabel 5.4 and numpy 2 from PyPI.
"""
import base64, io, json
import nibabel as nib
import numpy as np

shape = (4, 3, 2)
data = np.arange(24, dtype=np.int16).reshape(shape)
a = np.diag([-0.8, 0.9, 2.5, 1.0])
a[:3, 3] = [40, -30, 7]
turn = np.array([[0.96, -0.28, 0, 0], [0.28, 0.96, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
moved = turn @ a
moved[:3, 3] += [1.5, -2.25, 3]
cases = []


def add(name, q, qcode, s, scode, kind=nib.Nifti1Image, swap=False):
    scan = kind(data, np.eye(4))
    if swap:
        scan = kind(data, np.eye(4), scan.header.as_byteswapped())
    scan.set_qform(q, qcode)
    scan.set_sform(s, scode)
    scan.header.set_xyzt_units('mm', 'sec')
    back = kind.from_bytes(scan.to_bytes())
    qform, qc = back.get_qform(coded=True)
    sform, sc = back.get_sform(coded=True)
    header = nib.Nifti1Header.from_header(back.header)
    label = nib.Nifti1Image(np.zeros(shape, np.uint8), None, header)
    whole = label.to_bytes()
    if swap:
        whole = nib.Nifti1Image(np.zeros(shape, np.uint8), None, header.as_byteswapped('<')).to_bytes()
    cases.append(dict(name=name, scan=base64.b64encode(scan.to_bytes()).decode(), header=base64.b64encode(whole[:348]).decode(),
                      qcode=int(qc), scode=int(sc), qform=None if qform is None else np.round(qform, 6).tolist(),
                      sform=None if sform is None else np.round(sform, 6).tolist()))


add('both alike', a, 1, a, 1)
add('sform in a template, qform in the scanner', moved, 1, a, 4)
add('sform aligned, qform elsewhere', moved, 2, a, 2)
add('qform alone', moved, 1, None, 0)
add('sform alone', moved, 0, a, 3)
add('no form', a, 0, a, 0)
add('big-endian', moved, 1, a, 2, swap=True)
add('NIfTI-2', moved, 2, a, 3, kind=nib.Nifti2Image)
json.dump(dict(nibabel=nib.__version__, cases=cases), open('nifti_placing.json', 'w'), indent=1)

#!/usr/bin/env python3
"""Writes htj2k.json: made-up images as HTJ2K code streams, in the form of codecs.json.

Encoders: ojph_compress (Debian's openjph-tools 0.9), and once imagecodecs 2026.3 from PyPI (OpenJPH 0.26). Decoders: OpenJPH 0.26 through imagecodecs, whose pixels are kept, and opj_decompress
(Debian's libopenjp2-tools 2.5). They must agree to the bit on reversible streams, which must also give the image again, and within 2 on irreversible ones.

No free encoder writes refinement passes, several layers, several HT sets, code-blocks of both kinds, or packed packet headers. Streams that have them are put together here, from the code-blocks of
streams with one code-block in each band: see Stream. Refinement passes are random bytes, because any bytes are valid ones. The decoders that read such a stream are given with it; most are read by
OpenHTJ2K alone, which the variable OPENHTJ2K must name.
"""
import base64, json, os, subprocess, tempfile
import imagecodecs
import numpy as np

r = np.random.default_rng(15444)
cases = []
HT = '1.2.840.10008.1.2.4.20'


def run(*command):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def image(height, width, bits, kind='mixed'):
    """A disc with an edge, a ramp, noise in one corner and a flat half, or only one of these."""
    y, x = np.mgrid[:height, :width]
    disc = (x - width * 0.4) ** 2 + (y - height * 0.45) ** 2 < (0.3 * min(width, height)) ** 2
    a = 0.2 + 0.5 * disc + 0.2 * x / width
    if kind == 'mixed':
        a[:height // 3, :width // 3] = r.random((height // 3, width // 3))
        a[2 * height // 3:, width // 5:] = 0.25
    elif kind == 'noise':
        a = r.random((height, width))
    elif kind == 'flat':
        a = np.full((height, width), 0.37)
    elif kind == 'ct':  # air that is one value, a body with noise, a little bone
        a = np.where(disc, 0.27 + r.normal(0, 0.003, a.shape), 0.0) + 0.3 * (disc & (x % 11 == 0) & (y % 7 < 3))
    elif kind == 'dots':
        a = (r.random((height, width)) < 0.03).astype(float)
    return np.round(np.clip(a, 0, 0.99) * (2**bits - 1)).astype(np.int64)


def compress(a, bits, *options):
    """A stream of ojph_compress for unsigned samples."""
    with tempfile.TemporaryDirectory() as t:
        raw, packed = os.path.join(t, 'raw.yuv'), os.path.join(t, 'packed.j2c')
        a.astype('u1' if bits <= 8 else '<u2').tofile(raw)
        run('ojph_compress', '-i', raw, '-o', packed, '-dims', '{%d,%d}' % a.shape[::-1], '-num_comps', 1, '-signed', 'false', '-bit_depth', bits, '-downsamp', '{1,1}', *options)
        with open(packed, 'rb') as f:
            return f.read()


def by_openjph(stream, shape):
    """OpenJPH does not clip reversible samples (G.1.2 of T.800 leaves it open), and imagecodecs stores their lower 8 or 16 bits: those that are out of range by little are told by the bits above."""
    bits, signed = (stream[42] & 127) + 1, stream[42] >> 7
    a = imagecodecs.htj2k_decode(stream)
    if bits % 8:
        a = a.view('i1' if bits < 8 else '<i2')
    least = -(1 << bits - 1) * signed
    return np.clip(a.astype(np.int64).reshape(shape), least, least + (1 << bits) - 1)


def by_openjpeg(stream, shape):
    bits, signed = (stream[42] & 127) + 1, stream[42] >> 7
    with tempfile.TemporaryDirectory() as t:
        packed, back = os.path.join(t, 'packed.j2k'), os.path.join(t, 'back.rawl')
        with open(packed, 'wb') as f:
            f.write(stream)
        run('opj_decompress', '-i', packed, '-o', back)
        a = np.fromfile(back, '<u1' if bits <= 8 else '<u2').astype(np.int64).reshape(shape) & 2**bits - 1
        return a - (a >> bits - 1 << bits) * signed


def by_openhtj2k(stream, shape):
    """By open_htj2k_dec of https://github.com/osamu620/OpenHTJ2K, which the variable OPENHTJ2K names. No distribution has it."""
    bits = (stream[42] & 127) + 1
    with tempfile.TemporaryDirectory() as t:
        packed, back = os.path.join(t, 'packed.j2k'), os.path.join(t, 'back.pgx')
        with open(packed, 'wb') as f:
            f.write(stream)
        run(os.environ['OPENHTJ2K'], '-i', packed, '-o', back)
        with open(back.replace('.pgx', '_00.pgx'), 'rb') as f:
            head, data = f.read().split(b'\n', 1)
    order = '>' if b' ML' in head else '<'
    return np.frombuffer(data, order + 'u' + ('1' if bits <= 8 else '2')).astype(np.int64).reshape(shape)


def keep(name, stream, a, tolerance=0, decoders=(by_openjph, by_openjpeg), lossless=True, syntax='1'):
    """Keeps a stream with the image a, which it must be again if it is lossless."""
    bits, signed = (stream[42] & 127) + 1, bool(stream[42] >> 7)
    for decode in decoders:
        b = decode(stream, a.shape)
        if lossless:
            assert (b == a).all(), (name, decode)
        elif decode != decoders[0]:
            assert np.abs(b - kept).max() <= 2 * tolerance, (name, decode, np.abs(b - kept).max())
        else:
            kept = b
    if lossless:
        kept = a
    cases.append(dict(name=f'HTJ2K{", irreversible" if tolerance else ""}, {name}, {bits} bits{" signed" if signed else ""}', syntax=HT + ('3' if tolerance else syntax), columns=a.shape[1], rows=a.shape[0],
                      bits=bits, signed=signed, stream=base64.b64encode(stream).decode(), pixels=base64.b64encode((kept & 0xFFFF).astype('<u2').tobytes()).decode(), decoders=[d.__name__[3:] for d in decoders]))


def signed(stream):
    """The same samples without the level shift: those of an unsigned image, less half their range."""
    return stream[:42] + bytes([stream[42] | 0x80]) + stream[43:]


class Bits:
    """Bits of a packet header: after a byte of ones only seven follow."""

    def __init__(self, data=b''):
        self.data, self.at, self.now, self.left, self.out = data, 0, 0, 0, []

    def get(self, n=1):
        v = 0
        for _ in range(n):
            if self.left == 0:
                self.left = 7 if self.now == 0xFF else 8
                self.now, self.at = self.data[self.at], self.at + 1
            self.left -= 1
            v = 2 * v | self.now >> self.left & 1
        return v

    def put(self, value, n=1):
        self.out += [value >> k & 1 for k in reversed(range(n))]

    def bytes(self):
        out, bits = bytearray(), list(self.out)
        while bits or out and out[-1] == 0xFF:
            n = 7 if out and out[-1] == 0xFF else 8
            byte, bits = bits[:n], bits[n:]
            out.append(int(''.join(map(str, byte + [0] * (n - len(byte)))), 2))
        return bytes(out)


class Block:
    """A code-block: its zero bit-planes, and for each layer a list of (passes, bytes), one for each segment."""

    def __init__(self, zero, layers, ht=True):
        self.zero, self.layers, self.ht = zero, layers, ht


class Stream:
    """A code stream of one tile, one layer, and one code-block at most in each band, taken apart: the main header's markers, and the blocks of the bands of each resolution, each with one segment."""

    def __init__(self, stream):
        self.markers, at = [], 2
        while stream[at + 1] != 0x90:
            n = int.from_bytes(stream[at + 2:at + 4], 'big')
            self.markers.append((stream[at + 1], bytearray(stream[at + 4:at + 2 + n])))
            at += 2 + n
        data = stream[stream.index(b'\xff\x93', at) + 2:]
        cod = self.marker(0x52)
        assert cod[2:4] == b'\0\1'
        size = self.marker(0x51)
        width, height = (int.from_bytes(size[k:k + 4], 'big') for k in (2, 6))
        self.levels, self.resolutions, ht = cod[5], [], cod[8] & 0x40
        for resolution in range(self.levels + 1):
            packet, pieces = Bits(data), []
            filled, blocks = packet.get(), []
            for band in (range(1, 4) if resolution else [0]):
                level = self.levels - max(resolution - 1, 0)
                low = 1 << level >> 1  # the first high sample
                w, h = ((n - (low if band & m else 0) + (1 << level) - 1) >> level for n, m in ((width, 1), (height, 2)))
                if w < 1 or h < 1:
                    continue
                assert w <= 4 << cod[6] and h <= 4 << cod[7]
                blocks.append(Block(0, []))
                if not filled or not packet.get():
                    continue
                zero, passes, lblock = 0, 1, 3
                while not packet.get():
                    zero += 1
                if packet.get():
                    passes = 2
                    if packet.get():
                        passes = 3 + packet.get(2)
                        if passes == 6:
                            passes += packet.get(5)
                            if passes == 37:
                                passes += packet.get(7)
                while packet.get():
                    lblock += 1
                pieces.append((blocks[-1], zero, passes, packet.get(lblock + passes.bit_length() - 1)))
            data = data[packet.at + (packet.now == 0xFF):]
            for block, zero, passes, length in pieces:
                block.zero, block.layers, block.ht = zero, [[(passes, data[:length])]], bool(ht)
                data = data[length:]
            self.resolutions.append(blocks)

    def marker(self, number):
        return next(b for n, b in self.markers if n == number)

    def blocks(self):
        return [b for blocks in self.resolutions for b in blocks if b.layers]

    def more_planes(self, n):
        """Makes room for n more bit-planes below: a guard bit and a bit of the samples each. Blocks stay at their zero planes."""
        self.marker(0x51)[36] += n
        self.marker(0x5C)[0] += n << 5

    def bytes(self, layers=1, style=None, packed=None, progression=0, tile_parts=1):
        cod = self.marker(0x52)
        cod[1], cod[2:4] = progression, layers.to_bytes(2, 'big')
        if style is not None:
            cod[8] = style
        headers, bodies = [], []
        for block in self.blocks():
            block.lblock, block.passes, block.started, block.layers = 3, 0, False, block.layers + [[]] * (layers - len(block.layers))
        orders = {0: lambda: ((l, x) for l in range(layers) for x in self.resolutions), 1: lambda: ((l, x) for x in self.resolutions for l in range(layers))}
        for layer, resolution in orders[progression]():
            h, body = Bits(), b''
            h.put(1)
            for block in resolution:
                segments = block.layers[layer] if block.layers else []
                if not block.layers or not block.passes and not segments:
                    h.put(0)
                    continue
                h.put(1 if segments else 0)
                if not segments:
                    continue
                if not block.passes:
                    h.put(1, block.zero + 1)
                passes = sum(p for p, _ in segments)
                self.put_passes(h, passes)
                widths = self.widths(block, segments)
                # With both kinds in a stream, Lblock is large enough for a zero in front of the length of a clean-up pass, and no larger than needed for others.
                mixed = cod[8] & 0xC0 == 0xC0 and block.ht and not block.started
                needed = max(max(len(b).bit_length() - w for (_, b), w in zip(segments, widths)) + mixed, 4 if mixed else 3)
                h.put((1 << max(needed - block.lblock, 0)) - 1 << 1, max(needed - block.lblock, 0) + 1)
                block.lblock = max(needed, block.lblock)
                for (_, b), w in zip(segments, widths):
                    h.put(len(b), block.lblock + w)
                    body += b
                block.passes += passes
                block.started |= any(b for _, b in segments)
            headers.append(h.bytes())
            bodies.append(body)
        out = b'\xff\x4f' + b''.join(bytes([0xFF, n]) + (len(b) + 2).to_bytes(2, 'big') + bytes(b) for n, b in self.markers)
        # Tile-parts of about as many packets each. Packed headers are in two markers, cut in the middle of those of the first tile-part.
        parts = [([headers[k] for k in ks], [bodies[k] for k in ks]) for ks in np.array_split(np.arange(len(headers)), tile_parts)]

        def marks(code, all, first=0):
            half = 4 + sum(map(len, parts[0][0])) // 2
            return b''.join(code + (len(piece) + 3).to_bytes(2, 'big') + bytes([first + n]) + piece for n, piece in enumerate((all[:half], all[half:])))
        if packed == 'PPM':
            out += marks(b'\xff\x60', b''.join(sum(map(len, h)).to_bytes(4, 'big') + b''.join(h) for h, _ in parts))
        for n, (h, b) in enumerate(parts):
            data = b''.join(b) if packed else b''.join(x + y for x, y in zip(h, b))
            more = marks(b'\xff\x61', b''.join(h), 2 * n) if packed == 'PPT' else b''
            out += b'\xff\x90\0\x0a\0\0' + (14 + len(more) + len(data)).to_bytes(4, 'big') + bytes([n, len(parts)]) + more + b'\xff\x93' + data
        return out + b'\xff\xd9'

    @staticmethod
    def put_passes(h, n):
        if n == 1:
            h.put(0)
        elif n == 2:
            h.put(2, 2)
        elif n <= 5:
            h.put(3, 2)
            h.put(n - 3, 2)
        elif n <= 36:
            h.put(15, 4)
            h.put(n - 6, 5)
        else:
            h.put(511, 9)
            h.put(n - 37, 7)

    @staticmethod
    def widths(block, segments):
        """By how many bits the lengths are wider than Lblock."""
        return [p.bit_length() - 1 for p, _ in segments]


def refinement(n):
    """Bytes that may be refinement passes: no byte of ones, so that nothing looks like a marker."""
    return bytes(r.integers(0, 255, n, dtype=np.uint8))


def parts(shape, bits, kind='mixed', *options):
    """A reversible stream of ojph_compress taken apart, and its image."""
    a = image(*shape, bits, kind)
    return Stream(compress(a, bits, '-reversible', 'true', *options)), a


# What the encoders write: sizes, bits, tiles, precincts, orders.
for name, shape, bits, kind, options in [
    ('1x1', (1, 1), 12, 'noise', ''), ('1x7', (1, 7), 16, 'noise', ''), ('9x1', (9, 1), 8, 'noise', '-num_decomps 2'), ('2x3', (2, 3), 10, 'noise', '-num_decomps 1'), ('3x5', (5, 3), 12, 'noise', '-num_decomps 5'),
    ('no levels', (23, 19), 12, 'mixed', '-num_decomps 0'), ('1 level', (23, 19), 12, 'mixed', '-num_decomps 1'), ('2 levels', (31, 27), 12, 'mixed', '-num_decomps 2'),
    ('3 levels', (31, 27), 10, 'mixed', '-num_decomps 3'), ('4 levels', (31, 27), 16, 'mixed', '-num_decomps 4'), ('5 levels', (29, 37), 16, 'mixed', '-num_decomps 5'), ('5 levels', (29, 37), 8, 'mixed', ''),
    ('1 bit', (19, 23), 1, 'noise', ''), ('noise', (33, 29), 16, 'noise', ''), ('noise', (33, 29), 8, 'noise', '-num_decomps 0'), ('flat', (40, 44), 12, 'flat', ''), ('CT', (40, 44), 12, 'ct', ''), ('CT', (30, 50), 16, 'ct', ''),
    ('dots', (33, 66), 12, 'dots', '-num_decomps 1'), ('dots', (33, 66), 16, 'dots', '-num_decomps 0'),
    ('blocks 4x4', (25, 22), 12, 'mixed', '-block_size {4,4} -num_decomps 2'), ('blocks 8x16', (41, 37), 12, 'mixed', '-block_size {8,16}'), ('blocks 32x32', (29, 37), 12, 'ct', '-block_size {32,32} -num_decomps 1'),
    ('blocks 1024x4', (5, 1030), 12, 'ct', '-block_size {1024,4} -num_decomps 0'), ('blocks 4x1024', (1027, 5), 12, 'ct', '-block_size {4,1024} -num_decomps 1'), ('blocks 256x16', (11, 261), 8, 'ct', '-block_size {256,16} -num_decomps 1'),
    ('tiles of 17x19', (29, 37), 12, 'mixed', '-tile_size {17,19} -num_decomps 2'), ('tiles of 16x20, PCRL', (29, 37), 12, 'mixed', '-tile_size {16,20} -num_decomps 3 -prog_order PCRL'),
    ('LRCP', (29, 37), 12, 'mixed', '-prog_order LRCP -block_size {16,16}'), ('RLCP', (29, 37), 12, 'mixed', '-prog_order RLCP -block_size {16,16}'), ('CPRL', (29, 37), 12, 'mixed', '-prog_order CPRL -block_size {16,16}'),
    ('precincts, RPCL', (29, 37), 12, 'mixed', '-prog_order RPCL -block_size {8,8} -precincts {8,16},{16,16},{32,16}'), ('precincts, PCRL', (29, 37), 12, 'mixed', '-prog_order PCRL -block_size {8,8} -precincts {16,8}'),
]:
    a = image(*shape, bits, kind)
    order = '2' if 'LRCP' not in options and 'RLCP' not in options and 'PCRL' not in options and 'CPRL' not in options else '1'
    keep(name, compress(a, bits, '-reversible', 'true', *options.split()), a, syntax=order)
for bits in (8, 10, 12, 16):
    a = image(41, 53, bits)
    s = compress(a, bits, '-reversible', 'true', '-num_decomps', 3)
    keep('3 levels', signed(s), a - 2 ** (bits - 1))
for name, shape, bits, kind, options in [
    ('qstep 0.0001', (29, 37), 12, 'mixed', '-qstep 0.0001'), ('qstep 0.001', (29, 37), 12, 'mixed', '-qstep 0.001'), ('qstep 0.01', (29, 37), 8, 'mixed', '-qstep 0.01'), ('qstep 0.1', (29, 37), 12, 'mixed', '-qstep 0.1'),
    ('qstep 0.0003', (29, 37), 16, 'ct', '-qstep 0.0003 -block_size {32,16}'), ('noise, no levels', (21, 33), 12, 'noise', '-qstep 0.002 -num_decomps 0'), ('tiles', (29, 37), 12, 'mixed', '-qstep 0.002 -tile_size {20,32}'),
]:
    a = image(*shape, bits, kind)
    keep(name, compress(a, bits, '-reversible', 'false', *options.split()), a, 1, lossless=False)
a = image(41, 53, 12) - 2048
keep('of imagecodecs', imagecodecs.htj2k_encode(a.astype('<i2'), reversible=True, resolutions=3), a)

# Refinement passes. OpenJPH and OpenJPEG read them.
for name, shape, planes, passes, style in [('SigProp', (21, 33), 1, 1, 0x40), ('both refinements', (37, 30), 1, 2, 0x40), ('both refinements, 3 planes', (29, 37), 3, 2, 0x40), ('causal', (29, 37), 2, 2, 0x48),
                                           ('causal SigProp', (7, 64), 1, 1, 0x48), ('both refinements, 3x1', (1, 3), 1, 2, 0x40)]:
    s, a = parts(shape, 12, 'mixed', '-num_decomps', 2)
    s.more_planes(planes)
    for block in s.blocks():
        block.layers = [[block.layers[0][0], (passes, refinement(int(r.integers(2, 600))))]]
    keep(name, s.bytes(style=style), a, lossless=False)
s, a = parts((29, 37), 12, 'dots', '-num_decomps', '0')
s.more_planes(2)
for block in s.blocks():
    block.layers = [[block.layers[0][0], (2, refinement(700))]]
keep('dots, both refinements', s.bytes(), a, lossless=False)


def layered(name, planes, sets, layers, decoders=(by_openhtj2k,)):
    """Layers by what they bring: numbers of passes, and C, the clean-up pass; A, that of an image of half the range; R, refinement; or nothing. The last clean-up pass belongs to HT set number sets."""
    s, a = parts((29, 37), 12, 'mixed', '-num_decomps', 2)
    coarse = Stream(compress(a >> 1, 12, '-reversible', 'true', '-num_decomps', 2))
    s.more_planes(planes)
    for block, other in zip(s.blocks(), coarse.blocks(), strict=True):
        pieces = dict(C=block.layers[0][0][1], A=other.layers[0][0][1])
        block.zero -= sets
        block.layers = [[(n, b'' if not what else refinement(int(r.integers(2, 300))) if what == 'R' else pieces[what]) for n, what in layer] for layer in layers]
    for order in (0, 1):
        keep(name + ['', ', RLCP'][order], s.bytes(len(layers), progression=order), a, lossless=not planes, decoders=decoders)


# MagRef is read backwards: a last byte of 7F has a stuffed bit.
s, a = parts((29, 37), 12, 'mixed', '-num_decomps', 2)
s.more_planes(1)
for block in s.blocks():
    block.layers = [[block.layers[0][0], (2, refinement(150) + b'\x7f')]]
keep('both refinements, a stuffed bit at the end', s.bytes(), a, lossless=False)
# Several layers. Of the decoders, only OpenHTJ2K reads them, and placeholders: sets of no bytes, for planes that are not coded.
layered('SigProp and MagRef in layers of their own', 2, 0, [[(1, 'C')], [(1, 'R')], [(1, 'R')]])
layered('refinement in the third layer', 2, 0, [[(1, 'C')], [], [(2, 'R')]])
layered('clean-up in the second layer', 2, 0, [[], [(1, 'C'), (2, 'R')]])
layered('placeholders', 1, 1, [[(4, 'C'), (2, 'R')]])
layered('two sets of placeholders', 1, 2, [[(7, 'C')]])
layered('placeholders in a layer of their own', 1, 1, [[(3, '')], [(1, 'C'), (1, 'R')]])
layered('placeholders in part of a layer', 1, 1, [[(2, '')], [(2, 'C'), (2, 'R')]])
layered('placeholders in three layers', 1, 2, [[(1, '')], [(4, '')], [(2, 'C'), (2, 'R')]])
# Several sets, which none of the decoders reads. The last one counts, and is lossless.
layered('two sets', 0, 1, [[(1, 'A'), (2, 'R')], [(1, 'C')]], [])
layered('two sets, the first without refinement', 0, 1, [[(1, 'A')], [(2, 'R'), (1, 'C')]], [])
layered('three sets, one of them empty', 0, 2, [[(1, 'A'), (1, 'R')], [(1, 'R'), (1, ''), (2, ''), (1, 'C')]], [])


def mixed(name, shape, levels, which, layers=1):
    """A stream in which some of the code-blocks, by their numbers, are classic ones, of opj_compress."""
    s, a = parts(shape, 12, 'mixed', '-num_decomps', levels)
    with tempfile.TemporaryDirectory() as t:
        raw, packed = os.path.join(t, 'raw.rawl'), os.path.join(t, 'packed.j2k')
        a.astype('<u2').tofile(raw)
        run('opj_compress', '-i', raw, '-o', packed, '-F', f'{shape[1]},{shape[0]},1,12,u', '-n', levels + 1)
        with open(packed, 'rb') as f:
            classic = Stream(f.read())
    planes = [[(m.marker(0x5C)[0] >> 5) + (e >> 3) - 1 for e in m.marker(0x5C)[1:]] for m in (s, classic)]
    more = max(max(p - q for p, q in zip(*planes)), 0)
    s.markers = [(n, classic.marker(0x5C) if n == 0x5C else b) for n, b in s.markers]
    s.marker(0x5C)[0] += more << 5
    s.marker(0x50)[4] |= 0xC0
    number = 0
    for blocks, others in zip(s.resolutions, classic.resolutions, strict=True):
        for n, (block, other) in enumerate(zip(blocks, others, strict=True)):
            if which(number):
                passes, data = other.layers[0][0]
                other.zero += more
                if layers > 1:  # the bytes of a layer may end anywhere
                    other.layers = [[(passes // 2, data[:len(data) // 2])], [(passes - passes // 2, data[len(data) // 2:])]]
                blocks[n] = other
            elif block.layers:
                block.zero += planes[1][number] + more - planes[0][number]
                block.layers = [[]] * (number % layers) + block.layers
            number += 1
    keep(name, s.bytes(layers, style=0xC0), a, decoders=[by_openhtj2k])


mixed('both kinds of code-blocks', (29, 37), 3, lambda n: n % 2)
mixed('both kinds of code-blocks, one of them classic', (29, 37), 2, lambda n: n == 6)
mixed('both kinds of code-blocks, all classic', (29, 37), 2, lambda n: True)
mixed('both kinds of code-blocks, none classic', (29, 37), 2, lambda n: False)
mixed('both kinds of code-blocks, small', (3, 2), 1, lambda n: n % 2)
mixed('both kinds of code-blocks, two layers', (29, 37), 3, lambda n: n % 3, 2)
# Packed packet headers. OpenJPH does not read them.
for packed in ('PPM', 'PPT'):
    s, a = parts((29, 37), 12, 'mixed', '-num_decomps', 3)
    keep('packet headers in ' + packed, s.bytes(packed=packed), a, decoders=[by_openjpeg, by_openhtj2k])
    keep(f'packet headers in {packed}, two tile-parts', s.bytes(packed=packed, tile_parts=2), a, decoders=[by_openjpeg])
with open('htj2k.json', 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c) for c in cases) + '\n]\n')
print(len(cases))

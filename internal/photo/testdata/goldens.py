#!/usr/bin/env python3
"""Makes the photographs of testdata/files and what Pillow makes of them.

    pip install pillow==13.0.0 numpy==2.4.6
    apt-get install libjpeg-turbo-progs        # cjpeg: kinds of JPEG that Pillow does not write
    python3 goldens.py

Nothing here is a photograph: waves, edges and noise from a seeded generator. For a file NAME,
NAME.rgb.png holds its pixels, and NAME.WIDTHxHEIGHT.FIT.png those that Pillow's BILINEAR makes
(crop as torchvision's Resize and CenterCrop compute it).
"""
import os
import subprocess

import numpy as np
from PIL import Image, ImageOps

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")


def scene(width, height, seed, channels=3):
    """Slow waves, a few hard edges and a little noise."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        fx, fy, phase = r.uniform(0.02, 0.2, 3)
        p = 127 + 90 * np.sin(fx * x + fy * y + 6 * phase)
        for _ in range(3):
            x0, y0 = r.integers(0, width), r.integers(0, height)
            p[y0:y0 + height // 3, x0:x0 + width // 3] += r.uniform(-80, 80)
        planes.append(p + r.normal(0, 1, p.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def path(name):
    return os.path.join(HERE, name)


def white(im):
    """Transparency over white, exactly."""
    if im.mode in ("RGBA", "LA", "PA") or "transparency" in im.info:
        im = im.convert("RGBA")
        im = Image.alpha_composite(Image.new("RGBA", im.size, "white"), im)
    return im.convert("RGB")


def decoded(name):
    return white(ImageOps.exif_transpose(Image.open(path(name))))


def golden(name, *sizes):
    im = decoded(name)
    im.save(path(name + ".rgb.png"), optimize=True)
    for width, height, fit in sizes:
        if fit == "warp":
            out = im.resize((width, height), Image.BILINEAR)
        else:
            if im.width * height > im.height * width:
                w, h = int(height * im.width / im.height), height
            else:
                w, h = width, int(width * im.height / im.width)
            big = im.resize((w, h), Image.BILINEAR)
            left, top = int(round((w - width) / 2)), int(round((h - height) / 2))
            out = big.crop((left, top, left + width, top + height))
        out.save(path(f"{name}.{width}x{height}.{fit}.png"), optimize=True)


def cjpeg(name, pixels, *flags):
    ppm = path("scene.ppm")
    Image.fromarray(pixels).save(ppm)
    subprocess.run(["cjpeg", "-outfile", path(name), *flags, ppm], check=True)
    os.remove(ppm)


def main():
    os.makedirs(HERE, exist_ok=True)
    for f in os.listdir(HERE):
        os.remove(path(f))
    large = Image.fromarray(scene(112, 83, 1))
    small = scene(61, 47, 2)
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        for kind, progressive in (("baseline", False), ("progressive", True)):
            name_ = f"{kind}-{name}.jpg"
            large.save(path(name_), quality=85, subsampling=subsampling, progressive=progressive)
            golden(name_, *(() if progressive else ((40, 40, "warp"), (130, 120, "warp"), (30, 30, "crop"), (60, 25, "crop"), (25, 60, "crop"))))
    Image.fromarray(small).save(path("optimised-420-low.jpg"), quality=20, optimize=True, restart_marker_blocks=2)
    golden("optimised-420-low.jpg")
    Image.fromarray(scene(97, 64, 3, 1)[..., 0]).save(path("gray.jpg"), quality=90)
    golden("gray.jpg", (43, 43, "warp"))
    cjpeg("440.jpg", small, "-sample", "1x2", "-quality", "90")
    golden("440.jpg", (40, 30, "warp"))
    cjpeg("411.jpg", small, "-sample", "4x1", "-quality", "90")
    golden("411.jpg", (40, 30, "warp"))
    cjpeg("410.jpg", small, "-sample", "4x2", "-quality", "90")
    golden("410.jpg", (40, 30, "warp"))
    cjpeg("luma-less.jpg", small, "-sample", "1x1,2x2,2x2", "-quality", "90")  # more chroma than luma
    golden("luma-less.jpg")
    cjpeg("rgb.jpg", small, "-rgb", "-quality", "90")
    golden("rgb.jpg")
    with open(path("scans.txt"), "w") as f:
        f.write("0;\n1;\n2;\n")
    cjpeg("one-component-a-scan.jpg", small, "-scans", path("scans.txt"), "-quality", "90")
    golden("one-component-a-scan.jpg")
    os.remove(path("scans.txt"))
    cjpeg("progressive-restarts.jpg", small, "-progressive", "-restart", "2B", "-sample", "2x1")
    golden("progressive-restarts.jpg")
    cjpeg("sixteen-bit-tables.jpg", small, "-quality", "3")  # SOF1
    golden("sixteen-bit-tables.jpg")
    cjpeg("arithmetic.jpg", small, "-arithmetic")
    Image.fromarray(scene(40, 33, 4, 4), "CMYK").save(path("cmyk.jpg"), quality=90)
    golden("cmyk.jpg", (20, 20, "warp"))
    # The same bytes called YCCK: only the transform of the Adobe marker differs.
    data = bytearray(open(path("cmyk.jpg"), "rb").read())
    data[data.index(b"Adobe") + 11] = 2
    open(path("ycck.jpg"), "wb").write(data)
    golden("ycck.jpg")
    for o in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = o
        Image.fromarray(small).save(path(f"exif-{o}.jpg"), quality=95, subsampling=2, exif=exif.tobytes())
        golden(f"exif-{o}.jpg", (31, 20, "warp"), (21, 30, "crop"))
    exif = Image.Exif()
    exif[0x0112] = 6
    rgba = np.dstack([small, scene(61, 47, 5, 1)])
    Image.fromarray(small).save(path("turned.png"), exif=exif)
    golden("turned.png", (30, 30, "warp"))
    Image.fromarray(small).save(path("turned.tif"), exif=exif)
    golden("turned.tif")
    Image.fromarray(small).save(path("turned.webp"), exif=exif, lossless=True)
    golden("turned.webp")
    Image.fromarray(rgba, "RGBA").save(path("alpha.png"))
    golden("alpha.png")
    Image.fromarray(rgba, "RGBA").convert("LA").save(path("grey-alpha.png"))
    golden("grey-alpha.png")
    Image.fromarray(small).quantize(31).save(path("palette.png"), transparency=3)
    golden("palette.png")
    Image.fromarray(small).save(path("picture.bmp"))
    golden("picture.bmp")
    Image.fromarray(small).save(path("lossy.webp"), quality=90)
    golden("lossy.webp")
    Image.fromarray(small).save(path("deflated.tif"), compression="tiff_adobe_deflate")
    golden("deflated.tif")
    frames = [Image.fromarray(scene(61, 47, s)).quantize(64) for s in (6, 7)]
    frames[0].save(path("animated.gif"), save_all=True, append_images=frames[1:], duration=100, loop=0)
    golden("animated.gif")
    # 16 bits a sample, which Pillow does not write in colour: the upper byte is what is wanted.
    wide = scene(61, 47, 8).astype(np.uint16) * 256 + 77
    write_png16(path("sixteen.png"), wide)
    Image.fromarray((wide >> 8).astype(np.uint8)).save(path("sixteen.png.rgb.png"))


def write_png16(name, pixels):
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + pixels[y].astype(">u2").tobytes() for y in range(height))
    with open(name, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)))
        f.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    main()

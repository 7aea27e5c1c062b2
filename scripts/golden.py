"""The parts of golden.sh that are no command of the program: made-up photographs, and the comparison.

    python3 golden.py photographs FOLDER    writes 24 PNG files in two classes
    python3 golden.py compare OLD NEW       compares two folders of runs
"""
import json
import os
import random
import re
import struct
import sys
import zlib

# What is different every time, or belongs to the program and not to its results.
VOLATILE = re.compile(r"second|_s$|_s\b|per_s|time|date|version|program|host|revision|build|machine|peak|memory|mib|resumed|pid|busy|waited|modified|relative_to|text_digest", re.I)
SKIPPED = re.compile(r"\.(html|png|svg|log)$|/report_files/|/\.voxsaw|report\.md$|batch\.json$|/manifest\.json$")


def png(path, width, height, pixels):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes(pixels[y * width * 3:(y + 1) * width * 3]) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def photographs(folder):
    rng = random.Random(1)
    width, height = 56, 48
    for kind in ("disc", "square"):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for n in range(12):
            x0, y0, r = rng.uniform(15, 40), rng.uniform(15, 33), rng.uniform(6, 13)
            ink, paper = [rng.randrange(256) for _ in range(3)], [rng.randrange(256) for _ in range(3)]
            pixels = []
            for y in range(height):
                for x in range(width):
                    dx, dy = abs(x - x0), abs(y - y0)
                    inside = dx * dx + dy * dy < r * r if kind == "disc" else max(dx, dy) < r
                    shade = (x + y) / (width + height)
                    pixels += [min(255, max(0, int(c * (0.6 + 0.4 * shade)) + rng.randrange(-8, 9))) for c in (ink if inside else paper)]
            png(os.path.join(folder, kind, f"{n:02d}.png"), width, height, pixels)


def cleaned(value, key=""):
    """JSON without what is different every time."""
    if isinstance(value, dict):
        return {k: cleaned(v, k) for k, v in value.items() if not VOLATILE.search(k)}
    if isinstance(value, list):
        return [cleaned(v, key) for v in value]
    return value


def safetensors(data):
    """The tensors, and the header without what is different every time."""
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", {})
    about = [(key, cleaned_yaml(text)) for key, text in sorted(meta.items()) if not VOLATILE.search(key)]
    return repr((sorted(header.items()), about)), data[8 + n:]


def cleaned_yaml(text):
    return [line.split(" #")[0].rstrip() for line in text.splitlines()
            if line.strip() and not line.lstrip().startswith("#") and not VOLATILE.search(line.split(":")[0])]


def content(root, path):
    """What is compared of a file."""
    path = os.path.join(root, path)
    with open(path, "rb") as f:
        data = f.read()
    if not path.endswith((".safetensors", ".gz", ".nii", ".vox")):
        data = data.replace(os.path.abspath(root).encode(), b"ROOT")
    if path.endswith(".safetensors"):
        return safetensors(data)
    if path.endswith((".nii.gz", ".nii")):
        raw = zlib.decompress(data, 47) if path.endswith(".gz") else data
        start = int(struct.unpack("<f", raw[108:112])[0])
        return raw[:108] + raw[112:348], raw[start:]  # without the extension, which names the version
    if path.endswith((".json", ".jsonl")):
        return [cleaned(json.loads(line)) for line in ([data] if path.endswith(".json") else data.splitlines())]
    if path.endswith(".csv"):
        rows = [line.split(",") for line in data.decode().splitlines()]
        keep = [i for i, name in enumerate(rows[0]) if not VOLATILE.search(name)] if rows else []
        return [[row[i] for i in keep if i < len(row)] for row in rows]
    if path.endswith(".stdout"):
        text = data.decode()
        try:
            return cleaned(json.loads(text))
        except ValueError:
            return re.sub(r"[0-9.]+ (ms|s|min|h)\b( [0-9]+ s)?|[0-9.]+ (puzzles|crops|voxels|MiB|GiB)[^ ,;]*", "TIME", text)
    if path.endswith((".yaml", ".yml")):
        return cleaned_yaml(data.decode())
    return data


def files(root):
    found = set()
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if not SKIPPED.search("/" + path):
                found.add(path)
    return found


def compare(old, new):
    a, b = files(old), files(new)
    lines = [f"only in the old: {p}" for p in sorted(a - b)] + [f"only in the new: {p}" for p in sorted(b - a)]
    for path in sorted(a & b):
        x, y = content(old, path), content(new, path)
        if x != y:
            where = ""
            if path.endswith(".safetensors"):
                where = " (weights)" if x[1] != y[1] else " (header)"
            lines.append(f"differs: {path}{where}")
    print("\n".join(lines + [f"{len(a & b)} files compared, {len(lines)} differences"]))
    return 1 if lines or not a & b else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "photographs":
        photographs(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    else:
        sys.exit(__doc__)

#!/usr/bin/env python3
"""Compiles the kernels for GPUs; needs no GPU and no CUDA toolkit.

    python3 internal/device/cuda/kernels/build.py           compile, check, write built/*.gz
    python3 internal/device/cuda/kernels/build.py --check   compile, check, compare with built/*.gz
    python3 internal/device/cuda/kernels/build.py --digests compare digests
    python3 internal/device/cuda/kernels/build.py --quick   and compile for one architecture, another each day

NVRTC makes PTX of all.cu and ptxas makes cubins of that, both from scripts/cuda-toolchain.py. There
is a cubin for each architecture below, and PTX of the first one for GPUs that come later. The
build fails where a kernel spills registers, has a stack frame, needs more static shared memory
than a block may have, or where ptxas makes products of four warps wait for each other.
built/resources.json says what ptxas found for sm_90a, for docs/gpu-engine.md, built/instructions.txt what
its PTX is made of, for the tests.
built/digests.json has the SHA-256 of all that the machine code was made of, and of what was made: with
it --digests notices sources that were changed and not compiled, without compiling them.
"""
import ctypes
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
CUDA = ROOT / ".cuda/nvidia"
ARCHITECTURES = ["80", "86", "89", "90a"]
# The cubin with line numbers: it is twice as large by them. Profilers and compute-sanitizer name the sources' lines with it.
WITH_LINES = ["90a"]
SHARED_LIMIT = 227 << 10


def ptx(architecture):
    """PTX of all.cu, from NVRTC."""
    nvrtc = ctypes.CDLL(str(CUDA / "cuda_nvrtc/lib/libnvrtc.so.12"))
    program = ctypes.c_void_p()
    source = (HERE / "all.cu").read_bytes()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"all.cu", 0, None, None):
        sys.exit("build.py: NVRTC refuses the program")
    options = [f"--gpu-architecture=compute_{architecture}".encode(), b"--std=c++17", f"-I{HERE}".encode(), b"-default-device"] + [b"-lineinfo"] * (architecture in WITH_LINES)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        sys.exit(f"build.py: compute_{architecture}:\n{log.value.decode()}")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    # comments name the compiler's build, .file folders and times: both are left out, so that the text can be compared
    lines = "\n".join(l for l in text.value.decode().splitlines() if not l.startswith("//")) + "\n"
    return re.sub(r'(?m)^(\s*\.file\s+\d+) "(?:[^"]*/)?([^"/]+)".*$', r'\1 "\2"', lines)


def cubin(architecture, text, folder):
    """A cubin and what ptxas says about each kernel."""
    source, target = folder / f"{architecture}.ptx", folder / f"{architecture}.cubin"
    source.write_text(text)
    lines = ["-lineinfo"] * (architecture in WITH_LINES)
    done = subprocess.run([CUDA / "cuda_nvcc/bin/ptxas", "-v", "-O3", *lines, f"-arch=sm_{architecture}", source, "-o", target], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"build.py: ptxas for sm_{architecture}:\n{done.stderr}")
    if slow := [l for l in done.stderr.splitlines() if "serialized" in l]:
        sys.exit(f"build.py: ptxas for sm_{architecture} makes products wait for each other:\n" + "\n".join(slow))
    return target.read_bytes(), resources(done.stderr)


def resources(log):
    """Per kernel: registers, bytes of stack, spills and static shared memory."""
    found, kernel = {}, None
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = found.setdefault(m[1], {})
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            kernel.update(stack=int(m[1]), spilled=int(m[2]) + int(m[3]))
        elif m := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernel.update(registers=int(m[1]), shared=int(shared[1]) if shared else 0)
    return found


def instructions(text):
    """The different instructions of a PTX text: after a brace or a predicate, if there is one."""
    return sorted({m[1] for m in re.finditer(r"(?m)(?:^|[{;])\s*(?:@!?[%\w]+\s+)?([a-z]\w*(?:\.[\w:]+)*)[\s;]", text)})


def digest(data):
    return hashlib.sha256(data).hexdigest()


def digests(built):
    """What built/digests.json says: of the sources, of the compilers' versions, of what was made."""
    sources = {p.name: digest(p.read_bytes()) for p in sorted([*HERE.glob("*.cu"), *HERE.glob("*.h"), HERE / "build.py"])}
    sources["compilers"] = digest((CUDA.parent / "wheels.txt").read_bytes())
    return (json.dumps({"of": sources, "made": {name: digest(data) for name, data in sorted(built.items())}}, indent=1) + "\n").encode()


def read(path):
    """What lies in built, decompressed."""
    data = path.read_bytes() if path.exists() else b""
    return gzip.decompress(data) if path.suffix == ".gz" and data else data


def quick(compiling):
    """Compares digests, and may compile for the architecture whose turn it is."""
    folder = HERE / "built"
    built = {p.name.removesuffix(".gz"): read(p) for p in folder.iterdir() if p.name != "digests.json"}
    if digests(built) != read(folder / "digests.json"):
        sys.exit("build.py: the sources, the compilers or built/ are not those of built/digests.json: run build.py and commit built/")
    if not compiling:
        return print("digests agree")
    architecture = ARCHITECTURES[int(time.time() // 86400) % len(ARCHITECTURES)]
    with tempfile.TemporaryDirectory() as name:
        image, found = cubin(architecture, ptx(architecture), pathlib.Path(name))
    refuse(architecture, found)
    if image != built[f"sm_{architecture}.cubin"]:
        sys.exit(f"build.py: sm_{architecture}.cubin is not what the sources give: run build.py and commit built/")
    print(f"digests agree; sm_{architecture} compiled again: {len(found)} kernels, nothing spilled, the same bytes")


def refuse(architecture, found):
    """Ends the program where a kernel spills, has a stack frame or too much shared memory."""
    wrong = [f"sm_{architecture}: {kernel}: {r['stack']} bytes of stack, {r['spilled']} spilled, {r['shared']} of shared memory"
             for kernel, r in found.items() if r["stack"] or r["spilled"] or r["shared"] > SHARED_LIMIT]
    if wrong:
        sys.exit("build.py: no kernel may spill or have a stack frame:\n" + "\n".join(wrong))


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] not in ([], ["--check"], ["--digests"], ["--quick"]):
        sys.exit(__doc__)
    subprocess.run([sys.executable, ROOT / "scripts/cuda-toolchain.py"], check=True, stdout=subprocess.DEVNULL)
    if sys.argv[1:] in (["--digests"], ["--quick"]):
        return quick(sys.argv[1] == "--quick")
    built = {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        texts = dict(zip(ARCHITECTURES, pool.map(compiled, ARCHITECTURES)))
        results = dict(zip(ARCHITECTURES, pool.map(lambda a: cubin(a, texts[a], folder), ARCHITECTURES)))
    built["kernels.ptx"] = texts[ARCHITECTURES[0]].encode()
    for a, (image, found) in results.items():
        built[f"sm_{a}.cubin"] = image
        refuse(a, found)
    version = re.search(r"\.version (\S+)", texts[ARCHITECTURES[0]])[1]
    if tuple(map(int, version.split("."))) > (8, 8):
        sys.exit(f"build.py: PTX of ISA {version}: drivers of CUDA 12 read 8.8 at most")
    built["instructions.txt"] = ("\n".join(instructions(texts["90a"])) + "\n").encode()
    built["resources.json"] = (json.dumps(results["90a"][1], indent=1, sort_keys=True) + "\n").encode()
    built["digests.json"] = digests(built)
    folder, differ = HERE / "built", []
    folder.mkdir(exist_ok=True)
    for name, data in built.items():
        path = folder / (name if name.endswith((".json", ".txt")) else name + ".gz")
        if read(path) == data:
            continue
        differ.append(path.name)
        if not check:
            path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
    if check and differ:
        sys.exit("build.py: not what the sources give: " + ", ".join(differ) + ": run build.py and commit built/")
    size = sum(p.stat().st_size for p in folder.iterdir())
    print(f"{len(results['90a'][1])} kernels, {len(ARCHITECTURES)} architectures, PTX ISA {version}, {size / 1024:.0f} KiB compressed; at most "
          f"{max(r['registers'] for r in results['90a'][1].values())} registers on sm_90a, nothing spilled")


def compiled(architecture):
    """ptx in a process of its own: NVRTC compiles one program at a time."""
    done = subprocess.run([sys.executable, __file__, "--ptx", architecture], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ptx"]:
        sys.stdout.write(ptx(sys.argv[2]))
    else:
        main()

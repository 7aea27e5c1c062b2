#!/usr/bin/env python3
"""Fetches what building with -tags gpu needs, without a CUDA toolkit and without a GPU.

    python3 scripts/cuda-toolchain.py            fetch into .cuda/ (once; some 130 MB)
    python3 scripts/cuda-toolchain.py --cflags   print the flags for cgo
    python3 scripts/cuda-toolchain.py --nccl     fetch NCCL, too (once; another 0.3 GB), compare its header and library
                                                 with internal/device/cuda/nccl_symbols.h, and print its path
    python3 scripts/cuda-toolchain.py --cudnn    fetch cuDNN, too (once; another 1.4 GB), compare its headers with
                                                 what the program has of them, and print the library's path
    python3 scripts/cuda-toolchain.py --driver   fetch Debian's libcuda1 (3 MB), for tests of what a driver without a GPU
                                                 says, and print the library's path
    CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags) go build -tags gpu ./cmd/voxsaw

Three wheels of PyPI, pinned, give the headers (cuda.h), NVRTC (CUDA C++ to PTX) and ptxas (PTX to
machine code). They are 12.x on purpose: gorgonia.org/cu does not compile with headers of 13, and
drivers of CUDA 12 refuse PTX that a later compiler wrote. The folder is ignored by git; the
licence of the wheels is NVIDIA's, and nothing of them is part of this repository.
"""
import ctypes
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cuda"
WHEELS = {
    "nvidia-cuda-runtime-cu12==12.9.79": "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
    "nvidia-cuda-nvrtc-cu12==12.9.86": "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
    "nvidia-cuda-nvcc-cu12==12.9.86": "5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
}
# cuDNN looks for cuBLAS and NVRTC in the folders beside its own
CUDNN = FOLDER / "with-cudnn"
CUDNN_WHEELS = {
    "nvidia-cudnn-cu12==9.28.0.42": "9ff58b7f36dacd0a93e89f8f2957b52466889217963701daa15e577317cfa375",
    "nvidia-cublas-cu12==12.9.1.4": "453611eb21a7c1f2c2156ed9f3a45b691deda0440ec550860290dc901af5b4c2",
    "nvidia-cuda-nvrtc-cu12==12.9.86": "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
}

NCCL = FOLDER / "with-nccl"
NCCL_WHEELS = {"nvidia-nccl-cu12==2.27.3": "adf27ccf4238253e0b826bce3ff5fa532d65fc42322c8bfdfaf28024c0fbe039"}


def fetch(folder, digests):
    """Downloads wheels, checks them and unpacks them; does nothing where that was done."""
    stamp = folder / "wheels.txt"
    wanted = "\n".join(sorted(digests)) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
               "--platform", "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_12_x86_64", "--platform", "manylinux2010_x86_64",
               "--dest", wheels, *digests]
        if subprocess.run(pip).returncode:
            sys.exit("cuda-toolchain: pip could not download " + ", ".join(digests) + ": is PyPI reachable?")
        for requirement, digest in digests.items():
            name, version = requirement.split("==")
            wheel = next(pathlib.Path(wheels).glob(f"{name.replace('-', '_')}-{version}-*.whl"))
            if (got := hashlib.sha256(wheel.read_bytes()).hexdigest()) != digest:
                sys.exit(f"cuda-toolchain: {wheel.name} has SHA-256 {got}, want {digest}: not unpacked")
            with zipfile.ZipFile(wheel) as z:
                # the static runtime and the second NVRTC are large and unused
                z.extractall(folder, [n for n in z.namelist() if not n.endswith(".a") and ".alt." not in n])
    for tool in folder.glob("nvidia/cuda_nvcc/bin/*"):
        tool.chmod(0o755)
    stamp.write_text(wanted)


def check_cudnn():
    """Compiles cuDNN's headers with the program's list of their constants and functions."""
    source = """#include <cudnn.h>
#define C(name, value) _Static_assert((int)name == value, #name);
#include "cudnn_symbols.h"
#undef C
#define F(result, name, arguments) void *vs_##name(void) { return (void *)name; }
#include "cudnn_symbols.h"
"""
    compiler = ["gcc", "-fsyntax-only", "-x", "c", "-", f"-I{CUDNN}/nvidia/cudnn/include", f"-I{FOLDER}/nvidia/cuda_runtime/include", f"-I{FOLDER}/nvidia/cuda_nvcc/include", f"-I{ROOT}/internal/device/cuda"]
    if subprocess.run(compiler, input=source, text=True).returncode:
        sys.exit("cuda-toolchain: internal/device/cuda/cudnn_symbols.h is not what cuDNN's headers have")


def check_nccl():
    """Compiles NCCL's header with the program's list of its constants and functions, and looks for these in the library."""
    source = """#include <nccl.h>
#define C(name, value) _Static_assert((int)name == value, #name);
#include "nccl_symbols.h"
#undef C
#define F(result, name, arguments) result(*vs_##name) arguments = name;
#include "nccl_symbols.h"
"""
    with tempfile.TemporaryDirectory() as empty:
        for header in ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"):  # for C++ and of no use here
            (pathlib.Path(empty) / header).touch()
        folders = [empty, NCCL / "nvidia/nccl/include", FOLDER / "nvidia/cuda_runtime/include", FOLDER / "nvidia/cuda_nvcc/include", ROOT / "internal/device/cuda"]
        compiler = ["gcc", "-fsyntax-only", "-Werror=incompatible-pointer-types", "-x", "c", "-"] + [f"-I{folder}" for folder in folders]
        if subprocess.run(compiler, input=source, text=True).returncode:
            sys.exit("cuda-toolchain: internal/device/cuda/nccl_symbols.h is not what NCCL's header has")
    library = ctypes.CDLL(str(NCCL / "nvidia/nccl/lib/libnccl.so.2"))
    for name in re.findall(r"^F\([^,]*, (\w+),", (ROOT / "internal/device/cuda/nccl_symbols.h").read_text(), re.M):
        getattr(library, name)


def driver():
    """Fetches NVIDIA's driver library from Debian's non-free component; apt checks the signature. Nothing is installed."""
    folder = FOLDER / "driver"
    library = folder / "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1"
    if library.exists():
        return library
    keyring = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if not keyring.exists() or not shutil.which("apt-get"):
        sys.exit("cuda-toolchain: --driver needs apt-get and Debian's keyring (package debian-archive-keyring)")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        for part in ("lists/partial", "cache/archives/partial"):
            (work / part).mkdir(parents=True)
        (work / "sources.list").write_text(f"deb [arch=amd64 signed-by={keyring}] http://deb.debian.org/debian bookworm non-free\n")
        options = {"Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State::lists": work / "lists", "Dir::Cache": work / "cache",
                   "APT::Architecture": "amd64", "APT::Sandbox::User": "root"}
        apt = ["apt-get", "-q"] + [f"-o{key}={value}" for key, value in options.items()]
        for command in (["update"], ["download", "libcuda1"]):
            done = subprocess.run(apt + command, cwd=work, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"cuda-toolchain: apt-get {' '.join(command)}: {done.stderr.strip()}")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["dpkg", "-x", next(work.glob("libcuda1_*.deb")), work / "driver"], check=True)
        shutil.copytree(work / "driver", folder, symlinks=True)
    return library


def main():
    fetch(FOLDER, WHEELS)
    if sys.argv[1:] == ["--cflags"]:
        print(f"-I{FOLDER}/nvidia/cuda_runtime/include")
    elif sys.argv[1:] == ["--cudnn"]:
        fetch(CUDNN, CUDNN_WHEELS)
        check_cudnn()
        print(CUDNN / "nvidia/cudnn/lib/libcudnn.so.9")
    elif sys.argv[1:] == ["--nccl"]:
        fetch(NCCL, NCCL_WHEELS)
        check_nccl()
        print(NCCL / "nvidia/nccl/lib/libnccl.so.2")
    elif sys.argv[1:] == ["--driver"]:
        print(driver())
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(f"CUDA 12.9 headers, NVRTC and ptxas are in {FOLDER}")


main()

"""Estimates how many cycles the loops of the kernels for arm64 take, and what share of the peak of
multiply-adds that is: no machine is needed, and none has been timed.

    python3 scripts/neon-cycles.py [--llvm 22] [KERNEL ...]

It builds the tests of internal/device/cpu for linux/arm64, disassembles each kernel's innermost loops
with llvm-objdump and runs them through llvm-mca, which knows units, latencies and ports of a
processor, and takes all memory for the nearest cache. LLVM has to be 19 or later (Debian: apt-get
install llvm-19), for older ones describe Neoverse by another processor; --llvm is the suffix of its
programs. Before that, it compares each instruction that the assembly has as a number with what LLVM
reads in it.

Prints a table in Markdown.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PACKAGE = "github.com/voxsaw/voxsaw/internal/device/cpu"
# by LLVM's name: the name to print, and the vectors of 4 that it multiplies and adds in a cycle. LLVM
# describes Apple's processors by their first one of 64 bits, which had three units; an M1 has four.
PROCESSORS = {
    "neoverse-n1": ("Neoverse N1", 2),
    "neoverse-v1": ("Neoverse V1", 4),
    "neoverse-v2": ("Neoverse V2", 4),
    "apple-m1": ("Apple, of three units", 3),
}
KERNELS = ["product6x1", "product3x1", "product1x1", "outer6x1", "outerTaps", "dots4x4", "dataF4x5",
           "outputF4x5", "activate", "activateELU", "sgd"]


def run(*command, text=None, env=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def check_words(llvm):
    """Each WORD is the instruction beside it."""
    words = {}
    for name in ("device/cpu/kernels_arm64.s", "device/cpu/lanes_kernels_arm64.s", "svm/kernels_arm64.s"):
        with open(os.path.join(ROOT, "internal", name), encoding="utf-8") as f:
            for line in f:
                if m := re.search(r"WORD \$0x([0-9a-f]{8}) // (.*)", line):
                    words[m[1]] = m[2].strip()
    little = "".join(" ".join("0x" + w[i:i + 2] for i in (6, 4, 2, 0)) + "\n" for w in words)
    out = run(f"llvm-mc{llvm}", "--disassemble", "-triple=aarch64", text=little)
    read = [line.strip() for line in out.splitlines() if re.match(r"\t[a-z]", line)]

    def plain(text):
        return re.sub(r"#0x0*", "#", re.sub(r"#0+$", "#0", re.sub(r"\s+", " ", text.lower())))

    wrong = [f"{w}: {said}, LLVM reads {got}" for (w, said), got in zip(words.items(), read, strict=True)
             if plain(said) != plain(got)]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(words)} numbers are the instructions beside them.", file=sys.stderr)


def disassemble(llvm, binary, kernel):
    """Pairs of address and instruction."""
    out = run(f"llvm-objdump{llvm}", "-d", "--no-show-raw-insn",
              f"--disassemble-symbols={PACKAGE}.{kernel}NEON.abi0", binary)
    found = [(int(m[1], 16), re.sub(r"\s*(<.*>|//.*)", "", m[2]).strip())
             for line in out.splitlines() if (m := re.match(r"\s*([0-9a-f]+):\s+(.*)", line))]
    if not found:
        sys.exit(f"there is no kernel {kernel}")
    return found


def innermost(code):
    """The loops that have no loop in them."""
    at = {address: i for i, (address, _) in enumerate(code)}
    loops = []
    for i, (address, text) in enumerate(code):
        m = re.match(r"(?:cbn?z\s+\w+, |b\.\w+\s+|b\s+)0x([0-9a-f]+)$", text)
        if m and int(m[1], 16) <= address:
            loops.append((at[int(m[1], 16)], i))
    for first, last in loops:
        if not any(a >= first and b <= last and (a, b) != (first, last) for a, b in loops):
            body = [text for _, text in code[first:last + 1]]
            # where jumps lead does not matter to their cost
            yield [re.sub(r"^((?:cbn?z\s+\w+, |b\.\w+\s+|b\s+))0x[0-9a-f]+$", r"\1loop", t) for t in body]


def cycles(llvm, body, processor, turns=200):
    out = run(f"llvm-mca{llvm}", "-mtriple=aarch64", f"-mcpu={processor}", f"-iterations={turns}",
              text="loop:\n" + "\n".join(body) + "\n")
    return int(re.search(r"Total Cycles:\s+(\d+)", out)[1]) / turns


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llvm", default="22", help="suffix of LLVM's programs (default 22; '' for none)")
    p.add_argument("kernels", nargs="*", default=KERNELS, help="kernels without NEON at the end of their names")
    args = p.parse_args()
    llvm = "-" + args.llvm if args.llvm else ""
    check_words(llvm)
    print("| loop | instructions | multiply-adds |", " | ".join(n for n, _ in PROCESSORS.values()), "|")
    print("|---|---|---|" + "---|" * len(PROCESSORS))
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "cpu.test")
        run("go", "test", "-c", "-o", binary, "./internal/device/cpu",
            env=dict(os.environ, GOOS="linux", GOARCH="arm64", CGO_ENABLED="0"))
        for kernel in args.kernels:
            longest = max(innermost(disassemble(llvm, binary, kernel)), key=len)
            fused = sum(bool(re.match(r"fml[as]\b", t)) for t in longest)
            cells = []
            for processor, (_, units) in PROCESSORS.items():
                n = cycles(llvm, longest, processor)
                cells.append(f"{n:.1f} ({100 * fused / n / units:.0f} %)")
            print(f"| `{kernel}` | {len(longest)} | {fused} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()

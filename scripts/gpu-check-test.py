#!/usr/bin/env python3
"""Tests scripts/gpu-check.sh with stubs for the program, the device's tests, the peer and the GPU's tools, which work,
hang, crash or lie. Needs bash, and neither a GPU nor PyTorch.

    python3 scripts/gpu-check-test.py
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent

# Each stub does what the variable of its name says, WORDS:HOW, where its arguments have the words.
STUB = """#!/usr/bin/env bash
how=
rule=${STUB_%(name)s:-}
case " $* " in *"${rule%%%%:*}"*) how=${rule#*:} ;; esac
case $how in
  hang) sleep 60 ;;
  crash) kill -SEGV $$ ;;
  silent) exit 0 ;;
esac
%(body)s
"""

VOXSAW = """
batch=1 grid=3 crop=96 norm=instance
task=$2
for ((i = 1; i <= $#; i++)); do
  next=$((i + 1))
  case ${!i} in --batch) batch=${!next} ;; --grid) grid=${!next} ;; --crop) crop=${!next} ;; --norm) norm=${!next} ;; --out) out=${!next} ;; esac
done
seconds=0.02
[ "$how" = lie ] && seconds=1e-9
case $1 in
  doctor) echo "device: a GPU" ;;
  prepare) mkdir "$out"; [ "$how" = lie ] || for file in "$2"/imagesTr/*; do echo "$file" >"$out/$(basename "$file")"; done ;;
  finetune | pretrain)
    mkdir -p "$out"
    echo "step,loss,seconds" >"$out/metrics.csv"
    [ "$how" = lie ] || for ((i = 1; i <= 10; i++)); do echo "$i,$i.${crop%%x*},0.1" >>"$out/metrics.csv"; done
    echo "gradients are summed by a stub; DSC 0.5; $out/last.safetensors" ;;
  tune) echo "choices: []" >"$out"; echo "9 different convolutions: 2 ms, 1 ms" ;;
  bench)
    if [ "$2" = predict ]; then echo '{"task":"predict","seconds":1}'; exit; fi
    case " $* " in *" --profile "*) echo Kernels ;; esac
    echo "{\\"impl\\":\\"voxsaw test\\",\\"task\\":\\"$task\\",\\"grid\\":$grid,\\"crop\\":$crop,\\"batch\\":$batch,\\"device\\":\\"GPU\\",\\"amp\\":\\"bf16\\",\\"norm\\":\\"$norm\\",\\"median_s\\":$seconds,\\"min_s\\":$seconds,\\"gflop_step\\":100,\\"gflops\\":5000,\\"peak_mib\\":500}" ;;
esac
"""

CUDA_TEST = """
[ "$1" = -test.list ] && { echo TestDevice; exit; }
for a; do case $a in ^TestDevice*) family=${a##*/^}; family=${family%$}; echo "    --- PASS: TestDevice/$family (0.1s)" ;; esac; done
echo "layer	bf16	1 ms"
echo "weights of a step: old 2 ms, new 1 ms"
echo "--- PASS: TestMoments (0.1s)"
echo "--- PASS: TestLayers (0.1s)"
"""

SANITIZER = """
while [ "$1" != ./cuda.test ]; do [ "$1" = --tool ] && tool=$2; shift; done
"$@"
[ "$tool" = memcheck ] && echo "========= ERROR SUMMARY: 0 errors" || echo "========= RACECHECK SUMMARY: 0 hazards displayed"
"""

PEER = """import json, os, sys, time
a = sys.argv[1:]
def flag(name, default): return int(a[a.index(name) + 1]) if name in a else default
for rule in os.environ.get("STUB_PEER", "").split():
    words, how = rule.split(":")
    if all(w in a for w in words.split("+")):
        if how == "hang": time.sleep(60)
        if how == "crash": sys.exit("CUDA error: an illegal memory access was encountered")
        if how == "silent": sys.exit()
        break
else:
    how = ""
seconds = 0.03 + 0.01 * ("--compile" not in a)
line = {"impl": "torch test", "task": a[0], "grid": flag("--grid", 3), "crop": flag("--crop", 96), "batch": flag("--batch", 1), "device": "cuda", "amp": "bf16",
        "norm": a[a.index("--norm") + 1], "median_s": seconds, "min_s": seconds, "gflop_step": 100.0, "gflops": 1, "peak_mib": 1000}
line.update({"batch": {"batch": 1}, "cpu": {"device": "cpu"}, "nan": {"median_s": float("nan")}, "zero": {"median_s": 0, "min_s": 0}, "flops": {"gflop_step": 30.0}}.get(how, {}))
print(json.dumps(line))
"""


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("gpu-check.sh", "gpu-figures.py"):
            shutil.copy(SCRIPTS / name, self.folder)
        tools = self.folder / "tools"
        (tools / "torch").mkdir(parents=True)
        (tools / "torch/__init__.py").write_text("")
        (self.folder / "commit.txt").write_text("0 a commit\n")
        (self.folder / "peer_vnet.py").write_text(PEER)
        for path, name, body in ((self.folder / "voxsaw", "VOXSAW", VOXSAW), (self.folder / "cuda.test", "CUDA", CUDA_TEST), (tools / "compute-sanitizer", "SANITIZER", SANITIZER),
                                 (tools / "nvidia-smi", "SMI", "echo 'GPU 0: a GPU'\n"), (tools / "ncu", "NCU", "echo Duration\n")):
            path.write_text(STUB % {"name": name, "body": body})
            path.chmod(0o755)
        self.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(tools), "OUT": str(self.folder / "out"), "VOXSAW_CHECK_SECONDS": "30"}
        self.environment.pop("VOXSAW_CHECK_SIMULATED", None)

    def run_parts(self, *parts, **stubs):
        done = subprocess.run(["bash", self.folder / "gpu-check.sh", *parts], env=self.environment | stubs, capture_output=True, text=True, timeout=240)
        self.figures = (self.folder / "out/figures.txt").read_text()
        self.assertLessEqual(len(list((self.folder / "out").iterdir())), 8)
        return done.returncode

    def test_everything_works(self):
        self.assertEqual(self.run_parts("first", "second", "compiled"), 0, "\n" + str(getattr(self, "figures", "")))
        self.assertIn("pretrain3: 1.50 times as fast as the best of PyTorch's 4 variants (torch-compile), 0.50 of the memory", self.figures)
        self.assertIn("growth, 64 puzzles in a step", self.figures)
        self.assertIn("weights of a step: old 2 ms, new 1 ms", self.figures)
        self.assertIn("ten-finetune: left out: no scans were packed", self.figures)
        self.assertNotIn("FAILED", self.figures)
        self.assertEqual({p.name for p in (self.folder / "out").iterdir()}, {"figures.txt", "first.log", "second.log", "compiled.log", "bench.jsonl", "tuning.yaml"})

    def test_no_ratio_where_a_variant_did_not_finish(self):
        for how in ("hang", "crash", "silent"):
            with self.subTest(how):
                self.assertEqual(self.run_parts("compiled", STUB_PEER=f"--compile:{how}", VOXSAW_CHECK_SECONDS="4" if how == "hang" else "30"), 1)
                self.assertIn("pretrain3: no ratio: torch-compile, torch-compile-channels-last did not finish here", self.figures)
                self.assertNotIn("times as fast", self.figures)
                shutil.rmtree(self.folder / "out")

    def test_no_ratio_from_the_second_part(self):
        self.assertEqual(self.run_parts("second"), 0)
        self.assertNotIn("times as fast", self.figures)

    def test_figures_that_lie(self):
        for how in ("batch", "cpu", "nan", "zero"):
            with self.subTest(how):
                self.assertEqual(self.run_parts("compiled", STUB_PEER=f"--channels-last+--compile:{how}"), 1)
                self.assertIn("FAILED with 1: pretrain3, torch-compile-channels-last: this is not what was asked for", self.figures)
                self.assertIn("pretrain3: no ratio: torch-compile-channels-last did not finish here", self.figures)
                shutil.rmtree(self.folder / "out")
        self.run_parts("compiled", STUB_PEER="--compile:flops")
        self.assertIn("pretrain3: no ratio: torch-compile counts 30.0 GFLOP a step, ours 100", self.figures)
        shutil.rmtree(self.folder / "out")
        self.assertEqual(self.run_parts("compiled", STUB_VOXSAW="bench:lie"), 1)
        self.assertIn("100 GFLOP in 1e-09 s is more than a GPU can do", self.figures)
        self.assertNotIn("times as fast", self.figures)

    def test_timings_of_another_machine_do_not_count(self):
        self.run_parts("compiled", STUB_SMI="-L:silent")
        self.assertIn("times as fast", self.figures)
        self.run_parts("compiled", STUB_PEER="--compile:crash")
        self.assertIn("no ratio: torch-compile, torch-compile-channels-last did not finish here", self.figures.split("== compiled")[-1])

    def test_a_family_that_crashes_stops_no_other(self):
        self.assertEqual(self.run_parts("first", STUB_CUDA="Conv:crash"), 1)
        self.assertRegex(self.figures, "bf16-Conv: FAILED with 139")
        self.assertRegex(self.figures, "bf16-Activate: ok")
        self.assertRegex(self.figures, "fp32-Images: ok")
        self.assertLess(self.figures.index("bf16-Conv"), self.figures.index("fp32-Conv"))

    def test_tests_that_did_not_run(self):
        self.assertEqual(self.run_parts("first", STUB_CUDA="Softmax:silent"), 1)
        self.assertIn("bf16-Softmax: FAILED: it ended well, and its output does not show what was to be checked", self.figures)
        shutil.rmtree(self.folder / "out")
        self.assertEqual(self.run_parts("first", STUB_SANITIZER="racecheck:silent"), 1)
        self.assertIn("racecheck-Conv: FAILED: it ended well", self.figures)

    def test_a_gpu_that_no_longer_answers(self):
        start = time.monotonic()
        self.assertEqual(self.run_parts("first", STUB_CUDA="Activate:hang", STUB_VOXSAW="doctor --device cuda --crop 32:hang", VOXSAW_CHECK_SECONDS="4"), 1)
        self.assertIn("fp32-Images: left out, the GPU no longer answers after", self.figures)
        self.assertLess(time.monotonic() - start, 60)

    def test_one_check_that_hangs(self):
        self.assertEqual(self.run_parts("first", STUB_CUDA="Weights:hang", VOXSAW_CHECK_SECONDS="4"), 1)
        self.assertIn("bf16-Weights: FAILED: not over after 4 s", self.figures)
        self.assertIn("bf16-Elementwise: ok", self.figures)

    def test_a_tuning_that_is_cut_has_a_name(self):
        self.assertEqual(self.run_parts("second", STUB_VOXSAW="tune:hang", VOXSAW_CHECK_SECONDS="4"), 1)
        self.assertIn("tuning.yaml is cut", self.figures)

    def test_stopped_from_outside(self):
        running = subprocess.Popen(["bash", self.folder / "gpu-check.sh", "first"], env=self.environment | {"STUB_CUDA": "Conv:hang"},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        figures = self.folder / "out/figures.txt"
        while not figures.exists() or "versions: ok" not in figures.read_text():
            time.sleep(0.1)
        time.sleep(0.5)
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(20)
        self.assertIn("stopped from outside", figures.read_text())
        self.assertIn("===== versions", (self.folder / "out/first.log").read_text())

    def test_a_part_that_does_not_exist(self):
        done = subprocess.run(["bash", self.folder / "gpu-check.sh", "fast"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


GO = """
while [ "$1" != -o ]; do shift; done
[ "$how" = lie ] || cp "$STUBS/$(basename "$2")" "$2"
"""


class Pack(unittest.TestCase):
    """Packing, and the whole script on the simulated GPU, in a repository whose program and tests are stubs."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        scripts, peers = self.root / "repository/scripts", self.root / "repository/docs/peers"
        tools, stubs, data, temporary = (self.root / name for name in ("tools", "stubs", "data", "temporary"))
        for folder in (scripts, peers, tools / "torch", stubs, data / "openkbp/imagesTr", data / "openkbp/labelsTr", temporary):
            folder.mkdir(parents=True)
        for name in ("gpu-check.sh", "gpu-figures.py"):
            shutil.copy(SCRIPTS / name, scripts)
        (peers / "peer.py").write_text("")
        (peers / "peer_vnet.py").write_text(PEER)
        (scripts / "cuda-toolchain.py").write_text("print('-I/nowhere')\n")
        (tools / "torch/__init__.py").write_text("")
        for i in range(5):
            for kind in ("imagesTr", "labelsTr"):
                (data / f"openkbp/{kind}/pt_{i}.nii.gz").write_text(f"{kind} {i}\n")
        programs = [(stubs / "voxsaw", "VOXSAW", VOXSAW), (stubs / "cuda.test", "CUDA", CUDA_TEST), (tools / "go", "GO", GO), (tools / "mpirun", "MPIRUN", 'shift 2\n"$@"\n')]
        for part in ("sim", "sim/cudnn", "sim/nccl"):
            programs.append((self.root / "repository/internal/device/cuda" / part / "build.sh", "BUILD", 'echo a library >"$1"\n'))
        for path, name, body in programs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STUB % {"name": name, "body": body})
            path.chmod(0o755)
        for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a commit"]):
            subprocess.run(["git", *command], cwd=self.root / "repository", check=True)
        self.output = self.root / "pack.tar.xz"
        self.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(tools), "STUBS": str(stubs), "VOXSAW_DATA": str(data),
                                         "TMPDIR": str(temporary), "OUT": str(self.root / "out"), "VOXSAW_CHECK_SECONDS": "30", "VOXSAW_PACK_SECONDS": "30"}

    def run_script(self, *arguments, **stubs):
        done = subprocess.run(["bash", self.root / "repository/scripts/gpu-check.sh", *arguments], cwd=self.root, env=self.environment | stubs, capture_output=True, text=True, timeout=240)
        self.assertEqual(list((self.root / "temporary").iterdir()), [], "files are left behind")
        return done

    def test_pack(self):
        done = self.run_script("pack", "pack.tar.xz")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"pack.tar.xz: [\d.]+ MiB, with the repository's files [\d.]+ of 64 MiB that travel")
        names = set(subprocess.run(["tar", "-tJf", self.output], check=True, capture_output=True, text=True).stdout.split())
        self.assertLessEqual({"./" + name for name in ("voxsaw", "cuda.test", "gpu-check.sh", "gpu-figures.py", "peer.py", "peer_vnet.py", "commit.txt", "scan.nii.gz", "prepared/pt_0.nii.gz",
                                                       "runs/finetune-cpu/metrics.csv", "runs/pretrain-cpu/metrics.csv")}, names)
        self.assertFalse([name for name in names if name.startswith("./scans")])

    def test_a_pack_that_would_lack_something_is_none(self):
        for stubs, why in ((dict(STUB_GO="build:crash"), "the program: the command failed with 139"), (dict(STUB_GO="build:lie"), "the program: the command ended well, and voxsaw is not there"),
                           (dict(STUB_GO="test:hang", VOXSAW_PACK_SECONDS="2"), "the device's tests: not over after 2 s"), (dict(STUB_CUDA="-test.list:silent"), "the device's tests: they do not list TestDevice"),
                           (dict(STUB_VOXSAW="prepare:hang", VOXSAW_PACK_SECONDS="2"), "the prepared scans: not over after 2 s"), (dict(STUB_VOXSAW="prepare:crash"), "the prepared scans: the command failed with 139"),
                           (dict(STUB_VOXSAW="prepare:lie"), "the prepared scans: there are fewer than 5 files"), (dict(STUB_VOXSAW="pretrain:lie"), "ten steps of pretrain: metrics.csv has no ten of them"),
                           (dict(STUB_VOXSAW="finetune:silent"), "ten steps of finetune: the command ended well, and metrics.csv is not there")):
            with self.subTest(why):
                done = self.run_script("pack", "pack.tar.xz", **stubs)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"gpu-check: nothing was packed: {why}", done.stderr)
                self.assertFalse(self.output.exists())

    def test_what_travels_in_all(self):
        with open(self.root / "repository/large", "wb") as f:
            f.truncate(64 << 20)
        done = self.run_script("pack", "pack.tar.xz")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was packed: the pack: it is too large", done.stderr)
        self.assertFalse(self.output.exists())

    def test_simulate(self):
        done = self.run_script("--simulate")
        figures = (self.root / "out/figures.txt").read_text()
        self.assertEqual(done.returncode, 0, figures + done.stderr)
        self.assertIn("everything is right", figures)
        self.assertNotIn("left out", figures)
        self.assertEqual({p.name for p in (self.root / "out").iterdir()},
                         {"figures.txt", "first.log", "second.log", "compiled.log", "real.log", "peers.log", "bench.jsonl", "tuning.yaml"})

    def test_simulate_tells_what_hangs_crashes_and_lies(self):
        for stubs, line in ((dict(STUB_CUDA="Blend:crash"), "bf16-Blend: FAILED with 139"), (dict(STUB_CUDA="Blend:silent"), "bf16-Blend: FAILED: it ended well"),
                            (dict(STUB_CUDA="Blend:hang", VOXSAW_CHECK_SECONDS="2"), "bf16-Blend: FAILED: not over after 2 s"),
                            (dict(STUB_VOXSAW="--precision fp32:lie"), "ten-finetune: FAILED with 1: ten steps, finetune: 10 losses of runs/finetune-bf16")):
            with self.subTest(line):
                done = self.run_script("--simulate", "first", **stubs)
                self.assertEqual(done.returncode, 1)
                self.assertIn(line, (self.root / "out/figures.txt").read_text())
                shutil.rmtree(self.root / "out")
        done = self.run_script("--simulate", "first", STUB_GO="build:crash")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was packed: the program", done.stderr)
        self.assertFalse((self.root / "out").exists())

    def test_results_go_to_the_current_folder(self):
        there, here = self.root / "there", self.root / "here"
        there.mkdir()
        here.mkdir()
        self.assertEqual(self.run_script("pack", "pack.tar.xz").returncode, 0)
        subprocess.run(["tar", "-C", there, "-xJf", self.output], check=True)
        environment = {k: v for k, v in self.environment.items() if k != "OUT"} | {"VOXSAW_CHECK_SIMULATED": "1"}
        done = subprocess.run(["bash", there / "gpu-check.sh", "real"], cwd=here, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({p.name for p in here.iterdir()}, {"figures.txt", "real.log"})


if __name__ == "__main__":
    unittest.main()

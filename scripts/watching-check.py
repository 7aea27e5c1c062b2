#!/usr/bin/env python3
"""Trains twice for some seconds and compares what others got of it with the run's own tables:
TensorBoard, which reads the event file, and MLflow, to which the lines of docs/watching.md send the
stream of events. The first training is interrupted and resumed. By hand, and in GitHub's CI:

    pip install tensorboard==2.21.0 mlflow==3.17.2
    python3 scripts/watching-check.py VOXSAW PREPARED
"""
import csv
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

voxsaw, prepared = map(os.path.abspath, sys.argv[1:])
page = open(os.path.join(os.path.dirname(__file__), "..", "docs", "watching.md")).read()
lines = re.search(r"`to_mlflow\.py`.*?```python\n(.*?)```", page, re.S).group(1)

os.chdir(tempfile.mkdtemp())
print("working in", os.getcwd())
with open("to_mlflow.py", "w") as file:
    file.write(lines)

stops, steps = 26, 60
own_times = {"step", "seconds", "wait_seconds"}  # of metrics.csv, which nobody is told
small = ["--data", prepared, "--crop", "24", "--channels", "4", "--levels", "2", "--warmup", "0", "--threads", "1",
         "--tensorboard", "--json"]
finetune = [voxsaw, "finetune", "--out", "run", "--steps", str(steps), "--validate-every", "20", *small]


def check(right, what):
    if not right:
        sys.exit(f"watching-check: {what}")


def table(path):
    """The columns of a table: of each the value by step, those that are none left out."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {k: {int(r["step"]): float(r[k]) for r in rows if r[k] and math.isfinite(float(r[k]))}
               for k in rows[0] if k not in own_times}
    return {k: v for k, v in columns.items() if v}


def compare(what, got, want):
    check(got.keys() == want.keys(), f"{what}: steps {sorted(got)}, want {sorted(want)}")
    for step, value in want.items():  # TensorBoard's numbers are float32, tables have seven digits
        right = math.isclose(got[step], value, rel_tol=2e-6, abs_tol=1e-9)
        check(right, f"{what}, step {step}: {got[step]}, want {value}")
    return len(want)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def send(interrupt_after=None, *more):
    """Runs the training with its events sent to MLflow; returns the exit codes of both."""
    training = subprocess.Popen([*finetune, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    sending = subprocess.Popen([sys.executable, "to_mlflow.py"], stdin=subprocess.PIPE, text=True)
    for line in training.stdout:
        sending.stdin.write(line)
        if interrupt_after and f'"event":"step","step":{interrupt_after},' in line:
            training.send_signal(signal.SIGINT)
    sending.stdin.close()
    return training.wait(), sending.wait()


port = free_port()
address = f"http://127.0.0.1:{port}"
os.environ["MLFLOW_TRACKING_URI"] = address
log = open("server.log", "w")
server = subprocess.Popen([sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
                           "--workers", "1", "--backend-store-uri", "sqlite:///" + os.path.abspath("mlflow.db"),
                           "--artifacts-destination", os.path.abspath("artifacts")],
                          stdout=log, stderr=log, start_new_session=True)
try:
    for _ in range(180):
        try:
            urllib.request.urlopen(address + "/health").close()
            break
        except OSError:
            check(server.poll() is None, open("server.log").read())
            time.sleep(1)
    check(send(stops) == (130, 1), "an interrupted training ends with 130, and to_mlflow.py with 1")
    check(send(None, "--resume") == (0, 0), "a resumed training and to_mlflow.py end with 0")

    want = {"train/" + k: v for k, v in table("run/metrics.csv").items()}
    want |= {"validation/" + k: v for k, v in table("run/validation.csv").items()}
    check(sorted(want["train/loss"]) == list(range(1, steps + 1)) and len(want) > 10, "the run's tables are short")

    client = MlflowClient(address)
    runs = client.search_runs([client.get_experiment_by_name("voxsaw").experiment_id], order_by=["start_time"])
    check([r.info.status for r in runs] == ["FAILED", "FINISHED"], f"MLflow has {[r.info.status for r in runs]}")
    first = max(m.step for m in client.get_metric_history(runs[0].info.run_id, "train/loss"))
    check(stops <= first < steps, f"MLflow's first run ends at step {first}")
    compared = 0
    for run, mine in (runs[0], lambda step: step <= first), (runs[1], lambda step: step > first):
        for name, values in want.items():
            got = {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}
            compared += compare(f"MLflow, {name}", got, {s: v for s, v in values.items() if mine(s)})
    there = {a.path for a in client.list_artifacts(runs[1].info.run_id)}
    check({"last.safetensors", "report.html", "metrics.csv"} <= there, f"MLflow has the files {there}")
    print(f"MLflow: {compared} values of two runs, and {len(there)} files")
finally:
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()

# what was said of steps after the checkpoint is void: the accumulator leaves it out
everything = {"scalars": 0, "images": 0}
events = EventAccumulator("run", size_guidance=everything).Reload()
check(set(events.Tags()["scalars"]) == want.keys(), f"TensorBoard has {events.Tags()['scalars']}")
compared = sum(compare(f"TensorBoard, {name}", {e.step: e.value for e in events.Scalars(name)}, values)
               for name, values in want.items())
pictures = {name: events.Images(name) for name in events.Tags()["images"]}
drawn = {e.step for e in pictures["validation/cases"]}
check(drawn == want["validation/score"].keys(), f"TensorBoard has pictures of cases at the steps {drawn}")

subprocess.run([voxsaw, "pretrain", "--out", "puzzles", "--grid", "2x2x2", "--steps", "4", "--checkpoint-every", "2",
                *small], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
events = EventAccumulator("puzzles", size_guidance=everything).Reload()
losses = {e.step: e.value for e in events.Scalars("train/loss")}
compare("TensorBoard, a pretraining", losses, table("puzzles/metrics.csv")["loss"])
pictures["task/picture"] = events.Images("task/picture")
shown = 0
for name, of_steps in pictures.items():
    for e in of_steps:
        png = e.encoded_image_string
        size = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
        whole = png[:8] == b"\x89PNG\r\n\x1a\n" and size == (e.width, e.height) and min(size) > 50
        check(whole, f"{name}, step {e.step}: {size}")
        shown += 1
print(f"TensorBoard: {compared} values, and {shown} pictures of {', '.join(pictures)}")

#!/usr/bin/env python3
"""Runs a command pinned to one core that it has before all else, and writes its time and its peak memory.

    python3 scripts/compared/measure.py RESULT.json COMMAND...

Memory is the sum of the proportional set sizes (PSS) of all processes of the command, looked at once a second: pages that
processes share count once. CORE (1) says which core. Root alone may set the priority: the highest of ordinary scheduling, of the
process and of its session. Real-time priority was tried, and slowed nnU-Net's workers: 18 s a scan, not 0.4 s.
"""
import glob
import json
import os
import subprocess
import sys
import time


def tree(root):
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                pid, rest = f.read().split(" ", 1)
            children.setdefault(int(rest.rsplit(")", 1)[1].split()[1]), []).append(int(pid))
        except OSError:
            pass
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def pss(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main():
    result, command = sys.argv[1], sys.argv[2:]
    core = os.environ.get("CORE", "1")
    begun, peak = time.time(), 0
    process = subprocess.Popen(["sh", "-c", 'echo -20 > /proc/self/autogroup; exec nice -n -20 taskset -c "$0" "$@"', core, *command],
                               start_new_session=True)
    while process.poll() is None:
        peak = max(peak, sum(map(pss, tree(process.pid))))
        time.sleep(1)
    times = os.times()
    with open(result, "w") as f:
        json.dump({"command": " ".join(command), "exit": process.returncode, "begun": int(begun),
                   "seconds": round(time.time() - begun), "cpu seconds": round(times.children_user + times.children_system),
                   "peak MiB": round(peak / 2**20)}, f, indent=1)
        f.write("\n")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()

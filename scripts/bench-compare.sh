#!/usr/bin/env bash
# Runs the micro-benchmarks and compares them with the baseline in the repository.
#
#   bash scripts/bench-compare.sh              run, and print benchstat's table beside the baseline
#   bash scripts/bench-compare.sh --baseline   run, and write the baseline: docs/bench-baseline.txt
#   bash scripts/bench-compare.sh OLD NEW      compare two files that were written before
#
# Takes about two minutes. Times of another machine, or of one that does other work, say nothing
# about a change: then write a baseline of the commit before it first, on the same machine. A
# difference counts where benchstat shows a p below 0.05 and it comes back in a second run.
# BENCH_COUNT (6) is how often each benchmark runs, BENCH_PREFIX goes before each command:
# BENCH_PREFIX="chrt -r 1" keeps other work on the machine from disturbing, where that is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

baseline=docs/bench-baseline.txt
count=${BENCH_COUNT:-6}
prefix=${BENCH_PREFIX:-}
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
benchstat() { go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da "$@"; }

bench() { # package, regular expression
  go test -c -o "$programs/bench.test" "./$1"
  (cd "$1" && $prefix "$programs/bench.test" -test.run '^$' -test.bench "$2" -test.benchtime 0.1s -test.count "$count")
}

all() {
  bench internal/device/cpu '^BenchmarkConv$/^(1x64-64@32|1x256-256@8|27x32-32@16|1x64-128@16|1x1-16@64)'
  bench internal/device/cpu '^BenchmarkProduct$/^avx'
  bench internal/solver '^Benchmark(Assign|AssignBatch|Search)$/^(uniform|likely|256xn=27|grid=3x3x3)$/^(n=(8|27|64)|distance=.)$'
  bench volume '^BenchmarkResample$'
  bench volume/prepared '^BenchmarkCaseImage$'
  bench segment '^BenchmarkSample$'
  bench eval '^BenchmarkCompare$'
}

case "${1:-}" in
  --baseline)
    {
      echo "# commit $(git describe --always --dirty --abbrev=12), $(nproc) cores, $(go env GOVERSION), prefix \"$prefix\""
      all | grep -v '^PASS$'
    } | tee "$baseline.new"
    mv "$baseline.new" "$baseline"
    ;;
  "")
    all | tee "$programs/new.txt" >&2
    benchstat "$baseline" "$programs/new.txt"
    ;;
  *)
    benchstat "$@"
    ;;
esac

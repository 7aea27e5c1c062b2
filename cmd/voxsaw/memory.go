package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// availableMemory is what a program can take without the machine swapping, in bytes:
// /proc/meminfo's estimate, and no more than the control group allows. 0 where the system does not
// say.
func availableMemory() int64 {
	var available int64
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
			if fields := strings.Fields(s.Text()); len(fields) >= 2 && fields[0] == "MemAvailable:" {
				kib, _ := strconv.ParseInt(fields[1], 10, 64)
				available = kib << 10
			}
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if data, err := os.ReadFile(file); err == nil {
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && limit > 0 && (available == 0 || limit < available) {
				available = limit
			}
		}
	}
	return available
}

// garbageLimit is how many bytes of garbage there may be before they are collected.
const garbageLimit = 96 << 20

// boundGarbage makes the garbage collector run after every garbageLimit bytes of new memory. Go's
// default is to run when as much has been allocated as is in use: beside a gigabyte of weights and
// activations that is another gigabyte. Each collection sets the goal of the next one. A collection
// is cheap, because nearly all memory in use holds no pointers.
func boundGarbage() {
	type sentinel struct{ _ *int }
	var tune func(*sentinel)
	tune = func(*sentinel) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(int(min(100, max(1, 100*garbageLimit/max(live[0].Value.Uint64(), 1)))))
		runtime.SetFinalizer(&sentinel{}, tune)
	}
	runtime.SetFinalizer(&sentinel{}, tune)
}

// gibibytes is a limit of memory that a user gives; 0: what the machine has.
type gibibytes float64

// Set, String and Type implement [pflag.Value].
func (g *gibibytes) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1<<30) {
		return fmt.Errorf("%q is no number of GiB", text)
	}
	*g = gibibytes(x)
	return nil
}

func (g *gibibytes) String() string { return strconv.FormatFloat(float64(*g), 'g', -1, 64) }

func (*gibibytes) Type() string { return "float" }

// UnmarshalText and MarshalText read and write it in YAML.
func (g *gibibytes) UnmarshalText(text []byte) error { return g.Set(string(text)) }

func (g *gibibytes) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// bytes is the limit in bytes that was asked for; 0: none was.
func (g gibibytes) bytes() int64 { return int64(float64(g) * (1 << 30)) }

// limit is the limit in bytes, that of the machine where none was asked for.
func (g gibibytes) limit() int64 {
	if g == 0 {
		return availableMemory()
	}
	return g.bytes()
}

// limitAll is limit; the garbage collector works towards one that was asked for, too.
func (g gibibytes) limitAll() int64 {
	if g > 0 {
		debug.SetMemoryLimit(g.bytes())
	}
	return g.limit()
}

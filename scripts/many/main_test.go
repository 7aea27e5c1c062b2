//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/voxsaw/voxsaw/cli" // what is built here: go test runs this again where it differs
	"github.com/voxsaw/voxsaw/internal/turns"
)

// All commands are carried out, and cost something.
func TestSite(t *testing.T) {
	if !turns.Has(t, 0, 3) {
		return
	}
	program := filepath.Join(t.TempDir(), "voxsaw")
	if text, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program,
		"../../cmd/voxsaw").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, text)
	}
	all := scans{t.TempDir(), 25}
	if err := all.write(); err != nil {
		t.Fatal(err)
	}
	costs, err := site{folder: t.TempDir(), program: program, all: all, scans: 20, training: true}.run()
	if err != nil {
		t.Fatal(err)
	}
	if len(costs) != 7 {
		t.Fatalf("%d commands", len(costs))
	}
	for _, c := range costs {
		if c.name == "" || c.cpu <= 0 || c.wall <= 0 {
			t.Errorf("%+v", c)
		}
	}
}

// Powers are those of the numbers, and too large ones are named.
func TestJudge(t *testing.T) {
	row := func(cpu time.Duration, memory int64) []cost {
		return []cost{{name: reading, cpu: time.Second}, {name: "prepare", cpu: cpu, user: cpu / 2, memory: memory}}
	}
	fair := table{sizes: []int{10, 100}, costs: [][]cost{row(time.Second, 5e6), row(10*time.Second, 6e6)}}
	if err := fair.judge(); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := fair.print(&b); err != nil ||
		!strings.Contains(b.String(),
			"| prepare | 100 | 10.0 s | 5.0 s | 100.00 ms | 0 s | 6 MB | 1.00 | 1.00 | 0.08 |\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	slow := table{sizes: []int{10, 100}, costs: [][]cost{row(time.Second, 5e6), row(12*time.Second, 6e6)}}
	if err := slow.judge(); err == nil {
		t.Error("a power of 1.08 was taken")
	}
	slow.costs[1][0].cpu = 12 * time.Second
	if err := slow.judge(); err != nil {
		t.Error("where cat grows as fast:", err)
	}
	square := table{sizes: []int{10, 100}, costs: [][]cost{row(time.Second, 5e6), row(100*time.Second, 5e6)}}
	if err := square.judge(); err == nil ||
		!strings.Contains(err.Error(), "prepare: from 10 to 100 scans CPU time grows with the power 2.00") {
		t.Error(err)
	}
}

func TestParseSizes(t *testing.T) {
	if sizes, err := parseSizes("1000,10000"); err != nil || len(sizes) != 2 {
		t.Error(sizes, err)
	}
	for _, text := range []string{"", "5", "x", "1000,100"} {
		if _, err := parseSizes(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

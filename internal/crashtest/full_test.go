//go:build linux && amd64

package crashtest

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A job of voxsaw auto meets a full disk in one stage after the other. Each time it ends with an
// error, and the same command goes on once there is room again.
func TestAutoOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	program := program(t, filepath.Join(dir, "voxsaw"))
	makeScans(t, filepath.Join(dir, "scans"))
	args := func(hours string) []string { return []string{"auto", "scans", "--out", "job", "--hours", hours} }
	r := rand.New(rand.NewPCG(*start, 44))
	for n, stage := range []string{"auto", "prepared", "plan.yaml", "fold1", "all", "model", "next", "report.html"} {
		hours := "0.003"
		switch {
		case n == 4: // the second training is given what is left
			hours = "0.02"
		case n > 4:
			hours = "0.1"
		}
		p := plant{nth: 1 + r.IntN(3), code: syscall.ENOSPC, full: true, of: func(path string) bool {
			part, _, _ := strings.Cut(strings.TrimPrefix(path, filepath.Join(dir, "job")+"/"), "/")
			if m := temporaryName.FindStringSubmatch(part); m != nil {
				part = m[1]
			}
			return part == stage
		}}
		got, err := p.run(program, dir, args(hours))
		if err != nil {
			t.Skipf("processes may not be traced here: %v", err)
		}
		history := got.call + " of " + strings.TrimPrefix(got.path, dir+"/") + ", and all that follow"
		switch {
		case got.call == "":
			t.Fatalf("no call %d of stage %s, exit code %d\n%s", p.nth, stage, got.exit, got.output)
		case got.exit != 1, strings.Contains(got.output, "goroutine "),
			!strings.Contains(got.output, syscall.ENOSPC.Error()):
			t.Errorf("%s: exit code %d\n%s", history, got.exit, got.output)
		}
		t.Log(history)
	}
	run := func(args ...string) {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("once there is room: %v\n%s", err, text)
		}
	}
	run(args("0.1")...)
	if _, err := os.Stat(filepath.Join(dir, "job", "report.html")); err != nil {
		t.Error(err)
	}
	run("verify", "job/prepared", "job/fold1", "job/all")
}

//go:build linux && amd64

package crashtest

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/turns"
)

// A job of voxsaw auto meets a full disk in one stage after the other. Each time it ends with an
// error, and the same command goes on once there is room again.
func TestAutoOnFullDisk(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	dir := t.TempDir()
	program := program(t, filepath.Join(dir, "voxsaw"))
	makeScans(t, filepath.Join(dir, "scans"))
	args := func(hours string) []string { return []string{"auto", "scans", "--out", "job", "--hours", hours} }
	// in later stages, what has been used and so much more: a busy machine uses more
	hours := func(n int, left time.Duration) string {
		if n < 4 {
			return "0.003"
		}
		return more(t, dir, left)
	}
	r := rand.New(rand.NewPCG(*start, 44))
	for n, stage := range []string{"auto", "prepared", "plan.yaml", "fold1", "all", "model", "next", "report.html"} {
		p := plant{nth: 1 + r.IntN(3), code: syscall.ENOSPC, full: true, of: func(path string) bool {
			part, _, _ := strings.Cut(strings.TrimPrefix(path, filepath.Join(dir, "job")+"/"), "/")
			if m := temporaryName.FindStringSubmatch(part); m != nil {
				part = m[1]
			}
			return part == stage
		}}
		got, err := p.run(program, dir, args(hours(n, 12*time.Second)))
		// the first training may have taken what the second one needs
		for left := 24 * time.Second; err == nil && got.call == "" && n > 3 && left < 10*time.Minute; left *= 2 {
			if got.exit != 0 && !strings.Contains(got.output, usedUp) {
				break
			}
			got, err = p.run(program, dir, args(hours(n, left)))
		}
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
	run := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	text, err := run(args(hours(8, 20*time.Second))...)
	for left := 40 * time.Second; err != nil && strings.Contains(text, usedUp) && left < 10*time.Minute; left *= 2 {
		text, err = run(args(hours(8, left))...)
	}
	if err != nil {
		t.Fatalf("once there is room: %v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "job", "report.html")); err != nil {
		t.Error(err)
	}
	if text, err := run("verify", "job/prepared", "job/fold1", "job/all"); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// more is the hours of a job that has so much time left.
func more(t *testing.T, dir string, left time.Duration) string {
	t.Helper()
	var job struct{ Stages []struct{ Seconds float64 } }
	text, err := os.ReadFile(filepath.Join(dir, "job", "auto", "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	if err != nil {
		t.Fatal(err)
	}
	seconds := left.Seconds()
	for _, s := range job.Stages {
		seconds += s.Seconds
	}
	return strconv.FormatFloat(seconds/3600, 'f', 5, 64)
}

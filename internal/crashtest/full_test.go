//go:build linux && amd64

package crashtest

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A job of voxsaw auto ends with an error where the disk becomes full, at whatever stage, and goes
// on from there once there is room again.
func TestAutoOnFullDisk(t *testing.T) {
	if os.Getenv("VOXSAW_TEST_LONG") == "" {
		t.Skip("takes minutes: VOXSAW_TEST_LONG=1 runs it")
	}
	begin := t.TempDir()
	program := program(t, filepath.Join(begin, "voxsaw"))
	makeScans(t, filepath.Join(begin, "scans"))
	args := []string{"auto", filepath.Join(begin, "scans"), "--out", "job", "--hours", "0.004"}
	first := t.TempDir()
	all, err := plant{}.run(program, first, args)
	if err != nil {
		t.Skipf("processes may not be traced here: %v", err)
	}
	if all.exit != 0 {
		t.Fatalf("traced it ends with %d after %d calls\n%s", all.exit, all.calls, all.output)
	}
	// The disk becomes full at a call of each stage, drawn at random.
	r := rand.New(rand.NewPCG(*start, 44))
	calls := map[string][]int{}
	for n, path := range all.paths {
		stage, _, _ := strings.Cut(strings.TrimPrefix(path, filepath.Join(first, "job")+"/"), "/")
		if m := temporaryName.FindStringSubmatch(stage); m != nil {
			stage = m[1]
		}
		calls[stage] = append(calls[stage], n+1)
	}
	for _, stage := range []string{"auto", "prepared", "plan.yaml", "fold1", "model", "next", "report.html"} {
		if len(calls[stage]) == 0 {
			t.Fatalf("no call of %s among those of %v", stage, slices.Sorted(maps.Keys(calls)))
		}
		nth := calls[stage][r.IntN(len(calls[stage]))]
		dir := t.TempDir()
		got, err := plant{nth: nth, code: syscall.ENOSPC, full: true}.run(program, dir, args)
		if err != nil {
			t.Fatal(err)
		}
		if got.call == "" { // it made fewer calls than the first
			continue
		}
		history := got.call + " of " + strings.TrimPrefix(got.path, dir+"/") + ", and all that follow"
		if got.exit != 1 || strings.Contains(got.output, "goroutine ") ||
			!strings.Contains(got.output, syscall.ENOSPC.Error()) {
			t.Errorf("%s: exit code %d\n%s", history, got.exit, got.output)
		}
		var text []byte
		for _, hours := range []string{"0.02", "0.1"} { // a machine that is busy needs more
			again := exec.Command(program, append(args[:4:4], "--hours", hours)...)
			again.Dir = dir
			if text, err = again.CombinedOutput(); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("%s, once there is room: %v\n%s", history, err, text)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "job", "report.html")); err != nil {
			t.Errorf("%s: %v", history, err)
		}
		verify := exec.Command(program, "verify", "job/prepared", "job/fold1")
		verify.Dir = dir
		if text, err := verify.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", history, err, text)
		}
	}
}

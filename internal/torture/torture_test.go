//go:build unix

package torture

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

var (
	kills  = flag.Int("kills", 5, "processes that are killed, or asked to stop, over all verbs")
	faults = flag.Int("faults", 3, "processes in which calls of the system fail, over all verbs")
	start  = flag.Uint64("seed", 1, "of the random moments")
)

// A bench is the program and what it works on.
type bench struct {
	program, scans, prepared string
	stories                  []story
}

// A story is a verb that makes files below the folder out.
type story struct {
	name   string
	args   []string
	resume string // the flag that takes it up again
	want   map[string]string
	took   time.Duration
}

// work makes the bench once: the tests share it.
func work(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{program: filepath.Join(dir, "voxsaw"), scans: filepath.Join(dir, "scans"), prepared: filepath.Join(dir, "base", "out")}
	if out, err := exec.Command("go", "build", "-o", b.program, "../../cmd/voxsaw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n := range 4 {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("case_%d.nii.gz", n+1)
		for _, sub := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(filepath.Join(b.scans, sub), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(nifti.Write(filepath.Join(b.scans, "imagesTr", name), scan), nifti.WriteLabels(filepath.Join(b.scans, "labelsTr", name), organs)); err != nil {
			t.Fatal(err)
		}
	}
	config := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const (
		steps    = "train: {steps: 30, validate_every: 5, checkpoint_every: 3}\n"
		network  = "network: {channels: 2, levels: 1}\n"
		finetune = network + steps + "crop: 16\nlabels: [2, 3]\n"
	)
	b.stories = []story{
		{name: "prepare", args: []string{"prepare", b.scans, "--out", "out"}},
		{name: "finetune", resume: "--resume", args: []string{"finetune", "--data", b.prepared, "--config", config("finetune.yaml", finetune), "--out", "out"}},
		{name: "pretrain", resume: "--resume", args: []string{"pretrain", "--data", b.prepared, "--config", config("pretrain.yaml", network+steps+"grid: 2x2x2\ncrop: 16\nfeatures: 8\nhidden: 8\n"), "--out", "out"}},
		{name: "crossval", args: []string{"crossval", "--data", b.prepared, "--out", "out", "--config", config("study.yaml",
			"folds: 2\nfractions: [1]\nseeds: [1]\ninitialisations:\n  - {name: scratch}\nfinetune:\n  "+strings.ReplaceAll(strings.TrimSpace(finetune), "\n", "\n  ")+"\n")}},
		{name: "predict", args: []string{"predict", filepath.Join(b.scans, "imagesTr"), "--checkpoint", filepath.Join(dir, "finetune", "out", "last.safetensors"), "--out", "out"}},
	}
	for n := range b.stories {
		s := &b.stories[n]
		where := filepath.Join(dir, s.name)
		if s.name == "prepare" {
			where = filepath.Dir(b.prepared)
		}
		if err := os.MkdirAll(where, 0o777); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if out, err := b.command(where, s.args).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, out)
		}
		s.took, s.want = time.Since(begin), outcome(t, where)
		if len(s.want) < 3 {
			t.Fatalf("%s made only %d files", s.name, len(s.want))
		}
	}
	return b
}

// command runs the program in a folder. The number of threads decides the last bits.
func (b *bench) command(dir string, args []string) *exec.Cmd {
	cmd := exec.Command(b.program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
	return cmd
}

// outcome is a digest of every file below the folder out, but for the report, which tells the time
// that everything took.
func outcome(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join(dir, "out")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "report") || strings.Contains(path, "report_files") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == "metrics.csv" {
			data = withoutTimes(data)
		}
		name, err := filepath.Rel(root, path)
		sum := sha256.Sum256(data)
		all[name] = hex.EncodeToString(sum[:8])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutTimes drops the last two columns.
func withoutTimes(data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		cells := bytes.Split(line, []byte(","))
		out = append(append(out, bytes.Join(cells[:max(len(cells)-2, 1)], []byte(","))...), '\n')
	}
	return out
}

// again is the command that takes a story up.
func (s story) again() []string {
	if s.resume == "" {
		return s.args
	}
	return append(slices.Clone(s.args), s.resume)
}

// end runs a story to its end, whatever was done to it before, and compares what it made.
func (b *bench) end(t *testing.T, s story, dir, history string) {
	t.Helper()
	out, err := b.command(dir, s.again()).CombinedOutput()
	if err != nil {
		t.Errorf("%s after %s: %v\n%s", s.name, history, err, out)
		return
	}
	if bytes.Contains(out, []byte("has a gap")) {
		t.Errorf("%s after %s: a gap in the log\n%s", s.name, history, out)
	}
	got := outcome(t, dir)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if s.want[name] == "" {
			t.Errorf("%s after %s: left over: %s", s.name, history, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.want)) {
		if got[name] != s.want[name] && !settled(s, name, history) {
			t.Errorf("%s after %s: %s is not that of a run that nothing happened to", s.name, history, name)
		}
	}
	if s.name != "predict" { // whose label maps are nothing that verify knows
		if out, err := b.command(dir, []string{"verify", "out"}).CombinedOutput(); err != nil {
			t.Errorf("%s after %s: %v\n%s", s.name, history, err, out)
		}
	}
}

// settled says whether a file may differ: the best checkpoint that could not be kept is not, and
// what names its step differs with it.
func settled(s story, name, history string) bool {
	return strings.Contains(history, "fault") && s.name != "prepare" && s.name != "predict" &&
		slices.Contains([]string{"best.safetensors", "last.safetensors", "run.json"}, filepath.Base(name))
}

// Killed or stopped at random moments, several times in a row, every verb ends as if nothing had
// happened.
func TestTorture(t *testing.T) {
	b := work(t)
	t.Run("Kills", b.testKills)
	t.Run("Faults", b.testFaults)
	t.Run("Order", b.testOrder)
	t.Run("TwoProcesses", b.testTwoProcesses)
}

func (b *bench) testKills(t *testing.T) {
	r := rand.New(rand.NewPCG(*start, 1))
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	for done := 0; done < *kills; {
		s := b.stories[done%len(b.stories)]
		dir := t.TempDir()
		var history []string
		for range min(1+r.IntN(3), *kills-done) {
			args := s.args
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				args = s.again()
			}
			cmd := b.command(dir, args)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			sig, after := signals[r.IntN(len(signals))], time.Duration(r.Float64()*float64(s.took))
			time.Sleep(after)
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait() // the state says how it ended
			done++
			history = append(history, fmt.Sprintf("%v after %v", sig, after.Round(time.Millisecond)))
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			switch code := status.ExitStatus(); {
			case status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == sig):
				// before it was ready
			case code == 0, code == 130:
			default:
				t.Errorf("%s, %v: exit code %d\n%s", s.name, history, code, said.String())
			}
		}
		t.Logf("%s: %s", s.name, strings.Join(history, ", "))
		b.end(t, s, dir, strings.Join(history, ", "))
	}
}

// tracer finds strace, where it may be used.
func tracer(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v %s", err, out)
	}
	return strace
}

// A power cut loses what was not synced, in any order. So the log is synced before a checkpoint
// gets its name, the checkpoint too, and the folder after that.
func (b *bench) testOrder(t *testing.T) {
	strace, dir := tracer(t), t.TempDir()
	trace := filepath.Join(dir, "trace")
	s := b.stories[1]
	cmd := exec.Command(strace, append([]string{"-f", "-qq", "-y", "-o", trace, "-e", "trace=fsync,?rename,?renameat,renameat2", b.program}, s.args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	synced, saved, folder := map[string]bool{}, 0, true
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, "rename") && strings.Contains(line, `last.safetensors"`):
			if saved++; !synced["metrics.csv>"] || !synced["validation.csv>"] || !synced["last.safetensors"] || !folder {
				t.Errorf("checkpoint %d gets its name when what was synced is %v, the folder after the one before: %v", saved, synced, folder)
			}
			synced, folder = map[string]bool{}, false
		case strings.Contains(line, "fsync("):
			for _, name := range []string{"metrics.csv>", "validation.csv>"} {
				synced[name] = synced[name] || strings.Contains(line, name)
			}
			synced["last.safetensors"] = synced["last.safetensors"] || strings.Contains(line, ".last.safetensors.")
			folder = folder || strings.Contains(line, "/out>")
		}
	}
	if saved < 5 || !folder {
		t.Errorf("%d checkpoints, the folder synced after the last: %v\n%s", saved, folder, text)
	}
}

// Calls of the system that fail end a run, or not; never does it say that all is well where it is
// not, and the next run makes good what is missing.
func (b *bench) testFaults(t *testing.T) {
	strace := tracer(t)
	r := rand.New(rand.NewPCG(*start, 2))
	calls := []string{"write,pwrite64", "fsync", "?rename,?renameat,renameat2", "openat", "pwrite64", "read,pread64"}
	for n := range *faults {
		s := b.stories[n%len(b.stories)]
		dir := t.TempDir()
		call, code := calls[r.IntN(len(calls))], []string{"ENOSPC", "EIO", "EDQUOT"}[r.IntN(3)]
		if call == "openat" {
			code = "EMFILE"
		}
		from := 1 + r.IntN(1<<r.IntN(6)) // strace counts the calls of each thread for itself
		until := ""
		if r.IntN(2) == 0 {
			until = "+" // and all that follow
		}
		history := fmt.Sprintf("fault: %s fails with %s from the %dth on%s", call, code, from, until)
		args := append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "signal=none", "-e", fmt.Sprintf("inject=%s:error=%s:when=%d%s", call, code, from, until), b.program}, s.args...)
		cmd := exec.Command(strace, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("goroutine ")) && !bytes.Contains(out, []byte("runtime: ")) {
			t.Errorf("%s, %s:\n%s", s.name, history, out)
		}
		t.Logf("%s, %s: %v", s.name, history, err)
		if err == nil {
			got := outcome(t, dir)
			for _, name := range slices.Sorted(maps.Keys(s.want)) {
				if got[name] != s.want[name] && !settled(s, name, history) {
					t.Errorf("%s, %s: ended well, but %s is not what it should be\n%s", s.name, history, name, out)
				}
			}
		}
		b.end(t, s, dir, history)
	}
}

// Two processes that want the same folder: one is refused, or both do their part; nothing is mixed.
func (b *bench) testTwoProcesses(t *testing.T) {
	for _, s := range b.stories {
		if s.name == "crossval" && *kills < 50 {
			continue // the short form has no time for it
		}
		dir := t.TempDir()
		var both [2]*exec.Cmd
		var said [2]bytes.Buffer
		for n := range both {
			both[n] = b.command(dir, s.args)
			both[n].Stdout, both[n].Stderr = &said[n], &said[n]
			if err := both[n].Start(); err != nil {
				t.Fatal(err)
			}
		}
		well := 0
		for n, cmd := range both {
			switch err := cmd.Wait(); {
			case err == nil:
				well++
			case !strings.Contains(said[n].String(), "in use") && !strings.Contains(said[n].String(), "already holds a run"):
				t.Errorf("%s: %v\n%s", s.name, err, said[n].String())
			}
		}
		if well == 0 {
			t.Errorf("%s: neither of two processes ended well", s.name)
		}
		b.end(t, s, dir, "two processes at once")
	}
}

//go:build unix

package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// tracer makes the command that traces the program with these options, where strace may be used.
// The program and all its threads stop at the calls alone that are traced, which the kernel
// chooses.
func (b *bench) tracer(t *testing.T) func(s story, dir string, options ...string) *exec.Cmd {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	always := []string{"-f", "-qq", "--seccomp-bpf"}
	if out, err := exec.Command(strace, append(always, "-o", "/dev/null", "true")...).CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v %s", err, out)
	}
	return func(s story, dir string, options ...string) *exec.Cmd {
		cmd := exec.Command(strace, slices.Concat(always, options, []string{b.program}, s.args)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
		return cmd
	}
}

// Calls of the system that fail end a run, or not; never does it say that all is well where it is
// not, and the next run makes good what is missing.
func (b *bench) testFaults(t *testing.T) {
	traced := b.tracer(t)
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
		out, err := traced(s, dir, "-o", "/dev/null", "-e", "trace="+call, "-e", "signal=none", "-e",
			fmt.Sprintf("inject=%s:error=%s:when=%d%s", call, code, from, until)).CombinedOutput()
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

// A folder that cannot be synced may lose the names in it at a power cut: no verb ends well then,
// and each says so.
func (b *bench) testFolders(t *testing.T) {
	traced := b.tracer(t)
	for _, s := range b.shortStories(t) {
		dir := t.TempDir()
		out, err := traced(s, dir, "-o", "/dev/null", "-P", filepath.Join(dir, "out"), "-e", "trace=fsync",
			"-e", "signal=none", "-e", "inject=fsync:error=EIO").CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
			!bytes.Contains(out, []byte("out: input/output error")) {
			t.Errorf("%s, whose folder cannot be synced: %v\n%s", s.name, err, out)
		}
		b.end(t, s, dir, "fault: its folder could not be synced")
	}
}

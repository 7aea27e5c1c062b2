//go:build unix

package crashtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

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
			if !endedBy(cmd, sig) {
				t.Errorf("%s, %v: %v\n%s", s.name, history, cmd.ProcessState, said.String())
			}
		}
		t.Logf("%s: %s", s.name, strings.Join(history, ", "))
		b.end(t, s, dir, strings.Join(history, ", "))
	}
}

// endedBy says whether a process ended as a signal lets it: by that, before it was ready, or saved,
// or done.
func endedBy(cmd *exec.Cmd, sig syscall.Signal) bool {
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal() == syscall.SIGKILL || status.Signal() == sig
	}
	return status.ExitStatus() == 0 || status.ExitStatus() == 130
}

// What a process leaves that is killed while it writes any of its files, the last one of a whole
// run too, is gone when the verb is called again.
func (b *bench) testLeftovers(t *testing.T) {
	for _, s := range inTurn(t, b.stories) {
		dir := t.TempDir()
		if out, err := b.command(dir, s.args).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, out)
		}
		var left []string
		for name := range s.want {
			path := filepath.Join(dir, "out", name)
			left = append(left, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".77.tmp"))
			if sums := filepath.Join(filepath.Dir(path), atomicfile.SumsFile); exists(sums) {
				left = append(left, sums+".lock")
			}
		}
		if exists(filepath.Join(dir, "out", "report.html")) {
			left = append(left, filepath.Join(dir, "out", ".report.html.77.tmp"))
		}
		for _, path := range left {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.end(t, s, dir, "files left half-written")
		for _, path := range left {
			if exists(path) {
				t.Errorf("%s: left over: %s", s.name, path)
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Two processes that want the same folder: one is refused, or both do their part; nothing is mixed.
func (b *bench) testTwoProcesses(t *testing.T) {
	for _, s := range b.shortStories(t) {
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
			case !strings.Contains(said[n].String(), "in use") &&
				!strings.Contains(said[n].String(), "already holds a run"):
				t.Errorf("%s: %v\n%s", s.name, err, said[n].String())
			}
		}
		if well == 0 {
			t.Errorf("%s: neither of two processes ended well", s.name)
		}
		b.end(t, s, dir, "two processes at once")
	}
}

//go:build unix

package crashtest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/turns"
)

// usedUp is what a job says whose time is.
const usedUp = "of the job are used up"

// firstWrite closes a channel when somebody writes, and keeps what.
type firstWrite struct {
	text bytes.Buffer
	once sync.Once
	done chan struct{}
}

func (f *firstWrite) Write(text []byte) (int, error) {
	f.once.Do(func() { close(f.done) })
	return f.text.Write(text)
}

// A job of voxsaw auto that is interrupted, killed and asked to stop at random moments ends, and
// what it has made is what its commands make that are typed one by one.
func TestAuto(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := program(t, filepath.Join(dir, "bin", "voxsaw"))
	makeScans(t, filepath.Join(dir, "scans"))
	command := func(name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd, text := exec.Command(name, args...), &bytes.Buffer{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, text, text
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "GOMAXPROCS=1")
		return cmd, text
	}
	r := rand.New(rand.NewPCG(*start, 43))
	killed := 0
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM} {
		cmd, _ := command(program, "auto", "scans", "--out", "job", "--hours", "0.003")
		said := &firstWrite{done: make(chan struct{})}
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-said.done:
		case err := <-ended:
			t.Fatalf("it said nothing: %v", err)
		}
		time.Sleep(time.Duration(1+3*r.Float64()) * time.Second)
		_ = cmd.Process.Signal(sig)
		if err := <-ended; err == nil || strings.Contains(said.text.String(), usedUp) {
			break // it was faster
		}
		if !endedBy(cmd, sig) {
			t.Errorf("%v: %v\n%s", sig, cmd.ProcessState, said.text.String())
		}
		killed++
	}
	var members []string
	for _, hours := range []string{"0.003", "0.012", "0.04"} { // a machine that is busy needs more
		cmd, text := command(program, "auto", "--resume", "--out", "job", "--hours", hours)
		if err := cmd.Run(); err != nil && !strings.Contains(text.String(), usedUp) {
			t.Fatalf("after %d kills: %v\n%s", killed, err, text)
		}
		var err error
		if members, err = filepath.Glob(filepath.Join(dir, "job", "model", "*.safetensors")); err != nil {
			t.Fatal(err)
		}
		if len(members) >= 2 {
			break
		}
		t.Logf("in %s h: %q\n%s", hours, members, text)
	}
	if len(members) < 2 {
		t.Fatal("no two networks")
	}
	cmd, text := command(program, slices.Concat([]string{"verify", "job/prepared", "job/fold1", "job/all"}, members)...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	leftovers := regexp.MustCompile(`\.tmp|\.partial`)
	err := filepath.WalkDir(filepath.Join(dir, "job"), func(path string, d os.DirEntry, err error) error {
		if leftovers.MatchString(d.Name()) {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	plan, err := os.ReadFile(filepath.Join(dir, "job", "plan.yaml"))
	err = errors.Join(err, os.Rename(filepath.Join(dir, "job"), filepath.Join(dir, "first")),
		os.Mkdir(filepath.Join(dir, "job"), 0o755), os.WriteFile(filepath.Join(dir, "job", "plan.yaml"), plan, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd, text = command("sh", "-e", "first/commands.sh")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, path := range members {
		typed, err := os.ReadFile(path)
		made, failed := os.ReadFile(strings.Replace(path, "/job/", "/first/", 1))
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(typed, made) {
			t.Errorf("%s is another one where the commands are typed", path)
		}
	}
}

//go:build unix

package learning_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/miniature"
)

// prepareTiny prepares phantoms and writes the settings of the smallest training.
func prepareTiny(t *testing.T) (config string) {
	t.Helper()
	dir := t.TempDir()
	scans, cases := filepath.Join(dir, "scans"), filepath.Join(dir, "prepared")
	if err := miniature.Scans(scans, miniature.ScanOptions{Cases: 4, Labelled: 4}); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if code := cli.Run([]string{"prepare", scans, "--out", cases}, &bytes.Buffer{}, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	config = filepath.Join(dir, "finetune.yaml")
	text := "data: " + cases +
		"\nnetwork: {channels: 2, levels: 1}\ntrain: {steps: 100000, validate_every: 2, checkpoint_every: 50000}\n" +
		"crop: 16\nlabels: [2, 3]\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return config
}

// Signals reach all processes of a terminal. Whoever reads what the run writes may be gone before
// it: the run is saved all the same. After nohup, SIGHUP does nothing.
func TestSignalsOfTheProcessGroup(t *testing.T) {
	// Started by nohup, these tests would hand an ignored SIGHUP down. What is caught here is not
	// ignored there.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	config := prepareTiny(t)
	for _, c := range []struct {
		name, prefix string
		signals      []syscall.Signal
	}{
		{"Ctrl-C", "", []syscall.Signal{syscall.SIGINT}},
		{"the terminal is closed", "", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}},
		{"terminated", "", []syscall.Signal{syscall.SIGTERM}},
		{"the terminal is closed after nohup", "nohup", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			log, code, out := filepath.Join(dir, "log"), filepath.Join(dir, "code"), filepath.Join(dir, "run")
			// The shell in front of the pipe outlives the signals and writes down how voxsaw ended.
			script := `{ trap : INT HUP TERM; $PREFIX voxsaw finetune --config "$CONFIG" --out "$OUT"; echo $? >"$CODE"; } 2>&1 | tee "$LOG"`
			cmd := exec.Command("sh", "-c", script)
			cmd.Env = append(os.Environ(), "PREFIX="+c.prefix, "CONFIG="+config, "OUT="+out, "CODE="+code, "LOG="+log)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			wait := func(what string, done func() bool) {
				t.Helper()
				for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
						text, _ := os.ReadFile(log)
						t.Fatalf("%s did not happen\n%s", what, text)
					}
				}
			}
			steps := func() int {
				text, _ := os.ReadFile(filepath.Join(out, "validation.csv"))
				return bytes.Count(text, []byte("\n"))
			}
			for _, s := range c.signals {
				before := steps()
				wait("a validation", func() bool { return steps() > before+1 })
				if _, err := os.Stat(filepath.Join(out, "last.safetensors")); err == nil {
					t.Error("the run was saved before the signal that stops it")
				}
				if err := syscall.Kill(-cmd.Process.Pid, s); err != nil {
					t.Fatal(err)
				}
				if c.prefix == "" && len(c.signals) > 1 { // both at once
					_ = syscall.Kill(-cmd.Process.Pid, c.signals[1])
					break
				}
			}
			wait("the end", func() bool { text, _ := os.ReadFile(code); return len(text) > 0 })
			_ = cmd.Wait()
			if text, _ := os.ReadFile(code); strings.TrimSpace(string(text)) != "130" {
				t.Errorf("exit code %s, want 130", text)
			}
			d, err := checkpoint.Read(filepath.Join(out, "last.safetensors"))
			if err != nil || d.Step < 2 {
				t.Errorf("saved: step %d, %v", d.Step, err)
			}
		})
	}
}

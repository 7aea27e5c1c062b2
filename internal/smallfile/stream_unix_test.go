//go:build unix

package smallfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPipes(t *testing.T) {
	named := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(named, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(named, 10); err == nil || !strings.Contains(err.Error(), "pipe or a device") {
		t.Errorf("where a file is needed: %v", err)
	}
	defer func(old time.Duration) { patience = old }(patience)
	patience = 50 * time.Millisecond
	if _, err := ReadGiven(named, 10); err == nil || !strings.Contains(err.Error(), "nobody writes to") {
		t.Errorf("nobody writes: %v", err)
	}
	patience = time.Minute
	write := func(text string) chan error {
		done := make(chan error, 1)
		go func() { done <- os.WriteFile(named, []byte(text), 0o666) }()
		return done
	}
	done := write("steps: 7\n")
	if got, err := ReadGiven(named, 10); err != nil || string(got) != "steps: 7\n" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	write(strings.Repeat("x", 100))
	var large *TooLargeError
	if _, err := ReadGiven(named, 10); !errors.As(err, &large) {
		t.Errorf("more than the limit: %v", err)
	}
}

// A shell's <(command) is a path such as /dev/fd/63.
func TestProcessSubstitution(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		for _, part := range []string{"st", "eps", ": 7\n"} {
			time.Sleep(20 * time.Millisecond)
			w.WriteString(part)
		}
		w.Close()
	}()
	if got, err := ReadGiven(fmt.Sprintf("/dev/fd/%d", r.Fd()), 100); err != nil || string(got) != "steps: 7\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestDevices(t *testing.T) {
	if _, err := Read("/dev/zero", 10); err == nil || !strings.Contains(err.Error(), "pipe or a device") {
		t.Errorf("where a file is needed: %v", err)
	}
	var large *TooLargeError
	if _, err := ReadGiven("/dev/zero", Settings); !errors.As(err, &large) ||
		err.Error() != "/dev/zero holds more than 1 MiB: name another file" {
		t.Errorf("without end: %v", err)
	}
	if got, err := ReadGiven("/dev/null", 10); err != nil || len(got) != 0 {
		t.Errorf("read %q, %v", got, err)
	}
}

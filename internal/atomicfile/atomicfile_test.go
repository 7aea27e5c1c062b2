package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTheOldContentOrTheNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.csv")
	check := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("the file holds %q (%v), want %q", got, err, want)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 {
			t.Errorf("the folder holds %v (%v), want the file alone", entries, err)
		}
	}
	if err := WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	check("old")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v (%v), want 0644: colleagues read results, too", info.Mode(), err)
	}
	broken := errors.New("out of ideas")
	err := Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half of the n"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "room") {
		t.Errorf("error %v: must wrap the cause and name the file", err)
	}
	check("old")
	if err := WriteBytes(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	check("new")
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		err := Write(path, func(io.Writer) error { return fmt.Errorf("flushing: %w", cause) })
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "make room") || !NoRoom(err) {
			t.Errorf("%v: %v does not say to make room", cause, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
	if NoRoom(nil) || NoRoom(fs.ErrPermission) {
		t.Error("not every error is a full disk")
	}
}

func TestFolderMissing(t *testing.T) {
	if err := WriteBytes(filepath.Join(t.TempDir(), "nowhere", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want one that wraps fs.ErrNotExist", err)
	}
}

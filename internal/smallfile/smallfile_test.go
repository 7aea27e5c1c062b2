package smallfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestReadUpToTheLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dataset.json")
	for _, size := range []int{0, 1, 511, 512, 513, 1024} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(string, int64) ([]byte, error){Read, ReadGiven} {
			if got, err := read(path, 1024); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: read %d, %v", size, len(got), err)
			}
			if size == 0 {
				continue
			}
			var large *TooLargeError
			if _, err := read(path, int64(size)-1); !errors.As(err, &large) || !strings.Contains(err.Error(), path) {
				t.Errorf("%d bytes over the limit: %v", size, err)
			}
		}
	}
}

// A sparse file of a terabyte takes no memory to refuse, and the error has both figures.
func TestSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifest.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(3<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Read(path, List)
	runtime.ReadMemStats(&after)
	want := path +
		" holds 3072 MiB, more than the 64 MiB of the largest file of this kind: if it is not what its name " +
		"says, put the right file there"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d bytes", took)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, read := range []func(string, int64) ([]byte, error){Read, ReadGiven} {
		if _, err := read(dir, 10); err == nil || !strings.Contains(err.Error(), "is a folder") {
			t.Error(err)
		}
	}
}

package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// New files have the mode that the umask gives them. No mode is changed afterwards: some file
// systems cannot do that.
func TestUmask(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no umask here")
	}
	if path := os.Getenv("VOXSAW_TEST_UMASK"); path != "" {
		if err := WriteBytes(path, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	for umask, want := range map[string]fs.FileMode{"077": 0o600, "022": 0o644, "002": 0o664, "027": 0o640} {
		path := filepath.Join(t.TempDir(), "labels.nii")
		cmd := exec.Command("sh", "-c", "umask "+umask+"; exec "+os.Args[0]+" -test.run=^TestUmask$")
		cmd.Env = append(os.Environ(), "VOXSAW_TEST_UMASK="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("umask %s: mode %v (%v), want %v", umask, info.Mode(), err, want)
		}
	}
}

// What cannot be seen here is that the names are on the disk: internal/crashtest looks at that.
func TestMakeFolderAndRemove(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 { // the second time it is there
		if err := MakeFolder(deep); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(deep, "file")
	if err := WriteBytes(file, nil); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder(filepath.Join(file, "below")); err == nil {
		t.Error("a folder in a file was made")
	}
	for range 2 {
		if err := Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", file, err)
	}
	t.Chdir(dir)
	if err := MakeFolder("x/y"); err != nil {
		t.Error(err)
	}
}

// What a killed process has left is removed, and nothing else.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	f, err := create(filepath.Join(dir, "weights"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	others := []string{".DS_Store", ".hidden.tmp", "notes.1.tmp", "weights", ".labels.nii.gz.77.tmp"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".weights.5.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, ".weights.turn") // of Rewrite, which a kill has left
	for _, name := range []string{".weights.turn", ".weights.2.turn", "weights.turn", "..turn"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	others = append(others, ".weights.2.turn", "weights.turn", "..turn")
	if err := Clean(dir, func(name string) bool { return name == "weights" }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", f.Name(), err)
	}
	if _, err := os.Stat(lock); locks && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", lock, err)
	}
	for _, name := range append(others, ".weights.5.tmp") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := Clean(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".labels.nii.gz.77.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("without a choice all are removed")
	}
}

func TestOfMachine(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE} {
		if !OfMachine(fmt.Errorf("reading scan: %w", err)) {
			t.Errorf("%v is no failure of the machine", err)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist, fs.ErrPermission, io.ErrUnexpectedEOF, syscall.EPIPE} {
		if OfMachine(err) {
			t.Errorf("%v is a failure of the machine", err)
		}
	}
}

// Of files that belong together none is replaced before all can be.
func TestWriteTogether(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	content := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
			return err
		}
	}
	check := func(a, b string) {
		t.Helper()
		for path, want := range map[string]string{first: a, second: b} {
			if data, err := os.ReadFile(path); err != nil || string(data) != want {
				t.Errorf("%s holds %q (%v), want %q", path, data, err, want)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
			t.Errorf("left over: %v, %v", left, err)
		}
	}
	called := 0
	ready := func() error { called++; return nil }
	together := func(ready func() error, a, b func(io.Writer) error) error {
		return WriteTogether(ready, File{first, a}, File{second, b})
	}
	if err := together(ready, content("a", nil), content("b", nil)); err != nil || called != 1 {
		t.Fatalf("ready was called %d times, %v", called, err)
	}
	check("a", "b")
	for path, fail := range map[string][2]error{first: {syscall.ENOSPC, nil}, second: {nil, syscall.ENOSPC}} {
		err := together(ready, content("c", fail[0]), content("d", fail[1]))
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) || called != 1 {
			t.Errorf("ready was called %d times, %v", called, err)
		}
		check("a", "b")
	}
	err := together(func() error { return syscall.EIO }, content("c", nil), content("d", nil))
	if !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	check("a", "b")
}

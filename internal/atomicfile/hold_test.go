//go:build unix && !solaris && !aix

package atomicfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A folder that one process holds is refused to another, and free again when the first lets go or
// dies.
func TestHold(t *testing.T) {
	if held := os.Getenv("VOXSAW_TEST_HOLD"); held != "" {
		if _, err := Hold(held); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // while it holds the folder; a t.TempDir of this process would stay behind
	}
	dir := t.TempDir()
	another := func() (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHold$")
		cmd.Env = append(os.Environ(), "VOXSAW_TEST_HOLD="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	release, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := another(); err == nil || !strings.Contains(out, dir+" is in use by another run") {
		t.Errorf("another process got: %v\n%s", err, out)
	}
	release()
	for range 2 { // the first of them died holding it
		if out, err := another(); err != nil {
			t.Errorf("after the release another process got: %v\n%s", err, out)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the folder holds %v", left)
	}
	if _, err := Hold(dir + "/nothing"); err == nil {
		t.Error("a folder that is not there can be held")
	}
}

// Many may read a folder that nobody writes to, and nobody takes it meanwhile.
func TestShare(t *testing.T) { shareAndHold(t, t.TempDir()) }

// Where several machines have a folder it is a file in it that is locked, which all of them see:
// the folder's own lock is left alone.
func TestLocksOfANetwork(t *testing.T) {
	defer func() { networked = ofNetwork }()
	networked = func(*os.File) bool { return true }
	dir := t.TempDir()
	shareAndHold(t, dir)
	release, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("the folder itself is locked: %v", err)
	}
	release()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != ".voxsaw.lock" {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

func shareAndHold(t *testing.T, dir string) {
	t.Helper()
	one, err := Share(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Share(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []func(){one, two} {
		if _, err := Hold(dir); err == nil || !strings.Contains(err.Error(), dir+" is in use by another run") {
			t.Errorf("a folder that is read can be taken: %v", err)
		}
		release()
	}
	release, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Share(dir); err == nil || !strings.Contains(err.Error(), dir+" is being written by another run") {
		t.Errorf("a folder that is written can be read: %v", err)
	}
	release()
	if _, err := Share(dir + "/nothing"); err == nil {
		t.Error("a folder that is not there can be read")
	}
}

// Processes that write into one folder do not clean away each other's work.
func TestOnlyWhoIsAloneCleans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "labels")
	hidden := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	first, err := Enter(dir, func(name string) bool { return name != "notes" })
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".a.nii.gz.1.tmp", ".b.dcm.2.tmp", ".notes.3.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second, err := Enter(dir, func(name string) bool { return name != "notes" })
	if err != nil {
		t.Fatal(err)
	}
	if got := hidden(); len(got) != 3 {
		t.Errorf("a second process left %q of the first one's", got)
	}
	first()
	second()
	third, err := Enter(dir, func(name string) bool { return name != "notes" })
	if err != nil {
		t.Fatal(err)
	}
	third()
	if got := hidden(); !slices.Equal(got, []string{".notes.3.tmp"}) {
		t.Errorf("who is alone left %q", got)
	}
}

// Processes that write into one folder at the same time lose none of each other's digests, and
// leave no lock behind.
func TestProcessesSeal(t *testing.T) {
	const processes, files = 6, 12
	if at := os.Getenv("VOXSAW_TEST_SEAL"); at != "" {
		all := filepath.Join(filepath.Dir(at), "all") // which all processes write
		for n := range files {
			path := at + "-" + strconv.Itoa(n)
			if err := errors.Join(WriteBytes(path, []byte(path)), SealFile(path), WriteBytes(path, []byte("new")),
				SealFile(path),
				WriteBytes(all, []byte(path)), SealFile(all)); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := t.TempDir()
	var started []*exec.Cmd
	for n := range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcessesSeal$")
		cmd.Env = append(os.Environ(), "VOXSAW_TEST_SEAL="+filepath.Join(dir, strconv.Itoa(n)))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if listed, err := Compare(dir); err != nil || len(listed) < processes*files {
		t.Errorf("%d of %d files are listed: %v", len(listed), processes*files, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != processes*files+2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

//go:build unix

package prepare

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/childtest"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// limit sets a limit of this process, and takes it back at the end of the test.
func limit(t *testing.T, which int, cur uint64) (lift func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(which, &before); err != nil {
		t.Fatal(err)
	}
	now := before
	now.Cur = cur
	if err := syscall.Setrlimit(which, &now); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(which, &before); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(lift)
	return lift
}

// contents reads all files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*", "cases/*", ".*.tmp", "cases/.*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if data, err := os.ReadFile(path); err == nil {
				all[path] = string(data)
			}
		}
	}
	return all
}

// A disk that is full before the first case is written costs nothing of what was prepared before.
// When it is full after some, these stay, nothing else is deleted, and there is no store.
func TestPrepareStopsWhenTheDiskIsFull(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	root, dir := folderOf(t, "p1", "p2", "p3", "p4"), t.TempDir()
	d := detect(t, root)
	one := Options{Workers: 1, Force: true}
	if _, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), one, nil); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	other := volume.DefaultPreparation()
	other.Window = [2]float64{-100, 100}

	lift := limit(t, syscall.RLIMIT_FSIZE, 0)
	summary, err := Run(t.Context(), d, dir, other, one, nil)
	lift()
	if !atomicfile.NoRoom(err) || len(summary.Failed) != 1 || strings.Count(err.Error(), "case p1:") != 1 ||
		!strings.Contains(err.Error(), "the cases that were prepared before are untouched") {
		t.Errorf("failed: %d cases, %v", len(summary.Failed), err)
	}
	if !maps.Equal(contents(t, dir), before) {
		t.Error("what was prepared before has changed")
	}

	seen := 0
	summary, err = Run(t.Context(), d, dir, other, one, func(Result) {
		if seen++; seen == 2 {
			lift = limit(t, syscall.RLIMIT_FSIZE, 0)
		}
	})
	lift()
	if !atomicfile.NoRoom(err) || summary.Prepared != 2 || len(summary.Failed) != 1 || summary.Fingerprint != "" {
		t.Errorf("%d prepared, %d failed, fingerprint %q, %v", summary.Prepared, len(summary.Failed),
			summary.Fingerprint, err)
	}
	if !strings.Contains(err.Error(), "some cases that were prepared before are replaced already") ||
		strings.Contains(err.Error(), "untouched") {
		t.Errorf("what became of the earlier cases is not said: %v", err)
	}
	if _, err := prepared.Open(dir); !errors.Is(err, prepared.ErrNotPrepared) {
		t.Errorf("a store of two cases of four: %v", err)
	}
	after := contents(t, dir)
	for path := range before {
		if _, there := after[path]; !there && filepath.Base(path) != "manifest.json" &&
			filepath.Base(path) != atomicfile.SumsFile {
			t.Errorf("%s was deleted", path)
		}
	}
	if len(after) != len(before)-2 { // the manifest, and the digests of the records
		t.Errorf("%d files, were %d", len(after), len(before))
	}
	if s, err := Run(t.Context(), d, dir, other, one, nil); err != nil || s.Kept != 2 || s.Prepared != 2 {
		t.Errorf("when there is room again: %+v, %v", s, err)
	}
}

// Cases that come to others leave these as they are, with their manifest, until all are prepared: a
// full disk costs nothing.
func TestFullDiskLeavesTheEarlierStore(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	root, dir := folderOf(t, "p1", "p2"), t.TempDir()
	one := Options{Workers: 1}
	prepare := func(progress func(Result)) (*Summary, error) {
		return Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), one, progress)
	}
	if _, err := prepare(nil); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	more := folderOf(t, "p3", "p4")
	for _, name := range []string{"imagesTr/p3.nii.gz", "imagesTr/p4.nii.gz", "labelsTr/p3.nii.gz",
		"labelsTr/p4.nii.gz"} {
		if err := os.Rename(filepath.Join(more, name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	seen, lift := 0, func() {}
	summary, err := prepare(func(Result) {
		if seen++; seen == 3 {
			lift = limit(t, syscall.RLIMIT_FSIZE, 0)
		}
	})
	lift()
	if !atomicfile.NoRoom(err) || summary.Prepared != 1 ||
		!strings.Contains(err.Error(), "the cases that were prepared before are untouched") {
		t.Fatalf("%d prepared, %v", summary.Prepared, err)
	}
	after := contents(t, dir)
	for path, content := range before {
		if after[path] != content {
			t.Errorf("%s has changed", path)
		}
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if s, err := prepare(nil); err != nil || s.Kept != 3 || s.Prepared != 1 {
		t.Errorf("when there is room again: %+v, %v", s, err)
	}
}

// Too many open files are no fault of the scan that is opened next, and stop the rest, too.
func TestPrepareStopsWithoutFileDescriptors(t *testing.T) {
	if childtest.InChild(t) {
		return
	}
	root, dir := folderOf(t, "p1", "p2", "p3", "p4"), t.TempDir()
	seen, lift := 0, func() {}
	summary, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{Workers: 1},
		func(Result) {
			if seen++; seen == 1 {
				lift = limit(t, syscall.RLIMIT_NOFILE, 3)
			}
		})
	lift()
	if !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "case p2") || summary.Prepared != 1 ||
		len(summary.Failed) != 1 {
		t.Errorf("%d prepared, %d failed, %v", summary.Prepared, len(summary.Failed), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err == nil {
		t.Error("there is a manifest of one case of four")
	}
}

//go:build unix

package folders

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe is not opened: reading from it would wait for somebody who writes.
func TestWalkOpensNoPipes(t *testing.T) {
	root := build(t, []string{"a.nii.gz"}, nil)
	if err := unix.Mkfifo(filepath.Join(root, "b.nii.gz"), 0o666); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(filepath.Join(root, "b.nii.gz")); err == nil {
		f.Close()
		t.Error("a pipe is open")
	}
	if got, want := visited(t, root), []string{"a.nii.gz", "b.nii.gz!"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

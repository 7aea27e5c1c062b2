package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	t.Chdir("../..")
	targets, err := find()
	if err != nil {
		t.Skip("git is not here, or this is no repository: ", err)
	}
	for _, want := range []target{{"internal/plain", "FuzzQuote"}, {"volume/nifti/internal/gunzip", "FuzzInflate"}} {
		if !slices.Contains(targets, want) {
			t.Errorf("%v is not among %v", want, targets)
		}
	}
}

// The core of a corpus is what reaches code that nothing smaller reaches.
func TestSmallest(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"b": 10, "a": 10, "small": 1, "large": mostSize + 1} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "small"), filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	if got := smallest(dir, entries); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

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
	for _, want := range []target{{"internal/safetext", "FuzzQuote"}, {"volume/nifti/internal/gunzip", "FuzzInflate"}} {
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

// What go test printed, once at the end of the time alone and once for an input that fails.
func TestOnlyTheClock(t *testing.T) {
	const progress = "fuzz: elapsed: 3s, execs: 491 (0/sec), new interesting: 7 (total: 72)\n"
	for name, c := range map[string]struct {
		printed string
		want    bool
	}{
		"clock": {progress + "--- FAIL: FuzzFile (3.19s)\n    context deadline exceeded\nFAIL\nexit status 1\n", true},
		"input": {progress +
			"--- FAIL: FuzzFile (0.05s)\n    --- FAIL: FuzzFile (0.00s)\n        main_test.go:9: wrong\n    \n    Failing input written to testdata/fuzz/FuzzFile/771e938e4458e983\nFAIL\nexit status 1\n", false},
		"hang": {progress +
			"--- FAIL: FuzzFile (3.19s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n",
			false},
		"build": {"FAIL\texample.org/p [build failed]\nFAIL\n", false},
	} {
		if got := onlyTheClock(c.printed); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

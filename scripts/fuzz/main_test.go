package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/turns"
)

func TestFind(t *testing.T) {
	t.Chdir("../..")
	targets, err := find()
	if err != nil {
		t.Skip("git is not here, or this is no repository: ", err)
	}
	for _, want := range []target{{"internal/safetext", "FuzzQuote"}, {"volume/nifti", "FuzzFile"}} {
		if !slices.Contains(targets, want) {
			t.Errorf("%v is not among %v", want, targets)
		}
	}
}

// The parts have each target once; what is no part is refused.
func TestParts(t *testing.T) {
	targets := []target{{"p", "A"}, {"p", "B"}, {"q", "C"}, {"q", "D"}, {"r", "E"}}
	count := map[target]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		some, err := ofPart(targets, part)
		if err != nil || len(some) < 1 || len(some) > 2 {
			t.Errorf("part %s: %v, %v", part, some, err)
		}
		for _, s := range some {
			count[s]++
		}
	}
	for _, s := range targets {
		if count[s] != 1 {
			t.Errorf("%v is in %d parts", s, count[s])
		}
	}
	for _, part := range []string{"", "1", "0/3", "4/3", "1/0", "-1/3", "1/3x", "a/b"} {
		if some, err := ofPart(targets, part); err == nil {
			t.Errorf("part %q: %v", part, some)
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

// Two targets of a package are run by one program. An input that fails lies where go test looks for
// it.
func TestFuzz(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod": "module example.org/fuzzed\n\ngo 1.26\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc FuzzGood(f *testing.F) {\n" +
			"\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) {})\n}\n\nfunc FuzzBad(f *testing.F) {\n" +
			"\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) {\n\t\tif n != 1 {\n\t\t\tt.Error(n)\n\t\t}\n\t})\n}\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	built := programs{t.TempDir(), map[string]string{}}
	for name, fails := range map[string]bool{"FuzzGood": false, "FuzzBad": true} {
		program, err := built.of("p")
		if err != nil {
			t.Fatal(err)
		}
		if err := (target{"p", name}).fuzz(program, time.Second, 1); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	if inputs, err := filepath.Glob("p/testdata/fuzz/FuzzBad/*"); len(inputs) != 1 || len(built.paths) != 1 {
		t.Errorf("failing inputs %q, %v; %d programs", inputs, err, len(built.paths))
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
			"--- FAIL: FuzzFile (0.05s)\n    --- FAIL: FuzzFile (0.00s)\n        main_test.go:9: wrong\n    \n    " +
			"Failing input written to testdata/fuzz/FuzzFile/771e938e4458e983\nFAIL\nexit status 1\n", false},
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

// Package asmtest checks in tests that assembly which is checked in is what its generator makes.
//
// Start at [Generated].
package asmtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Generated runs a generator (a folder below the test's, such as ./asm) for a package and compares
// the files that it makes with those beside the test: assembly, stubs and, where the generator
// writes any, tables. It needs the go command, as go test does.
func Generated(t *testing.T, generator, pkg string, files ...string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"run", generator, "-pkg", pkg}
	for i, flag := range []string{"-out", "-stubs", "-table"}[:len(files)] {
		args = append(args, flag, filepath.Join(dir, files[i]))
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("running %s: %v\n%s", generator, err, out)
	}
	for _, name := range files {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		// The first line repeats the command, which names the files.
		_, want, _ = bytes.Cut(want, []byte("\n"))
		_, got, _ = bytes.Cut(got, []byte("\n"))
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what its generator makes: run go generate", name)
		}
	}
}

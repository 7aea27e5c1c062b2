package voxsaw_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program of another module (testdata/outside) is built against this one and runs: prepare,
// pretrain, fine-tune, predict, compare.
func TestOutsideModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	for from, to := range map[string]string{filepath.Join("testdata", "outside", "main.go"): "main.go",
		"go.sum": "go.sum", "go.mod": "go.mod"} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "go.mod" { // its requirements, so that nothing need be looked up
			text := strings.Replace(string(data), "module github.com/voxsaw/voxsaw\n", "module example.org/outside\n",
				1)
			data = []byte(text + "\nrequire github.com/voxsaw/voxsaw v0.0.0\n\nreplace github.com/voxsaw/voxsaw => " +
				here + "\n")
		}
		if err := os.WriteFile(filepath.Join(module, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "run", "-mod=mod", ".")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "done" {
		t.Errorf("%v\n%s", err, out)
	}
}

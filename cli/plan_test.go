package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Of two plans that are made at once, the one that ends last does not replace the other.
func TestPlanReplacesNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	o := planOptions{Out: path}
	if err := o.free(); err != nil {
		t.Fatal(err)
	}
	first := func(w io.Writer) error { return os.WriteFile(path, []byte("first"), 0o666) }
	if err := o.write(first); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

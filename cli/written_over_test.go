package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that a user names and that are there are not written over; settings that a bench does not
// look at are refused.
func TestFilesThatAreThereStay(t *testing.T) {
	dir := t.TempDir()
	from, mine := filepath.Join(dir, "from.safetensors"), filepath.Join(dir, "best.safetensors")
	for _, path := range []string{from, mine} {
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range [][]string{
		{"is there already, and would be written over", "convert", from, "--to", "monai", "--out", mine},
		{"is there already, and would be written over", "convert", from, "--to", "nnunet-pretrained", "--out", mine},
		{"is there already, and would be written over", "bench", "infer", "--crop", "16", "--steps", "1",
			"--samples", mine},
		{"bench predict times the windows", "bench", "predict", from, "--components", "all"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Run(c[1:], &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), c[0]) {
			t.Errorf("%q: exit code %d, %s", c[1:], code, stderr.String())
		}
	}
	if text, err := os.ReadFile(mine); string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one system lacks is found where it is named, and only for that system.
func TestWhatASystemLacks(t *testing.T) {
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.org/some\n\ngo 1.26\n",
		"some.go":       "package some\n\nimport \"syscall\"\n\nvar _ = syscall.Umask\n\nvar _ int = ours\n",
		"ours_other.go": "//go:build !windows\n\npackage some\n\nconst ours = 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := check(dir, "darwin/arm64"); n != 1 || err != nil {
		t.Errorf("darwin/arm64: %d packages, %v", n, err)
	}
	_, err := check(dir, "windows/amd64")
	if err == nil || strings.Count(err.Error(), "undefined: ") != 2 || !strings.Contains(err.Error(), "some.go:5") ||
		!strings.Contains(err.Error(), "some.go:7") {
		t.Errorf("windows/amd64: %v", err)
	}
	if _, err := check(dir, "windows"); err == nil || !strings.Contains(err.Error(), "such as windows/amd64") {
		t.Errorf("half a platform: %v", err)
	}
}

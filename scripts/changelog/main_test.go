package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The fragments of the repository can be assembled, and CHANGELOG.md takes a section.
func TestFragments(t *testing.T) {
	root := filepath.Join("..", "..")
	fragments, err := read(filepath.Join(root, "changes"))
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := insert(string(changelog), section("Unreleased", fragments)); err != nil {
		t.Error(err)
	}
	citation, err := os.ReadFile(filepath.Join(root, "CITATION.cff"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cite(string(citation), "1.2.3", time.Now()); err != nil {
		t.Error(err)
	}
}

func TestRelease(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("CHANGELOG.md", "# Changelog\n\n"+marker+"\n\n## 1.0.0, 2026-01-01\n\n### Added\n\n- Everything.\n")
	write("CITATION.cff", "cff-version: 1.2.0\nlicense: Apache-2.0\nversion: \"1.0.0\"\n"+
		"date-released: \"2026-01-01\"\nreferences:\n  - year: 2019\n")
	write("changes/README.md", "what a fragment is")
	write("changes/b.added.md", "A verb\nover two lines.\n")
	write("changes/a.fixed.md", "A fault.\n")
	write("changes/c.added.md", "A flag.")
	write("changes/d.summary.md", "Verbs, mostly.")
	if err := run(root, "1.1.0", time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# Changelog\n\n" + marker + `

## 1.1.0, 2026-02-03

Verbs, mostly.

### Added

- A verb
  over two lines.
- A flag.

### Fixed

- A fault.

## 1.0.0, 2026-01-01

### Added

- Everything.
`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	cited, err := os.ReadFile(filepath.Join(root, "CITATION.cff"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "cff-version: 1.2.0\nlicense: Apache-2.0\nversion: \"1.1.0\"\n" +
		"date-released: \"2026-02-03\"\nreferences:\n  - year: 2019\n"; string(cited) != want {
		t.Errorf("%s\nwant\n%s", cited, want)
	}
	if left, err := filepath.Glob(filepath.Join(root, "changes", "*")); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	for want, f := range map[string]func() error{
		"nothing to release":  func() error { return run(root, "1.1.1", time.Now()) },
		"version such as":     func() error { return run(root, "v1", time.Now()) },
		"called NAME.KIND.md": func() error { write("changes/x.md", "y"); return run(root, "1.1.1", time.Now()) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		os.Remove(filepath.Join(root, "changes", "x.md"))
	}
}

package voxsaw_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What pages point at is there: the tests that they name, and of pages at the root what their
// relative links lead to. scripts/site.sh checks the links of docs/.
func TestPagesPointAtWhatIsThere(t *testing.T) {
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			defined[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	named, links := 0, 0
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			if named++; !defined[string(m[1])] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		if filepath.Dir(page) != "." {
			continue
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			links++
			if _, err := os.Stat(string(m[1])); err != nil {
				t.Errorf("%s: no file is at %s", page, m[1])
			}
		}
	}
	if named < 50 || links < 20 {
		t.Errorf("only %d tests are named, and %d files linked: is the search broken?", named, links)
	}
}

// Each package opens with what it is and where to start reading.
func TestPackagesSayWhereToStart(t *testing.T) {
	// one short file
	small := map[string]bool{"internal/backbone/all": true, "internal/numbers": true}
	docs := map[string]string{}
	eachSource(t, func(room, p string) error {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil && f.Name.Name != "main" {
			docs[room] += f.Doc.Text()
		}
		return err
	})
	if len(docs) < 40 {
		t.Errorf("only %d packages were found: is the search broken?", len(docs))
	}
	for dir, doc := range docs {
		if !strings.HasPrefix(doc, "Package ") || !small[dir] && !strings.Contains(strings.ToLower(doc), "start at ") {
			t.Errorf("%s: the package comment does not say what it is and where to start (\"Start at [Name]\"): %q",
				dir, doc)
		}
	}
}

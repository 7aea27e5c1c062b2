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

// The tests that the documentation names are there, and each row of docs/formats.md, what is read,
// repaired and refused, names one.
func TestNamedTestsExist(t *testing.T) {
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
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		section := ""
		for n, line := range strings.Split(string(text), "\n") {
			tests := name.FindAllStringSubmatch(line, -1)
			for _, m := range tests {
				named++
				if !defined[m[1]] {
					t.Errorf("%s:%d: there is no %s", page, n+1, m[1])
				}
			}
			if strings.HasPrefix(line, "## ") {
				section = line
			}
			row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") && section != "## Public files"
			if filepath.Base(page) == "formats.md" && row && len(tests) == 0 {
				t.Errorf("%s:%d: no test shows this: %s", page, n+1, line)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named: is the search broken?", named)
	}
}

// Each package opens with what it is and where to start reading.
func TestPackagesSayWhereToStart(t *testing.T) {
	// one short file
	small := map[string]bool{"internal/backbone/all": true, "internal/numbers": true}
	docs := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		if f.Name.Name != "main" {
			docs[filepath.ToSlash(filepath.Dir(path))] += f.Doc.Text()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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

// Each module of go.mod is told of in docs/dependencies.md, and no other.
func TestDependenciesAreTold(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+`).FindAllStringSubmatch(string(mod), -1) {
		required[m[1]] = true
		if !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("docs/dependencies.md does not tell of %s", m[1])
		}
	}
	if len(required) < 20 {
		t.Fatalf("only %d modules in go.mod: is the search broken?", len(required))
	}
	// rows of the tables: the first cell names modules
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !required[m[1]] {
				t.Errorf("docs/dependencies.md tells of %s, which is not in go.mod", m[1])
			}
		}
	}
}

// Each relative link of a page at the root leads to a file. scripts/site.sh checks those of docs/.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: no file is at %s", page, m[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found: is the search broken?", links)
	}
}

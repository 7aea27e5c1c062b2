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

// What pages point at is there: the tests that they name, and what their relative links lead to.
// Each row of docs/formats.md, what is read, repaired and refused, names a test.
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
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "changes/*.md", "testdata/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	named, links, formats := 0, 0, 0
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "{{") {
			t.Errorf("%s: the documentation's site takes {{ for code of its own", page)
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			if named++; !defined[string(m[1])] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s: no file is at %s", page, m[1])
			}
		}
		if page != filepath.Join("docs", "formats.md") {
			continue
		}
		rows, _, _ := strings.Cut(string(text), "\n## Public files\n")
		for _, row := range regexp.MustCompile(`(?m)^\| \w.*`).FindAllString(rows, -1) {
			formats++
			if !name.MatchString(row) {
				t.Errorf("%s: no test shows this: %s", page, row)
			}
		}
	}
	if named < 50 || links < 200 || formats < 50 {
		t.Errorf("only %d tests are named, %d files linked and %d rows of formats found: is the search broken?", named,
			links, formats)
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

package voxsaw_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// What docs/dependencies.md calls the last month of a module is that of the version used.
func TestDependenciesLastMonths(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	month := regexp.MustCompile(`\b20\d\d-\d\d\b`)
	rows := regexp.MustCompile("(?m)^\\| (`[^|]*) \\|[^|]*\\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1)
	told := 0
	for _, row := range rows {
		months := month.FindAllString(row[2], -1)
		if len(months) == 0 {
			continue // of the tables of other things
		}
		var want []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			const format = `{{with .Time}}{{.Format "2006-01"}}{{end}}`
			out, err := exec.Command("go", "list", "-m", "-f", format, m[1]).Output()
			if err != nil {
				t.Fatalf("go list -m %s: %v", m[1], err)
			}
			when := strings.TrimSpace(string(out))
			if when == "" {
				t.Fatalf("nobody knows when %s was made: go mod download asks the proxy", m[1])
			}
			want = append(want, when)
		}
		if told += len(want); !slices.Equal(months, want) {
			t.Errorf("docs/dependencies.md: %s: last %v, want %v", row[1], months, want)
		}
	}
	if told < 30 {
		t.Errorf("only %d modules have a month: is the search broken?", told)
	}
}

// Each pretext task, backbone, reader and codec is in a row of docs/dependencies.md that says what
// it follows, and its code names a source of that row.
func TestMethodsAreTold(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	follows := map[string]string{} // by package
	rows := regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			follows[m[1]] = row[2]
		}
	}
	// what registers for others follows nothing itself, and prepared cases are a format of our own
	general := map[string]bool{"internal/classify": true, "network": true, "task": true, "volume/format": true,
		"volume/prepared": true}
	method := regexp.MustCompile(
		`(?m)\b(?:pretext\.\w+|classify|backbone)\.Register\(|^func (?:Decode|decode[A-Z]\w*|ReadHeader)\(`)
	texts, methods := map[string]string{}, map[string]bool{}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "examples" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		dir := filepath.ToSlash(filepath.Dir(path))
		texts[dir] += string(text)
		methods[dir] = methods[dir] || method.Match(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name, found := regexp.MustCompile(`[\w-]*[A-Z][\w-]{2,}(?:\.\d+)?`), 0
	for dir, is := range methods {
		if !is || general[dir] {
			continue
		}
		found++
		sources := follows[dir]
		if sources == "" {
			t.Errorf("docs/dependencies.md does not say what %s follows", dir)
			continue
		}
		named := func(source string) bool { return strings.Contains(texts[dir], source) }
		if !slices.ContainsFunc(name.FindAllString(sources, -1), named) {
			t.Errorf("the code of %s names nothing of what docs/dependencies.md says that it follows: %s", dir, sources)
		}
	}
	if found < 16 {
		t.Errorf("only %d packages were found: is the search broken?", found)
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

// Each deviation from the paper has a switch, a key that docs/settings.md knows, or says why it has
// none.
func TestDeviationsHaveSwitches(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "paper.md"))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(filepath.Join("docs", "settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{} // keys, without their sections
	key := regexp.MustCompile("(?m)^\\| [^|]* \\| `(?:[a-z_]+\\.)*([a-z_]+)` \\|")
	for _, m := range key.FindAllSubmatch(settings, -1) {
		known[string(m[1])] = true
	}
	_, section, _ := strings.Cut(string(page), "## Every deviation\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || cells[0] == "| the paper" {
			continue
		}
		rows++
		keys := regexp.MustCompile("`(?:[a-z_]+\\.)*([a-z_]+)(?::|`)").FindAllStringSubmatch(cells[2], -1)
		if len(keys) == 0 && !strings.HasPrefix(cells[2], "none, for ") {
			t.Errorf("neither a switch nor a reason for none: %s", line)
		}
		for _, key := range keys {
			if !known[key[1]] {
				t.Errorf("no setting is called %q: %s", key[1], line)
			}
		}
	}
	if rows < 15 {
		t.Errorf("only %d deviations were found: is the search broken?", rows)
	}
}

package voxsaw_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// opens are the files that may open a file on their own, and why it is not read whole by package
// smallfile.
var opens = map[string]string{
	"cli/bench.go":                             "is written",
	"cli/bench_read.go":                        "two bytes",
	"internal/tensorboard/board.go":            "is written",
	"examples/format/main.go":                  "scans, by their headers",
	"internal/atomicfile/atomicfile.go":        "folders, and files that are written",
	"internal/atomicfile/seal.go":              "whatever was written, for its digest",
	"internal/atomicfile/hold.go":              "locks",
	"internal/auto/auto.go":                    "a checkpoint that a training made, to be copied",
	"internal/folders/folders.go":              "how scans are opened",
	"internal/triage/files.go":                 "a label map, to be copied",
	"internal/train/shared.go":                 "an empty file",
	"internal/steplog/steplog.go":              "lines of steps, one by one",
	"internal/train/table.go":                  "is written, or copied",
	"puzzle2d/photos/local.go":                 "pixels, mapped",
	"puzzle2d/photos/verify.go":                "pixels, one photograph at a time",
	"puzzle2d/proposals.go":                    "millions of boxes, line by line",
	"puzzle2d/propose.go":                      "millions of boxes, of which only gzip is kept",
	"segment/targets.go":                       "label maps, a row at a time, and for their digest",
	"volume/dicom/archive.go":                  "archives, by their parts, and the beginning of a file",
	"volume/dicom/internal/element/file.go":    "slices, by their elements",
	"volume/dicom/internal/grouping/copies.go": "slices, for their digest",
	"volume/dicom/scan.go":                     "the beginning of a file",
	"volume/prepared/case.go":                  "voxels, mapped",
	"volume/prepared/local.go":                 "voxels, for their digest",
	"internal/localcopy/localcopy.go":          "voxels, for their digest",
	"volume/prepared/source.go":                "scans, for their digest",
}

// reads are the files that may read to an end without a limit.
var reads = map[string]string{"internal/device/cuda/launch.go": "what is built into the program"}

// What is read whole is read with a limit.
func TestSmallFilesAreReadWithALimit(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			name := d.Name()
			tests := strings.HasSuffix(name, "test") || path == "scripts" || path == "volume/internal/expect"
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || tests ||
				path == "internal/smallfile") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		for _, call := range callsIn(t, path) {
			switch call {
			case "os.ReadFile", "io.ReadAll", "ioutil.ReadFile", "ioutil.ReadAll":
				if reads[path] != "" {
					continue
				}
				t.Errorf("%s calls %s, which reads whatever there is: use smallfile.Read, or an io.LimitReader", path,
					call)
			case "os.Open", "os.OpenFile":
				found[path] = true
				if opens[path] == "" {
					t.Errorf("%s calls %s: read what is small with "+
						"smallfile.Read, or say in smallfiles_test.go what it is", path, call)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range opens {
		if !found[path] {
			t.Errorf("%s opens nothing now: take it from the list", path)
		}
	}
}

// To tell of which scan labels were predicted, [dataset.Case.Read] reads a scan once more.
func TestNotesOfCasesAreTold(t *testing.T) {
	dropped := regexp.MustCompile(`, _, err :?= c\.Read\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if dropped.Match(text) {
			t.Errorf("%s drops the notes of Case.Read: call ReadQuietly", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// callsIn names the functions of packages that a file calls, without io.ReadAll of what has a
// limit.
func callsIn(t *testing.T, path string) (calls []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := func(e ast.Expr) string {
		if call, ok := e.(*ast.CallExpr); ok {
			e = call.Fun
		}
		if s, ok := e.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok {
				return p.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name(n) == "io.ReadAll" && len(n.Args) == 1 && name(n.Args[0]) == "io.LimitReader" {
				return false
			}
		case *ast.SelectorExpr: // a call, or a function that is handed on
			calls = append(calls, name(n))
		}
		return true
	})
	slices.Sort(calls)
	return slices.Compact(calls)
}

// Program help writes the help of settings, which is the first paragraph of their fields' comments
// in public packages, to internal/config/help.txt, where flags and settings.md take it from:
// programs do not keep comments. The help of unexported and internal types is in their tags.
//
//	go run ./scripts/help
//
// A field with a comment that is no help has the tag help:"-".
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

const (
	module = "github.com/voxsaw/voxsaw"
	file   = "internal/config/help.txt"
)

func main() {
	text, err := table(".")
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "help:", err)
		os.Exit(1)
	}
}

// table lists the help of a module's fields: a line each, the package, the type and the field, a
// tab, and the text.
func table(root string) (string, error) {
	var lines []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"internal", "testdata",
				"cmd", "cli", "scripts", "examples", "docs", "node_modules"}, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		lines = append(lines, helpIn(parsed, path.Join(module, filepath.ToSlash(folder)))...)
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, ""), err
}

func helpIn(parsed *ast.File, pkg string) (lines []string) {
	ast.Inspect(parsed, func(n ast.Node) bool {
		t, isType := n.(*ast.TypeSpec)
		if !isType || !t.Name.IsExported() {
			return true
		}
		s, isStruct := t.Type.(*ast.StructType)
		if !isStruct {
			return true
		}
		for _, f := range s.Fields.List {
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
			key, given := tag.Lookup("yaml")
			if !given || strings.HasPrefix(key, "-") || strings.Contains(key, "inline") || tag.Get("help") != "" {
				continue
			}
			first, _, _ := strings.Cut(f.Doc.Text(), "\n\n")
			for _, name := range f.Names {
				lines = append(lines, fmt.Sprintf("%s.%s.%s\t%s\n", pkg, t.Name.Name, name.Name,
					strings.Join(strings.Fields(first), " ")))
			}
		}
		return true
	})
	return lines
}

package voxsaw_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forProgrammers are packages whose messages no user of the program sees, unless the program itself
// is wrong, and tools of the house.
var forProgrammers = []string{"internal/nn", "internal/exec", "internal/device", "internal/crashtest", "scripts",
	"testdata", "volume/internal/expect"}

// formatting are the functions whose texts reach a user.
var formatting = []string{"Errorf", "Sprintf", "Fprintf", "usagef", "withHint", "Addf", "say", "errorf"}

// fingerprints are lines that no one reads: they go into a hash, and must stay as they are.
var fingerprints = []string{`"transfer: %+v\n"`, `"random: %v\n%sphotos`, `"%q %v\n"`,
	`"series %q, volume %d, by index %v, %+v"`}

var verbOf = regexp.MustCompile(`%[-+# 0]*[0-9.*]*(\[[0-9]+\])?([a-zA-Z%])`)

// Messages are for people who know no Go: no list is written as [16 16 16], and no struct at all.
func TestMessagesHaveNoGoSyntax(t *testing.T) {
	checked := 0
	for _, p := range typed(t) {
		room := strings.TrimPrefix(p.path, strings.TrimSuffix(module, "/"))
		if strings.HasSuffix(room, "test") ||
			slices.ContainsFunc(forProgrammers,
				func(dir string) bool { return strings.HasPrefix(strings.TrimPrefix(room, "/"), dir) }) {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && slices.Contains(formatting, called(call)) {
					checked++
					for _, problem := range p.unreadable(call) {
						t.Errorf("%s: %s: write it with numbers.Extents, plain.List or a String method",
							p.fset.Position(call.Pos()), problem)
					}
				}
				return true
			})
		}
	}
	if checked < 1000 {
		t.Errorf("only %d messages were looked at", checked)
	}
}

// called is the name of the function that is called, without its package.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// A typedPackage is a package of this module with the types of its expressions.
type typedPackage struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// unreadable lists the arguments of a formatting call that come out in Go's syntax.
func (p typedPackage) unreadable(call *ast.CallExpr) (problems []string) {
	at := slices.IndexFunc(call.Args, func(e ast.Expr) bool {
		v := p.info.Types[e].Value
		return v != nil && v.Kind() == constant.String && strings.Contains(v.ExactString(), "%")
	})
	if at < 0 {
		return nil
	}
	format := constant.StringVal(p.info.Types[call.Args[at]].Value)
	if slices.ContainsFunc(fingerprints, func(known string) bool {
		return strings.HasPrefix(fmt.Sprintf("%q", format), strings.TrimSuffix(known, `"`))
	}) {
		return nil
	}
	args := call.Args[at+1:]
	for _, verb := range verbOf.FindAllStringSubmatch(format, -1) {
		if verb[2] == "%" || verb[1] != "" || len(args) == 0 {
			continue
		}
		if !readable(p.info.TypeOf(args[0]), verb[2]) {
			problems = append(problems, fmt.Sprintf("%q shows %s, a %s, as Go does", format, types.ExprString(args[0]),
				p.info.TypeOf(args[0])))
		}
		args = args[1:]
	}
	return problems
}

// readable tells whether a value of the type reads well with the verb.
func readable(t types.Type, verb string) bool {
	if t == nil || strings.Contains("TpxXt", verb) {
		return true
	}
	for _, method := range []string{"Error", "String", "Format"} {
		if m, _, _ := types.LookupFieldOrMethod(t, true, nil, method); m != nil {
			return true
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return verb == "s" && types.Identical(u.Elem(), types.Typ[types.Byte])
	case *types.Array, *types.Map, *types.Struct:
		return false
	case *types.Pointer:
		return readable(u.Elem(), verb)
	}
	return true
}

// typed reads the packages of this module, and what they import from the build's cache.
func typed(t *testing.T) (all []typedPackage) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct{ Main bool }
	}
	var ours []listed
	exports := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range ours {
		one := typedPackage{path: p.ImportPath, fset: fset, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
			Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			one.files = append(one.files, file)
		}
		config := types.Config{Importer: compiled, Error: func(error) {}}
		if _, err := config.Check(p.ImportPath, fset, one.files, one.info); err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
		all = append(all, one)
	}
	return all
}

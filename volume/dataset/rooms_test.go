package dataset

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// rooms are the first words of the files' names, from the top of the house to its ground.
var rooms = []string{
	"choose", "inspect", "compare", "fold", "detect", "layout", "pair", "find", "read", "case", "dataset", "name",
}

// A path through the package goes down once: no room calls one above it, and no file one that calls
// it, whether directly or through others. Nor does a file of package prepare, from which most paths
// come: a walk from prepare.Run to the files of a data set climbs nowhere.
func TestCallsGoDown(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile},
		".", "../prepare")
	if err != nil || len(loaded) != 2 {
		t.Fatal(len(loaded), err)
	}
	for n, least := range []int{500, 50} {
		checkDown(t, loaded[n], n == 0, least)
	}
}

// checkDown looks at the calls between the files of a package, of which there are at least so many,
// and whether they keep to the rooms.
func checkDown(t *testing.T, p *packages.Package, inRooms bool, least int) {
	t.Helper()
	fileOf := func(object ast.Node) string { return filepath.Base(p.Fset.Position(object.Pos()).Filename) }
	roomOf := func(file string) int {
		room, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
		n := slices.Index(rooms, room)
		if n < 0 {
			t.Fatalf("%s is in no room", file)
		}
		return n
	}
	calls := map[string]map[string]string{} // from file to file, with an example
	count := 0
	for _, file := range p.Syntax {
		from := fileOf(file)
		calls[from] = map[string]string{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, isName := n.(*ast.Ident)
			if !isName {
				return true
			}
			called, isFunc := p.TypesInfo.Uses[id].(*types.Func)
			if !isFunc || called.Pkg() != p.Types {
				return true
			}
			count++
			to := filepath.Base(p.Fset.Position(called.Pos()).Filename)
			if inRooms && roomOf(from) > roomOf(to) {
				t.Errorf("%s: %s is in %s, a room above", p.Fset.Position(id.Pos()), called.Name(), to)
			}
			if to != from {
				calls[from][to] = called.Name()
			}
			return true
		})
	}
	if count < least {
		t.Fatalf("%s: %d calls were found: the search is broken", p.PkgPath, count)
	}
	done := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		last := path[len(path)-1]
		if at := slices.Index(path, last); at < len(path)-1 {
			t.Errorf("these files of package %s call each other: %s", p.Name, strings.Join(path[at:], ", "))
			return
		}
		if done[last] {
			return
		}
		for to := range calls[last] {
			visit(append(slices.Clone(path), to))
		}
		done[last] = true
	}
	for file := range calls {
		visit([]string{file})
	}
}

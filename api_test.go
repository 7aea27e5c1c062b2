package voxsaw_test

import (
	"fmt"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// No exported signature of a public package names an internal type: such a function could not be
// called from outside, such a field not be set.
func TestPublicPackagesNameNoInternalType(t *testing.T) {
	loaded, err := packages.Load(
		&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedExportFile},
		"./...",
	)
	if err != nil {
		t.Fatal(err)
	}
	checked, objects := 0, 0
	for _, p := range loaded {
		if isInternal(p.PkgPath) || strings.Contains(p.PkgPath, "/cmd/") || p.Name == "main" {
			continue
		}
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors)
		}
		checked++
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			object := scope.Lookup(name)
			if !object.Exported() {
				continue
			}
			objects++
			for _, leak := range leaks(object) {
				t.Errorf("%s.%s", p.PkgPath, leak)
			}
		}
	}
	if checked < 10 || objects < 100 {
		t.Errorf("%d packages with %d names were looked at: the search is broken", checked, objects)
	}
}

func isInternal(path string) bool {
	return strings.Contains(path+"/", "/internal/")
}

// leaks says where an exported object names an internal type.
func leaks(object types.Object) (found []string) {
	look := func(where string, t types.Type) {
		if name := internalType(t, nil); name != "" {
			found = append(found, fmt.Sprintf("%s names %s", where, name))
		}
	}
	name := object.Name()
	declared, isType := object.(*types.TypeName)
	if !isType {
		look(name, object.Type())
		return found
	}
	if declared.IsAlias() {
		look(name, types.Unalias(object.Type()))
		return found
	}
	switch u := object.Type().Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() {
				look(name+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
	default:
		look(name, u)
	}
	methods := types.NewMethodSet(types.NewPointer(object.Type()))
	if types.IsInterface(object.Type()) {
		methods = types.NewMethodSet(object.Type())
	}
	for m := range methods.Methods() {
		if m.Obj().Exported() {
			look(name+"."+m.Obj().Name(), m.Type())
		}
	}
	return found
}

// internalType is the name of an internal type that a type is made of, empty if there is none. What
// a public type is made of itself is looked at where that is declared.
func internalType(t types.Type, seen []types.Type) string {
	for _, s := range seen {
		if types.Identical(s, t) {
			return ""
		}
	}
	seen = append(seen, t)
	in := func(parts ...types.Type) string {
		for _, p := range parts {
			if name := internalType(p, seen); name != "" {
				return name
			}
		}
		return ""
	}
	switch t := t.(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && isInternal(p.Path()) {
			return t.String()
		}
		for arg := range t.TypeArgs().Types() {
			if name := in(arg); name != "" {
				return name
			}
		}
	case *types.Alias:
		return in(types.Unalias(t))
	case *types.Pointer:
		return in(t.Elem())
	case *types.Slice:
		return in(t.Elem())
	case *types.Array:
		return in(t.Elem())
	case *types.Chan:
		return in(t.Elem())
	case *types.Map:
		return in(t.Key(), t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			if name := in(v.Type()); name != "" {
				return name
			}
		}
	case *types.Signature:
		return in(t.Params(), t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if name := in(f.Type()); name != "" && f.Exported() {
				return name
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if name := in(m.Type()); name != "" {
				return name
			}
		}
	}
	return ""
}

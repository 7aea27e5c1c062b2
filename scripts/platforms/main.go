// Command platforms checks that all packages fit the systems and processors that it is given, as a
// compiler checks it: every file that belongs to one of them is read, and every name and type in it
// looked up. It makes no code, which costs a build most; it sees neither assembly nor tests.
//
//	go run ./scripts/platforms windows/amd64 darwin/arm64
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: platforms SYSTEM/PROCESSOR ...")
		os.Exit(2)
	}
	debug.SetGCPercent(400) // memory for time: all syntax trees are kept anyway
	failed := false
	for _, platform := range os.Args[1:] {
		n, err := check(".", platform)
		if err == nil && n < 100 {
			err = fmt.Errorf("%d packages were found: is this the module's folder?", n)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "platforms: %s:\n%v\n", platform, err)
			failed = true
			continue
		}
		fmt.Printf("%s: the types of %d packages\n", platform, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check looks for what does not fit the platform in the packages of a folder and below, and says
// how many there are.
func check(dir, platform string) (int, error) {
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, errors.New("want a platform such as windows/amd64")
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesSizes,
		Dir: dir,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		return 0, err
	}
	var found []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			found = append(found, e)
		}
	}
	return len(loaded), errors.Join(found...)
}

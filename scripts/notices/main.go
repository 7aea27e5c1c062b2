// Command notices writes the notices that belong to a Go binary: the licences of every module that
// is linked into it, of Go's standard library, and of the parts that are no modules. What is linked
// is read from the binary, whatever system it is for.
//
//	go run ./scripts/notices voxsaw > NOTICES
//
// Modules are taken from Go's module cache, or from the proxy. One without a licence is an error.
// Start at [notices].
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: notices BINARY > FILE")
		os.Exit(2)
	}
	if err := notices(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// parts are linked or embedded, and no modules: docs/dependencies.md tells of each.
var parts = []struct{ title, file, text string }{
	{title: "NiiVue and what is bundled in it, which voxsaw view shows", file: "internal/viewer/niivue-licenses.txt"},
	{title: "JPEG", text: "This software is based in part on the work of the Independent JPEG Group.\n"},
}

const rule = "\n================================================================================\n"

// notices writes the licences of all that is in a binary.
func notices(w io.Writer, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("%w: is it a Go program?", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s is licensed under the Apache License 2.0: the file LICENSE beside this one.\n"+
		"It has these parts of others in it, whose licences follow.\n\n", filepath.Base(binary))
	for _, m := range info.Deps {
		fmt.Fprintf(&out, "%s %s\n", linked(m).Path, linked(m).Version)
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return fmt.Errorf("the licence of Go: %w", err)
	}
	fmt.Fprintf(&out, "%sGo's standard library and run time, %s\n\n%s", rule, info.GoVersion, licence)
	for _, p := range parts {
		text := []byte(p.text)
		if p.file != "" {
			if text, err = os.ReadFile(p.file); err != nil {
				return fmt.Errorf("%w: run this where go.mod lies", err)
			}
		}
		fmt.Fprintf(&out, "%s%s\n\n%s", rule, p.title, text)
	}
	for _, m := range info.Deps {
		if err := licences(&out, linked(m)); err != nil {
			return err
		}
	}
	_, err = w.Write(out.Bytes())
	return err
}

// linked is the module itself, or what replaces it.
func linked(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

var licenceFile = regexp.MustCompile(`(?i)^((?:un)?licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences writes every licence that a module has, also those of code that it took from others.
func licences(w io.Writer, m *debug.Module) error {
	text, err := output("go", "mod", "download", "-json", m.Path+"@"+m.Version)
	if err != nil {
		return err
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(text, &at); err != nil {
		return fmt.Errorf("go mod download %s: %w", m.Path, err)
	}
	found := 0
	err = filepath.WalkDir(at.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if d.IsDir() || !licenceFile.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(at.Dir, path)
		if err != nil {
			return err
		}
		found++
		fmt.Fprintf(w, "%s%s %s: %s\n\n%s", rule, m.Path, m.Version, filepath.ToSlash(name), text)
		return nil
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("%s %s has no file with a licence: look at its pages, and name it in scripts/notices",
			m.Path, m.Version)
	}
	return err
}

func output(name string, args ...string) ([]byte, error) {
	out, err := exec.Command(name, args...).Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("%s %s: %s", name, strings.Join(args, " "), failed.Stderr)
	}
	return out, err
}

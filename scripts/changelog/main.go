// Command changelog makes CHANGELOG.md of the fragments in changes/.
//
//	go run ./scripts/changelog                  print what the next release's section would be
//	go run ./scripts/changelog --release 1.2.3  write it into CHANGELOG.md, its version and day into
//	                                            CITATION.cff; remove the fragments
//
// changes/README.md says what a fragment is. Start at [section].
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// summary is the kind of a fragment that opens the section, as it is.
const summary = "summary"

// kinds are the parts of a section, in order, as file names and titles have them.
var kinds = []struct{ name, title string }{
	{"security", "Security"}, {"removed", "Removed"}, {"changed", "Changed"}, {"added", "Added"}, {"fixed", "Fixed"},
}

// marker is the line of CHANGELOG.md below which sections stand, the newest first.
const marker = "<!-- releases -->"

func main() {
	release := flag.String("release", "", "version to write, such as 1.2.3")
	flag.Parse()
	if err := run(".", *release, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

// run prints the section of the next release, or releases it.
func run(root, release string, now time.Time) error {
	fragments, err := read(filepath.Join(root, "changes"))
	if err != nil {
		return err
	}
	if release == "" {
		fmt.Print(section("Unreleased", fragments))
		return nil
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(release) {
		return fmt.Errorf("--release %s: want a version such as 1.2.3", release)
	}
	if len(fragments) == 0 {
		return errors.New("there are no fragments in changes: nothing to release")
	}
	path := filepath.Join(root, "CHANGELOG.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := insert(string(old), section(release+", "+now.Format(time.DateOnly), fragments))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	citation := filepath.Join(root, "CITATION.cff")
	cited, err := os.ReadFile(citation)
	if err != nil {
		return err
	}
	citing, err := cite(string(cited), release, now)
	if err != nil {
		return fmt.Errorf("%s: %w", citation, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(citation, []byte(citing), 0o644); err != nil {
		return err
	}
	for _, f := range fragments {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	return nil
}

// A fragment tells one change.
type fragment struct{ path, kind, text string }

// read reads the fragments of a folder, in the order of their names.
func read(folder string) (fragments []fragment, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if e.Name() == "README.md" {
			continue
		}
		parts := strings.Split(e.Name(), ".")
		if len(parts) != 3 || parts[2] != "md" || title(parts[1]) == "" && parts[1] != summary {
			return nil, fmt.Errorf("%s: fragments are called NAME.KIND.md, with one of the kinds in changes/README.md",
				path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
		if text == "" || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "#") {
			return nil, fmt.Errorf("%s: want plain sentences, without a list's dash or a heading", path)
		}
		fragments = append(fragments, fragment{path, parts[1], text})
	}
	return fragments, nil
}

func title(kind string) string {
	for _, k := range kinds {
		if k.name == kind {
			return k.title
		}
	}
	return ""
}

// section is a release's part of the changelog: a list for each kind of change.
func section(heading string, fragments []fragment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", heading)
	for _, f := range fragments {
		if f.kind == summary {
			fmt.Fprintf(&b, "\n%s\n", f.text)
		}
	}
	for _, k := range kinds {
		of := slices.DeleteFunc(slices.Clone(fragments), func(f fragment) bool { return f.kind != k.name })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", k.title)
		for _, f := range of {
			fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(f.text, "\n", "\n  "))
		}
	}
	return b.String()
}

// insert puts a section before those of earlier releases.
func insert(changelog, section string) (string, error) {
	before, after, ok := strings.Cut(changelog, marker+"\n")
	if !ok {
		return "", fmt.Errorf("the line %q is missing", marker)
	}
	return before + marker + "\n\n" + section + after, nil
}

// cite gives a file in the Citation File Format the version and the day of a release, in the place
// of an earlier one's.
func cite(citation, version string, now time.Time) (string, error) {
	citation = regexp.MustCompile(`(?m)^(version|date-released):.*\n`).ReplaceAllString(citation, "")
	license := regexp.MustCompile(`(?m)^license:.*\n`)
	if len(license.FindAllString(citation, -1)) != 1 {
		return "", errors.New("want one line that begins with license:, for the version follows it")
	}
	return license.ReplaceAllStringFunc(citation, func(line string) string {
		return fmt.Sprintf("%sversion: %q\ndate-released: %q\n", line, version, now.Format(time.DateOnly))
	}), nil
}

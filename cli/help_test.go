package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/config"
)

// parse finds the command of a line that a user would type, and parses its flags. It returns the
// command and the arguments.
func parse(line string) (*cobra.Command, []string, error) {
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " #")
	words := append(strings.Fields(line)[1:], "")
	cmd, rest, err := rootOf(words[0]).Find(words[:len(words)-1]) // as the program does it
	if err != nil {
		return nil, nil, err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	return cmd, cmd.Flags().Args(), nil
}

// verbs lists the commands that do something.
func verbs(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			all = append(all, verbs(c)...)
		}
	}
	return all
}

// Every verb's help has an example, and whatever an example says can be typed: the command is
// there, its flags are and take these values, and so many arguments are wanted.
func TestExamplesCanBeTyped(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, cmd := range verbs(newRoot())[1:] {
		var help bytes.Buffer
		if code := Run(append(strings.Fields(cmd.CommandPath())[1:], "--help"), &help, os.Stderr); code != exitOK {
			t.Errorf("%s --help: exit code %d", cmd.CommandPath(), code)
		}
		if cmd.Example == "" || !strings.Contains(help.String(), cmd.Example) {
			t.Errorf("%s --help shows no example:\n%s", cmd.CommandPath(), help.String())
		}
		for line := range strings.Lines(cmd.Example) {
			called, args, err := parse(line)
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if path := called.CommandPath(); path != cmd.CommandPath() &&
				called.Parent().CommandPath() != cmd.CommandPath() {
				t.Errorf("%q is an example of %s", line, path)
			}
			for _, path := range args { // a folder that is there is none of the flags of its name
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := called.ValidateArgs(args); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
}

// A verb that is made alone, because the command line names it, is the one among all.
func TestAVerbAloneIsTheSame(t *testing.T) {
	all := newRoot()
	made := allVerbs()
	for n, cmd := range all.Commands()[:len(made)] {
		name := made[n].name
		alone := rootOf(name)
		found, _, err := alone.Find([]string{name})
		if err != nil || cmd.Name() != name || found.UsageString() != cmd.UsageString() ||
			found.Long != cmd.Long || found.GroupID != cmd.GroupID {
			t.Errorf("%s: %v, there is %s", name, err, cmd.Name())
		}
		if len(alone.Commands()) > 2+len(ofReleases) { // itself and help
			t.Errorf("%s is not made alone: %d commands", name, len(alone.Commands()))
		}
	}
}

// Every flag says what it is for.
func TestFlagsAreExplained(t *testing.T) {
	for _, cmd := range verbs(newRoot()) {
		for line := range strings.Lines(cmd.Flags().FlagUsages()) {
			if fields := strings.Fields(line); len(fields) < 4 {
				t.Errorf("%s: %q", cmd.CommandPath(), line)
			}
		}
	}
}

var typed = regexp.MustCompile("(?m)^(?:\\$ )?(?:go run )?(?:\\./cmd/)?voxsaw( .*)?$|`voxsaw( [^`]+)`")

// What README, the guides and the configurations tell to type can be typed too.
func TestDocumentationCanBeTyped(t *testing.T) {
	root := filepath.Join("..")
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := filepath.Glob(filepath.Join(root, "docs", "results", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, path := range slices.Concat(files, results, []string{filepath.Join(root, "README.md")}) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range typed.FindAllStringSubmatch(string(text), -1) {
			lines++
			if _, _, err := parse("voxsaw" + found[1] + found[2]); err != nil {
				t.Errorf("%s: %q: %v", path, found[0], err)
			}
		}
	}
	if lines == 0 {
		t.Error("the documentation shows no command at all")
	}
}

// noData is what a command says that finds no prepared data.
var noData = regexp.MustCompile("no prepared (cases|photographs) here")

// The configurations that come with the program are read by the command that they are for.
func TestConfigurations(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "configs", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d configurations, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		named := false
		for _, line := range strings.Split(string(text), "\n") {
			command, ok := strings.CutPrefix(line, "#   ")
			if !ok || !strings.HasPrefix(command, "voxsaw ") {
				continue
			}
			cmd, _, err := parse(command)
			if err != nil {
				t.Errorf("%s: %q: %v", path, command, err)
				continue
			}
			if file := cmd.Flags().Lookup(config.FileFlag); file != nil &&
				strings.HasSuffix(file.Value.String(), filepath.Base(path)) {
				named = true
				var stderr bytes.Buffer // it gets as far as looking for the data
				if code := Run(append(strings.Fields(cmd.CommandPath())[1:], "--config", path, "--out", t.TempDir()),
					io.Discard, &stderr); code != exitFailure || !noData.MatchString(stderr.String()) {
					t.Errorf("%s: exit code %d\n%s", path, code, stderr.String())
				}
			}
		}
		if !named {
			t.Errorf("%s does not say which command it is for, in a line such as \"#   voxsaw crossval --config %s\"",
				path, filepath.Base(path))
		}
	}
}

// --help has fifteen settings at most, on one line each; --help-all has them all.
func TestHelpIsShort(t *testing.T) {
	used := map[string]bool{}
	root := newRoot()
	for _, cmd := range verbs(root)[1:] {
		if cmd.HasSubCommands() {
			continue
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "voxsaw ")
		var brief, all bytes.Buffer
		cmd.InitDefaultHelpFlag()
		for flag, out := range map[string]*bytes.Buffer{"--help-all=false": &brief, "--help-all": &all} {
			cmd.SetOut(out)
			if err := errors.Join(cmd.ParseFlags([]string{flag}), cmd.Help()); err != nil {
				t.Fatal(err)
			}
		}
		_, settings, _ := strings.Cut(brief.String(), "\nExamples:\n")
		_, settings, _ = strings.Cut(settings, "\n\n")
		flags := 0
		for line := range strings.Lines(settings) {
			if strings.HasPrefix(line, "      --") || strings.HasPrefix(line, "  -c, --") {
				flags++
			}
			if strings.HasPrefix(line, "         ") {
				t.Errorf("%s --help goes on to a second line: add a shorter text to help_table.go: %q", path, line)
			}
		}
		if flags == 0 || flags > 15 {
			t.Errorf("%s --help shows %d settings", path, flags)
		}
		if !strings.Contains(settings, path+" --help-all shows all ") {
			t.Errorf("%s --help does not say that there is more", path)
		}
		for _, f := range settingsOf(cmd) {
			if !regexp.MustCompile(`(?m)^ .*--` + f.Name + `\b`).Match(all.Bytes()) {
				t.Errorf("%s --help-all leaves out --%s", path, f.Name)
			}
			used[shortOf(f).long] = true
		}
	}
	for _, s := range shorts {
		if !used[s.long] {
			t.Errorf("no flag has the help %q", s.long)
		}
	}
	for path := range touched {
		if cmd, _, err := root.Find(strings.Fields(path)); err != nil || cmd.CommandPath() != "voxsaw "+path {
			t.Errorf("there is no command %q", path)
		}
	}
}

// What only some tasks have is under each of these, with its default there.
func TestHelpOfTasks(t *testing.T) {
	var out bytes.Buffer
	if code := Run([]string{"pretrain", "--help-all"}, &out, os.Stderr); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for task, want := range map[string]string{"jigsaw": "(default 3x3x3)", "rubik": "(default 2x2x2)"} {
		_, section, _ := strings.Cut(out.String(), "\nOnly with --task "+task+":\n")
		section, _, _ = strings.Cut(section, "\n\n")
		_, grid, _ := strings.Cut(section, "--grid AxBxC")
		if grid, _, _ = strings.Cut(grid, " --"); !strings.Contains(grid, want) {
			t.Errorf("--grid of %s: no %s in\n%s", task, want, section)
		}
	}
}

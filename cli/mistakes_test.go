package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/config"
)

// hintOf is what an error says is to be done.
func hintOf(err error) string {
	var advice interface{ Advice() string }
	if errors.As(err, &advice) {
		return advice.Advice()
	}
	return ""
}

// Who gives a command the file of another one is told whose it is.
func TestFilesOfOtherCommands(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mistake := func(verb, path string) error {
		t.Helper()
		cmd, _, err := newRoot().Find(strings.Fields(verb))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Flags().Set(config.FileFlag, path); err != nil {
			t.Fatal(err)
		}
		if err := config.TryRead(cmd.Flags(), section(cmd), path); err != nil {
			return fileMistake(cmd, err)
		}
		return nil
	}
	for _, c := range []struct{ verb, text, hint string }{
		{"finetune", "task: rotation\ncrop: 32\n",
			"it can be read as a file of voxsaw pretrain"},
		{"pretrain", "folds: 3\nfinetune: {crop: 16}\n", "it can be read as a file of voxsaw crossval"},
		{"crossval", "task: jigsaw\ngrid: 3x3x3\nheld: [a]\n", `"task" is a key of voxsaw pretrain`},
		// a word that there is not; a key that both have
		{"finetune", "task: puzzle\ngrid: 3x3x3\n", `"task" is a key of voxsaw pretrain`},
		{"finetune", "unlabelled: 0.5\n", "it can be read as a file of voxsaw crossval"},
		{"prepare", "photos: p\nseeds: [1]\n", "it can be read as a file of voxsaw 2d compare"},
		{"finetune", "plan: {}\npretrain: {crop: 16}\n",
			"it can be read as a file of voxsaw plan, voxsaw pretrain"},
		{"plan", "plan: {hours: 1, decisions: []}\npretrain: {crop: 16}\n",
			"it can be read as a file of voxsaw pretrain"},
		{"finetune", "nosuch: 1\n", ""},
		{"finetune", "train: {stps: 3}\n", ""},
	} {
		err := mistake(c.verb, write(c.text))
		if got := hintOf(err); err == nil || !strings.HasPrefix(got, c.hint) || got != "" && c.hint == "" {
			t.Errorf("%s of %q: %v, hint %q, want %q", c.verb, c.text, err, got, c.hint)
		}
	}
	if err := mistake("pretrain", write("task: rotation\ngrid: 3x3x3\n")); err == nil ||
		!strings.HasSuffix(err.Error(), `unknown key "grid": task rotation has no such setting; jigsaw, rubik have`) {
		t.Error(err)
	}
	configs, err := filepath.Glob("../configs/*.yaml")
	if err != nil || len(configs) == 0 {
		t.Fatalf("%q, %v", configs, err)
	}
	for _, path := range configs {
		if err := mistake("finetune", path); !strings.HasPrefix(hintOf(err), "it can be read as a file of voxsaw ") {
			t.Errorf("%s: %v, hint %q", path, err, hintOf(err))
		}
	}
}

// Flags without their dashes are told from files and folders, which may have the name of a flag.
func TestBareFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("labels", 0o755); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"finetune resume --out x":         "flags begin with two dashes: --resume",
		"pretrain grid=3x3x3 --data p":    "flags begin with two dashes: --grid 3x3x3",
		"prepare scans out prepared":      "flags begin with two dashes: --out prepared",
		"prepare scans out":               "flags begin with two dashes: --out",
		"version json":                    "flags begin with two dashes: --json",
		"doctor gpu":                      "flags begin with two dashes: --device cuda",
		"finetune hold_out":               "flags begin with two dashes: --hold-out",
		"evaluate labels references json": "flags begin with two dashes: --json",
		// paths, whatever they are called
		"evaluate labels predictions json.gz": "run voxsaw evaluate --help for an example",
		"finetune labels":                     "prepared cases are named with --data: voxsaw finetune --data labels",
		"finetune prep":                       "prepared cases are named with --data: voxsaw finetune --data prep",
		"compare baseline=a.csv":              "",
	} {
		root := newRoot()
		cmd, rest, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Fatal(err)
		}
		err = cmd.ValidateArgs(cmd.Flags().Args())
		if (err != nil) != (want != "") || hintOf(err) != want {
			t.Errorf("voxsaw %s: %v, hint %q, want %q", line, err, hintOf(err), want)
		}
	}
}

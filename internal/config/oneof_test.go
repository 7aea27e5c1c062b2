package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

type cut struct {
	Steps int    `yaml:"steps" help:"steps"`
	Grid  [3]int `yaml:"grid,flow" help:"cells"`
}

type turn struct {
	Steps int    `yaml:"steps" help:"steps"`
	Turns int    `yaml:"turns" help:"rotations"`
	Axis  string `yaml:"axis" help:"axis" oneof:"i j k"`
}

// shared is what two options are, of which only one turns.
type shared struct {
	Turns int `yaml:"turns" help:"rotations"`
	still bool
}

func (s *shared) Lacks(key string) bool { return s.still && key == "turns" }

type work struct {
	Name     string `yaml:"name" help:"name"`
	Learning struct {
		OneOf `yaml:",inline"`
	} `yaml:"learning" flag:"learning"`
	Runs []struct {
		Name     string  `yaml:"name"`
		Override Section `yaml:"override,omitempty"`
	} `yaml:"runs"`
}

func newWork() *work {
	w := &work{}
	w.Learning.OneOf = NewOneOf("task", "what is learnt", Option{"cut", &cut{Steps: 10, Grid: [3]int{3, 3, 3}}},
		Option{"turn", &turn{Steps: 20, Turns: 10, Axis: "k"}})
	return w
}

// resolve parses flags and a file as a command does.
func resolve(t *testing.T, w *work, file string, args ...string) error {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(flags, w)
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	return Resolve(flags, "", w)
}

func TestOneOfIsChosenByTheFile(t *testing.T) {
	w := newWork()
	if err := resolve(t, w, "name: a\nlearning:\n  turns: 24\n  task: turn\n"); err != nil {
		t.Fatal(err)
	}
	got, ok := w.Learning.Value().(*turn)
	if !ok || got.Turns != 24 || got.Steps != 20 || got.Axis != "k" {
		t.Errorf("%+v", w.Learning.Value())
	}
	text, err := Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.Contains(s, "task: turn") || !strings.Contains(s, "turns: 24") ||
		strings.Contains(s, "grid") {
		t.Errorf("the chosen struct is not what is written:\n%s", s)
	}
	again := newWork()
	if err := Parse("again", text, again); err != nil {
		t.Fatal(err)
	}
	if b := again.Learning.Value().(*turn); *b != *got {
		t.Errorf("%+v after writing and reading, before %+v", b, got)
	}
}

func TestOneOfIsChosenByAFlag(t *testing.T) {
	w := newWork()
	if err := resolve(t, w, "learning: {task: cut}\n", "--learning-turns", "24", "--learning-task", "turn",
		"--learning-steps", "7"); err != nil {
		t.Fatal(err)
	}
	if got := *w.Learning.Value().(*turn); got != (turn{7, 24, "k"}) {
		t.Errorf("%+v", got)
	}
}

func TestOneOfRefusesWhatTheChosenLacks(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"flag of another": {"", []string{"--learning-turns", "24"},
			"--learning-turns: task cut has no such setting; turn has"},
		"key of another":    {"learning: {turns: 24}\n", nil, `unknown key "learning.turns"`},
		"unknown choice":    {"learning: {task: trun}\n", nil, "learning.task"},
		"unknown flag":      {"", []string{"--learning-task", "trun"}, "trun"},
		"value of a flag":   {"", []string{"--learning-task", "turn", "--learning-axis", "x"}, "x"},
		"value in the file": {"learning: {task: turn, axis: x}\n", nil, "learning.axis"},
	} {
		if err := resolve(t, newWork(), c.file, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.want)
		}
	}
}

func TestOneOfClonesShareNothing(t *testing.T) {
	w := newWork()
	c := w.Learning.Clone()
	c.Chosen = "turn"
	c.Option("turn").(*turn).Turns = 24
	c.Option("cut").(*cut).Steps = 1
	if w.Learning.Chosen != "cut" || w.Learning.Option("turn").(*turn).Turns != 10 ||
		w.Learning.Value().(*cut).Steps != 10 {
		t.Error("the original has changed with its clone")
	}
}

func TestSectionsAreReadLater(t *testing.T) {
	w := newWork()
	if err := resolve(t, w,
		"runs:\n  - name: plain\n  - name: fine\n    override:\n      grid: [4, 4, 4] # finer\n      task: cut\n"+
			""); err != nil {
		t.Fatal(err)
	}
	plain, fine := w.Runs[0].Override, w.Runs[1].Override
	if !plain.IsZero() || fine.IsZero() || !fine.Has("grid") || fine.Has("steps") {
		t.Errorf("sections %q and %q", plain, fine)
	}
	if task, ok := fine.Lookup("task"); !ok || task != "cut" {
		t.Errorf("task %q, %v", task, ok)
	}
	c := cut{Steps: 10}
	if err := NewSection("grid: [4, 4, 4]\n").Apply("run fine", &c); err != nil || c != (cut{10, [3]int{4, 4, 4}}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := fine.Apply("run fine", &c); err == nil || !strings.Contains(err.Error(), "run fine") ||
		!strings.Contains(err.Error(), "task") {
		t.Errorf("a key that the struct lacks: %v", err)
	}
	text, err := Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	again := newWork()
	if err := Parse("again", text, again); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if fine != NewSection("{task: cut, grid: [4, 4, 4]}") && fine != NewSection("{grid: [4, 4, 4], task: cut}") {
		t.Errorf("%q depends on how it was written", fine)
	}
	if again.Runs[1].Override != fine || again.Runs[0].Override != plain {
		t.Errorf("%q after writing and reading, before %q", again.Runs[1].Override, fine)
	}
}

// A key of a struct that options share, for which one of them has no use, has no flag there. Files
// of earlier versions have it.
func TestOptionsLackKeysOfASharedStruct(t *testing.T) {
	choice := func() *work {
		w := &work{}
		w.Learning.OneOf = NewOneOf("task", "what is learnt", Option{"turn", &shared{Turns: 10}},
			Option{"look", &shared{Turns: 10, still: true}})
		return w
	}
	w := choice()
	if err := resolve(t, w, "", "--learning-turns", "7"); err != nil || w.Learning.Value().(*shared).Turns != 7 {
		t.Errorf("%+v, %v", w.Learning.Value(), err)
	}
	err := resolve(t, choice(), "", "--learning-task", "look", "--learning-turns", "10")
	if want := "--learning-turns: task look has no such setting; turn has"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	if err := resolve(t, choice(), "learning: {task: look, turns: 10}\n"); err != nil {
		t.Error(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(flags, choice())
	if _, all := Variants(flags.Lookup("learning-turns")); len(all) != 1 || all[0].Option != "turn" {
		t.Errorf("help names %+v", all)
	}
}

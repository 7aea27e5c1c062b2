package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

type schedule struct {
	Kind   string        `yaml:"schedule" help:"learning rate over time" oneof:"constant step poly cosine"`
	WarmUp int           `yaml:"warm_up" help:"steps"`
	Every  time.Duration `yaml:"checkpoint_every"`
}

type item struct {
	Name   string            `yaml:"name"`
	Extent [3]int            `yaml:"extent"`
	Tags   map[string]string `yaml:"tags,omitempty"`
}

type options struct {
	Steps        int        `yaml:"steps" help:"how many: as many as it takes"`
	LearningRate float64    `yaml:"learning_rate" help:"of SGD"`
	Mirror       bool       `yaml:"mirror"`
	Seed         uint64     `yaml:"seed"`
	Grid         []int      `yaml:"grid" help:"cells"`
	Spacing      [3]float64 `yaml:"spacing"`
	Crop         [3]int     `yaml:"crop"`
	Window       [2]float64 `yaml:"window"`
	Fractions    []float64  `yaml:"fractions"`
	Cases        []string   `yaml:"cases"`
	Schedule     schedule   `yaml:",inline"`
	Network      struct {
		Channels int    `yaml:"channels"`
		Norm     string `yaml:"norm"`
	} `yaml:"network" help:"the backbone"`
	Teacher struct {
		Channels int `yaml:"channels"`
	} `yaml:"teacher" flag:"teacher"`
	Items  []item         `yaml:"items"`
	Labels map[int]string `yaml:"labels"`
	Hidden int            `yaml:"-"`
	Quiet  bool           `yaml:"quiet" flag:"-"`
	Out    string         `yaml:"out" flag:"output"`
}

func defaults() options {
	o := options{Steps: 100, LearningRate: 0.01, Grid: []int{3, 3, 3}, Crop: [3]int{96, 96, 96},
		Window: [2]float64{-125, 275}, Schedule: schedule{Kind: "poly", Every: time.Minute}}
	o.Network.Channels = 16
	return o
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const full = `# a comment
steps: 7
learning_rate: 1e-3
mirror: true
seed: 18446744073709551615
grid: 2x2x2
spacing: 1x1x1.5
crop: 48
window: [-100, 240]
fractions:
  - 0.1
  - 1
cases: [a, "b c"]
schedule: cosine
checkpoint_every: 1h30m
network:
  channels: 8
  norm: "no"
teacher: {channels: 4}
items:
  - name: first
    extent: [1, 2, 3]
  - name: 'second'
    extent: 5
    tags: {b: x, a: "1"}
labels:
  10: tumour
  2: pancreas
`

func TestLoadReadsEveryKind(t *testing.T) {
	got := defaults()
	if err := Load(write(t, full), &got); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Steps, want.LearningRate, want.Mirror, want.Seed = 7, 0.001, true, 1<<64-1
	want.Grid, want.Spacing, want.Crop, want.Window = []int{2, 2, 2}, [3]float64{1, 1, 1.5}, [3]int{48, 48, 48},
		[2]float64{-100, 240}
	want.Fractions, want.Cases = []float64{0.1, 1}, []string{"a", "b c"}
	want.Schedule.Kind, want.Schedule.Every = "cosine", 90*time.Minute
	want.Network.Channels, want.Network.Norm, want.Teacher.Channels = 8, "no", 4
	want.Items = []item{{Name: "first", Extent: [3]int{1, 2, 3}}, {Name: "second", Extent: [3]int{5, 5, 5},
		Tags: map[string]string{"a": "1", "b": "x"}}}
	want.Labels = map[int]string{2: "pancreas", 10: "tumour"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Editors on Windows put a mark before UTF-8.
func TestByteOrderMark(t *testing.T) {
	got := defaults()
	if err := Load(write(t, "\ufeffsteps: 7\r\n"), &got); err != nil || got.Steps != 7 {
		t.Errorf("%d steps, %v; want 7", got.Steps, err)
	}
}

func TestMarshalRoundTrips(t *testing.T) {
	cfg := defaults()
	if err := Parse("full", []byte(full), &cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Cases = []string{"", "true", "1e3", "a: b", "x # y", "- z", "naïve", "line\nbreak", `quo"te\`, "0x10", "~", "{",
		"a b", "1:30"}
	text, err := Marshal(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	var back options
	if err := Parse("back", text, &back); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if d := cmp.Diff(cfg, back, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s in\n%s", d, text)
	}
	again, _ := Marshal(&back)
	if string(again) != string(text) {
		t.Error("the same values give other bytes")
	}
	if strings.Contains(string(text), "tags: {}") {
		t.Errorf("omitempty was ignored in\n%s", text)
	}
	if !strings.Contains(string(text), "steps: 7 # how many: as many as it takes\n") {
		t.Errorf("no help in\n%s", text)
	}
}

func TestErrorsNameTheCulprit(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"misspelt": {"steps: 1\nlerning_rate: 1\n",
			`run.yaml:2: unknown key "lerning_rate": did you mean "learning_rate"?`},
		"forgotten part": {"channels: 1\n",
			`run.yaml:1: unknown key "channels": did you mean "network.channels" or "teacher.channels"?`},
		"misspelt part": {"chanels: 1\n",
			`run.yaml:1: unknown key "chanels": did you mean "network.channels" or "teacher.channels"?`},
		"tab": {"seed: 1\nnetwork:\n\tchannels: 1\n",
			`run.yaml:3: a tab begins the line: YAML is indented with spaces alone`},
		"tab in front": {"\tseed: 1\n", `run.yaml:1: a tab begins the line`},
		"misspelt inside": {"network:\n  chanels: 1\n",
			`run.yaml:2: unknown key "network.chanels": did you mean "network.channels"?`},
		"not alike":       {"zzzzzzzzzz: 1\n", `the valid ones are `},
		"hidden":          {"Hidden: 1\n", `unknown key "Hidden"`},
		"number":          {"steps: 1\n\nlearning_rate: fast\n", `run.yaml:3: learning_rate: "fast" is not a number`},
		"whole":           {"steps: 1.5\n", `run.yaml:1: steps: "1.5" is not a whole number`},
		"negative":        {"seed: -1\n", `seed: "-1" is not a whole number of 0 or more`},
		"range":           {"steps: 99999999999999999999\n", `steps: 99999999999999999999 is out of range`},
		"bool":            {"mirror: yes\n", `mirror: "yes" is not true or false`},
		"nan":             {"learning_rate: nan\n", `is not a number`},
		"few":             {"window: [1]\n", `window: want 2 values (A,B), not 1`},
		"many":            {"crop: [1,2,3,4]\n", `crop: want 3 values (AxBxC), not 4`},
		"list":            {"steps: [1]\n", `steps: want one value, not a list`},
		"mapping":         {"steps:\n  a: 1\n", `steps: want a plain value (int), not keys and values`},
		"no mapping":      {"network: 3\n", `network: want keys and values`},
		"empty value":     {"steps:\nseed: 1\n", `run.yaml:1: steps has no value`},
		"choice":          {"schedule: cosin\n", `schedule: unknown value "cosin": did you mean "cosine"?`},
		"duration":        {"checkpoint_every: 5\n", `checkpoint_every: "5" is not a duration`},
		"duplicate":       {"steps: 1\nsteps: 2\n", `run.yaml:2: `},
		"syntax":          {"steps: [1\nseed: 2\n", `run.yaml:`},
		"list at top":     {"- 1\n", `run.yaml:1: want lines of`},
		"two documents":   {"steps: 1\n---\nsteps: 2\n", `more than one document`},
		"behind an empty": {"---\n---\nnosuch: 1\n", `run.yaml:2: more than one document`},
		"three":           {"steps: 1\n---\n---\nnosuch: 1\n", `run.yaml:3: more than one document`},
		"many keys":       {numbered("key%d: 1\n", 20_000), `more than 4000 keys: not a config file`},
		"many flow keys": {"labels: {" + numbered("%d: a, ", 20_000) + "}\n",
			`more than 4000 keys: not a config file`},
		"many items": {"crop: [" + numbered("%d, ", 400_000/8) + "1, 2]\n",
			`more than 50000 items of lists: not a config file`},
		"many lines": {"items:\n" + numbered("- %d\n", 60_000), `more than 50000 items of lists: not a config file`},
		"alias":      {"steps: &a 1\nseed: *a\n", `anchors, aliases and tags are not supported`},
		"in an item": {"items:\n  - name: a\n  - nme: b\n",
			`run.yaml:3: unknown key "items[1].nme": did you mean "items[1].name"?`},
		"map key": {"labels: {a: b}\n", `labels: "a" is not a whole number`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults()
			err := Load(write(t, c.text), &cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ...%s...", err, c.want)
			}
		})
	}
	if err := Load(filepath.Join(t.TempDir(), "absent.yaml"), &options{}); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("absent file: %v", err)
	}
}

func TestEmptyFileKeepsDefaults(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n"} {
		got := defaults()
		if err := Parse("empty", []byte(text), &got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if d := cmp.Diff(defaults(), got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestFlagsWinOverTheFile(t *testing.T) {
	cfg := defaults()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(flags, &cfg)
	path := write(t, "steps: 7\nseed: 3\ngrid: [2, 2, 2]\ncases: [c]\n")
	if err := flags.Parse([]string{"--config", path, "--steps=9", "--window", "-5,5", "--mirror", "--cases", "a,b",
		"--cases=d", "--crop", "32", "--teacher-channels", "2", "--output", "x"}); err != nil {
		t.Fatal(err)
	}
	if err := Resolve(flags, "", &cfg); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Steps, want.Seed, want.Grid, want.Window, want.Mirror = 9, 3, []int{2, 2, 2}, [2]float64{-5, 5}, true
	want.Cases, want.Crop, want.Teacher.Channels, want.Out = []string{"a", "b", "d"}, [3]int{32, 32, 32}, 2, "x"
	if d := cmp.Diff(want, cfg); d != "" {
		t.Error(d)
	}
}

func TestFlagsSayWhatTheyWant(t *testing.T) {
	cfg := defaults()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(flags, &cfg)
	usage := flags.FlagUsages()
	for _, want := range []string{"--learning-rate number", "of SGD (default 0.01)", "--crop AxBxC",
		"(default 96x96x96)", "(default \"poly\")", "(constant, step, poly, cosine)", "--checkpoint-every duration",
		"--mirror "} {
		if !strings.Contains(usage, want) {
			t.Errorf("no %q in\n%s", want, usage)
		}
	}
	for _, absent := range []string{"--quiet", "--items", "--labels", "--hidden"} {
		if strings.Contains(usage, absent) {
			t.Errorf("%s in\n%s", absent, usage)
		}
	}
	err := flags.Parse([]string{"--spacing", "1,2"})
	if err == nil || !strings.Contains(err.Error(), "want 3 values (AxBxC), not 2") {
		t.Error(err)
	}
}

func TestCollidingFlagsPanic(t *testing.T) {
	var cfg struct {
		A struct {
			Size int `yaml:"size"`
		} `yaml:"a"`
		B struct {
			Size int `yaml:"size"`
		} `yaml:"b"`
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "a.size and b.size both want the flag --size") {
			t.Errorf("panicked with %q", p)
		}
	}()
	Bind(pflag.NewFlagSet("test", pflag.ContinueOnError), &cfg)
}

func TestPartReadsASection(t *testing.T) {
	var network struct {
		Channels int    `yaml:"channels"`
		Norm     string `yaml:"norm"`
	}
	if err := ParseSection("checkpoint", []byte(full), "network", &network); err != nil || network.Channels != 8 {
		t.Errorf("got %+v, %v", network, err)
	}
	if err := ParseSection("checkpoint", []byte(full), "network.head", &network); err == nil ||
		!strings.Contains(err.Error(), `no section "network.head"`) {
		t.Error(err)
	}
}

func TestKebab(t *testing.T) {
	for in, want := range map[string]string{"learning_rate": "learning-rate", "learningRate": "learning-rate",
		"HD95": "hd95", "hu": "hu", "foldK": "fold-k"} {
		if got := kebab(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// Whatever the bytes, Parse returns, and what it accepts survives Marshal and Parse.
func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add("steps: &a [*a]")
	f.Add("? {a: b}\n: c")
	f.Fuzz(func(t *testing.T, text string) {
		var first, second options
		if Parse("fuzz", []byte(text), &first) != nil {
			return
		}
		out, err := Marshal(&first)
		if err != nil {
			t.Fatal(err)
		}
		if err := Parse("again", out, &second); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		again, _ := Marshal(&second)
		if string(out) != string(again) {
			t.Fatalf("%s\n%s", out, again)
		}
	})
}

type bounded struct {
	LR    float64 `yaml:"lr" help:"learning rate" range:"(0,)"`
	Share float64 `yaml:"share" help:"share" range:"[0,1)"`
	Count int     `yaml:"count" help:"count"`
	Sizes []int   `yaml:"sizes" help:"sizes" range:"[1,4]"`
	Any   float64 `yaml:"any" help:"any" range:"(,)"`
	Plain float64 `yaml:"plain"`
}

// Numbers lie in the interval that their tag names, or are not negative; what is stored is read as
// it is.
func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"lr: 0":              "file:1: lr: want more than 0, not 0",
		"lr: .inf":           "file:1: lr: want more than 0, not +Inf",
		"share: 1":           "file:1: share: want 0 or more and less than 1, not 1",
		"count: -1":          "file:1: count: want 0 or more, not -1",
		"sizes: [1, 5]":      "file:1: sizes: want 1 or more and at most 4, not 5",
		"any: -.inf":         "file:1: any: want a finite number, not -Inf",
		"lr: 1\nshare: 0":    "",
		"any: -3\nplain: -1": "",
	} {
		var b bounded
		if err := Parse("file", []byte(text), &b); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if err := Stored("file", []byte(text), &b); err != nil {
			t.Errorf("%q, stored: %v", text, err)
		}
	}
}

// numbered repeats a line, with its number.
func numbered(line string, times int) string {
	var b strings.Builder
	for n := range times {
		fmt.Fprintf(&b, line, n)
	}
	return b.String()
}

// One document may begin with a line of dashes, and with what the YAML is of.
func TestOneDocument(t *testing.T) {
	for _, text := range []string{"---\nsteps: 7\n", "# a comment\n---\nsteps: 7\n", "%YAML 1.2\n---\nsteps: 7\n",
		"steps: 7\n...\n", "---\n# a comment\nsteps: 7\n"} {
		cfg := defaults()
		if err := Parse("run.yaml", []byte(text), &cfg); err != nil || cfg.Steps != 7 {
			t.Errorf("%q: %d steps, %v", text, cfg.Steps, err)
		}
	}
}

func TestWordsForNumbers(t *testing.T) {
	type spaced struct {
		Spacing [3]float64 `yaml:"spacing,flow" help:"size" words:"own=0 median=-1"`
		Batch   int        `yaml:"batch" help:"items" words:"auto=0"`
	}
	median := [3]float64{-1, -1, -1}
	for text, want := range map[string][3]float64{
		"median": median, "own": {}, "[0, 0, 0]": {}, "1.5": {1.5, 1.5, 1.5}, "[1, 2, 3]": {1, 2, 3},
		"1x2x3": {1, 2, 3}, "[own, 2, median]": {0, 2, -1}, "ownx2xmedian": {0, 2, -1},
	} {
		var s spaced
		if err := Parse("file", []byte("spacing: "+text), &s); err != nil || s.Spacing != want {
			t.Errorf("%s: %v, %v", text, s.Spacing, err)
		}
		out, err := Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var again spaced
		if err := Parse("file", out, &again); err != nil || again != s {
			t.Errorf("%s: written as %s, read as %v: %v", text, out, again, err)
		}
	}
	for _, text := range []string{"-1", "[-1, -1, -1]", "[median, -1, 2]", "[own, own]", "middle"} {
		var s spaced
		if err := Parse("file", []byte("spacing: "+text), &s); err == nil || s.Spacing != [3]float64{} {
			t.Errorf("%s is taken: %v", text, s.Spacing)
		}
	}
	out, err := Marshal(&spaced{Spacing: median})
	if want := "spacing: median # size\nbatch: 0 # items\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := spaced{Spacing: median}
	Bind(flags, &s)
	if shown := flags.Lookup("spacing").DefValue; shown != "median" {
		t.Errorf("the default is shown as %q", shown)
	}
	if err := flags.Parse([]string{"--spacing", "own", "--batch", "auto"}); err != nil || s.Spacing != [3]float64{} {
		t.Errorf("%v, %v", s, err)
	}
}

// A file for several commands has a section for each; a file without the key of plans is one's own.
func TestSections(t *testing.T) {
	type options struct {
		Steps int    `yaml:"steps" help:"steps"`
		Plan  string `yaml:"name" help:"name"`
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	text := "plan: {decisions: []}\nfinetune: {steps: 7}\nphotos pretrain:\n  steps: 8\nempty:\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resolve := func(command string) (int, error) {
		o := options{Steps: 1}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		Bind(flags, &o)
		if err := flags.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		err := Resolve(flags, command, &o)
		return o.Steps, err
	}
	for command, want := range map[string]int{"finetune": 7, "photos pretrain": 8, "empty": 1} {
		if got, err := resolve(command); got != want || err != nil {
			t.Errorf("%s: %d steps, %v, want %d", command, got, err, want)
		}
	}
	if _, err := resolve("pretrain"); err == nil || !strings.Contains(err.Error(), `has no section "pretrain"`) {
		t.Errorf("a section that is not there: %v", err)
	}
	if !Gives(path, "finetune", "steps") || Gives(path, "finetune", "name") || Gives(path, "pretrain", "steps") {
		t.Error("Gives looks elsewhere than into the section")
	}
}

// The last number of an array may be left out, and is left out where it is zero; its help is
// written with it alone.
func TestLastNumberMayBeLeftOut(t *testing.T) {
	type cells struct {
		Grid [4]int `yaml:"grid,flow" help:"cells" range:"[1,)" last:"cells along time"`
	}
	for text, want := range map[string][4]int{
		"2x3x4": {2, 3, 4}, "[2, 3, 4]": {2, 3, 4}, "2x3x4x5": {2, 3, 4, 5}, "[2, 3, 4, 5]": {2, 3, 4, 5},
		"3": {3, 3, 3}, "[3]": {3, 3, 3},
	} {
		var c cells
		if err := Parse("file", []byte("grid: "+text), &c); err != nil || c.Grid != want {
			t.Errorf("%s: %v, %v", text, c.Grid, err)
		}
		out, err := Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		written := "grid: [2, 3, 4] # cells\n"
		switch want {
		case [4]int{2, 3, 4, 5}:
			written = "grid: [2, 3, 4, 5] # cells; cells along time\n"
		case [4]int{3, 3, 3}:
			written = "grid: [3, 3, 3] # cells\n"
		}
		if string(out) != written {
			t.Errorf("%s is written as %q", text, out)
		}
	}
	for text, want := range map[string]string{
		"2x2": "want 3 or 4 values (AxBxC[xD]), not 2", "1x2x3x4x5": "not 5", "2x2x2x0": "want 1 or more, not 0",
		"2x0x2": "want 1 or more, not 0", "0": "want 1 or more, not 0", "2x2xax2": "not a whole number",
	} {
		c := cells{[4]int{1, 1, 1}}
		if err := Parse("file", []byte("grid: "+text), &c); err == nil || !strings.Contains(err.Error(), want) ||
			c.Grid != [4]int{1, 1, 1} {
			t.Errorf("%s: %v, %v, want %q", text, c.Grid, err, want)
		}
	}
	c := cells{[4]int{3, 3, 3}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Bind(flags, &c)
	const said = "--grid AxBxC[xD]   cells; cells along time (default 3x3x3)"
	if usage := flags.FlagUsages(); !strings.Contains(usage, said) {
		t.Error(usage)
	}
	if err := flags.Parse([]string{"--grid", "2x2x2x4"}); err != nil || c.Grid != [4]int{2, 2, 2, 4} {
		t.Errorf("%v, %v", c.Grid, err)
	}
	if err := flags.Parse([]string{"--grid", "2x2x2"}); err != nil || c.Grid != [4]int{2, 2, 2} {
		t.Errorf("%v, %v", c.Grid, err)
	}
}

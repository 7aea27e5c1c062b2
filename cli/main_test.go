package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/voxsaw/voxsaw/internal/experiment"
)

func TestMain(m *testing.M) {
	// A shell lets what it starts in the background ignore SIGINT, and what that starts ignores it,
	// too, unless it is caught here. Scripts interrupt their commands by it.
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	testscript.Main(m, map[string]func(){"voxsaw": voxsawMain, "phantom": phantomMain, "pictures": picturesMain,
		"pascal": pascalMain})
}

// pauseAt names a pattern: the process that writes it to standard error waits there for its signal,
// so that a test decides where a run is interrupted.
const pauseAt = "VOXSAW_TEST_PAUSE_AT"

// voxsawMain is main. Whatever it writes to people must read well, in every script.
func voxsawMain() {
	stdout, stderr := &reading{Writer: os.Stdout}, &reading{Writer: os.Stderr}
	boundGarbage()
	code := run(os.Args[1:], stdout, paused(stderr))
	for _, line := range append(stdout.clumsy(), stderr.clumsy()...) {
		fmt.Fprintf(os.Stderr, "this does not read well: %s\n", line)
		code = exitClumsy
	}
	os.Exit(code)
}

// exitClumsy is the exit code, in tests alone, of a command whose words do not read well.
const exitClumsy = 99

// clumsy is what no line for people has: a plural of one, and lists as Go writes them.
var clumsy = regexp.MustCompile(`(?:^|[^0-9.,+x-])\b1 (?:cases|steps|scans|folds|runs|labels|files|trials|seeds|channels|classes|patients|crops|puzzles|photographs|voxels|levels|stages|structures|predictions|references|series are|of the cases have)\b|\[-?[0-9.]+(?: -?[0-9.]+)+\]|map\[|%!|\{[A-Z][A-Za-z]*:|0x[0-9a-f]{6}`)

// reading passes on what is written, and remembers it.
type reading struct {
	io.Writer
	text bytes.Buffer
}

func (r *reading) Write(text []byte) (int, error) {
	r.text.Write(text)
	return r.Writer.Write(text)
}

// clumsy lists the lines that do not read well. JSON is for programs.
func (r *reading) clumsy() (lines []string) {
	for line := range strings.Lines(r.text.String()) {
		if start := strings.TrimSpace(line); clumsy.MatchString(line) && !strings.HasPrefix(start, "{") &&
			!strings.HasPrefix(start, `"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// paused is the writer that waits where a test says so.
func paused(w io.Writer) io.Writer {
	if pattern := os.Getenv(pauseAt); pattern != "" {
		return &pausing{Writer: w, at: regexp.MustCompile(pattern), signalled: make(chan struct{})}
	}
	return w
}

// pausing passes on what is written, and blocks who wrote the first match until somebody else has
// written that the process is stopping.
type pausing struct {
	io.Writer
	at        *regexp.Regexp
	paused    atomic.Bool
	signalled chan struct{}
}

func (p *pausing) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	switch {
	case bytes.HasPrefix(text, []byte("stopping;")):
		close(p.signalled)
	case p.at.Match(text) && !p.paused.Swap(true):
		<-p.signalled
	}
	return n, err
}

// TestScripts runs the scripts of testdata/script, each a story of commands that a user types. They
// share $SHARED:
//
//	scans/            six phantoms, four of them labelled
//	prepared/         made of them
//	pretrain.yaml     settings of the smallest encoder that solves puzzles
//	finetune.yaml     settings of the smallest network that segments
//	puzzles.safetensors, organs.safetensors     a checkpoint of each
//
// and $GOLDEN, the repository's folder of golden files.
func TestScripts(t *testing.T) {
	shared := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(shared, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	voxsaw := func(args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		if code := run(args, io.Discard, &stderr); code != 0 {
			t.Fatalf("voxsaw %v: exit code %d\n%s", args, code, stderr.String())
		}
	}
	in := func(name string) string { return filepath.Join(shared, name) }
	write("pretrain.yaml", "data: "+in("prepared")+`
network: {channels: 2, levels: 1}
train: {steps: 3}
grid: 2x2x2
crop: 16
features: 8
hidden: 8
`)
	write("finetune.yaml", "data: "+in("prepared")+`
network: {channels: 2, levels: 1}
train: {steps: 3}
crop: 16
labels: [2, 3]
`)
	if err := writePhantoms(in("scans"), phantomOptions{cases: 6, labelled: 4, axcodes: "RAS"}); err != nil {
		t.Fatal(err)
	}
	voxsaw("prepare", in("scans"), "--out", in("prepared"))
	voxsaw("pretrain", "--config", in("pretrain.yaml"), "--out", in("puzzles"))
	voxsaw("finetune", "--config", in("finetune.yaml"), "--out", in("organs"))
	for _, run := range []string{"puzzles", "organs"} {
		if err := os.Rename(filepath.Join(in(run), "last.safetensors"), in(run+".safetensors")); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := filepath.Abs(filepath.Join("..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("testdata", "script"),
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared)
			e.Setenv("GOLDEN", golden)
			// scripts run side by side: threads of one would wait for those of another
			e.Setenv("GOMAXPROCS", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "interrupt": interrupt, "meanwhile": meanwhile, "json": checkJSON, "same": same,
			"damage": damage, "bomb": bomb,
		},
	})
}

// exits CODE COMMAND... runs a command that must end with the exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		ts.Check(err)
	}
	got := 0
	if failed != nil {
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// interrupt [CODE] PATTERN COMMAND... runs voxsaw, sends it SIGINT when it has written a line that
// matches to standard error, and wants the exit code, 130 if none is given.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	code := exitInterrupted
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			code, args = n, args[1:]
		}
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt [CODE] PATTERN COMMAND...")
	}
	interruptAfter(ts, code, args[0], args[1:], func() {})
}

// meanwhile PATTERN CODE,COMMAND COMMAND... is interrupt, but when the line was written it first
// runs the other command, which must end with the exit code. Standard error is that of both.
func meanwhile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: meanwhile PATTERN CODE,COMMAND COMMAND...")
	}
	code, other, _ := strings.Cut(args[1], ",")
	interruptAfter(ts, exitInterrupted, args[0], args[2:], func() {
		words := strings.Fields(other)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), ts.Stdout(), ts.Stderr()
		_ = cmd.Run() // the exit code says it
		if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != code {
			ts.Fatalf("%s: exit code %s, want %s", other, got, code)
		}
	})
}

// interruptAfter runs a command up to a line of standard error, then does something, and then
// interrupts the command, which must end with the exit code.
func interruptAfter(ts *testscript.TestScript, want int, line string, args []string, then func()) {
	pattern, err := regexp.Compile(line)
	ts.Check(err)
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir, cmd.Stdout = ts.MkAbs("."), ts.Stdout()
	// the number of threads decides the last bits
	cmd.Env = append(os.Environ(), pauseAt+"="+line, "GOMAXPROCS="+ts.Getenv("GOMAXPROCS"))
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	sent := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		_, err := io.WriteString(ts.Stderr(), lines.Text()+"\n")
		ts.Check(err)
		if !sent && pattern.MatchString(lines.Text()) {
			then()
			ts.Check(cmd.Process.Signal(os.Interrupt))
			sent = true
		}
	}
	_ = cmd.Wait() // the exit code says it
	if !sent {
		ts.Fatalf("no line matched %s before the end", pattern)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// json FILE [KEYS] wants one JSON value, and where keys are given, that it is an object, or a list
// of objects, with exactly these keys. Those with a question mark may be missing.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json FILE [KEYS]")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &value); err != nil {
		ts.Fatalf("%v", err)
	}
	if len(args) == 1 {
		return
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	if len(list) == 0 {
		ts.Fatalf("an empty list")
	}
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			ts.Fatalf("%v is no object", item)
		}
		rest := maps.Clone(object)
		for key := range strings.FieldsSeq(args[1]) {
			key, spare := strings.CutSuffix(key, "?")
			if _, there := rest[key]; !there && !spare {
				ts.Fatalf("no key %q in %v", key, object)
			}
			delete(rest, key)
		}
		if len(rest) > 0 {
			ts.Fatalf("keys that nobody asked for: %v", slices.Sorted(maps.Keys(rest)))
		}
	}
}

// same FILE FILE wants the same bytes.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	if (ts.ReadFile(args[0]) == ts.ReadFile(args[1])) == neg {
		ts.Fatalf("%s and %s: the same bytes is %v", args[0], args[1], neg)
	}
}

// damage FROM TO HOW writes a damaged copy of a file: cut to a number of bytes, drawn out to it by
// zeros that take no room, or with the byte at a place changed (@place=value).
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: damage FROM TO BYTES|@PLACE=VALUE")
	}
	data := []byte(ts.ReadFile(args[0]))
	if place, value, ok := strings.Cut(strings.TrimPrefix(args[2], "@"), "="); ok {
		at, err := strconv.Atoi(place)
		ts.Check(err)
		b, err := strconv.ParseUint(value, 0, 8)
		ts.Check(err)
		data[at] = byte(b)
	} else {
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		if data = data[:min(n, len(data))]; len(data) < n {
			defer func() { ts.Check(os.Truncate(ts.MkAbs(args[1]), int64(n))) }()
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o644))
}

// The demo at a size that a test can wait for: the numbers mean nothing.
func TestDemo(t *testing.T) {
	out := t.TempDir()
	demo := experiment.Demo{Labelled: 4, Unlabelled: 2, Shape: [3]int{36, 30, 30}, PretrainSteps: 2, TrainSteps: 2,
		Fraction: 0.5}
	for _, again := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		cmd := newDemo()
		cmd.SetContext(context.Background())
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		if err := demonstrate(cmd, demo, demoOptions{Out: out, Machine: defaultDevice()}); err != nil {
			t.Fatalf("again: %v: %v\n%s", again, err, stderr.String())
		}
		for _, want := range []string{"Mean DSC (%)", "scratch", "3x3x3", "report.html"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("again: %v: no %q in\n%s", again, want, stdout.String())
			}
		}
		if trained := strings.Contains(stderr.String(), "crops/s"); trained == again {
			t.Errorf("again: %v, trained: %v", again, trained)
		}
	}
	for _, name := range []string{"report.html", "report.md", "scans/dataset.json", "prepared/manifest.json",
		"subsets.json"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package commandtest

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// Scripts runs the scripts of a package's testdata/script, each a story of commands that a user
// types. They share $SHARED:
//
//	scans/            six phantoms, four of them labelled
//	prepared/         made of them
//	pretrain.yaml     settings of the smallest encoder that solves puzzles
//	finetune.yaml     settings of the smallest network that segments
//	puzzles.safetensors, organs.safetensors     a checkpoint of each
//
// and $GOLDEN, the repository's folder of golden files. "[turn:0/3]" before a command of theirs is
// [turns.Has].
func Scripts(t *testing.T) {
	shared := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(shared, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
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
	if err := miniature.Scans(in("scans"), miniature.ScanOptions{Cases: 6, Labelled: 4}); err != nil {
		t.Fatal(err)
	}
	Run(t, 0, "prepare", in("scans"), "--out", in("prepared"))
	Run(t, 0, "pretrain", "--config", in("pretrain.yaml"), "--out", in("puzzles"))
	Run(t, 0, "finetune", "--config", in("finetune.yaml"), "--out", in("organs"))
	for _, run := range []string{"puzzles", "organs"} {
		if err := os.Rename(filepath.Join(in(run), "last.safetensors"), in(run+".safetensors")); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	// Commands are processes of their own, whose files go test does not see: it remembers results
	// as those of the files that are listed here.
	if err := filepath.WalkDir(golden, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
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
		Condition: func(condition string) (bool, error) {
			var n, parts int
			if _, err := fmt.Sscanf(condition, "turn:%d/%d", &n, &parts); err != nil || n >= parts {
				return false, fmt.Errorf("%q is no condition such as turn:0/3", condition)
			}
			return turns.Has(t, n, parts), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "interrupt": interrupt, "meanwhile": meanwhile, "json": checkJSON, "same": same,
			"damage": damage, "bomb": bomb, "zipped": zipped,
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
	code := 130
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
	interruptAfter(ts, 130, args[0], args[2:], func() {
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
	// Where the script fails in between, the paused command would wait for ever.
	defer func() { _ = cmd.Process.Kill() }()
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

// zipped FILE MEMBER FROM writes a zip archive, without compression, of one file.
func zipped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: zipped FILE MEMBER FROM")
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: args[1], Method: zip.Store})
	ts.Check(err)
	_, err = io.WriteString(w, ts.ReadFile(args[2]))
	ts.Check(err)
	ts.Check(z.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

// bomb FILE I J K writes a compressed NIfTI file of so many zeros, a byte each, in a thousandth of
// their size: the compressed zeros of one slice, again and again.
func bomb(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: bomb FILE I J K")
	}
	var shape [3]int
	for n, text := range args[1:] {
		var err error
		if shape[n], err = strconv.Atoi(text); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	header := make([]byte, 352)
	put := binary.LittleEndian.PutUint16
	binary.LittleEndian.PutUint32(header, 348)
	put(header[40:], 3)
	for n, extent := range shape {
		put(header[42+2*n:], uint16(extent))
	}
	put(header[70:], 2) // uint8
	put(header[72:], 8)
	put(header[254:], 1) // of the sform
	binary.LittleEndian.PutUint32(header[108:], math.Float32bits(352))
	for n := range 3 {
		binary.LittleEndian.PutUint32(header[80+4*n:], math.Float32bits(1))
		binary.LittleEndian.PutUint32(header[280+20*n:], math.Float32bits(1))
	}
	copy(header[344:], "n+1\x00")
	member := func(data []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(data)
		ts.Check(err)
		ts.Check(z.Close())
		return b.Bytes()
	}
	file := append(member(header), bytes.Repeat(member(make([]byte, shape[0]*shape[1])), shape[2])...)
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
	ts.Check(os.WriteFile(path, file, 0o666))
}

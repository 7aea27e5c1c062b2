// Package commandtest runs the command line in tests.
//
// Start at [Main], which a package of such tests calls first. [Run] and [Type] carry out a command
// in the test's own process, and [Scripts] runs stories of commands, each in a process of its own.
package commandtest

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// command carries out a command line: cli.Run, which the tests of package cli could not name here.
var command func(args []string, stdout, stderr io.Writer) int

// Main is for TestMain. The tests' program is also the command voxsaw, under that name, and the
// commands phantom, pictures and pascal, which write what voxsaw reads; all are in the PATH of the
// tests.
func Main(m *testing.M, run func(args []string, stdout, stderr io.Writer) int) {
	command = run
	ProcessorClock()
	// A shell lets what it starts in the background ignore SIGINT, and what that starts ignores it,
	// too, unless it is caught here. Scripts interrupt their commands by it.
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	testscript.Main(m, map[string]func(){"voxsaw": voxsawMain, "phantom": phantomMain, "pictures": picturesMain,
		"pascal": pascalMain})
}

// Run runs the program, which must end with the exit code.
func Run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	if got := command(args, &out, &messages); got != code {
		t.Fatalf("voxsaw %v: exit code %d, want %d\n%s%s", args, got, code, out.String(), messages.String())
	}
	return out.String(), messages.String()
}

// Type carries out a command without quotes, which must succeed.
func Type(t *testing.T, line string) {
	t.Helper()
	Run(t, 0, strings.Fields(line)...)
}

// Must ends the test where there is an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

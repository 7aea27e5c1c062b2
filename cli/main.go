// Package cli is the command line of voxsaw: a program that calls [Main] is the command, and knows
// what else the program has registered, such as a network. examples/command is one.
//
// Each verb has a file of its own, which binds flags to a configuration and calls the package that
// does the work; start at [newRoot]. Results go to standard output, progress and messages to
// standard error.
//
// Exit codes: 0 success; 1 failure; 2 the command line or a configuration file is wrong; 130
// interrupted (what can be resumed has been saved).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// Main runs the command line of the process, and ends the process with the exit code.
func Main() {
	memory.BoundGarbage()
	os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs a command line, whose first word is a verb, and returns the exit code. Results are
// written to the first writer, all else to the second.
func Run(args []string, toOut, toErr io.Writer) int {
	stdout, stderr := terminal.NewScreen(toOut), terminal.NewScreen(toErr)
	defer stdout.Close()
	defer stderr.Close()
	j := newJob(stderr)
	ctx, stop := interruptible(context.WithValue(context.Background(), jobKey{}, j), stderr, j)
	defer stop()

	line := forPhotos(args)
	root := rootOf(append(slices.Clone(line), "")[0])
	if len(line) > len(args) && line[1] == args[0] {
		root.Annotations = map[string]string{withoutGroup: "yes"}
	}
	root.SetArgs(line)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return j.end(ctx, root.ExecuteContext(ctx))
}

// complaint is an error in words for the user, and a hint what to do. It does not say that the
// reader of the results has closed the pipe.
func complaint(err error) (text, advice string) {
	left := withoutPipe(err)
	if left == nil {
		return "", ""
	}
	var hinted interface{ Advice() string }
	if errors.As(err, &hinted) {
		advice = hinted.Advice()
	}
	return message(left), advice
}

// withoutPipe is what else went wrong than that the reader of the results has closed the pipe.
func withoutPipe(err error) error {
	if err == nil || !errors.Is(err, syscall.EPIPE) {
		return err
	}
	var left []error
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			left = append(left, withoutPipe(one))
		}
	case interface{ Unwrap() error }:
		left = append(left, withoutPipe(e.Unwrap()))
	}
	return errors.Join(left...)
}

// complain writes a complaint.
func complain(w io.Writer, text, hint string) {
	if text == "" {
		return
	}
	say(w, "voxsaw: %s", lines(text))
	if hint != "" {
		say(w, "hint: %s", hint)
	}
}

// message is an error's text for a user. Ctrl-C is "interrupted" there, and names of system calls
// are left out.
func message(err error) string {
	return strings.ReplaceAll(safetext.Error(err), context.Canceled.Error(), "interrupted")
}

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, new(*config.Mistake)):
		return exitUsage
	}
	return exitFailure
}

// usageError is a mistake on the command line or in a configuration file.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// withHint is an error that says what to run instead.
var withHint = hint.Addf

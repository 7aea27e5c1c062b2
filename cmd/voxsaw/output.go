package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/plain"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// writeFile writes a result whole or not at all, and makes the folder that it goes into.
func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, write)
}

// say writes a line, or several, for people. Names from files are in it.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, plain.Lines(fmt.Sprintf(format, args...)))
}

// sayNotes writes notes, the first of very many: a person reads no more. all is the command that
// shows the others.
func sayNotes(w io.Writer, notes []string, all string) {
	const most = 40
	for _, note := range notes[:min(len(notes), most)] {
		say(w, "%s", note)
	}
	if more := len(notes) - most; more > 0 {
		say(w, "and %d more such lines: %s shows all", more, all)
	}
}

// shown is a path as it is written to w: as it is, for programs, and for people without what they
// cannot see.
func shown(w io.Writer, path string) string {
	if terminal.IsTerminal(w) {
		return plain.Text(path)
	}
	return path
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

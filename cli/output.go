package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// writeFile writes a result whole or not at all, and makes the folder that it goes into.
func writeFile(path string, write func(io.Writer) error) error {
	return place(path, func() error { return atomicfile.Write(path, write) })
}

// place makes ready for a file, which write then writes: there is the folder that it goes into, and
// nothing there that a killed process has left of it.
func place(path string, write func() error) error {
	release, err := atomicfile.Enter(filepath.Dir(path), func(name string) bool { return name == filepath.Base(path) })
	if err != nil {
		return err
	}
	defer release()
	return write()
}

// readWritten reads a table that the program has written, perhaps, and compares it with the digest
// that was written with it.
func readWritten(path string) ([]byte, error) {
	if err := atomicfile.CompareFiles(path); err != nil {
		return nil, err
	}
	return smallfile.ReadGiven(path, smallfile.Table)
}

// say writes a line, or several, for people. A text that it is given may hold names from files: a
// line end in it is shown as an escape, unless an indented line follows; [lines] keep theirs. What
// else cannot be seen the screen escapes.
func say(w io.Writer, format string, args ...any) {
	for n, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[n] = safetext.Indented(arg)
		case error:
			args[n] = lines(safetext.Error(arg))
		case fmt.Stringer:
			if text := arg.String(); strings.Contains(text, "\n") {
				args[n] = safetext.Indented(text)
			}
		}
	}
	fmt.Fprintln(w, safetext.Lines(fmt.Sprintf(format, args...)))
}

// lines are a text of several lines.
type lines string

// sayNotes writes notes, the first of very many: a person reads no more. all is the command that
// shows the others.
func sayNotes(w io.Writer, notes []string, all string) {
	const most = 40
	notes = once(notes)
	for _, note := range notes[:min(len(notes), most)] {
		say(w, "%s", note)
	}
	if more := len(notes) - most; more > 0 {
		say(w, "and %s: %s shows all", numbers.Count(more, "more such line"), all)
	}
}

// once says what many notes end in, such as an advice, once and with their number. Of notes that
// are then no more than a path, the first few paths stand before it; others keep their lines.
func once(notes []string) (lines []string) {
	rest, of, endings := safetext.Once(notes)
	paths, told := make([][]string, len(endings)), make([]int, len(endings))
	first := make([]int, len(endings)) // the line of the paths
	for n, text := range rest {
		e := of[n]
		switch {
		case e < 0:
			lines = append(lines, text)
		case strings.Contains(text, ": "):
			lines, told[e] = append(lines, text), told[e]+1
		default:
			if paths[e] == nil {
				first[e], lines = len(lines), append(lines, "")
			}
			paths[e] = append(paths[e], text)
		}
	}
	for e, ending := range endings {
		if paths[e] != nil {
			lines[first[e]] = fmt.Sprintf("%s: %s", safetext.List(paths[e]), ending.Text)
			// whole notes that are the same
			if slices.Equal(paths[e], make([]string, len(paths[e]))) {
				lines[first[e]] = fmt.Sprintf("%s (%d times)", ending.Text, len(paths[e]))
			}
		}
		if told[e] > 0 {
			lines = append(lines, fmt.Sprintf("%d of these: %s", told[e], ending.Text))
		}
	}
	return lines
}

// printJSON prints a value for a program, as [safetext.Encode] writes it.
func printJSON(w io.Writer, v any) error { return encodeJSON(w, v, "  ") }

// printJSONLine is printJSON on one line.
func printJSONLine(w io.Writer, v any) error { return encodeJSON(w, v, "") }

func encodeJSON(w io.Writer, v any, indent string) error {
	text, err := safetext.Encode(v, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

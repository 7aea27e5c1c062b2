package safetext

import (
	"io/fs"
	"strings"
)

// Error shows an error. A name in it may have line ends: only those of joined errors stay, and
// those before an indented line.
func Error(err error) string {
	text := err.Error()
	switch e := err.(type) {
	case *fs.PathError:
		return Text(e.Path) + ": " + Error(e.Err)
	case interface{ Unwrap() error }:
		return around(text, []error{e.Unwrap()})
	case interface{ Unwrap() []error }:
		return around(text, e.Unwrap())
	}
	return Indented(text)
}

// around is the text of an error that wraps others.
func around(text string, wrapped []error) string {
	out := ""
	for _, err := range wrapped {
		if err == nil || err.Error() == "" {
			continue
		}
		before, after, found := strings.Cut(text, err.Error())
		if !found {
			continue
		}
		if before != "\n" {
			before = Indented(before)
		}
		out, text = out+before+Error(err), after
	}
	return out + Indented(text)
}

// Indented shows the line ends of a text as escapes, but for those before an indented line.
func Indented(text string) string {
	lines := strings.Split(text, "\n")
	out := lines[0]
	for n, line := range lines[1:] {
		if last := n == len(lines)-2; strings.HasPrefix(line, "  ") || last && line == "" {
			out += "\n" + line
		} else {
			out += `\n` + line
		}
	}
	return out
}

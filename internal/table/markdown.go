package table

import (
	"io"
	"strings"
)

// Markdown writes the table in GitHub's notation, its title as a bold line and its notes below.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("**" + t.Title + "**\n\n")
	}
	header, rows := t.Text()
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ") + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	for n := range header {
		if t.Numeric(n) {
			b.WriteString("|--:")
		} else {
			b.WriteString("|---")
		}
	}
	b.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	for _, n := range t.Notes {
		b.WriteString("\n" + n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

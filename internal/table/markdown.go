package table

import (
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// Markdown writes the table in GitHub's notation, its title as a bold line and its notes below.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("**" + EscapeMarkdown(t.Title) + "**\n\n")
	}
	header, rows := t.Text()
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + EscapeMarkdown(c) + " ")
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
		b.WriteString("\n" + EscapeMarkdown(n) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markup matches what means something to Markdown within a line: marks of emphasis, code, links,
// tables and formulas; a character that begins an HTML tag or an entity; and what GitHub turns into
// a link.
var markup = regexp.MustCompile("[\\\\`*~$|\\[\\]]|<[A-Za-z/!?]|&[#A-Za-z]|://|\\bwww\\.|@")

// EscapeMarkdown writes text that came from somewhere else so that a Markdown page shows it as it
// is, within a line or a cell of a table.
func EscapeMarkdown(s string) string {
	s = markup.ReplaceAllStringFunc(safetext.Text(s), func(m string) string {
		if m == "www." {
			return `www\.`
		}
		return `\` + m
	})
	var b strings.Builder
	runes := []rune(s)
	for n, r := range runes {
		if r == '_' && !(n > 0 && isWord(runes[n-1]) && n+1 < len(runes) && isWord(runes[n+1])) {
			b.WriteByte('\\') // an underscore within a word, as in pt_001, means nothing
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

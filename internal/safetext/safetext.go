// Package safetext makes text that came from files safe to show. Names of cases, labels and
// series are chosen by whoever wrote the file: they may hold control characters that drive a
// terminal, marks that reverse the direction of the text around them, or bytes that are no text
// at all.
//
// Start at [Text], [Lines] and [List], which are for people: what cannot be seen is written as an
// escape. [Quote] and [Unquote] are for files that are read back, and [Encode] is for JSON. [Name]
// and [Pack] make UTF-8 of names and paths that are not. The package knows of no markup; escaping
// that is up to who writes it.
package safetext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text shows a line of text: control characters (a new line and a tab are such), marks of direction
// and other characters that leave no trace become escapes such as \x1b and \u202e, and bytes that
// are not UTF-8 become \xff.
func Text(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	return escape(s, false)
}

// Lines is Text for text of several lines: line ends and tabs stay.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for n, line := range lines {
		cells := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for m, cell := range cells {
			cells[m] = Text(cell)
		}
		lines[n] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// List shows names: the first few of many, with the number of the others.
func List(names []string) string {
	const most = 8
	rest := ""
	if len(names) > most+1 {
		rest = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	shown := make([]string, len(names))
	for n, name := range names {
		shown[n] = Text(name)
	}
	return strings.Join(shown, ", ") + rest
}

// Numbers lists numbers, such as labels, as [List] does names; none where there are none.
func Numbers[T ~uint16 | ~int](numbers []T) string {
	if len(numbers) == 0 {
		return "none"
	}
	texts := make([]string, len(numbers))
	for n, number := range numbers {
		texts[n] = strconv.Itoa(int(number))
	}
	return List(texts)
}

// Quote is like [Text], but also doubles backslashes, so that [Unquote] gives back the very text.
func Quote(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) && !strings.Contains(s, `\`) {
		return s
	}
	return escape(s, true)
}

// Unquote reverses [Quote]. Text that Quote cannot have written comes back as it is.
func Unquote(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		if rest[0] != '\\' {
			next := strings.IndexByte(rest, '\\')
			if next < 0 {
				next = len(rest)
			}
			b.WriteString(rest[:next])
			rest = rest[next:]
			continue
		}
		r, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return s
		}
		if multibyte {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		rest = tail
	}
	return b.String()
}

// Name makes UTF-8 of a name: a byte that is not part of one becomes its two hexadecimal digits
// after a percent sign, as in Gr%F6sse. Names of cases and labels pass it where they enter, since
// what holds them (JSON, YAML) must be UTF-8.
func Name(s string) string {
	return eachByte(s, func(b *strings.Builder, c byte) { fmt.Fprintf(b, "%%%02X", c) })
}

// firstPacked is the first of the 256 characters for private use that stand for bytes in [Pack].
const firstPacked = 0x10FE00

// Pack makes UTF-8 of any text, such as a path, so that [Unpack] gives back the very bytes. Text
// that is UTF-8 stays as it is, but for characters that nobody uses.
func Pack(s string) string {
	write := func(b *strings.Builder, c byte) { b.WriteRune(firstPacked + rune(c)) }
	if !strings.ContainsFunc(s, isPacked) {
		return eachByte(s, write)
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 || isPacked(r) {
			for _, c := range []byte(rest[:size]) {
				write(&b, c)
			}
		} else {
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

// Unpack reverses [Pack].
func Unpack(s string) string {
	if !strings.ContainsFunc(s, isPacked) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isPacked(r) {
			b.WriteByte(byte(r - firstPacked))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isPacked(r rune) bool { return r >= firstPacked && r < firstPacked+256 }

// eachByte copies a text, and has each byte that is not UTF-8 written in another way.
func eachByte(s string, write func(*strings.Builder, byte)) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			write(&b, rest[0])
		} else {
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

// hidden tells the characters that people cannot see. Spaces can be seen, and two characters of
// format belong to words: the zero-width joiner and non-joiner of Persian and Indic scripts.
func hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != nonJoiner && r != joiner
}

func escape(s string, backslashes bool) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(0x100|uint64(rest[0]), 16)[1:])
		case r == '\\' && backslashes:
			b.WriteString(`\\`)
		case hidden(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

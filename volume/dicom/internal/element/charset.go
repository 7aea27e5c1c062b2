package element

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// This file decodes texts by SpecificCharacterSet, with code extensions: PS3.3, C.12.1.1.2, and
// PS3.5, 6.1.2. It reads what pydicom reads.

// A repertoire is a set of characters: it decodes the bytes between two escape sequences.
type repertoire func(string) string

// repertoires are those of the defined terms, by the number in ISO's register; the terms "ISO_IR n"
// and "ISO 2022 IR n" mean the same characters.
var repertoires = map[string]repertoire{
	"6":   of(charmap.ISO8859_1), // ASCII; what else is there is most often Latin-1
	"13":  halfWidth,
	"58":  chinese,
	"87":  twoBytes("\x1b$B", jis0208),
	"100": of(charmap.ISO8859_1),
	"101": of(charmap.ISO8859_2),
	"109": of(charmap.ISO8859_3),
	"110": of(charmap.ISO8859_4),
	"126": of(charmap.ISO8859_7),
	"127": of(charmap.ISO8859_6),
	"138": of(charmap.ISO8859_8),
	"144": of(charmap.ISO8859_5),
	"148": of(charmap.ISO8859_9),
	"149": of(korean.EUCKR),
	"159": twoBytes("\x1b$(D", jis0212),
	"166": thai,
	"192": func(s string) string { return strings.ToValidUTF8(s, "\ufffd") },
	"203": of(charmap.ISO8859_15),
}

// alone are the terms of sets that allow no code extensions.
var alone = map[string]repertoire{
	"ISO_IR 192": repertoires["192"], "GB18030": of(simplifiedchinese.GB18030), "GBK": of(simplifiedchinese.GBK),
}

// corrections are further terms, of corrections of the standard.
var corrections = map[string]repertoire{
	"ISO 2022 GBK": of(simplifiedchinese.GBK), "ISO 2022 58": chinese,
}

// escapes are the sequences behind an escape character that say which set follows, by the set's
// number.
var escapes = map[string]string{
	"(B": "6", ")I": "13", "(J": "13", "$)A": "58", "$B": "87", "-A": "100", "-B": "101", "-C": "109", "-D": "110",
	"-F": "126",
	"-G": "127", "-H": "138", "-L": "144", "-M": "148", "$)C": "149", "$(D": "159", "-T": "166", "-b": "203",
}

// term is a defined term, or one as people misspell it: ISO-IR 100, ISO_2022_IR_100.
var term = regexp.MustCompile(`^ISO.(2022.)?IR.(\d+)$`)

// of is the repertoire of an encoding; what is not in it becomes U+FFFD.
func of(e encoding.Encoding) repertoire {
	return func(s string) string {
		decoded, err := e.NewDecoder().String(s)
		if err != nil {
			return strings.Repeat("\ufffd", len(s))
		}
		return decoded
	}
}

// halfWidth is JIS X 0201: ASCII and katakana of half a character's width.
func halfWidth(s string) string { return of(japanese.ShiftJIS)(s) }

// thai is TIS 620. Its encoding here is that of Windows, which adds characters.
func thai(s string) string {
	var b strings.Builder
	for n := range len(s) {
		if c := s[n]; c > 0x7f && c < 0xa1 {
			b.WriteRune(utf8.RuneError)
		} else {
			b.WriteRune(charmap.Windows874.DecodeByte(c))
		}
	}
	return b.String()
}

// chinese is GB 2312. Its encoding here is that of GBK, which has other characters in two places.
func chinese(s string) string {
	return strings.NewReplacer("\u00b7", "\u30fb", "\u2014", "\u2015").Replace(of(simplifiedchinese.GBK)(s))
}

// The characters of JIS X 0208 and 0212 that their encoding here, which is that of the web, has
// otherwise.
var (
	jis0208 = strings.NewReplacer("\uff5e", "\u301c", "\u2225", "\u2016", "\uff0d", "\u2212",
		"\uffe0", "\u00a2", "\uffe1", "\u00a3", "\uffe2", "\u00ac")
	jis0212 = strings.NewReplacer("\uff5e", "~")
)

// twoBytes is a Japanese set of two bytes a character, after its escape sequence. Without one, text
// of such a set is ASCII.
func twoBytes(escape string, others *strings.Replacer) repertoire {
	decode := of(japanese.ISO2022JP)
	return func(s string) string {
		if !strings.HasPrefix(s, escape) {
			return decode(s)
		}
		return others.Replace(decode(s))
	}
}

// Charset returns the function that decodes texts, from the value of SpecificCharacterSet. What is
// odd about the set, or about a text in it, goes to doubt, without the text.
func (w *Walker) Charset(e Element, doubt func(string)) (decode func(string) string, err error) {
	text, err := w.Text(e)
	if err != nil {
		return nil, err
	}
	return decoder(text, doubt), nil
}

// Undeclared decodes texts of a file without SpecificCharacterSet.
func Undeclared(doubt func(string)) func(string) string { return decoder("", doubt) }

// decoder decodes by a value of SpecificCharacterSet.
func decoder(value string, doubt func(string)) func(string) string {
	terms := strings.Split(value, `\`)
	for n := range terms {
		terms[n] = strings.Trim(terms[n], " \x00")
	}
	unknown := ""
	for _, t := range terms {
		if lookUp(t) == nil && unknown == "" {
			unknown = fmt.Sprintf("SpecificCharacterSet %q is not known", CodeString(t))
		}
	}
	first := lookUp(terms[0])
	if m := term.FindStringSubmatch(terms[0]); first == nil || terms[0] == "" || m != nil && m[2] == "6" {
		first = func(s string) string { return beyondASCII(s, doubt) }
	}
	return func(s string) string {
		if isASCII(s) && !strings.Contains(s, "\x1b") {
			return s
		}
		if unknown != "" {
			doubt(unknown + ": names may be wrong")
		}
		if alone[terms[0]] != nil {
			s = first(s)
		} else {
			s = decodePieces(s, first, doubt)
		}
		if strings.ContainsRune(s, utf8.RuneError) {
			doubt("a name has characters that are not in the SpecificCharacterSet that the file says")
		}
		return s
	}
}

// lookUp finds the set of a term; nil for one that is not known.
func lookUp(t string) repertoire {
	m := term.FindStringSubmatch(t)
	switch {
	case t == "":
		return repertoires["6"]
	case alone[t] != nil:
		return alone[t]
	case corrections[t] != nil:
		return corrections[t]
	case m != nil:
		return repertoires[m[2]]
	}
	if e, err := htmlindex.Get(t); err == nil { // from programs that know no DICOM: utf-8, cp1252
		return of(e)
	}
	return nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// beyondASCII decodes a text of a file that says ASCII, or nothing that is known. What is UTF-8 is
// that: nearly no text in another set is. All else is Latin-1, as pydicom has it.
func beyondASCII(s string, doubt func(string)) string {
	switch {
	case isASCII(s):
		return s
	case utf8.ValidString(s):
		doubt("names are UTF-8, which SpecificCharacterSet does not say")
		return s
	}
	doubt("names have characters beyond ASCII, and SpecificCharacterSet does not say which: read as Latin-1")
	return repertoires["6"](s)
}

// decodePieces decodes a text with code extensions: an escape sequence says the set of what
// follows, up to the next one or to a delimiter, behind which the first set counts again.
func decodePieces(s string, first repertoire, doubt func(string)) string {
	var b strings.Builder
	for n, piece := range strings.Split(s, "\x1b") {
		if n == 0 {
			b.WriteString(first(piece))
			continue
		}
		length := 2
		if strings.HasPrefix(piece, "$(") || strings.HasPrefix(piece, "$)") {
			length = 3
		}
		length = min(length, len(piece))
		number, known := escapes[piece[:length]]
		if !known {
			doubt("a name has an escape sequence that is not known")
			b.WriteString("\x1b" + first(piece))
			continue
		}
		set, escape, delimiters := repertoires[number], "", "\\\t\n\f\r"
		if number == "87" || number == "159" { // whose bytes are those of ASCII, too
			escape, delimiters = "\x1b"+piece[:length], "\t\n\f\r"
		}
		inside, behind := piece[length:], ""
		if end := strings.IndexAny(inside, delimiters); end >= 0 {
			inside, behind = inside[:end], inside[end:]
		}
		b.WriteString(set(escape+inside) + first(behind))
	}
	return b.String()
}

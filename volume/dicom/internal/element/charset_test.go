package element

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every defined term of SpecificCharacterSet is read as pydicom reads it.
func TestCharacterSetsAgreeWithPydicom(t *testing.T) {
	var cases []struct{ Terms, Bytes, Text string }
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "dicom_charsets.json"))
	if err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil || len(cases) < 100 {
		t.Fatal(err, len(cases))
	}
	for _, c := range cases {
		value, err := hex.DecodeString(c.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var doubts []string
		got := decoder(c.Terms, func(text string) { doubts = append(doubts, text) })(string(value))
		if got != c.Text {
			a, b := []rune(got), []rune(c.Text)
			n := 0
			for n < min(len(a), len(b)) && a[n] == b[n] {
				n++
			}
			t.Errorf("%q, %x: from character %d on %.20q, pydicom has %.20q", c.Terms, value, n, string(a[n:]),
				string(b[n:]))
		}
		// what a term covers is no reason for a doubt
		said := strings.Trim(c.Terms, `\`) != "" && c.Terms != "ISO_IR 6" && c.Terms != "ISO 2022 IR 6" &&
			c.Terms != "ISO_IR 999"
		if said && len(doubts) > 0 {
			t.Errorf("%q, %x: %q", c.Terms, value, doubts)
		}
	}
}

// A set that is not known, or not said, is named, and so are characters that it does not have;
// nothing is said of ASCII.
func TestDoubtsAboutCharacterSets(t *testing.T) {
	for _, c := range []struct{ terms, bytes, text, doubt string }{
		{"ISO_IR 999", "liver", "liver", ""},
		{"ISO_IR 999", "Gr\xf6\xdfe", "Größe", `SpecificCharacterSet "ISO_IR 999" is not known: names may be wrong`},
		{`ISO 2022 IR 100\ISO 2022 IR 999`, "Gr\xf6\xdfe", "Größe",
			`SpecificCharacterSet "ISO 2022 IR 999" is not known`},
		{"Nobody^Made", "Gr\xf6\xdfe", "Größe", `SpecificCharacterSet "other" is not known`},
		{"", "Gr\xf6\xdfe", "Größe", "read as Latin-1"},
		{"", "Größe", "Größe", "names are UTF-8"},
		{"ISO_IR 6", "печень", "печень", "names are UTF-8"},
		{"ISO_IR 192", "a\xf6b", "a\ufffdb", "characters that are not in the SpecificCharacterSet"},
		{"ISO_IR 166", "\x80", "\ufffd", "characters that are not in the SpecificCharacterSet"},
		{"ISO 2022 IR 100", "a\x1b$zb", "a\x1b$zb", "an escape sequence that is not known"},
		{"ISO 2022 IR 100", "a\x1b", "a\x1b", "an escape sequence that is not known"},
		{"utf-8", "печень", "печень", ""},
		{"cp1252", "\x80", "€", ""},
		{"ISO_IR 203", "\xa4", "€", ""},
		{"ISO_2022_IR_144", "\xdf", "п", ""},
		{" ISO_IR 144 ", "\xdf", "п", ""},
	} {
		var doubts []string
		got := decoder(c.terms, func(text string) { doubts = append(doubts, text) })(c.bytes)
		if got != c.text {
			t.Errorf("%s, %q: %q, want %q", c.terms, c.bytes, got, c.text)
		}
		if all := strings.Join(doubts, "; "); (c.doubt == "") != (all == "") || !strings.Contains(all, c.doubt) {
			t.Errorf("%s, %q: doubts %q, want %q", c.terms, c.bytes, all, c.doubt)
		}
	}
}

// Whatever the set and the bytes, decoding ends.
func FuzzCharset(f *testing.F) {
	f.Add(`ISO 2022 IR 13\ISO 2022 IR 87`, "\xd4\x1b$B4N\x1b(J")
	f.Add("ISO_IR 192", "\xff")
	f.Fuzz(func(t *testing.T, terms, text string) {
		if got := Printable(decoder(terms, func(string) {})(text)); len(got) > 3*len(text)*4 {
			t.Errorf("%q, %q: %q", terms, text, got)
		}
	})
}

package safetext

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"case_01 – Leber, links": "case_01 – Leber, links",
		"肝臓 كبد":                 "肝臓 كبد",
		"می\u200cخواهم":          "می\u200cخواهم",
		"a\u00a0b":               "a\u00a0b",
		`C:\scans`:               `C:\scans`,
		"red\x1b[31m":            `red\x1b[31m`,
		"two\nlines\t":           `two\nlines\t`,
		"gpj.\u202egnp":          `gpj.\u202egnp`,
		"zero\u200bwidth\ufeff":  `zero\u200bwidth\ufeff`,
		"Gr\xf6sse":              `Gr\xf6sse`,
		"\u0085":                 `\u0085`,
		"tag\U000e0041":          `tag\U000e0041`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	if got, want := Lines("a:\tb\r\n  c\x1b\n"), "a:\tb\n  c\\x1b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a program reads is the same, and has nothing that a person cannot see.
func TestJSON(t *testing.T) {
	for _, name := range []string{"case_01", "肝臓 كبد", "red\x1b[31m", "gpj.\u202egnp", "\x7f\u0085\u009b31m",
		"tag\U000e0041", `back\slash "quoted"`, "a\tb\n"} {
		shown, err := Encode(map[string]string{name: name}, "\t")
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if err := json.Unmarshal(shown, &back); err != nil || back[name] != name {
			t.Errorf("%q: read back as %q (%v)", name, back, err)
		}
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(string(shown)), hidden) {
			t.Errorf("%q: %q shows it raw", name, shown)
		}
	}
	if got, err := Encode("\U000e0041", ""); err != nil || string(got) != `"\udb40\udc41"`+"\n" {
		t.Errorf("got %s, %v", got, err)
	}
}

// What Python 3.13 makes of the same paths: json.dumps(os.fsdecode(b"...")).
func TestBytesInJSON(t *testing.T) {
	type file struct {
		Path  string `json:"path"`
		Names map[string][]any
		own   string
	}
	latin, private := "Gr\xf6\xdfe", "\U0010FE41"
	for _, c := range []struct {
		v    any
		want string
	}{
		{latin, `"Gr\udcf6\udcdfe"`},
		{private, `"\udbff\ude41"`},
		{"\ufffd", "\"\ufffd\""},
		{[]any{latin, private}, `["Gr\udcf6\udcdfe","\udcf4\udc8f\udcb9\udc81"]`},
		{&file{latin, map[string][]any{"a\xff": {1, nil, &latin}}, latin},
			`{"path":"Gr\udcf6\udcdfe","Names":{"a\udcff":[1,null,"Gr\udcf6\udcdfe"]}}`},
		{map[string]error{"\xff": nil}, `{"\udcff":null}`},
	} {
		if got, err := Encode(c.v, ""); err != nil || string(got) != c.want+"\n" {
			t.Errorf("%q: got %s (%v), want %s", c.v, got, err, c.want)
		}
	}
	if latin != "Gr\xf6\xdfe" {
		t.Error("the value itself was changed")
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", `\`, `\x1b`, "\x1b\\", "\xff", "\u202e", "'", `\'`, `"`, "é\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := Quote(s)
		if back := Unquote(q); back != s {
			t.Errorf("%q: quoted %q, back %q", s, q, back)
		}
		if !utf8.ValidString(q) || strings.ContainsFunc(q, hidden) {
			t.Errorf("%q: quoted %q", s, q)
		}
		Unquote(s)
	})
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{"Gr\xf6sse": "Gr%F6sse", "Größe 肝臓": "Größe 肝臓", "\xff\xfe%": "%FF%FE%",
		"": ""} {
		if got := Name(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzPack(f *testing.F) {
	for _, s := range []string{"", "/data/w\xf6rk", "Größe 肝臓", "\U0010fef6", "\xf6\U0010fe00\xff", "\xf4\x8f\xb8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Pack(s)
		if back := Unpack(p); back != s || !utf8.ValidString(p) {
			t.Errorf("%q: packed %q, back %q", s, p, back)
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, isPacked) && p != s {
			t.Errorf("%q: packed %q", s, p)
		}
	})
}

func TestListIsShort(t *testing.T) {
	var names []string
	for n := range 80 {
		names = append(names, fmt.Sprintf("case_%02d\x1b", n))
	}
	if got := List(names); got != `case_00\x1b, case_01\x1b, case_02\x1b, case_03\x1b, case_04\x1b, case_05\x1b, case_06\x1b, case_07\x1b and 72 more` {
		t.Error(got)
	}
	if got := List(names[:9]); strings.Contains(got, "more") { // not: and 1 more
		t.Error(got)
	}
}

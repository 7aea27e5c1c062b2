package config

import (
	"runtime"
	"strings"
	"testing"
)

// Texts that are short, and nested absurdly, cost nothing to refuse.
func TestAbsurdDepth(t *testing.T) {
	const n = 50_000
	for name, text := range map[string]string{
		"brackets":               "steps: " + strings.Repeat("[", n) + strings.Repeat("]", n),
		"brackets never closed":  "steps: " + strings.Repeat("[", n),
		"brackets, line by line": "steps:\n  " + strings.Repeat("[\n  ", n),
		"braces":                 "steps: " + strings.Repeat("{a: ", n),
		"dashes":                 strings.Repeat("- ", n) + "a",
		"dashes and questions":   "steps:\n  " + strings.Repeat("- ? ", n) + "a",
		"behind quotes":          `a: "it's \"[" ` + "\nb: '[' \n" + strings.Repeat("c: [\n", n),
		"long":                   "steps: " + strings.Repeat("x", maxSize),
		"blank lines":            "steps: |\n " + strings.Repeat("\n", n),
		"blank lines of blanks":  "steps: >\n " + strings.Repeat(" \n", n),
		"blank lines of Macs":    "steps: |\n " + strings.Repeat("\r", n),
	} {
		data := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v any
		_, errParse := document("deep.yaml", data)
		errUnmarshal := Unmarshal("deep.yaml", data, &v)
		runtime.ReadMemStats(&after)
		for _, err := range []error{errParse, errUnmarshal} {
			if err == nil || !strings.Contains(err.Error(), "deep.yaml") ||
				!strings.Contains(err.Error(), "not a config file") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d bytes were allocated to refuse it", name, took)
		}
	}
}

// What people and the program write is not refused.
func TestUsualDepth(t *testing.T) {
	names := "cases: [" + strings.Repeat("'case [1', \"b{\", it's, ", 10_000) + "z]\n"
	for _, text := range []string{
		names,
		strings.Repeat("# see [1 and {2\n", 1000) + "a: 1 # and [3\n",
		"window: [-125, 275]\nlist:\n" + strings.Repeat("  - [1, [2, {a: 3}]]\n", 1000),
		"list:\n" + strings.Repeat("- - 1\n  - 2\n", 1000),
		"text: a - b - c - d\n",
		strings.Repeat("a: 1\r\n\r\n", 1000),
	} {
		if err := checkSize("file", []byte(text)); err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// Ten lines of aliases can stand for ten thousand million values.
func TestAliasesAreNotExpanded(t *testing.T) {
	text := "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for c := 'b'; c < 'k'; c++ {
		previous := string(c - 1)
		text += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+previous+", ", 10), ", ") +
			"]\n"
	}
	var v any
	if err := Unmarshal("bomb.yaml", []byte(text), &v); err == nil ||
		!strings.Contains(err.Error(), "bomb.yaml: aliases are not supported") {
		t.Errorf("got %v", err)
	}
}

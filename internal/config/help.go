package config

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"
)

// The help of public types' fields is what their comments say: scripts/help writes it here, because
// programs keep no comments.
//
//go:generate go run -C ../.. ./scripts/help
//go:embed help.txt
var helpTexts string

var helpTable = sync.OnceValue(func() map[string]string {
	table := map[string]string{}
	for line := range strings.Lines(helpTexts) {
		field, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		table[field] = text
	}
	return table
})

// helpOf is what a setting is for: its tag help, else its comment.
func helpOf(t reflect.Type, f reflect.StructField) string {
	switch text := f.Tag.Get("help"); text {
	case "":
	case "-":
		return ""
	default:
		return text
	}
	return helpTable()[t.PkgPath()+"."+t.Name()+"."+f.Name]
}

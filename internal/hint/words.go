package hint

import (
	"runtime"
	"strings"
)

// Word is a word of a command that is suggested, such as a path, as a shell reads it: in quotes
// where it has to be, which on Windows are double ones.
func Word(word string) string { return quoted(word, runtime.GOOS == "windows") }

func quoted(word string, windows bool) string {
	if windows {
		if word != "" && !strings.ContainsAny(word, " &()^;,!%'`$@{}~[]#") {
			return word
		}
		return `"` + word + `"` // which no file's name holds there
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./,=:+@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Words are several of them, with spaces between.
func Words(words ...string) string { return joined(words, Word) }

// ShellWord is a word in a script for a POSIX shell, on whatever machine that is written.
func ShellWord(word string) string { return quoted(word, false) }

// ShellWords are several of them, with spaces between.
func ShellWords(words ...string) string { return joined(words, ShellWord) }

func joined(words []string, quoted func(string) string) string {
	all := make([]string, len(words))
	for n, w := range words {
		all[n] = quoted(w)
	}
	return strings.Join(all, " ")
}

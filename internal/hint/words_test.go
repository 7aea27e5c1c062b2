package hint

import (
	"os/exec"
	"runtime"
	"testing"
)

func TestWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-1.5,c=%": "a/b-1.5,c=%", "": "''", "it's mine": `'it'\''s mine'`} {
		if got := quoted(word, false); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
	for word, want := range map[string]string{`C:\data\x.nii`: `C:\data\x.nii`, `C:\my data`: `"C:\my data"`, "": `""`} {
		if got := quoted(word, true); got != want {
			t.Errorf("on Windows %q: %s, want %s", word, got, want)
		}
	}
}

// A shell reads the words that were meant.
func TestWords(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these quotes are a shell's")
	}
	line := Words("two words", "$HOME `id`", "it's", "", "*", "line\nbreak", "plain/path-1.5", "~")
	got, err := exec.Command("sh", "-c", "printf '%s|' "+line).Output()
	if want := "two words|$HOME `id`|it's||*|line\nbreak|plain/path-1.5|~|"; err != nil || string(got) != want {
		t.Errorf("%s is read as %q, %v, want %q", line, got, err, want)
	}
}

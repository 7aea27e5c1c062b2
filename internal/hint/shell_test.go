//go:build !windows

package hint

import (
	"os/exec"
	"testing"
)

// A shell reads the words that were meant.
func TestWords(t *testing.T) {
	line := Words("two words", "$HOME `id`", "it's", "", "*", "line\nbreak", "plain/path-1.5", "~")
	got, err := exec.Command("sh", "-c", "printf '%s|' "+line).Output()
	if want := "two words|$HOME `id`|it's||*|line\nbreak|plain/path-1.5|~|"; err != nil || string(got) != want {
		t.Errorf("%s is read as %q, %v, want %q", line, got, err, want)
	}
}

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestLineEndsInMessages(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "a\nb", Err: fs.ErrNotExist}
	for want, err := range map[string]error{
		`a\nb: file does not exist`:                          path,
		`reading: a\nb: file does not exist`:                 fmt.Errorf("reading: %w", path),
		"x: one\n" + `a\nb: file does not exist`:             fmt.Errorf("x: %w", errors.Join(errors.New("one"), path)),
		`scan a\nb is empty`:                                 fmt.Errorf("scan %s is empty", "a\nb"),
		"2 cases:\n  case_1: is empty\n  case_2: is no scan": errors.New("2 cases:\n  case_1: is empty\n  case_2: is no scan"),
		`of a\nb: both: one, two`: fmt.Errorf("of %s: both: %w, %w", "a\nb",
			errors.New("one"), errors.New("two")),
	} {
		if got := message(&usageError{err}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

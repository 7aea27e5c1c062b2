package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestLineEndsInMessages(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "a\nb", Err: fs.ErrNotExist}
	for want, err := range map[string]error{
		`a\nb: file does not exist`:              path,
		`reading: a\nb: file does not exist`:     fmt.Errorf("reading: %w", path),
		"x: one\n" + `a\nb: file does not exist`: fmt.Errorf("x: %w", errors.Join(errors.New("one"), path)),
		`scan a\nb is empty`:                     fmt.Errorf("scan %s is empty", "a\nb"),
		"2 cases:\n  case_1: is empty\n  case_2: is no scan": errors.New("2 cases:\n  case_1: " +
			"is empty\n  case_2: is no scan"),
		`of a\nb: both: one, two`: fmt.Errorf("of %s: both: %w, %w", "a\nb",
			errors.New("one"), errors.New("two")),
	} {
		if got := message(&usageError{err}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A closed pipe is not complained of, what else went wrong is.
func TestComplaintsBesideAPipe(t *testing.T) {
	pipe := fmt.Errorf("writing: %w", syscall.EPIPE)
	for _, c := range []struct {
		err          error
		text, advice string
	}{
		{pipe, "", ""},
		{errors.Join(pipe, pipe), "", ""},
		{errors.Join(pipe, errors.New("a scan is broken")), "a scan is broken", ""},
		{withHint(errors.Join(errors.New("a scan is broken"), pipe), "mend it"), "a scan is broken", "mend it"},
		{withHint(errors.New("a scan is broken"), "mend it"), "a scan is broken", "mend it"},
		{nil, "", ""},
	} {
		if text, advice := complaint(c.err); text != c.text || advice != c.advice {
			t.Errorf("%v: %q, %q, want %q, %q", c.err, text, advice, c.text, c.advice)
		}
	}
}

// Package hint is errors that say what to do.
//
// Start at [Addf]. The command line shows a hint on a line of its own, below the error.
package hint

import "fmt"

type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Advice says what to do.
func (e *hinted) Advice() string { return e.hint }

// Addf adds what to do to an error; nil stays nil.
func Addf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

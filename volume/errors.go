package volume

import "fmt"

// FormatError says that a file is damaged, truncated or contradicts itself: nothing in it can be
// trusted. Compare [UnsupportedError].
type FormatError struct {
	Path    string // of the file, as it was given
	Problem string
	Err     error // the cause, may be nil
}

func (e *FormatError) Error() string { return message(e.Path, e.Problem, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// UnsupportedError says that a file is (as far as it was looked at) correct, but holds what Voxsaw
// does not read: colours, complex numbers, several volumes where one is wanted, a compression that
// no library serves.
type UnsupportedError struct {
	Path    string // of the file, as it was given
	Problem string
	Err     error // the cause, may be nil
}

func (e *UnsupportedError) Error() string { return message(e.Path, e.Problem, e.Err) }
func (e *UnsupportedError) Unwrap() error { return e.Err }

func message(path, problem string, err error) string {
	s := problem
	if path != "" {
		s = path + ": " + s
	}
	if err != nil {
		s = fmt.Sprintf("%s: %v", s, err)
	}
	return s
}

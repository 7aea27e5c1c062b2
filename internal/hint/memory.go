package hint

import "errors"

// short is an error about memory.
type short struct{ error }

func (e short) Unwrap() error { return e.error }

// ShortOfMemory marks the error, as it does others that say that memory does not suffice.
func (e short) ShortOfMemory() {}

// ShortOfMemory marks an error as one about too little memory: the command line then names the
// flags by which less is taken. nil stays nil.
func ShortOfMemory(err error) error {
	if err == nil {
		return nil
	}
	return short{err}
}

// IsShortOfMemory says whether an error is about too little memory.
func IsShortOfMemory(err error) bool {
	var marked interface{ ShortOfMemory() }
	return errors.As(err, &marked)
}

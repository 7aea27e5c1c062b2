package config

// A Mistake is what is wrong with settings beside each other, or beside the data. Who knows the
// file that they are of says so.
type Mistake struct {
	Err  error
	From string // the file, where it is not the one that the user gave
}

func (m *Mistake) Error() string { return m.Err.Error() }

func (m *Mistake) Unwrap() error { return m.Err }

// Mistaken is an error as a [Mistake]; nil stays nil.
func Mistaken(err error) error {
	if err == nil {
		return nil
	}
	return &Mistake{Err: err}
}

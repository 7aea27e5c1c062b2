package experiment

import (
	"slices"
	"testing"
)

// TestRemarksSayWhomTheyAreAbout: a note that is not about all encoders of a table names them.
func TestRemarksSayWhomTheyAreAbout(t *testing.T) {
	var r remarks
	for _, x := range [][2]string{{"identical patches", "b"}, {"one round", "b"}, {"identical patches", "a"}, {"three rounds", "a"}, {"identical patches", "b"}, {"one round", "b"}} {
		r.add(x[0], x[1])
	}
	if got, want := r.of(3), []string{"identical patches", "b: one round", "a: three rounds"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

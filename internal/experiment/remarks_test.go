package experiment

import (
	"slices"
	"testing"
)

// TestRemarksSayWhomTheyAreAbout: a note that is not about all encoders of a table names them.
func TestRemarksSayWhomTheyAreAbout(t *testing.T) {
	var r remarks
	r.add("b", "b, fold 1", []string{"some patches are identical", "one round"})
	r.add("a", "a, fold 1", []string{"some patches are identical", "two rounds"})
	r.add("b", "b, fold 2", []string{"some patches are identical", "one round"})
	r.add("a", "a, fold 2", []string{"some patches are identical", "three rounds"})
	want := []string{"some patches are identical", "b: one round", "a, fold 1: two rounds", "a, fold 2: three rounds"}
	if got := r.notes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

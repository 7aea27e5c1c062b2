package cli

import (
	"slices"
	"strings"
	"testing"
)

// Of the verbs that save what they are at when they are stopped, and of no others, Ctrl-C says that
// a second one ends without saving.
func TestWhoSavesWhenStopped(t *testing.T) {
	want := "2d compare, 2d finetune, 2d pretrain, auto, crossval, demo, finetune, pretrain, selftrain"
	var got []string
	for _, cmd := range verbs(newRoot()) {
		if saves(cmd) {
			got = append(got, strings.TrimPrefix(cmd.CommandPath(), "voxsaw "))
		}
	}
	slices.Sort(got)
	if list := strings.Join(got, ", "); list != want {
		t.Errorf("%s, want %s", list, want)
	}
}

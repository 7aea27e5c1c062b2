package dataset

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// The index finds the entry that a look at one after another finds first.
func TestIndexFindsTheFirstEntry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	folder := func() string {
		return filepath.Join([]string{"a", "b", "ab"}[r.IntN(3)], []string{"", "c", "c/d"}[r.IntN(3)])
	}
	slow := func(entries []Entry, path, series string) *Entry {
		uid, _, _ := strings.Cut(series, "#")
		for n := range entries {
			if e := &entries[n]; (e.Path == path || series == "" && e.Series != "" && e.Kind == KindDICOM &&
				strings.HasPrefix(e.Path, path+string(filepath.Separator))) && (uid == "" || e.Series == uid) {
				return e
			}
		}
		return nil
	}
	found := 0
	for range 2000 {
		var entries []Entry
		for range r.IntN(6) {
			e := Entry{Path: folder(), Kind: "NIfTI"}
			if r.IntN(2) == 0 {
				e.Kind, e.Series = []string{KindDICOM, "DICOM SEG"}[r.IntN(2)], fmt.Sprint(r.IntN(3))
			}
			entries = append(entries, e)
		}
		path, series := folder(), []string{"", "1", "2", "1#2", "#2"}[r.IntN(5)]
		got, want := indexEntries(entries).entry(path, series), slow(entries, path, series)
		if got != want {
			t.Fatalf("%q, series %q of %+v: %+v, want %+v", path, series, entries, got, want)
		}
		if want != nil {
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d were found", found)
	}
}

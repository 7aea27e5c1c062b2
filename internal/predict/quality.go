package predict

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: the table beside label maps that says what is unusual about them.

// table is its path; "" where a single file is written, beside which nothing belongs.
func (b *Batch) table() string {
	if len(b.targets) == 0 || b.targets[0] == b.options.Out {
		return ""
	}
	return filepath.Join(b.options.Out, quality.File)
}

// spareTable refuses to write over a file that is somebody else's.
func (b *Batch) spareTable() error { return spare(b.table(), quality.IsTable) }

// sparePage is the same for the page.
func (b *Batch) sparePage() error { return spare(b.page(), report.IsPage) }

func spare(path string, ours func([]byte) bool) error {
	if path == "" {
		return nil
	}
	content, err := smallfile.Read(path, smallfile.Log)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !ours(content):
		return refuse("move it away, or choose another --out",
			"%s is there already and not of voxsaw: it would be written over", path)
	}
	return nil
}

// measureAgain measures a label map that was there already.
func (b *Batch) measureAgain(n int, p Model, watch Observer) {
	path := b.targets[n]
	if b.table() == "" {
		return
	}
	l, err := b.scans[n].TakenFor(p.Modality()).ReadLabelMap(path, b.options.Read)
	if err != nil {
		watch.Note(fmt.Sprintf("%v: it is not in %s", err, quality.File))
		return
	}
	l.Names = p.LabelNames() // as when it was made: the segments of a SEG object must have some
	c := quality.Case{ID: b.scans[n].ID, Structures: quality.Measure(l)}
	if made, ok := readProvenance(path); ok {
		c.Agreement = made.Agreement
	}
	b.cases[n] = c
}

// writeTable writes what all label maps measure, each held against the others, and says which are
// unusual. Of a batch that was cut short there is no table: the rest of it decides what is unusual.
func (b *Batch) writeTable(all outcome, watch Observer) error {
	path := b.table()
	if path == "" || len(all.Cases) == 0 || all.Stopped || all.Machine {
		return nil
	}
	var cases []quality.Case
	for _, n := range slices.Sorted(maps.Keys(all.Cases)) {
		cases = append(cases, all.Cases[n])
	}
	set := quality.NewSet(cases)
	estimate := quality.NewEstimator(b.options.Known)
	if err := atomicfile.Write(path, quality.Table(cases, set, estimate).CSV); err != nil {
		return err
	}
	if note := estimate.Note(); note != "" {
		watch.Note(note)
	}
	var odd []string
	for _, c := range cases {
		if found := set.Judge(c); len(found) > 0 {
			odd = append(odd, fmt.Sprintf("%s (%s)", c.ID, found[0]))
		}
	}
	if len(odd) > 0 {
		watch.Note(fmt.Sprintf("unusual beside the others: %d of %s: %s; %s says more", len(odd),
			numbers.Count(len(cases), "label map"), safetext.List(odd), path))
	}
	return nil
}

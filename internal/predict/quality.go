package predict

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
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

// readTable reads the table that is there already.
func (b *Batch) readTable() ([]quality.Case, error) {
	path := b.table()
	if path == "" {
		return nil, nil
	}
	content, err := smallfile.Read(path, smallfile.Log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cases, err := quality.ReadTable(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: move it away", path, err)
	}
	return cases, nil
}

// removeOutdated removes the table and the page before a label map is written over that they tell
// of: whatever ends the batch, they say nothing of label maps that are gone.
func (b *Batch) removeOutdated(target string) error {
	if _, err := os.Stat(target); err != nil || b.table() == "" {
		return nil
	}
	return atomicfile.RemoveFrom(b.options.Out, quality.File, pageFile)
}

// sayOthers says of which label maps that lie here the table of an earlier batch told, and this one
// does not.
func (b *Batch) sayOthers(watch Observer) {
	var others []string
	for _, c := range b.before {
		if slices.ContainsFunc(b.scans, func(scan dataset.Case) bool { return scan.ID == c.ID }) {
			continue
		}
		if _, err := os.Stat(filepath.Join(b.options.Out, c.ID+extensions[b.options.Format])); err == nil {
			others = append(others, c.ID)
		}
	}
	if len(others) > 0 {
		watch.Note(fmt.Sprintf("WARNING: %s and %s tell of this batch, and no longer of %s that an earlier one "+
			"left in %s: "+
			"%s; one command for all scans writes them for all", quality.File, pageFile,
			numbers.Count(len(others), "label map"), b.options.Out, safetext.List(others)))
	}
}

// measure measures a label map that p made.
func measure(id string, l *volume.LabelMap, p Model) quality.Case {
	c := quality.Case{ID: id, Structures: quality.Measure(l)}
	c.Absent = quality.Absent(c.Structures, p.Labels(), p.LabelNames())
	return c
}

// sayEmpty warns of label maps with nothing in them.
func (b *Batch) sayEmpty(all outcome, watch Observer) {
	var empty []string
	for _, n := range slices.Sorted(maps.Keys(all.Cases)) {
		if c := all.Cases[n]; len(c.Structures) == 0 {
			empty = append(empty, c.ID)
		}
	}
	if len(empty) > 0 {
		watch.Note(fmt.Sprintf("WARNING: nothing was found in %d of %s, whose label maps are empty: %s", len(empty),
			numbers.Count(len(all.Cases), "scan"), safetext.List(empty)))
	}
}

// measureAgain measures a label map that was there already.
func (b *Batch) measureAgain(n int, p Model, watch Observer) {
	path := b.targets[n]
	if b.table() == "" || !b.whole() {
		return
	}
	l, err := b.scans[n].TakenFor(p.Modality()).ReadLabelMap(path, b.options.Read)
	if err != nil {
		watch.Note(fmt.Sprintf("%v: it is not in %s", err, quality.File))
		return
	}
	l.Names = p.LabelNames() // as when it was made: the segments of a SEG object must have some
	c := measure(b.scans[n].ID, l, p)
	if made, ok := readProvenance(path); ok {
		c.Agreement = made.Agreement
		if made.Elsewhere {
			if c.Agreement = b.agreedBefore(c.ID); c.Agreement == nil {
				watch.Note(fmt.Sprintf("WARNING: %s has no room for its agreement, and %s does not have it: "+
					"--force makes both again", path, b.table()))
			}
		}
	}
	b.cases[n] = c
}

// agreedBefore is the agreement that the table had of a label map when the batch began; nil: none.
func (b *Batch) agreedBefore(id string) map[uint16]float64 {
	at := slices.IndexFunc(b.before, func(old quality.Case) bool { return old.ID == id })
	if at < 0 || len(b.before[at].Agreement) == 0 {
		return nil
	}
	return b.before[at].Agreement
}

// keepAgreements writes the table of a batch that was cut short where nothing else has the
// agreement of some label maps: of those that are done, and of what an earlier batch has left. The
// rest of the batch makes it whole.
func (b *Batch) keepAgreements(all outcome, watch Observer) {
	only := 0 // label maps whose agreement only the table can have
	for n, c := range all.Cases {
		if made, ok := readProvenance(b.targets[n]); ok && made.Elsewhere && len(c.Agreement) > 0 {
			only++
		}
	}
	if only == 0 {
		return
	}
	var cases []quality.Case
	for n, scan := range b.scans {
		c, done := all.Cases[n]
		if !done {
			at := slices.IndexFunc(b.before, func(old quality.Case) bool { return old.ID == scan.ID })
			if _, err := os.Stat(b.targets[n]); at < 0 || err != nil {
				continue
			}
			c = b.before[at]
		}
		cases = append(cases, c)
	}
	table := quality.Table(cases, quality.NewSet(cases), quality.NewEstimator(b.options.Known))
	if err := atomicfile.Write(b.table(), table.CSV); err != nil {
		watch.Note(fmt.Sprintf("WARNING: the agreement of %s is lost, which have no room for it: %v",
			numbers.Count(only, "label map"), err))
		return
	}
	watch.Note(fmt.Sprintf("%s tells of the %s that are there, for the agreement of %d of them is "+
		"nowhere else; the same command makes it whole", b.table(), numbers.Count(len(cases), "label map"), only))
}

// writeTable writes what all label maps measure, each held against the others, and says which are
// unusual. A batch that was cut short gets no table, since the missing cases help to decide what is
// unusual; it only keeps what would be lost.
func (b *Batch) writeTable(all outcome, watch Observer) error {
	path := b.table()
	if path == "" || len(all.Cases) == 0 {
		return nil
	}
	if all.Stopped || all.Machine {
		b.keepAgreements(all, watch)
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
	b.sayOthers(watch)
	if note := estimate.Note(); note != "" {
		watch.Note(note)
	}
	var odd, unjudged []string
	for _, c := range cases {
		for _, one := range c.Structures {
			if !set.Judges(one.Key()) && !slices.Contains(unjudged, one.Key()) {
				unjudged = append(unjudged, one.Key())
			}
		}
		if found := set.Judge(c); len(found) > 0 {
			odd = append(odd, fmt.Sprintf("%s (%s)", c.ID, found[0]))
		}
	}
	if len(odd) > 0 {
		watch.Note(fmt.Sprintf("unusual beside the others: %d of %s: %s; %s says more", len(odd),
			numbers.Count(len(cases), "label map"), safetext.List(odd), path))
	}
	if len(unjudged) > 0 {
		watch.Note(fmt.Sprintf("whether they are unusual is not known of %s: fewer than %d of these label maps "+
			"have them", safetext.List(unjudged), quality.Fewest))
	}
	return nil
}

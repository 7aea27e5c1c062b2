package prepare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what became of all cases.

// A Result says what became of a case.
type Result struct {
	Case   dataset.Case
	Kept   bool                  // an earlier run had prepared it
	Record prepared.Record       // where it is among the prepared cases
	Err    error                 // with Kept: what the earlier run prepared stays
	named  bool                  // Err names the case
	flips  *dataset.FlipEvidence // nil where the case was not read
}

// A Summary says what became of all.
type Summary struct {
	Prepared, Kept int // kept are those of earlier runs, and may have failed now
	Labelled       int // of both
	// cases whose labels hold no foreground: they are used, but no crop of them is centred on an
	// organ
	Empty   []string
	Failed  []Result
	Removed []string // cases of earlier runs that are not in the data set
	Notes   []string // what is odd about all of them together
	// cases cut to the patient's box, and the share of their voxels in it
	Cropped int
	Share   float64
	// the cases in which nobody drew a structure that others have, by its name
	Undrawn map[string][]string
	// the cases in which a structure lost all its voxels to others, by its name
	Emptied    map[string][]string
	Structures []Structure // how many cases show each, by their numbers
	// of each label that came onto other voxels than it was drawn on, how many it has in all such
	// cases
	Resampled   map[uint16]Resampled
	Fingerprint string
	Preparation volume.Preparation // with what was worked out of the scans
	Part        dataset.Part       // what was prepared of the data set
	Waiting     []int              // parts that are not prepared yet

	flips    dataset.FlipsSeen
	lost     []string     // failed cases that earlier runs had prepared with other settings
	spacings [][3]float64 // of the prepared cases, mm
	undrawn  map[uint16][]string
	numbered numbered            // labels of theirs without names
	scans    map[string][]string // cases by the voxels of their scans
	unlike   unlike
	// cases with voxels of a label without a name, where other labels have one
	nameless map[uint16][]string
	shown    map[uint16]*Structure
	// cases whose labels are numbers that nothing names
	withoutNames []nameless
	// labels that came onto other voxels than they were drawn on
	resampled resampled
}

// add counts a result.
func (s *Summary) add(r Result) {
	if r.Err != nil {
		s.Failed = append(s.Failed, r)
	}
	if r.flips != nil && *r.flips != (dataset.FlipEvidence{}) {
		if s.flips == nil {
			s.flips = dataset.FlipsSeen{}
		}
		s.flips[r.Case.ID] = *r.flips
	}
	switch {
	case r.Kept:
		s.Kept++
	case r.Err != nil:
		return
	default:
		s.Prepared++
	}
	s.spacings = append(s.spacings, r.Record.Spacing)
	if r.Record.Box != nil {
		s.Share += (r.Record.Bounds().Share() - s.Share) / float64(s.Cropped+1)
		s.Cropped++
	}
	if s.scans == nil {
		s.scans = map[string][]string{}
	}
	s.scans[r.Record.Scan] = append(s.scans[r.Record.Scan], r.Case.ID)
	s.addUndrawn(r.Record)
	s.resampled.add(r.Record)
	for _, label := range r.Record.Emptied {
		if s.Emptied == nil {
			s.Emptied = map[string][]string{}
		}
		name := cmp.Or(r.Record.LabelNames[label], fmt.Sprintf("label %d", label))
		s.Emptied[name] = append(s.Emptied[name], r.Case.ID)
	}
	if r.Record.HasLabels {
		s.Labelled++
		if site := r.Case.NumbersOnly(); site != "" {
			if s.numbered == nil {
				s.numbered = numbered{}
			}
			s.numbered.add(site, r.Record.LabelCounts)
		}
		if len(r.Record.LabelNames) == 0 {
			s.unlike.add(r.Case.ID, r.Record.LabelCounts)
		}
		s.addNameless(r.Record)
		s.addShown(r.Record)
		if len(r.Record.LabelCounts) == 0 {
			s.Empty = append(s.Empty, r.Case.ID)
		}
	}
}

// finish writes the manifest.
func (s *Summary) finish(j job, w *prepared.Writer) error {
	p, d := j.preparation, j.set
	w.Series = d.Series
	if err := w.Finish(); err != nil {
		return err
	}
	s.Fingerprint = w.Fingerprint()
	for _, id := range w.Removed() {
		if slices.ContainsFunc(s.Failed, func(r Result) bool { return r.Case.ID == id }) {
			s.lost = append(s.lost, id)
		} else {
			s.Removed = append(s.Removed, id)
		}
	}
	again := slices.DeleteFunc(w.Reread(), func(id string) bool {
		return slices.ContainsFunc(s.Failed, func(r Result) bool { return r.Case.ID == id })
	})
	if len(again) > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("prepared again, because settings such as --gaps or --structures read "+
				"them in another way than before: %s (%s)", numbers.Count(len(again), "case"), safetext.List(again)))
	}
	if renamed := w.Renamed(); len(renamed) > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("labels are called otherwise than before, by the names that the data set "+
				"has now: %s (%s), kept with the new names", numbers.Count(len(renamed),
				"case"), safetext.List(renamed)))
	}
	s.Resampled = s.resampled.labels
	for _, cases := range s.Emptied {
		slices.SortFunc(cases, numbers.CompareNatural)
	}
	if p.Scheme() == volume.CTPercentiles {
		s.Notes = append(s.Notes, fmt.Sprintf("intensities: %s (--foreground %s)", p.DescribeIntensities(),
			volume.ForegroundText(p.Foreground)))
	}
	if missing, there := w.NotRelabelled(); len(missing) > 0 && s.Labelled > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("WARNING: --relabel %s: no case has label %s: the labels are %s",
			p.Relabel, safetext.Numbers(missing), safetext.Numbers(there)))
	} else if p.Relabel != "" && s.Labelled == 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("WARNING: --relabel %s changes nothing: no case has labels", p.Relabel))
	}
	s.nameUndrawn(d.LabelNames)
	s.Structures = s.structures(d.LabelNames)
	if p.Relabel == "" { // names go with the numbers before
		s.Notes = append(s.Notes, s.namelessNotes(d)...)
	}
	for _, note := range []string{s.sameScans(), s.flips.Note(), s.numbered.doubt(), s.unlike.doubt(), s.assumed(),
		s.undrawnNote(), s.resampled.note(), mixedSpacings(s.spacings, p)} {
		if note != "" {
			s.Notes = append(s.Notes, note)
		}
	}
	return nil
}

// sameScans says which cases have one and the same scan, voxel by voxel; "" where none have.
func (s *Summary) sameScans() string {
	var all []string
	for _, ids := range s.scans {
		if len(ids) > 1 {
			slices.SortFunc(ids, numbers.CompareNatural)
			all = append(all, strings.Join(ids, " = "))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, numbers.CompareNatural)
	return fmt.Sprintf("WARNING: the same scan under several names: %s; folds keep them together as one patient's, "+
		"but each counts as a case: leave all but one out", safetext.List(all))
}

// directions are the axes of a patient in words.
var directions = map[byte]string{'L': "from right to left", 'R': "from left to right", 'A': "from back to front",
	'P': "from front to back", 'S': "from feet to head", 'I': "from head to feet",
	'i': "along the file's first axis", 'j': "along the file's second axis", 'k': "along the file's third axis"}

// mixedSpacings says whether voxels that were left as they are differ much between cases, and what
// spacing would suit all: the median, or "".
func mixedSpacings(spacings [][3]float64, p volume.Preparation) string {
	const much = 1.5 // times as large
	r := volume.RangeOf(slices.Values(spacings))
	var mixed []string
	for axis := range 3 {
		if p.Spacing[axis] == 0 && r.Max[axis] >= much*r.Min[axis] {
			mixed = append(mixed, fmt.Sprintf("%s mm %s", r.Along(axis), directions[p.Axcodes[axis]]))
		}
	}
	if mixed == nil {
		return ""
	}
	var median [3]string
	for axis, s := range volume.MedianSpacing(spacings) {
		median[axis] = fmt.Sprintf("%.3g", s)
	}
	return fmt.Sprintf("voxels measure %s, and were left so: organs have different sizes in voxels from case to "+
		"case; --spacing median makes them alike (%s mm)",
		strings.Join(mixed, ", "), strings.Join(median[:], "x"))
}

// failure is the error that names the cases that could not be prepared, if there are any. Where
// enough others were, it is a note; but for want of memory none is left out: what is prepared must
// not depend on the machine.
func (s *Summary) failure(j job) error {
	err, least := s.failed(j.set), j.options.LeastShare
	tooLarge := func(r Result) bool { var e *memory.Error; return errors.As(r.Err, &e) }
	if err == nil || least <= 0 || slices.ContainsFunc(s.Failed, tooLarge) {
		return err
	}
	failed, all, labelled := 0, 0, 0 // labelled ones
	for _, c := range j.set.Cases {
		if c.Labels != "" {
			all++
		}
	}
	for _, r := range s.Failed {
		if r.Case.Labels != "" {
			failed++
		}
	}
	labelled = all - failed
	rest := len(j.set.Cases) - len(s.Failed)
	if float64(rest) >= least*float64(len(j.set.Cases)) && float64(labelled) >= least*float64(all) && rest > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("WARNING: left out: %v", err))
		return nil
	}
	return fmt.Errorf("%w\nWhat is left is less than a share of %g (--least-share): %d of %s, %d of the %d with labels",
		err, least, rest, numbers.Count(len(j.set.Cases), "case"), labelled, all)
}

// failed says which cases could not be prepared; nil where all could.
func (s *Summary) failed(d *dataset.Dataset) error {
	if len(s.Failed) == 0 {
		return nil
	}
	lines := make([]string, len(s.Failed))
	for n, r := range s.Failed {
		lines[n] = fmt.Sprintf("\n  %s: %s", r.Case.ID, strings.ReplaceAll(safetext.Error(r.Err), "\n", "\n  "))
		switch {
		case r.Kept:
			lines[n] += "; what an earlier run prepared of it is kept: put its files right and run the same command " +
				"again, or take them away and add --force to be rid of the case"
		case slices.Contains(s.lost, r.Case.ID):
			lines[n] += "; what an earlier run prepared of it, with other settings, is removed"
		}
	}
	return fmt.Errorf("%d of %s of %s could not be prepared:%s", len(s.Failed), numbers.Count(len(d.Cases), "case"),
		d.Root, strings.Join(lines, ""))
}

// addUndrawn counts the structures that nobody drew in a case.
func (s *Summary) addUndrawn(r prepared.Record) {
	for _, label := range r.Undrawn {
		if s.undrawn == nil {
			s.undrawn = map[uint16][]string{}
		}
		s.undrawn[label] = append(s.undrawn[label], r.ID)
	}
}

// nameUndrawn fills Undrawn with the structures' names.
func (s *Summary) nameUndrawn(names map[uint16]string) {
	for label, cases := range s.undrawn {
		if s.Undrawn == nil {
			s.Undrawn = map[string][]string{}
		}
		slices.SortFunc(cases, numbers.CompareNatural)
		s.Undrawn[cmp.Or(names[label], fmt.Sprintf("label %d", label))] = cases
	}
}

// undrawnNote says how many cases lack which structures, and what that means; "" where none does.
func (s *Summary) undrawnNote() string {
	if len(s.Undrawn) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(s.Undrawn), func(a, b string) int {
		return cmp.Or(len(s.Undrawn[b])-len(s.Undrawn[a]), numbers.CompareNatural(a, b))
	})
	const most = 10
	more := ""
	if n := len(names) - most; n > 1 {
		more, names = fmt.Sprintf("; and %s more", numbers.Count(n, "structure")), names[:most]
	}
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("; %s in %d of %s with labels (%s)", safetext.Text(name), len(s.Undrawn[name]),
			numbers.Count(s.Labelled, "case"), safetext.List(s.Undrawn[name]))
	}
	return "WARNING: not drawn in all cases: " + text[2:] + more +
		". Where a structure is not drawn, training makes it one with the background there, and scores " +
		"leave it out: add the labels, or leave out such structures or cases. --all-drawn says that " +
		"these structures are not in the patients"
}

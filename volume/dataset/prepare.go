package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// PrepareOptions say how [Prepare] works.
type PrepareOptions struct {
	Workers int `yaml:"workers" help:"cases prepared at once; 0: one a core"`
	// Memory is the bytes that the cases prepared at once may take together; one that needs more
	// alone fails. 0: 4 GiB, or what this process may take where that is less; a case that needs
	// more than that is prepared alone, and fails where it needs more than this process may take.
	Memory int64       `yaml:"-"`
	Part   string      `yaml:"part" help:"prepare this part of the cases only, such as 3/16 for the third of 16: parts may run at once, on one machine or on many that share the folder, and the last of them finishes it"`
	Merge  bool        `yaml:"merge" help:"finish a folder whose parts have all been prepared"`
	Strict bool        `yaml:"strict" help:"stop at the first case that cannot be prepared"`
	Force  bool        `yaml:"force" help:"remove prepared cases in the folder that are of other scans than these, and replace those that were prepared with other settings, or that would lose labels, structures or their image"`
	Read   ReadOptions `yaml:",inline"`

	allowed int64 // bytes that one case may take
}

// DefaultPrepareOptions goes on after a bad file.
func DefaultPrepareOptions() PrepareOptions { return PrepareOptions{Read: DefaultReadOptions()} }

// A Result says what became of a case.
type Result struct {
	Case   Case
	Kept   bool            // an earlier run had prepared it
	Record prepared.Record // where it is among the prepared cases
	Err    error           // with Kept: what the earlier run prepared stays
	flips  *flipEvidence   // nil where the case was not read
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
	// cases of which the patient's box was prepared, and the share of their voxels in it
	Cropped int
	Share   float64
	// the cases in which nobody drew a structure that others have, by its name
	Undrawn map[string][]string
	// the cases in which a structure lost all its voxels to others, by its name
	Emptied map[string][]string
	// of each label that came onto other voxels than it was drawn on, how many it has in all such
	// cases
	Resampled   map[uint16]Resampled
	Fingerprint string
	Preparation volume.Preparation // with what was worked out of the scans
	Part        Part               // what was prepared of the data set
	Waiting     []int              // parts that are not prepared yet

	flips    flipsSeen
	lost     []string     // failed cases that earlier runs had prepared with other settings
	spacings [][3]float64 // of the prepared cases, mm
	undrawn  map[uint16][]string
	numbered numbered            // labels of theirs without names
	scans    map[string][]string // cases by their scans, see scanOf
	unlike   unlike
	// cases with voxels of a label without a name, where other labels have one
	nameless map[uint16][]string
	// labels that came onto other voxels than they were drawn on
	resampled resampled
}

// add counts a result.
func (s *Summary) add(r Result) {
	if r.Err != nil {
		s.Failed = append(s.Failed, r)
	}
	if r.flips != nil && *r.flips != (flipEvidence{}) {
		if s.flips == nil {
			s.flips = flipsSeen{}
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
		s.Share += (r.Record.Part().Share() - s.Share) / float64(s.Cropped+1)
		s.Cropped++
	}
	if scan := scanOf(r.Record); scan != "" {
		if s.scans == nil {
			s.scans = map[string][]string{}
		}
		s.scans[scan] = append(s.scans[scan], r.Case.ID)
	}
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
		if r.Case.unnamed && r.Case.site != "" {
			if s.numbered == nil {
				s.numbered = numbered{}
			}
			s.numbered.add(r.Case.site, r.Record.LabelCounts)
		}
		if len(r.Record.LabelNames) == 0 {
			s.unlike.add(r.Case.ID, r.Record.LabelCounts)
		}
		s.addNameless(r.Record)
		if len(r.Record.LabelCounts) == 0 {
			s.Empty = append(s.Empty, r.Case.ID)
		}
	}
}

// An OthersError says that preparing would remove cases of another data set.
type OthersError struct {
	Dir   string
	Cases []string
	From  string // a file that the first of them was prepared from, which is none of the data set's
}

func (e *OthersError) Error() string {
	text := fmt.Sprintf("%s holds %s not of these scans, which would be lost: %s", e.Dir, numbers.Count(len(e.Cases), "prepared case"), safetext.List(e.Cases))
	if e.From != "" {
		text += fmt.Sprintf(" (%s was prepared from %s)", e.Cases[0], e.From)
	}
	return text
}

// A SettingsError says that preparing would replace cases that were prepared with other settings.
type SettingsError struct {
	Dir         string
	Cases       []string
	Differences []volume.Difference // of the first of them
}

func (e *SettingsError) Error() string {
	var parts []string
	for _, d := range e.Differences {
		parts = append(parts, fmt.Sprintf("%s %s there, %s now", d.Key, d.Old, d.New))
	}
	return fmt.Sprintf("%s holds %s of these scans with other settings, which would be lost: %s; %s", e.Dir, numbers.Count(len(e.Cases), "prepared case"), safetext.List(e.Cases), strings.Join(parts, "; "))
}

// Prepare turns the cases of a data set into a store in dir; see package prepared. Cases that an
// earlier run prepared with the same settings from the same files are kept. A spacing that is yet
// to be chosen is that of [Dataset.ChooseSpacing]. Each result is passed to progress (which may be
// nil), one at a time, in no particular order.
//
// Prepared cases in dir that are not of this data set are an [OthersError], those that were
// prepared with other settings are a [SettingsError], and those that would lose labels, structures
// or their image are a [LossError], unless o.Force says that they are to be removed. If some cases
// cannot be prepared, the others are all the same. The store holds these, and of the failed ones
// what an earlier run prepared with the same settings; the error counts and names the failed ones.
// A case without foreground is prepared like any other. When ctx ends, the cases finished so far
// stay for the next run. An earlier store stays as it was until one of its cases is replaced; from
// then on there is none until a run ends well. The same holds when the machine fails: its disk is
// full or cannot be read, or there are too many open files.
func Prepare(ctx context.Context, d *Dataset, dir string, p volume.Preparation, o PrepareOptions, progress func(Result)) (*Summary, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := d.checkNames(); err != nil {
		return nil, err
	}
	part, err := ParsePart(o.Part)
	if err == nil {
		d, p, _, err = d.ChooseModality(p, o)
	}
	if err == nil {
		p, _, err = d.ChooseSpacing(dir, p, o.Force)
	}
	if err == nil {
		p, err = d.chooseForeground(ctx, dir, p, o)
	}
	if err != nil {
		return nil, err
	}
	summary, err := d.prepare(ctx, dir, part, p, o, progress)
	if summary != nil {
		summary.Preparation = p
	}
	return summary, err
}

// prepare is Prepare by a preparation that says all.
func (d *Dataset) prepare(ctx context.Context, dir string, part Part, p volume.Preparation, o PrepareOptions, progress func(Result)) (*Summary, error) {
	switch {
	case part.Of > 0 && o.Merge:
		return nil, errors.New("a part is prepared, or all are merged: choose one")
	case part.Of > 0:
		return d.preparePart(ctx, dir, part, p, o, progress)
	case o.Merge:
		return d.mergeParts(dir, p, o)
	}
	if err := atomicfile.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	release, err := atomicfile.Hold(dir)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	defer release()
	w, err := prepared.NewWriter(dir, p)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	if !o.Force {
		if err := d.checkEarlier(w, dir, p); err != nil {
			return nil, err
		}
	}
	summary, err := newPreparer(d, w, p, o).run(ctx, d.Cases, progress)
	if err == nil && summary.Prepared+summary.Kept > 0 {
		if err = summary.finish(d, w, p); err == nil {
			err = removeParts(dir)
		}
	}
	if standing := w.Standing(); atomicfile.OfMachine(err) && standing != "" {
		err = fmt.Errorf("%w; %s", err, standing)
	}
	if err != nil {
		return summary, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	return summary, summary.failure(d)
}

// complete checks the options and fills in what is not said.
func (o PrepareOptions) complete() (PrepareOptions, error) {
	if err := o.Read.check(); err != nil {
		return o, err
	}
	// A default that is given and one that is left out are the same way of reading.
	usual := DefaultReadOptions()
	o.Read = ReadOptions{
		cmp.Or(o.Read.Tilt, usual.Tilt), cmp.Or(o.Read.Gaps, usual.Gaps), cmp.Or(o.Read.Shear, usual.Shear), cmp.Or(o.Read.Overlap, usual.Overlap),
		cmp.Or(o.Read.LabelsBy, usual.LabelsBy), cmp.Or(o.Read.Flips, usual.Flips),
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.allowed = o.Memory; o.Memory <= 0 {
		o.allowed = memory.Allowed()
		o.Memory = min(4<<30, o.allowed)
	}
	return o, nil
}

// checkEarlier refuses to remove what another data set's scans were prepared to, and to replace
// what cases of this one were prepared to with other settings, or with more than now.
func (d *Dataset) checkEarlier(w *prepared.Writer, dir string, p volume.Preparation) error {
	if err := cmp.Or(d.checkOthers(w, dir), d.checkSettings(w, dir, p)); err != nil {
		return err
	}
	paths, err := pathsOf(d.Cases)
	if err != nil {
		return err
	}
	return checkLosses(w, dir, d.Cases, paths, p)
}

// checkSettings refuses to replace what cases of this data set were prepared to with other
// settings.
func (d *Dataset) checkSettings(w *prepared.Writer, dir string, p volume.Preparation) error {
	paths, err := pathsOf(d.Cases)
	if err != nil {
		return err
	}
	ids, before, err := w.Unlike(paths)
	if err != nil || len(ids) == 0 {
		return err
	}
	return &SettingsError{Dir: dir, Cases: ids, Differences: p.Differences(before)}
}

// checkOthers refuses to remove what another data set's scans were prepared to.
func (d *Dataset) checkOthers(w *prepared.Writer, dir string) error {
	cases, err := pathsOf(d.Cases)
	if err != nil {
		return err
	}
	others, err := w.Others(cases)
	if err != nil || len(others) == 0 {
		return err
	}
	refused := &OthersError{Dir: dir, Cases: slices.SortedFunc(maps.Keys(others), compareNatural)}
	if from := others[refused.Cases[0]]; len(from) > 0 {
		refused.From = from[0]
	}
	return refused
}

// pathsOf lists the files of each case.
func pathsOf(cases []Case) (map[string][]string, error) {
	all := map[string][]string{}
	for _, c := range cases {
		paths, err := absolute(c.sourcePaths())
		if err != nil {
			return nil, err
		}
		all[c.ID] = paths
	}
	return all, nil
}

// finish writes the manifest.
func (s *Summary) finish(d *Dataset, w *prepared.Writer, p volume.Preparation) error {
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
	if again := w.Reread(); len(again) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("prepared again, because settings such as --gaps or --structures read them in another way than before: %s (%s)", numbers.Count(len(again), "case"), safetext.List(again)))
	}
	if outdated := w.Outdated(); len(outdated) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("prepared again, because an older version resampled labels to the nearest voxel, up to half a voxel beside the image: %s (%s)", numbers.Count(len(outdated), "case"), safetext.List(outdated)))
	}
	s.Resampled = s.resampled.labels
	for _, cases := range s.Emptied {
		slices.SortFunc(cases, compareNatural)
	}
	if p.Scheme() == volume.CTPercentiles {
		s.Notes = append(s.Notes, fmt.Sprintf("intensities: %s (--foreground %s)", p.DescribeIntensities(), volume.ForegroundText(p.Foreground)))
	}
	if missing, there := w.NotRelabelled(); len(missing) > 0 && s.Labelled > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("WARNING: --relabel %s: no case has label %s: the labels are %s", p.Relabel, joinLabels(missing), joinLabels(there)))
	} else if p.Relabel != "" && s.Labelled == 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("WARNING: --relabel %s changes nothing: no case has labels", p.Relabel))
	}
	s.nameUndrawn(d.LabelNames)
	if p.Relabel == "" { // names go with the numbers before
		s.Notes = append(s.Notes, s.namelessNotes(d.regions)...)
	}
	for _, note := range []string{s.sameScans(), s.flips.note(), s.numbered.doubt(), s.unlike.doubt(), s.undrawnNote(), s.resampled.note(), mixedSpacings(s.spacings, p)} {
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
			slices.SortFunc(ids, compareNatural)
			all = append(all, strings.Join(ids, " = "))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, compareNatural)
	return fmt.Sprintf("WARNING: the same scan under several names: %s; folds keep them together as one patient's, but each counts as a case: leave all but one out", safetext.List(all))
}

// joinLabels lists labels.
func joinLabels(labels []uint16) string {
	if len(labels) == 0 {
		return "none"
	}
	texts := make([]string, len(labels))
	for n, label := range labels {
		texts[n] = strconv.Itoa(int(label))
	}
	return safetext.List(texts)
}

// directions are the axes of a patient in words.
var directions = map[byte]string{'L': "from right to left", 'R': "from left to right", 'A': "from back to front", 'P': "from front to back", 'S': "from feet to head", 'I': "from head to feet"}

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
	for axis, s := range medianSpacing(spacings) {
		median[axis] = fmt.Sprintf("%.3g", s)
	}
	return fmt.Sprintf("voxels measure %s, and were left so: organs have different sizes in voxels from case to case; --spacing median makes them alike (%s mm)",
		strings.Join(mixed, ", "), strings.Join(median[:], "x"))
}

// failure is the error that names the cases that could not be prepared, if there are any.
func (s *Summary) failure(d *Dataset) error {
	if len(s.Failed) == 0 {
		return nil
	}
	lines := make([]string, len(s.Failed))
	for n, r := range s.Failed {
		lines[n] = fmt.Sprintf("\n  %s: %s", r.Case.ID, strings.ReplaceAll(safetext.Error(r.Err), "\n", "\n  "))
		switch {
		case r.Kept:
			lines[n] += "; what an earlier run prepared of it is kept: put its files right and run the same command again, or take them away and add --force to be rid of the case"
		case slices.Contains(s.lost, r.Case.ID):
			lines[n] += "; what an earlier run prepared of it, with other settings, is removed"
		}
	}
	return fmt.Errorf("%d of %s of %s could not be prepared:%s", len(s.Failed), numbers.Count(len(d.Cases), "case"), d.Root, strings.Join(lines, ""))
}

// preparer prepares the cases of a data set, several at once.
type preparer struct {
	dataset     *Dataset
	writer      *prepared.Writer
	preparation volume.Preparation
	options     PrepareOptions
	memory      *memory.Budget // that the cases at work share
	sources     *sources
}

func newPreparer(d *Dataset, w *prepared.Writer, p volume.Preparation, o PrepareOptions) *preparer {
	return &preparer{
		dataset: d, writer: w, preparation: p, options: o,
		memory: memory.NewBudget(o.allowed, o.Memory), sources: &sources{known: map[string]func() (prepared.Source, error){}},
	}
}

// run prepares cases of the data set. It goes on where one fails, unless the options or the machine
// forbid it.
func (p *preparer) run(ctx context.Context, cases []Case, progress func(Result)) (*Summary, error) {
	var mutex sync.Mutex
	summary := &Summary{}
	report := func(r Result) {
		mutex.Lock()
		defer mutex.Unlock()
		summary.add(r)
		if progress != nil {
			progress(r)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.options.Workers)
	for _, c := range cases {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r := p.prepare(ctx, c)
			if ctx.Err() != nil && errors.Is(r.Err, ctx.Err()) {
				return r.Err
			}
			if r.Err != nil {
				r.Record, r.Kept = p.writer.Retain(c.ID, c.Group)
			}
			report(r)
			if r.Err != nil && (p.options.Strict || atomicfile.OfMachine(r.Err)) {
				return fmt.Errorf("case %s: %w", c.ID, r.Err)
			}
			return nil
		})
	}
	err := group.Wait()
	slices.Sort(summary.Empty)
	slices.SortFunc(summary.Failed, func(a, b Result) int { return compareNatural(a.Case.ID, b.Case.ID) })
	return summary, err
}

// prepare prepares a case, unless an earlier run has done so.
func (p *preparer) prepare(ctx context.Context, c Case) (r Result) {
	r.Case = c
	paths, origin, err := c.origin(p.options.Read)
	if err != nil {
		r.Err = err
		return r
	}
	in, err := c.input(p.preparation, origin)
	if err != nil {
		r.Err = err
		return r
	}
	if r.Record, r.Kept = p.writer.Keep(in, paths); r.Kept {
		return r
	}
	c = c.located()
	need, known := c.memory(p.preparation)
	if !known {
		need = min(need, p.options.Memory)
	}
	release, err := p.memory.Take(ctx, need)
	if err != nil {
		r.Err = c.tooLarge(err)
		return r
	}
	defer release()
	for _, path := range paths { // before reading, so that a change meanwhile is noticed
		source, err := p.sources.of(path)
		if err != nil {
			r.Err = err
			return r
		}
		in.Sources = append(in.Sources, source)
	}
	c.seenFlips = &flipEvidence{}
	r.flips = c.seenFlips
	if in.Image, in.Labels, in.Notes, r.Err = c.Read(p.options.Read, p.dataset.LabelNames); r.Err != nil {
		return r
	}
	if !p.dataset.said {
		if err := c.CheckModality(in.Image, p.preparation.ModalityName()); err != nil {
			r.Err = fmt.Errorf("%s %w: --modality says what all of these scans are", c.Image, err)
			return r
		}
	}
	if r.Err = ctx.Err(); r.Err != nil {
		return r
	}
	if note := emptiedNote(in.Labels); note != "" {
		in.Notes = append(in.Notes, note)
	}
	r.Record, r.Err = p.writer.Add(in)
	return r
}

// originOfImage is how the record of a case begins to say how its files are read: which series of
// a study, and which volume of a file.
const originOfImage = "series %q, volume %d,"

// origin is the files of a case and how they are read: where either differs, a case that was
// prepared is not kept.
func (c Case) origin(how ReadOptions) (paths []string, origin string, err error) {
	paths, err = absolute(c.sourcePaths())
	origin = fmt.Sprintf(originOfImage+" by index %v, %s", c.Series, c.Volume, c.ByIndex, how.origin())
	for _, m := range c.Masks {
		origin += fmt.Sprintf(", %d %s", m.Label, m.Name)
	}
	return paths, origin, err
}

// originMask is how an origin says of a mask which label it has.
var originMask = regexp.MustCompile(`, \d+ `)

// structuresIn are the names of the masks in an origin.
func structuresIn(origin string) []string {
	if _, rest, ok := strings.Cut(origin, "}"); ok {
		return originMask.Split(rest, -1)[1:]
	}
	return nil
}

// sources are read once, though a folder may hold many cases.
type sources struct {
	mutex sync.Mutex
	known map[string]func() (prepared.Source, error)
}

func (s *sources) of(path string) (prepared.Source, error) {
	s.mutex.Lock()
	look := s.known[path]
	if look == nil {
		look = sync.OnceValues(func() (prepared.Source, error) { return prepared.NewSource(path) })
		s.known[path] = look
	}
	s.mutex.Unlock()
	return look()
}

func absolute(paths []string) ([]string, error) {
	for n, path := range paths {
		full, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		paths[n] = full
	}
	return paths, nil
}

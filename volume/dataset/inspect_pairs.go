package dataset

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: what the entries of scans and of their labels say together.

// comparePairs adds what is wrong with the labels of a data set to their entries, and describes the
// data set.
func (d *Dataset) comparePairs(ctx context.Context, entries []Entry, o ReadOptions) (notes []string, err error) {
	find := indexEntries(entries)
	for _, path := range d.masks {
		if e := find.entry(path, ""); e != nil {
			e.problem(maskNote)
		}
	}
	if err := d.CheckNames(); err != nil {
		notes = append(notes, err.Error())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(4, runtime.GOMAXPROCS(0)))
	flips := map[string]*FlipEvidence{} // of the cases whose labels go by index
	for _, c := range d.Cases {
		labels, image := find.entry(c.Labels, ""), find.entry(c.Image, c.Series)
		if c.channel && c.refused != nil {
			notes = append(notes, c.refused.Error())
		}
		if image != nil && c.Volume > 0 && len(c.More) > 0 {
			image.several = false // they are its channels
		}
		if image != nil && image.mayBeLabels {
			image.problem(notLabels)
		}
		for _, m := range c.Masks {
			if e := find.entry(m.Path, ""); e != nil && e.LabelNames == nil {
				e.nameMask(m.Name)
			}
		}
		if image != nil && c.Masks != nil {
			group.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				warnings, err := c.tryReading(ctx, o)
				for _, text := range warnings {
					image.problem("labels: %s", image.about(text))
				}
				if err != nil {
					image.problem("labels: %v", err)
				}
				return nil
			})
			continue
		}
		if labels == nil || c.Labels == "" {
			continue
		}
		// they are labels, whatever their names say, and prepared from all volumes of the file
		given := c.givenNames(d.LabelNames)
		again := !labels.asLabels && (!labels.calledLabels() || labels.volumes > 1) ||
			c.labelVolumes > 1 && len(given) > 0 // whose first volume they tell
		if again && !labels.Unreadable && format.IsName(c.Labels) {
			labels.takeLabels(given)
		}
		if labels.LabelNames == nil && labels.Labels != nil && !c.unnamed {
			labels.LabelNames = d.LabelNames
		}
		if len(labels.Labels) == 1 && labels.Labels[0] > 0 {
			labels.problem("no foreground")
		}
		if image == nil || image.Min == nil || labels.Labels == nil {
			continue // unreadable, as its own entry says
		}
		if c.ByIndex || c.segmentation != nil || o.LabelsBy == LabelsByIndex {
			flips[c.ID] = c.SeeFlips()
			group.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				warnings, err := c.tryReading(ctx, o)
				for _, text := range warnings {
					labels.problem("%s", labels.about(text))
				}
				if err != nil {
					labels.problem("%s", labels.about(err.Error()))
				}
				return nil
			})
			continue
		}
		for _, problem := range gridProblems(image.grid, labels.grid) {
			if problem != "" {
				labels.problem("%s", problem)
			}
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	seen := FlipsSeen{}
	for id, e := range flips {
		if *e != (FlipEvidence{}) {
			seen[id] = *e
		}
	}
	for _, path := range d.NotTaken() {
		if e := find.entry(path, ""); e != nil && !slices.Contains(d.masks, path) {
			e.problem("no case has these labels: a note says why")
		}
	}
	notes = slices.Concat(notes, []string{d.String()}, d.Notes)
	if note := seen.Note(); note != "" {
		notes = append(notes, note)
	}
	return notes, nil
}

// gridProblems says what is odd about where labels lie on a scan, by their headers.
func gridProblems(scan, labels volume.Grid) []string {
	exact, err := scan.Match(labels)
	if err == nil {
		return []string{onOtherVoxels(scan, labels, exact)}
	}
	if beyond, ok := scan.Shares(labels); ok && labels.Shape != scan.Shape {
		if beyond {
			return []string{onPart(scan, labels), "labels reach beyond the scan: what they have there is left out"}
		}
		return []string{onPart(scan, labels)}
	}
	if labels.Shape == scan.Shape {
		return []string{err.Error() + indexHint}
	}
	return []string{err.Error()}
}

// entryIndex finds entries by their path, in a time that does not grow with their number: a data
// set may have 100,000.
type entryIndex struct {
	entries []Entry
	at      map[placeOfEntry]int // the first entry there
	below   map[string]int       // the first series of DICOM below a folder
}

// placeOfEntry is a path and the UID of a series there; "": of any.
type placeOfEntry struct{ path, series string }

func indexEntries(entries []Entry) entryIndex {
	x := entryIndex{entries, map[placeOfEntry]int{}, map[string]int{}}
	for n, e := range slices.Backward(entries) { // so that the first stays
		x.at[placeOfEntry{e.Path, ""}] = n
		x.at[placeOfEntry{e.Path, e.Series}] = n
		if e.Series == "" || e.Kind != KindDICOM {
			continue
		}
		for end, c := range e.Path {
			if c == filepath.Separator {
				x.below[e.Path[:end]] = n
			}
		}
	}
	return x
}

// entry is the first one of a case's file, or of a series of a folder, as [Case] names them;
// without a series it may lie below the folder, too. nil: there is none.
func (x entryIndex) entry(path, series string) *Entry {
	uid, _, _ := strings.Cut(series, "#")
	n, ok := x.at[placeOfEntry{path, uid}]
	if m, found := x.below[path]; found && series == "" && (!ok || m < n) {
		n, ok = m, true
	}
	if !ok {
		return nil
	}
	return &x.entries[n]
}

// nameModalities writes into the entries of a data set's scans what they are, and says whether
// these are of several modalities: as is stated, or where nothing is, by their values.
func (d *Dataset) nameModalities(entries []Entry) (notes []string) {
	find := indexEntries(entries)
	stated, values := map[string][]string{}, map[string][]string{}
	var unlike []*Entry
	named := false
	for _, c := range d.Cases {
		m := c.Modality()
		named = named || m.Name != ""
		if m.Stated {
			stated[m.Name] = append(stated[m.Name], c.ID)
		}
		e := find.entry(c.Image, c.Series)
		if e == nil {
			continue
		}
		e.Modality = cmp.Or(e.Modality, m.Name)
		switch e.like {
		case likeCT, likeShiftedCT:
			values["CT (by their values)"] = append(values["CT (by their values)"], c.ID)
		case unlikeCT:
			values["no CT (by their values)"] = append(values["no CT (by their values)"], c.ID)
			unlike = append(unlike, e)
		}
	}
	if !named && len(values) == 1 && len(unlike) > 0 { // as ChooseModality takes them
		notes = append(notes, fmt.Sprintf("modality %s, by the %s", volume.ModalityMR, byValues))
		for _, e := range unlike {
			e.unlikeHU = nil
		}
	}
	if mixed := (&MixedError{d.Root, stated}); len(stated) > 1 {
		notes = append(notes, mixed.Error()+": "+mixed.Hint())
	} else if len(stated) == 0 && len(values) > 1 {
		notes = append(notes, (&MixedError{d.Root, values}).Error()+": prepare them one by one")
	}
	return notes
}

// tryReading reads a case for what is wrong with it: an error, or warnings.
func (c Case) tryReading(ctx context.Context, o ReadOptions) (warnings []string, err error) {
	c = c.Located()
	release, err := memory.Take(ctx, c.reading())
	if err != nil {
		return nil, c.TooLarge(err)
	}
	defer release()
	_, _, notes, err := c.Read(o, nil)
	for _, note := range notes {
		if text, warns := strings.CutPrefix(note, "WARNING: "); warns {
			warnings = append(warnings, text)
		}
	}
	return warnings, err
}

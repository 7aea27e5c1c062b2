package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// InspectOptions say what [Inspect] looks at.
type InspectOptions struct {
	// the DICOM series to look at, by number, number.part or UID, or by words, as
	// [dicom.Series.Is] takes them; empty: all
	Series string
	// of files that hold several, 1 for the first; of a data set in nnU-Net's layout, the channel;
	// 0: all
	Volume int
	// as [Options] has it
	Channels []string
	LabelsBy LabelsBy // where labels lie on their scan; empty: where their header says
	// the share of the cases to look at, each with its scan and its labels, and of what belongs to
	// no case; the zero value: all
	Part     Part
	Progress func(done, total int) // after each entry, one at a time; may be nil
}

// Inspect looks at files and folders, reading all voxels. A folder gives an entry for each NIfTI
// file and each DICOM series in it; where it is a data set, its pairs of scans and labels are
// compared too, and the notes say what else is odd about it. Only ctx ending and paths that are not
// there are errors: what is wrong with a file is among its entry's problems.
func Inspect(ctx context.Context, paths []string, o InspectOptions) (entries []Entry, notes []string, err error) {
	read := DefaultReadOptions()
	read.LabelsBy = cmp.Or(o.LabelsBy, read.LabelsBy)
	var look []sight
	var sets []*Dataset
	var about []string
	seen := newSeen()
	detect := func(path string) *Dataset {
		d, doubts := detectSet(path, Options{Series: o.Series, Volume: o.Volume, Channels: o.Channels, seen: seen})
		if about = append(about, doubts...); d != nil {
			sets = append(sets, d)
		}
		return d
	}
	paths = slices.Clone(paths)
	for n := range paths {
		paths[n] = listed(paths[n])
		found, passed, err := findEntries(paths[n], o, seen)
		if err != nil {
			return nil, nil, err
		}
		if o.Part.Of > 0 { // which the data set says
			found = detect(paths[n]).share(found, o.Part)
		}
		look, notes = append(look, found...), append(notes, passed...)
	}
	if entries, err = lookAt(ctx, look, o.Progress); err != nil {
		return nil, nil, err
	}
	if o.Part.Of == 0 { // now what the files' headers say is known
		for _, path := range paths {
			detect(path)
		}
	}
	notes = append(notes, about...)
	for _, d := range sets {
		notes = append(notes, d.nameModalities(entries)...)
	}
	for n := range entries {
		e := &entries[n]
		if e.Modality == "" && e.Kind != KindDICOM {
			e.Modality = modalityOfName(e.Path).Name
		}
		if e.Modality == "" || e.Modality == volume.ModalityCT {
			e.doubts, e.Problems = append(e.doubts, e.unlikeHU...), append(e.Problems, e.unlikeHU...)
		}
	}
	for _, d := range sets {
		more, err := d.comparePairs(ctx, entries, read)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
	}
	if o.Part.Of == 0 { // a part is too few to compare
		findUnusual(entries)
	}
	for n := range entries {
		if e := &entries[n]; e.several {
			e.Problems = slices.Insert(e.Problems, 0,
				fmt.Sprintf("%d volumes: choose one with --volume, or name all with --channels", e.volumes))
		}
		if entries[n].Problems == nil {
			entries[n].Problems = []string{} // [] in JSON, not null
		}
	}
	return entries, notes, nil
}

// share is the part of what was found. What belongs to a case goes with it; the rest is counted by
// itself. Without a data set (nil) all is counted by itself.
func (d *Dataset) share(found []sight, part Part) []sight {
	cases := map[string]int{} // by their files and folders
	if d != nil {
		for n, c := range slices.Backward(d.Cases) { // so that the first stays
			cases[c.Image], cases[c.Labels] = n, n
			for _, m := range c.Masks {
				cases[m.Path] = n
			}
		}
		delete(cases, "")
	}
	var kept []sight
	others := 0
	for _, f := range found {
		n, ok := cases[f.path]
		for above := f.path; !ok && filepath.Dir(above) != above; n, ok = cases[above] {
			above = filepath.Dir(above)
		}
		if !ok {
			n, others = others, others+1
		}
		if part.Has(n) {
			kept = append(kept, f)
		}
	}
	return kept
}

// findEntries lists what is to be looked at below a path, and what else lies there.
func findEntries(path string, o InspectOptions, files *seen) (look []sight, notes []string, err error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("inspecting: %w", err)
	}
	if !stat.IsDir() && format.IsName(path) {
		return []sight{{path, func() Entry { return inspectFile(path, o.Volume, files) }}}, nil, nil
	}
	if stat.IsDir() {
		chosen := o.Volume
		if layout, err := detectLayout(path); err == nil && layout == LayoutNNUNet {
			chosen = 0
		}
		err := walk(path, func(file string, entry fs.FileInfo, err error) error {
			// what cannot be looked at, the search for DICOM lists
			if err == nil && !entry.IsDir() && format.IsName(file) {
				look = append(look, sight{file, func() Entry { return inspectFile(file, chosen, files) }})
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("inspecting %s: %w", path, err)
		}
	}
	series, notes, err := inspectSeries(path, o.Series, files)
	if err != nil {
		return nil, nil, fmt.Errorf("inspecting %s: %w", path, err)
	}
	// What cannot be read at all is told of by both searches.
	told := map[string]bool{}
	for _, s := range look {
		told[s.path] = true
	}
	series = slices.DeleteFunc(series, func(s sight) bool { return told[s.path] })
	return append(look, series...), notes, nil
}

// lookAt makes the entries, a few at a time: each holds a scan in memory.
func lookAt(ctx context.Context, look []sight, progress func(done, total int)) ([]Entry, error) {
	entries := make([]Entry, len(look))
	var group errgroup.Group
	var next atomic.Int64
	var mutex sync.Mutex
	done := 0
	for range min(4, runtime.GOMAXPROCS(0), len(look)) {
		group.Go(func() error {
			for n := int(next.Add(1)) - 1; n < len(look); n = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				entries[n] = look[n].look()
				if progress != nil {
					mutex.Lock()
					done++
					progress(done, len(look))
					mutex.Unlock()
				}
			}
			return nil
		})
	}
	return entries, group.Wait()
}

// detectSet finds the data set at a path, nil where there is none, and says what is odd about it.
func detectSet(root string, o Options) (d *Dataset, notes []string) {
	if stat, err := os.Stat(root); err != nil || !stat.IsDir() {
		return nil, nil
	}
	d, err := Detect(root, o)
	if err != nil {
		// A folder of scans need not be a data set, but one that looks like it should.
		notes = append(notes, err.Error())
		// Two data sets may have cases of one name; subjects, several contrasts.
		o.NameByFolder, o.Contrast, o.Channels = true, ContrastAll, nil
		if d, err = Detect(root, o); err != nil {
			return nil, notes
		}
	}
	return d, notes
}

// ProblemsFirst orders entries for a table that people read: what cannot be used, what is odd, the
// rest.
func ProblemsFirst(entries []Entry) []Entry {
	rank := func(e Entry) int {
		switch {
		case len(e.Problems) == 0:
			return 2
		case e.Min != nil || e.Labels != nil:
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int { return rank(a) - rank(b) })
}

package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/itk"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Entry is what [Inspect] found out about a file or a DICOM series. What it could not find out is
// empty, and Problems says why.
type Entry struct {
	Path string `json:"path"`
	// NIfTI-1, NIfTI-2, one of the kinds below, or what a file seems to be
	Kind    string      `json:"kind"`
	Shape   []int       `json:"shape"`   // all extents, those of time and the like included
	Spacing []float64   `json:"spacing"` // mm along i, j, k
	Axcodes string      `json:"axcodes"` // where these grow to
	Affine  [][]float64 `json:"affine"`  // of voxel indices to mm, RAS+
	// as stored; int16 or float32 for DICOM, after rescaling
	Dtype    string   `json:"dtype"`
	Min      *float64 `json:"min"` // of the finite values
	Max      *float64 `json:"max"`
	Mean     *float64 `json:"mean"`
	Problems []string `json:"problems"`
	// whether the voxels cannot be read: preparing or predicting would fail
	Unreadable bool   `json:"unreadable,omitempty"`
	Series     string `json:"series,omitempty"` // SeriesInstanceUID
	// SeriesNumber, with .1, .2, ... where one series holds several volumes
	Number   string `json:"number,omitempty"`
	Modality string `json:"modality,omitempty"`
	// what people wrote about the series, and what tells it apart: see [dicom.Series]
	Description string   `json:"description,omitempty"`
	Protocol    string   `json:"protocol,omitempty"`
	Kernel      string   `json:"kernel,omitempty"`
	Phase       string   `json:"phase,omitempty"`
	ImageType   []string `json:"image_type,omitempty"`
	Unit        string   `json:"unit,omitempty"` // of the values, where the images say it
	// voxels of each, background included, where the file holds labels
	Labels map[uint16]int `json:"labels,omitempty"`

	// where the file or the data set has them
	LabelNames map[uint16]string `json:"label_names,omitempty"`

	grid        volume.Grid // of one volume
	mayBeLabels bool        // by its values
	volumes     int         // that a file of voxels holds
	several     bool        // of which none was chosen, though a scan is one
	doubts      []string    // among its problems, those about a scan
	asLabels    bool        // it was read as preparing reads labels
	unlikeHU    []string    // why its values are no Hounsfield units: doubts where they should be
	like        likeness    // what its values are like
}

// Kinds of entries: DICOM series, those that are scout views, files that are no scan, DICOM SEG
// objects and RT structure sets.
const (
	KindDICOM     = "DICOM"
	KindLocalizer = "DICOM localizer"
	KindUnknown   = "unknown"
	kindSEG       = "DICOM SEG"
	kindRTSTRUCT  = "DICOM RTSTRUCT"
)

func (e *Entry) problem(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

// cannotBeRead is the problem that ends all looking.
func (e *Entry) cannotBeRead(err error) {
	e.Unreadable = true
	e.problem("%s", e.about(err.Error()))
}

// InspectOptions say what [Inspect] looks at.
type InspectOptions struct {
	// the DICOM series to look at, by number, number.part or UID, or by words, as
	// [dicom.Series.Is] takes them; empty: all
	Series string
	// of files that hold several, 1 for the first; of a data set in nnU-Net's layout, the channel;
	// 0: all
	Volume   int
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
		d, doubts := detectSet(path, Options{Series: o.Series, Volume: o.Volume, seen: seen})
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
	for n := range entries {
		if e := &entries[n]; e.several {
			e.Problems = slices.Insert(e.Problems, 0, fmt.Sprintf("%d volumes: choose one with --volume", e.volumes))
		}
		if entries[n].Problems == nil {
			entries[n].Problems = []string{} // [] in JSON, not null
		}
	}
	return entries, notes, nil
}

// A sight is something to look at.
type sight struct {
	path string       // of the file, or of the folder of a series
	look func() Entry // reads all voxels
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
	if !stat.IsDir() && isVoxels(path) {
		return []sight{{path, func() Entry { return inspectFile(path, o.Volume, files) }}}, nil, nil
	}
	if stat.IsDir() {
		chosen := o.Volume
		if layout, err := detectLayout(path); err == nil && layout == LayoutNNUNet {
			chosen = 0
		}
		err := walk(path, func(file string, entry fs.FileInfo, err error) error {
			// what cannot be looked at, the search for DICOM lists
			if err == nil && !entry.IsDir() && isVoxels(file) {
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
		o.NameByFolder, o.Contrast = true, ContrastAll
		if d, err = Detect(root, o); err != nil {
			return nil, notes
		}
	}
	return d, notes
}

// comparePairs adds what is wrong with the labels of a data set to their entries, and describes the
// data set.
func (d *Dataset) comparePairs(ctx context.Context, entries []Entry, o ReadOptions) (notes []string, err error) {
	find := indexEntries(entries)
	for _, path := range d.masks {
		if e := find.entry(path, ""); e != nil {
			e.problem(maskNote)
		}
	}
	if err := d.checkNames(); err != nil {
		notes = append(notes, err.Error())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(4, runtime.GOMAXPROCS(0)))
	flips := map[string]*flipEvidence{} // of the cases whose labels go by index
	for _, c := range d.Cases {
		labels, image := find.entry(c.Labels, ""), find.entry(c.Image, c.Series)
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
		again := !labels.asLabels && (!labels.calledLabels() || labels.volumes > 1)
		if again && !labels.Unreadable && isVoxels(c.Labels) {
			labels.takeLabels()
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
			c.seenFlips = &flipEvidence{}
			flips[c.ID] = c.seenFlips
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
	seen := flipsSeen{}
	for id, e := range flips {
		if *e != (flipEvidence{}) {
			seen[id] = *e
		}
	}
	notes = slices.Concat(notes, []string{d.String()}, d.Notes)
	if note := seen.note(); note != "" {
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

func (e *Entry) setGrid(g volume.Grid) {
	spacing := g.Spacing()
	e.grid = g
	e.Shape, e.Spacing, e.Axcodes = slices.Clone(g.Shape[:]), spacing[:], g.Axcodes()
	e.Affine = nil
	for _, row := range g.Affine {
		e.Affine = append(e.Affine, slices.Clone(row[:]))
	}
}

// setValues describes the voxels of a volume, or of several together.
func (e *Entry) setValues(volumes ...*volume.Volume) {
	all := make([]voxelStatistics, len(volumes))
	for n, v := range volumes {
		all[n] = voxelStatistics{v.Statistics(), v.Len()}
	}
	e.setStatistics(all...)
}

// voxelStatistics are the statistics of so many voxels.
type voxelStatistics struct {
	volume.Statistics
	voxels int
}

// setStatistics describes the voxels of a volume, or of several together.
func (e *Entry) setStatistics(volumes ...voxelStatistics) {
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	finite, all := 0, 0
	for _, s := range volumes {
		n := s.voxels - s.NonFinite
		if finite, all = finite+n, all+s.voxels; n > 0 {
			lo, hi, sum = min(lo, float64(s.Min)), max(hi, float64(s.Max)), sum+float64(n)*s.Mean
		}
	}
	if finite > 0 {
		mean := sum / float64(finite)
		e.Min, e.Max, e.Mean = &lo, &hi, &mean
	}
	if finite < all {
		e.problem("%d of %d voxels are not finite", all-finite, all)
	}
}

// spares are the voxels of files that were inspected, to be used again: those of small files, which
// may be many.
var spares = sync.Pool{New: func() any { return new([]int16) }}

// tellBehind tells what lies behind the voxels of a file that has been read.
func (e *Entry) tellBehind(h fileHeader) {
	if h.nifti != nil && h.nifti.Behind() != "" {
		e.problem("%s", h.nifti.Behind())
	}
}

// inspectFile describes a file of voxels, of several volumes the one that is chosen, or all.
func inspectFile(path string, chosen int, files *seen) (e Entry) {
	e = Entry{Path: path, Kind: "NIfTI"}
	if itk.IsName(path) {
		e.Kind = "NRRD or MetaImage"
	}
	h, err := readFileHeader(path)
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	if h.nifti != nil {
		files.add(h.nifti)
	}
	e.Kind, e.Dtype, e.LabelNames = h.kind, h.datatype, h.names
	e.setGrid(h.Grid)
	e.Shape = slices.Clone(h.dims)
	e.Problems = append(e.Problems, h.problems...)
	e.volumes = h.volumes
	defer e.tellBehind(h)
	need := h.extentOf(chosen == 0).bytes()
	if e.calledLabels() || len(h.segments) > 0 { // which may be read once more, as labels
		need += h.labelsAtOnce()
	}
	release, err := memory.Take(context.Background(), need)
	if err != nil {
		e.survey(h, chosen, err)
		return e
	}
	defer release()
	if h.volumes > 1 && chosen == 0 {
		e.several = true
		all, err := h.readAll(path, nifti.Options{})
		if err != nil {
			e.cannotBeRead(err)
		}
		e.setValues(all...)
		if e.calledLabels() || len(h.segments) > 0 {
			e.takeLabels()
		}
		return e
	}
	spare := spares.Get().(*[]int16)
	defer spares.Put(spare)
	v, err := h.read(path, nifti.Options{Volume: chosen, Into: *spare})
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	if n := len(v.Int16); n > cap(*spare) && n <= 16<<20 {
		*spare = v.Int16
	}
	e.setValues(v)
	if e.calledLabels() {
		e.countNamed(v)
	} else {
		e.countFew(v)
		e.doubts = doubtsAboutGrid(v.Grid)
		e.Problems = append(e.Problems, e.doubts...)
		e.unlikeHU, e.like = doubtsAbout(v), likenessOf(v)
	}
	e.mayBeLabels = nifti.VolumeMayBeLabels(v)
	return e
}

// nameMask calls the label of a mask by the name of its structure, whatever number it has. With
// several labels a file is no mask.
func (e *Entry) nameMask(name string) {
	labels := slices.DeleteFunc(slices.Collect(maps.Keys(e.Labels)), func(label uint16) bool { return label == 0 })
	if len(labels) == 1 {
		e.LabelNames = map[uint16]string{labels[0]: name}
	}
}

// about removes the entry's path from a message, because the table shows it anyway.
func (e *Entry) about(message string) string {
	for _, operation := range []string{"open ", "stat ", ""} { // of the file system
		message = strings.TrimPrefix(message, operation+e.Path+": ")
	}
	return strings.ReplaceAll(message, e.Path+string(filepath.Separator), "")
}

// calledLabels says whether a file holds labels by its name.
func (e *Entry) calledLabels() bool {
	return parseName(filepath.Join(filepath.Base(filepath.Dir(e.Path)), filepath.Base(e.Path))).labels
}

// takeLabels counts the labels of a file by the rule that preparing follows. What it refuses is a
// problem.
func (e *Entry) takeLabels() {
	l, _, err := readLabelFile(e.Path, DefaultReadOptions(), nil, nil)
	e.several, e.asLabels = false, true
	e.Problems = slices.DeleteFunc(e.Problems, func(p string) bool { return slices.Contains(e.doubts, p) })
	if err != nil {
		e.problem("its labels cannot be read: %s", e.about(err.Error()))
		return
	}
	e.Labels = l.Counts()
	if l.Names != nil {
		e.LabelNames = l.Names
	}
}

// countNamed counts the labels of a file that is called labels, and has been read as a volume.
// Whole numbers from 0 on are labels; what others are, reading them as labels tells.
func (e *Entry) countNamed(v *volume.Volume) {
	table := countWhole(v)
	if v.Int16 == nil || table == nil {
		e.takeLabels()
		return
	}
	e.setLabels(table)
}

// fewLabels is how many values a file of labels may have whose name does not say that it is one.
const fewLabels = 128

// countFew counts the labels of a file of whole numbers from 0 on, if these are few.
func (e *Entry) countFew(v *volume.Volume) {
	table := countWhole(v)
	different := len(table) - len(slices.DeleteFunc(slices.Clone(table), func(n int) bool { return n > 0 }))
	if table != nil && different <= fewLabels && table[0] > 0 && !strings.HasPrefix(e.Dtype, "float") {
		e.setLabels(table)
	}
}

// setLabels takes the voxels of each label, from 0 on.
func (e *Entry) setLabels(table []int) {
	e.Labels = map[uint16]int{}
	for label, n := range table {
		if n > 0 {
			e.Labels[uint16(label)] = n
		}
	}
}

// countWhole counts the voxels of each value, from 0 to the largest; nil where any is no whole
// number up to 65535.
func countWhole(v *volume.Volume) (table []int) {
	count := func(x float32) bool {
		if x < 0 || x > math.MaxUint16 || x != float32(math.Trunc(float64(x))) {
			return false
		}
		if grow := int(x) + 1 - len(table); grow > 0 {
			table = append(table, make([]int, grow)...)
		}
		table[int(x)]++
		return true
	}
	for _, x := range v.Int16 {
		if !count(float32(x)) {
			return nil
		}
	}
	for _, x := range v.Float32 {
		if !count(x) {
			return nil
		}
	}
	return table
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

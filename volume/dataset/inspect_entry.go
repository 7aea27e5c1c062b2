package dataset

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: an entry, which says what was found out about a file or a series.

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

	structures []quality.Structure // of labels that were read whole
}

// Kinds of entries: DICOM series, those that are scout views, files that are no scan. Those of
// others are what their format calls itself.
const (
	KindDICOM     = "DICOM"
	KindLocalizer = "DICOM localizer"
	KindUnknown   = "unknown"
)

func (e *Entry) problem(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

// cannotBeRead is the problem that ends all looking.
func (e *Entry) cannotBeRead(err error) {
	e.Unreadable = true
	e.problem("%s", e.about(err.Error()))
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
func (e *Entry) tellBehind(h *format.Header) {
	if own, can := h.Own.(interface{ Behind() string }); can && own.Behind() != "" {
		e.problem("%s", own.Behind())
	}
}

// inspectFile describes a file of voxels, of several volumes the one that is chosen, or all.
func inspectFile(path string, chosen int, files *seen) (e Entry) {
	e = Entry{Path: path, Kind: format.Name(path)}
	h, err := format.ReadHeader(path)
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	files.add(h)
	e.Kind, e.Dtype, e.LabelNames = h.Kind, h.Datatype, h.Names
	e.setGrid(h.Grid)
	e.Shape = slices.Clone(h.Dims)
	e.Problems = append(e.Problems, h.Problems...)
	e.volumes = h.Volumes
	defer e.tellBehind(h)
	need := extentOf(h, chosen == 0).bytes()
	if e.calledLabels() || len(h.Segments) > 0 { // which may be read once more, as labels
		need += labelsAtOnce(h)
	}
	release, err := memory.Take(context.Background(), need)
	if err != nil {
		e.survey(h, chosen, err)
		return e
	}
	defer release()
	if h.Volumes > 1 && chosen == 0 {
		e.several = true
		all, err := h.ReadAll(format.Options{})
		if err != nil {
			e.cannotBeRead(err)
		}
		e.setValues(all...)
		if e.calledLabels() || len(h.Segments) > 0 {
			e.takeLabels(nil)
		}
		return e
	}
	spare := spares.Get().(*[]int16)
	defer spares.Put(spare)
	v, err := h.Read(format.Options{Volume: chosen, Into: *spare})
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
func (e *Entry) about(message string) string { return withoutPath(message, e.Path) }

// calledLabels says whether a file holds labels by its name.
func (e *Entry) calledLabels() bool {
	return parseName(filepath.Join(filepath.Base(filepath.Dir(e.Path)), filepath.Base(e.Path))).labels
}

// takeLabels counts the labels of a file by the rule that preparing follows, with the names that it
// would give them. What it refuses is a problem.
func (e *Entry) takeLabels(names map[uint16]string) {
	const refused = "its labels cannot be read: "
	l, _, err := readLabelFile(e.Path, DefaultReadOptions(), names, nil)
	e.several, e.asLabels = false, true
	e.Problems = slices.DeleteFunc(e.Problems,
		func(p string) bool { return slices.Contains(e.doubts, p) || strings.HasPrefix(p, refused) })
	if err != nil {
		e.problem(refused+"%s", e.about(err.Error()))
		return
	}
	e.Labels = l.Counts()
	e.structures = quality.Measure(l)
	if l.Names != nil {
		e.LabelNames = l.Names
	}
}

// countNamed counts the labels of a file that is called labels, and has been read as a volume.
// Whole numbers from 0 on are labels; what others are, reading them as labels tells.
func (e *Entry) countNamed(v *volume.Volume) {
	table := countWhole(v)
	if v.Int16 == nil || table == nil {
		e.takeLabels(nil)
		return
	}
	e.setLabels(table)
	l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, len(v.Int16))}
	for n, x := range v.Int16 {
		l.Labels[n] = uint16(x)
	}
	e.structures = quality.Measure(l)
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

// survey describes a volume that there is no memory for, piece by piece: its values and its labels.
// What else is odd about them is not looked at.
func (e *Entry) survey(h *format.Header, chosen int, tooLarge error) {
	own, can := h.Own.(interface {
		Survey(nifti.Options) (nifti.Survey, error)
	})
	if !can || h.Volumes > 1 && chosen == 0 {
		e.cannotBeRead(tooLarge)
		return
	}
	s, err := own.Survey(nifti.Options{Volume: chosen})
	if err != nil {
		e.cannotBeRead(err)
		return
	}
	e.problem("only looked at piece by piece: it %v", tooLarge)
	e.setStatistics(voxelStatistics{s.Statistics, h.Len()})
	few := len(s.Counts) - len(slices.DeleteFunc(slices.Clone(s.Counts), func(n int) bool { return n > 0 }))
	if s.Counts != nil && (e.calledLabels() || s.Counts[0] > 0 && few <= fewLabels) {
		e.setLabels(s.Counts)
	}
	e.mayBeLabels = s.Labels
}

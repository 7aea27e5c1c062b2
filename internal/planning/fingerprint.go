package planning

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: what is known of a set before anything is planned, and what a plan says of it.

// A Scan is one of the set. Sizes are along the axes (i, j, k).
type Scan struct {
	Spacing [3]float64 // mm, axes turned as cases are prepared
	Shape   [3]int     // of the part that is prepared, in these voxels
	Labels  bool
	// Body is the box of the body, or of what is not zero, in these voxels; of cases that are
	// prepared, what was prepared of the scan. Zeros: nobody has looked.
	Body [3]int
	// Cut says that [volume.Preparation] cuts the scan to the box where it does so by itself.
	Cut bool
	// Whole is the shape of the scan.
	Whole [3]int
	// Millilitres of each label.
	Millilitres map[uint16]float64
}

// share is how much of the scan its box has.
func (s Scan) share() float64 { return voxels(s.Body) / voxels(s.Whole) }

// looked says whether the box of the body is known.
func (s Scan) looked() bool { return s.Body != [3]int{} }

// at is the shape of the scan at a spacing, whose zeros leave an axis as it is.
func (s Scan) at(spacing [3]float64) (shape [3]int) {
	for a := range 3 {
		size := spacing[a]
		if size == 0 {
			size = s.Spacing[a]
		}
		shape[a] = max(int(math.Round(float64(s.Shape[a])*s.Spacing[a]/size)), 1)
	}
	return shape
}

// Intensities are the statistics of the values under the labels, as nnU-Net's fingerprint and its
// plans have them.
type Intensities struct {
	Max    float64 `json:"max" yaml:"max"`
	Mean   float64 `json:"mean" yaml:"mean"`
	Median float64 `json:"median" yaml:"median"`
	Min    float64 `json:"min" yaml:"min"`
	Low    float64 `json:"percentile_00_5" yaml:"percentile_00_5"`
	High   float64 `json:"percentile_99_5" yaml:"percentile_99_5"`
	SD     float64 `json:"std" yaml:"std"`
}

// A Channel is one of the scans'.
type Channel struct {
	Name        string      `yaml:"name,omitempty"`
	Intensities Intensities `yaml:",inline"`
}

// A Fingerprint is what is known of a set before anything is planned.
type Fingerprint struct {
	Scans     []Scan
	Modality  string
	Intensity string // scheme
	// ChannelNames are those of several channels, as [volume.Preparation] has them
	ChannelNames string
	Channels     int
	Classes      int        // with the background
	Ready        bool       // the cases are prepared already
	Prepared     [3]float64 // spacing of those; zeros: none is, or each has its own
	Patients     int        // of the scans with labels; 0: unknown, each scan is of another one
	Limit        int64      // bytes of memory; 0: unknown
	Puzzles      Puzzles
	// Brought is a plan that somebody has brought; nil: all is decided by the rules here
	Brought *Brought
	Encoder *Encoder          // of nnU-Net's network that is planned; nil: the default network is
	Names   map[uint16]string // of labels
	// Under are the intensities under the labels, of each channel; nil: nobody has looked, or
	// there are none. Values says what values they are.
	Under  []Channel
	Values string
	// Window is what the window of HU keeps, and Within the share of the first channel's values
	// under the labels that lie inside of it.
	Window [2]float64
	Within float64
}

// An Extent is the sizes of a set along (i, j, k).
type Extent struct {
	Least  [3]float64 `yaml:"least,flow"`
	Median [3]float64 `yaml:"median,flow"`
	Most   [3]float64 `yaml:"most,flow"`
}

// A Structure is what a label marks.
type Structure struct {
	Label uint16 `yaml:"label"`
	Name  string `yaml:"name,omitempty"`
	Scans int    `yaml:"scans" help:"that show it"`
	// millilitres in those
	Least  float64 `yaml:"least_ml"`
	Median float64 `yaml:"median_ml"`
	Most   float64 `yaml:"most_ml"`
}

// Facts are what a plan says of the set that it is for.
type Facts struct {
	Modality string `yaml:"modality"`
	Channels int    `yaml:"channels" help:"of a scan"`
	Spacing  Extent `yaml:"spacing" help:"of the scans, mm"`
	Shape    Extent `yaml:"shape" help:"of the scans, voxels"`
	// Body is nil where nobody has looked.
	Body      *Extent     `yaml:"body,omitempty" help:"box of the body or of what is not zero, mm"`
	BodyShare float64     `yaml:"body_share,omitempty" help:"of the scan's voxels in that box, in the median"`
	Values    string      `yaml:"values" help:"that intensities are of"`
	Under     []Channel   `yaml:"intensities,omitempty" help:"under the labels, each scan counted alike"`
	Labels    []Structure `yaml:"structures,omitempty" help:"sizes of what the labels mark"`
}

// Facts sums the fingerprint up.
func (f Fingerprint) Facts() Facts {
	facts := Facts{Modality: f.Modality, Channels: f.Channels, Values: f.Values}
	for _, c := range f.Under {
		facts.Under = append(facts.Under, Channel{c.Name, c.Intensities.rounded()})
	}
	facts.Spacing = f.extent(func(s Scan, a int) float64 { return s.Spacing[a] })
	facts.Shape = f.extent(func(s Scan, a int) float64 { return float64(s.Whole[a]) })
	if f.looked() {
		body := f.extent(func(s Scan, a int) float64 { return float64(s.Body[a]) * s.Spacing[a] })
		facts.Body, facts.BodyShare = &body, significant(f.bodyShare())
	}
	of := map[uint16][]float64{}
	for _, s := range f.Scans {
		for label, ml := range s.Millilitres {
			of[label] = append(of[label], ml)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(of)) {
		facts.Labels = append(facts.Labels, Structure{label, f.Names[label], len(of[label]),
			significant(slices.Min(of[label])), significant(percentile(of[label], 50)),
			significant(slices.Max(of[label]))})
	}
	return facts
}

func (f Fingerprint) extent(of func(s Scan, a int) float64) (e Extent) {
	for a := range 3 {
		var all []float64
		for _, s := range f.Scans {
			all = append(all, of(s, a))
		}
		e.Least[a], e.Most[a] = significant(slices.Min(all)), significant(slices.Max(all))
		e.Median[a] = significant(percentile(all, 50))
	}
	return e
}

// looked says whether the box of the body is known of all scans.
func (f Fingerprint) looked() bool {
	return len(f.Scans) > 0 && !slices.ContainsFunc(f.Scans, func(s Scan) bool { return !s.looked() })
}

// bodyShare is the median of the scans'.
func (f Fingerprint) bodyShare() float64 {
	var all []float64
	for _, s := range f.Scans {
		all = append(all, s.share())
	}
	return percentile(all, 50)
}

func (i Intensities) rounded() Intensities {
	for _, x := range []*float64{&i.Max, &i.Mean, &i.Median, &i.Min, &i.Low, &i.High, &i.SD} {
		*x = significant(*x)
	}
	return i
}

// significant is a number with six digits.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func voxels(shape [3]int) float64 { return product(extents(shape)) }

// Labelled counts the scans with labels.
func (f Fingerprint) Labelled() (n int) {
	for _, s := range f.Scans {
		if s.Labels {
			n++
		}
	}
	return n
}

// folds is how many folds the scans with labels are divided into, whose patients stay together.
func (f Fingerprint) folds() int {
	if n := f.Labelled(); f.Patients == 0 || n < f.Patients {
		return min(mostFolds, n)
	}
	return min(mostFolds, f.Patients)
}

// What of a scan is prepared, in the words of [volume.Preparation].
const (
	cropBody = "body"
	cropAuto = "auto"
)

// part decides what of each scan is prepared, and makes their shapes those of it.
func (p *Plan) part(f Fingerprint) Fingerprint {
	const what = "part of a scan"
	if f.Ready {
		p.decide(what, "as prepared", "the cases are prepared already: their box was %.0f %% of a scan in "+
			"the median",
			100*f.bodyShare())
		return f
	}
	if !f.looked() {
		p.Crop = cropAuto
		p.decide(what, p.Crop, "headers do not tell where the body is: shapes are those of whole scans")
		return f
	}
	const nonzero = "voxels that are not zero"
	share := math.Round(100 * f.bodyShare())
	if f.Brought != nil {
		p.Crop = f.Brought.Crop
		f.Scans = slices.Clone(f.Scans)
		for n, s := range f.Scans {
			f.Scans[n].Shape = s.Body
		}
		p.decide(what, p.Crop, "%s has it; the box of the %s is %.0f %% of a scan in the median, and what follows "+
			"is of the boxes", f.Brought.Name, nonzero, share)
		return f
	}
	box := "body"
	if f.Modality != "CT" {
		box = nonzero
	}
	small := 0
	for _, s := range f.Scans {
		if s.Cut {
			small++
		}
	}
	p.Crop = cropAuto
	if 2*small > len(f.Scans) {
		p.Crop = cropBody
	}
	f.Scans = slices.Clone(f.Scans)
	for n, s := range f.Scans {
		if p.Crop == cropBody || s.Cut {
			f.Scans[n].Shape = s.Body
		}
	}
	switch {
	case p.Crop == cropBody:
		p.decide(what, p.Crop,
			"the box of the %s is %.0f %% of a scan in the median, and in %d of %d it leaves out a quarter or "+
				"more: all are cut to it, and what follows is of the boxes",
			box, share, small, len(f.Scans))
	case small > 0:
		p.decide(what, p.Crop,
			"the box of the %s is %.0f %% of a scan in the median: those %d of %d in which it leaves out a quarter "+
				"or more are cut to it, and count with their boxes",
			box, share, small, len(f.Scans))
	default:
		p.decide(what, p.Crop,
			"the box of the %s is %.0f %% of a scan in the median, and leaves out a quarter in none: all of each "+
				"is prepared, but of later scans with more around the body",
			box, share)
	}
	return f
}

// The schemes of intensities that a plan chooses between, in the words of [volume.Preparation].
const (
	ctWindow      = "ct-window"
	ctPercentiles = "ct-percentiles"
	zscore        = "zscore"
	zscoreNonzero = "zscore-nonzero"
)

// mostClipped is the largest share of the values under the labels that the usual window may clip.
const mostClipped = 0.05

// SmallBoxes is the median share of the scans that is not zero, below which nnU-Net standardises
// that alone.
const SmallBoxes = 3 / 4.

// intensities decides on the scheme.
func (p *Plan) intensities(f Fingerprint) {
	p.Intensity = f.Intensity
	window := fmt.Sprintf("the window of %g to %g HU", f.Window[0], f.Window[1])
	under := ""
	if len(f.Under) > 0 {
		i := f.Under[0].Intensities.rounded()
		under = fmt.Sprintf("; under the labels, 99 of 100 values lie from %g to %g", i.Low, i.High)
	}
	clipped := math.Round(100 * (1 - f.Within))
	atLeast := "" // to resample mixes what is clipped with what is not, and hides it
	if f.Ready && f.Prepared != [3]float64{} {
		atLeast = "at least "
	}
	several := f.Channels > 1
	var because string
	switch {
	case f.Brought != nil && !f.Ready:
		p.Intensity, p.Foreground = f.Brought.Intensity, f.Brought.Foreground
		because = f.Brought.Name + " has it" + under
	case f.Ready && f.Intensity == ctWindow && len(f.Under) > 0 && f.Within < 1-mostClipped:
		because = fmt.Sprintf("the cases are prepared with it; %s clips %s%.0f %% of the values under the labels: "+
			"from the scans it would be %s",
			window, atLeast, clipped, ctPercentiles)
	case f.Ready:
		because = "the cases are prepared with it" + under
		if atLeast != "" && f.Intensity == ctWindow && len(f.Under) > 0 {
			because += "; how many it clipped cannot be seen in cases that were resampled after that: " +
				"voxsaw plan of the scans tells"
		}
	case several:
		because = "each channel has the usual one of what it is" + under
	case f.Modality == "CT" && len(f.Under) == 0:
		because = "the values of CT are Hounsfield units, which mean the same in every scan; no labels tell which " +
			"of them matter"
	case f.Modality == "CT" && f.Intensity == ctWindow && f.Within < 1-mostClipped:
		p.Intensity = ctPercentiles
		p.Foreground = foregroundOf(f.Under[0].Intensities)
		because = fmt.Sprintf("%s would clip %.0f %% of the values under the labels%s: nnU-Net's scheme, which "+
			"keeps these, by the labels of all scans, those that folds hold out among them",
			window, clipped, under)
	case f.Modality == "CT":
		because = fmt.Sprintf("the values of CT are Hounsfield units, which mean the same in every scan, and %s "+
			"clips %.0f %% of those under the labels%s",
			window, clipped, under)
	case f.looked() && f.Intensity == zscore && f.bodyShare() < SmallBoxes:
		p.Intensity = zscoreNonzero
		because = fmt.Sprintf("the values of %s have no unit, and what is not zero is %.0f %% of a scan in the "+
			"median: it alone is brought to the same mean and spread, as nnU-Net has it%s",
			f.Modality, 100*f.bodyShare(), under)
	default:
		because = fmt.Sprintf("the values of %s have no unit: each scan is brought to the same mean and spread%s",
			f.Modality, under)
	}
	p.decide("intensities", p.Intensity, "%s", because)
}

// foregroundOf are the statistics that [ctPercentiles] goes by, with as many digits as people write
// down; zeros where they cannot be: prepare then says why.
func foregroundOf(i Intensities) (f [4]float64) {
	for n, x := range []float64{i.Low, i.High, i.Mean, i.SD} {
		f[n] = math.Round(x*1e4) / 1e4
	}
	if !(f[0] < f[1] && f[0] <= f[2] && f[2] <= f[1] && f[3] > 0) {
		return [4]float64{}
	}
	return f
}

// Text says what the fingerprint has found, in a line for each.
func (f Facts) Text() (rows [][2]string) {
	add := func(what, text string, args ...any) { rows = append(rows, [2]string{what, fmt.Sprintf(text, args...)}) }
	rangeOf := func(e Extent) string {
		text := numbers.Extents(e.Median[:])
		if e.Least != e.Most {
			text += fmt.Sprintf(" (%s to %s)", numbers.Extents(e.Least[:]), numbers.Extents(e.Most[:]))
		}
		return text
	}
	add("spacing", "%s mm", rangeOf(f.Spacing))
	add("shape", "%s voxels", rangeOf(f.Shape))
	if f.Body != nil {
		add("box of the body", "%s mm, %.0f %% of a scan", rangeOf(*f.Body), 100*f.BodyShare)
	}
	for _, c := range f.Under {
		i, name := c.Intensities, "under the labels"
		if c.Name != "" {
			name += ", " + c.Name
		}
		add(name, "mean %g, SD %g, median %g, 0.5 to 99.5 percentile %g to %g, all %g to %g", i.Mean, i.SD, i.Median,
			i.Low, i.High, i.Min, i.Max)
	}
	if len(f.Under) == 0 {
		add("under the labels", "%s", f.Values)
	}
	if len(f.Labels) > 0 {
		byVolume := slices.SortedFunc(slices.Values(f.Labels),
			func(a, b Structure) int { return cmp.Compare(a.Median, b.Median) })
		text := func(s Structure) string {
			return fmt.Sprintf("%s, %g ml (%g to %g) in %s", cmp.Or(s.Name, fmt.Sprintf("label "+
				"%d", s.Label)), s.Median, s.Least, s.Most,
				numbers.Count(s.Scans, "scan"))
		}
		if n := len(byVolume); n > 1 {
			add("structures", "%d: from %s, to %s", n, text(byVolume[0]), text(byVolume[n-1]))
		} else {
			add("structures", "%s", text(byVolume[0]))
		}
	}
	return rows
}

package volume

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Preparation says what is done to a scan before a network sees it: take the box with the patient,
// turn its axes, resample it, clip and scale its values. It can be undone for label maps,
// so that a prediction lies on the voxels of the scan it was made from.
type Preparation struct {
	// what of a scan is prepared: the box of the patient, found from the image; the whole scan; the
	// box where it leaves out at least a quarter of the scan; or the box of what is not 0 in any
	// channel, as nnU-Net does
	//
	// Crop is empty where the whole scan is taken, too.
	Crop string `yaml:"crop" json:"crop,omitempty" oneof:"body none auto nonzero"`
	// where the axes of prepared cases grow to; or the axes of each file as they are, in an order,
	// such as ijk
	Axcodes string `yaml:"axcodes" json:"axcodes"`
	// voxel size in mm along these axes, such as 1.5x1.5x3; median: the median of all scans along
	// each axis; own, or 0: each scan keeps its own
	Spacing [3]float64 `yaml:"spacing,flow" json:"spacing" words:"own=0 median=-1"`
	// what the scans are: CT, MR, PT or another of DICOM's words; empty: as headers, dataset.json,
	// names and values say. Of a set of several modalities, the cases of this one are prepared
	//
	// Modality is empty for CT, and Intensity for ct-window.
	Modality string `yaml:"modality,omitempty" json:"modality,omitempty"`
	// what a network sees of a scan's values: ct-window clips HU to window, which becomes [-1, 1];
	// ct-percentiles clips HU to the 0.5 and 99.5 percentile of all labelled voxels and
	// standardises them by their mean and standard deviation, as nnU-Net does; zscore standardises
	// each scan by itself; zscore-nonzero leaves out what is 0 around the patient; percentiles
	// makes the scan's own 0.5 to 99.5 percentile [-1, 1]; empty: ct-window for CT, zscore for all
	// else
	Intensity string `yaml:"intensity,omitempty" json:"intensity,omitempty"`
	// range of HU that ct-window keeps
	Window [2]float64 `yaml:"window,flow" json:"window" range:"(,)"`
	// of ct-percentiles: the 0.5 and 99.5 percentile, the mean and the standard deviation, HU;
	// zeros: those of the labelled voxels of these scans
	Foreground [4]float64 `yaml:"foreground,flow,omitempty" json:"foreground,omitzero" range:"(,)"`
	// how images are resampled
	Interpolation string `yaml:"interpolation" json:"interpolation" oneof:"linear cubic"`
	// names of the channels of each scan, in order, with commas between them: contrasts of BIDS
	// (T1w,FLAIR), what names of files or folders end in (CT,PET), DICOM series by modality (CT,PT)
	// or by words (T1w,description~t2), volumes of 4D files; modality and intensity then take a
	// word for each. Empty: all that dataset.json names, else one
	//
	// Channels is empty for scans of one channel: see [Preparation.Channel].
	Channels string `yaml:"channels,omitempty" json:"channels,omitempty"`
	// the voxels that channels of zscore-nonzero are standardised over: common, those that are not
	// 0 in any channel, and what they enclose; empty: of each channel its own
	//
	// Masks is empty for one channel, too.
	Masks string `yaml:"masks,omitempty" json:"masks,omitempty" flag:"-" oneof:"common"`
	// labels to merge or drop: 2:1 makes 2 into 1, 3:1,*:0 makes 3 into 1 and all others background
	Relabel string `yaml:"relabel" json:"relabel,omitempty"`
}

// MasksCommon is the mask of channels that [Preparation.WithMasks] chooses.
const MasksCommon = "common"

// What [Preparation] may take of a scan.
const (
	CropBody = "body" // the box of the patient, see [Volume.Body]
	CropNone = "none" // the whole scan
	CropAuto = "auto" // the box where it leaves out at least a quarter of the voxels
	// the box of what is not 0 in any channel, see [Volume.Nonzero]
	CropNonzero = "nonzero"
)

// Median stands for a voxel size that is yet to be chosen for a whole set of scans: their median
// along that axis. prepare.Run does so; a preparation of one scan has a number there.
const Median = -1.0

// AllMedian is the spacing that is chosen for a set of scans along every axis.
func AllMedian() [3]float64 { return [3]float64{Median, Median, Median} }

// Choosing tells whether a spacing is yet to be chosen along any axis.
func (p Preparation) Choosing() bool { return slices.Contains(p.Spacing[:], Median) }

// Choose is the preparation with the given spacing along the axes that have none yet.
func (p Preparation) Choose(spacing [3]float64) Preparation {
	for axis, s := range p.Spacing {
		if s == Median {
			p.Spacing[axis] = spacing[axis]
		}
	}
	return p
}

// worthCropping is the largest share of a scan that a box may keep for CropAuto to use it.
const worthCropping = 0.75

// DefaultPreparation is the usual one of pancreas segmentation: the patient's box where there is
// much air around it, RAS, the scan's own spacing, HU from -125 to 275. For a set of scans, give it
// one spacing: [AllMedian].
func DefaultPreparation() Preparation {
	return Preparation{Crop: CropAuto, Axcodes: "RAS", Window: [2]float64{-125, 275}, Interpolation: "linear"}
}

// Check says what is wrong with the settings.
func (p Preparation) Check() error {
	if !slices.Contains([]string{"", CropNone, CropBody, CropAuto, CropNonzero}, p.Crop) {
		return fmt.Errorf("crop %q: must be body, none, auto or nonzero", p.Crop)
	}
	if p.Masks != "" && p.Masks != MasksCommon {
		return fmt.Errorf("masks %q: must be %s, or empty", p.Masks, MasksCommon)
	}
	if _, _, err := parseAxcodes(p.Axcodes); err != nil && !isFile(p.Axcodes) {
		return err
	}
	for _, s := range p.Spacing {
		if !(s >= 0) || math.IsInf(s, 0) {
			return fmt.Errorf("spacing %gx%gx%g mm: must be positive, or 0 (own) to keep the scan's "+
				"own; median is chosen for a set of scans", p.Spacing[0], p.Spacing[1], p.Spacing[2])
		}
	}
	if low, high := p.Window[0], p.Window[1]; !(low < high) || low < math.MinInt16 || high > math.MaxInt16 ||
		low != math.Trunc(low) || high != math.Trunc(high) {
		return fmt.Errorf("window %g,%g: needs two whole numbers of HU, the lower first", low, high)
	}
	if err := p.checkChannels(); err != nil {
		return err
	}
	method, err := ParseInterpolation(p.Interpolation)
	if err != nil {
		return err
	}
	if method == Nearest {
		return fmt.Errorf("interpolation %s: images are resampled by linear or cubic", p.Interpolation)
	}
	_, err = p.relabelling()
	return err
}

// Bounds says what of a scan is prepared. Further channels lie on its voxels: where the scan is no
// CT, the box holds what is not 0 in any of the channels, as nnU-Net's.
func (p Preparation) Bounds(v *Volume, more ...*Volume) (Bounds, error) {
	for _, channel := range append([]*Volume{v}, more...) {
		if err := channel.Check(); err != nil {
			return Bounds{}, err
		}
		if channel.Shape != v.Shape {
			return Bounds{}, fmt.Errorf("a further channel has %v voxels, the first %v",
				numbers.Extents(channel.Shape[:]), numbers.Extents(v.Shape[:]))
		}
	}
	switch p.Crop {
	case CropNonzero:
		return v.Nonzero(more...), nil
	case CropBody, CropAuto:
	default:
		return v.Whole(), nil
	}
	body := v.Body()
	if p.ModalityName() != ModalityCT { // whose air is no HU
		body = v.Nonzero(more...)
	}
	if p.Crop == CropAuto && body.Share() > worthCropping {
		return v.Whole(), nil
	}
	return body, nil
}

// Grid returns the grid that a scan on g is prepared to, or a box of a scan: see [Bounds.Grid].
func (p Preparation) Grid(g Grid) (Grid, error) {
	oriented, err := g.Oriented(p.Axcodes)
	if err != nil {
		return Grid{}, err
	}
	return oriented.Resampled(p.Spacing)
}

// Prepared is a scan as [Preparation.Apply] makes it: whole numbers, whose meaning is
// [Preparation.Intensities] of its levels.
type Prepared struct {
	*Volume
	Levels *Levels // of this scan; nil where the preparation says those of all
}

// Apply prepares the box of a scan that [Preparation.Bounds] names: the result holds int16 on
// [Preparation.Grid] of the box's grid. With a window of HU they are HU within it, and otherwise
// steps of what the network sees. A scan of one value is a [BlankError] where its values are
// standardised. Channels of one scan that leave out what is 0 share a [Preparation.Mask]: see
// [Preparation.ApplyMasked].
func (p Preparation) Apply(v *Volume, bounds Bounds) (*Prepared, error) {
	return p.ApplyMasked(v, bounds, nil)
}

// ApplyMasked is [Preparation.Apply] of one of the channels of a scan, which have a mask.
func (p Preparation) ApplyMasked(v *Volume, bounds Bounds, mask []bool) (*Prepared, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.NeedsForeground() {
		return nil, fmt.Errorf("the intensities of %s need those of labelled voxels, which are not known",
			CTPercentiles)
	}
	if err := v.Check(); err != nil {
		return nil, err
	}
	if err := bounds.of(v.Grid); err != nil {
		return nil, err
	}
	if n := bounds.Size[0] * bounds.Size[1] * bounds.Size[2]; mask != nil && len(mask) != n {
		return nil, fmt.Errorf("a mask of %d voxels for a box of %d", len(mask), n)
	}
	if !bounds.IsWhole() {
		var err error
		if v, err = v.Crop(bounds.Origin, bounds.Size, 0); err != nil {
			return nil, err
		}
	}
	method, err := ParseInterpolation(p.Interpolation)
	if err != nil {
		return nil, err
	}
	// Values are clipped first. Otherwise interpolation would smear metal at 3000 HU over its
	// neighbours, and ring around it.
	var o *Volume
	var own *Levels
	if p.scheme().step == 0 {
		o, err = v.Window(p.Window[0], p.Window[1])
	} else {
		o, own, err = p.standardised(v, mask)
	}
	if err != nil {
		return nil, err
	}
	if o, err = o.Orient(p.Axcodes); err != nil {
		return nil, err
	}
	if o, err = o.Resample(p.Spacing, method); err != nil {
		return nil, err
	}
	values := o.Int16
	if values == nil {
		values = make([]int16, len(o.Float32))
		blocks(len(values), func(from, to int) {
			for n := from; n < to; n++ {
				values[n] = toInt16(o.Float32[n])
			}
		})
	}
	how := p.Intensities(own)
	low, high := how.Floor, how.Ceiling
	blocks(len(values), func(from, to int) { // cubic interpolation overshoots
		for n, x := range values[from:to] {
			values[from+n] = min(max(x, low), high)
		}
	})
	return &Prepared{&Volume{Grid: o.Grid, Int16: values}, own}, nil
}

// A GeometryError says that an image and its labels do not lie on each other.
type GeometryError struct{ Image, Labels Grid }

func (e *GeometryError) Error() string {
	describe := func(g Grid) string {
		s, p := g.Spacing(), g.World([3]float64{})
		return fmt.Sprintf("%dx%dx%d voxels of %.4gx%.4gx%.4g mm, %s, from (%.1f, %.1f, %.1f)",
			g.Shape[0], g.Shape[1], g.Shape[2], s[0], s[1], s[2], g.Axcodes(), p[0], p[1], p[2])
	}
	if by, ok := e.Image.shifted(e.Labels); ok {
		return fmt.Sprintf("labels lie on a part of the image, but between its voxels: (%.2f, %.2f, %.2f) of a voxel "+
			"beside them along i, j and k: the image has %s; the labels have %s. Resample the labels onto the "+
			"image's voxels, or mend the header that is wrong",
			by[0], by[1], by[2], describe(e.Image), describe(e.Labels))
	}
	where := ""
	if f, err := e.Image.fit(e.Labels); err == nil {
		spacing := e.Image.Spacing()
		axis := 0
		for a := range 3 {
			if f.apart(a) > f.apart(axis) {
				axis = a
			}
		}
		where = fmt.Sprintf("along %c (%c) their edges lie %.4g mm apart, more than half a voxel, %.4g mm: ",
			"ijk"[axis], e.Image.Axcodes()[axis], f.by[axis]*spacing[axis], f.larger[axis]*spacing[axis]/2)
	}
	return fmt.Sprintf("image and labels do not fill the same box: %sthe image has %s; the labels have %s. Resample "+
		"the labels onto the image's voxels, or mend the header that is wrong",
		where, describe(e.Image), describe(e.Labels))
}

// Match says how labels on grid l lie on an image's grid g:
//
//   - exact: each label voxel is an image voxel, perhaps with axes permuted or flipped.
//   - not exact: l has other voxels in the same box, so that the labels can be resampled.
//   - Anything else is a [GeometryError].
//
// Along each axis, corresponding voxels may lie half a voxel of the image apart, and the edges of
// the boxes half a voxel of the grid with the larger voxels.
func (g Grid) Match(l Grid) (exact bool, err error) {
	f, err := g.fit(l)
	if err != nil || !(max(f.apart(0), f.apart(1), f.apart(2)) <= 0.5) {
		return false, &GeometryError{Image: g, Labels: l}
	}
	return f.grid.Shape == g.Shape && max(f.by[0], f.by[1], f.by[2]) <= 0.5, nil
}

// fit compares a grid, with its axes reordered to match, with another.
type fit struct {
	grid Grid // with its axes reordered
	// how far corresponding corners of the two boxes lie apart, at most: along each axis of the
	// other grid, in voxels of it
	by [3]float64
	// size of the larger voxel along each axis, in voxels of the other grid: 1 or more
	larger [3]float64
}

// apart is how far the boxes lie apart along an axis, in voxels of the grid with the larger ones.
func (f fit) apart(axis int) float64 { return f.by[axis] / f.larger[axis] }

// fit compares l with g, the axes of l either reordered like those of g or left as they are,
// whichever fits better: for axes that point half-way between two others, the order is arbitrary.
func (g Grid) fit(l Grid) (best fit, err error) {
	inverse, err := g.Affine.Inverse()
	if err != nil {
		return fit{}, err
	}
	own, least := g.Spacing(), math.Inf(1)
	for _, codes := range []string{l.Axcodes(), g.Axcodes()} {
		turned, err := l.Oriented(codes)
		if err != nil {
			return fit{}, err
		}
		f, spacing := fit{grid: turned}, turned.Spacing()
		a, b := g.Corners(), turned.Corners()
		for n := range a {
			p, q := inverse.Apply(a[n]), inverse.Apply(b[n])
			for axis := range 3 {
				f.by[axis] = max(f.by[axis], math.Abs(p[axis]-q[axis]))
			}
		}
		for axis := range 3 {
			f.larger[axis] = max(1, spacing[axis]/own[axis])
		}
		if worst := max(f.apart(0), f.apart(1), f.apart(2)); worst < least {
			best, least = f, worst
		}
	}
	return best, nil
}

// Misalignment returns how far the voxels of a grid that matches exactly (see [Grid.Match]) lie off
// those of g, at most: along one axis of g, in voxels, up to a half.
func (g Grid) Misalignment(l Grid) float64 {
	f, err := g.fit(l)
	if err != nil {
		return math.Inf(1)
	}
	return max(f.by[0], f.by[1], f.by[2])
}

// ApplyLabels prepares the labels of a scan like the scan itself. They may be sampled in another
// way than the scan, but must fill the same box as all of it: otherwise the error is a
// [GeometryError]. They are merged and dropped as Relabel says, then brought onto the prepared
// voxels as [LabelMap.ResampleTo] does.
func (p Preparation) ApplyLabels(l *LabelMap, bounds Bounds) (*LabelMap, error) {
	like := bounds.Scan
	if err := bounds.Check(); err != nil {
		return nil, err
	}
	if err := l.Check(); err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	exact, err := like.Match(l.Grid)
	if err != nil {
		return nil, err
	}
	target, err := p.Grid(bounds.Grid())
	if err != nil {
		return nil, err
	}
	o := l
	if exact {
		// Headers agree up to rounding; the image's counts.
		f, err := like.fit(l.Grid)
		if err != nil {
			return nil, err
		}
		if o, err = l.Orient(f.grid.Axcodes()); err != nil {
			return nil, err
		}
		o = &LabelMap{Grid: like, Labels: o.Labels, Names: l.Names, Undrawn: l.Undrawn, Emptied: l.Emptied}
	}
	// Labels that become one are one where voxels are shared among labels.
	if o, err = p.Merge(o); err != nil {
		return nil, err
	}
	return o.ResampleTo(target)
}

// Restore puts a label map on the prepared grid back onto the grid of the scan, as
// [LabelMap.ResampleTo] does; beyond the box there is background. Where nothing was resampled,
// that is exact. Where class probabilities are known, interpolating them loses less: see
// [Preparation.Restoration].
func (p Preparation) Restore(l *LabelMap, bounds Bounds) (*LabelMap, error) {
	if err := bounds.Check(); err != nil {
		return nil, err
	}
	want, err := p.Grid(bounds.Grid())
	if err != nil {
		return nil, err
	}
	if l.Shape != want.Shape {
		return nil, fmt.Errorf("restoring labels: %v voxels, where the scan is prepared to %v",
			numbers.Extents(l.Shape[:]), numbers.Extents(want.Shape[:]))
	}
	o := &LabelMap{Grid: want, Labels: l.Labels, Names: l.Names, Undrawn: l.Undrawn, Emptied: l.Emptied}
	if o, err = o.ResampleTo(bounds.Grid()); err != nil || bounds.IsWhole() {
		return o, err
	}
	var back [3]int
	for a, n := range bounds.Origin {
		back[a] = -n
	}
	o.Labels = crop(o.Labels, o.Shape, back, bounds.Scan.Shape, 0)
	o.Grid = bounds.Scan
	return o, nil
}

// Merge merges and drops labels as Relabel says. Names go with the labels that keep their number.
// Ignored labels do that where no rule names them.
func (p Preparation) Merge(l *LabelMap) (*LabelMap, error) {
	table, err := p.relabelling()
	if err != nil || table == nil {
		return l, err
	}
	p.keepIgnored(table, l.Names)
	o := &LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels))}
	blocks(len(o.Labels), func(from, to int) {
		for n := from; n < to; n++ {
			o.Labels[n] = table[l.Labels[n]]
		}
	})
	if o.Names, err = p.RelabelNames(l.Names); err == nil {
		drawn := map[uint16]bool{}
		for _, label := range l.Emptied {
			drawn[table[label]] = table[label] != 0
		}
		maps.DeleteFunc(drawn, func(_ uint16, is bool) bool { return !is })
		o.Emptied = EmptiedOf(drawn, o.Labels)
		o.Undrawn, err = p.RelabelUndrawn(slices.Sorted(maps.Keys(l.Names)), l.Undrawn)
	}
	return o, err
}

// keepIgnored makes an exception of ignored labels: a rule for all others is for structures.
func (p Preparation) keepIgnored(table []uint16, names map[uint16]string) {
	for _, label := range IgnoredLabels(names) {
		if !slices.Contains(p.Relabelled(), label) {
			table[label] = label
		}
	}
}

// RelabelNames are the names of labels that keep their number where labels are merged and dropped
// as Relabel says.
func (p Preparation) RelabelNames(names map[uint16]string) (map[uint16]string, error) {
	left := maps.Clone(names)
	table, err := p.relabelling()
	if err != nil || table == nil {
		return left, err
	}
	p.keepIgnored(table, names)
	maps.DeleteFunc(left, func(label uint16, _ string) bool { return table[label] != label })
	return left, nil
}

// RelabelUndrawn says which labels nobody drew once labels are merged and dropped as Relabel says:
// those that are made of undrawn ones alone. labels are all that are known, the undrawn among them
// or not.
func (p Preparation) RelabelUndrawn(labels, undrawn []uint16) ([]uint16, error) {
	table, err := p.relabelling()
	if err != nil || table == nil {
		return undrawn, err
	}
	drawn := map[uint16]bool{0: true} // the background is never missing
	for _, label := range labels {
		if !slices.Contains(undrawn, label) {
			drawn[table[label]] = true
		}
	}
	var left []uint16
	for _, label := range undrawn {
		if !drawn[table[label]] {
			left = append(left, table[label])
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

// Relabelled lists the labels that Relabel names, * aside.
func (p Preparation) Relabelled() (labels []uint16) {
	for _, rule := range strings.Split(p.Relabel, ",") {
		from, _, _ := strings.Cut(strings.TrimSpace(rule), ":")
		if label, err := strconv.ParseUint(from, 10, 16); err == nil {
			labels = append(labels, uint16(label))
		}
	}
	return labels
}

// relabelling returns the new label of each label, or nil where none changes.
func (p Preparation) relabelling() ([]uint16, error) {
	if p.Relabel == "" {
		return nil, nil
	}
	table := make([]uint16, 1<<16)
	for label := range table {
		table[label] = uint16(label)
	}
	named := map[string]bool{}
	for _, rule := range strings.Split(p.Relabel, ",") {
		from, to, found := strings.Cut(strings.TrimSpace(rule), ":")
		target, err := strconv.ParseUint(to, 10, 16)
		if !found || err != nil || named[from] {
			return nil, fmt.Errorf("relabel %q: %q is not of the form 2:1, with each label once", p.Relabel, rule)
		}
		named[from] = true
		if from == "*" {
			continue
		}
		label, err := strconv.ParseUint(from, 10, 16)
		if err != nil || label == 0 {
			return nil, fmt.Errorf("relabel %q: %q is not a label", p.Relabel, from)
		}
		table[label] = uint16(target)
	}
	for _, rule := range strings.Split(p.Relabel, ",") {
		from, to, _ := strings.Cut(strings.TrimSpace(rule), ":")
		if from != "*" {
			continue
		}
		target, _ := strconv.ParseUint(to, 10, 16) // parsed above
		for label := 1; label < len(table); label++ {
			if !named[strconv.Itoa(label)] {
				table[label] = uint16(target)
			}
		}
	}
	return table, nil
}

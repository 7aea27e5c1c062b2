package volume

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// This file: what a network sees of a scan's values. A scheme says so. [Preparation.Apply] writes
// whole numbers by it, and [Intensities] is the one way from these to what the network sees.

// The modalities that the program knows by name, in the words of DICOM (0008,0060). A [Preparation]
// may have any other word, too.
const (
	ModalityCT = "CT"
	ModalityMR = "MR"
	ModalityPT = "PT"
)

// The schemes of intensities.
const (
	CTWindow      = "ct-window"
	CTPercentiles = "ct-percentiles"
	ZScore        = "zscore"
	ZScoreNonzero = "zscore-nonzero"
	Percentiles   = "percentiles"
)

// A scheme is a way from a scan's values to what a network sees, x = (value - Centre) / Width of
// its levels.
type scheme struct {
	name string
	// step is how much of what the network sees a whole number of a prepared volume is; 0: whole
	// numbers are the scan's own values, HU. It leaves room for 2^15 steps on either side of 0.
	step float64
	clip bool // values are clipped to the levels' ends
	// mask says that voxels of no value, 0, and not enclosed by others, are left out: the network
	// sees 0 there, whatever the levels are.
	mask bool
	// levels of a box of a scan that was cut out already; nil: the preparation says them
	ofScan func(found Measured) (Levels, error)
}

// RegisterScheme adds a scheme that goes by the scan, in an init function: levels gives those of
// what was measured of the box of a scan that is prepared. Values are clipped to the levels' ends
// if clip says so; a network sees them to 1/1024. A name that is taken is a panic. Prepared cases
// are read by programs alone that have registered their scheme.
func RegisterScheme(name string, clip bool, levels func(Measured) (Levels, error)) {
	if name == "" || slices.Contains(Schemes(), name) {
		panic(fmt.Sprintf("volume: the scheme of intensities %q is there already, or has no name", name))
	}
	schemes = append(schemes, scheme{name: name, step: 1.0 / (1 << 10), clip: clip,
		ofScan: func(found Measured) (Levels,
			error) {
			l, err := levels(found)
			if err == nil {
				err = l.check()
			}
			return l, err
		}})
}

// schemes is the list of them. How each is called in nnU-Net's plans, and the formula, is in
// github.com/MIC-DKFZ/nnUNet,
// nnunetv2/preprocessing/normalization/default_normalization_schemes.py.
var schemes = []scheme{
	{name: CTWindow, clip: true},
	// CTNormalization. At most 1 of 200 voxels lie above the upper percentile, so that it is less
	// than sqrt(200) = 14.2 standard deviations off the mean, and the lower one is, too.
	{name: CTPercentiles, step: 1.0 / (1 << 11), clip: true},
	{name: ZScore, step: 1.0 / (1 << 10), ofScan: Measured.zscore}, // ZScoreNormalization
	// ... use_mask_for_norm
	{name: ZScoreNonzero, step: 1.0 / (1 << 10), ofScan: Measured.zscore, mask: true},
	{name: Percentiles, step: 1.0 / (1 << 14), ofScan: Measured.percentiles, clip: true},
}

// The percentiles that schemes and levels go by.
const lowPercent, highPercent = 0.5, 99.5

// Schemes are the names of the schemes of intensities.
func Schemes() (names []string) {
	for _, s := range schemes {
		names = append(names, s.name)
	}
	return names
}

// DefaultScheme is the scheme for scans of a modality: the window of HU for CT, standardised values
// for all others, as in nnU-Net.
func DefaultScheme(modality string) string {
	if modality == ModalityCT {
		return CTWindow
	}
	return ZScore
}

// scheme is that of the preparation, which [Preparation.Check] has passed.
func (p Preparation) scheme() scheme {
	at := slices.IndexFunc(schemes, func(s scheme) bool { return s.name == p.Scheme() })
	return schemes[max(at, 0)]
}

// Scheme is the name of the scheme of intensities; of several channels, that of the first.
func (p Preparation) Scheme() string { return cmp.Or(wordOf(p.Intensity, 0), CTWindow) }

// ModalityName is the modality of the scans; of several channels, that of the first.
func (p Preparation) ModalityName() string { return cmp.Or(wordOf(p.Modality, 0), ModalityCT) }

// AboveHU says whether a CT may be prepared as values that lie 1024 above Hounsfield units: by a
// window that leaves out all soft tissue in HU, or by a foreground that has a mean of bone in HU.
func (p Preparation) AboveHU() bool {
	const leastWindow, leastMean = 400, 600
	if p.ModalityName() != ModalityCT {
		return false
	}
	switch p.Scheme() {
	case CTWindow:
		return p.Window[0] >= leastWindow
	case CTPercentiles:
		return p.Foreground[2] >= leastMean
	}
	return false
}

// ForModality is the preparation of scans of a modality, with its usual scheme unless one is chosen
// already. That of a CT is written as empty words.
func (p Preparation) ForModality(modality string) Preparation {
	p.Intensity = cmp.Or(p.Intensity, DefaultScheme(modality))
	if p.Modality = modality; modality == ModalityCT {
		p.Modality = ""
	}
	if p.Intensity == CTWindow {
		p.Intensity = ""
	}
	return p
}

// NeedsForeground says whether the scheme goes by the values of the labelled voxels of all cases,
// and these are not known yet: [Preparation.Foreground].
func (p Preparation) NeedsForeground() bool {
	goesBy := slices.ContainsFunc(p.channels(), func(c Preparation) bool { return c.Scheme() == CTPercentiles })
	return goesBy && p.Foreground == [4]float64{}
}

// Range is what a network sees most of a scan's intensities in: from -1 to 1 where the scheme makes
// it so. Where it clips nothing, it is the usual range of a scan: pictures are drawn and
// intensities are varied by it.
func (p Preparation) Range() [2]float32 {
	switch p.Scheme() {
	case CTPercentiles:
		l := p.levels()
		return [2]float32{float32((l.Low - l.Centre) / l.Width), float32((l.High - l.Centre) / l.Width)}
	case ZScore: // with much air, which is little below the mean
		return [2]float32{-2, 4}
	case ZScoreNonzero:
		return [2]float32{-3, 3}
	}
	return [2]float32{-1, 1}
}

// DescribeIntensities says in words what a network sees of a scan's values.
func (p Preparation) DescribeIntensities() string {
	if p.Channels != "" {
		var parts []string
		for n, name := range p.ChannelNames() {
			parts = append(parts, name+": "+p.Channel(n).DescribeIntensities())
		}
		return strings.Join(parts, "; ")
	}
	switch p.Scheme() {
	case CTWindow:
		return fmt.Sprintf("HU %g to %g", p.Window[0], p.Window[1])
	case CTPercentiles:
		f := p.Foreground
		return fmt.Sprintf("HU %.4g to %.4g, standardised by mean %.4g and SD %.4g", f[0], f[1], f[2], f[3])
	case ZScore:
		return "values standardised scan by scan"
	case ZScoreNonzero:
		return "values but 0 standardised scan by scan"
	case Percentiles:
		return fmt.Sprintf("the %g to %g percentile of each scan", lowPercent, highPercent)
	}
	return "values by scheme " + p.Scheme() + ", scan by scan"
}

// checkIntensities says what is wrong with the settings of intensities.
func (p Preparation) checkIntensities() error {
	if !slices.Contains(Schemes(), p.Scheme()) {
		return fmt.Errorf("intensity %q: must be one of %s", p.Intensity, strings.Join(Schemes(), ", "))
	}
	if len(p.Modality) > 16 || strings.ContainsFunc(p.Modality, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("modality %q: must be one word, such as CT, MR or PT", p.Modality)
	}
	switch scheme := p.Scheme(); {
	case scheme == CTPercentiles && p.ModalityName() != ModalityCT:
		return fmt.Errorf("intensity %s goes by whole HU, and %s has none: choose %s or %s",
			scheme, p.ModalityName(), ZScore, Percentiles)
	case scheme != CTPercentiles && p.Foreground != [4]float64{}:
		return fmt.Errorf("foreground is of intensity %s, and these scans are prepared "+
			"by %s: leave it out, or add --intensity %s",
			CTPercentiles, scheme, CTPercentiles)
	case scheme != CTWindow && p.Window != DefaultPreparation().Window:
		return fmt.Errorf("window is of intensity %s, and these scans are prepared "+
			"by %s: leave it out, or add --intensity %s",
			CTWindow, scheme, CTWindow)
	}
	low, high, mean, sd := p.Foreground[0], p.Foreground[1], p.Foreground[2], p.Foreground[3]
	sum := math.Abs(low) + math.Abs(high) + sd // infinite or no number where one of them is
	if p.Foreground != [4]float64{} && !(low < high && low <= mean && mean <= high && sd > 0 && sum < math.MaxFloat32) {
		return fmt.Errorf("foreground %g,%g,%g,%g: needs the lower and the upper percentile, the mean, which lies "+
			"between them, and the standard deviation", low, high, mean, sd)
	}
	return nil
}

// Levels say how a scan's values become what a network sees: a value v becomes
//
//	(v - Centre) / Width
type Levels struct {
	Centre float64 `json:"centre"`
	Width  float64 `json:"width"`
	// the range that most of the scan's values lie in: its 0.5 and 99.5 percentile, or what its
	// values are clipped to
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// check says whether levels that were read are some.
func (l Levels) check() error {
	if !(l.Width > 0) || !(l.Low < l.High) || math.IsInf(l.Width+l.High-l.Low, 0) || math.IsNaN(l.Centre) ||
		math.IsInf(l.Centre, 0) {
		return fmt.Errorf("levels of intensities that make no sense: centre %g, width %g, from %g to %g", l.Centre,
			l.Width, l.Low, l.High)
	}
	return nil
}

// CheckLevels says what is wrong with the levels of a scan: those schemes that go by the scan need
// some, and others have none.
func (p Preparation) CheckLevels(l *Levels) error {
	switch ofScan := p.scheme().ofScan != nil; {
	case ofScan && l == nil:
		return fmt.Errorf("no levels of intensities, which scheme %s needs", p.Scheme())
	case ofScan:
		return l.check()
	case l != nil:
		return fmt.Errorf("levels of intensities of the scan, which scheme %s has none of", p.Scheme())
	}
	return nil
}

// levels are those that the preparation says of all scans.
func (p Preparation) levels() Levels {
	if p.Scheme() == CTPercentiles {
		return Levels{Low: p.Foreground[0], High: p.Foreground[1], Centre: p.Foreground[2], Width: p.Foreground[3]}
	}
	low, high := p.Window[0], p.Window[1]
	return Levels{Centre: (low + high) / 2, Width: (high - low) / 2, Low: low, High: high}
}

// Intensities say what the whole numbers of a prepared volume stand for: the network sees
//
//	x = Scale * number + Shift
type Intensities struct {
	Scale, Shift float32
	// numbers are clipped to these, as far as the scheme clips
	Floor, Ceiling int16
	// what stands for all that lies outside of the scan
	Outside int16
	// numbers from one to the other count as air
	Air [2]int16
}

// fat is at -100 HU and lung at -850: up to here a voxel counts as air
const airHU = -500

// airShare is the part of the usual range of a scan of no HU up to which a voxel counts as air: the
// noise around a patient in MR is darker, and tissue is brighter.
const airShare = 0.1

// Intensities are those of a prepared volume. The levels are the scan's, where the scheme goes by
// the scan, and otherwise nil.
func (p Preparation) Intensities(own *Levels) Intensities {
	s, l := p.scheme(), p.levels()
	if own != nil {
		l = *own
	}
	if s.step == 0 { // HU
		low, high := int16(l.Low), int16(l.High)
		return Intensities{
			Scale: float32(1 / l.Width), Shift: float32(-l.Centre / l.Width),
			Floor: low, Ceiling: high, Outside: low, Air: [2]int16{math.MinInt16, max(low, airHU)},
		}
	}
	i := Intensities{Scale: float32(s.step), Floor: math.MinInt16, Ceiling: math.MaxInt16}
	number := func(value float64) int16 { return toInt16(float32((value - l.Centre) / l.Width / s.step)) }
	i.Outside = number(l.Low)
	if s.clip {
		i.Floor, i.Ceiling = number(l.Low), number(l.High)
	}
	air := l.Low + airShare*(l.High-l.Low)
	if p.Scheme() == CTPercentiles {
		air = max(l.Low, airHU)
	}
	if i.Air = [2]int16{math.MinInt16, number(air)}; s.mask {
		i.Outside, i.Air = 0, [2]int16{}
	}
	return i
}

// Normalise turns numbers of a prepared volume into what a network sees.
func (i Intensities) Normalise(dst []float32, numbers []int16) {
	scale, shift, low, high := i.Scale, i.Shift, i.Floor, i.Ceiling
	for n, x := range numbers {
		dst[n] = scale*float32(min(max(x, low), high)) + shift
	}
}

// Of is what the network sees of a number.
func (i Intensities) Of(number int16) float32 { return i.Scale*float32(number) + i.Shift }

// Denormalise is the inverse of [Intensities.Normalise], as a number that need not be whole.
func (i Intensities) Denormalise(x float32) float32 { return (x - i.Shift) / i.Scale }

// Measured is what a scheme that goes by the scan asks of a box of it: its voxels that are finite,
// and that the mask has, if there is one.
type Measured struct {
	Voxels    int
	Mean, SD  float64
	Low, High float64 // the 0.5 and 99.5 percentile
}

func (m Measured) zscore() (Levels, error) {
	// Of a float32's digits, so that they are the same in whatever order the voxels were added up.
	l := Levels{Centre: float64(float32(m.Mean)), Width: float64(float32(m.SD)), Low: m.Low, High: m.High}
	if l.High <= l.Low { // nearly all voxels are alike
		l.High = l.Low + l.Width
	}
	return l, nil
}

func (m Measured) percentiles() (Levels, error) {
	if m.Low == m.High {
		return Levels{},
			fmt.Errorf("99 %% of its voxels are %g, so that its percentiles are the same: --intensity %s goes "+
				"by the others", m.Low, ZScoreNonzero)
	}
	return Levels{Centre: (m.Low + m.High) / 2, Width: (m.High - m.Low) / 2, Low: m.Low, High: m.High}, nil
}

// A BlankError says that there is nothing to see in a scan.
type BlankError struct {
	None  bool    // no voxel is a number
	Value float32 // of all voxels that hold a number
}

func (e *BlankError) Error() string {
	if e.None {
		return "no voxel is a number: there is nothing to see"
	}
	return fmt.Sprintf("all voxels are %g: there is nothing to see", e.Value)
}

// measure looks at the voxels of a scan, or at those of the mask alone.
func measure(v *Volume, mask []bool) (m Measured, err error) {
	s := sumOf(v, mask, 0)
	if s.n == 0 {
		return m, &BlankError{None: true}
	}
	m.Voxels, m.Mean = s.n, s.sum/float64(s.n)
	if s.low == s.high {
		return m, &BlankError{Value: s.low}
	}
	m.SD = math.Sqrt(sumOf(v, mask, m.Mean).squares / float64(s.n))
	quantiles := quantilesOf(v, mask, s.n, lowPercent/100, highPercent/100)
	m.Low, m.High = quantiles[0], quantiles[1]
	return m, nil
}

// sums are those over some voxels, less a centre.
type sums struct {
	n            int
	low, high    float32
	sum, squares float64
}

// sumOf adds up the voxels that are finite, in an order that does not depend on how many work at
// it.
func sumOf(v *Volume, mask []bool, centre float64) sums {
	const block = 1 << 16
	parts := make([]sums, (v.Len()+block-1)/block)
	parallel(len(parts), func(b int) {
		part := sums{low: float32(math.Inf(1)), high: float32(math.Inf(-1))}
		eachFinite(v, mask, b*block, min((b+1)*block, v.Len()), func(x float32) {
			d := float64(x) - centre
			part.n, part.sum, part.squares = part.n+1, part.sum+d, part.squares+d*d
			part.low, part.high = min(part.low, x), max(part.high, x)
		})
		parts[b] = part
	})
	all := sums{low: float32(math.Inf(1)), high: float32(math.Inf(-1))}
	for _, part := range parts {
		all.n, all.sum, all.squares = all.n+part.n, all.sum+part.sum, all.squares+part.squares
		all.low, all.high = min(all.low, part.low), max(all.high, part.high)
	}
	return all
}

// eachFinite visits the voxels from one to below another that are finite and that the mask has.
func eachFinite(v *Volume, mask []bool, from, to int, visit func(x float32)) {
	for n := from; n < to; n++ {
		if mask != nil && !mask[n] {
			continue
		}
		if v.Int16 != nil {
			visit(float32(v.Int16[n]))
		} else if x := v.Float32[n]; x-x == 0 {
			visit(x)
		}
	}
}

// quantilesOf are the values below which these shares of n voxels lie, interpolated linearly
// between the two nearest in order, as numpy.quantile does. They are exact: the upper half of the
// bits of a float32, whose order is made that of whole numbers, say which of 65,536 groups a value
// is in, and the lower half which value of its group it is.
func quantilesOf(v *Volume, mask []bool, n int, shares ...float64) []float64 {
	key := func(x float32) uint32 {
		bits := math.Float32bits(x + 0) // -0 is 0
		if bits>>31 != 0 {
			return ^bits
		}
		return bits | 1<<31
	}
	value := func(key uint32) float64 {
		if key>>31 != 0 {
			return float64(math.Float32frombits(key &^ (1 << 31)))
		}
		return float64(math.Float32frombits(^key))
	}
	groups := make([]int, 1<<16)
	eachFinite(v, mask, 0, v.Len(), func(x float32) { groups[key(x)>>16]++ })
	within := map[uint32][]int{} // of the groups that are looked for
	place := func(rank int) (group uint32, rest int) {
		for g, count := range groups {
			if rank < count {
				return uint32(g), rank
			}
			rank -= count
		}
		return 0, 0
	}
	ranks := func(share float64) (low, high int, part float64) {
		at := share * float64(n-1)
		low = int(at)
		return low, min(low+1, n-1), at - float64(low)
	}
	for _, share := range shares {
		low, high, _ := ranks(share)
		for _, rank := range []int{low, high} {
			if group, _ := place(rank); within[group] == nil {
				within[group] = make([]int, 1<<16)
			}
		}
	}
	eachFinite(v, mask, 0, v.Len(), func(x float32) {
		k := key(x)
		if counts := within[k>>16]; counts != nil {
			counts[k&0xffff]++
		}
	})
	ordered := func(rank int) float64 {
		group, rest := place(rank)
		for lower, count := range within[group] {
			if rest < count {
				return value(group<<16 | uint32(lower))
			}
			rest -= count
		}
		return 0
	}
	values := make([]float64, len(shares))
	for i, share := range shares {
		low, high, part := ranks(share)
		a, b := ordered(low), ordered(high)
		values[i] = a + part*(b-a)
	}
	return values
}

// Mask is what channels of a scan, or of a box of it, share where the preparation of one of them
// leaves out what is 0: what is not 0 in any of them, and what that encloses, as in nnU-Net. It is
// nil where none does, for one channel, and without [Preparation.Masks]: each then has its own.
func (p Preparation) Mask(bounds Bounds, channels ...*Volume) []bool {
	if len(channels) < 2 || p.Masks != MasksCommon || p.WithMasks().Masks == "" {
		return nil
	}
	return present(bounds, channels)
}

// WithMasks is the preparation of cases by this version, whose channels share a mask where one of
// them has any. Older versions gave each its own.
func (p Preparation) WithMasks() Preparation {
	p.Masks = ""
	if p.Inputs() > 1 && slices.ContainsFunc(p.channels(), func(c Preparation) bool { return c.scheme().mask }) {
		p.Masks = MasksCommon
	}
	return p
}

// present are the voxels of a box that a mask for standardising has: those that are not 0 in any
// channel, and those that they enclose, which is what is not joined by faces of voxels of 0 to a
// face of the box. It is nnU-Net's create_nonzero_mask, with scipy's binary_fill_holes.
func present(bounds Bounds, channels []*Volume) []bool {
	ni, nj, nk := bounds.Size[0], bounds.Size[1], bounds.Size[2]
	mask := make([]bool, ni*nj*nk)
	for n := range mask {
		mask[n] = true
	}
	isZero := func(i, j, k int) bool {
		for _, v := range channels {
			at := v.Index(bounds.Origin[0]+i, bounds.Origin[1]+j, bounds.Origin[2]+k)
			if v.Int16 != nil && v.Int16[at] != 0 || v.Int16 == nil && v.Float32[at] != 0 {
				return false
			}
		}
		return true
	}
	var front []int
	leave := func(i, j, k int) {
		if n := i + ni*(j+nj*k); mask[n] && isZero(i, j, k) {
			mask[n] = false
			front = append(front, n)
		}
	}
	for k := range nk {
		for j := range nj {
			if k == 0 || k == nk-1 || j == 0 || j == nj-1 {
				for i := range ni {
					leave(i, j, k)
				}
				continue
			}
			leave(0, j, k)
			leave(ni-1, j, k)
		}
	}
	for len(front) > 0 {
		n := front[len(front)-1]
		front = front[:len(front)-1]
		i, j, k := n%ni, n/ni%nj, n/(ni*nj)
		for _, side := range [6][3]int{{-1, 0, 0}, {1, 0, 0}, {0, -1, 0}, {0, 1, 0}, {0, 0, -1}, {0, 0, 1}} {
			a, b, c := i+side[0], j+side[1], k+side[2]
			if a >= 0 && a < ni && b >= 0 && b < nj && c >= 0 && c < nk {
				leave(a, b, c)
			}
		}
	}
	return mask
}

// standardised is a box of a scan in steps of what the network sees, and the scan's own levels,
// if the scheme goes by the scan. What is no number becomes what lies outside.
func (p Preparation) standardised(v *Volume, mask []bool) (*Volume, *Levels, error) {
	s, l := p.scheme(), p.levels()
	switch {
	case !s.mask:
		mask = nil
	case mask == nil:
		mask = present(v.Whole(), []*Volume{v})
	}
	var own *Levels
	if s.ofScan != nil {
		found, err := measure(v, mask)
		if err != nil {
			return nil, nil, err
		}
		if l, err = s.ofScan(found); err != nil {
			return nil, nil, err
		}
		own = &l
	}
	how := p.Intensities(own)
	floor, ceiling := float32(how.Floor), float32(how.Ceiling)
	perStep := 1 / (l.Width * s.step)
	o := &Volume{Grid: v.Grid, Float32: make([]float32, v.Len())}
	blocks(v.Len(), func(from, to int) {
		for n := from; n < to; n++ {
			var x float32
			if v.Int16 != nil {
				x = float32(v.Int16[n])
			} else {
				x = v.Float32[n]
			}
			switch {
			case mask != nil && !mask[n]:
				o.Float32[n] = 0
			case x != x:
				o.Float32[n] = float32(how.Outside)
			default:
				o.Float32[n] = min(max(float32((float64(x)-l.Centre)*perStep), floor), ceiling)
			}
		}
	})
	return o, own, nil
}

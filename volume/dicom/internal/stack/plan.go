package stack

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/voxsaw/voxsaw/volume"
)

// Options say what becomes of slices that are no regular stack.
type Options struct {
	Tilt string // resample, keep or error
	Gaps string // error or resample
	// Fractions reads float32 at once, as who changes the values then wants them
	Fractions bool
}

// Stack is slices that together are one volume, sorted along their normal.
type Stack struct {
	Slices []Slice
	Number string  // SeriesNumber, for messages
	Tilt   float64 // degrees between the way from slice to slice and the normal of the slices
	// Filled says in what images differ that lie where slices are missing, "" where there are none.
	Filled string
}

// Plan says how slices become a volume.
type Plan struct {
	Grid     volume.Grid
	Notes    []string     // what is repaired, in words
	At       []float64    // mm of the known slices along the normal
	shifts   [][2]float64 // pixels along i and j by which each slice is moved; nil where none is
	bent     bool         // slices do not lie on a line, but are shifted against each other
	columns  int          // of the canvas that holds the shifted slices
	rows     int
	resample bool // between slices
}

const (
	SamePlace = 0.001 // mm between slices that lie in one place
	// maxPlace is how far (mm) from the origin, or from each other, pixels may lie: a kilometre is
	// no place in a patient.
	maxPlace = 1e6
	// maxGrowth is how many times as many slices, columns or rows repairs may make as there are.
	maxGrowth = 16
	MaxVoxels = 1 << 31 // of one stack
)

// Plan returns how the options make a volume of the slices, or why they do not.
func (s *Stack) Plan(o Options) (*Plan, error) {
	first := &s.Slices[0].Info
	for n := range s.Slices {
		im, here := s.Slices[n].Image, &s.Slices[n].Info
		if err := im.checkFrames(); err != nil {
			return nil, err
		}
		if err := im.Check(); err != nil {
			return nil, err
		}
		bad := func(problem string) (*Plan, error) {
			return nil, &volume.FormatError{Path: im.Path, Problem: problem + ": what its values mean is not known"}
		}
		// A slice without them would be off by the intercept, usually 1024 HU.
		if (here.Intercept == nil) != (first.Intercept == nil) || (here.slope == nil) != (first.slope == nil) {
			return bad("RescaleSlope and RescaleIntercept are in some slices of its series and missing in others")
		}
		// Some readers take 0 for 1. Others take it as it stands, so that all values are one, and
		// others leave the intercept out as well.
		if here.slope != nil && *here.slope == 0 {
			return bad("RescaleSlope is 0")
		}
	}
	return s.Arrange(o)
}

// Arrange is [Stack.Plan] without a look at the pixels.
func (s *Stack) Arrange(o Options) (*Plan, error) {
	if err := s.checkPlaces(); err != nil {
		return nil, err
	}
	first := &s.Slices[0]
	row, column, normal, err := first.Axes()
	if err != nil {
		return nil, s.impossible(err)
	}
	p := &Plan{columns: first.Image.Columns, rows: first.Image.Rows}
	for k := range s.Slices {
		p.At = append(p.At, s.Slices[k].At)
	}
	d, err := s.depth(o, p.At)
	if err != nil {
		return nil, err
	}
	p.resample = d.resample
	if d.note != "" {
		p.Notes = append(p.Notes, d.note)
	}
	l := s.lateral(row, column, normal)
	step, origin, err := s.place(o, p, d, l)
	if err != nil {
		return nil, err
	}

	dx, dy := first.Info.Spacing[1], first.Info.Spacing[0]
	origin = origin.Plus(step.Times((d.start - p.At[0]) / d.distance))
	// j runs from the last row to the first
	origin = origin.Plus(column.Times(dy * float64(p.rows-1)))
	p.Grid.Shape = [3]int{p.columns, p.rows, d.count}
	p.Grid.Affine = world(row.Times(dx), column.Times(-dy), step, origin)
	if err := p.Grid.Check(); err != nil {
		return nil, s.impossible(err)
	}
	if p.Grid.Len() > MaxVoxels {
		return nil, s.refuse("%v voxels are more than %d", p.Grid.Shape, MaxVoxels)
	}
	return p, nil
}

// refuse returns the error for a stack that is correct, and not read.
func (s *Stack) refuse(format string, args ...any) error {
	return &volume.UnsupportedError{Path: s.Slices[0].Image.Path, Problem: "series " + s.Number + ": " +
		fmt.Sprintf(format, args...)}
}

// impossible returns the error for a stack that cannot lie as it says.
func (s *Stack) impossible(err error) error {
	return &volume.FormatError{Path: s.Slices[0].Image.Path, Problem: "has an impossible geometry", Err: err}
}

// checkPlaces refuses slices that do not say where they lie, that lie outside of any patient, and
// that lie in one place.
func (s *Stack) checkPlaces() error {
	if !s.Slices[0].Located() {
		return s.refuse("does not say where its images lie " +
			"(ImagePositionPatient, ImageOrientationPatient, PixelSpacing)")
	}
	for k := range s.Slices {
		one := &s.Slices[k]
		for _, x := range one.Info.Position {
			if math.Abs(x) > maxPlace {
				return s.refuse("slice %d lies %.3g mm from the origin (ImagePositionPatient): "+
					"that is too far to be a place in a patient", k+1, math.Abs(x))
			}
		}
		if k > 0 && one.At-s.Slices[k-1].At < SamePlace {
			return s.refuse("slices %d and %d lie at the same place (%.2f mm along the normal) and differ, and "+
				"nothing says that they belong to different volumes: %s",
				k, k+1, one.At, twoFiles(s.Slices[k-1].Image.Path, one.Image.Path))
		}
	}
	return nil
}

// depth is how slices follow each other along their normal: the count slices of the volume begin at
// start and lie distance mm apart.
type depth struct {
	count           int
	start, distance float64
	resample        bool   // the known slices lie elsewhere
	note            string // what is odd, in words
}

// depth finds out how slices at the given places follow each other.
func (s *Stack) depth(o Options, at []float64) (depth, error) {
	info := &s.Slices[0].Info
	if len(at) == 1 {
		distance, from := info.Between, "SpacingBetweenSlices"
		if distance == 0 {
			distance, from = info.Thickness, "SliceThickness"
		}
		note := fmt.Sprintf("a single slice: its thickness of %.4g mm is taken from %s", distance, from)
		if distance == 0 {
			distance, note = 1, "a single slice: nothing says how thick it is, 1 mm is assumed"
		}
		return depth{count: 1, start: at[0], distance: distance, note: note}, nil
	}
	if even, start, distance := Evenly(at); even {
		d := depth{count: len(at), start: start, distance: distance}
		// What headers say of thickness and distance is too often wrong to be used. But slices that
		// all lie too far apart may be those that are left of more.
		if said := max(info.Thickness, info.Between); said > 0 && distance >= 2*said-Tolerance(said) {
			d.note = fmt.Sprintf("slices lie %.4g mm apart, but are only %.4g mm thick (SliceThickness, "+
				"SpacingBetweenSlices): those between them may be missing", distance, said)
		}
		return d, nil
	}
	return s.fillGaps(o, at)
}

// fillGaps says what becomes of slices that are not evenly spaced.
func (s *Stack) fillGaps(o Options, at []float64) (depth, error) {
	gap, median := GapIn(at)
	last := len(at) - 1
	uneven := fmt.Sprintf("%.2f mm between slices %d and %d", at[gap+1]-at[gap], gap+1, gap+2)
	if o.Gaps == "error" {
		advice := "Slices may be missing; --gaps resample interpolates between the known ones"
		if s.Filled != "" {
			advice = "The slices in between are there, but differ in " + s.Filled + ": they are kept apart"
		}
		return depth{},
			s.refuse("slices are not evenly spaced: %s (at %.2f and %.2f mm along the normal), usually %.2f mm. %s",
				uneven, at[gap], at[gap+1], median, advice)
	}
	steps := math.Round((at[last] - at[0]) / median)
	if steps+1 > float64(len(at)*maxGrowth) {
		return depth{}, s.refuse("slices are not evenly spaced: %s, usually %.2f mm: too far apart to fill in", uneven,
			median)
	}
	d := depth{count: int(steps) + 1, start: at[0], distance: (at[last] - at[0]) / steps, resample: true}
	d.note = fmt.Sprintf("slices are not evenly spaced (%s, usually %.2f mm): resampled to %d slices %.4g mm apart",
		uneven, median, d.count, d.distance)
	return d, nil
}

// lateral is how slices lie in their planes, relative to the first.
type lateral struct {
	row, column, normal Vector
	along               [][2]float64 // mm along a row and a column, of each slice
	way                 Vector       // from the first slice to the last
	height              float64      // of the last slice above the first, along the normal
	drift               float64      // mm, the largest shift in a plane
	// mm, the largest distance from the line between the first and the last
	bend float64
}

// lateral measures how slices lie in their planes.
func (s *Stack) lateral(row, column, normal Vector) lateral {
	origin, last := Vector(s.Slices[0].Info.Position), s.Slices[len(s.Slices)-1]
	l := lateral{row: row, column: column, normal: normal, along: make([][2]float64, len(s.Slices))}
	l.way = Vector(last.Info.Position).Minus(origin)
	l.height = l.way.Dot(normal)
	for k := range l.along {
		d := Vector(s.Slices[k].Info.Position).Minus(origin)
		l.along[k] = [2]float64{d.Dot(row), d.Dot(column)}
		l.drift = max(l.drift, math.Hypot(l.along[k][0], l.along[k][1]))
		if l.height > 0 {
			part := d.Dot(normal) / l.height
			l.bend = max(l.bend, math.Hypot(l.along[k][0]-part*l.way.Dot(row), l.along[k][1]-part*l.way.Dot(column)))
		}
	}
	return l
}

// place decides what is done about slices that are shifted against each other, more than half a
// pixel. It returns the step from slice to slice and where the first pixel of the first slice lies.
func (s *Stack) place(o Options, p *Plan, d depth, l lateral) (step, origin Vector, err error) {
	first := &s.Slices[0]
	step, origin = l.normal.Times(d.distance), Vector(first.Info.Position)
	along := l.way.Times(d.distance / l.height) // the affine's third column where slices stay
	half := min(first.Info.Spacing[0], first.Info.Spacing[1]) / 2
	if l.drift <= half {
		if l.height > 0 {
			step = along // exact, and no shear that matters
		}
		return step, origin, nil
	}
	askew, keep := fmt.Sprintf("stacked askew, by %.2f degrees (gantry tilt)", s.Tilt), "--tilt keep keeps them"
	if p.bent = l.bend > half; p.bent {
		askew, keep = fmt.Sprintf("shifted in their planes, by up to %.2f mm, and not along a line (no gantry tilt)",
			l.drift), "--tilt keep cannot, because no affine tells that"
	}
	switch {
	case o.Tilt == "error" || o.Tilt == "keep" && p.bent:
		return step, origin,
			s.refuse("slices are %s: --tilt resample moves each in its plane onto an orthogonal grid, %s", askew, keep)
	case o.Tilt == "keep":
		p.Notes = append(p.Notes, "slices are "+askew+": kept, the axes are sheared")
		return along, origin, nil
	}
	low, err := s.shift(p, l)
	if err != nil {
		return step, origin, err
	}
	p.Notes = append(p.Notes, "slices are "+askew+": each is moved in its plane onto an orthogonal grid")
	return step, origin.Plus(l.row.Times(low[0])).Plus(l.column.Times(low[1])), nil
}

// shift plans the canvas that holds the slices, each moved in its plane. It returns where the
// canvas begins, in mm along a row and a column.
func (s *Stack) shift(p *Plan, l lateral) (low [2]float64, err error) {
	spacing := s.Slices[0].Info.Spacing
	dx, dy := spacing[1], spacing[0]
	low, high := l.along[0], l.along[0]
	for _, a := range l.along {
		for c := range 2 {
			low[c], high[c] = min(low[c], a[c]), max(high[c], a[c])
		}
	}
	if high[0]-low[0] > maxGrowth*dx*float64(p.columns) || high[1]-low[1] > maxGrowth*dy*float64(p.rows) {
		return low, s.refuse("slices are shifted against each other by up to %.0f mm: too far to be one volume",
			l.drift)
	}
	for _, a := range l.along {
		p.shifts = append(p.shifts, [2]float64{(a[0] - low[0]) / dx, (a[1] - low[1]) / dy})
	}
	p.columns += int(math.Ceil((high[0]-low[0])/dx - 1e-3))
	p.rows += int(math.Ceil((high[1]-low[1])/dy - 1e-3))
	return low, nil
}

// share is a known slice that contributes to a slice of the volume.
type share struct {
	slice  int
	weight float32
	shift  [2]float64 // pixels along i and j by which it is moved
}

// shares returns the known slices that make slice k of the grid: one, or the two that it lies
// between. These are mixed along the way from one to the other, which with a tilted gantry is the
// table's: so their fields of view, and what is around these, lie upon each other. Slices that are
// shifted have no such way.
func (p *Plan) shares(k int) []share {
	shift := func(n int) [2]float64 {
		if p.shifts == nil {
			return [2]float64{}
		}
		return p.shifts[n]
	}
	if !p.resample {
		return []share{{k, 1, shift(k)}}
	}
	last := len(p.At) - 1
	at := p.At[0] + (p.At[last]-p.At[0])*float64(k)/float64(p.Grid.Shape[2]-1)
	n := min(max(sort.Search(last, func(n int) bool { return p.At[n] > at })-1, 0), last-1)
	f := min(max((at-p.At[n])/(p.At[n+1]-p.At[n]), 0), 1)
	a, b := shift(n), shift(n+1)
	if !p.bent {
		for c := range a {
			a[c] += f * (b[c] - a[c])
		}
		b = a
	}
	return slices.DeleteFunc([]share{{n, float32(1 - f), a}, {n + 1, float32(f), b}},
		func(s share) bool { return s.weight < 1e-4 })
}

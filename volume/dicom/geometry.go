package dicom

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: where slices lie, and the plan that makes a regular grid of them.
//
// DICOM's coordinates are LPS, those of package volume RAS: x and y change sign, at the very end.

type vector [3]float64

func (a vector) dot(b vector) float64   { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func (a vector) plus(b vector) vector   { return vector{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }
func (a vector) minus(b vector) vector  { return vector{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }
func (a vector) times(s float64) vector { return vector{a[0] * s, a[1] * s, a[2] * s} }
func (a vector) length() float64        { return math.Sqrt(a.dot(a)) }
func (a vector) cross(b vector) vector {
	return vector{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// slice is one frame of one file.
type slice struct {
	image *image
	frame int
	info  frameInfo
	at    float64 // mm along the normal
}

// located says whether the slice tells where it lies.
func (s *slice) located() bool {
	return s.info.position != nil && s.info.orientation != nil && s.info.spacing != nil
}

// axes returns the unit vectors along a row, along a column, and their normal.
func (s *slice) axes() (row, column, normal vector, err error) {
	o := s.info.orientation
	row, column = vector(o[:3]), vector(o[3:])
	lr, lc := row.length(), column.length()
	// Directions are written with at least four digits or so; two of them that are this far from a
	// right angle were not meant.
	if math.Abs(lr-1) > 0.01 || math.Abs(lc-1) > 0.01 || math.Abs(row.dot(column)) > 0.01 {
		return row, column, normal, fmt.Errorf("ImageOrientationPatient %v is not two unit vectors at right angles", o)
	}
	if x := s.info.spacing; !(x[0] > 0 && x[1] > 0 && x[0] <= maxPlace && x[1] <= maxPlace) {
		return row, column, normal, fmt.Errorf("PixelSpacing %v must be positive and no more than %.0f mm", x, float64(maxPlace))
	}
	row, column = row.times(1/lr), column.times(1/lc)
	normal = row.cross(column)
	return row, column, normal.times(1 / normal.length()), nil
}

// localizer says whether the slice is of a scout view.
func (s *slice) localizer() bool {
	return slices.ContainsFunc(s.info.imageType, func(t string) bool { return strings.EqualFold(t, "LOCALIZER") })
}

// axcodes returns the nearest directions of the image's columns, rows (from the last to the first)
// and normal, or "" where it does not say.
func (s *slice) axcodes() string {
	if !s.located() {
		return ""
	}
	row, column, normal, err := s.axes()
	if err != nil {
		return ""
	}
	return world(row, column.times(-1), normal, vector{}).Axcodes()
}

// world turns the columns of an affine from LPS to RAS.
func world(columns ...vector) (a volume.Affine) {
	for w := range 3 {
		sign := -1.0
		if w == 2 {
			sign = 1
		}
		for c := range columns {
			a[w][c] = sign*columns[c][w] + 0 // + 0 turns -0 into 0
		}
	}
	a[3][3] = 1
	return a
}

// plan says how slices become a volume.
type plan struct {
	grid     volume.Grid
	shifts   [][2]float64 // pixels along i and j by which each slice is moved, nil where none is
	bent     bool         // slices are not on a line, but shifted against each other
	columns  int          // of the canvas that holds the shifted slices
	rows     int
	at       []float64 // mm of the known slices along the normal
	resample bool      // between slices
	notes    []string
}

// share is a known slice that a slice of the volume is made of.
type share struct {
	slice  int
	weight float32
	shift  [2]float64 // pixels along i and j by which it is moved
}

// shares returns the known slices that make slice k of the grid: one, or the two that it lies
// between. These are mixed along the way from one to the other, which with a tilted gantry is the
// table's: so their fields of view, and what is around these, lie upon each other. Slices that are
// shifted have no such way.
func (p *plan) shares(k int) []share {
	shift := func(n int) [2]float64 {
		if p.shifts == nil {
			return [2]float64{}
		}
		return p.shifts[n]
	}
	if !p.resample {
		return []share{{k, 1, shift(k)}}
	}
	last := len(p.at) - 1
	at := p.at[0] + (p.at[last]-p.at[0])*float64(k)/float64(p.grid.Shape[2]-1)
	n := min(max(sort.Search(last, func(n int) bool { return p.at[n] > at })-1, 0), last-1)
	f := min(max((at-p.at[n])/(p.at[n+1]-p.at[n]), 0), 1)
	a, b := shift(n), shift(n+1)
	if !p.bent {
		for c := range a {
			a[c] += f * (b[c] - a[c])
		}
		b = a
	}
	return slices.DeleteFunc([]share{{n, float32(1 - f), a}, {n + 1, float32(f), b}}, func(s share) bool { return s.weight < 1e-4 })
}

// tolerance (mm) of a slice's place in an evenly spaced stack: 2 % of the distance, or what
// rounding to a tenth of a millimetre does. A slice that is missing makes a sixth of the distance
// at least.
func tolerance(distance float64) float64 { return min(max(0.02*distance, 0.051), distance/7) }

// evenly returns the evenly spaced stack that sorted positions are nearest to, start + k x
// distance, and whether all lie within the tolerance of their places in it. To go from the first to
// the last would not do: these are rounded as well.
func evenly(at []float64) (even bool, start, distance float64) {
	if len(at) < 2 {
		return true, at[0], 0
	}
	// How far positions spread about their places is convex in the distance, which is one between
	// the smallest and the largest that there is.
	spread := func(distance float64) (low, high float64) {
		low, high = at[0], at[0]
		for k, x := range at {
			x -= float64(k) * distance
			low, high = min(low, x), max(high, x)
		}
		return low, high
	}
	least, most := math.Inf(1), 0.0
	for k := 1; k < len(at); k++ {
		least, most = min(least, at[k]-at[k-1]), max(most, at[k]-at[k-1])
	}
	if most-least > 4*tolerance(most) { // no places that both are near to
		return false, at[0], least
	}
	for range 64 {
		a, b := least+(most-least)/3, most-(most-least)/3
		lowA, highA := spread(a)
		lowB, highB := spread(b)
		if highA-lowA <= highB-lowB {
			most = b
		} else {
			least = a
		}
	}
	distance = least + (most-least)/2
	low, high := spread(distance)
	return (high-low)/2 <= tolerance(distance), low + (high-low)/2, distance
}

// gapIn says where the distance of sorted positions that differs most from the median begins.
func gapIn(at []float64) (gap int, median float64) {
	if len(at) < 2 {
		return 0, 0
	}
	distances := make([]float64, len(at)-1)
	for k := range distances {
		distances[k] = at[k+1] - at[k]
	}
	median = slices.Sorted(slices.Values(distances))[len(distances)/2]
	for k, d := range distances {
		if math.Abs(d-median) > math.Abs(distances[gap]-median) {
			gap = k
		}
	}
	return gap, median
}

// twoFiles names files that contradict each other.
func twoFiles(a, b string) string {
	if a == b {
		return "two frames of " + filepath.Base(a)
	}
	if x, y := filepath.Base(a), filepath.Base(b); x != y {
		return x + " and " + y
	}
	return a + " and " + b
}

// plan returns how the options make a volume of the series, or why they do not.
func (s *Series) plan(o Options) (*plan, error) {
	first := &s.slices[0].info
	for n := range s.slices {
		im, here := s.slices[n].image, &s.slices[n].info
		if err := im.checkFrames(); err != nil {
			return nil, err
		}
		if err := im.checkPixels(); err != nil {
			return nil, err
		}
		bad := func(problem string) (*plan, error) {
			return nil, &volume.FormatError{Path: im.path, Problem: problem + ": what its values mean is not known"}
		}
		// A slice without them would be off by the intercept, 1024 HU as a rule.
		if (here.intercept == nil) != (first.intercept == nil) || (here.slope == nil) != (first.slope == nil) {
			return bad("RescaleSlope and RescaleIntercept are in some slices of its series and missing in others")
		}
		// Others take it for 1, as it stands, so that all values are one, or leave the intercept
		// out as well.
		if here.slope != nil && *here.slope == 0 {
			return bad("RescaleSlope is 0")
		}
	}
	return s.arrange(o)
}

// arrange is plan without a look at the pixels.
func (s *Series) arrange(o Options) (*plan, error) {
	first := &s.slices[0]
	refuse := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: first.image.path, Problem: "series " + s.Number + ": " + fmt.Sprintf(format, args...)}
	}
	if !first.located() {
		return nil, refuse("does not say where its images lie (ImagePositionPatient, ImageOrientationPatient, PixelSpacing)")
	}
	for k := range s.slices {
		for _, x := range s.slices[k].info.position {
			if math.Abs(x) > maxPlace {
				return nil, refuse("slice %d lies %.3g mm from the origin (ImagePositionPatient): that is too far to be a place in a patient", k+1, math.Abs(x))
			}
		}
	}
	row, column, normal, err := first.axes()
	if err != nil {
		return nil, &volume.FormatError{Path: first.image.path, Problem: "has an impossible geometry", Err: err}
	}
	p := &plan{columns: first.image.columns, rows: first.image.rows}
	dx, dy := first.info.spacing[1], first.info.spacing[0]
	n := len(s.slices)
	for k := range s.slices {
		p.at = append(p.at, s.slices[k].at)
		if k > 0 && p.at[k]-p.at[k-1] < samePlace {
			return nil, refuse("slices %d and %d lie at the same place (%.2f mm along the normal) and differ, and nothing says that they belong to different volumes: %s",
				k, k+1, p.at[k], twoFiles(s.slices[k-1].image.path, s.slices[k].image.path))
		}
	}

	even, start, distance := evenly(p.at)
	gap, median := gapIn(p.at)
	switch {
	case n == 1:
		distance = first.info.between
		from := "SpacingBetweenSlices"
		if distance == 0 {
			distance, from = first.info.thickness, "SliceThickness"
		}
		if distance == 0 {
			distance, from = 1, "want of anything better"
		}
		p.notes = append(p.notes, fmt.Sprintf("a single slice: its thickness of %.4g mm is taken from %s", distance, from))
	case even:
		// What headers say of thickness and distance is too often wrong to be used, but slices that
		// all lie too far apart may be those that are left of more.
		if said := max(first.info.thickness, first.info.between); said > 0 && distance >= 2*said-tolerance(said) {
			p.notes = append(p.notes, fmt.Sprintf("slices lie %.4g mm apart, but are only %.4g mm thick (SliceThickness, SpacingBetweenSlices): those between them may be missing", distance, said))
		}
	case o.Gaps == GapsError:
		advice := "Slices may be missing; --gaps resample interpolates between the known ones"
		if s.filled != "" {
			advice = "The slices in between are there, but differ in " + s.filled + ": they are kept apart"
		}
		return nil, refuse("slices are not evenly spaced: %.2f mm between slices %d and %d (at %.2f and %.2f mm along the normal), usually %.2f mm. %s",
			p.at[gap+1]-p.at[gap], gap+1, gap+2, p.at[gap], p.at[gap+1], median, advice)
	default:
		if steps := math.Round((p.at[len(p.at)-1] - p.at[0]) / median); steps+1 > float64(n*maxGrowth) {
			return nil, refuse("slices are not evenly spaced: %.2f mm between slices %d and %d, usually %.2f mm: too far apart to fill in", p.at[gap+1]-p.at[gap], gap+1, gap+2, median)
		} else {
			n = int(steps) + 1
		}
		start, distance = p.at[0], (p.at[len(p.at)-1]-p.at[0])/float64(n-1)
		p.resample = true
		p.notes = append(p.notes, fmt.Sprintf("slices are not evenly spaced (%.2f mm between slices %d and %d, usually %.2f mm): resampled to %d slices %.4g mm apart",
			p.at[gap+1]-p.at[gap], gap+1, gap+2, median, n, distance))
	}
	step := normal.times(distance)
	origin := vector(first.info.position)

	// Where each slice lies in its plane, beside the first (mm).
	along := make([][2]float64, len(s.slices))
	last := s.slices[len(s.slices)-1]
	way := vector(last.info.position).minus(origin)
	height := way.dot(normal)
	var drift, bend float64
	for k := range along {
		d := vector(s.slices[k].info.position).minus(origin)
		along[k] = [2]float64{d.dot(row), d.dot(column)}
		drift = max(drift, math.Hypot(along[k][0], along[k][1]))
		if height > 0 {
			part := d.dot(normal) / height
			bend = max(bend, math.Hypot(along[k][0]-part*way.dot(row), along[k][1]-part*way.dot(column)))
		}
	}
	half := min(dx, dy) / 2
	tilted := drift > half
	askew, keep := fmt.Sprintf("stacked askew, by %.2f degrees (gantry tilt)", s.Tilt), "--tilt keep keeps them"
	if p.bent = bend > half; p.bent {
		askew, keep = fmt.Sprintf("shifted in their planes, by up to %.2f mm, and not along a line (no gantry tilt)", drift), "--tilt keep cannot, because no affine tells that"
	}
	switch {
	case !tilted && height > 0:
		step = way.times(distance / height) // exact, and no shear that matters
	case tilted && (o.Tilt == TiltError || o.Tilt == TiltKeep && p.bent):
		return nil, refuse("slices are %s: --tilt resample moves each in its plane onto an orthogonal grid, %s", askew, keep)
	case tilted && o.Tilt == TiltKeep:
		step = way.times(distance / height)
		p.notes = append(p.notes, "slices are "+askew+": kept, the axes are sheared")
	case tilted:
		low, high := along[0], along[0]
		for _, a := range along {
			for c := range 2 {
				low[c], high[c] = min(low[c], a[c]), max(high[c], a[c])
			}
		}
		if high[0]-low[0] > maxGrowth*dx*float64(p.columns) || high[1]-low[1] > maxGrowth*dy*float64(p.rows) {
			return nil, refuse("slices are shifted against each other by up to %.0f mm: too far to be one volume", drift)
		}
		for _, a := range along {
			p.shifts = append(p.shifts, [2]float64{(a[0] - low[0]) / dx, (a[1] - low[1]) / dy})
		}
		p.columns += int(math.Ceil((high[0]-low[0])/dx - 1e-3))
		p.rows += int(math.Ceil((high[1]-low[1])/dy - 1e-3))
		origin = origin.plus(row.times(low[0])).plus(column.times(low[1]))
		p.notes = append(p.notes, "slices are "+askew+": each is moved in its plane onto an orthogonal grid")
	}

	origin = origin.plus(step.times((start - p.at[0]) / distance))
	// j runs from the last row to the first.
	origin = origin.plus(column.times(dy * float64(p.rows-1)))
	p.grid.Shape = [3]int{p.columns, p.rows, n}
	p.grid.Affine = world(row.times(dx), column.times(-dy), step, origin)
	if err := p.grid.Check(); err != nil {
		return nil, &volume.FormatError{Path: first.image.path, Problem: "has an impossible geometry", Err: err}
	}
	if p.grid.Len() > maxVoxels {
		return nil, refuse("%v voxels are more than %d", p.grid.Shape, maxVoxels)
	}
	return p, nil
}

const (
	samePlace = 0.001 // mm between slices that lie in one place
	// mm from the origin, and between pixels: a kilometre is no place in a patient
	maxPlace = 1e6
	// times as many slices, columns or rows may repairs make of those that there are
	maxGrowth = 16
	maxVoxels = 1 << 31 // of one series
)

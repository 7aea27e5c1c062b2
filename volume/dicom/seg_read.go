package dicom

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: the label map that a SEG object holds.

// Overlap says what becomes of voxels that several segments of a SEG object hold: a label map has
// room for one.
type Overlap string

const (
	OverlapError Overlap = "error" // refuse, naming the segments
	OverlapLast  Overlap = "last"  // the segment with the highest number has them
)

// beside is the part of a voxel by which pixels of a SEG object may lie beside the voxels that they
// are for: what rounding in headers does, and no more.
const beside = 0.25

const maxSegSlices = 1 << 16 // of a SEG object that is read alone, with those between its frames

// ErrBeside says that frames lie elsewhere than the voxels of a scan.
var ErrBeside = errors.New("it is moved, turned or scaled against them")

// ReadOn makes a label map on the grid that [ReadWith] gives a series with the same options. Each
// frame must lie on one of the slices, pixel on pixel, though it may be turned by right angles, and
// need not cover it; slices without frames are background. A frame that says that it was drawn on
// another slice is refused, an object of another study or frame of reference is noted. Where the
// options move or resample slices, labels take the nearest voxel. Errors are [volume.FormatError],
// [volume.UnsupportedError] and of the file system.
func (g *Segmentation) ReadOn(s *Series, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	p, err := s.arrange(o)
	if err != nil {
		return nil, err
	}
	first := &s.slices[0]
	_, _, normal, err := first.axes()
	if err != nil {
		return nil, err
	}
	area := first.image.rows * first.image.columns
	distance := p.grid.Spacing()[2]
	targets := make([]*segTarget, len(s.slices))
	for k := range s.slices {
		grid, err := s.slices[k].grid(distance)
		if err != nil {
			return nil, err
		}
		if targets[k], err = newSegTarget(grid, k*area); err != nil {
			return nil, err
		}
	}
	for _, uid := range [][3]string{{"StudyInstanceUID", g.image.study, first.image.study}, {"FrameOfReferenceUID", g.space, first.image.frameOfRef}} {
		if uid[1] != "" && uid[2] != "" && uid[1] != uid[2] {
			o.Note(fmt.Sprintf("says another %s than series %s, which it refers to: is it the series that was drawn on?", uid[0], s.Number))
		}
	}
	drawnOn := map[source][]int{} // slices by the way they are referred to
	for k := range s.slices {
		im := s.slices[k].image
		for _, ref := range []source{{im.sop, 0}, {im.sop, s.slices[k].frame + 1}} {
			drawnOn[ref] = append(drawnOn[ref], k)
		}
	}
	labels := make([]uint16, area*len(s.slices))
	err = g.draw(labels, o, func(f *segFrame) (*segTarget, string) {
		at := f.position.dot(normal)
		k, _ := slices.BinarySearch(p.at, at)
		if k > 0 && (k == len(p.at) || at-p.at[k-1] < p.at[k]-at) {
			k--
		}
		var others []int
		for _, ref := range f.sources {
			others = append(others, drawnOn[ref]...)
		}
		if len(others) == 0 || slices.Contains(others, k) {
			return targets[k], ""
		}
		return targets[k], fmt.Sprintf("lies on slice %d of the scan, but says that it was drawn on slice %d (DerivationImageSequence)", k+1, others[0]+1)
	})
	if err != nil {
		return nil, err
	}
	return &volume.LabelMap{Grid: p.grid, Labels: p.labels(labels, first.image.columns, first.image.rows), Names: g.Names()}, nil
}

// ReadOnGrid makes a label map on a grid, whose voxels the pixels of the frames must be; see
// [Segmentation.ReadOn].
func (g *Segmentation) ReadOnGrid(grid volume.Grid, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	target, err := newSegTarget(grid, 0)
	if err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len()), Names: g.Names()}
	return l, g.draw(l.Labels, o, func(*segFrame) (*segTarget, string) { return target, "" })
}

// Read makes a label map on the least grid that holds all frames: it ends where they end, and may
// be smaller than the series that they were drawn on.
func (g *Segmentation) Read(o Options) (*volume.LabelMap, error) {
	s, err := g.stack()
	if err != nil {
		return nil, inFile(g.Path, err)
	}
	return g.ReadOn(s, o)
}

// Grid is that of the label map which [Segmentation.Read] makes.
func (g *Segmentation) Grid() (volume.Grid, error) {
	s, err := g.stack()
	if err != nil {
		return volume.Grid{}, inFile(g.Path, err)
	}
	var o Options
	if err := o.defaults(); err != nil {
		return volume.Grid{}, err
	}
	p, err := s.arrange(o)
	if err != nil {
		return volume.Grid{}, err
	}
	return p.grid, nil
}

// stack returns the slices that the frames lie on, and those between them that no frame lies on, as
// a series without pixels.
func (g *Segmentation) stack() (*Series, error) {
	lie := g.placed[0].lie
	one := func(position vector) slice {
		return slice{image: &g.image, info: frameInfo{position: slices.Clone(position[:]), orientation: lie.orientation[:], spacing: lie.spacing[:],
			thickness: g.image.shared.thickness, between: g.image.shared.between}}
	}
	first := one(g.placed[0].position)
	_, _, normal, err := first.axes()
	if err != nil {
		return nil, err
	}
	var all []slice
	for n, f := range g.placed {
		s := one(f.position)
		s.info.orientation, s.info.spacing = f.lie.orientation[:], f.lie.spacing[:]
		if !alike(&first, &s) {
			return nil, &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf("frames 1 and %d differ in orientation or spacing: they are read onto the series that they were drawn on, not alone", n+1)}
		}
		s.at = f.position.dot(normal)
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b slice) int { return cmp.Compare(a.at, b.at) })
	const rounding = 0.01 // mm between frames of one slice
	all = slices.CompactFunc(all, func(a, b slice) bool { return math.Abs(a.at-b.at) < rounding })

	// Slices without frames: the distance that a header says or, if it does not divide the others,
	// the least one.
	least := math.Inf(1)
	for k := range len(all) - 1 {
		least = min(least, all[k+1].at-all[k].at)
	}
	divides := func(step float64) bool {
		for k := range len(all) - 1 {
			d := all[k+1].at - all[k].at
			if n := math.Round(d / step); n < 1 || math.Abs(d-n*step) > tolerance(step) {
				return false
			}
		}
		return true
	}
	step := g.image.shared.between
	if !(step > rounding) || !divides(step) {
		step = least
	}
	// A few frames far apart are a large, mostly empty volume: as large as the file's size makes
	// plausible.
	limit := min(max(1<<26, 1024*g.image.size), maxVoxels) / int64(g.image.rows*g.image.columns)
	if n := (all[len(all)-1].at - all[0].at) / step; len(all) > 1 && n >= float64(min(limit, maxSegSlices)) {
		return nil, &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf("has frames that lie %.4g mm apart: too many slices without frames", all[len(all)-1].at-all[0].at)}
	}
	s := &Series{Number: g.Number, Modality: "SEG"}
	even := divides(step)
	for k := range all {
		s.slices = append(s.slices, all[k])
		if k+1 == len(all) || !even {
			continue
		}
		from, to := vector(all[k].info.position), vector(all[k+1].info.position)
		n := int(math.Round((all[k+1].at - all[k].at) / step))
		for m := 1; m < n; m++ {
			part := float64(m) / float64(n)
			between := one(from.times(1 - part).plus(to.times(part)))
			between.at = all[k].at + part*(all[k+1].at-all[k].at)
			s.slices = append(s.slices, between)
		}
	}
	s.Tilt = s.tilt()
	return s, nil
}

// grid of a slice alone: i along its rows, j along its columns, k along the normal.
func (s *slice) grid(distance float64) (volume.Grid, error) {
	row, column, normal, err := s.axes()
	if err != nil {
		return volume.Grid{}, err
	}
	g := volume.Grid{Shape: [3]int{s.image.columns, s.image.rows, 1}}
	for c, v := range [4]vector{row.times(s.info.spacing[1]), column.times(s.info.spacing[0]), normal.times(distance), vector(s.info.position)} {
		g.Affine[0][c], g.Affine[1][c], g.Affine[2][c] = -v[0], -v[1], v[2] // LPS to RAS
	}
	g.Affine[3][3] = 1
	return g, nil
}

// segTarget is a grid that frames are drawn on.
type segTarget struct {
	grid  volume.Grid
	back  volume.Affine // from the world to its voxels
	start int           // of its voxels among all
}

func newSegTarget(grid volume.Grid, start int) (*segTarget, error) {
	back, err := grid.Affine.Inverse()
	if err != nil {
		return nil, err
	}
	return &segTarget{grid: grid, back: back, start: start}, nil
}

// segPlace is where the pixels of a frame go: pixel (row, column) to voxel first + column*along +
// row*down of the target.
type segPlace struct {
	frame              int
	label              uint16
	target             *segTarget
	first, along, down [3]int
	miss               float64 // of its farthest pixel, in voxels
	whole              bool    // no pixel lies outside
	problem            string  // why it may not lie there, or ""
}

// place finds a frame's voxels.
func (g *Segmentation) place(n int, t *segTarget) segPlace {
	f := &g.placed[n]
	p := segPlace{frame: n, target: t}
	row, column := vector(f.lie.orientation[:3]).times(f.lie.spacing[1]), vector(f.lie.orientation[3:]).times(f.lie.spacing[0])
	voxel := func(c, r int) [3]float64 {
		at := f.position.plus(row.times(float64(c))).plus(column.times(float64(r)))
		return t.back.Apply([3]float64{-at[0], -at[1], at[2]})
	}
	origin, right, below := voxel(0, 0), voxel(1, 0), voxel(0, 1)
	for a := range 3 {
		p.first[a] = int(clamp(math.Round(origin[a])))
		p.along[a] = int(clamp(math.Round(right[a] - origin[a])))
		p.down[a] = int(clamp(math.Round(below[a] - origin[a])))
	}
	// How far pixels lie beside their voxels, and whether they lie on the grid, grows towards the
	// corners.
	p.whole = true
	for _, corner := range [4][2]int{{0, 0}, {g.image.columns - 1, 0}, {0, g.image.rows - 1}, {g.image.columns - 1, g.image.rows - 1}} {
		exact := voxel(corner[0], corner[1])
		for a, v := range p.voxel(corner[0], corner[1]) {
			p.miss = max(p.miss, math.Abs(exact[a]-float64(v)))
			p.whole = p.whole && v >= 0 && v < t.grid.Shape[a]
		}
	}
	if length := func(v [3]int) int { return v[0]*v[0] + v[1]*v[1] + v[2]*v[2] }; p.miss != p.miss || length(p.along) != 1 || length(p.down) != 1 {
		// pixels that are larger or smaller than voxels, or turned against them
		p.miss = math.Inf(1)
	}
	return p
}

// clamp keeps numbers that a hostile header makes within what can be calculated with.
func clamp(x float64) float64 { return min(max(x, -1<<40), 1<<40) }

func (p *segPlace) voxel(column, row int) (v [3]int) {
	for a := range v {
		v[a] = p.first[a] + column*p.along[a] + row*p.down[a]
	}
	return v
}

// draw puts the segments into labels. Find says which grid a frame lies on, and what contradicts
// that, or "".
func (g *Segmentation) draw(labels []uint16, o Options, find func(*segFrame) (*segTarget, string)) error {
	file, err := reopen(&g.image)
	if err != nil {
		return inFile(g.Path, err)
	}
	defer file.Close()
	table := g.labels()
	// Frames of one slice follow each other, in the order of their segments; slices are drawn side
	// by side.
	type sliceKey struct{ start, axis, at int }
	groups := map[sliceKey][]segPlace{}
	axes := map[int]bool{}
	for n := range g.placed {
		target, problem := find(&g.placed[n])
		p := g.place(n, target)
		p.label, p.problem = table[g.placed[n].segment], problem
		key := sliceKey{start: p.target.start}
		for a := range 3 {
			if p.along[a] == 0 && p.down[a] == 0 {
				key.axis, key.at = a, p.first[a]
			}
		}
		axes[key.axis] = true
		groups[key] = append(groups[key], p)
	}
	workers := runtime.GOMAXPROCS(0)
	if len(axes) > 1 {
		workers = 1 // planes that cross each other
	}
	painters := make(chan *segPainter, workers)
	for range workers {
		painter := &segPainter{g: g, file: file, labels: labels, table: table, overlaps: map[[2]uint16]int{}}
		defer painter.frames.close()
		painters <- painter
	}
	order := slices.SortedFunc(maps.Values(groups), func(a, b []segPlace) int { return a[0].frame - b[0].frame })
	errs := make([]error, len(order)) // the first one is told, whoever found his first
	var group errgroup.Group
	group.SetLimit(workers)
	for n, places := range order {
		slices.SortStableFunc(places, func(a, b segPlace) int { return int(g.placed[a.frame].segment) - int(g.placed[b.frame].segment) })
		group.Go(func() error {
			painter := <-painters
			for m := 0; m < len(places) && errs[n] == nil; m++ {
				errs[n] = painter.paint(&places[m])
			}
			painters <- painter
			return nil
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return inFile(g.Path, err)
		}
	}
	overlaps := map[[2]uint16]int{}
	for range workers {
		for pair, n := range (<-painters).overlaps {
			overlaps[pair] += n
		}
	}
	return g.overlap(overlaps, o)
}

// overlap refuses segments that share voxels, or says which of them has these.
func (g *Segmentation) overlap(overlaps map[[2]uint16]int, o Options) error {
	var pairs []string
	for _, a := range g.Segments {
		for _, b := range g.Segments {
			if n := overlaps[[2]uint16{a.Label, b.Label}]; n > 0 {
				pairs = append(pairs, fmt.Sprintf("%s and %s in %d voxels", g.describe(a.Label), g.describe(b.Label), n))
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	if len(pairs) > 4 {
		pairs = append(pairs[:4], fmt.Sprintf("and %d more pairs", len(pairs)-4))
	}
	text := "segments overlap: " + strings.Join(pairs, ", ")
	if o.Overlap == OverlapError {
		return &volume.UnsupportedError{Path: g.Path, Problem: text + ". A label map has room for one: --segment-overlap last gives them to the one with the highest number"}
	}
	o.Note(text + ": the one with the highest number has them")
	return nil
}

// segPainter draws frames, one at a time.
type segPainter struct {
	g        *Segmentation
	labels   []uint16
	table    map[uint16]uint16
	overlaps map[[2]uint16]int // voxels of two labels, the one that was there first
	file     *data             // for frames of single bits
	packed   []byte            // one of them
	frames   frameReader       // for others
	row      []uint32
}

// paint draws a frame. Pixels that are not background must be somewhere.
func (s *segPainter) paint(p *segPlace) error {
	g, shape := s.g, p.target.grid.Shape
	index := func(v [3]int) int { return v[0] + shape[0]*(v[1]+shape[1]*v[2]) }
	base, along, down := 0, 0, 0
	if p.whole {
		base, along, down = p.target.start+index(p.first), index(p.along), index(p.down)
	}
	return s.each(p.frame, func(row, column int, label uint16) error {
		if p.miss > beside {
			return &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf("frame %d does not lie on the voxels of the scan", p.frame+1), Err: ErrBeside}
		}
		if p.problem != "" {
			return &volume.FormatError{Path: g.Path, Problem: fmt.Sprintf("frame %d %s", p.frame+1, p.problem)}
		}
		at := base + column*along + row*down
		if !p.whole {
			v := p.voxel(column, row)
			for a, x := range v {
				if x < 0 || x >= shape[a] {
					return &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf("frame %d reaches outside the scan", p.frame+1)}
				}
			}
			at = p.target.start + index(v)
		}
		if old := s.labels[at]; old != 0 && old != label {
			s.overlaps[[2]uint16{old, label}]++
		}
		s.labels[at] = label
		return nil
	})
}

// each calls f with the pixels of a frame that are not background, and their labels.
func (s *segPainter) each(frame int, f func(row, column int, label uint16) error) error {
	im := &s.g.image
	label := s.table[s.g.placed[frame].segment]
	if im.allocated == 1 {
		skip, err := s.readBits(frame)
		if err != nil {
			return err
		}
		for n, b := range s.packed {
			for ; b != 0; b &= b - 1 {
				if pixel := 8*n + bits.TrailingZeros8(b) - skip; pixel >= 0 && pixel < im.rows*im.columns {
					row := pixel / im.columns
					if err := f(row, pixel-row*im.columns, label); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	read, err := s.frames.read(im, frame)
	if err != nil {
		return err
	}
	if s.row == nil {
		s.row = make([]uint32, im.columns)
	}
	for row := range im.rows {
		for column, x := range read.row(row, s.row) {
			if x == 0 {
				continue
			}
			switch s.g.Kind {
			case segFractional:
				if int(x) != s.g.fraction {
					return &volume.UnsupportedError{Path: s.g.Path, Problem: fmt.Sprintf("holds fractions, such as %d of %d in frame %d: only masks are labels, which hold 0 and %[2]d alone", x, s.g.fraction, frame+1)}
				}
			case segLabelMap:
				if int(x) == s.g.padding {
					continue
				}
				known := false
				if label, known = s.table[uint16(x)]; !known || x > math.MaxUint16 {
					return fmt.Errorf("frame %d holds segment %d, which is not described", frame+1, x)
				}
			}
			if err := f(row, column, label); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBits reads the bytes that hold a frame of single bits. In a file that is not encapsulated
// frames follow each other without a gap, so that the first bit may be any of the first byte's: it
// comes after skip others.
func (s *segPainter) readBits(frame int) (skip int, err error) {
	im := &s.g.image
	area := int64(im.rows) * int64(im.columns)
	skip = int(int64(frame) * area % 8)
	from, to := im.pixels.value+int64(frame)*area/8, im.pixels.value+(int64(frame+1)*area+7)/8
	if im.pixels.length == undefined {
		im.encapsulated.once.Do(func() { im.encapsulated.spans, im.encapsulated.err = im.fragments(s.file) })
		if im.encapsulated.err != nil {
			return 0, im.encapsulated.err
		}
		spans := im.encapsulated.spans
		if frame >= len(spans) || len(spans[frame]) != 1 || spans[frame][0].length < (area+7)/8 {
			return 0, fmt.Errorf("frame %d is cut short", frame+1)
		}
		skip = 0
		from, to = spans[frame][0].from, spans[frame][0].from+(area+7)/8
	}
	if s.packed == nil {
		s.packed = make([]byte, area/8+2)
	}
	s.packed = s.packed[:to-from]
	if _, err := s.file.ReadAt(s.packed, from); err != nil {
		return 0, fmt.Errorf("frame %d: %w", frame+1, err)
	}
	return skip, nil
}

// checkSEGPixels says whether the pixels can be read, and whether the file can hold as many as it
// claims.
func (im *image) checkSEGPixels() error {
	pixels := int64(im.rows) * int64(im.columns) * int64(im.frames)
	switch have := im.size - im.pixels.value; {
	case !im.known:
		return &volume.UnsupportedError{Path: im.path, Problem: fmt.Sprintf("is compressed with %s, which is not read", im.syntax.name)}
	case im.pixels.length == undefined && pixels > maxShrink*have:
		return fmt.Errorf("claims %d pixels in %d bytes", pixels, have)
	case im.pixels.length == undefined:
		return nil
	case im.allocated == 1 && im.syntax.order == binary.BigEndian && im.pixels.vr == "OW":
		return &volume.UnsupportedError{Path: im.path, Problem: "has single bits in big endian words"}
	case im.syntax.codec != nil:
		return errors.New("says that its pixels are compressed with " + im.syntax.name + ", but they are not")
	default:
		if need := (pixels*int64(im.allocated) + 7) / 8; min(im.pixels.length, have) < need {
			return &volume.FormatError{Path: im.path, Problem: fmt.Sprintf("is truncated: %d of %d bytes of pixels", max(min(im.pixels.length, have), 0), need)}
		}
	}
	return nil
}

// Labels makes a label map of labels that count pixels, columns first, then rows (from the first)
// and slices (in the order of the series), on the grid that [ReadWith] gives the series with the
// same options. Where the options move or resample slices, labels take the nearest voxel. It may
// change stack.
func (s *Series) Labels(stack []uint16, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	if want := s.Shape[0] * s.Shape[1] * s.Shape[2]; len(stack) != want {
		return nil, fmt.Errorf("%d labels for the %d pixels of a series", len(stack), want)
	}
	p, err := s.arrange(o)
	if err != nil {
		return nil, err
	}
	return &volume.LabelMap{Grid: p.grid, Labels: p.labels(stack, s.Shape[0], s.Shape[1])}, nil
}

// labels carries out the plan on the labels of the slices, whose rows are in DICOM's order: each
// voxel takes the label of the nearest pixel. It may change stack.
func (p *plan) labels(stack []uint16, columns, rows int) []uint16 {
	if p.shifts == nil && !p.resample {
		for image := range slices.Chunk(stack, columns*rows) {
			for low, high := 0, rows-1; low < high; low, high = low+1, high-1 {
				a, b := image[low*columns:][:columns], image[high*columns:][:columns]
				for n := range a {
					a[n], b[n] = b[n], a[n]
				}
			}
		}
		return stack
	}
	out := make([]uint16, p.grid.Len())
	area := columns * rows
	for k := range p.grid.Shape[2] {
		from := slices.MaxFunc(p.shares(k), func(a, b share) int { return cmp.Compare(a.weight, b.weight) })
		src, dst := stack[from.slice*area:][:area], out[k*p.columns*p.rows:][:p.columns*p.rows]
		shift := [2]int{int(math.Round(from.shift[0])), int(math.Round(from.shift[1]))}
		for row := range rows {
			if at := row + shift[1]; at < p.rows {
				to := dst[(p.rows-1-at)*p.columns:][:p.columns]
				copy(to[min(shift[0], p.columns):], src[row*columns:][:columns])
			}
		}
	}
	return out
}

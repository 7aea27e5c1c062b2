package segmentation

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

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// SegOptions say how a label map is made of an object.
type Options struct {
	stack.Options
	// Rank orders structures by their number and name: of those that share voxels, the one with the
	// least has them, as Words says. Structures of equal rank are refused.
	Rank  func(number int, name string) int
	Words string
	Note  func(string)
}

// maxMiss is how far (voxels) a pixel of a SEG object may lie off the voxel that it is for: what
// rounding in headers does, and no more.
const maxMiss = 0.25

const maxSegSlices = 1 << 16 // of a SEG object that is read alone, with those between its frames

// ErrOffGrid says that frames do not lie on the voxels of a scan.
var ErrOffGrid = errors.New("it is moved, turned or scaled against them")

// ReadOn makes a label map on the grid that reading gives a stack with the same options. Each frame
// must lie on one of the slices, pixel on pixel, though it may be turned by right angles, and need
// not cover it; slices without frames are background. A frame drawn, by its own words, on another
// slice is refused. One drawn on images that the scan does not have is noted, and so is an object
// of another study or frame of reference. Where the options move or resample slices, see
// [stack.Plan.Labels]. Errors are [volume.FormatError], [volume.UnsupportedError] and of the file
// system.
func (g *Object) ReadOn(s *stack.Stack, o Options) (*volume.LabelMap, error) {
	p, err := s.Arrange(o.Options)
	if err != nil {
		return nil, err
	}
	first := &s.Slices[0]
	_, _, normal, err := first.Axes()
	if err != nil {
		return nil, err
	}
	area := first.Image.Rows * first.Image.Columns
	distance := p.Grid.Spacing()[2]
	targets := make([]*segTarget, len(s.Slices))
	for k := range s.Slices {
		grid, err := s.Slices[k].Grid(distance)
		if err != nil {
			return nil, err
		}
		if targets[k], err = newSegTarget(grid, k*area); err != nil {
			return nil, err
		}
	}
	for _, uid := range []struct {
		tag  tag.Tag
		own  string
		scan func(*stack.Image) string
	}{
		{tag.StudyInstanceUID, g.Image.Study, func(im *stack.Image) string { return im.Study }},
		{tag.FrameOfReferenceUID, g.Space, func(im *stack.Image) string { return im.FrameOfRef }},
	} {
		matches := func(one stack.Slice) bool { value := uid.scan(one.Image); return value == "" || value == uid.own }
		if uid.own != "" && !slices.ContainsFunc(s.Slices, matches) {
			o.Note(fmt.Sprintf("says another %s than series %s, which it "+
				"refers to: is it the series that was drawn on?", uid.tag, s.Number))
		}
	}
	alone := first.Image == &g.Image // its own frames, without a scan
	drawnOn := map[source][]int{}    // slices by the way they are referred to
	for k := range s.Slices {
		im := s.Slices[k].Image
		for _, ref := range []source{{im.SOP, 0}, {im.SOP, s.Slices[k].Frame + 1}} {
			drawnOn[ref] = append(drawnOn[ref], k)
		}
	}
	if err := g.fits(int64(area)*int64(len(s.Slices)) + int64(p.Grid.Len())); err != nil {
		return nil, err
	}
	labels := make([]uint16, area*len(s.Slices))
	painted, err := g.draw(labels, o, func(f *segFrame) (target *segTarget, strange bool, problem string) {
		at := f.position.Dot(normal)
		k, _ := slices.BinarySearch(p.At, at)
		if k > 0 && (k == len(p.At) || at-p.At[k-1] < p.At[k]-at) {
			k--
		}
		var others []int
		for _, ref := range f.sources {
			others = append(others, drawnOn[ref]...)
		}
		if len(others) == 0 || slices.Contains(others, k) {
			return targets[k], !alone && len(f.sources) > 0 && len(others) == 0, ""
		}
		return targets[k], false,
			fmt.Sprintf("lies on slice %d of the scan, but says that it was "+
				"drawn on slice %d (DerivationImageSequence)", k+1, others[0]+1)
	})
	if err != nil {
		return nil, err
	}
	emptied := volume.EmptiedOf(painted, labels)
	return &volume.LabelMap{Grid: p.Grid, Labels: p.Labels(labels, first.Image.Columns, first.Image.Rows),
		Names: g.Names(), Emptied: emptied}, nil
}

// ReadOnGrid makes a label map on a grid, whose voxels the pixels of the frames must be; see
// [Object.readOn].
func (g *Object) ReadOnGrid(grid volume.Grid, o Options) (*volume.LabelMap, error) {
	target, err := newSegTarget(grid, 0)
	if err != nil {
		return nil, err
	}
	if err := g.fits(int64(grid.Len())); err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len()), Names: g.Names()}
	painted, err := g.draw(l.Labels, o, func(*segFrame) (*segTarget, bool, string) { return target, false, "" })
	l.Emptied = volume.EmptiedOf(painted, l.Labels)
	return l, err
}

// fits says whether there is memory for so many labels.
func (g *Object) fits(labels int64) error {
	if err := memory.Check(2 * labels); err != nil {
		return &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf("is of %d voxels", labels), Err: err}
	}
	return nil
}

// Read makes a label map on the least grid that holds all frames: it ends where they end, and may
// be smaller than the series that they were drawn on.
func (g *Object) Read(o Options) (*volume.LabelMap, error) {
	s, err := g.stack()
	if err != nil {
		return nil, element.InFile(g.Path, err)
	}
	return g.ReadOn(s, o)
}

// Grid is that of the label map which [Object.read] makes.
func (g *Object) Grid() (volume.Grid, error) {
	s, err := g.stack()
	if err != nil {
		return volume.Grid{}, element.InFile(g.Path, err)
	}
	var o Options
	p, err := s.Arrange(o.Options)
	if err != nil {
		return volume.Grid{}, err
	}
	return p.Grid, nil
}

// stack returns the slices that the frames lie on, and those between them without a frame, as a
// stack without pixels.
func (g *Object) stack() (*stack.Stack, error) {
	plane := g.Placed[0].plane
	one := func(position stack.Vector) stack.Slice {
		return stack.Slice{Image: &g.Image, Info: stack.Info{Position: slices.Clone(position[:]),
			Orientation: plane.orientation[:], Spacing: plane.spacing[:],
			Thickness: g.Image.Shared.Thickness, Between: g.Image.Shared.Between}}
	}
	first := one(g.Placed[0].position)
	_, _, normal, err := first.Axes()
	if err != nil {
		return nil, err
	}
	var all []stack.Slice
	for n, f := range g.Placed {
		s := one(f.position)
		s.Info.Orientation, s.Info.Spacing = f.plane.orientation[:], f.plane.spacing[:]
		if !stack.Alike(&first, &s) {
			return nil, &volume.UnsupportedError{Path: g.Path,
				Problem: fmt.Sprintf("frames 1 and %d differ in orientation or spacing: they are read onto the "+
					"series that they were drawn on, not alone", n+1)}
		}
		s.At = f.position.Dot(normal)
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b stack.Slice) int { return cmp.Compare(a.At, b.At) })
	const rounding = 0.01 // mm between frames of one slice
	all = slices.CompactFunc(all, func(a, b stack.Slice) bool { return math.Abs(a.At-b.At) < rounding })

	// The distance between slices, some of which have no frame: the one in the header or, if the
	// distances between frames are no multiples of it, the smallest of these.
	least := math.Inf(1)
	for k := range len(all) - 1 {
		least = min(least, all[k+1].At-all[k].At)
	}
	divides := func(step float64) bool {
		for k := range len(all) - 1 {
			d := all[k+1].At - all[k].At
			if n := math.Round(d / step); n < 1 || math.Abs(d-n*step) > stack.Tolerance(step) {
				return false
			}
		}
		return true
	}
	step := g.Image.Shared.Between
	if !(step > rounding) || !divides(step) {
		step = least
	}
	// A few frames far apart make a large, mostly empty volume. It may be as large as the file's
	// size makes plausible.
	limit := min(max(1<<26, 1024*g.Image.Size), stack.MaxVoxels) / int64(g.Image.Rows*g.Image.Columns)
	if n := (all[len(all)-1].At - all[0].At) / step; len(all) > 1 && n >= float64(min(limit, maxSegSlices)) {
		return nil, &volume.UnsupportedError{Path: g.Path,
			Problem: fmt.Sprintf("has frames that lie %.4g mm apart: too many slices without frames",
				all[len(all)-1].At-all[0].At)}
	}
	s := &stack.Stack{Number: g.Number}
	even := divides(step)
	for k := range all {
		s.Slices = append(s.Slices, all[k])
		if k+1 == len(all) || !even {
			continue
		}
		from, to := stack.Vector(all[k].Info.Position), stack.Vector(all[k+1].Info.Position)
		n := int(math.Round((all[k+1].At - all[k].At) / step))
		for m := 1; m < n; m++ {
			part := float64(m) / float64(n)
			between := one(from.Times(1 - part).Plus(to.Times(part)))
			between.At = all[k].At + part*(all[k+1].At-all[k].At)
			s.Slices = append(s.Slices, between)
		}
	}
	s.Tilt = stack.TiltOf(s.Slices)
	return s, nil
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
	strange            bool    // the frame names images, and the scan has none of them
	problem            string  // why it may not lie there, or ""
}

// place finds a frame's voxels.
func (g *Object) place(n int, t *segTarget) segPlace {
	f := &g.Placed[n]
	p := segPlace{frame: n, target: t}
	row, column := stack.Vector(f.plane.orientation[:3]).Times(f.plane.spacing[1]),
		stack.Vector(f.plane.orientation[3:]).Times(f.plane.spacing[0])
	voxel := func(c, r int) [3]float64 {
		at := f.position.Plus(row.Times(float64(c))).Plus(column.Times(float64(r)))
		return t.back.Apply([3]float64{-at[0], -at[1], at[2]})
	}
	origin, right, below := voxel(0, 0), voxel(1, 0), voxel(0, 1)
	for a := range 3 {
		p.first[a] = int(clamp(math.Round(origin[a])))
		p.along[a] = int(clamp(math.Round(right[a] - origin[a])))
		p.down[a] = int(clamp(math.Round(below[a] - origin[a])))
	}
	// Pixels lie farthest off their voxels at a corner, and outside the grid there first.
	p.whole = true
	for _, corner := range [4][2]int{{0, 0}, {g.Image.Columns - 1, 0}, {0, g.Image.Rows - 1},
		{g.Image.Columns - 1, g.Image.Rows - 1}} {
		exact := voxel(corner[0], corner[1])
		for a, v := range p.voxel(corner[0], corner[1]) {
			p.miss = max(p.miss, math.Abs(exact[a]-float64(v)))
			p.whole = p.whole && v >= 0 && v < t.grid.Shape[a]
		}
	}
	if length := func(v [3]int) int { return v[0]*v[0] + v[1]*v[1] + v[2]*v[2] }; p.miss != p.miss ||
		length(p.along) != 1 || length(p.down) != 1 {
		// pixels are larger or smaller than voxels, or turned against them
		p.miss = math.Inf(1)
	}
	return p
}

// clamp keeps the numbers of a hostile header within what can be computed with.
func clamp(x float64) float64 { return min(max(x, -1<<40), 1<<40) }

func (p *segPlace) voxel(column, row int) (v [3]int) {
	for a := range v {
		v[a] = p.first[a] + column*p.along[a] + row*p.down[a]
	}
	return v
}

// draw puts the segments into labels. Find says which grid a frame lies on, whether the images that
// it names are all missing there, and what contradicts that it lies there, or "". It returns the
// labels of the segments that share voxels.
func (g *Object) draw(labels []uint16, o Options,
	find func(*segFrame) (target *segTarget, strange bool, problem string)) (painted map[uint16]bool, err error) {
	file, err := pixels.Reopen(&g.Image.Image)
	if err != nil {
		return nil, element.InFile(g.Path, err)
	}
	defer file.Close()
	for _, text := range g.Doubts {
		o.Note(text)
	}
	table := g.labels()
	rank := map[uint16]int{}
	for _, s := range g.Segments {
		rank[s.Label] = o.rank(int(s.number), s.Name)
	}
	// Frames of one slice are drawn one after the other, in the order of their segments; different
	// slices at the same time.
	type sliceKey struct{ start, axis, at int }
	groups := map[sliceKey][]segPlace{}
	axes := map[int]bool{}
	for n := range g.Placed {
		target, strange, problem := find(&g.Placed[n])
		p := g.place(n, target)
		p.label, p.strange, p.problem = table[g.Placed[n].segment], strange, problem
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
		painter := &segPainter{g: g, file: file, labels: labels, table: table, rank: rank,
			overlaps: map[[2]uint16]int{}, painted: map[uint16]bool{}}
		defer painter.frames.Close()
		painters <- painter
	}
	order := slices.SortedFunc(maps.Values(groups), func(a, b []segPlace) int { return a[0].frame - b[0].frame })
	errs := make([]error, len(order)) // of these the first is told
	var group errgroup.Group
	group.SetLimit(workers)
	for n, places := range order {
		slices.SortStableFunc(places,
			func(a, b segPlace) int { return int(g.Placed[a.frame].segment) - int(g.Placed[b.frame].segment) })
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
			return nil, element.InFile(g.Path, err)
		}
	}
	overlaps, painted := map[[2]uint16]int{}, map[uint16]bool{}
	full, strange := 0, 0
	for range workers {
		painter := <-painters
		full, strange = full+painter.full, strange+painter.strange
		for pair, n := range painter.overlaps {
			overlaps[pair] += n
		}
		maps.Copy(painted, painter.painted)
	}
	if strange > 0 {
		o.Note(fmt.Sprintf("WARNING: %d of %s name images that the scan does not have (DerivationImageSequence), "+
			"and are drawn where they lie: were they drawn on another volume?",
			strange, numbers.Count(full, "frame")))
	}
	return painted, g.overlap(overlaps, rank, o)
}

// rank is the place of a segment in the order of those that share voxels.
func (o Options) rank(number int, name string) int {
	if o.Rank == nil {
		return 0
	}
	return o.Rank(number, name)
}

// overlap refuses segments that share voxels, or notes which segment gets these.
func (g *Object) overlap(overlaps map[[2]uint16]int, rank map[uint16]int, o Options) error {
	if len(overlaps) == 0 {
		return nil
	}
	place := make(map[uint16]int, len(g.Segments)) // of a label among the segments
	for n, s := range g.Segments {
		place[s.Label] = n
	}
	shared := slices.SortedFunc(maps.Keys(overlaps), func(a, b [2]uint16) int {
		return cmp.Or(place[a[0]]-place[b[0]], place[a[1]]-place[b[1]])
	})
	decided := true
	for _, pair := range shared {
		decided = decided && rank[pair[0]] != rank[pair[1]]
	}
	if !decided {
		shared = slices.DeleteFunc(shared, func(pair [2]uint16) bool { return rank[pair[0]] != rank[pair[1]] })
	}
	const most = 4
	var pairs []string
	for _, pair := range shared[:min(len(shared), most)] {
		pairs = append(pairs, fmt.Sprintf("%s and %s in %s", g.describe(pair[0]), g.describe(pair[1]),
			numbers.Count(overlaps[pair], "voxel")))
	}
	if more := len(shared) - most; more > 0 {
		pairs = append(pairs, fmt.Sprintf("and %s", numbers.Count(more, "more pair")))
	}
	text := "segments overlap: " + strings.Join(pairs, ", ")
	if !decided {
		return &volume.UnsupportedError{Path: g.Path,
			Problem: text +
				". A label map has room for one: --segment-overlap last gives them to the segment with the highest " +
				"number, --segment-overlap order:NAME,NAME to the first that is named"}
	}
	o.Note(text + ": " + o.Words)
	return nil
}

// segPainter draws frames, one at a time.
type segPainter struct {
	g        *Object
	labels   []uint16
	table    map[uint16]uint16
	rank     map[uint16]int    // of a label: the least has the voxels that it shares
	overlaps map[[2]uint16]int // voxels of two labels, the one that was there first
	painted  map[uint16]bool   // labels that share voxels with others
	full     int               // frames that have a pixel
	strange  int               // of these, those whose images the scan does not have
	file     *element.File     // for frames of single bits
	packed   []byte            // one of them
	frames   pixels.Reader     // for others
	row      []uint32
}

// paint draws a frame. Pixels that are not background must lie on voxels.
func (s *segPainter) paint(p *segPlace) error {
	g, shape := s.g, p.target.grid.Shape
	index := func(v [3]int) int { return v[0] + shape[0]*(v[1]+shape[1]*v[2]) }
	base, along, down := 0, 0, 0
	if p.whole {
		base, along, down = p.target.start+index(p.first), index(p.along), index(p.down)
	}
	empty := true
	return s.each(p.frame, func(row, column int, label uint16) error {
		if empty {
			empty = false
			s.full++
			if p.strange {
				s.strange++
			}
		}
		if p.miss > maxMiss {
			return &volume.UnsupportedError{Path: g.Path,
				Problem: fmt.Sprintf("frame %d does not lie on the voxels of the scan", p.frame+1), Err: ErrOffGrid}
		}
		if p.problem != "" {
			return &volume.FormatError{Path: g.Path, Problem: fmt.Sprintf("frame %d %s", p.frame+1, p.problem)}
		}
		at := base + column*along + row*down
		if !p.whole {
			v := p.voxel(column, row)
			for a, x := range v {
				if x < 0 || x >= shape[a] {
					return &volume.UnsupportedError{Path: g.Path,
						Problem: fmt.Sprintf("frame %d reaches outside the scan", p.frame+1)}
				}
			}
			at = p.target.start + index(v)
		}
		if old := s.labels[at]; old != 0 && old != label {
			s.overlaps[[2]uint16{old, label}]++
			s.painted[old], s.painted[label] = true, true
			if s.rank[old] < s.rank[label] {
				return nil
			}
		}
		s.labels[at] = label
		return nil
	})
}

// each calls f with the pixels of a frame that are not background, and their labels.
func (s *segPainter) each(frame int, f func(row, column int, label uint16) error) error {
	im := &s.g.Image
	label := s.table[s.g.Placed[frame].segment]
	if im.Allocated == 1 {
		skip, err := s.readBits(frame)
		if err != nil {
			return err
		}
		for n, b := range s.packed {
			for ; b != 0; b &= b - 1 {
				if pixel := 8*n + bits.TrailingZeros8(b) - skip; pixel >= 0 && pixel < im.Rows*im.Columns {
					row := pixel / im.Columns
					if err := f(row, pixel-row*im.Columns, label); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	read, err := s.frames.Read(&im.Image, frame)
	if err != nil {
		return err
	}
	if s.row == nil {
		s.row = make([]uint32, im.Columns)
	}
	for row := range im.Rows {
		for column, x := range read.Row(row, s.row) {
			if x == 0 {
				continue
			}
			switch s.g.Kind {
			case segFractional:
				if int(x) != s.g.fraction {
					return &volume.UnsupportedError{Path: s.g.Path,
						Problem: fmt.Sprintf("holds fractions, such as %d of %d in frame %d: only masks "+
							"are labels, which hold 0 and %[2]d alone", x, s.g.fraction, frame+1)}
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
	im := &s.g.Image
	if im.Syntax.Compressed {
		s.packed, err = s.frames.ReadBits(&im.Image, frame)
		return 0, err
	}
	area := int64(im.Rows) * int64(im.Columns)
	skip = int(int64(frame) * area % 8)
	from, to := im.Pixels.Value+int64(frame)*area/8, im.Pixels.Value+(int64(frame+1)*area+7)/8
	if im.Pixels.Length == element.Undefined {
		spans, err := im.FrameSpans(s.file, frame)
		if err != nil {
			return 0, err
		}
		if len(spans) != 1 || spans[0].Length < (area+7)/8 {
			return 0, fmt.Errorf("frame %d is cut short", frame+1)
		}
		skip = 0
		from, to = spans[0].From, spans[0].From+(area+7)/8
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

// checkPixels says whether the pixels can be read, and whether the file can hold as many as it
// claims.
func checkPixels(im *stack.Image) error {
	switch {
	case !im.Syntax.Known:
		return &volume.UnsupportedError{Path: im.Path, Problem: im.Syntax.Refusal()}
	case im.Allocated == 1 && im.Pixels.Length != element.Undefined && im.Syntax.Order == binary.BigEndian &&
		im.Pixels.VR == "OW":
		return &volume.UnsupportedError{Path: im.Path, Problem: "has single bits in big endian words"}
	}
	return im.CheckSize()
}

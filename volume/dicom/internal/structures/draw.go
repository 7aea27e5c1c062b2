package structures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// Options say how a label map is made of contours.
type Options struct {
	stack.Options
	// Rank orders structures by their number and name: of those that share voxels, the one with the
	// least has them, as Words says. Structures of equal rank are refused.
	Rank  func(number int, name string) int
	Words string
	Note  func(string)
}

// decimals parses numbers divided by backslashes.
func decimals(text string) ([]float64, error) {
	text = strings.Trim(text, " \x00")
	if text == "" {
		return nil, nil
	}
	numbers := make([]float64, 1+strings.Count(text, `\`))
	return numbers, element.Decimals(text, numbers)
}

// ReadOn fills the contours of structures, which labels number, on the grid that reading gives a
// stack with the same options. A pixel belongs to a structure where its centre lies within the
// contours of its slice; a contour within another is a hole (even-odd rule), and one that is drawn
// twice counts once. Each contour must lie in the plane of a slice, within half of their distance.
// Contours outside the scan are passed over, and so are those of structures in another frame of
// reference than the scan's, unless they name its slices; a label whose structures have no others
// is undrawn, and a set that has no others is refused. Structures of one label must have the same
// pixels. Where the options move or resample slices, see [stack.Plan.Labels]. Errors are
// [volume.FormatError], [volume.UnsupportedError] and of the file system.
func (g *Set) ReadOn(s *stack.Stack, labels map[int]uint16, o Options) (*volume.LabelMap, error) {
	plan, err := s.Arrange(o.Options)
	if err != nil {
		return nil, err
	}
	_, _, normal, err := s.Slices[0].Axes()
	if err != nil {
		return nil, err
	}
	c := &canvas{
		set: g, stack: s, plan: plan, normal: normal, distance: plan.Grid.Spacing()[2],
		columns: s.Slices[0].Image.Columns, rows: s.Slices[0].Image.Rows, masks: map[int]map[int][]bool{},
		fates: map[int]*fate{},
	}
	c.elsewhere, c.known = g.elsewhere(s)
	if Holds(s, g.Drawn) || Holds(s, g.Listed) {
		// else the scan's slices may just have other UIDs now
		c.own = map[string]bool{}
		for k := range s.Slices {
			c.own[s.Slices[k].Image.SOP] = true
		}
	}
	p := newParser(g.Path)
	p.contour = func(number int, line contour) error {
		if labels[number] == 0 {
			return nil
		}
		return c.draw(number, line)
	}
	if err := p.read(g.Path); err != nil {
		return nil, err
	}
	if err := c.checkAnyOnScan(); err != nil {
		return nil, err
	}
	for number, crossed := range c.crossings.count(c.columns, c.rows) {
		c.fate(number).crossed = crossed
	}
	for number, drawn := range c.masks {
		c.fate(number).empty = !hasPixels(drawn)
	}
	for _, note := range slices.Concat(g.Doubts, g.doubtsAboutSpace(s), g.doubtsAboutSlices(s), c.notes()) {
		o.Note(note)
	}
	stacked, err := c.merge(labels, o)
	if err != nil {
		return nil, err
	}
	emptied := volume.EmptiedOf(c.withPixels(labels), stacked)
	l := &volume.LabelMap{Grid: plan.Grid, Emptied: emptied, Labels: plan.Labels(stacked, c.columns, c.rows),
		Names: map[uint16]string{}, Undrawn: c.undrawn(labels)}
	for _, structure := range g.Structures {
		if label := labels[structure.Number]; label != 0 {
			l.Names[label] = structure.Name
		}
	}
	return l, nil
}

// canvas is the slices that contours are drawn on.
type canvas struct {
	set           *Set
	stack         *stack.Stack
	plan          *stack.Plan
	normal        stack.Vector
	distance      float64 // mm between slices
	columns, rows int
	masks         map[int]map[int][]bool // pixels of each structure and slice
	fates         map[int]*fate          // what became of the contours of each structure
	crossings     crossings
	// own are the SOPInstanceUIDs of the slices; nil where the set names none.
	own map[string]bool
	// elsewhere are the numbers of the structures in another frame of reference than the scan's,
	// known those where this is known to be another place and not another UID of the same.
	elsewhere, known map[int]bool
}

// draw adds a contour: where another one is already, pixels change sides. The same contour again is
// no hole as large as the structure.
func (c *canvas) draw(number int, line contour) error {
	f := c.fate(number)
	f.all++
	if len(line.points) < 3 || !strings.HasPrefix(line.kind, "CLOSED") && line.kind != "INTERPOLATED_PLANAR" {
		f.open++
		return nil
	}
	named := c.own != nil && slices.ContainsFunc(line.images, func(uid string) bool { return c.own[uid] })
	if c.known[number] && !named {
		f.foreign++
		return nil
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range line.points {
		low, high = min(low, p.Dot(c.normal)), max(high, p.Dot(c.normal))
	}
	if high-low > c.distance/2 {
		return &volume.UnsupportedError{Path: c.set.Path,
			Problem: fmt.Sprintf("a contour reaches over %.3g mm across the slices, which are "+
				"%.3g mm apart: contours must lie on slices", high-low, c.distance)}
	}
	k, away, there := c.nearest((low + high) / 2)
	switch {
	case there == beyondSlices:
		f.outside++
		return nil
	case there == inGap:
		f.gap++
		return nil
	}
	outline, err := c.pixels(line, k)
	if err != nil {
		return err
	}
	inside, cut := c.within(outline)
	if !inside {
		f.outside++
		return nil
	}
	if c.crossings.has(number, k, outline) {
		f.repeated++
		return nil
	}
	f.add(away, cut, c.distance)
	if c.own != nil && len(line.images) > 0 && !named {
		f.strange++
	}
	if c.elsewhere[number] && named {
		f.renamed++
	} else if c.elsewhere[number] {
		f.doubtful++
	}
	if enclosesTwice(outline, c.columns, c.rows) {
		f.twice++
	}
	if c.masks[number] == nil {
		c.masks[number] = map[int][]bool{}
	}
	if c.masks[number][k] == nil {
		c.masks[number][k] = make([]bool, c.columns*c.rows)
	}
	invert(c.masks[number][k], c.columns, c.rows, outline)
	c.crossings.add(number, k, outline)
	return nil
}

// An edge crosses a row of pixels at a column, downwards or upwards (-1).
type edge struct {
	column float64
	down   int
}

// edgesOf are the edges of a polygon (column, row) that cross each row, from the left. An edge
// holds its upper end and not its lower one.
func edgesOf(polygon [][2]float64, rows int) [][]edge {
	edges := make([][]edge, rows)
	for n, a := range polygon {
		b, down := polygon[(n+1)%len(polygon)], 1
		if a[1] > b[1] {
			a, b, down = b, a, -1
		}
		first, last := math.Ceil(max(a[1], 0)), min(math.Ceil(b[1]), float64(rows))
		for row := first; row < last; row++ {
			edges[int(row)] = append(edges[int(row)], edge{a[0] + (row-a[1])/(b[1]-a[1])*(b[0]-a[0]), down})
		}
	}
	for _, at := range edges {
		slices.SortFunc(at, func(a, b edge) int { return cmp.Compare(a.column, b.column) })
	}
	return edges
}

// enclosesTwice reports whether a polygon goes round a pixel twice, or another even number of times
// in one direction: [invert] leaves such a pixel out like a hole, though round a hole the polygon
// goes once in each direction.
func enclosesTwice(polygon [][2]float64, columns, rows int) bool {
	for _, at := range edgesOf(polygon, rows) {
		times := 0
		for n, e := range at {
			times += e.down
			if times != 0 && times%2 == 0 && max(math.Ceil(e.column), 0) < min(math.Ceil(at[n+1].column),
				float64(columns)) {
				return true
			}
		}
	}
	return false
}

// invert changes the pixels whose centres lie within a polygon (column, row): those with an odd
// number of its edges to their left.
func invert(mask []bool, columns, rows int, polygon [][2]float64) {
	for row, at := range edgesOf(polygon, rows) {
		for n := 0; n+1 < len(at); n += 2 {
			for column := max(math.Ceil(at[n].column), 0); column < min(math.Ceil(at[n+1].column),
				float64(columns)); column++ {
				pixel := row*columns + int(column)
				mask[pixel] = !mask[pixel]
			}
		}
	}
}

// merge makes labels of the masks. It refuses structures that share pixels, or notes which of them
// gets these, and notes slices that a structure leaves out between others.
func (c *canvas) merge(labels map[int]uint16, o Options) ([]uint16, error) {
	area := c.columns * c.rows
	stacked := make([]uint16, area*len(c.stack.Slices))
	names, overlaps, rank := map[uint16]string{}, map[[2]uint16]int{}, map[uint16]int{}
	order := slices.Clone(c.set.Structures)
	slices.SortStableFunc(order, func(a, b Structure) int { return int(labels[a.Number]) - int(labels[b.Number]) })
	first := map[uint16]Structure{}
	for _, structure := range order {
		label, drawn := labels[structure.Number], c.masks[structure.Number]
		if label == 0 || drawn == nil {
			continue
		}
		if other, known := first[label]; known && !equalMasks(c.masks[other.Number], drawn) {
			return nil, &volume.UnsupportedError{Path: c.set.Path, Problem: twoOfOneName(other, structure)}
		} else if known {
			continue
		}
		first[label] = structure
		names[label], rank[label] = structure.Name, o.Rank(int(label), structure.Name)
		for k, mask := range drawn {
			for n, inside := range mask {
				if !inside {
					continue
				}
				if old := stacked[k*area+n]; old != 0 {
					overlaps[[2]uint16{old, label}]++
					if rank[old] < rank[label] {
						continue
					}
				}
				stacked[k*area+n] = label
			}
		}
		there := slices.Sorted(maps.Keys(drawn))
		if left := there[len(there)-1] - there[0] + 1 - len(there); left > 0 {
			o.Note(fmt.Sprintf("%s has no contour on %s between its first and its last: background there",
				structure.Name, numbers.Count(left, "slice")))
		}
	}
	if len(overlaps) == 0 {
		return stacked, nil
	}
	pairs := slices.SortedFunc(maps.Keys(overlaps), func(a, b [2]uint16) int {
		return cmp.Or(overlaps[b]-overlaps[a], slices.Compare(a[:], b[:]))
	})
	undecided := func(pair [2]uint16) bool { return rank[pair[0]] == rank[pair[1]] }
	refused := slices.ContainsFunc(pairs, undecided)
	if refused {
		pairs = slices.DeleteFunc(pairs, func(pair [2]uint16) bool { return !undecided(pair) })
	}
	var shared []string
	for _, pair := range pairs[:min(len(pairs), 4)] {
		shared = append(shared, fmt.Sprintf("%s and %s (%d pixels)", names[pair[0]], names[pair[1]], overlaps[pair]))
	}
	text := fmt.Sprintf("%s overlap: %s", numbers.Count(len(pairs), "pair of structures", "pairs of structures"),
		strings.Join(shared, ", "))
	if refused {
		return nil, &volume.UnsupportedError{Path: c.set.Path,
			Problem: text +
				". A label map has room for one: --structures leaves structures out, --segment-overlap " +
				"last gives the pixels to the label with the higher number, --segment-overlap " +
				"order:NAME,NAME to the first that is named"}
	}
	o.Note(text + ": " + o.Words)
	return stacked, nil
}

// withPixels are the labels of structures that have pixels.
func (c *canvas) withPixels(labels map[int]uint16) map[uint16]bool {
	with := map[uint16]bool{}
	for number, drawn := range c.masks {
		if label := labels[number]; label != 0 && !with[label] {
			with[label] = hasPixels(drawn)
		}
	}
	maps.DeleteFunc(with, func(_ uint16, has bool) bool { return !has })
	return with
}

// hasPixels says whether a structure has any.
func hasPixels(drawn map[int][]bool) bool {
	for _, mask := range drawn {
		if slices.Contains(mask, true) {
			return true
		}
	}
	return false
}

// equalMasks says whether two structures have the same pixels.
func equalMasks(a, b map[int][]bool) bool {
	within := func(a, b map[int][]bool) bool {
		for k, mask := range a {
			if !slices.Equal(mask, b[k]) && (b[k] != nil || slices.Contains(mask, true)) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}

// twoOfOneName says what is wrong with two structures that would be one label.
func twoOfOneName(a, b Structure) string {
	text := fmt.Sprintf("ROI %d (%s) and ROI %d (%s) have the same name and "+
		"different voxels: rename or remove one of them", a.Number, a.Name, b.Number, b.Name)
	if a.Name != b.Name {
		text += fmt.Sprintf(", or choose: --structures '%s' takes that spelling alone", a.Name)
	}
	return text
}

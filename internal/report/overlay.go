package report

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"slices"

	"golang.org/x/image/draw"

	"github.com/voxsaw/voxsaw/volume"
)

// Segmented is a row of an [Overlay]: a label map and what it is.
type Segmented struct {
	Title  string
	Labels *volume.LabelMap
}

// OverlayOptions say how an [Overlay] looks. The zero value is fit for abdominal CT.
type OverlayOptions struct {
	Slices    int        // axial slices in a row; 0: 3
	AxialOnly bool       // without the coronal and the sagittal slice
	Size      int        // width of an axial panel in pixels; 0: 220
	Window    [2]float64 // HU from black to white; both 0: -160 to 240
	Labels    []uint16   // to draw; when empty, all that are scored
	Together  bool       // the labels count as one: to take one for another is no error
	Whole     bool       // whole slices instead of the surroundings of the labels
	// Errors chooses the axial slices where prediction and reference differ most, worst first, or,
	// where there is no reference, the predictions from the first; where there is one alone, or no
	// difference, those where the labels are largest.
	Errors bool
}

// Shown are the numbers of a prepared case that a picture draws from black to white: all that the
// network sees.
func Shown(p volume.Preparation, how volume.Intensities) [2]float64 {
	if p.Scheme() == volume.CTWindow {
		return p.Window
	}
	usual := p.Range()
	return [2]float64{float64(how.Denormalise(usual[0])), float64(how.Denormalise(usual[1]))}
}

func (o OverlayOptions) resolve(rows int) (OverlayOptions, error) {
	o.Slices, o.Size = cmp.Or(max(o.Slices, 0), 3), cmp.Or(max(o.Size, 0), 220)
	if o.Window == [2]float64{} {
		o.Window = [2]float64{-160, 240}
	}
	switch {
	case !(o.Window[1] > o.Window[0]):
		return o, fmt.Errorf("drawing slices: the window from %g to %g HU is empty", o.Window[0], o.Window[1])
	case o.Slices > 64 || o.Size > 4096 || rows > 64:
		return o, fmt.Errorf("drawing slices: %d rows of %d slices of %d pixels are too large a picture", rows,
			o.Slices, o.Size)
	}
	return o, nil
}

// Overlay is a picture of a segmentation: axial slices through a scan, a coronal and a sagittal
// one, the prediction filled in colour, the reference as an outline; a row for each prediction, the
// same slices in all of them, so that two networks can be compared. The slices are those where the
// reference is largest and, axially, the ones that divide the rest of it evenly; without a
// reference (nil), of the predictions. The patient's right is on the left of axial and coronal
// slices, the front on the left of sagittal ones. Scan and label maps must lie on the same grid.
// Without a scan (nil) the ground is black.
func Overlay(scan *volume.Volume, reference *volume.LabelMap, rows []Segmented, o OverlayOptions) (image.Image, error) {
	o, err := o.resolve(len(rows))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		rows = []Segmented{{}}
	}
	p, err := newOverlay(scan, reference, rows)
	if err != nil {
		return nil, err
	}
	p.choose(o)
	p.lay(o)
	return p.draw(o), nil
}

// choose chooses the labels to draw.
func (p *overlay) choose(o OverlayOptions) {
	if p.labels = o.Labels; len(p.labels) == 0 {
		p.labels = slices.DeleteFunc(occurring(p.shown), p.unscored)
	}
}

// overlay is an [Overlay] under construction. All volumes are in RAS.
type overlay struct {
	rows     []Segmented
	grid     volume.Grid
	scan     *volume.Volume     // nil: none
	outline  *volume.LabelMap   // nil: none
	fills    []*volume.LabelMap // of each row; nil: none
	shown    []*volume.LabelMap // those that are there, the outline first
	labels   []uint16
	sections []section
	panels   []image.Rectangle // of each section, within a row
	row      image.Point       // size of a row, without its title
	title    int               // height of a row's title
}

const panelGap = 4

func newOverlay(scan *volume.Volume, reference *volume.LabelMap, rows []Segmented) (*overlay, error) {
	p := &overlay{rows: rows, fills: make([]*volume.LabelMap, len(rows))}
	var grid volume.Grid
	var err error
	switch {
	case scan != nil:
		grid = scan.Grid
		if p.scan, err = scan.Orient("RAS"); err != nil {
			return nil, fmt.Errorf("drawing slices: %w", err)
		}
		p.grid = p.scan.Grid
	case reference != nil:
		grid = reference.Grid
	default:
		return nil, errors.New("drawing slices: neither a scan nor a reference to draw")
	}
	if p.outline, err = onto(grid, reference); err != nil {
		return nil, err
	}
	if p.scan == nil {
		p.grid = p.outline.Grid
	}
	if p.outline != nil {
		p.shown = append(p.shown, p.outline)
	}
	for n, r := range rows {
		if p.fills[n], err = onto(grid, r.Labels); err != nil {
			return nil, err
		}
		if p.fills[n] != nil {
			p.shown = append(p.shown, p.fills[n])
		}
	}
	return p, nil
}

// onto turns a label map on the scan's grid to RAS; nil stays nil.
func onto(scan volume.Grid, l *volume.LabelMap) (*volume.LabelMap, error) {
	if l == nil {
		return nil, nil
	}
	if s := scan.Spacing(); !l.Same(scan, 0.05*min(s[0], s[1], s[2])) {
		return nil,
			fmt.Errorf("drawing slices: scan and label map are on different grids, of %dx%dx%d and %dx%dx%d voxels",
				scan.Shape[0], scan.Shape[1], scan.Shape[2], l.Shape[0], l.Shape[1], l.Shape[2])
	}
	return l.Orient("RAS")
}

// lay chooses the slices and puts them side by side, all at the same scale.
func (p *overlay) lay(o OverlayOptions) {
	where := extentOf(p.grid.Shape, p.shown, p.labels)
	around := where.surroundings(p.grid, o.Whole)
	chosen := chooseSlices(where.areas[axial.normal], o.Slices)
	if o.Errors {
		chosen = p.worstSlices(where.areas[axial.normal], o)
	}
	for _, k := range chosen {
		p.sections = append(p.sections, around.of(axial, k, p.grid))
	}
	if !o.AxialOnly {
		for _, pl := range []plane{coronal, sagittal} {
			p.sections = append(p.sections, around.of(pl, chooseSlices(where.areas[pl.normal], 1)[0], p.grid))
		}
	}
	first := p.sections[0]
	scale := float64(o.Size) / (float64(first.hi[0]-first.lo[0]) * first.spacing[0])
	x := 0
	for _, c := range p.sections {
		size := c.size(scale)
		size.Y = min(size.Y, 4*o.Size)
		p.panels = append(p.panels, image.Rect(x, 0, x+size.X, size.Y))
		x += size.X + panelGap
		p.row = image.Pt(x-panelGap, max(p.row.Y, size.Y))
	}
	if p.rows[0].Title != "" || len(p.rows) > 1 || len(p.labels) > 1 {
		p.title = 22
	}
}

func (p *overlay) draw(o OverlayOptions) image.Image {
	height := p.row.Y + p.title + panelGap
	picture := image.NewRGBA(image.Rect(0, 0, p.row.X, len(p.rows)*height-panelGap))
	draw.Draw(picture, picture.Bounds(), image.Black, image.Point{}, draw.Src)
	for row, r := range p.rows {
		top := row * height
		if p.title > 0 {
			text(picture, r.Title, 6, top+15, ivory)
		}
		if row == 0 && len(p.labels) > 1 {
			drawNames(picture, p.labels, p.shown, top+15)
		}
		for n, c := range p.sections {
			panel := p.panels[n]
			p.drawPanel(picture, panel.Add(image.Pt(0, top+p.title+(p.row.Y-panel.Dy())/2)), c, p.fills[row], o)
		}
	}
	return picture
}

// drawPanel draws one slice of one row.
func (p *overlay) drawPanel(picture *image.RGBA, target image.Rectangle, c section, fill *volume.LabelMap,
	o OverlayOptions) {
	if p.scan != nil {
		c.drawScan(picture, target, p.scan, o.Window)
	}
	inks := inksOf(p.labels)
	for _, l := range p.labels {
		ink := inks[l]
		if fill != nil {
			c.drawLabel(picture, target, fill, l, ink, false)
		}
		if p.outline != nil {
			c.drawLabel(picture, target, p.outline, l, lighter(ink), true)
		}
	}
	text(picture, c.label(p.grid), target.Min.X+6, target.Max.Y-7, ivory)
	text(picture, c.left, target.Min.X+6, target.Min.Y+target.Dy()/2, ivory)
}

// unscored says of a label that nothing is counted for it: where the reference has it, nobody drew
// anything, or nobody drew it in this case.
func (p *overlay) unscored(label uint16) bool {
	return p.outline != nil && (slices.Contains(p.outline.Undrawn, label) ||
		slices.Contains(volume.IgnoredLabels(p.outline.Names), label))
}

// worstSlices are the axial slices to look at first: where the fills differ most from the outline,
// or, without one, from the first fill, in what is scored; where they do not, where the labels are
// largest, as their area in each slice says; worst first, and no two of them within a twentieth of
// the slices that count.
func (p *overlay) worstSlices(largest []int, o OverlayOptions) []int {
	area := make([]int, p.grid.Shape[2])
	among := setOf(slices.DeleteFunc(slices.Clone(p.labels), p.unscored))
	left := make([]bool, len(among)) // voxels of the outline that are left out
	if p.outline != nil {
		left = setOf(volume.IgnoredLabels(p.outline.Names))
	}
	for _, fill := range p.fills {
		if fill == nil { // then there is an outline, or nothing to differ from
			continue
		}
		inSlice := p.grid.Shape[0] * p.grid.Shape[1]
		for at, l := range fill.Labels {
			r := p.shown[0].Labels[at]
			if l != r && !left[r] && (among[l] != among[r] || among[l] && !o.Together) {
				area[at/inSlice]++
			}
		}
	}
	if slices.Max(area) == 0 {
		area = largest
	}
	var order []int
	for k, a := range area {
		if a > 0 {
			order = append(order, k)
		}
	}
	if len(order) == 0 {
		return chooseSlices(area, o.Slices)
	}
	apart := len(order) / 20
	slices.SortStableFunc(order, func(a, b int) int { return area[b] - area[a] })
	var chosen []int
	for _, k := range order {
		if len(chosen) < o.Slices && !slices.ContainsFunc(chosen, func(c int) bool { return abs(c-k) <= apart }) {
			chosen = append(chosen, k)
		}
	}
	return chosen
}

// occurring lists the labels above 0 of all maps, in ascending order.
func occurring(maps []*volume.LabelMap) []uint16 {
	var labels []uint16
	for _, m := range maps {
		for l := range m.Counts() {
			if l > 0 {
				labels = append(labels, l)
			}
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

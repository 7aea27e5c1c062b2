package report

import (
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// patient is a scan of soft tissue, 40 x 30 x 12 voxels of 1 x 1.5 x 3 mm, with a cube of label 1
// at the patient's right and front.
func patient() (*volume.Volume, *volume.LabelMap) {
	g := volume.Grid{Shape: [3]int{40, 30, 12}, Affine: volume.Scaling([3]float64{1, 1.5, 3})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for k := 4; k < 8; k++ {
		for j := 20; j < 26; j++ {
			for i := 28; i < 36; i++ {
				l.Labels[g.Index(i, j, k)] = 1
			}
		}
	}
	return v, l
}

// coloured finds the box around the pixels that are not grey.
func coloured(m image.Image) image.Rectangle {
	var box image.Rectangle
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			c := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			if max(c.R, c.G, c.B)-min(c.R, c.G, c.B) > 20 {
				box = box.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return box
}

// The patient's right is on the left and the front at the top, however the scan is stored.
func TestOverlayIsSeenFromTheFeet(t *testing.T) {
	for _, codes := range []string{"RAS", "LPS", "PLI", "SAR"} {
		v, l := patient()
		v, err := v.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		if l, err = l.Orient(codes); err != nil {
			t.Fatal(err)
		}
		// Voxels 28..35 of 40 at 5 pixels each, from the right: 20..59; 20..25 of 30 at 7.5, from
		// the top: 30..74.
		want := image.Rect(20, 30, 60, 75)
		for name, rows := range map[string][]Segmented{"outline": nil, "fill": {{"", l}}} {
			reference := l
			if name == "fill" {
				reference = nil
			}
			m, err := Overlay(v, reference, rows, OverlayOptions{Slices: 1, AxialOnly: true, Size: 200, Whole: true})
			if err != nil {
				t.Fatal(err)
			}
			if size := m.Bounds().Size(); size != image.Pt(200, 225) {
				t.Errorf("%s: a panel of %v, want 200 x 225: the slice is 40 x 45 mm", codes, size)
			}
			got := coloured(m)
			for _, d := range []int{got.Min.X - want.Min.X, got.Min.Y - want.Min.Y, got.Max.X - want.Max.X,
				got.Max.Y - want.Max.Y} {
				if d < -3 || d > 3 {
					t.Errorf("%s, %s: coloured %v, want %v", codes, name, got, want)
					break
				}
			}
		}
	}
}

// Behind the axial slice come the coronal and the sagittal one at the same scale: 40 x 36 mm and 45
// x 36 mm at 5 pixels a mm. The cube is in voxels 28..35 of 40 along R, 20..25 of 30 along A and
// 4..7 of 12 along S; the head is at the top, the front of the sagittal slice on the left.
func TestOverlayCutsInThreePlanes(t *testing.T) {
	for _, codes := range []string{"RAS", "LPS", "PLI", "SAR"} {
		v, l := patient()
		v, err := v.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		if l, err = l.Orient(codes); err != nil {
			t.Fatal(err)
		}
		m, err := Overlay(v, nil, []Segmented{{"", l}}, OverlayOptions{Slices: 1, Size: 200, Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		if size := m.Bounds().Size(); size != image.Pt(200+4+200+4+225, 225) {
			t.Fatalf("%s: a picture of %v", codes, size)
		}
		const top = (225 - 180) / 2 // where the lower panels begin
		for name, c := range map[string]struct{ panel, want image.Rectangle }{
			"coronal":  {image.Rect(204, 0, 404, 225), image.Rect(204+20, top+60, 204+60, top+120)},
			"sagittal": {image.Rect(408, 0, 633, 225), image.Rect(408+30, top+60, 408+75, top+120)},
		} {
			got := coloured(m.(*image.RGBA).SubImage(c.panel))
			for _, d := range []int{got.Min.X - c.want.Min.X, got.Min.Y - c.want.Min.Y, got.Max.X - c.want.Max.X,
				got.Max.Y - c.want.Max.Y} {
				if abs(d) > 3 {
					t.Errorf("%s, %s: coloured %v, want %v", codes, name, got, c.want)
					break
				}
			}
		}
	}
}

func TestOverlayShowsTheSameSlicesInEveryRow(t *testing.T) {
	v, l := patient()
	empty := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels))}
	m, err := Overlay(v, l, []Segmented{{"good", l}, {"empty", empty}}, OverlayOptions{Slices: 3, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	if size := m.Bounds().Size(); size.X != 5*100+4*4 || size.Y != 2*(100+22+4)-4 {
		t.Errorf("got %v", size)
	}
}

func TestOverlayWithoutLabels(t *testing.T) {
	v, _ := patient()
	if _, err := Overlay(v, nil, nil, OverlayOptions{}); err != nil {
		t.Error(err)
	}
}

func TestOverlayRefuses(t *testing.T) {
	v, l := patient()
	moved := *l
	moved.Affine[0][3] = 7
	for want, err := range map[string]error{
		"different grids":    second(Overlay(v, &moved, nil, OverlayOptions{})),
		"is empty":           second(Overlay(v, l, nil, OverlayOptions{Window: [2]float64{100, 100}})),
		"too large":          second(Overlay(v, l, nil, OverlayOptions{Size: 1 << 20})),
		"on different grids": second(Overlay(v, l, []Segmented{{"", &moved}}, OverlayOptions{})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

func second(_ image.Image, err error) error { return err }

func TestChosenSlicesHoldTheLabel(t *testing.T) {
	_, l := patient()
	for n := 1; n <= 12; n++ {
		chosen := chooseSlices(extentOf(l.Shape, []*volume.LabelMap{l}, []uint16{1}).areas[axial.normal], n)
		for _, k := range chosen {
			if k < 4 || k > 7 {
				t.Errorf("%d slices: %v", n, chosen)
			}
		}
	}
}

// A structure has one colour, whatever else a picture shows.
func TestOverlayColoursOfManyLabels(t *testing.T) {
	colour := func(others ...uint16) color.Color {
		v, l := patient()
		l.Labels[0] = 13
		for n, label := range others {
			l.Labels[1+n] = label
		}
		for n := range l.Labels {
			if l.Labels[n] == 1 {
				l.Labels[n] = 3
			}
		}
		m, err := Overlay(
			v,
			nil,
			[]Segmented{{"", l}},
			OverlayOptions{Slices: 1, AxialOnly: true, Size: 200, Whole: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		return m.At(40, m.Bounds().Dy()-225+52)
	}
	if inks := inksOf([]uint16{1, 5, 9, 13}); inks[1] == inks[9] || inks[5] == inks[13] ||
		inks[5] != inksOf([]uint16{5})[5] {
		t.Errorf("labels that are eight apart, in one picture: %v", inks)
	}
	if a, b := colour(), colour(1, 2); a != b || a == (color.RGBA{128, 128, 128, 255}) {
		t.Errorf("label 3 is %v, and %v beside labels 1 and 2", a, b)
	}
}

// A picture of a prepared case shows all that the network sees, whatever part of the body that is.
func TestShownIsTheWindow(t *testing.T) {
	v, l := patient()
	for _, window := range [][2]float64{{300, 2000}, {-1000, -300}, {-1000, 400}, {-160, 240}} {
		p := volume.DefaultPreparation()
		p.Window = window
		shown := Shown(p, volume.Intensities{})
		if shown != window {
			t.Errorf("the window %v is shown as %v", window, shown)
		}
		if _, err := Overlay(v, l, nil, OverlayOptions{Window: shown}); err != nil {
			t.Error(err)
		}
	}
}

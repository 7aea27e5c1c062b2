package proposal

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/photo"
)

const golden = "../../testdata/proposals"

// pixels are those of a photograph at its own size.
func pixels(t testing.TB, path string) (rgb []byte, width, height int) {
	t.Helper()
	p, err := photo.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	rgb = make([]byte, 3*p.Width*p.Height)
	photo.NewResizer(p.Width, p.Height, photo.Warp).Resize(rgb, p)
	return rgb, p.Width, p.Height
}

// openCV are the boxes that OpenCV's selective search finds, by the photograph.
func openCV(t *testing.T) map[string][]image.Rectangle {
	t.Helper()
	f, err := os.Open(filepath.Join(golden, "opencv.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	boxes := map[string][]image.Rectangle{}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ",")
		var r image.Rectangle
		if _, err := fmt.Sscanf(rest, "%d,%d,%d,%d", &r.Min.X, &r.Min.Y, &r.Max.X, &r.Max.Y); err != nil {
			continue // the header
		}
		r.Min = r.Min.Sub(image.Pt(1, 1))
		boxes[name] = append(boxes[name], r)
	}
	return boxes
}

func overlap(a, b image.Rectangle) float64 {
	area := func(r image.Rectangle) float64 { return float64(r.Dx() * r.Dy()) }
	common := area(a.Intersect(b))
	return common / (area(a) + area(b) - common)
}

// best is the mean, over some boxes, of the overlap with that of others which overlaps most.
func best(boxes, others []image.Rectangle) float64 {
	sum := 0.0
	for _, a := range boxes {
		most := 0.0
		for _, b := range others {
			most = max(most, overlap(a, b))
		}
		sum += most
	}
	return sum / float64(len(boxes))
}

// On twenty photographs a box of OpenCV's overlaps by 0.8 or more, on average, with one of ours,
// and one of ours with one of OpenCV's. Neither are the others to the pixel: textures are rotated
// there and not here, and the least difference of a colour can join other regions. Random boxes of
// the same sizes, to compare with, overlap by less than 0.65.
func TestSearchFindsWhatOpenCVFinds(t *testing.T) {
	theirs := openCV(t)
	if len(theirs) != 20 {
		t.Fatalf("%d photographs", len(theirs))
	}
	var there, here, random float64
	for name, boxes := range theirs {
		rgb, width, height := pixels(t, filepath.Join(golden, name+".jpg"))
		ours, err := Search(rgb, width, height, 1)
		if err != nil {
			t.Fatal(err)
		}
		a, b := best(boxes, ours), best(ours, boxes)
		var moved []image.Rectangle // as many and as large as theirs, elsewhere
		for n, r := range boxes {
			x, y := n*7919%(width-r.Dx()+1), n*104729%(height-r.Dy()+1)
			moved = append(moved, image.Rect(x, y, x+r.Dx(), y+r.Dy()))
		}
		c := best(boxes, moved)
		t.Logf("%-20s OpenCV %4d boxes, ours %4d; best overlap %.3f of theirs, %.3f of ours; random %.3f", name,
			len(boxes), len(ours), a, b, c)
		there, here, random = there+a/20, here+b/20, random+c/20
	}
	t.Logf("mean best overlap %.3f of theirs, %.3f of ours, random %.3f", there, here, random)
	if there < 0.8 || here < 0.8 || random > 0.65 {
		t.Errorf("mean best overlap: %.3f of OpenCV's boxes with ours, %.3f of "+
			"ours with OpenCV's, %.3f with random ones",
			there, here, random)
	}
}

// Two halves of one colour are two regions, whatever the scale; their boxes and the whole are all
// that there is.
func TestTwoHalves(t *testing.T) {
	const width, height = 60, 40
	rgb := make([]byte, 3*width*height)
	for i := range width * height {
		copy(rgb[3*i:], []byte{200, 30, 30})
		if i%width >= 24 {
			copy(rgb[3*i:], []byte{30, 40, 210})
		}
	}
	list, err := Search(rgb, width, height, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []image.Rectangle{image.Rect(0, 0, width, height), image.Rect(0, 0, 24, height),
		image.Rect(24, 0, width, height)} {
		if !slices.ContainsFunc(list, func(r image.Rectangle) bool { return overlap(r, want) > 0.9 }) {
			t.Errorf("no box like %v in %v", want, list)
		}
	}
	again, err := Search(rgb, width, height, 1)
	if err != nil || !slices.Equal(list, again) {
		t.Errorf("found again: %v, %v", again, err)
	}
	if _, err := Search(rgb[1:], width, height, 1); err == nil {
		t.Error("too few bytes")
	}
	if list, err = Search([]byte{1, 2, 3}, 1, 1, 1); err != nil || !slices.Equal(list,
		[]image.Rectangle{image.Rect(0, 0, 1, 1)}) {
		t.Errorf("one pixel: %v, %v", list, err)
	}
}

// Colours are those that colorimetry has: CIE L*a*b* of sRGB's corners under D65, as published.
func TestColours(t *testing.T) {
	rgb := []byte{255, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255, 128, 128, 128}
	l := lab(rgb)
	for n, want := range [][3]float64{{100, 0, 0}, {53.24, 80.09, 67.20}, {87.73, -86.18, 83.18},
		{32.30, 79.19, -107.86},
		{53.59, 0, 0}} {
		got := [3]float64{float64(l[n]) / 2.55, float64(l[5+n]) - 128, float64(l[10+n]) - 128}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.05 {
				t.Errorf("colour %d: L*a*b* %.2f, want %.2f", n, got, want)
				break
			}
		}
	}
	h := hsv(rgb)
	for n, want := range [][3]float32{{0, 0, 255}, {0, 255, 255}, {60, 255, 255}, {120, 255, 255}, {0, 0, 128}} {
		if got := [3]float32{h[n], h[5+n], h[10+n]}; got != want {
			t.Errorf("colour %d: HSV %v, want %v", n, got, want)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	rgb, width, height := pixels(b, filepath.Join(golden, "astronaut_0.jpg"))
	for b.Loop() {
		if _, err := Search(rgb, width, height, 1); err != nil {
			b.Fatal(err)
		}
	}
}

package dicom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// square is a contour of 8 x 8 mm with a corner at x mm, on a slice that need not be whole.
func square(x, slice float64) string { return squareAt(x, 20, 8, slice) }

// squareAt is a contour of the given size with a corner at (x, y) mm.
func squareAt(x, y, size, slice float64) string {
	z := 5 + 2.5*slice
	return fmt.Sprintf(`%g\%g\%g\%g\%g\%g\%g\%g\%g\%g\%g\%g`, x, y, z, x+size, y, z, x+size, y+size, z, x, y+size, z)
}

// redrawn opens the first case of testdata/dicom_rtstruct.json, whose slices are axial, with other
// contours: the first of its structures has five, the next six, then three, one and seven. Names
// are replaced by others of the same length.
func redrawn(t *testing.T, contours map[int]string, names ...string) (*Series, *StructureSet) {
	t.Helper()
	c := readStructureCases(t)[0]
	file := unpacked(t, c.Structures)
	for n := 0; n < len(names); n += 2 {
		file = bytes.Replace(file, []byte(names[n]), []byte(names[n+1]), 1)
	}
	head := []byte{0x06, 0x30, 0x50, 0x00, 'D', 'S'} // ContourData
	for n, at := 0, bytes.Index(file, head); at >= 0; n++ {
		value := file[at+len(head)+2:][:binary.LittleEndian.Uint16(file[at+len(head):])]
		if text := contours[n]; text != "" {
			copy(value, text+strings.Repeat(" ", len(value)-len(text)))
		}
		next := bytes.Index(file[at+1:], head)
		if at += 1 + next; next < 0 {
			break
		}
	}
	s, _ := c.open(t)
	path := filepath.Join(t.TempDir(), "rs.dcm")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := OpenStructureSet(path)
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// Contours outside the scan are told by the name of their structure. One that has no others was not
// drawn on this scan, and a set that has no others is of another scan.
func TestContoursOutsideTheScan(t *testing.T) {
	const far = 5000 // mm
	contours := map[int]string{11: square(-20, 3), 12: square(far, 3), 13: square(-20, 300)}
	for n := range 5 {
		contours[n] = square(far, float64(n))
	}
	s, g := redrawn(t, contours)
	var notes []string
	o := Options{Note: func(note string) { notes = append(notes, note) }}
	l, err := g.ReadOn(s, map[int]uint16{0: 1, 2: 2}, o)
	if err != nil || !slices.Equal(l.Undrawn, []uint16{1}) || l.Counts()[1] > 0 || l.Counts()[2] == 0 {
		t.Fatalf("%v, %+v", err, l)
	}
	want := []string{
		"WARNING: no contour lies on the scan, which counts as not drawn: Parotid_L (5 contours outside the scan)",
		"contours outside the scan, which are passed over: two parts (2 of 3)",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	_, err = g.ReadOn(s, map[int]uint16{0: 1}, o)
	var unsupported *volume.UnsupportedError
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(),
		"no contour lies on the scan: Parotid_L (5 contours). It was drawn on another scan") {
		t.Errorf("a set of another scan: %v", err)
	}
}

// Contours half-way between slices each keep to one of them, with a note.
func TestContoursBetweenSlices(t *testing.T) {
	contours := map[int]string{13: square(-40, 6)} // which begins 10 mm outside
	for n := range 5 {
		contours[n] = square(-20, float64(n)+2.5)
	}
	s, g := redrawn(t, contours)
	var notes []string
	l, err := g.ReadOn(s, map[int]uint16{0: 1}, Options{Note: func(note string) { notes = append(notes, note) }})
	if err != nil || l.Undrawn != nil {
		t.Fatal(err, l)
	}
	want := []string{ // the last lies half a slice behind the last slice
		"contours outside the scan, which are passed over: Parotid_L (1 of 5)",
		"contours between slices, which are taken for contours of the nearest: Parotid_L (4 of 5, up to 1.25 mm away)",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	area := l.Shape[0] * l.Shape[1]
	for k := range l.Shape[2] {
		if inside := slices.Contains(l.Labels[k*area:][:area], 1); inside != (k >= 3) {
			t.Errorf("slice %d has voxels: %v", k, inside)
		}
	}
}

// Structures of one name are one label only where they are the same.
func TestStructuresOfOneName(t *testing.T) {
	contours := map[int]string{11: square(-20, 3), 12: square(0, 3), 13: square(-10, 6)}
	for n, text := range []string{square(-20, 3), square(0, 3), square(-10, 6), square(-10, 60), square(-10, 60)} {
		contours[n] = text
	}
	read := func() (*volume.LabelMap, error) {
		s, g := redrawn(t, contours, "two parts", "parotid l")
		return g.ReadOn(s, map[int]uint16{0: 1, 2: 1}, Options{})
	}
	if l, err := read(); err != nil || l.Counts()[1] == 0 {
		t.Errorf("the same contours: %v", err)
	}
	contours[12] = square(2, 3)
	_, err := read()
	var unsupported *volume.UnsupportedError
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(),
		"ROI 2 (Parotid_L) and ROI 8 (parotid l) have the same name and different voxels: rename or remove one of "+
			"them, or choose: --structures 'Parotid_L' takes that spelling alone") {
		t.Errorf("other contours: %v", err)
	}
	// A structure that lies elsewhere adds nothing.
	contours[11], contours[12], contours[13] = square(-20, 50), square(-20, 51), square(-20, 52)
	if l, err := read(); err != nil || l.Undrawn != nil || l.Counts()[1] == 0 {
		t.Errorf("one of them outside the scan: %v", err)
	}
}

// Contours of one structure that cross in part are named. A hole, a hole that is drawn first, and
// neighbours are none.
func TestContoursThatCross(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		crosses       bool
	}{
		"cross":          {squareAt(-20, 20, 8, 1), squareAt(-16, 24, 8, 1), true},
		"hole":           {squareAt(-20, 20, 8, 1), squareAt(-18, 22, 4, 1), false},
		"the hole first": {squareAt(-18, 22, 4, 1), squareAt(-20, 20, 8, 1), false},
		"neighbours":     {squareAt(-20, 20, 8, 1), squareAt(-10, 20, 8, 1), false},
		"other slices":   {squareAt(-20, 20, 8, 1), squareAt(-16, 24, 8, 2), false},
	} {
		s, g := redrawn(t, map[int]string{0: c.first, 1: c.second, 2: square(-20, 4), 3: square(-20, 5),
			4: square(-20, 3)})
		var notes []string
		if _, err := g.ReadOn(s, map[int]uint16{0: 1},
			Options{Note: func(note string) { notes = append(notes, note) }}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := "WARNING: contours of one structure that cross in part, of which what both enclose is left out: " +
			g.Structures[0].Name + " (1 slice)"
		if slices.Contains(notes, want) != c.crosses ||
			strings.Contains(strings.Join(notes, ""), "cross") != c.crosses {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}

// A contour that goes round something twice loses it by the even-odd rule, and is named. A figure
// of eight loses nothing, and round a hole that a keyhole cuts out a contour goes both ways.
func TestContourThatCrossesItself(t *testing.T) {
	const z = 7.5
	contour := func(points ...[2]float64) string {
		var all []string
		for _, p := range points {
			all = append(all, fmt.Sprintf(`%g\%g\%g`, p[0], p[1], z))
		}
		return strings.Join(all, `\`)
	}
	outer := [][2]float64{{-20, 20}, {-8, 20}, {-8, 32}, {-20, 32}, {-20, 20}}
	inner := [][2]float64{{-17, 23}, {-11, 23}, {-11, 29}, {-17, 29}, {-17, 23}}
	back := slices.Clone(inner)
	slices.Reverse(back)
	for name, c := range map[string]struct {
		points  [][2]float64
		crosses bool
	}{
		"a square":    {outer, false},
		"twice round": {slices.Concat(outer, inner), true},
		"a keyhole":   {slices.Concat(outer, back), false},
		"a loop": {[][2]float64{{-20, 20}, {-8, 20}, {-8, 32}, {-16, 32}, {-16, 24}, {-4, 24}, {-4, 36},
			{-20, 36}}, true},
		"figure of eight": {[][2]float64{{-20, 20}, {-8, 32}, {-8, 20}, {-20, 32}}, false},
	} {
		far := square(5000, 3)
		s, g := redrawn(t, map[int]string{0: contour(c.points...), 1: far, 2: far, 3: far, 4: far})
		var notes []string
		if _, err := g.ReadOn(s, map[int]uint16{0: 1},
			Options{Note: func(note string) { notes = append(notes, note) }}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := "WARNING: contours that cross themselves, of which what they go round twice is left out: " +
			g.Structures[0].Name + " (1 contour)"
		if slices.Contains(notes, want) != c.crosses ||
			strings.Contains(strings.Join(notes, ""), "twice") != c.crosses {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}

// A contour that is drawn twice counts once, wherever it begins, whichever way it goes and whether
// its first point comes again: by the even-odd rule alone nothing would be left of the structure.
func TestContoursDrawnTwice(t *testing.T) {
	const z = 7.5
	corners := [][2]float64{{-20, 20}, {-12, 20}, {-12, 28}, {-20, 28}}
	contour := func(points ...int) string {
		var all []string
		for _, n := range points {
			all = append(all, fmt.Sprintf(`%g\%g\%g`, corners[n][0], corners[n][1], z))
		}
		return strings.Join(all, `\`)
	}
	counts := map[string]int{}
	for name, second := range map[string]string{
		"once":            square(-20, 20),
		"the same":        contour(0, 1, 2, 3),
		"begins later":    contour(2, 3, 0, 1),
		"the other way":   contour(1, 0, 3, 2),
		"its first again": contour(0, 1, 2, 3, 0),
		"a hole":          squareAt(-18, 22, 4, 1),
	} {
		far := square(5000, 3)
		s, g := redrawn(t, map[int]string{0: contour(0, 1, 2, 3), 1: second, 2: far, 3: far, 4: far})
		var notes []string
		l, err := g.ReadOn(s, map[int]uint16{0: 1}, Options{Note: func(note string) { notes = append(notes, note) }})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		counts[name] = l.Counts()[1]
		want := "contours that are drawn twice, which count once: " + g.Structures[0].Name + " (1 of 5)"
		if twice := name != "once" && name != "a hole"; slices.Contains(notes, want) != twice {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
	for name, n := range counts {
		if once := counts["once"]; once == 0 || (name == "a hole") != (n < once) || n > once {
			t.Errorf("%s: %d pixels, once %d", name, n, once)
		}
	}
}

// A structure whose contours enclose the centre of no voxel is named: it was drawn, and is lost.
func TestContoursBetweenVoxels(t *testing.T) {
	far := square(5000, 3)
	s, g := redrawn(t, map[int]string{0: squareAt(-20.2, 20.2, 0.05, 1), 1: far, 2: far, 3: far, 4: far})
	var notes []string
	l, err := g.ReadOn(s, map[int]uint16{0: 1}, Options{Note: func(note string) { notes = append(notes, note) }})
	if err != nil || l.Counts()[1] != 0 {
		t.Fatalf("%v, %+v", err, l)
	}
	want := "WARNING: contours that enclose the centre of no voxel, so that nothing is left: " + g.Structures[0].Name +
		" (5 contours)"
	if !slices.Contains(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}

package dicom

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// structureCase is a case of testdata/dicom_rtstruct.json.
type structureCase struct {
	Slices     [][]byte          `json:"slices"`
	Structures []byte            `json:"structures"`
	Masks      map[string][]byte `json:"masks"` // by slice, row and column
}

func readStructureCases(t testing.TB) (cases []structureCase) {
	t.Helper()
	var file struct {
		Cases []structureCase `json:"cases"`
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "dicom_rtstruct.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

func unpacked(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open writes the files of the case and opens them.
func (c structureCase) open(t testing.TB) (*Series, *StructureSet) {
	t.Helper()
	dir := t.TempDir()
	for n, file := range c.Slices {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.dcm", n)), unpacked(t, file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := scanOne(t, dir)
	path := filepath.Join(t.TempDir(), "rs.dcm")
	if err := os.WriteFile(path, unpacked(t, c.Structures), 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := OpenStructureSet(path)
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// Contours are filled as dcmrtstruct2nii fills them, on axial and oblique slices, with holes, in
// parts, and over the edge of the image.
func TestStructuresAgreeWithDcmrtstruct2nii(t *testing.T) {
	for n, c := range readStructureCases(t) {
		s, g := c.open(t)
		if g.Find([]*Series{s}) != s {
			t.Errorf("case %d: the series is not found", n)
		}
		if len(g.Structures) != len(c.Masks) {
			t.Errorf("case %d: structures %v", n, g.Structures)
		}
		for at, structure := range g.Structures {
			want, known := c.Masks[structure.Name]
			if !known || !structure.Drawn || structure.Anatomy() != (structure.Name != "BODY") {
				t.Errorf("case %d: %+v", n, structure)
				continue
			}
			l, err := g.ReadOn(s, map[int]uint16{at: 1}, Options{})
			if err != nil {
				t.Errorf("case %d, %s: %v", n, structure.Name, err)
				continue
			}
			var pixels []byte
			for _, inside := range unpacked(t, want) {
				pixels = append(pixels, inside, 0)
			}
			if d := difference(labelMap(s, pixels, map[uint16]string{1: structure.Name}), l); d != "" {
				t.Errorf("case %d, %s: %s", n, structure.Name, d)
			}
		}
	}
}

// uidElement is the first element of a file with the tag, which holds a UID, in explicit
// little-endian.
func uidElement(t *testing.T, file []byte, tag string) []byte {
	t.Helper()
	at := bytes.Index(file, []byte(tag+"UI"))
	if at < 0 {
		t.Fatalf("no element %x", tag)
	}
	return file[at : at+8+int(file[at+6])]
}

const (
	seriesUID   = "\x20\x00\x0e\x00" // SeriesInstanceUID
	imageUID    = "\x08\x00\x18\x00" // SOPInstanceUID
	contourROIs = "\x06\x30\x39\x00" // ROIContourSequence
)

// twoVolumes writes the slices of two cases, of two directions, which pydicom wrote, and opens
// their structure sets, which change may edit. Both are of one SeriesInstanceUID if they shall.
func twoVolumes(t *testing.T, oneSeries bool, change func(n int, set []byte) []byte) ([]*Series, []*StructureSet) {
	t.Helper()
	cases := readStructureCases(t)
	one := uidElement(t, unpacked(t, cases[0].Slices[0]), seriesUID)
	two := uidElement(t, unpacked(t, cases[1].Slices[0]), seriesUID)
	if len(one) != len(two) || bytes.Equal(one, two) {
		t.Fatalf("%q and %q", one, two)
	}
	dir := t.TempDir()
	write := func(path string, file []byte) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if oneSeries {
			file = bytes.ReplaceAll(file, two, one)
		}
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var sets []*StructureSet
	for n, c := range cases[:2] {
		for k, file := range c.Slices {
			write(fmt.Sprintf("scan/%d_%d.dcm", n, k), unpacked(t, file))
		}
		file := unpacked(t, c.Structures)
		if change != nil {
			file = change(n, file)
		}
		g, err := OpenStructureSet(write(fmt.Sprintf("sets/%d.dcm", n), file))
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, g)
	}
	found, _, err := Scan(filepath.Join(dir, "scan"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || (found[0].UID == found[1].UID) != oneSeries {
		t.Fatalf("%v", found)
	}
	return found, sets
}

// Of several volumes of one SeriesInstanceUID, contours lie on the one whose slices they name.
func TestStructuresOfOneOfSeveralVolumes(t *testing.T) {
	found, sets := twoVolumes(t, true, nil)
	for n, g := range sets {
		s := g.Find(found)
		if s == nil || !strings.HasPrefix(filepath.Base(s.stack.Slices[0].Image.Path), fmt.Sprint(n, "_")) {
			t.Errorf("set %d: %v", n, s)
		}
		g.set.Drawn = nil // what is listed is the next that counts
		if other := g.Find(found); other != s {
			t.Errorf("set %d: %v by what it lists", n, other)
		}
		if g.set.Listed = nil; g.Find(found) != nil {
			t.Errorf("set %d is found without a reason", n)
		}
	}
}

// A set is on none of several volumes where its contours name slices of two: those of one would be
// filled on the other, in silence. It does not matter how many each holds, nor what the set lists.
func TestStructuresOfSeveralVolumes(t *testing.T) {
	cases := readStructureCases(t)
	other := bytes.TrimSuffix(uidElement(t, unpacked(t, cases[1].Slices[0]), imageUID)[8:], []byte{0})
	// moved says that what was drawn on some slices of the first volume was drawn on the second
	moved := func(some int) func(n int, set []byte) []byte {
		return func(n int, set []byte) []byte {
			if n > 0 {
				return set
			}
			contours := set[bytes.LastIndex(set, []byte(contourROIs)):]
			for k, left := 0, some; left > 0; k++ {
				if k == len(cases[0].Slices) {
					t.Fatalf("contours name too few slices: %d are left", left)
				}
				own := uidElement(t, unpacked(t, cases[0].Slices[k]), imageUID)[8:]
				if name := append([]byte{byte(len(own)), 0}, own...); bytes.Contains(contours, name) {
					to := append([]byte{byte(len(own)), 0}, other...)
					copy(contours, bytes.ReplaceAll(contours, name, append(to, make([]byte, len(own)-len(other))...)))
					left--
				}
			}
			return set
		}
	}
	_, sets := twoVolumes(t, true, nil)
	drawn := len(sets[0].set.Drawn)
	if drawn < 3 {
		t.Fatalf("contours are drawn on %d slices", drawn)
	}
	for _, oneSeries := range []bool{true, false} {
		// the first has most of the slices; then each has one
		for _, some := range []int{1, drawn - 1} {
			found, sets := twoVolumes(t, oneSeries, moved(some))
			g := sets[0]
			g.set.Series = []string{found[0].UID, found[1].UID}
			if n := len(g.set.Drawn); n != drawn-some+1 {
				t.Fatalf("%d slices are named, want %d", n, drawn-some+1)
			}
			if s := g.Find(found); s != nil || len(g.Candidates(found)) != 2 {
				t.Errorf("one series %t, %d of %d slices moved: drawn on %v", oneSeries, some, drawn, s)
			}
			// where the other volume is not there, nothing tells but what the contours name
			var notes []string
			labels := map[int]uint16{}
			for at := range g.Structures {
				labels[at] = uint16(at + 1)
			}
			o := Options{Note: func(note string) { notes = append(notes, note) }, Overlap: OverlapLast}
			const strange = "WARNING: contours that name slices which the scan does not have"
			_, err := g.ReadOn(found[0], labels, o)
			if err != nil || !strings.Contains(strings.Join(notes, "\n"), strange) {
				t.Errorf("one series %t, %d of %d slices moved: %v, %q", oneSeries, some, drawn, err, notes)
			}
			// what is listed decides only where contours name nothing, and must be of one, too
			g.set.Drawn = nil
			if s := g.Find(found); s == nil {
				t.Errorf("one series %t: not found by what it lists", oneSeries)
			}
			g.set.Listed[found[0].stack.Slices[0].Image.SOP] = true
			g.set.Listed[found[1].stack.Slices[0].Image.SOP] = true
			if s := g.Find(found); s != nil {
				t.Errorf("one series %t: drawn on %v, though it lists slices of both", oneSeries, s)
			}
		}
	}
}

func TestStructuresThatOverlap(t *testing.T) {
	s, g := readStructureCases(t)[0].open(t)
	labels := map[int]uint16{}
	for at := range g.Structures {
		labels[at] = uint16(len(g.Structures) - at) // the body, which is the last, first
	}
	var unsupported *volume.UnsupportedError
	if _, err := g.ReadOn(s, labels, Options{}); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(), "structures overlap: BODY and ") {
		t.Errorf("structures that overlap: %v", err)
	}
	var notes []string
	l, err := g.ReadOn(s, labels, Options{Overlap: OverlapLast,
		Note: func(note string) { notes = append(notes, note) }})
	if err != nil || l.Counts()[1] == 0 || l.Counts()[5] == 0 || l.Names[1] != "BODY" {
		t.Errorf("%v, %v", err, l)
	}
	if all := strings.Join(notes, "; "); !strings.Contains(all, "the one with the higher number has them") ||
		!strings.Contains(all, "two parts has no contour on 2 slices") {
		t.Errorf("notes %q", notes)
	}
}

// An order of structures says who has the pixels that several hold: those that are named, in this
// order, before the others. Between two that are not named it does not decide.
func TestOrderOfStructuresThatOverlap(t *testing.T) {
	s, g := readStructureCases(t)[0].open(t)
	labels, names := map[int]uint16{}, map[string]uint16{}
	for at, structure := range g.Structures {
		labels[at] = uint16(at + 1)
		names[structure.Name] = uint16(at + 1)
	}
	read := func(rule Overlap) (*volume.LabelMap, string, error) {
		var notes []string
		l, err := g.ReadOn(s, labels, Options{Overlap: rule, Note: func(note string) { notes = append(notes, note) }})
		return l, strings.Join(notes, "; "), err
	}
	alone := func(name string) int {
		for at, structure := range g.Structures {
			if structure.Name == name {
				l, err := g.ReadOn(s, map[int]uint16{at: 1}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				return l.Counts()[1]
			}
		}
		return 0
	}
	l, notes, err := read("order:body")
	if err != nil || l.Counts()[names["BODY"]] != alone("BODY") ||
		!strings.Contains(notes, "the first in the order body has them") {
		t.Fatalf("%v, notes %s", err, notes)
	}
	if len(l.Emptied) == 0 || len(l.Undrawn) > 0 || !slices.Contains(l.Emptied, names["Parotid_L"]) {
		t.Errorf("emptied %v, undrawn %v", l.Emptied, l.Undrawn)
	}
	if l, _, err = read("order:PAROTID_L, BODY"); err != nil || l.Counts()[names["Parotid_L"]] != alone("Parotid_L") ||
		slices.Contains(l.Emptied, names["Parotid_L"]) {
		t.Errorf("%v, emptied %v", err, l)
	}
	var unsupported *volume.UnsupportedError
	if _, _, err = read("order:Liver"); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(), "--segment-overlap order:NAME,NAME") {
		t.Errorf("nobody is named: %v", err)
	}
	for _, wrong := range []Overlap{"lest", "order:", "order: ,", "body"} {
		if _, _, err = read(wrong); err == nil {
			t.Errorf("rule %q is taken", wrong)
		}
	}
}

// Whatever is cut off or changed, the error is of one of the two kinds.
func TestHostileStructures(t *testing.T) {
	c := readStructureCases(t)[0]
	s, _ := c.open(t)
	file := unpacked(t, c.Structures)
	path := filepath.Join(t.TempDir(), "rs.dcm")
	read := func(file []byte) error {
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		g, err := OpenStructureSet(path)
		if err == nil {
			labels := map[int]uint16{}
			for at := range g.Structures {
				labels[at] = uint16(at + 1)
			}
			_, err = g.ReadOn(s, labels, Options{Overlap: OverlapLast})
		}
		var format *volume.FormatError
		var unsupported *volume.UnsupportedError
		if err != nil && !errors.As(err, &format) && !errors.As(err, &unsupported) {
			t.Fatalf("%T: %v", err, err)
		}
		return err
	}
	for n := 0; n < len(file); n += 997 {
		read(file[:n])
	}
	for n := 132; n < len(file); n += 101 {
		changed := slices.Clone(file)
		changed[n] ^= 0x81
		read(changed)
	}
	if err := read(bytes.Replace(file, []byte("CLOSED_PLANAR"), []byte("OPEN_NONPLANAR")[:13], 1)); err != nil {
		t.Errorf("an open contour: %v", err)
	}
	if err := read(file[:len(file)/2]); err == nil {
		t.Error("half a file is read")
	}
}

const (
	roiNumber    = "\x06\x30\x22\x00" // ROINumber
	roiSpace     = "\x06\x30\x24\x00" // ReferencedFrameOfReferenceUID
	roiOfContour = "\x06\x30\x84\x00" // ReferencedROINumber
)

// changed opens the first case with a structure set that edit has changed.
func changed(t *testing.T, edit func(file []byte) []byte) (*Series, *StructureSet, error) {
	t.Helper()
	c := readStructureCases(t)[0]
	s, _ := c.open(t)
	path := filepath.Join(t.TempDir(), "rs.dcm")
	if err := os.WriteFile(path, edit(unpacked(t, c.Structures)), 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := OpenStructureSet(path)
	return s, g, err
}

// A structure in another frame of reference than the series lies elsewhere: its contours are left
// out, unless they name slices of the series. Where the set has no place in common with the series,
// or nothing says that the other UID is another place, it may be a new UID of the same.
func TestStructuresOfAnotherSpace(t *testing.T) {
	other := func(file []byte, times int) []byte {
		own := uidElement(t, file, roiSpace)
		to := slices.Clone(own)
		to[len(bytes.TrimRight(to, "\x00"))-1] ^= 1
		return bytes.Replace(file, own, to, times)
	}
	const (
		named    = "than the scan's, but name its slices"
		doubtful = "WARNING: contours that say another frame of reference (ReferencedFrameOfReferenceUID) than the"
		lost     = "not drawn: Parotid_L (5 contours in another frame of reference)"
		set      = "says another FrameOfReferenceUID than series "
	)
	unnamed := func(g *StructureSet) { g.set.Drawn, g.set.Listed = nil, nil }
	both := func(g *StructureSet) {
		unnamed(g)
		g.set.Space = append(g.set.Space, g.set.Structures[0].Space)
	}
	usual := map[uint16]int{}
	for _, c := range []struct {
		name       string
		edit       func(file []byte) []byte
		change     func(g *StructureSet)
		note, fail string
	}{
		{"as written", func(file []byte) []byte { return file }, nil, "", ""},
		{"one, which names slices", func(file []byte) []byte { return other(file, 1) }, nil, named, ""},
		{"one", func(file []byte) []byte { return other(file, 1) }, unnamed, lost, ""},
		{"all, of one place", func(file []byte) []byte { return other(file, -1) }, unnamed, doubtful, ""},
		{"all, of two places", func(file []byte) []byte { return other(file, -1) }, both, "",
			"no contour lies on the scan: Parotid_L (5 contours in another frame of reference), "},
		{"none is said", func(file []byte) []byte {
			return bytes.ReplaceAll(file, []byte(roiSpace), []byte("\x06\x30\x25\x00"))
		}, unnamed, "", ""},
		{"the set's", func(file []byte) []byte {
			own := uidElement(t, file, roiSpace)[8:]
			to := slices.Clone(own)
			to[len(bytes.TrimRight(to, "\x00"))-1] ^= 1
			return bytes.ReplaceAll(file, own, to)
		}, unnamed, set, ""},
	} {
		s, g, err := changed(t, c.edit)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(g)
		}
		labels := map[int]uint16{}
		for at := range g.Structures {
			labels[at] = uint16(len(g.Structures) - at) // the body, which is the last, first
		}
		var notes []string
		l, err := g.ReadOn(s, labels, Options{Overlap: OverlapLast, Note: func(n string) { notes = append(notes, n) }})
		text := strings.Join(notes, "\n")
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || !strings.Contains(text, c.note) || c.note == "" && strings.Contains(text, "frame of ref") {
			t.Errorf("%s: %v, notes %q", c.name, err, notes)
			continue
		}
		if counts := l.Counts(); len(usual) == 0 {
			for label, n := range counts {
				usual[label] = n
			}
		} else if gone := c.note == lost; (counts[labels[0]] == 0) != gone || counts[labels[1]] != usual[labels[1]] ||
			slices.Contains(l.Undrawn, labels[0]) != gone || usual[labels[0]] == 0 || usual[labels[1]] == 0 {
			t.Errorf("%s: %v voxels, usually %v; undrawn %v", c.name, counts, usual, l.Undrawn)
		}
	}
}

// Contours are those of the structure with their number: each structure has one of its own.
func TestStructuresHaveNumbersOfTheirOwn(t *testing.T) {
	number := func(file []byte, n int, key string) []byte { // the value of the nth element
		for ; ; n-- {
			at := bytes.Index(file, []byte(key+"IS"))
			if at < 0 {
				t.Fatalf("no element %x", key)
			}
			if file = file[at+8:]; n == 0 {
				return file[:2]
			}
		}
	}
	// ofContours changes the first such element of ROIContourSequence
	ofContours := func(file []byte, key, to string) {
		file = file[bytes.LastIndex(file, []byte(contourROIs)):]
		copy(file[bytes.Index(file, []byte(key)):], to)
	}
	for want, edit := range map[string]func(file []byte){
		`describes ROI 2 twice, as "Parotid_L" and "`: func(file []byte) {
			copy(number(file, 1, roiNumber), number(file, 0, roiNumber))
		},
		`describes ROI "Parotid_L" without a ROINumber`: func(file []byte) {
			copy(file[bytes.Index(file, []byte(roiNumber)):], "\x06\x30\x23\x00")
		},
		"has contours without a ReferencedROINumber": func(file []byte) {
			ofContours(file, roiOfContour, "\x06\x30\x83\x00")
		},
	} {
		_, _, err := changed(t, func(file []byte) []byte { edit(file); return file })
		var format *volume.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, g, err := changed(t, func(file []byte) []byte {
		ofContours(file, roiOfContour+"IS\x02\x00", roiOfContour+"IS\x02\x0099")
		return file
	})
	if err != nil || !strings.Contains(strings.Join(g.Problems, ""), "contours of ROI 99, which it does not describe") {
		t.Errorf("contours of no structure: %v, %q", err, g)
	}
}

// A set that names slices, and none of the scan's, is of the scan by its series alone: a note says
// so, with the name of the file.
func TestStructuresOfOtherSlices(t *testing.T) {
	s, g := readStructureCases(t)[0].open(t)
	labels := map[int]uint16{}
	for at := range g.Structures {
		labels[at] = uint16(at + 1)
	}
	want := fmt.Sprintf("WARNING: %s names 2 slices, of which series %s has none", g.set.Path, s.Number)
	for name, c := range map[string]struct {
		drawn, listed map[string]bool
		said          bool
	}{
		"as written":       {g.set.Drawn, g.set.Listed, false},
		"listed":           {map[string]bool{"1.2.9": true}, g.set.Listed, false},
		"drawn elsewhere":  {map[string]bool{"1.2.9": true, "1.2.8": true}, nil, true},
		"listed elsewhere": {nil, map[string]bool{"1.2.9": true, "1.2.8": true}, true},
		"names none":       {nil, nil, false},
	} {
		g.set.Drawn, g.set.Listed = c.drawn, c.listed
		var notes []string
		_, err := g.ReadOn(s, labels,
			Options{Overlap: OverlapLast, Note: func(note string) { notes = append(notes, note) }})
		if said := strings.Contains(strings.Join(notes, "\n"), want); err != nil || said != c.said {
			t.Errorf("%s: %v, %q", name, err, notes)
		}
	}
}

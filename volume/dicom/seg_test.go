package dicom

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/segmentation"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// blobs draws labels on a grid: boxes that end in odd places, the slice before the last and its
// neighbours empty.
func blobs(g volume.Grid, labels ...uint16) *volume.LabelMap {
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len()), Names: map[uint16]string{}}
	for n, label := range labels {
		l.Names[label] = fmt.Sprintf("organ %d", label)
		for k := range g.Shape[2] {
			for j := range g.Shape[1] {
				for i := range g.Shape[0] {
					if k != 1 && i >= 2*n && i < 2*n+3-k%2 && j > n && j < g.Shape[1]-n-k%3 {
						l.Labels[g.Index(i, j, k)] = label
					}
				}
			}
		}
	}
	return l
}

// written writes a label map of a series and opens it.
func written(t testing.TB, l *volume.LabelMap, s *Series, o WriteOptions) *Segmentation {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seg.dcm")
	if err := WriteSegmentation(path, l, s, o); err != nil {
		t.Fatal(err)
	}
	g, err := OpenSegmentation(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// describe gives the differences between label maps, or "".
func difference(a, b *volume.LabelMap) string {
	if !a.Same(b.Grid, 1e-6) {
		return fmt.Sprintf("grids %v and %v", a.Grid, b.Grid)
	}
	for n := range a.Labels {
		if a.Labels[n] != b.Labels[n] {
			return fmt.Sprintf("voxel %d is %d and %d", n, a.Labels[n], b.Labels[n])
		}
	}
	if !maps.Equal(a.Names, b.Names) {
		return fmt.Sprintf("names %v and %v", a.Names, b.Names)
	}
	return ""
}

func TestSegmentationRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name        string
		orientation [6]float64
		direction   stack.Vector
		distances   []float64
		labels      []uint16
		options     Options
		exact       bool
	}{
		{"axial", axial, stack.Vector{0, 0, 1}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{1, 2, 3}, Options{}, true},
		{"numbers with gaps", axial, stack.Vector{0, 0, 1}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{3, 7, 1000},
			Options{}, true},
		{"sagittal", sagittal, stack.Vector{-1, 0, 0}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{2}, Options{}, true},
		{"oblique", oblique, stack.Vector{0.8, 0.6, 0}.Cross(stack.Vector{-0.36, 0.48, -0.8}),
			[]float64{0, 1.25, 2.5, 3.75}, []uint16{1, 2}, Options{}, true},
		{"one slice", axial, stack.Vector{0, 0, 1}, []float64{0}, []uint16{1}, Options{}, true},
		{"tilt kept", gantry, stack.Vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}, []uint16{1, 2}, Options{Tilt: TiltKeep},
			true},
		{"tilt", gantry, stack.Vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}, []uint16{1, 2}, Options{}, false},
		{"gap", axial, stack.Vector{0, 0, 1}, []float64{0, 2, 4, 8, 10}, []uint16{1, 2}, Options{Gaps: GapsResample},
			false},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", c.orientation, line(stack.Vector{-50, 20, 100}, c.direction, c.distances...), nil)
		s := scanOne(t, dir)
		v, err := ReadWith(s, c.options)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		l := blobs(v.Grid, c.labels...)
		g := written(t, l, s, WriteOptions{Algorithm: "test", Version: "1", Read: c.options})
		if g.Find([]*Series{{UID: "9", stack: &stack.Stack{}}, s}) != s {
			t.Errorf("%s: the series is not found", c.name)
		}
		got, err := g.ReadOn(s, c.options)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.exact {
			if d := difference(l, got); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
			if got, err = g.ReadOnGrid(v.Grid, c.options); err != nil || difference(l, got) != "" {
				t.Errorf("%s: on its grid: %v, %v", c.name, err, difference(l, got))
			}
			continue
		}
		// Labels were rounded to pixels and these to voxels: half a voxel twice, in a slice or
		// between two.
		same, of := 0, 0
		for n, label := range l.Labels {
			if label != 0 {
				of++
				if got.Labels[n] == label {
					same++
				}
			}
		}
		if !got.Same(v.Grid, 1e-6) || float64(same) < 0.8*float64(of) {
			t.Errorf("%s: %d of %d labelled voxels come back", c.name, same, of)
		}
		if again := written(t, got, s, WriteOptions{Read: c.options}); c.name == "tilt" {
			back, err := again.ReadOn(s, c.options)
			if err != nil || difference(got, back) != "" {
				t.Errorf("%s: what was rounded is rounded again: %v %s", c.name, err, difference(got, back))
			}
		}
	}
}

// segCases is testdata/dicom_seg.json.
type segCases struct {
	Shape   [3]int              `json:"shape"` // columns, rows, slices
	Series  map[string][][]byte `json:"series"`
	Written struct {
		File     []byte   `json:"file"`
		Segments []byte   `json:"segments"` // numbers, as pydicom and highdicom read them
		Names    []string `json:"names"`
	} `json:"written"`
	Cases []struct {
		Name    string            `json:"name"`
		File    []byte            `json:"file"`
		Series  string            `json:"series"`
		Labels  []byte            `json:"labels"` // uint16, by slice, row and column
		Names   map[uint16]string `json:"names"`
		Error   string            `json:"error"`
		Overlap Overlap           `json:"overlap"` // that makes the error go away
	} `json:"cases"`
}

func readSegCases(t testing.TB) (c segCases) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "dicom_seg.json"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	unpack := func(b *[]byte) {
		if len(*b) == 0 {
			return
		}
		z, err := gzip.NewReader(bytes.NewReader(*b))
		if err == nil {
			*b, err = io.ReadAll(z)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, files := range c.Series {
		for n := range files {
			unpack(&files[n])
		}
	}
	unpack(&c.Written.File)
	unpack(&c.Written.Segments)
	for n := range c.Cases {
		unpack(&c.Cases[n].File)
		unpack(&c.Cases[n].Labels)
	}
	return c
}

// series writes the files of a series and scans them.
func (c *segCases) series(t testing.TB, name string) *Series {
	t.Helper()
	dir := t.TempDir()
	for n, file := range c.Series[name] {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.dcm", n)), file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return scanOne(t, dir)
}

// labelMap turns labels in DICOM's order into a map on the series' grid, whose rows run the other
// way.
func labelMap(s *Series, pixels []byte, names map[uint16]string) *volume.LabelMap {
	l := &volume.LabelMap{Grid: s.Grid, Labels: make([]uint16, s.Grid.Len()), Names: names}
	for n := range l.Labels {
		i, j, k := n%s.Grid.Shape[0], n/s.Grid.Shape[0]%s.Grid.Shape[1], n/s.Grid.Shape[0]/s.Grid.Shape[1]
		l.Labels[l.Index(i, s.Grid.Shape[1]-1-j, k)] = binary.LittleEndian.Uint16(pixels[2*n:])
	}
	return l
}

// What highdicom and dcmqi write is read as what they were given.
func TestSegmentationsOfOthers(t *testing.T) {
	cases := readSegCases(t)
	all := map[string]*Series{"axial": cases.series(t, "axial"), "oblique": cases.series(t, "oblique")}
	path := filepath.Join(t.TempDir(), "seg.dcm")
	for _, c := range cases.Cases {
		if err := os.WriteFile(path, c.File, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, passed, err := Scan(path); err != nil || len(passed) != 1 || passed[0].What != WhatSEG {
			t.Errorf("%s: Scan says %v, %v", c.Name, passed, err)
		}
		s := all[c.Series]
		var notes []string
		o := Options{Note: func(note string) { notes = append(notes, note) }}
		read := func() (*volume.LabelMap, error) {
			g, err := OpenSegmentation(path)
			if err != nil {
				return nil, err
			}
			if got := g.Find([]*Series{all["axial"], all["oblique"]}); got != s {
				t.Errorf("%s: belongs to %v", c.Name, got)
			}
			return g.ReadOn(s, o)
		}
		l, err := read()
		if c.Error != "" {
			var format *volume.FormatError
			var unsupported *volume.UnsupportedError
			if err == nil || !strings.Contains(err.Error(), c.Error) || !strings.Contains(err.Error(), path) ||
				!errors.As(err, &format) && !errors.As(err, &unsupported) {
				t.Errorf("%s: %v, want %s", c.Name, err, c.Error)
			}
			if o.Overlap = c.Overlap; c.Overlap == "" {
				continue
			}
			if l, err = read(); len(notes) != 1 || !strings.Contains(notes[0], c.Error) {
				t.Errorf("%s: notes %q", c.Name, notes)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if d := difference(labelMap(s, c.Labels, c.Names), l); d != "" {
			t.Errorf("%s: %s", c.Name, d)
		}
		// Without the series: what it holds lies in the same places.
		g, err := OpenSegmentation(path)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := g.Read(o)
		if err != nil {
			t.Errorf("%s: alone: %v", c.Name, err)
			continue
		}
		if grid, err := g.Grid(); err != nil || grid != alone.Grid {
			t.Errorf("%s: grid %v (%v), want %v", c.Name, grid, err, alone.Grid)
		}
		found := 0
		for n, label := range l.Labels {
			i, j, k := n%l.Shape[0], n/l.Shape[0]%l.Shape[1], n/l.Shape[0]/l.Shape[1]
			v, err := alone.Voxel(l.World([3]float64{float64(i), float64(j), float64(k)}))
			if err != nil {
				t.Fatal(err)
			}
			var at [3]int
			inside := true
			for a := range at {
				at[a] = int(math.Round(v[a]))
				inside = inside && at[a] >= 0 && at[a] < alone.Shape[a]
			}
			if inside && alone.At(at[0], at[1], at[2]) == label {
				found++
			} else if inside || label != 0 {
				t.Fatalf("%s: alone: voxel %v is not %d", c.Name, v, label)
			}
		}
		if found != alone.Grid.Len() {
			t.Errorf("%s: alone: %d of %d voxels lie on the scan", c.Name, found, alone.Grid.Len())
		}
	}
}

// What is written is, byte for byte, what pydicom, highdicom and dciodvfy have looked at, and what
// they saw in it are the labels.
func TestSegmentationIsWrittenAsOthersReadIt(t *testing.T) {
	cases := readSegCases(t)
	s := cases.series(t, "axial")
	labels := []uint16{0, 2, 5, 300}
	l := labelMap(s, cases.Cases[0].Labels, map[uint16]string{2: "Leber (außen)", 5: "pancreas", 300: "kidney_left"})
	for n, number := range l.Labels {
		l.Labels[n] = labels[number]
	}
	path := filepath.Join(t.TempDir(), "seg.dcm")
	if to := os.Getenv("VOXSAW_WRITE_SEG"); to != "" { // testdata/dicom_seg.py wants to look at it
		path = to
	}
	o := WriteOptions{Algorithm: "voxsaw test", Version: "1.2.3"}
	if err := WriteSegmentation(path, l, s, o); err != nil {
		t.Fatal(err)
	}
	if path == os.Getenv("VOXSAW_WRITE_SEG") {
		return
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, cases.Written.File) {
		t.Error("another file than the one that was looked at: testdata/dicom_seg.py looks again")
	}
	if want := []string{"Leber (außen)", "pancreas", "kidney_left"}; !slices.Equal(cases.Written.Names, want) {
		t.Errorf("others read the names %q, want %q", cases.Written.Names, want)
	}
	seen := labelMap(s, cases.Written.Segments, l.Names)
	for n, number := range seen.Labels {
		seen.Labels[n] = labels[number]
	}
	if d := difference(l, seen); d != "" {
		t.Errorf("others see something else: %s", d)
	}
	g, err := OpenSegmentation(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.ReadOn(s, Options{}); err != nil || difference(l, got) != "" {
		t.Errorf("read again: %v, %s", err, difference(l, got))
	}
	// Another label is another object, in the same study.
	l.Labels[0] ^= 2
	other := written(t, l, s, o)
	if other.UID == g.UID || other.object.Image.Study != g.object.Image.Study || other.object.Space != g.object.Space {
		t.Errorf("series %s and %s of study %s and %s", other.UID, g.UID, other.object.Image.Study,
			g.object.Image.Study)
	}
}

// An object that contradicts the series that it refers to: of its study or its frame of reference
// it is said, of the slices it is refused.
func TestSegmentationContradictsItsSeries(t *testing.T) {
	cases := readSegCases(t)
	s := cases.series(t, "axial")
	file := cases.Written.File
	uid := func(key tag.Tag, value string) []byte {
		return encode([]field{{key, "UI", value}}, binary.LittleEndian, false)
	}
	image := s.stack.Slices[0].Image
	change := func(key tag.Tag, from, to string) []byte {
		changed := bytes.ReplaceAll(file, uid(key, from), uid(key, to))
		if bytes.Equal(changed, file) {
			t.Fatalf("%s is not in the file", from)
		}
		return changed
	}
	// Each slice's UID becomes that of the next one: the positions are shifted by one slice against
	// the images.
	shifted := slices.Clone(file)
	for k := range s.stack.Slices {
		from, to := uid(tag.ReferencedSOPInstanceUID, s.stack.Slices[k].Image.SOP), uid(tag.ReferencedSOPInstanceUID,
			s.stack.Slices[(k+1)%len(s.stack.Slices)].Image.SOP)
		for at := 0; at+len(from) <= len(file); at++ {
			if bytes.HasPrefix(file[at:], from) {
				copy(shifted[at:], to)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "seg.dcm")
	for _, c := range []struct {
		name       string
		file       []byte
		note, want string
	}{
		{"as written", file, "", ""},
		{"study", change(tag.StudyInstanceUID, image.Study, image.Study[:len(image.Study)-1]+"8"),
			"says another StudyInstanceUID than series 3, which it refers to", ""},
		{"frame of reference", change(tag.FrameOfReferenceUID, image.FrameOfRef,
			image.FrameOfRef[:len(image.FrameOfRef)-1]+"8"),
			"says another FrameOfReferenceUID than series 3, which it refers to", ""},
		{"shifted by a slice", shifted, "",
			"frame 1 lies on slice 1 of the scan, but says that it was drawn on slice 2 (DerivationImageSequence)"},
		// The series is the one that it names, but not the images: they may be of another volume of
		// the series, which is not there.
		{"other images", bytes.ReplaceAll(file, []byte(ownUIDs+".3.1."), []byte(ownUIDs+".9.1.")),
			"frames name images that the scan does not have (DerivationImageSequence)", ""},
	} {
		if err := os.WriteFile(path, c.file, 0o644); err != nil {
			t.Fatal(err)
		}
		g, err := OpenSegmentation(path)
		if err != nil {
			t.Fatal(err)
		}
		if g.Find([]*Series{s}) != s {
			t.Errorf("%s: the series is not found", c.name)
		}
		var notes []string
		_, err = g.ReadOn(s, Options{Note: func(n string) { notes = append(notes, n) }})
		var format *volume.FormatError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &format) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if (c.note == "") != (len(notes) == 0) || !strings.Contains(strings.Join(notes, ""), c.note) {
			t.Errorf("%s: notes %q", c.name, notes)
		}
	}
}

// Of several volumes a SEG object is on the one whose images its frames name, whatever it lists
// beside. On two, or where nothing tells which, it is on none: frames would be drawn on the other.
func TestSegmentationOfSeveralVolumes(t *testing.T) {
	dir := t.TempDir()
	at := line(stack.Vector{-50, 20, 100}, stack.Vector{0, 0, 1}, 0, 2.5, 5, 7.5)
	writeStack(t, dir, "1.2", axial, slices.Concat(at, at), func(n int, f []field) []field {
		return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(1+n/len(at)))
	})
	found, _, err := Scan(dir)
	if err != nil || len(found) != 2 || found[0].UID != found[1].UID {
		t.Fatalf("%v, %v", found, err)
	}
	arterial, venous := found[0], found[1]
	l := &volume.LabelMap{Grid: venous.Grid, Labels: make([]uint16, venous.Grid.Len())}
	for n := range l.Labels {
		l.Labels[n] = uint16(1 + n%2)
	}
	g := written(t, l, venous, WriteOptions{})
	file, err := os.ReadFile(g.Path)
	if err != nil {
		t.Fatal(err)
	}
	frames := bytes.Index(file, []byte{0x00, 0x52, 0x30, 0x92}) // PerFrameFunctionalGroupsSequence
	// moved says of the first slices, in a part of the file, that they are those of the other
	// volume
	moved := func(part []byte, some int) []byte {
		for k := range some {
			uid := func(s *Series) []byte {
				return encode([]field{{tag.ReferencedSOPInstanceUID, "UI", s.stack.Slices[k].Image.SOP}},
					binary.LittleEndian, false)
			}
			changed := bytes.ReplaceAll(part, uid(venous), uid(arterial))
			if bytes.Equal(changed, part) || len(changed) != len(part) {
				t.Fatalf("slice %d is not named", k)
			}
			part = changed
		}
		return part
	}
	const strange = "frames name images that the scan does not have (DerivationImageSequence)"
	all := len(at)
	for _, c := range []struct {
		name           string
		listed, frames int // images of the other volume
		want           *Series
		alone          map[*Series]string // what reading on a volume that is there alone says
	}{
		{"as written", 0, 0, venous, map[*Series]string{venous: "", arterial: "WARNING: 8 of 8 " + strange}},
		{"other images are listed", all, 0, venous, map[*Series]string{arterial: "WARNING: 8 of 8 " + strange}},
		{"frames of both", all, 1, nil,
			map[*Series]string{venous: "WARNING: 2 of 8 " + strange, arterial: "WARNING: 6 of 8 " + strange}},
		{"half of the frames", 0, 2, nil, nil},
	} {
		path := filepath.Join(t.TempDir(), "seg.dcm")
		if err := os.WriteFile(path, slices.Concat(moved(file[:frames], c.listed), moved(file[frames:], c.frames)),
			0o644); err != nil {
			t.Fatal(err)
		}
		g, err := OpenSegmentation(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := g.Find(found); s != c.want || (s == nil) != (len(g.Candidates(found)) == 2) {
			t.Errorf("%s: drawn on %v", c.name, s)
		}
		unexpected := func(n string) { t.Errorf("%s: without a scan: %s", c.name, n) }
		if _, err := g.Read(Options{Note: unexpected}); err != nil {
			t.Errorf("%s: without a scan: %v", c.name, err)
		}
		for s, want := range c.alone {
			var notes []string
			_, err := g.ReadOn(s, Options{Note: func(n string) { notes = append(notes, n) }})
			if text := strings.Join(notes, ""); g.Find([]*Series{s}) != s || err != nil ||
				(text == "") != (want == "") || !strings.HasPrefix(text, want) {
				t.Errorf("%s: %v, notes %q", c.name, err, notes)
			}
		}
	}
}

// ownUIDs is what the UIDs in testdata/dicom_seg.json begin with.
const ownUIDs = "1.2.826.0.1.3680043.8.498.77"

// A scanner's one file with all slices: frames are referred to by number.
func TestSegmentationOfEnhancedSeries(t *testing.T) {
	// Two stacks of five slices in one file, one after the other.
	var pixels []byte
	var frames [][]field
	for n := range 10 {
		position := stack.Vector{5, 6, float64(2 * (n % 5))}
		pixels = append(pixels, rampPixels(position, axial, binary.LittleEndian)...)
		frames = append(frames, []field{
			{tag.FrameContentSequence, "SQ", [][]field{{{tag.StackID, "SH", fmt.Sprint(n/5 + 1)}}}},
			{tag.PlanePositionSequence, "SQ",
				[][]field{{{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)}}}},
		})
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows, pixels)
	f = set(f, tag.ImagePositionPatient, "", nil)
	f = append(f, field{tag.NumberOfFrames, "IS", "10"}, field{tag.PerFrameFunctionalGroupsSequence, "SQ", frames})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "enhanced"),
		part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)), 0o644); err != nil {
		t.Fatal(err)
	}
	series, _, err := Scan(dir)
	if err != nil || len(series) != 2 {
		t.Fatal(len(series), err)
	}
	s := series[1]
	l := blobs(s.Grid, 1, 2)
	g := written(t, l, s, WriteOptions{})
	if g.Find(series) != s {
		t.Error("the series is not found")
	}
	if got, err := g.ReadOn(s, Options{}); err != nil || difference(l, got) != "" {
		t.Errorf("%v, %s", err, difference(l, got))
	}
	file, err := os.ReadFile(g.Path)
	if err != nil {
		t.Fatal(err)
	}
	if number := encode([]field{{tag.ReferencedFrameNumber, "IS", "10"}}, binary.LittleEndian,
		false); !bytes.Contains(file, number) {
		t.Error("frame 10 of the image is not referred to")
	}
}

func TestSegmentationNeedsUIDs(t *testing.T) {
	for _, missing := range []tag.Tag{tag.StudyInstanceUID, tag.SOPInstanceUID} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 1, 2),
			func(k int, f []field) []field {
				if k == 1 {
					f = set(f, missing, "", nil)
				}
				return f
			})
		s := scanOne(t, dir)
		path := filepath.Join(t.TempDir(), "seg.dcm")
		var unsupported *volume.UnsupportedError
		if err := WriteSegmentation(path, blobs(s.Grid, 1), s, WriteOptions{}); !errors.As(err, &unsupported) ||
			!strings.Contains(err.Error(), "has no "+missing.String()) {
			t.Errorf("without %s: %v", missing, err)
		}
		if _, there := os.Stat(path); there == nil {
			t.Error("something was written all the same")
		}
	}
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 1, 2), nil)
	s := scanOne(t, dir)
	elsewhere := blobs(s.Grid, 1)
	elsewhere.Affine[2][3] += 100
	for _, l := range []*volume.LabelMap{elsewhere, {Grid: s.Grid, Labels: make([]uint16, s.Grid.Len())},
		{Grid: s.Grid}} {
		if err := WriteSegmentation(filepath.Join(dir, "seg.dcm"), l, s, WriteOptions{}); err == nil {
			t.Error("labels of another grid, no labels at all, or half a map are written")
		}
	}
	// A network that found nothing has an answer, too.
	g := written(t, &volume.LabelMap{Grid: s.Grid, Labels: make([]uint16, s.Grid.Len())}, s,
		WriteOptions{Labels: []uint16{3}})
	if l, err := g.ReadOn(s, Options{}); err != nil || len(l.Counts()) != 1 || l.Names[3] != "label 3" {
		t.Errorf("%v, %v", l, err)
	}
}

// The patient is copied into the file, whatever the encoding it comes from, and is in nothing that
// anybody prints.
func TestSegmentationShowsThePatientToViewersAlone(t *testing.T) {
	const remark = "remark on the patient"
	private := []tag.Tag{tag.OtherPatientIDs, tag.OtherPatientNames, tag.EthnicGroup, tag.PatientComments,
		tag.Occupation, tag.AdditionalPatientHistory}
	for name, file := range map[string]func(f []field) []byte{
		"explicit": func(f []field) []byte {
			return part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false))
		},
		"implicit": func(f []field) []byte {
			return part10("1.2.840.10008.1.2", encode(f, binary.LittleEndian, true))
		},
		"big endian": func(f []field) []byte {
			return part10("1.2.840.10008.1.2.2", encode(f, binary.BigEndian, false))
		},
	} {
		dir := t.TempDir()
		order := binary.AppendByteOrder(binary.LittleEndian)
		if name == "big endian" {
			order = binary.BigEndian
		}
		for k := range 2 {
			at := stack.Vector{0, 0, float64(k)}
			fields := sliceFields("1.2", k+1, at, axial, stackColumns, stackRows, rampPixels(at, axial, order))
			for _, key := range private {
				fields = set(fields, key, "LO", remark)
			}
			f := file(fields)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(k)), f, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := scanOne(t, dir)
		g := written(t, blobs(s.Grid, 1), s, WriteOptions{})
		text, err := os.ReadFile(g.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []field{{tag.PatientName, "PN", patientName}, {tag.PatientID, "LO", patientID},
			{tag.PatientBirthDate, "DA", birthDate}, {tag.StudyInstanceUID, "UI", "1.2.3"}} {
			if !bytes.Contains(text, encode([]field{f}, binary.LittleEndian, false)) {
				t.Errorf("%s: element %08x is not in the file", name, f.tag)
			}
		}
		if bytes.Contains(text, []byte(remark)) {
			t.Errorf("%s: what nobody asked for is copied", name)
		}
		said := fmt.Sprintf("%v %+v %+v %+v", g, g.Segments, g.object.Placed, g.object.Image.Shared)
		for _, secret := range []string{patientName, patientID, birthDate} {
			if strings.Contains(said, secret) {
				t.Errorf("%s: %s enters the program", name, secret)
			}
		}
	}
}

// A SEG object has of its series' patient and study these elements and no other: each that PS3.6
// has in the groups of patient and study is in the series, with a value of its own.
func TestWhatSegmentationCarriesOfThePatient(t *testing.T) {
	carried := map[string]bool{}
	for _, keyword := range []string{
		"PatientName", "PatientID", "IssuerOfPatientID", "PatientBirthDate", "PatientBirthTime", "PatientSex",
		"PatientIdentityRemoved", "DeidentificationMethod", "StudyDate", "StudyTime", "AccessionNumber",
		"ReferringPhysicianName", "StudyID", "StudyDescription", "PatientAge", "PatientSize", "PatientWeight",
		"PositionReferenceIndicator", "TimezoneOffsetFromUTC", "LossyImageCompression", "LossyImageCompressionRatio",
		"LossyImageCompressionMethod",
	} {
		carried[keyword] = true
	}
	texts := map[string]string{"CS": "CODE%X", "SH": "sh-%X", "LO": "lo-%X", "PN": "Name^%X", "DA": "1901%04d",
		"TM": "%06d", "AS": "%03dY", "DS": "1.%d", "UI": "1.9.%d", "LT": "lt-%X", "ST": "st-%X", "IS": "%d"}
	own := []tag.Tag{tag.ImageType, tag.SOPClassUID, tag.SOPInstanceUID, tag.Modality, tag.SpecificCharacterSet,
		tag.ContentDate, tag.ContentTime, tag.StudyInstanceUID, tag.FrameOfReferenceUID}
	values := map[tag.Tag]string{}
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, stack.Vector{0, 0, 1}, 0, 1, 2),
		func(_ int, f []field) []field {
			for _, group := range []tag.Tag{0x0008 << 16, 0x0010 << 16, 0x0012 << 16, 0x0032 << 16, 0x0038 << 16} {
				some := []tag.Tag{tag.StudyID, tag.PositionReferenceIndicator, tag.LossyImageCompression,
					tag.LossyImageCompressionRatio, tag.LossyImageCompressionMethod}
				for number := range tag.Tag(0xFFFF) {
					some = append(some, group+number)
				}
				for _, one := range some {
					number := one & 0xFFFF
					format := texts[one.VR()]
					if format == "" || slices.Contains(own, one) ||
						slices.ContainsFunc(f, func(f field) bool { return f.tag == one }) && one.Group() != 0x10 {
						continue
					}
					value := fmt.Sprintf(format, number%10000)
					switch one.VR() {
					case "DA":
						value = fmt.Sprintf("19%02d0%d%02d", number/100%100, 1+number%9, 10+number%18)
					case "TM":
						value = fmt.Sprintf("%02d%02d%02d", number/2000%24, number/60%60, number%60)
					case "AS":
						value = fmt.Sprintf("%03dY", number%1000)
					}
					values[one] = value
					f = set(f, one, one.VR(), value)
				}
			}
			slices.SortFunc(f, func(a, b field) int { return int(int64(a.tag) - int64(b.tag)) })
			return f
		})
	s := scanOne(t, dir)
	g := written(t, blobs(s.Grid, 1), s, WriteOptions{})
	file, err := element.Open(g.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, copied := file.Walker(), map[string]bool{}
	if _, err := w.Elements(file.Start, file.Size, false, 0, func(e element.Element) error {
		value, ours := values[e.Tag]
		if e.Length == element.Undefined || e.Length > 1<<10 {
			return nil
		}
		text, err := w.Text(e)
		switch {
		case err != nil:
			return nil
		case e.Tag.Group() == 0x10 && !carried[e.Tag.String()]:
			t.Errorf("%v is written", e.Tag)
		case ours && text == value:
			copied[e.Tag.String()] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(copied)), slices.Sorted(maps.Keys(carried)); !slices.Equal(got, want) ||
		len(values) < 100 {
		t.Errorf("of %d elements, copied are\n%v, want\n%v", len(values), got, want)
	}
}

// An object with as many segments as may be: work for each pair of them would take minutes.
func TestManySegments(t *testing.T) {
	if !turns.Has(t, 0, 2) {
		return
	}
	const segments, count = math.MaxUint16, 547
	dir := t.TempDir()
	var at []float64
	for k := range count {
		at = append(at, float64(k))
	}
	writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, at...), nil)
	s := scanOne(t, dir)
	l := &volume.LabelMap{Grid: s.Grid, Labels: make([]uint16, s.Grid.Len()), Names: map[uint16]string{}}
	for n := range l.Labels[:segments] {
		l.Labels[n] = uint16(n + 1)
	}
	path := filepath.Join(dir, "seg.dcm")
	if err := WriteSegmentation(path, l, s, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	g, err := OpenSegmentation(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.ReadOn(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n, label := range got.Labels {
		if label != l.Labels[n] {
			t.Fatalf("voxel %d is %d, want %d", n, label, l.Labels[n])
		}
	}
	if took := time.Since(began); took > time.Minute { // half a second, not minutes
		t.Errorf("reading took %v", took)
	}
}

// Whatever is cut off or changed, the error is of one of the two kinds, and nobody allocates what
// the file cannot hold.
func TestHostileSegmentations(t *testing.T) {
	cases := readSegCases(t)
	path := filepath.Join(t.TempDir(), "seg.dcm")
	read := func(file []byte) error {
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		g, err := OpenSegmentation(path)
		if err == nil {
			_, err = g.Read(Options{})
		}
		var format *volume.FormatError
		var unsupported *volume.UnsupportedError
		if err != nil && !errors.As(err, &format) && !errors.As(err, &unsupported) {
			t.Fatalf("%T: %v", err, err)
		}
		return err
	}
	file := cases.Written.File
	for n := 0; n < len(file); n += 61 {
		if read(file[:n]) == nil {
			t.Errorf("cut to %d of %d bytes, it is read", n, len(file))
		}
	}
	for n := 132; n < len(file); n += 17 {
		changed := slices.Clone(file)
		changed[n] ^= 0x81
		read(changed)
	}
	// Frames that nothing is said of.
	many := encode([]field{{tag.SOPClassUID, "UI", stack.ClassSEG}, {tag.NumberOfFrames, "IS", "100000"},
		{tag.PerFrameFunctionalGroupsSequence, "SQ", make([][]field, 100000)}}, binary.LittleEndian, false)
	if err := read(part10(element.ExplicitLittle, many)); err == nil ||
		!strings.Contains(err.Error(), "frames and more in 800") {
		t.Errorf("a hundred thousand empty frames: %v", err)
	}
	// Two frames a kilometre apart, a tenth of a millimetre thick.
	far := bytes.ReplaceAll(file, []byte(`-20\15\112.5`), []byte(`-20\15\1.0e6`))
	far = bytes.ReplaceAll(far, encode([]field{{tag.SpacingBetweenSlices, "DS", "2.5"}}, binary.LittleEndian, false),
		encode([]field{{tag.SpacingBetweenSlices, "DS", "0.1"}}, binary.LittleEndian, false))
	if err := read(far); bytes.Equal(far, file) || err == nil ||
		!strings.Contains(err.Error(), "too many slices without frames") {
		t.Errorf("frames that are far apart: %v", err)
	}
}

func TestCodesOfSegments(t *testing.T) {
	for name, want := range map[string][3]string{ // category, what it is, side
		"pancreas":             {"91723000", "15776009", ""},
		"Liver":                {"91723000", "10200004", ""},
		"kidney_left":          {"91723000", "64033007", "7771000"},
		"Right adrenal gland":  {"91723000", "23451007", "24028007"},
		"lung_upper_lobe_left": {"91723000", "45653009", "7771000"},
		"left ventricle":       {"91723000", "87878005", ""}, // of the heart: not one of two
		"vertebrae_L1":         {"91723000", "66794005", ""},
		"parotid":              {"91723000", "45289007", ""},
		"Liver tumour":         {"49755003", "108369006", ""},
		"cyst":                 {"49755003", "367643001", ""},
		"label 3":              {"85756007", "85756007", ""},
		"Gefäß":                {"85756007", "85756007", ""},
		"":                     {"85756007", "85756007", ""},
	} {
		c := segmentation.CodesOf(name)
		if got := [3]string{c.Category.Value, c.Property.Value, c.Side.Value}; got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	// Terms that are used are known, and so are those that synonyms stand for.
	for name, other := range segmentation.Synonyms {
		if segmentation.Structures[other] == (segmentation.Code{}) &&
			segmentation.Abnormalities[other] == (segmentation.Code{}) {
			t.Errorf("%s means %s, which is unknown", name, other)
		}
	}
}

// Real files: a head whose slices are tilted and uneven, scans that nobody can refer to, and
// objects that were cut down to their first frame.
func TestSegmentationsOfRealScans(t *testing.T) {
	root := os.Getenv("VOXSAW_DATA")
	if root == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	s := scanOne(t, filepath.Join(root, "dicom", "gantry_tilt"))
	for _, tilt := range []Tilt{TiltResample, TiltKeep} {
		o := Options{Tilt: tilt, Gaps: GapsResample}
		v, err := ReadWith(s, o)
		if err != nil {
			t.Fatal(err)
		}
		l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len()), Names: map[uint16]string{4: "skull"}}
		bone := 0
		for n, hu := range v.Int16 {
			if hu > 200 {
				l.Labels[n] = 4
				bone++
			}
		}
		g := written(t, l, s, WriteOptions{Read: o})
		got, err := g.ReadOn(s, o)
		if err != nil {
			t.Fatal(err)
		}
		both, found := 0, 0
		for n, label := range got.Labels {
			if label != 0 {
				found++
				if label == l.Labels[n] {
					both++
				}
			}
		}
		// Dice of a thin bone, in slices of 7 mm that were taken apart to 4.
		if dice := 2 * float64(both) / float64(bone+found); !got.Same(v.Grid, 1e-6) || bone < 10000 || dice < 0.8 {
			t.Errorf("tilt %s: Dice %.3f of %d voxels and %d", tilt, dice, bone, found)
		}
	}
	nameless := scanOne(t, filepath.Join(root, "totalsegmentator", "dicom_jpeg2000"))
	if err := nameless.Referable(); err == nil ||
		!strings.Contains(err.Error(), "has no SOPInstanceUID, no SeriesInstanceUID, no StudyInstanceUID") {
		t.Error(err)
	}
	for _, name := range []string{"liver_1frame.dcm", "liver_expb_1frame.dcm"} {
		if _, err := OpenSegmentation(filepath.Join(root, "dicom", "pydicom", name)); err == nil ||
			!strings.Contains(err.Error(), "claims 1 frames, but describes 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What drew a SEG object's labels, and with what, comes back as it was written; objects without it
// are the same file as before. dciodvfy finds no error in either.
func TestSegmentationSaysItsParameters(t *testing.T) {
	cases := readSegCases(t)
	s := cases.series(t, "axial")
	l := labelMap(s, cases.Cases[0].Labels, nil)
	const parameters = `{"program":"test","window":[16,16,16]}`
	dir := t.TempDir()
	if to := os.Getenv("VOXSAW_WRITE_PARAMETERS"); to != "" { // for dciodvfy to look at
		dir = to
	}
	uids := map[string]bool{}
	for n, p := range []string{"", parameters, parameters + " "} {
		path := filepath.Join(dir, fmt.Sprintf("%d.dcm", n))
		if err := WriteSegmentation(path, l, s, WriteOptions{Algorithm: "test", Version: "1",
			Parameters: p}); err != nil {
			t.Fatal(err)
		}
		g, err := OpenSegmentation(path)
		if err != nil || g.Parameters != strings.TrimSpace(p) {
			t.Errorf("parameters %q, %v, want %q", g.Parameters, err, p)
		}
		uids[g.UID] = true
	}
	if len(uids) != 3 {
		t.Errorf("%d UIDs of three objects", len(uids))
	}
}

// An order of segments says who has the voxels that several hold, and a segment that has none left
// is emptied.
func TestOrderOfSegmentsThatOverlap(t *testing.T) {
	cases := readSegCases(t)
	n := slices.IndexFunc(cases.Cases, func(c struct {
		Name    string            `json:"name"`
		File    []byte            `json:"file"`
		Series  string            `json:"series"`
		Labels  []byte            `json:"labels"`
		Names   map[uint16]string `json:"names"`
		Error   string            `json:"error"`
		Overlap Overlap           `json:"overlap"`
	}) bool {
		return c.Name == "overlap"
	})
	c := cases.Cases[n]
	path := filepath.Join(t.TempDir(), "seg.dcm")
	if err := os.WriteFile(path, c.File, 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := OpenSegmentation(path)
	if err != nil {
		t.Fatal(err)
	}
	s := cases.series(t, c.Series)
	shared := 0 // the voxels of Pancreas, which is 2, all of which Mass has, too
	for rule, want := range map[Overlap]struct{ emptied, holder uint16 }{
		OverlapLast: {2, 3}, "order:mass": {2, 3}, "order:Pancreas,Mass": {0, 2},
	} {
		l, err := g.ReadOn(s, Options{Overlap: rule})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		counts := l.Counts()
		if shared == 0 {
			shared = counts[2] + counts[3]
		}
		if counts[want.holder] == 0 || counts[2]+counts[3] != shared || (want.emptied == 2) != slices.Equal(l.Emptied,
			[]uint16{2}) || (want.emptied == 2) != (counts[2] == 0) {
			t.Errorf("%s: voxels %v, emptied %v", rule, counts, l.Emptied)
		}
	}
	if _, err := g.ReadOn(s, Options{Overlap: "order:Liver"}); err == nil ||
		!strings.Contains(err.Error(), "segments overlap: 2 (Pancreas) and 3 (Mass)") {
		t.Errorf("nobody is named: %v", err)
	}
}

// Segments that people drew name no algorithm: checked with pydicom, too.
func TestSegmentationSaysThatPeopleDrewIt(t *testing.T) {
	cases := readSegCases(t)
	s := cases.series(t, "axial")
	l := labelMap(s, cases.Cases[0].Labels, nil)
	for _, manual := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "seg.dcm")
		o := WriteOptions{Algorithm: "Some network", Parameters: `{"program":"voxsaw predict"}`, Manual: manual}
		if err := WriteSegmentation(path, l, s, o); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{"AUTOMATIC ", "Some network", "voxsaw predict"} {
			if bytes.Contains(text, []byte(of)) == manual {
				t.Errorf("drawn by people: %v; %q found: %v", manual, of, manual)
			}
		}
		if bytes.Contains(text, []byte("MANUAL")) != manual {
			t.Errorf("drawn by people: %v, MANUAL found: %v", manual, !manual)
		}
	}
}

package dicom

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/grouping"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// field is an element of a file that a test makes.
type field struct {
	tag   tag.Tag
	vr    string
	value any // string, []byte, uint16, int16, or [][]field for the items of a sequence
}

// encode writes elements in the way that a transfer syntax wants.
func encode(fields []field, order binary.AppendByteOrder, implicit bool) []byte {
	slices.SortStableFunc(fields, func(a, b field) int { return int(int64(a.tag) - int64(b.tag)) })
	var out []byte
	for _, f := range fields {
		var value []byte
		switch x := f.value.(type) {
		case string:
			value = []byte(x)
			if len(value)%2 == 1 {
				value = append(value, map[bool]byte{true: 0, false: ' '}[f.vr == "UI"])
			}
		case []byte:
			value = x
		case uint16:
			value = order.AppendUint16(nil, x)
		case int16:
			value = order.AppendUint16(nil, uint16(x))
		case [][]field:
			for _, item := range x {
				inner := encode(item, order, implicit)
				value = order.AppendUint16(order.AppendUint16(value, 0xFFFE), 0xE000)
				value = append(order.AppendUint32(value, uint32(len(inner))), inner...)
			}
		}
		out = order.AppendUint16(order.AppendUint16(out, f.tag.Group()), f.tag.Number())
		switch {
		case implicit:
			out = order.AppendUint32(out, uint32(len(value)))
		case f.vr == "OB" || f.vr == "OW" || f.vr == "SQ" || f.vr == "UN":
			out = append(out, f.vr...)
			out = order.AppendUint32(append(out, 0, 0), uint32(len(value)))
		default:
			out = append(out, f.vr...)
			out = order.AppendUint16(out, uint16(len(value)))
		}
		out = append(out, value...)
	}
	return out
}

// part10 puts the meta information before a data set.
func part10(syntax string, set []byte) []byte {
	meta := encode([]field{{tag.MediaStorageSOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.2"},
		{tag.TransferSyntaxUID, "UI", syntax}}, binary.LittleEndian, false)
	length := encode([]field{{tag.FileMetaInformationGroupLength, "UL",
		binary.LittleEndian.AppendUint32(nil, uint32(len(meta)))}}, binary.LittleEndian, false)
	return slices.Concat(make([]byte, 128), []byte("DICM"), length, meta, set)
}

func someNumbers(x ...float64) string {
	var s []string
	for _, f := range x {
		s = append(s, fmt.Sprintf("%.10g", f))
	}
	return strings.Join(s, "\\")
}

const (
	patientName = "Mustermann^Erika"
	patientID   = "PID-4711"
	birthDate   = "19640812"
)

// sliceFields are those of a CT slice of 16-bit pixels.
func sliceFields(series string, number int, position stack.Vector, orientation [6]float64, columns, rows int,
	pixels []byte) []field {
	return []field{
		{tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\AXIAL"},
		{tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.2"},
		{tag.SOPInstanceUID, "UI", fmt.Sprintf("%s.%d", series, number)},
		{tag.Modality, "CS", "CT"},
		{tag.PatientName, "PN", patientName},
		{tag.PatientID, "LO", patientID},
		{tag.PatientBirthDate, "DA", birthDate},
		{tag.SliceThickness, "DS", "9"},
		{tag.StudyInstanceUID, "UI", "1.2.3"},
		{tag.SeriesInstanceUID, "UI", series},
		{tag.SeriesNumber, "IS", "5"},
		{tag.InstanceNumber, "IS", fmt.Sprint(number)},
		{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)},
		{tag.ImageOrientationPatient, "DS", someNumbers(orientation[:]...)},
		{tag.SamplesPerPixel, "US", uint16(1)},
		{tag.PhotometricInterpretation, "CS", "MONOCHROME2"},
		{tag.Rows, "US", uint16(rows)},
		{tag.Columns, "US", uint16(columns)},
		{tag.PixelSpacing, "DS", "0.9\\0.7"},
		{tag.BitsAllocated, "US", uint16(16)},
		{tag.BitsStored, "US", uint16(16)},
		{tag.HighBit, "US", uint16(15)},
		{tag.PixelRepresentation, "US", uint16(1)},
		{tag.RescaleIntercept, "DS", "0"},
		{tag.RescaleSlope, "DS", "1"},
		{tag.PixelData, "OW", pixels},
	}
}

// set replaces or adds an element; a nil value removes it.
func set(fields []field, t tag.Tag, vr string, value any) []field {
	out := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.tag == t })
	if value != nil {
		out = append(out, field{t, vr, value})
	}
	return out
}

const (
	stackColumns, stackRows = 12, 10
	columnSpacing           = 0.7
	rowSpacing              = 0.9
)

// ramp is what the test stacks hold: linear in the world (LPS), so that linear interpolation of it
// is exact.
func ramp(p stack.Vector) float64 { return 20*p[0] - 30*p[1] + 10*p[2] }

// rampPixels are the pixels of a slice, rounded to whole numbers: half a unit is the error of
// everything that follows.
func rampPixels(position stack.Vector, o [6]float64, order binary.AppendByteOrder) []byte {
	var out []byte
	for j := range stackRows {
		for i := range stackColumns {
			p := position.Plus(stack.Vector(o[:3]).Times(float64(i) * columnSpacing)).
				Plus(stack.Vector(o[3:]).Times(float64(j) * rowSpacing))
			out = order.AppendUint16(out, uint16(int16(math.Round(ramp(p)))))
		}
	}
	return out
}

var (
	axial    = [6]float64{1, 0, 0, 0, 1, 0}
	sagittal = [6]float64{0, 1, 0, 0, 0, -1}
	oblique  = [6]float64{0.8, 0.6, 0, -0.36, 0.48, -0.8}
	gantry   = [6]float64{1, 0, 0, 0, math.Cos(0.3), -math.Sin(0.3)}

	otherGantry = [6]float64{1, 0, 0, 0, math.Cos(0.35), math.Sin(0.35)} // 20 degrees the other way
)

// writeStack writes a series with slices at the positions, in files whose names and instance
// someNumbers say nothing about their order.
func writeStack(t testing.TB, dir, series string, o [6]float64, positions []stack.Vector,
	change func(n int, f []field) []field) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(len(series))))
	for n, k := range r.Perm(len(positions)) {
		f := sliceFields(series, n+1, positions[k], o, stackColumns, stackRows,
			rampPixels(positions[k], o, binary.LittleEndian))
		if change != nil {
			f = change(k, f)
		}
		file := part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%03d", series, n)), file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// line returns positions from the first one on, at distances along a direction.
func line(first, direction stack.Vector, distances ...float64) []stack.Vector {
	var out []stack.Vector
	for _, d := range distances {
		out = append(out, first.Plus(direction.Times(d)))
	}
	return out
}

func scanOne(t testing.TB, dir string) *Series {
	t.Helper()
	series, passed, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(series) != 1 || len(passed) != 0 {
		t.Fatalf("%d series, passed over: %v", len(series), passed)
	}
	return series[0]
}

// checkRamp compares every voxel that is not background with the ramp at its place in the world.
func checkRamp(t testing.TB, v *volume.Volume, background float32) (inside int) {
	t.Helper()
	for k := range v.Shape[2] {
		for j := range v.Shape[1] {
			for i := range v.Shape[0] {
				got := v.At(i, j, k)
				if got == background {
					continue
				}
				inside++
				p := v.World([3]float64{float64(i), float64(j), float64(k)})
				// Rounded when written, and again after interpolation; at the rims the edge's value
				// holds for half a pixel, 0.45 mm by 36 units/mm.
				if want := ramp(stack.Vector{-p[0], -p[1], p[2]}); math.Abs(float64(got)-want) > 17.3 {
					t.Fatalf("voxel (%d, %d, %d) is %g, want %g", i, j, k, got, want)
				} else if math.Abs(float64(got)-want) > 1.01 && !rim(v, i, j, k, background) {
					t.Fatalf("voxel (%d, %d, %d) is %g, want %g", i, j, k, got, want)
				}
			}
		}
	}
	return inside
}

// rim says whether a voxel has background or nothing at all beside it in its slice.
func rim(v *volume.Volume, i, j, k int, background float32) bool {
	return i == 0 || j == 0 || i == v.Shape[0]-1 || j == v.Shape[1]-1 ||
		v.At(i-1, j, k) == background || v.At(i+1, j, k) == background || v.At(i, j-1, k) == background ||
		v.At(i, j+1, k) == background
}

const nothing = -30000 // a background that no ramp has

func TestSlicesAreOrderedByPosition(t *testing.T) {
	for name, o := range map[string][6]float64{"axial": axial, "sagittal": sagittal, "oblique": oblique} {
		for _, distances := range [][]float64{{0, 2.5, 5, 7.5, 10}, {10, 7.5, 5, 2.5, 0}} {
			dir := t.TempDir()
			_, _, normal, _ := (&stack.Slice{Info: stack.Info{Orientation: o[:], Spacing: []float64{1, 1}}}).Axes()
			writeStack(t, dir, "1.2", o, line(stack.Vector{-50, 20, 100}, normal, distances...), nil)
			s := scanOne(t, dir)
			v, err := Read(s)
			if err != nil {
				t.Fatal(err)
			}
			if v.Shape != [3]int{stackColumns, stackRows, 5} || v.Grid != s.Grid {
				t.Errorf("%s: grid %v, Scan said %v", name, v.Grid, s.Grid)
			}
			sp := v.Spacing()
			if math.Abs(sp[0]-columnSpacing)+math.Abs(sp[1]-rowSpacing)+math.Abs(sp[2]-2.5) > 1e-6 {
				t.Errorf("%s: spacing %v", name, sp)
			}
			if n := checkRamp(t, v, nothing); n != v.Len() {
				t.Errorf("%s: %d of %d voxels", name, n, v.Len())
			}
			if name == "axial" && v.Axcodes() != "LAS" {
				t.Errorf("axes %s, want dcm2niix's LAS", v.Axcodes())
			}
		}
	}
}

func TestGaps(t *testing.T) {
	for _, c := range []struct {
		name      string
		distances []float64
		want      string
		slices    int // after resampling
	}{
		{"a slice is missing", []float64{0, 2, 4, 8, 10},
			"4.00 mm between slices 3 and 4 (at 104.00 and 108.00 mm along the normal), usually 2.00 mm", 6},
		{"a thin slice is missing", []float64{0, 0.05, 0.1, 0.15, 0.25, 0.3, 0.35, 0.4},
			"0.10 mm between slices 4 and 5", 9},
		{"one is in between", []float64{0, 2, 4, 5, 6, 8, 10}, "1.00 mm between slices 3 and 4", 6},
		{"two distances", []float64{0, 1, 2, 3, 8, 13, 18}, "slices are not evenly spaced", 0},
		{"within rounding", []float64{0, 0.6, 1.3, 1.9, 2.5, 3.1, 3.8, 4.4, 5}, "", 0},
		{"beyond rounding", []float64{0, 0.6, 1.3, 2, 2.5, 3.1, 3.8, 4.5, 5}, "slices are not evenly spaced", 0},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 100}, stack.Vector{0, 0, 1}, c.distances...), nil)
		s := scanOne(t, dir)
		v, err := Read(s)
		if c.want == "" {
			if err != nil || s.Err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var unsupported *volume.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.want) || v != nil {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		if s.Err == nil || len(s.Problems) == 0 {
			t.Errorf("%s: Scan says nothing", c.name)
		}
		var notes []string
		v, err = ReadWith(s, Options{Gaps: GapsResample, Note: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		if len(notes) != 1 || c.slices != 0 && v.Shape[2] != c.slices {
			t.Errorf("%s: %d slices, notes %q", c.name, v.Shape[2], notes)
		}
		if n := checkRamp(t, v, nothing); n != v.Len() {
			t.Errorf("%s: %d of %d voxels", c.name, n, v.Len())
		}
	}
}

// Scanners write positions to a tenth of a millimetre. Such a stack is even, its voxels lie where
// its slices do, and a slice that is missing is still found.
func TestRoundedPositions(t *testing.T) {
	for _, distance := range []float64{0.35, 0.625, 0.7 / 0.9, 1.25, 2.5} {
		for _, n := range []int{4, 5, 8, 120} {
			var distances []float64
			for k := range n {
				distances = append(distances, math.Round(10*distance*float64(k))/10)
			}
			dir := t.TempDir()
			writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 100}, stack.Vector{0, 0, 1}, distances...), nil)
			s := scanOne(t, dir)
			if s.Err != nil || len(s.Problems) > 0 {
				t.Errorf("%d slices, %g mm apart: %v, %q", n, distance, s.Err, s.Problems)
				continue
			}
			for k, d := range distances {
				if at := s.Grid.World([3]float64{0, 0, float64(k)})[2]; math.Abs(at-100-d) > 0.051 {
					t.Errorf("%d slices, %g mm apart: slice %d lies at %.3f mm, its voxels at %.3f", n, distance, k+1,
						100+d, at)
				}
			}
			if got := s.Grid.Spacing()[2]; math.Abs(got-distance)*float64(n-1) > 0.11 {
				t.Errorf("%d slices, %g mm apart: distance %.4f", n, distance, got)
			}
			for k := 1; k < n-1; k++ {
				if even, _, _ := stack.Evenly(slices.Delete(slices.Clone(distances), k, k+1)); even {
					t.Errorf("%d slices, %g mm apart: slice %d is missing, and nobody sees it", n, distance, k+1)
				}
			}
		}
	}
}

// Slices that all lie too far apart may be what is left of more: it is said, and what headers say
// of distances is used for nothing.
func TestSlicesFarApart(t *testing.T) {
	const thickness, between = tag.SliceThickness, tag.SpacingBetweenSlices
	for _, c := range []struct {
		name      string
		distances []float64
		headers   map[tag.Tag]any
		want      string
	}{
		{"two slices", []float64{0, 200}, map[tag.Tag]any{thickness: "5"},
			"slices lie 200 mm apart, but are only 5 mm thick"},
		{"every second one", []float64{0, 10, 20, 30}, map[tag.Tag]any{thickness: "5"},
			"slices lie 10 mm apart, but are only 5 mm thick"},
		{"every second one that overlaps", []float64{0, 4, 8, 12}, map[tag.Tag]any{thickness: "1", between: "2"},
			"slices lie 4 mm apart, but are only 2 mm thick"},
		{"rounded", []float64{0, 9.97, 19.95, 29.93}, map[tag.Tag]any{thickness: "5"}, "slices lie 9.977 mm apart"},
		{"usual gaps", []float64{0, 8, 16, 24}, map[tag.Tag]any{thickness: "5"}, ""},
		{"gaps that are meant", []float64{0, 10, 20, 30}, map[tag.Tag]any{thickness: "1", between: "10"}, ""},
		{"nothing said", []float64{0, 200}, map[tag.Tag]any{thickness: nil}, ""},
		{"nonsense said", []float64{0, 2, 4}, map[tag.Tag]any{thickness: "1e300"}, ""},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, c.distances...),
			func(_ int, f []field) []field {
				for key, value := range c.headers {
					f = set(f, key, "DS", value)
				}
				return f
			})
		s := scanOne(t, dir)
		var notes []string
		v, err := ReadWith(s, Options{Note: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		if want, got := c.distances[len(c.distances)-1]/float64(len(c.distances)-1),
			v.Spacing()[2]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: distance %g, want %g", c.name, got, want)
		}
		if !slices.Equal(notes, s.Problems) || (c.want == "") != (len(notes) == 0) ||
			!strings.Contains(strings.Join(notes, ""), c.want) {
			t.Errorf("%s: notes %q, problems %q, want %q", c.name, notes, s.Problems, c.want)
		}
	}
}

// A slice that is displaced between others is said to be that: there is no angle that tells it.
func TestDisplacedSlice(t *testing.T) {
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, []stack.Vector{{0, 0, 0}, {0, 0, 2}, {0, 3.6, 4}, {0, 0, 6}, {0, 0, 8}},
		func(_ int, f []field) []field {
			return append(f, field{tag.PixelPaddingValue, "SS", int16(nothing)})
		})
	s := scanOne(t, dir)
	const want = "slices are shifted in their planes, by up to 3.60 mm, and not along a line (no gantry tilt)"
	if len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0], want+": each is moved in its plane") {
		t.Errorf("problems %q", s.Problems)
	}
	for _, tilt := range []Tilt{TiltKeep, TiltError} {
		if _, err := ReadWith(s, Options{Tilt: tilt}); err == nil ||
			!strings.Contains(err.Error(),
				want+": --tilt resample moves each in its plane onto an orthogonal grid, --tilt keep cannot") {
			t.Errorf("tilt %s: %v", tilt, err)
		}
	}
	v, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	if n := checkRamp(t, v, nothing); v.Shape != [3]int{stackColumns, stackRows + 4, 5} ||
		n != 5*stackColumns*stackRows {
		t.Errorf("%v voxels, %d of them not background", v.Shape, n)
	}
}

// A slice that is made up between two that are displaced: where one of them does not reach, the
// other counts alone, and nothing of what is around them is mixed in.
func TestGapBetweenDisplacedSlices(t *testing.T) {
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, []stack.Vector{{0, 0, 0}, {0, 0, 2}, {0, 3.6, 6}, {0, 3.6, 8}},
		func(_ int, f []field) []field {
			return append(f, field{tag.PixelPaddingValue, "SS", int16(nothing)})
		})
	v, err := ReadWith(scanOne(t, dir), Options{Gaps: GapsResample})
	if err != nil {
		t.Fatal(err)
	}
	if v.Shape != [3]int{stackColumns, stackRows + 4, 5} {
		t.Fatalf("%v voxels", v.Shape)
	}
	const k = 2
	for j := range v.Shape[1] {
		for i := range v.Shape[0] {
			p := v.World([3]float64{float64(i), float64(j), k})
			want, near := ramp(stack.Vector{-p[0], -p[1], p[2]}), 1.01
			if j < 4 || j >= stackRows {
				near = 20.01 // that of the slice 2 mm away
			}
			if got := float64(v.At(i, j, k)); math.Abs(got-want) > near {
				t.Errorf("voxel (%d, %d, %d) is %g, want %g", i, j, k, got, want)
			}
		}
	}
}

func TestTilt(t *testing.T) {
	for _, c := range []struct {
		name      string
		plane     [6]float64
		direction stack.Vector
		distances []float64
	}{
		{"up", gantry, stack.Vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}},
		{"down", gantry, stack.Vector{0, 0, -1}, []float64{0, 3, 6, 9, 12}},
		{"the other way, up", otherGantry, stack.Vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}},
		{"the other way, down", otherGantry, stack.Vector{0, 0, -1}, []float64{0, 3, 6, 9, 12}},
		{"to the side as well", gantry, stack.Vector{0.1, 0, 1}, []float64{0, 3, 6, 9, 12}},
		{"with a gap", gantry, stack.Vector{0, 0, 1}, []float64{0, 3, 6, 12, 15}},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", c.plane, line(stack.Vector{-20, 10, 50}, c.direction, c.distances...),
			func(_ int, f []field) []field {
				return append(f, field{tag.PixelPaddingValue, "SS", int16(nothing)})
			})
		s := scanOne(t, dir)
		if _, err := ReadWith(s, Options{Gaps: GapsResample, Tilt: TiltError}); err == nil ||
			!strings.Contains(err.Error(),
				"degrees (gantry tilt): --tilt resample moves each in its plane onto "+
					"an orthogonal grid, --tilt keep keeps them") {
			t.Errorf("%s: %v", c.name, err)
		}
		var notes []string
		straight, err := ReadWith(s, Options{Gaps: GapsResample, Note: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		if straight.Affine.Shear() > 1e-9 || !strings.Contains(strings.Join(notes, ""), "gantry tilt") {
			t.Errorf("%s: shear %g, notes %q", c.name, straight.Affine.Shear(), notes)
		}
		kept, err := ReadWith(s, Options{Gaps: GapsResample, Tilt: TiltKeep})
		if err != nil {
			t.Fatal(err)
		}
		if n := checkRamp(t, kept, nothing); n != kept.Len() {
			t.Errorf("%s: kept %d of %d voxels", c.name, n, kept.Len())
		}
		if n := checkRamp(t, straight, nothing); n < kept.Len()*8/10 || n > kept.Len() {
			t.Errorf("%s: straightened %d of %d voxels", c.name, n, kept.Len())
		}
	}
}

func TestSeveralVolumes(t *testing.T) {
	up := stack.Vector{0, 0, 1}
	double := []float64{0, 2, 4, 6, 0, 2, 4, 6}
	t.Run("acquisitions", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, double...), func(n int, f []field) []field {
			return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(n/4+1))
		})
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 {
			t.Fatalf("%d series, %v", len(series), err)
		}
		for n, s := range series {
			if s.Part != n+1 || len(s.Files) != 4 || s.Err != nil {
				t.Errorf("part %d of %d files: %v", s.Part, len(s.Files), s.Err)
			}
		}
		if s, _, err := Choose(series, "5.2"); err != nil || s != series[1] {
			t.Errorf("5.2: %v", err)
		}
		if _, _, err := Choose(series, "5"); err == nil || !strings.Contains(err.Error(), "is not one but 2") {
			t.Errorf("5: %v", err)
		}
	})
	t.Run("interleaved", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 0.7, 2.7, 4.7, 6.7),
			func(n int, f []field) []field {
				return set(f, tag.ConvolutionKernel, "SH", []string{"SOFT", "BONE"}[n/4])
			})
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 {
			t.Fatalf("%d series, %v", len(series), err)
		}
	})
	t.Run("kernels that interleave evenly", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 1, 3, 5, 7),
			func(n int, f []field) []field {
				return set(f, tag.ConvolutionKernel, "SH", []string{"SOFT", "BONE"}[n/4])
			})
		if series, _, err := Scan(dir); err != nil || len(series) != 2 {
			t.Fatalf("%d series, %v", len(series), err)
		}
	})
	t.Run("acquisitions that interleave evenly", func(t *testing.T) {
		root := t.TempDir()
		for n, change := range []func(k int, f []field) []field{
			func(k int, f []field) []field { return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(k/4+1)) },
			func(k int, f []field) []field {
				return set(f, tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\"+[]string{"M", "P"}[k/4])
			},
			func(k int, f []field) []field { return f },
			// one behind the other
			func(k int, f []field) []field { return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(k%4/2)) },
		} {
			want := []string{"AcquisitionNumber", "ImageType", "", ""}[n]
			dir := filepath.Join(root, fmt.Sprint(n))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 1, 3, 5, 7), change)
			var notes []string
			s := scanOne(t, dir)
			if _, err := ReadWith(s, Options{Note: func(n string) { notes = append(notes, n) }}); err != nil {
				t.Fatal(err)
			}
			if want != "" {
				want = "slices that differ in " + want + " interleave evenly: they are taken for one volume"
			}
			if strings.Join(notes, "|") != want || strings.Join(s.Problems, "|") != want {
				t.Errorf("notes %q, problems %q, want %q", notes, s.Problems, want)
			}
		}
	})
	t.Run("two patients of one SeriesInstanceUID", func(t *testing.T) {
		root := t.TempDir()
		for n, from := range []float64{0, 1} {
			dir := filepath.Join(root, fmt.Sprint(n))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, from}, up, 0, 2, 4, 6), nil)
		}
		if s := scanOne(t, root); len(s.Problems) != 1 ||
			!strings.Contains(s.Problems[0], "slices that differ in their folders interleave evenly") {
			t.Errorf("problems %q", s.Problems)
		}
	})
	t.Run("echoes of two types", func(t *testing.T) {
		dir := t.TempDir()
		four := slices.Concat(double, double)
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, four...), func(n int, f []field) []field {
			f = set(f, tag.EchoTime, "DS", []string{"4.6", "9.2"}[n/4%2])
			return set(f, tag.ImageType, "CS", []string{"ORIGINAL\\PRIMARY\\M", "ORIGINAL\\PRIMARY\\P"}[n/8])
		})
		series, _, err := Scan(dir)
		if err != nil || len(series) != 4 {
			t.Fatalf("%d series, %v", len(series), err)
		}
	})
	t.Run("one behind the other", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 20, 22, 24, 26),
			func(n int, f []field) []field {
				return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(n/4+1))
			})
		if s := scanOne(t, dir); s.Err == nil || !strings.Contains(s.Err.Error(), "14.00 mm between slices 4 and 5") {
			t.Errorf("got %v", s.Err)
		}
	})
	// Slices of ascending places, first those of one volume, then those of the other, which differ
	// by a thousand.
	other := func(n int, f []field) []field {
		if n >= 4 {
			f = set(f, tag.RescaleIntercept, "DS", "1000")
		}
		return f
	}
	t.Run("nothing tells them apart", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, double...), other)
		if s := scanOne(t, dir); s.Err == nil ||
			!strings.Contains(s.Err.Error(),
				"slices 1 and 2 lie at the same place (0.00 mm along the normal) and differ") {
			t.Errorf("got %v", s.Err)
		}
	})
	t.Run("a slice of one is missing", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 0, 2, 6, 8),
			func(n int, f []field) []field {
				return set(other(n, f), tag.AcquisitionNumber, "IS", fmt.Sprint(n/4+1))
			})
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 || series[0].Err != nil {
			t.Fatalf("%v, %v", series, err)
		}
		if err := series[1].Err; err == nil || !strings.Contains(err.Error(), "4.00 mm between slices 2 and 3") {
			t.Errorf("got %v", err)
		}
	})
	twoRamps := func(t *testing.T, dir string) { // the second 1000 higher
		t.Helper()
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 {
			t.Fatalf("%d series, %v", len(series), err)
		}
		for n, s := range series {
			v, err := Read(s)
			if err != nil {
				t.Fatal(err)
			}
			for e := range v.Int16 {
				v.Int16[e] -= int16(n * 1000)
			}
			checkRamp(t, v, nothing)
		}
	}
	t.Run("one after the other in time", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, double...), func(n int, f []field) []field {
			// each slice at a time of its own
			return set(other(n, f), tag.AcquisitionTime, "TM", fmt.Sprintf("1200%02d.%d", n*2, n))
		})
		twoRamps(t, dir)
	})
	t.Run("one after the other, in milliseconds", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 6, 4, 2, 0),
			func(n int, f []field) []field {
				// from 8000 to 15000
				return set(other(n, f), tag.FrameReferenceTime, "DS", fmt.Sprint(8000+1000*n))
			})
		twoRamps(t, dir)
	})
	t.Run("mixed in time", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, double...), func(n int, f []field) []field {
			return set(other(n, f), tag.AcquisitionTime, "TM", fmt.Sprintf("1200%02d", n%4*2+n/4))
		})
		if s := scanOne(t, dir); s.Err == nil {
			t.Error("volumes are made of slices that are in no order of time")
		}
	})
	t.Run("orientations, matrices and spacings", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6), nil)
		writeStack(t, dir, "1.2.4", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 8), nil)
		writeStack(t, dir, "1.2.44", sagittal, line(stack.Vector{0, 0, 0}, stack.Vector{-1, 0, 0}, 0, 2),
			func(_ int, f []field) []field {
				return set(set(f, tag.SeriesInstanceUID, "UI", "1.2"), tag.ImageType, "CS",
					"ORIGINAL\\PRIMARY\\LOCALIZER")
			})
		writeStack(t, dir, "1.2.555", axial, line(stack.Vector{0, 0, 0}, up, 0, 2), func(_ int, f []field) []field {
			return set(set(f, tag.SeriesInstanceUID, "UI", "1.2"), tag.PixelSpacing, "DS", "2\\2")
		})
		series, _, err := Scan(dir)
		if err != nil || len(series) != 4 {
			t.Fatalf("%d series, %v", len(series), err)
		}
		s, why, err := Choose(series, "")
		if err != nil || s.UID != "1.2.4" || why != "the largest axial CT of 4 series, UID 1.2.4" {
			t.Errorf("chose %v: %s, %v", s, why, err)
		}
		localizers := 0
		for _, s := range series {
			if s.Localizer {
				localizers++
			}
		}
		if localizers != 1 {
			t.Errorf("%d localizers", localizers)
		}
		if _, _, err := Choose(series, "9.9"); err == nil || !strings.Contains(err.Error(), "there is no series 9.9") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a single slice", func(t *testing.T) {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0), nil)
		s := scanOne(t, dir)
		if s.Err != nil || !strings.Contains(strings.Join(s.Problems, ""),
			"a single slice: its thickness of 9 mm is taken from SliceThickness") {
			t.Errorf("problems %q, %v", s.Problems, s.Err)
		}
	})
}

// Images that are there twice: what is dropped is the same image in the same place, whatever its
// UID.
func TestCopies(t *testing.T) {
	up := stack.Vector{0, 0, 1}
	for _, c := range []struct {
		name   string
		change func(n int, f []field) []field // slices 4 to 7 lie where 0 to 3 do
		copies int
		want   string // the error
	}{
		{"files copied", func(n int, f []field) []field {
			return set(f, tag.SOPInstanceUID, "UI",
				fmt.Sprintf("1.2.9.%d", n%4))
		}, 4, ""},
		{"sent again under other UIDs", nil, 4, ""},
		{"one UID for two images", func(n int, f []field) []field {
			f = set(f, tag.SOPInstanceUID, "UI", fmt.Sprintf("1.2.9.%d", n%4))
			if n == 6 {
				f = set(f, tag.RescaleIntercept, "DS", "17")
			}
			return f
		}, 3, "slices 3 and 4 lie at the same place (4.00 mm along the normal) and differ"},
		{"one UID for all images", func(n int, f []field) []field { return set(f, tag.SOPInstanceUID, "UI", "1.2.9") },
			4, ""},
		{"copies with padding", func(n int, f []field) []field {
			if n < 4 {
				return f
			}
			pixels := slices.IndexFunc(f, func(f field) bool { return f.tag == tag.PixelData })
			return set(f, tag.PixelData, "OW", append(slices.Clone(f[pixels].value.([]byte)), 0, 0, 0, 0))
		}, 4, ""},
		{"copies with other tags", func(n int,
			f []field) []field {
			return set(f, tag.ContentTime, "TM", fmt.Sprint(100000+n))
		}, 4, ""},
		{"a damaged copy", func(n int, f []field) []field {
			f = set(f, tag.SOPInstanceUID, "UI", fmt.Sprintf("1.2.9.%d", n%4))
			if n == 6 || n == 1 {
				f = set(f, tag.BitsAllocated, "US", uint16(64))
			}
			return f
		}, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4, 6, 0, 2, 4, 6), c.change)
			series, passed, err := Scan(dir)
			if err != nil || len(series) != 1 {
				t.Fatalf("%d series, %v", len(series), err)
			}
			if len(passed) != c.copies {
				t.Errorf("passed over %v", passed)
			}
			for _, p := range passed {
				if p.What != "copy" {
					t.Errorf("passed over %v", p)
				}
			}
			v, err := Read(series[0])
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := checkRamp(t, v, nothing); v.Shape[2] != 4 || n != v.Len() {
				t.Errorf("shape %v, %d voxels right", v.Shape, n)
			}
		})
	}
	// A copy in a folder inside, whatever it is called, is the copy.
	for _, name := range []string{"a copy", "zweite Kopie"} {
		dir := t.TempDir()
		inside := filepath.Join(dir, name)
		if err := os.Mkdir(inside, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{dir, inside} {
			writeStack(t, to, "1.2", axial, line(stack.Vector{}, up, 0, 2, 4, 6), nil)
		}
		series, passed, err := Scan(dir)
		if err != nil || len(series) != 1 || len(passed) != 4 {
			t.Fatalf("%s: %d series, passed over %v, %v", name, len(series), passed, err)
		}
		for _, p := range passed {
			if p.What != "copy" || filepath.Dir(p.Path) != inside {
				t.Errorf("%s: passed over %v", name, p)
			}
		}
	}
	// A copy and a gap: it is the gap that is named.
	gap := t.TempDir()
	writeStack(t, gap, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 2, 6, 8, 10), nil)
	if series, passed, err := Scan(gap); err != nil || len(series) != 1 || len(passed) != 1 ||
		!strings.Contains(fmt.Sprint(series[0].Err), "4.00 mm between slices 2 and 3") {
		t.Errorf("a copy and a gap: %v, passed over %v, %v", series, passed, err)
	}
	// One UID for all images, none of which is there twice: nothing may be lost.
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, 0, 2, 4),
		func(n int, f []field) []field { return set(f, tag.SOPInstanceUID, "UI", "1.2.9") })
	if s := scanOne(t, dir); s.Err != nil || s.Shape[2] != 3 {
		t.Errorf("%s: %v", s, s.Err)
	}
}

// What lies among the slices of a series and is none of them.
func TestStrangersInASeries(t *testing.T) {
	up := stack.Vector{0, 0, 1}
	distances := []float64{0, 2, 4, 6, 8}
	for name, change := range map[string]func(f []field) []field{
		"localizer in the same plane": func(f []field) []field {
			return set(f, tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\LOCALIZER")
		},
		"localizer of another matrix": func(f []field) []field {
			return set(set(f, tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\LOCALIZER"), tag.Rows, "US", uint16(stackRows-1))
		},
		"another plane": func(f []field) []field {
			return set(f, tag.ImageOrientationPatient, "DS", someNumbers(sagittal[:]...))
		},
		"turned by a degree": func(f []field) []field {
			return set(f, tag.ImageOrientationPatient, "DS", someNumbers(1, 0, 0, 0, math.Cos(0.0175),
				math.Sin(0.0175)))
		},
		"other matrix": func(f []field) []field { return set(f, tag.Rows, "US", uint16(stackRows-1)) },
		"colours": func(f []field) []field {
			f = set(set(f, tag.SamplesPerPixel, "US", uint16(3)), tag.PhotometricInterpretation, "CS", "RGB")
			return set(f, tag.PixelData, "OW", make([]byte, 3*2*stackColumns*stackRows))
		},
		"secondary capture": func(f []field) []field {
			return set(set(f, tag.ImagePositionPatient, "", nil), tag.ImageType, "CS", "DERIVED\\SECONDARY")
		},
		"other spacing":            func(f []field) []field { return set(f, tag.PixelSpacing, "DS", "0.8\\0.8") },
		"other study":              func(f []field) []field { return set(f, tag.StudyInstanceUID, "UI", "1.9.9") },
		"other frame of reference": func(f []field) []field { return set(f, tag.FrameOfReferenceUID, "UI", "1.9.9") },
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, up, append(distances, 5)...),
			func(n int, f []field) []field {
				if n == len(distances) {
					return change(f)
				}
				return f
			})
		series, passed, err := Scan(dir)
		if err != nil || len(series) != 2 || len(passed) != 0 {
			t.Fatalf("%s: %d series, passed over %v, %v", name, len(series), passed, err)
		}
		s, why, err := Choose(series, "")
		if err != nil || s.Err != nil || s.Shape[2] != len(distances) || why == "" {
			t.Errorf("%s: chose %v (%s), %v", name, s, why, err)
		}
		want := ""
		if reason := map[string]string{
			"turned by a degree": "orientation or pixel spacing", "other spacing": "orientation or pixel spacing",
			"other matrix": "matrix", "other study": "study",
			"other frame of reference": "frame of reference", "secondary capture": "what they say of their place",
		}[name]; reason != "" {
			want = "its SeriesInstanceUID has more images (1), which differ in " + reason + ": they are no slices of it"
		}
		if strings.Join(s.Problems, "|") != want {
			t.Errorf("%s: problems %q", name, s.Problems)
		}
	}
}

// UIDs that were replaced or dropped file by file tear no stack apart, and what was overruled is
// noted.
func TestUIDsTearNoStackApart(t *testing.T) {
	uid := func(key tag.Tag, value func(n int) string) func(int, []field) []field {
		return func(n int, f []field) []field {
			if v := value(n); v != "" {
				return set(f, key, "UI", v)
			}
			return set(f, key, "", nil)
		}
	}
	all := func(changes ...func(int, []field) []field) func(int, []field) []field {
		return func(n int, f []field) []field {
			for _, change := range changes {
				f = change(n, f)
			}
			return f
		}
	}
	each := func(n int) string { return fmt.Sprintf("1.9.%d", n) }
	half := func(n int) string { return []string{"1.9.9", ""}[n%2] }
	spaces, studies, series := uid(tag.FrameOfReferenceUID, each), uid(tag.StudyInstanceUID, each),
		uid(tag.SeriesInstanceUID, each)
	even := []float64{0, 2, 4, 6, 8, 10, 12, 14, 16}
	for name, c := range map[string]struct {
		at         []float64
		change     func(n int, f []field) []field
		said, fail string
	}{
		"frame of reference each": {even, spaces, "FrameOfReferenceUID (9 values)", ""},
		"half without frame of reference": {even, uid(tag.FrameOfReferenceUID, half),
			"FrameOfReferenceUID (missing in 4)", ""},
		"study each": {even, studies, "StudyInstanceUID (9 values)", ""},
		"half without study": {even, uid(tag.StudyInstanceUID, half), "StudyInstanceUID (missing in 4)",
			""},
		"series each": {even, series, "SeriesInstanceUID (9 values)", ""},
		"half without series": {even, uid(tag.SeriesInstanceUID, half), "SeriesInstanceUID (missing in 4)",
			""},
		"all of them each": {even, all(spaces, studies, series),
			"StudyInstanceUID (9 values) and FrameOfReferenceUID (9 values) and SeriesInstanceUID (9 values)", ""},
		"numbers as well": {even,
			all(series, func(n int, f []field) []field { return set(f, tag.SeriesNumber, "IS", fmt.Sprint(n)) }),
			"SeriesInstanceUID (9 values)", ""},
		"two series, one after the other": {even,
			uid(tag.SeriesInstanceUID, func(n int) string { return fmt.Sprintf("1.9.%d", n/5) }),
			"SeriesInstanceUID (2 values)", ""},
		"one slice of another series": {even,
			uid(tag.SeriesInstanceUID, func(n int) string { return fmt.Sprintf("1.9.%d", n/8) }),
			"SeriesInstanceUID (2 values)", ""},
		"three slices of each": {even, uid(tag.FrameOfReferenceUID,
			func(n int) string { return fmt.Sprintf("1.9.%d", n/3) }), "FrameOfReferenceUID (3 values)", ""},

		// A slice is missing: that is said of the whole, not of what UIDs leave of it.
		"frame of reference each, a gap": {[]float64{0, 2, 4, 8, 10, 12}, spaces, "FrameOfReferenceUID (6 values)",
			"4.00 mm between slices 3 and 4"},
		"frame of reference of three, a gap": {[]float64{0, 2, 4, 6, 8, 10, 14, 16, 18},
			uid(tag.FrameOfReferenceUID, func(n int) string { return fmt.Sprintf("1.9.%d", n/3) }),
			"FrameOfReferenceUID (3 values)", "4.00 mm between slices 6 and 7"},
		"half without it, a gap": {[]float64{0, 2, 4, 6, 12, 14, 16}, uid(tag.FrameOfReferenceUID, half),
			"FrameOfReferenceUID (missing in 3)", "6.00 mm between slices 4 and 5"},
		"series each, a gap": {[]float64{0, 2, 4, 8, 10, 12}, series, "SeriesInstanceUID (6 values)",
			"4.00 mm between slices 3 and 4"},
		"study each, one slice there twice": {[]float64{0, 2, 4, 4, 6, 8}, studies, "StudyInstanceUID (5 values)", ""},
		"series each, kernels that interleave": {even, all(series, func(n int, f []field) []field {
			return set(f, tag.AcquisitionNumber, "IS", fmt.Sprint(n%2))
		}), "SeriesInstanceUID (9 values)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, c.at...), c.change)
			series, _, err := Scan(dir)
			if err != nil || len(series) != 1 {
				t.Fatalf("%d series, %v", len(series), err)
			}
			s, problems := series[0], strings.Join(series[0].Problems, "; ")
			if want := "its images differ in " + c.said +
				", which those of one series share: by where they lie, they are taken for one " +
				"volume"; !strings.Contains(problems, want) {
				t.Errorf("problems %q, want %q", problems, want)
			}
			chosen, _, err := Choose(series, "")
			if err != nil || chosen != s {
				t.Fatalf("chose %v, %v", chosen, err)
			}
			v, err := Read(s)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("%v, want %s", err, c.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if checkRamp(t, v, nothing) != v.Len() {
				t.Error("slices are not where they belong")
			}
		})
	}
}

// What UIDs tell apart, and geometry does not hold together, stays apart.
func TestUIDsTellVolumesApart(t *testing.T) {
	halves := func(key tag.Tag) func(n int, f []field) []field {
		return func(n int, f []field) []field { return set(f, key, "UI", fmt.Sprintf("1.9.%d", n/4)) }
	}
	apart := []float64{0, 2, 4, 6, 100, 102, 104, 106}
	inOnePlace := []float64{0, 2, 4, 6, 0, 2, 4, 6}
	other := func(change func(int, []field) []field) func(n int, f []field) []field {
		return func(n int, f []field) []field { // other values, or they would be copies
			f = change(n, f)
			return set(f, tag.RescaleIntercept, "DS", fmt.Sprint(n/4))
		}
	}
	for name, c := range map[string]struct {
		at     []float64
		change func(n int, f []field) []field
		want   []int // slices of each series
	}{
		"head and abdomen, by frame of reference": {apart, halves(tag.FrameOfReferenceUID), []int{4, 4}},
		"head and abdomen, by study":              {apart, halves(tag.StudyInstanceUID), []int{4, 4}},
		"head and abdomen, by series":             {apart, halves(tag.SeriesInstanceUID), []int{4, 4}},
		"in one place, by frame of reference":     {inOnePlace, other(halves(tag.FrameOfReferenceUID)), []int{4, 4}},
		"in one place, by series":                 {inOnePlace, other(halves(tag.SeriesInstanceUID)), []int{4, 4}},
		"two series, one behind the other": {[]float64{0, 2, 4, 6, 8, 10, 12, 14}, func(n int, f []field) []field {
			return set(halves(tag.SeriesInstanceUID)(n, f), tag.SeriesNumber, "IS", fmt.Sprint(n/4))
		}, []int{4, 4}},
		"two series with the same instance numbers": {[]float64{0, 2, 4, 6, 8, 10, 12, 14},
			func(n int, f []field) []field {
				return set(halves(tag.SeriesInstanceUID)(n, f), tag.InstanceNumber, "IS", fmt.Sprint(n%4+1))
			}, []int{4, 4}},
		"single slices of many": {[]float64{0, 3, 4, 9}, func(n int, f []field) []field {
			for _, key := range []tag.Tag{tag.SeriesInstanceUID, tag.StudyInstanceUID, tag.FrameOfReferenceUID} {
				f = set(f, key, "UI", fmt.Sprintf("1.9.%d", n))
			}
			return f
		}, []int{1, 1, 1, 1}},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, c.at...), c.change)
		series, passed, err := Scan(dir)
		if err != nil || len(passed) > 0 {
			t.Fatalf("%s: passed over %v, %v", name, passed, err)
		}
		var got []int
		for _, s := range series {
			got = append(got, s.Shape[2])
			if s.Err != nil || strings.Contains(strings.Join(s.Problems, ""), "taken for one volume") {
				t.Errorf("%s: %v, problems %q", name, s.Err, s.Problems)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: series of %v slices, want %v", name, got, c.want)
		}
		if _, _, err := Choose(series, ""); (err != nil) != (slices.Max(c.want) == 1) {
			t.Errorf("%s: choosing one: %v", name, err)
		}
	}
}

// Where the last slice of a series has got lost in a transfer, there is no gap: the file that is
// left of it tells, if it is called as the slices are.
func TestSpoiltFilesBesideSlices(t *testing.T) {
	f := sliceFields("1.2", 9, stack.Vector{0, 0, 8}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{0, 0, 8}, axial, binary.LittleEndian))
	whole := part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false))
	const one = "a file beside its slices, %s, is empty or damaged: was the transfer complete?"
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"1.2-004", one, nil},
		{"1.2-004", one, make([]byte, len(whole))},
		{"1.2-004", one, whole[:300]},
		{"1.2-004", one, whole[:132]},
		{"1.2-004", "", []byte("<html>404</html>")},
		{"1.2-004", "", whole},
		{"README", "", nil},
		{"004.txt", "", nil},
		{"other/1.2-004", "", nil},
		{"1.2-004.dcm", "", nil}, // the slices have no extension
		{"dcm/1.2-004.DCM", one, nil},
		{"dcm/1.2-004.DCM", one, []byte("<html>404</html>")},
		{"dcm/004.txt", "", nil},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4, 6), nil)
		path := filepath.Join(dir, c.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(c.name) == "dcm" {
			for k := range 4 {
				if err := os.Rename(filepath.Join(dir, fmt.Sprintf("1.2-%03d", k)),
					filepath.Join(dir, "dcm", fmt.Sprintf("1.2-%03d.dcm", k))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(path, c.data, 0o666); err != nil {
			t.Fatal(err)
		}
		series, _, err := Scan(dir)
		if err != nil || len(series) != 1 {
			t.Fatalf("%d series, %v", len(series), err)
		}
		want := c.want
		if want != "" {
			want = fmt.Sprintf(want, filepath.Base(c.name))
		}
		var notes []string
		if _, err := ReadWith(series[0], Options{Note: func(n string) { notes = append(notes, n) }}); err != nil {
			t.Fatal(err)
		}
		if strings.Join(notes, "; ") != want || strings.Join(series[0].Problems, "; ") != want {
			t.Errorf("%s of %d bytes: notes %q, problems %q, want %q", c.name, len(c.data), notes, series[0].Problems,
				want)
		}
	}
}

// Slices that are kept apart are not missing: nobody is told to make them up.
func TestGapsThatOtherSlicesFill(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f []field) []field // of slices 3 and 6
		want   string
	}{
		{"pixel spacing", func(f []field) []field { return set(f, tag.PixelSpacing, "DS", "0.91\\0.71") },
			"The slices in between are there, but differ in orientation or pixel spacing: they are kept apart"},
		{"matrix", func(f []field) []field { return set(f, tag.Rows, "US", uint16(stackRows-1)) },
			"The slices in between are there, but differ in matrix: they are kept apart"},
		{"elsewhere", func(f []field) []field {
			return set(set(f, tag.PixelSpacing, "DS", "0.91\\0.71"), tag.ImagePositionPatient, "DS", "0\\0\\77")
		}, "Slices may be missing; --gaps resample"},
		{"without a place", func(f []field) []field { return set(f, tag.ImagePositionPatient, "", nil) },
			"Slices may be missing; --gaps resample"},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4, 6, 8, 10, 12, 14),
			func(n int, f []field) []field {
				if n == 3 || n == 6 {
					return c.change(f)
				}
				return f
			})
		series, _, err := Scan(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := Choose(series, "")
		if err != nil || s.Shape[2] != 6 || s.Err == nil ||
			!strings.Contains(s.Err.Error(), "usually 2.00 mm. "+c.want) ||
			!slices.Contains(s.Problems, s.Err.Error()) {
			t.Errorf("%s: %v: %v, problems %q", c.name, s, s.Err, s.Problems)
		}
	}
}

// The default choice is a matter of what series are, not of what their files are called, and a scan
// that cannot be read is not passed over for one that can.
func TestChoose(t *testing.T) {
	root := t.TempDir()
	write := func(name, uid, number string, o [6]float64, change func(n int, f []field) []field, distances ...float64) {
		t.Helper()
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _, normal, _ := (&stack.Slice{Info: stack.Info{Orientation: o[:], Spacing: []float64{1, 1}}}).Axes()
		writeStack(t, dir, uid, o, line(stack.Vector{}, normal, distances...), func(n int, f []field) []field {
			if change != nil {
				f = change(n, f)
			}
			return set(f, tag.SeriesNumber, "IS", number)
		})
	}
	check := func(want, because string) {
		t.Helper()
		series, _, err := Scan(root)
		if err != nil {
			t.Fatal(err)
		}
		s, why, err := Choose(series, "")
		if err != nil || s.Number != want || !strings.Contains(why, because) {
			t.Errorf("chose %v: %s, %v; want series %s: %s", s, why, err, want, because)
		}
	}
	write(
		"z",
		"1.2.1",
		"1",
		axial,
		func(_ int, f []field) []field { return set(f, tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\LOCALIZER") },
		0,
		2,
		4,
		6,
		8,
		10,
		12,
	)
	write("y", "1.2.2", "2", sagittal, nil, 0, 2, 4, 6, 8, 10, 12, 14)
	check("2", "the only scan of 2 series")
	write("x", "1.2.3", "3", axial, nil, 0, 2, 4)
	check("3", "the largest axial CT of 3 series")
	write("w", "1.2.10", "10", axial, nil, 0, 2, 4)
	// as large as another: the smaller number, though its file comes later
	check("3", "the largest axial CT of 4 series")
	write("v", "1.2.4", "4", axial, nil, 0, 2, 4, 8, 10)
	check("4", "the largest axial CT of 5 series")
	write("u", "1.2.5", "5", axial, func(_ int, f []field) []field { return set(f, tag.Modality, "CS", "MR") }, 0, 2, 4,
		6, 8, 10)
	check("4", "the largest axial CT of 6 series")
	series, _, err := Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	if s, _, err := Choose(series, "10"); err != nil || s.UID != "1.2.10" {
		t.Errorf("series 10: %v, %v", s, err)
	}
	mr := only(series, func(s *Series) bool { return s.Modality == "MR" || s.Number == "2" })
	if _, _, err := Choose(mr, ""); err == nil ||
		!strings.Contains(err.Error(), "none of several series is an axial CT: choose with --series:\n") {
		t.Errorf("no axial CT: %v", err)
	}
}

// A series without a UID is told apart from another of its number in words, not by an empty UID.
func TestSeriesWithoutUIDIsNamed(t *testing.T) {
	dir := t.TempDir()
	writeStack(t, dir, "1.2.1", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4, 6, 8),
		func(_ int, f []field) []field {
			return set(f, tag.SeriesInstanceUID, "", nil)
		})
	writeStack(t, dir, "1.2.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4, 6),
		func(_ int, f []field) []field {
			return set(f, tag.RescaleIntercept, "DS", "7")
		})
	series, _, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s, why, err := Choose(series, ""); err != nil || s.UID != "" ||
		why != "the largest axial CT of 2 series, without a UID" {
		t.Errorf("chose %v: %q, %v", s, why, err)
	}
	if _, _, err := Choose(series, "5"); err == nil || !strings.Contains(err.Error(), ", without a UID") ||
		!strings.Contains(err.Error(), ", UID 1.2.2") {
		t.Error(err)
	}
}

// What was made of a scan is no scan, or comes after it, though it has more slices; where there is
// nothing else, it is named.
func TestOriginalsComeFirst(t *testing.T) {
	type made struct {
		number, imageType string
		slices            int
	}
	for _, c := range []struct {
		series    []made
		want, why string
		problem   string // of the chosen one
	}{
		{[]made{{"1", "ORIGINAL\\PRIMARY\\AXIAL", 10}, {"9", "DERIVED\\SECONDARY\\MIP", 30}}, "1",
			"the only scan of 2 series", ""},
		{[]made{{"1", "ORIGINAL\\PRIMARY\\AXIAL", 10}, {"9", "DERIVED\\SECONDARY\\MPR\\CSA MPR", 18}}, "1",
			"the largest original axial CT of 2 series", ""},
		{[]made{{"1", "ORIGINAL\\PRIMARY\\AXIAL", 10}, {"9", "DERIVED\\SECONDARY\\REFORMATTED\\AVERAGE", 12}}, "1",
			"the largest original axial CT of 2 series", ""},
		// a few slices to watch the contrast agent
		{[]made{{"1", "ORIGINAL\\PRIMARY\\AXIAL", 4}, {"9", "DERIVED\\PRIMARY\\AXIAL", 30}}, "9",
			"the largest axial CT of 2 series, derived from a scan (DERIVED)", ""},
		{[]made{{"1", "ORIGINAL\\PRIMARY\\AXIAL", 10}, {"2", "", 12}}, "2", "the largest axial CT of 2 series", ""},
		{[]made{{"3", "DERIVED\\SECONDARY\\REFORMATTED\\AVERAGE", 5}, {"9", "DERIVED\\PRIMARY\\MIN_IP", 30}}, "3",
			"the only scan of 2 series, derived from a scan (AVERAGE)", ""},
		{[]made{{"3", "DERIVED\\PRIMARY\\PROJECTION IMAGE", 5}, {"9", "DERIVED\\SECONDARY\\CSA MIP", 30}}, "9",
			"the largest axial CT of 2 series, though a projection (MIP), not a scan",
			"a projection (MIP), not a scan"},
		{[]made{{"9", "DERIVED\\PRIMARY\\VOLUME\\MINIMUM", 30}}, "9",
			"the only scan of 1 series, though a projection (MinIP), not a scan", "a projection (MinIP), not a scan"},
	} {
		root := t.TempDir()
		for _, m := range c.series {
			var distances []float64
			for k := range m.slices {
				distances = append(distances, float64(k))
			}
			writeStack(t, root, "1.2."+m.number, axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, distances...),
				func(_ int, f []field) []field {
					return set(set(f, tag.SeriesNumber, "IS", m.number), tag.ImageType, "CS", m.imageType)
				})
		}
		series, _, err := Scan(root)
		if err != nil {
			t.Fatal(err)
		}
		s, why, err := Choose(series, "")
		if err != nil || s.Number != c.want || why != c.why || strings.Join(s.Problems, "; ") != c.problem {
			t.Errorf("%v: chose %v: %s, problems %q, %v", c.series, s, why, s.Problems, err)
		}
		var notes []string
		if _, err := ReadWith(s, Options{Note: func(n string) { notes = append(notes, n) }}); err != nil ||
			strings.Join(notes, "; ") != c.problem {
			t.Errorf("%v: read with the notes %q, %v", c.series, notes, err)
		}
	}
}

// Positions that are far apart do not make a volume that is larger than what the files hold.
func TestRepairsDoNotExplode(t *testing.T) {
	up := stack.Vector{0, 0, 1}
	for name, positions := range map[string][]stack.Vector{
		"gap":        line(stack.Vector{}, up, 0, 1, 2, 3, 1e5),
		"vast gap":   line(stack.Vector{}, up, 0, 1, 2, 3, 1e300),
		"shift":      {{0, 0, 0}, {0, 0, 1}, {1e4, 0, 2}},
		"vast shift": {{0, 0, 0}, {0, -1e300, 1}, {0, 1e300, 2}},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, positions, func(_ int, f []field) []field {
			return set(f, tag.PixelData, "OW", make([]byte, 2*stackColumns*stackRows))
		})
		var unsupported *volume.UnsupportedError
		if _, err := ReadWith(scanOne(t, dir), Options{Gaps: GapsResample}); !errors.As(err, &unsupported) ||
			!strings.Contains(err.Error(), "too far") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pixels of every kind, on one slice: what is stored and what it means.
func TestPixels(t *testing.T) {
	words := func(x ...uint16) []byte {
		var b []byte
		for _, w := range x {
			b = binary.LittleEndian.AppendUint16(b, w)
		}
		return b
	}
	longs := func(x ...uint32) []byte {
		var b []byte
		for _, w := range x {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	type fields = map[tag.Tag]any
	const allocated, stored, high, signed, intercept, slope = tag.BitsAllocated, tag.BitsStored, tag.HighBit,
		tag.PixelRepresentation, tag.RescaleIntercept, tag.RescaleSlope
	for _, c := range []struct {
		name   string
		pixels []byte
		change fields
		want   [4]float32
		whole  bool
	}{
		{"16 bits signed", words(0, 0xFFFF, 0x8000, 0x7FFF), nil, [4]float32{0, -1, -32768, 32767}, true},
		{"16 bits unsigned that fit", words(0, 1, 1000, 32767), fields{signed: uint16(0)},
			[4]float32{0, 1, 1000, 32767}, true},
		{"16 bits unsigned that do not", words(0, 1, 1000, 65535), fields{signed: uint16(0)},
			[4]float32{0, 1, 1000, 65535}, false},
		{"12 of 16 bits, rubbish above", words(0xF000, 0x5001, 0xAFFF, 0x07FF),
			fields{stored: uint16(12), high: uint16(11), signed: uint16(0), intercept: "-1024"},
			[4]float32{-1024, -1023, 3071, 1023}, true},
		{"12 of 16 bits signed", words(0x0FFF, 0x0800, 0x07FF, 0xF001), fields{stored: uint16(12), high: uint16(11)},
			[4]float32{-1, -2048, 2047, 1}, true},
		{"12 bits at the top", words(0x0010, 0xFFFF, 0x800F, 0x7FF0), fields{stored: uint16(12), high: uint16(15)},
			[4]float32{1, -1, -2048, 2047}, true},
		{"8 bits", []byte{0, 1, 128, 255}, fields{allocated: uint16(8), stored: uint16(8), high: uint16(7),
			signed: uint16(0)}, [4]float32{0, 1, 128, 255}, true},
		{"8 bits signed", []byte{0, 1, 128, 255}, fields{allocated: uint16(8), stored: uint16(8), high: uint16(7)},
			[4]float32{0, 1, -128, -1}, true},
		{"32 bits", longs(0, 1, 1<<31, 1<<32-1), fields{allocated: uint16(32), stored: uint16(32), high: uint16(31),
			signed: uint16(0)}, [4]float32{0, 1, 1 << 31, 1 << 32}, false},
		{"32 bits signed", longs(0, 1, 1<<31, 1<<32-1), fields{allocated: uint16(32), stored: uint16(32),
			high: uint16(31)}, [4]float32{0, 1, -1 << 31, -1}, false},
		{"32 bits signed that fit", longs(0, 1, 5000, 1<<32-1), fields{allocated: uint16(32), stored: uint16(32),
			high: uint16(31)}, [4]float32{0, 1, 5000, -1}, true},
		{"slope 2", words(0, 1, 1000, 0xFFFF), fields{slope: "2", intercept: "-1000"},
			[4]float32{-1000, -998, 1000, -1002}, true},
		{"slope 0.5", words(0, 1, 1001, 0xFFFF), fields{slope: "0.5", intercept: "-1000"},
			[4]float32{-1000, -999.5, -499.5, -1000.5}, false},
		{"no slope", words(0, 1, 2, 3), fields{slope: nil, intercept: nil}, [4]float32{0, 1, 2, 3}, true},
		{"slope leaves int16", words(0, 1, 2, 20000), fields{slope: "2"}, [4]float32{0, 2, 4, 40000}, false},
		{"MONOCHROME1 keeps its values", words(0, 1, 2, 3), fields{tag.PhotometricInterpretation: "MONOCHROME1"},
			[4]float32{0, 1, 2, 3}, true},
		{"padding keeps its value", words(0, 0xF830, 2, 3), fields{tag.PixelPaddingValue: int16(-2000)},
			[4]float32{0, -2000, 2, 3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sliceFields("1.2", 1, stack.Vector{}, axial, 2, 2, c.pixels)
			for key, value := range c.change {
				vr := "US"
				switch value.(type) {
				case string:
					vr = "DS"
				case int16:
					vr = "SS"
				}
				f = set(f, key, vr, value)
			}
			dir := t.TempDir()
			os.WriteFile(filepath.Join(dir, "slice"),
				part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)), 0o644)
			v, err := Read(scanOne(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			if got := [4]float32{v.At(0, 1, 0), v.At(1, 1, 0), v.At(0, 0, 0), v.At(1, 0, 0)}; got != c.want {
				t.Errorf("values %v, want %v", got, c.want)
			}
			if (v.Int16 != nil) != c.whole {
				t.Errorf("int16: %v", v.Int16 != nil)
			}
		})
	}
}

// swapped turns the bytes of each word round.
func swapped(words []byte) []byte {
	out := slices.Clone(words)
	for n := 0; n < len(out); n += 2 {
		out[n], out[n+1] = out[n+1], out[n]
	}
	return out
}

// Pixels that do not fit what their header says of them: readers differ in what they make of these,
// so it is noted.
func TestPixelsContradictTheirHeader(t *testing.T) {
	words := func(x ...uint16) (b []byte) {
		for _, w := range x {
			b = binary.LittleEndian.AppendUint16(b, w)
		}
		return b
	}
	const above = "has pixels of more than the 12 bits that it claims (BitsStored)"
	for _, c := range []struct {
		name         string
		pixels       []byte
		stored, high uint16
		signed       uint16
		want         [4]float32
		said         string
	}{
		{"12 bits", words(0, 1, 4095, 2048), 12, 11, 0, [4]float32{0, 1, 4095, 2048}, ""},
		// 904 is dcm2niix's (2022-07-20) value, too; pydicom 2.3 has 5000
		{"an implant beyond 12 bits", words(0, 1, 5000, 2048), 12, 11, 0, [4]float32{0, 1, 904, 2048}, above},
		{"just beyond 12 bits", words(0, 1, 4097, 2), 12, 11, 0, [4]float32{0, 1, 1, 2}, above},
		{"12 bits in the middle with an overlay above", words(0x4000, 4, 8, 12), 12, 13, 0, [4]float32{0, 1, 2, 3},
			above},
		{"12 bits with their sign", words(0xFFFF, 1, 0xF800, 2047), 12, 11, 1, [4]float32{-1, 1, -2048, 2047}, ""},
		{"12 bits with zeros above", words(0x0FFF, 1, 0x0800, 2047), 12, 11, 1, [4]float32{-1, 1, -2048, 2047}, ""},
		{"12 bits with an overlay above", words(0x1FFF, 1, 0x0800, 2047), 12, 11, 1, [4]float32{-1, 1, -2048, 2047},
			above},
		{"12 bits in the middle with their sign", words(0xFFFC, 4, 0xE000, 0x1FFC), 12, 13, 1,
			[4]float32{-1, 1, -2048, 2047}, ""},
		{"16 bits", words(0xFFFF, 1, 0x8000, 2047), 16, 15, 1, [4]float32{-1, 1, -32768, 2047}, ""},
		{"twice as many pixels", words(0, 1, 2, 3, 4, 5, 6, 7), 16, 15, 0, [4]float32{0, 1, 2, 3},
			"has 16 bytes of pixels, more than 1 times 2x2 pixels of 16 bits"},
		{"padding behind them", words(0, 1, 2, 3, 4, 5, 6), 16, 15, 0, [4]float32{0, 1, 2, 3}, ""},
	} {
		f := sliceFields("1.2", 1, stack.Vector{}, axial, 2, 2, c.pixels)
		f = set(set(set(f, tag.BitsStored, "US", c.stored), tag.HighBit, "US", c.high), tag.PixelRepresentation, "US",
			c.signed)
		// RLE: two segments
		stream := append([]byte{2, 0, 0, 0, 64, 0, 0, 0, 70}, make([]byte, 64-9)...)
		for high := 1; high >= 0; high-- {
			// the next four bytes as they are, and one that makes their number even
			stream = append(stream, 3)
			for n := range 4 {
				stream = append(stream, c.pixels[2*n+high])
			}
			stream = append(stream, 0x80)
		}
		for encoding, file := range map[string][]byte{
			"as they are": part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)),
			"big endian": part10("1.2.840.10008.1.2.2", encode(set(f, tag.PixelData, "OW", swapped(c.pixels)),
				binary.BigEndian, false)),
			"RLE": part10(element.RLE, slices.Concat(encode(set(f, tag.PixelData, "", nil), binary.LittleEndian, false),
				encapsulated(nil, stream))),
		} {
			path := filepath.Join(t.TempDir(), "slice")
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
			var notes []string
			v, err := ReadWith(scanOne(t, path), Options{Note: func(n string) { notes = append(notes, n) }})
			if err != nil {
				t.Fatal(err)
			}
			if got := [4]float32{v.At(0, 1, 0), v.At(1, 1, 0), v.At(0, 0, 0), v.At(1, 0, 0)}; got != c.want {
				t.Errorf("%s, %s: values %v, want %v", c.name, encoding, got, c.want)
			}
			said := strings.Join(notes[1:], "") // the first one is of the single slice's thickness
			if want := encoding != "RLE" || len(c.pixels) == 8; want && (!strings.Contains(said, c.said) ||
				(said == "") != (c.said == "")) {
				t.Errorf("%s, %s: notes %q, want %q", c.name, encoding, notes, c.said)
			}
		}
	}
}

func TestSlopesDifferBySlice(t *testing.T) {
	dir := t.TempDir()
	writeStack(t, dir, "1.2", axial, line(stack.Vector{0, 0, 0}, stack.Vector{0, 0, 1}, 0, 1, 2),
		func(n int, f []field) []field {
			f = set(f, tag.RescaleSlope, "DS", []string{"1", "0.5", "3"}[n])
			return set(f, tag.RescaleIntercept, "DS", fmt.Sprint(n*100))
		})
	v, err := Read(scanOne(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for k, slope := range []float64{1, 0.5, 3} {
		stored := math.Round(ramp(stack.Vector{0, 0, float64(k)}))
		if got, want := v.At(0, stackRows-1, k), float32(slope*stored+float64(k*100)); got != want {
			t.Errorf("slice %d: %g, want %g", k, got, want)
		}
	}
}

// Values that would change, or whose meaning nobody knows, are refused; how they are shown is said,
// whichever slice says it.
func TestRescaleAndDisplayOfSlices(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(n int, f []field) []field
		want   string // the error
		said   string // the problem
	}{
		{"one slice without rescale values", func(n int, f []field) []field {
			if n == 2 {
				f = set(set(f, tag.RescaleIntercept, "", nil), tag.RescaleSlope, "", nil)
			}
			return f
		}, "RescaleSlope and RescaleIntercept are in some slices of its series and missing in others", ""},
		{"one slice without an intercept", func(n int, f []field) []field {
			if n == 1 {
				f = set(f, tag.RescaleIntercept, "", nil)
			}
			return f
		}, "RescaleSlope and RescaleIntercept are in some slices of its series and missing in others", ""},
		{"no slice has rescale values", func(n int, f []field) []field {
			return set(set(f, tag.RescaleIntercept, "", nil), tag.RescaleSlope, "", nil)
		}, "",
			"a CT without RescaleIntercept: its values are taken for HU as they are stored"},
		{"an MR without rescale values", func(n int, f []field) []field {
			return set(set(set(f, tag.RescaleIntercept, "", nil), tag.RescaleSlope, "", nil), tag.Modality, "CS", "MR")
		}, "", ""},
		{"a slope of 0", func(n int, f []field) []field {
			if n == 2 {
				f = set(f, tag.RescaleSlope, "DS", "0.0")
			}
			return f
		}, "RescaleSlope is 0: what its values mean is not known", ""},
		{"MONOCHROME1 in one slice", func(n int, f []field) []field {
			if n == 2 {
				f = set(f, tag.PhotometricInterpretation, "CS", "MONOCHROME1")
			}
			return f
		}, "", "stored for display with white as the lowest value (MONOCHROME1): the values are kept"},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 1, 2), c.change)
		s := scanOne(t, dir)
		v, err := Read(s)
		if c.want != "" {
			var format *volume.FormatError
			if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) || s.Err == nil ||
				s.Err.Error() != err.Error() {
				t.Errorf("%s: %v, and Scan says %v", c.name, err, s.Err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := checkRamp(t, v, nothing); n != v.Len() || strings.Join(s.Problems, "|") != c.said {
			t.Errorf("%s: %d of %d voxels, problems %q", c.name, n, v.Len(), s.Problems)
		}
	}
}

// Values that are shown are of the kind that the standard has there: whatever else somebody wrote
// may be a name, or have hundreds of digits.
func TestOddValuesAreNotShown(t *testing.T) {
	const modality, number, photometric = tag.Modality, tag.SeriesNumber, tag.PhotometricInterpretation
	for _, c := range []struct {
		tag        tag.Tag
		vr, value  string
		want, seen string // what the series, and what the error is to hold
	}{
		{modality, "CS", "MR", "MR series 5", ""},
		{modality, "CS", "", "CT series 5", ""}, // that of its SOP class
		{modality, "CS", patientName, "other series 5", ""},
		{modality, "CS", "CT\n99", "other series 5", ""},
		{modality, "CS", "COMPUTED TOMOGRAPHY", "other series 5", ""},
		{number, "IS", "-12", "series -12", ""},
		{number, "IS", patientName, "series (no number)", ""},
		// no integer string: those have 32 bits
		{number, "IS", "19640812471100", "series (no number)", ""},
		{photometric, "CS", "PALETTE COLOR", "", "holds colours (PALETTE COLOR)"},
		{photometric, "CS", patientName, "", "holds colours (other)"},
		{tag.ImagePositionPatient, "DS", "0\\-1e300\\0", "",
			"slice 1 lies 1e+300 mm from the origin (ImagePositionPatient): that is too far"},
		{tag.ImagePositionPatient, "DS", "0\\0\\1000001", "", "slice 1 lies 1e+06 mm from the origin"},
		{tag.ImagePositionPatient, "DS", "0\\0\\1000000", "CT series 5", ""},
		{tag.SliceThickness, "DS", "1e300", "CT series 5", "nothing says how thick it is, 1 mm is assumed"},
		{tag.SeriesInstanceUID, "UI", patientName, "CT series 5", ""},
		{tag.StudyInstanceUID, "UI", patientName, "CT series 5", ""},
		{tag.PixelSpacing, "DS", "1\\1e300", "", "PixelSpacing 1, 1e+300 must be positive and no more than 1000000 mm"},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2", axial, []stack.Vector{{}},
			func(_ int, f []field) []field { return set(f, c.tag, c.vr, c.value) })
		s := scanOne(t, dir)
		if c.value != "" && c.value != strings.ToUpper(c.value) &&
			strings.Contains(fmt.Sprint(s, s.Err, s.Problems, s.UID, s.Study), c.value) {
			t.Errorf("shows %q", c.value)
		}
		if !strings.Contains(s.String(), c.want) || !strings.Contains(fmt.Sprint(s.Problems), c.seen) ||
			c.want != "" && s.Err != nil {
			t.Errorf("%q: %s, %v", c.value, s, s.Err)
		}
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{}, axial, binary.LittleEndian))
	path := filepath.Join(t.TempDir(), "slice")
	if err := os.WriteFile(path, part10(patientName, encode(f, binary.LittleEndian, false)), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := scanOne(t, path); s.Syntax != "a transfer syntax that is no UID" ||
		strings.Contains(fmt.Sprint(s, s.Err), patientName) {
		t.Errorf("%s: %v", s, s.Err)
	}
}

// One slice in every way to write elements.
func TestEncodings(t *testing.T) {
	f := sliceFields("1.2", 1, stack.Vector{1, 2, 3}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{1, 2, 3}, axial, binary.LittleEndian))
	big := set(f, tag.PixelData, "OW", rampPixels(stack.Vector{1, 2, 3}, axial, binary.BigEndian))
	nested := append(slices.Clone(f), field{0x00091001, "SQ",
		[][]field{{{0x00091002, "SQ", [][]field{{{tag.ImagePositionPatient, "DS", "7\\7\\7"}}, {}}}}, {}}})
	little, bigEndian := binary.LittleEndian, binary.BigEndian
	plain := encode(f, little, false)
	var deflated bytes.Buffer
	z, _ := flate.NewWriter(&deflated, 6)
	z.Write(plain)
	z.Close()
	var large bytes.Buffer
	z.Reset(&large)
	z.Write(encode(append(slices.Clone(f), field{0x00091010, "OB", make([]byte, 2*element.HeldInflated)}), little,
		false))
	z.Close()
	// A sequence of undefined length, with items of undefined length, and inside one of unknown
	// type, which is implicit.
	open := []byte{0x09, 0x00, 0x01, 0x10, 'S', 'Q', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0x00, 0xE0, 0xFF, 0xFF,
		0xFF, 0xFF,
		0x09, 0x00, 0x02, 0x10, 'U', 'N', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0x00, 0xE0, 0x0A, 0, 0, 0, 0x08, 0,
		0x60, 0, 2, 0, 0, 0, 'M', 'R',
		0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0, 0xFE, 0xFF, 0x0D, 0xE0, 0, 0, 0, 0, 0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0}
	cut := bytes.Index(plain, []byte{0x10, 0x00, 0x10, 0x00})
	for name, file := range map[string][]byte{
		"explicit little endian":   part10(element.ExplicitLittle, plain),
		"implicit little endian":   part10("1.2.840.10008.1.2", encode(f, little, true)),
		"explicit big endian":      part10("1.2.840.10008.1.2.2", encode(big, bigEndian, false)),
		"deflated":                 part10("1.2.840.10008.1.2.1.99", deflated.Bytes()),
		"deflated, large":          part10("1.2.840.10008.1.2.1.99", large.Bytes()),
		"no meta, explicit":        plain,
		"no meta, implicit":        encode(f, little, true),
		"no meta, big endian":      encode(big, bigEndian, false),
		"preamble, no meta":        slices.Concat(make([]byte, 128), []byte("DICM"), plain),
		"says explicit, is not":    part10(element.ExplicitLittle, encode(f, little, true)),
		"nested private sequences": part10(element.ExplicitLittle, encode(nested, little, false)),
		"undefined lengths":        part10(element.ExplicitLittle, slices.Concat(plain[:cut], open, plain[cut:])),
		"trailing rubbish": part10(element.ExplicitLittle,
			append(slices.Clone(plain), "rubbish behind the pixels"...)),
		"encapsulated, not compressed": part10("1.2.840.10008.1.2.1.98",
			slices.Concat(encode(set(f, tag.PixelData, "", nil), little, false),
				[]byte{0xE0, 0x7F, 0x10, 0, 'O', 'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0, 0xE0, 0, 0, 0, 0,
					0xFE, 0xFF, 0, 0xE0, stackColumns * stackRows * 2, 0, 0, 0},
				rampPixels(stack.Vector{1, 2, 3}, axial, little), []byte{0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0})),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.WriteFile(filepath.Join(dir, "slice"), file, 0o644)
			v, err := Read(scanOne(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			if n := checkRamp(t, v, nothing); n != v.Len() {
				t.Errorf("%d of %d voxels", n, v.Len())
			}
		})
	}
}

// An enhanced image: all slices in one file, in no order, with shared and per-frame functional
// groups, two volumes of it.
// Meta information should be explicit little endian. Where it is not, the transfer syntax that it
// tells counts all the same, and what is not read is refused by its UID.
func TestMetaInformationOfOtherEncodings(t *testing.T) {
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{}, axial, binary.LittleEndian))
	big := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{}, axial, binary.BigEndian))
	file := func(syntax string, order element.ByteOrder, implicit bool, data []byte) []byte {
		meta := encode([]field{{tag.MediaStorageSOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.2"},
			{tag.TransferSyntaxUID, "UI", syntax}}, order, implicit)
		return slices.Concat(make([]byte, 128), []byte("DICM"), meta, data)
	}
	little := encode(f, binary.LittleEndian, false)
	const private = "1.2.840.113619.5.2" // GE's: implicit little endian, pixels big endian
	for name, c := range map[string]struct {
		file []byte
		fail string
	}{
		"implicit": {file(element.ExplicitLittle, binary.LittleEndian, true, little), ""},
		"implicit, and the data": {file(element.ImplicitLittle, binary.LittleEndian, true,
			encode(f, binary.LittleEndian, true)), ""},
		"big endian": {file(element.ExplicitLittle, binary.BigEndian, false, little), ""},
		"big endian, and the data": {file(element.ExplicitBig, binary.BigEndian, false,
			encode(big, binary.BigEndian, false)), ""},
		"implicit big endian":            {file(element.ExplicitLittle, binary.BigEndian, true, little), ""},
		"explicit data, said to be none": {file(element.ImplicitLittle, binary.LittleEndian, false, little), ""},
		"a private syntax": {file(private, binary.LittleEndian, true,
			encode(big, binary.LittleEndian, true)), "has the transfer syntax 1.2.840.113619.5.2, which is not read"},
		"a private syntax, as it belongs": {file(private, binary.LittleEndian, false,
			encode(big, binary.LittleEndian, true)), "has the transfer syntax 1.2.840.113619.5.2, which is not read"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "slice"), c.file, 0o666); err != nil {
			t.Fatal(err)
		}
		s := scanOne(t, dir)
		v, err := Read(s)
		if c.fail != "" {
			var unsupported *volume.UnsupportedError
			if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if checkRamp(t, v, nothing) != v.Len() {
			t.Errorf("%s: other values", name)
		}
	}
}

// What real files have, which other readers pass over, and which keeps no image from being read.
func TestReadableAllTheSame(t *testing.T) {
	// A compressed icon, in a sequence: fragments are no items with elements.
	icon := func(vr string) []byte {
		var b []byte
		word := func(x uint32) { b = binary.LittleEndian.AppendUint32(b, x) }
		head := func(group, number uint16, vr string) {
			b = append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, group), number), vr...)
			b = append(b, 0, 0)
		}
		item := func(number uint16, length uint32) {
			b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, 0xFFFE), number)
			word(length)
		}
		head(0x0088, 0x0200, "SQ") // IconImageSequence
		word(0xFFFFFFFF)
		item(0xE000, 0xFFFFFFFF)
		head(0x7FE0, 0x0010, vr)
		word(0xFFFFFFFF)
		item(0xE000, 0) // the offset table
		item(0xE000, 6)
		b = append(b, 0xFF, 0xD8, 0xFF, 0xFE, 0xE0, 0x00) // any bytes
		item(0xE0DD, 0)
		item(0xE00D, 0)
		item(0xE0DD, 0)
		return b
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{}, axial, binary.LittleEndian))
	withIcon := func(vr string) []byte {
		data := encode(f, binary.LittleEndian, false)
		at := bytes.Index(data, []byte{0xE0, 0x7F, 0x10, 0x00})
		return slices.Concat(data[:at], icon(vr), data[at:])
	}
	// Elements whose type somebody did not know, with the padding that their text has.
	unknown := slices.Clone(f)
	unknown = set(unknown, tag.ImagePositionPatient, "UN", []byte(" 0\\0\\0 "))
	unknown = set(unknown, tag.PixelSpacing, "UN", []byte("0.9\\ 0.7"))
	unknown = set(unknown, tag.Rows, "UN", []byte{stackRows, 0})
	bytewise := set(set(set(slices.Clone(f), tag.BitsAllocated, "US", uint16(8)), tag.BitsStored, "US", uint16(8)),
		tag.HighBit, "US", uint16(8))
	bytewise = set(set(bytewise, tag.PixelData, "OW", bytes.Repeat([]byte{7}, stackColumns*stackRows)),
		tag.PixelRepresentation, "US", uint16(0))
	for name, c := range map[string]struct {
		data []byte
		said string
		ramp bool
	}{
		"a compressed icon":          {withIcon("OB"), "", true},
		"a compressed icon of words": {withIcon("OW"), "", true},
		"elements of unknown type":   {encode(unknown, binary.LittleEndian, false), "", true},
		"HighBit 8 of 8 bits": {encode(bytewise, binary.LittleEndian, false),
			"slice 1: HighBit is 8, of 8 bits stored in 8: taken for 7", false},
		"HighBit 11 of 16 bits": {encode(set(slices.Clone(f), tag.HighBit, "US", uint16(11)), binary.LittleEndian,
			false), "slice 1: HighBit is 11, of 16 bits stored in 16: taken for 15", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "slice"), part10(element.ExplicitLittle, c.data), 0o666); err != nil {
			t.Fatal(err)
		}
		series, passed, err := Scan(dir)
		if err != nil || len(series) != 1 {
			t.Errorf("%s: %d series, passed over %v, %v", name, len(series), passed, err)
			continue
		}
		v, err := Read(series[0])
		switch said := strings.Join(series[0].Problems, "; "); {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(said, c.said) || c.said == "" && strings.Contains(said, "HighBit"):
			t.Errorf("%s: problems %q", name, said)
		case c.ramp && checkRamp(t, v, nothing) != v.Len():
			t.Errorf("%s: other values", name)
		case !c.ramp && v.At(0, 0, 0) != 7:
			t.Errorf("%s: value %g", name, v.At(0, 0, 0))
		}
	}
}

func TestEnhanced(t *testing.T) {
	distances := []float64{4, 0, 2, 6, 2, 4, 6, 0}
	var pixels []byte
	var frames [][]field
	for n, d := range distances {
		position := stack.Vector{5, 6, d}
		pixels = append(pixels, rampPixels(position, axial, binary.LittleEndian)...)
		frames = append(frames, []field{
			{tag.FrameContentSequence, "SQ", [][]field{{{tag.StackID, "SH", fmt.Sprint(n/4 + 1)}}}},
			{tag.PlanePositionSequence, "SQ",
				[][]field{{{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)}}}},
			{tag.PixelValueTransformationSequence, "SQ",
				[][]field{{{tag.RescaleIntercept, "DS", fmt.Sprint(n / 4 * 1000)}, {tag.RescaleSlope, "DS", "1"}}}},
		})
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows, pixels)
	for _, missing := range []tag.Tag{tag.ImagePositionPatient, tag.ImageOrientationPatient, tag.PixelSpacing,
		tag.RescaleIntercept, tag.RescaleSlope} {
		f = set(f, missing, "", nil)
	}
	f = append(f, field{tag.NumberOfFrames, "IS", "8"}, field{tag.PerFrameFunctionalGroupsSequence, "SQ", frames},
		field{tag.SharedFunctionalGroupsSequence, "SQ", [][]field{{
			{tag.PlaneOrientationSequence, "SQ",
				[][]field{{{tag.ImageOrientationPatient, "DS", someNumbers(axial[:]...)}}}},
			{tag.PixelMeasuresSequence, "SQ",
				[][]field{{{tag.PixelSpacing, "DS", "0.9\\0.7"}, {tag.SliceThickness, "DS", "2"}}}},
		}}})
	for name, file := range map[string][]byte{
		"explicit": part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)),
		"implicit": part10("1.2.840.10008.1.2", encode(f, binary.LittleEndian, true)),
	} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "enhanced"), file, 0o644)
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 {
			t.Fatalf("%s: %d series, %v", name, len(series), err)
		}
		for n, s := range series {
			v, err := Read(s)
			if err != nil {
				t.Fatal(err)
			}
			for e := range v.Int16 {
				v.Int16[e] -= int16(n * 1000)
			}
			if v.Shape[2] != 4 || checkRamp(t, v, nothing) != v.Len() {
				t.Errorf("%s: part %d has the shape %v", name, n+1, v.Shape)
			}
		}
	}
}

// Magnitude and phase of one enhanced image, frame by frame.
func TestEnhancedFrameTypes(t *testing.T) {
	var pixels []byte
	var frames [][]field
	for n := range 8 {
		position := stack.Vector{5, 6, float64(n / 2 * 3)}
		pixels = append(pixels, rampPixels(position, axial, binary.LittleEndian)...)
		frames = append(frames, []field{
			{tag.MRImageFrameTypeSequence, "SQ",
				[][]field{{{tag.FrameType, "CS",
					[]string{"ORIGINAL\\PRIMARY\\M_FFE\\M", "ORIGINAL\\PRIMARY\\PHASE\\P"}[n%2]}}}},
			{tag.PlanePositionSequence, "SQ",
				[][]field{{{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)}}}},
			{tag.PixelValueTransformationSequence, "SQ",
				[][]field{{{tag.RescaleIntercept, "DS", fmt.Sprint(n % 2 * 1000)}, {tag.RescaleSlope, "DS", "1"}}}},
		})
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows, pixels)
	f = append(set(f, tag.ImagePositionPatient, "", nil), field{tag.NumberOfFrames, "IS", "8"},
		field{tag.PerFrameFunctionalGroupsSequence, "SQ", frames})
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "enhanced"), part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)),
		0o644)
	series, _, err := Scan(dir)
	if err != nil || len(series) != 2 {
		t.Fatalf("%v, %v", series, err)
	}
	for n, s := range series {
		v, err := Read(s)
		if err != nil {
			t.Fatal(err)
		}
		for e := range v.Int16 {
			v.Int16[e] -= int16(n * 1000)
		}
		if v.Shape[2] != 4 || checkRamp(t, v, nothing) != v.Len() {
			t.Errorf("part %d has the shape %v", n+1, v.Shape)
		}
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	f := sliceFields("1.2", 1, stack.Vector{1, 2, 3}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{1, 2, 3}, axial, binary.LittleEndian))
	file := func(f []field) []byte { return part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false)) }
	whole := file(f)
	deep := []field{}
	for range 40 {
		deep = []field{{0x00091001, "SQ", [][]field{deep}}}
	}
	endless := bytes.Repeat([]byte{0x09, 0x00, 0x01, 0x10, 'S', 'Q', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0x00,
		0xE0, 0xFF, 0xFF, 0xFF, 0xFF}, 1000)
	for _, c := range []struct {
		name, want string
		data       []byte
		what       string // passed over as
	}{
		{"empty", "", nil, "not DICOM"},
		{"text", "", []byte(strings.Repeat("not a scan ", 100)), "not DICOM"},
		{"pixels cut", "is truncated: 140 of 240 bytes of pixels", whole[:len(whole)-100], ""},
		{"header cut", "is truncated", whole[:len(whole)-300], "damaged"},
		{"cut in the first element", "is truncated", whole[:140], "damaged"},
		{"magic alone", "is truncated", whole[:132], "damaged"},
		{"no matrix", "says nothing about the size of its image", file(set(f, tag.Rows, "", nil)), "damaged"},
		{"zero rows", "Rows must be a whole number from 1 to 65535", file(set(f, tag.Rows, "US", uint16(0))),
			"damaged"},
		{"more rows than pixels", "is truncated: 240 of 240000 bytes of pixels",
			file(set(f, tag.Rows, "US", uint16(10000))), ""},
		{"spacing is text", "PixelSpacing is not a number", file(set(f, tag.PixelSpacing, "DS", "wide\\high")),
			"damaged"},
		{"spacing of one number", "PixelSpacing has 1 numbers, not 2", file(set(f, tag.PixelSpacing, "DS", "1")),
			"damaged"},
		{"spacing zero", "PixelSpacing 0, 1 must be positive", file(set(f, tag.PixelSpacing, "DS", "0\\1")), ""},
		{"spacing in Go's own spelling", "PixelSpacing is not a number",
			file(set(f, tag.PixelSpacing, "DS", "0x1p-1\\0.5")), "damaged"},
		{"intercept in Go's own spelling", "RescaleIntercept is not a number",
			file(set(f, tag.RescaleIntercept, "DS", "-0x10_24p0")), "damaged"},
		{"two slopes", "RescaleSlope has 2 numbers, not one", file(set(f, tag.RescaleSlope, "DS", "1\\2")), "damaged"},
		{"slope with an underscore", "RescaleSlope is not a number", file(set(f, tag.RescaleSlope, "DS", "1_0")),
			"damaged"},
		{"position infinite", "ImagePositionPatient is not a number",
			file(set(f, tag.ImagePositionPatient, "DS", "1\\inf\\3")), "damaged"},
		{"orientation askew", "is not two unit vectors at right angles",
			file(set(f, tag.ImageOrientationPatient, "DS", "1\\0\\0\\1\\0\\0")), ""},
		{"no position", "does not say where its images lie", file(set(f, tag.ImagePositionPatient, "", nil)), ""},
		{"more stored than allocated", "has impossible pixels", file(set(f, tag.BitsStored, "US", uint16(20))),
			"damaged"},
		{"12 bits allocated", "has 12 bits a pixel: 8, 16 and 32 are read",
			file(set(set(set(f, tag.BitsAllocated, "US", uint16(12)), tag.BitsStored, "US", uint16(12)), tag.HighBit,
				"US", uint16(11))), ""},
		{"two frames of a CT", "claims 2 frames (NumberOfFrames), but is of CT Image Storage, which holds one",
			file(append(slices.Clone(f), field{tag.NumberOfFrames, "IS", "2"})), ""},
		{"frames that are described but not counted", "claims 1 frames (NumberOfFrames), but describes 3",
			file(append(slices.Clone(f), field{tag.PerFrameFunctionalGroupsSequence, "SQ", make([][]field, 3)})), ""},
		{"more frames than are described", "claims 3 frames (NumberOfFrames), but describes 2",
			file(append(slices.Clone(f), field{tag.NumberOfFrames, "IS", "3"},
				field{tag.PerFrameFunctionalGroupsSequence, "SQ", make([][]field, 2)})), ""},
		{"float pixels", "holds floating-point pixels",
			file(set(set(f, tag.PixelData, "", nil), tag.FloatPixelData, "OW", make([]byte, 4*stackColumns*stackRows))),
			""},
		{"mosaic", "tiles many slices in one image (a mosaic)",
			file(set(f, tag.ImageType, "CS", "ORIGINAL\\PRIMARY\\M\\ND\\MOSAIC")), ""},
		{"lookup table", "maps its values through a table",
			file(append(slices.Clone(f),
				field{tag.ModalityLUTSequence, "SQ",
					[][]field{{{tag.LUTDescriptor, "US", []byte{1, 0, 0, 0, 16, 0}}}}})), ""},
		{"RGB", "holds colours (RGB)", file(set(set(f, tag.SamplesPerPixel, "US", uint16(3)),
			tag.PhotometricInterpretation, "CS", "RGB")), ""},
		{"palette", "holds colours (PALETTE COLOR)", file(set(f, tag.PhotometricInterpretation, "CS", "PALETTE COLOR")),
			""},
		{"JPEG XL", "is compressed with JPEG XL lossless, which is not read",
			part10("1.2.840.10008.1.2.4.110", encode(f, binary.LittleEndian, false)), ""},
		{"MPEG", "is compressed with MPEG-2, which is not read",
			part10("1.2.840.10008.1.2.4.100", encode(f, binary.LittleEndian, false)), ""},
		{"unknown syntax", "has the transfer syntax 1.9.9, which is not read",
			part10("1.9.9", encode(f, binary.LittleEndian, false)), ""},
		{"says compressed, is not", "says that its pixels are compressed with RLE lossless, but they are not",
			part10("1.2.840.10008.1.2.5", encode(f, binary.LittleEndian, false)), ""},
		{"nested too deep", "", file(append(slices.Clone(f), deep...)), ""},
		{"endless sequences", "cannot be read", slices.Concat(part10(element.ExplicitLittle, nil), endless), "damaged"},
		{"deflated rubbish", "cannot be inflated",
			part10("1.2.840.10008.1.2.1.99", []byte("rubbish, and a good deal of it")), "damaged"},
		{"structure set", "", file(set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.481.3")), "RTSTRUCT"},
		{"dose", "", file(set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.481.2")), "RTDOSE"},
		{"segmentation", "", file(set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.66.4")), "SEG"},
		{"report", "", file(set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.88.22")), "SR"},
		{"document", "", file(set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.104.1")), "encapsulated document"},
		{"no pixels", "", file(set(f, tag.PixelData, "", nil)), "no image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			series, passed, err := Scan(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.what != "" {
				if len(series) != 0 || len(passed) != 1 || passed[0].What != c.what {
					t.Fatalf("passed over %v, want %s", passed, c.what)
				}
				err = passed[0].Err
			} else {
				if len(series) != 1 {
					t.Fatalf("%d series, passed over %v", len(series), passed)
				}
				_, err = Read(series[0])
				if (err == nil) != (series[0].Err == nil) {
					t.Errorf("Read says %v, Scan %v", err, series[0].Err)
				}
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var format *volume.FormatError
			var unsupported *volume.UnsupportedError
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!errors.As(err, &format) && !errors.As(err, &unsupported) {
				t.Errorf("got %T %v, want %s", err, err, c.want)
			}
		})
	}
}

// However a file is cut or damaged: no panic, and nothing about the patient in any error.
func TestNothingOfThePatient(t *testing.T) {
	f := sliceFields("1.2", 1, stack.Vector{1, 2, 3}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{1, 2, 3}, axial, binary.LittleEndian))
	whole := part10(element.ExplicitLittle, encode(f, binary.LittleEndian, false))
	path := filepath.Join(t.TempDir(), "file")
	check := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		series, passed, err := Scan(path)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, p := range passed {
			said = append(said, fmt.Sprint(p))
		}
		for _, s := range series {
			_, err := Read(s)
			said = append(said, fmt.Sprint(s, err, s.Problems))
		}
		for _, secret := range []string{patientName, "Mustermann", patientID, birthDate} {
			if all := strings.Join(said, "\n"); strings.Contains(all, secret) {
				t.Fatalf("says %q: %s", secret, all)
			}
		}
	}
	for n := 0; n < len(whole); n += 5 {
		check(whole[:n])
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			data[128+r.IntN(len(data)-128)] = byte(r.IntN(256))
		}
		check(data)
	}
}

// Some megabytes of deflated zeros are gigabytes when inflated: finding that out takes time, but no
// memory.
func TestDeflatedDataTakesNoMemory(t *testing.T) {
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows,
		rampPixels(stack.Vector{}, axial, binary.LittleEndian))
	var file bytes.Buffer
	z, _ := flate.NewWriter(&file, flate.BestSpeed)
	private := field{0x00091010, "OB", make([]byte, 1<<28)}
	z.Write(encode(append(f, private), binary.LittleEndian, false))
	z.Close()
	path := filepath.Join(t.TempDir(), "slice")
	if err := os.WriteFile(path, part10("1.2.840.10008.1.2.1.99", file.Bytes()), 0o644); err != nil {
		t.Fatal(err)
	}
	private.value, file = nil, bytes.Buffer{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if s := scanOne(t, path); s.Err != nil {
		t.Error(s.Err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 5*element.HeldInflated {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// Numbers first, by value; an order that went in a circle would number the parts of a series by
// chance.
func TestValuesHaveAnOrder(t *testing.T) {
	want := []string{"9.00", "10", "10.0", "abc", "zzz", "abcd"}
	for _, a := range []int{0, 1, 2, 3, 4, 5} {
		for _, b := range []int{0, 1, 2, 3, 4, 5} {
			if got := grouping.CompareValues(want[a], want[b]); got != cmp.Compare(a, b) {
				t.Errorf("%q and %q: %d", want[a], want[b], got)
			}
		}
	}
}

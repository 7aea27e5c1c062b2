package dicom

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// The PET of testdata/pet_ct has the SUV that QIBA's formula gives of what pydicom reads.
func TestSUV(t *testing.T) {
	text, err := os.ReadFile("../../testdata/pet_ct.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Factor float64
		SUV    []float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	s := scanOne(t, "../../testdata/pet_ct/pt")
	factor, how, err := s.SUV()
	if err != nil || math.Abs(factor/golden.Factor-1) > 1e-12 {
		t.Fatalf("factor %v, want %v: %v", factor, golden.Factor, err)
	}
	if how != "SUV by body weight, 70 min after the injection (by SeriesTime)" {
		t.Error(how)
	}
	v, err := ReadWith(s, Options{SUV: true})
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.Orient("LPS"); err != nil { // the order of the pixels
		t.Fatal(err)
	}
	if len(v.Float32) != len(golden.SUV) {
		t.Fatalf("%d voxels", len(v.Float32))
	}
	for n, want := range golden.SUV {
		if got := float64(v.Float32[n]); math.Abs(got-want) > 1e-5 {
			t.Fatalf("voxel %d is %v, want %v", n, got, want)
		}
	}
}

// What is missing, or not as the formula needs it, is named; what is there in another form counts.
func TestSUVOfOtherHeaders(t *testing.T) {
	slice, err := os.ReadFile("../../testdata/pet_ct/pt/1.dcm")
	if err != nil {
		t.Fatal(err)
	}
	original := scanOne(t, "../../testdata/pet_ct/pt")
	usual, _, err := original.SUV()
	if err != nil {
		t.Fatal(err)
	}
	half := 6586.2
	waited := (10*3600 + 40*60 + 5.25) - (9*3600 + 30*60 + 15.5)
	for _, c := range []struct {
		from, to string // of the same length
		want     string
		factor   float64 // of the usual one
	}{
		{"72.5", "    ", "PatientWeight is missing", 0},
		{"72.5", "0.00", `PatientWeight is "0.00", not a number above 0`, 0},
		{"72.5", "145.", "", 2},
		{"350000000 ", "          ", "RadionuclideTotalDose is missing", 0},
		{"350000000 ", "350.      ", "RadionuclideTotalDose is 350, too little for Bq", 0},
		{"350000000 ", "175000000 ", "", 2},
		{"6586.2", "      ", "RadionuclideHalfLife is missing", 0},
		{"093015.50 ", "          ", "RadiopharmaceuticalStartTime is missing", 0},
		// the day before
		{"093015.50 ", "110000.00 ", "", math.Exp2((86400 - (20*60 - 5.25) - waited) / half)},
		{"093015.50 ", "0930      ", "", math.Exp2(15.5 / half)},
		{"093015.50 ", "noon      ", `"noon" are no date and time`, 0},
		{"104005.25 ", "          ", "", math.Exp2((54.75) / half)}, // by the first acquisition
		{"104005.25 ", "120000    ", "", math.Exp2((54.75) / half)}, // a series that was made later
		{"START ", "ADMIN ", "", math.Exp2(-waited / half)},
		{"START ", "NONE  ", "DecayCorrection is NONE, not START or ADMIN", 0},
		{"START ", "      ", "DecayCorrection is missing", 0},
		{`DECY\ATTN\SCAT`, `DECY\SCAT\NORM`, "CorrectedImage lacks ATTN", 0},
		{`DECY\ATTN\SCAT`, `ATTN\SCAT\NORM`, "CorrectedImage lacks DECY", 0},
		{`DECY\ATTN\SCAT`, `              `, "CorrectedImage is missing", 0},
		{"BQML", "CNTS", "Units is CNTS, not BQML or GML", 0},
		{"BQML", "    ", "Units is missing", 0},
		{"BQML", "GML ", "", 1 / usual},
	} {
		changed := strings.Replace(string(slice), c.from, c.to, 1)
		if changed == string(slice) || len(changed) != len(slice) {
			t.Fatalf("%q is not in the file", c.from)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1.dcm"), []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		factor, _, err := scanOne(t, dir).SUV()
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q for %q: %v, want %s", c.to, c.from, err, c.want)
		case c.want == "" && (err != nil || math.Abs(factor/usual/c.factor-1) > 1e-9):
			t.Errorf("%q for %q: %g of the usual factor, want %g: %v", c.to, c.from, factor/usual, c.factor, err)
		}
	}
}

// An offset from UTC of the injection counts against that of the file. The figures are those of
// datetime, which pydicom makes of DT: 10:40:05.25 +01:00 is 09:40:05.25 UTC.
func TestSUVOfTimesWithOffsets(t *testing.T) {
	slice, err := os.ReadFile("../../testdata/pet_ct/pt/1.dcm")
	if err != nil {
		t.Fatal(err)
	}
	usual, _, err := scanOne(t, "../../testdata/pet_ct/pt").SUV()
	if err != nil {
		t.Fatal(err)
	}
	const half, at, clock = 6586.2, 9*3600 + 30*60 + 15.5, "093015.50 "
	// insert puts an element behind another, and makes what holds both as much longer.
	insert := func(file []byte, behind string, f field, holders ...string) []byte {
		t.Helper()
		one := encode([]field{f}, binary.LittleEndian, false)
		from := bytes.Index(file, []byte(behind))
		if from < 0 {
			t.Fatalf("no element %x", behind)
		}
		to := from + 8 + int(binary.LittleEndian.Uint16(file[from+6:]))
		file = slices.Concat(file[:to], one, file[to:])
		for _, holder := range holders {
			length := file[bytes.Index(file, []byte(holder))+len(holder):]
			if n := binary.LittleEndian.Uint32(length); n != 1<<32-1 {
				binary.LittleEndian.PutUint32(length, n+uint32(len(one)))
			}
		}
		return file
	}
	for _, c := range []struct {
		injection, zone, clock string
		seconds                float64 // of the day of the scan, in its zone
		want                   string
	}{
		{"20260131083015+0000", "+0100", clock, at - 0.5, ""},
		{"20260131083015+0000", "+0100", "", at - 0.5, ""},
		{"20260131040015.5-0430", "+0100", "", at, ""},
		{"20260131093015.5+0100", "+0100", clock, at, ""},
		{"20260131093015.5", "+0100", "", at, ""},
		{"20260131093015.5", "", "", at, ""},
		// nothing says the file's zone but the same time without an offset
		{"20260131093015.5+0100", "", clock, at, ""},
		{"20260131083015+0000", "", clock, at, ""},
		{"20260131083015+0000", "", "", 0, "has an offset from UTC (+0000), and TimezoneOffsetFromUTC, which"},
		{"20260131083715+0000", "", clock, 0, "are 53m0.5s apart, which is no difference of time zones"},
		{"20260131083015+00", "+0100", "", 0, `has the offset from UTC "+00", which must be as +0100`},
		{"20260131083015+0000", "CET", "", 0, `TimezoneOffsetFromUTC has the offset from UTC "CET"`},
		{"20260131+0000", "", clock, at, ""}, // a date alone
	} {
		file := insert(slices.Clone(slice), "\x18\x00\x75\x10DS",
			field{tag.RadiopharmaceuticalStartDateTime, "DT", c.injection}, "\x54\x00\x16\x00SQ\x00\x00",
			string(slice[bytes.Index(slice, []byte("\x54\x00\x16\x00SQ"))+12:][:4]))
		if c.zone != "" {
			file = insert(file, "\x08\x00\x60\x00CS", field{tag.TimezoneOffsetFromUTC, "SH", c.zone})
		}
		if c.clock == "" {
			file = bytes.Replace(file, []byte(clock), []byte("          "), 1)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1.dcm"), file, 0o666); err != nil {
			t.Fatal(err)
		}
		factor, _, err := scanOne(t, dir).SUV()
		want := math.Exp2((at - c.seconds) / half)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
		case c.want == "" && (err != nil || math.Abs(factor/usual/want-1) > 1e-9):
			t.Errorf("%+v: %g of the usual factor, want %g: %v", c, factor/usual, want, err)
		}
	}
}

// Headers say how large the voxels are that reading makes: those of a PET are fractions.
func TestVoxelBytes(t *testing.T) {
	for modality, want := range map[string]int{"pt": 4, "ct": 2} {
		s := scanOne(t, "../../testdata/pet_ct/"+modality)
		v, err := Read(s)
		if err != nil {
			t.Fatal(err)
		}
		read := 2
		if v.Float32 != nil {
			read = 4
		}
		if s.VoxelBytes() != want || read != want {
			t.Errorf("%s: %d bytes, read as %d, want %d", modality, s.VoxelBytes(), read, want)
		}
	}
}

// Of a scan that is no CT, bits that may hold more than int16 takes are planned as float32, which
// they are read as where one does; SUV are float32 whatever the values are.
func TestVoxelBytesOfWholeNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		modality, slope, intercept string
		signed, stored             uint16
		want, read                 int
	}{
		"MR":                         {"MR", "1", "0", 1, 16, 2, 2},
		"PET, whole slope":           {"PT", "200", "0", 1, 16, 4, 4},
		"PET, whole slope, few bits": {"PT", "2", "0", 1, 15, 2, 2},
		"PET, intercept":             {"PT", "1", "60000", 1, 16, 4, 4},
		"unsigned":                   {"MR", "1", "0", 0, 16, 4, 4},
		"CT":                         {"CT", "1", "-1024", 1, 16, 2, 2},
	} {
		dir := t.TempDir()
		writeStack(t, dir, "1.2.3.4", axial, line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 5, 10, 15),
			func(_ int, f []field) []field {
				f = set(set(set(f, tag.Modality, "CS", c.modality), tag.RescaleSlope, "DS", c.slope),
					tag.RescaleIntercept,
					"DS", c.intercept)
				f = set(set(f, tag.BitsStored, "US", c.stored), tag.HighBit, "US", c.stored-1)
				return set(f, tag.PixelRepresentation, "US", c.signed)
			})
		s := scanOne(t, dir)
		v, err := Read(s)
		if err != nil {
			t.Fatal(name, err)
		}
		read := 2
		if v.Float32 != nil {
			read = 4
		}
		if s.VoxelBytes() != c.want || read != c.read {
			t.Errorf("%s: %d bytes, read as %d, want %d and %d", name, s.VoxelBytes(), read, c.want, c.read)
		}
	}
}

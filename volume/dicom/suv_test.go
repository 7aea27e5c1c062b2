package dicom

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

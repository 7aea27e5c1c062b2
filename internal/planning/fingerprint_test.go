package planning

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// looked is a set of which the box of the body is known: of n scans, the first ones are cut to it.
func looked(n, cut int, body [3]int) Fingerprint {
	f := setOf(n, [3]float64{1, 1, 1}, [3]int{200, 200, 100})
	for k := range f.Scans {
		if f.Scans[k].Body = f.Scans[k].Shape; k < cut {
			f.Scans[k].Body, f.Scans[k].Cut = body, true
		}
	}
	f.Window = [2]float64{-125, 275}
	return f
}

func decision(t *testing.T, p *Plan, what string) Decision {
	t.Helper()
	for _, d := range p.Decisions {
		if d.What == what {
			return d
		}
	}
	t.Fatalf("no decision on %s", what)
	return Decision{}
}

// What is cut out of scans decides on the crop, the memory and the time of validations, as if the
// scans were no larger than their boxes.
func TestPart(t *testing.T) {
	machine := func() *aMachine {
		return &aMachine{speed: 1e12, puzzle: time.Millisecond, voxel: 50, validation: time.Second, window: 64}
	}
	body := [3]int{100, 60, 80}
	small := setOf(6, [3]float64{1, 1, 1}, body)
	small.Window = [2]float64{-125, 275}
	cut, all := plan(t, looked(6, 6, body), machine(), 1), plan(t, small, machine(), 1)
	if cut.Crop != "body" || all.Crop != "auto" || !reflect.DeepEqual(cut.Finetune, all.Finetune) ||
		cut.Bytes != all.Bytes || cut.Validation != all.Validation {
		t.Errorf("cut to the box: %+v; scans of its size: %+v", cut, all)
	}
	whole := plan(t, looked(6, 0, body), machine(), 1)
	if whole.Crop != "auto" || whole.Validation <= cut.Validation || whole.Bytes <= cut.Bytes {
		t.Errorf("whole scans: %+v", whole)
	}
	// Where the box leaves out much of few scans, these alone are cut.
	some := plan(t, looked(6, 2, body), machine(), 1)
	if d := decision(t, some, "part of a scan"); d.Is != "auto" || !strings.Contains(d.Because, "those 2 of 6") {
		t.Errorf("%+v", d)
	}
	if some.Validation <= cut.Validation || some.Validation >= whole.Validation {
		t.Errorf(
			"validations of %v, of all scans cut %v, of none %v",
			some.Validation,
			cut.Validation,
			whole.Validation,
		)
	}
	if d := decision(t, cut, "part of a scan"); !strings.Contains(d.Because, "12 % of a scan in the median, and in 6") {
		t.Errorf("%+v", d)
	}
	if d := decision(t, whole, "part of a scan"); !strings.Contains(d.Because, "in none") {
		t.Errorf("%+v", d)
	}
	// Scans that would have been cut are the scans of before.
	prepared := looked(6, 6, body)
	prepared.Ready = true
	if p := plan(t, prepared, machine(), 1); p.Crop != "" || decision(t, p, "part of a scan").Is != "as prepared" {
		t.Errorf("prepared cases: %+v", p)
	}
}

// The scheme of intensities follows from the values under the labels, and of scans that are no CT
// from how much of them is zero, as in nnU-Net.
func TestIntensities(t *testing.T) {
	under := []Channel{{Intensities: Intensities{Mean: 300, SD: 480, Low: -113, High: 1749, Min: -1024, Max: 3000}}}
	prepared := func(f *Fingerprint) { f.Ready = true }
	for name, c := range map[string]struct {
		change  func(*Fingerprint)
		is      string
		because string
	}{
		"CT inside of the window": {func(f *Fingerprint) { f.Under, f.Within = under, 0.97 }, "ct-window",
			"clips 3 % of those"},
		"CT outside of it": {func(f *Fingerprint) { f.Under, f.Within = under, 0.66 }, "ct-percentiles",
			"would clip 34 %"},
		"CT without labels": {func(*Fingerprint) {}, "ct-window", "no labels tell"},
		"prepared": {func(f *Fingerprint) {
			f.Under, f.Within = under, 0.66
			prepared(f)
		}, "ct-window", "from the scans it would be ct-percentiles"},
		"prepared well": {func(f *Fingerprint) {
			f.Under, f.Within = under, 0.97
			prepared(f)
		}, "ct-window", "the cases are prepared with it; under the labels, 99 of 100 values lie from -113 to 1749"},
		"prepared and resampled": {func(f *Fingerprint) {
			f.Under, f.Within, f.Prepared = under, 0.97, [3]float64{1, 1, 3}
			prepared(f)
		}, "ct-window", "how many it clipped cannot be seen in cases that were resampled"},
		"prepared and resampled, outside": {func(f *Fingerprint) {
			f.Under, f.Within, f.Prepared = under, 0.66, [3]float64{1, 1, 3}
			prepared(f)
		}, "ct-window", "clips at least 34 %"},
		"MR": {func(f *Fingerprint) { f.Modality, f.Intensity, f.Scans = "MR", "zscore", looked(6, 0, [3]int{}).Scans },
			"zscore", "no unit"},
		"MR without much signal": {func(f *Fingerprint) { f.Modality, f.Intensity = "MR", "zscore" }, "zscore-nonzero",
			"12 % of a scan"},
		"two channels": {func(f *Fingerprint) { f.Channels, f.Under, f.Within = 2, under, 0.5 }, "ct-window",
			"each channel"},
	} {
		f := looked(6, 6, [3]int{100, 60, 80})
		c.change(&f)
		p := plan(t, f, &aMachine{speed: 1e12, puzzle: time.Millisecond}, 1)
		d := decision(t, p, "intensities")
		if d.Is != c.is || p.Intensity != c.is || !strings.Contains(d.Because, c.because) {
			t.Errorf("%s: %+v", name, d)
		}
		want := [4]float64{}
		if c.is == "ct-percentiles" {
			want = [4]float64{-113, 1749, 300, 480}
		}
		if p.Foreground != want {
			t.Errorf("%s: foreground %v", name, p.Foreground)
		}
	}
}

// Sizes are numpy's median, of the scans that show a structure.
func TestFacts(t *testing.T) {
	f := Fingerprint{Modality: "CT", Channels: 1, Names: map[uint16]string{2: "liver"}, Values: "values of the scans"}
	for n, ml := range []float64{10, 40, 20, 50} {
		s := Scan{
			Spacing:     [3]float64{1, 1, float64(n + 1)},
			Whole:       [3]int{10, 20, 10 * (n + 1)},
			Body:        [3]int{5, 10, 8},
			Millilitres: map[uint16]float64{7: ml},
		}
		if n < 3 {
			s.Millilitres[2] = ml
		}
		f.Scans = append(f.Scans, s)
	}
	got := f.Facts()
	want := Facts{Modality: "CT", Channels: 1, Values: "values of the scans",
		Spacing: Extent{[3]float64{1, 1, 1}, [3]float64{1, 1, 2.5}, [3]float64{1, 1, 4}},
		Shape:   Extent{[3]float64{10, 20, 10}, [3]float64{10, 20, 25}, [3]float64{10, 20, 40}},
		Body:    &Extent{[3]float64{5, 10, 8}, [3]float64{5, 10, 20}, [3]float64{5, 10, 32}},
		// the median of 400/2000, 400/4000, 400/6000, 400/8000
		BodyShare: 0.0833333,
		Labels:    []Structure{{2, "liver", 3, 10, 20, 40}, {7, "", 4, 10, 30, 50}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %+v\nwant %+v %+v", got, *got.Body, want, *want.Body)
	}
	text := ""
	for _, row := range got.Text() {
		text += row[0] + ": " + row[1] + "\n"
	}
	for _, part := range []string{"spacing: 1x1x2.5 (1x1x1 to 1x1x4) mm\n", "8 % of a scan\n",
		"2: from liver, 20 ml (10 to 40) in 3 scans, to label 7, 30 ml (10 to 50) in 4 scans\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

package dataset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// slicesOf is a part of a scan: count slices from the first.
func slicesOf(v *volume.Volume, count int) *volume.Volume {
	g := v.Grid
	g.Shape[2] = count
	return &volume.Volume{Grid: g, Int16: v.Int16[:g.Len()]}
}

// A study as ProstateX has them: three planes of T2, b-values of diffusion in one series, an ADC
// map, localizers that say so in their description alone, and a fragment.
func TestExportOfMR(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	other, _ := datasettest.Axial(t, 2)
	described := func(text, more string) string { return datasettest.Element(0x0008, 0x103E, "LO", text) + more }
	for n, s := range []struct {
		text, more string
		v          *volume.Volume
	}{
		{"localizer 3-plane", "", slicesOf(v, 5)},
		{"t2_tse_tra", "", v},
		{"t2_tse_sag", "", turned(t, v, "PIL")},
		{"t2_tse_cor", "", turned(t, v, "LIP")},
		{"ep2d_diff_tra_DYNDIST", datasettest.Element(0x0018, 0x0024, "SH", "*ep_b50t"), v},
		{"ep2d_diff_tra_DYNDIST", datasettest.Element(0x0018, 0x0024, "SH", "*ep_b800t"), other},
		{"ep2d_diff_tra_DYNDIST_ADC", datasettest.Element(0x0008, 0x0008, "CS", `DERIVED\PRIMARY\DIFFUSION\ADC`), v},
		{"t1 test", "", slicesOf(v, 2)},
	} {
		uid := fmt.Sprintf("1.2.%d", n)
		if n == 5 { // of the same series
			uid = "1.2.4"
		}
		datasettest.WriteTold(
			t,
			filepath.Join(root, "ProstateX-0000", fmt.Sprint(n)),
			uid,
			"1.2.9",
			n,
			"MR",
			s.v,
			nil,
			described(s.text, s.more),
		)
	}
	if d, err := Detect(root, Options{}); err != nil || len(d.Cases) != 1 || d.Cases[0].refused == nil ||
		!datasettest.Noted(
			d.PassedOver,
			`passed over MR series 0: 5 axial localizers of 40x36, explicit VR little endian, "localizer 3-plane"`,
		) ||
		!datasettest.Noted(
			d.PassedOver,
			`passed over MR series 7: 2 axial slices of 40x36, explicit VR little endian, "t1 test": too few slices for a scan; --series 7 takes it`,
		) {
		t.Errorf("%v, %v", d, err)
	} else if text := d.Cases[0].refused.Error(); !strings.Contains(text,
		`30 axial slices of 40x36, explicit VR little endian, "t2_tse_tra"`) ||
		!strings.Contains(text, `"ep2d_diff_tra_DYNDIST", b 800`) {
		t.Errorf("%s", text)
	}
	for wanted, want := range map[string]string{
		"description~t2,plane=axial": "t2_tse_tra", "description~t2,plane=sagittal": "t2_tse_sag",
		"description=t2_tse_cor": "t2_tse_cor", "phase~b 800": "ep2d_diff_tra_DYNDIST",
		"type~ADC": "ep2d_diff_tra_DYNDIST_ADC",
		"7":        "t1 test", "description~test": "t1 test",
	} {
		d, err := Detect(root, Options{Series: wanted})
		if err != nil || len(d.Cases) != 1 || d.Cases[0].series == nil || d.Cases[0].series.Description != want {
			t.Errorf("%s: %v, %v", wanted, d, err)
		}
	}
	d, err := Detect(root, Options{Series: "description~t2"})
	if err != nil || len(d.Cases) != 1 || d.Cases[0].refused == nil ||
		!strings.Contains(d.Cases[0].refused.Error(), "series description~t2 is not one but 3") {
		t.Errorf("%v, %v", d, err)
	}
	if d, err = Detect(root, Options{Series: SeriesAll}); err != nil || len(d.Cases) != 6 {
		t.Errorf("%v, %v", d, err)
	}
	entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(entries) != 8 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	told := map[string]Entry{}
	for _, e := range entries {
		told[e.Description+e.Phase] = e
	}
	if e := told["ep2d_diff_tra_DYNDISTb 50"]; e.Modality != "MR" || e.Number == "" {
		t.Errorf("%+v", e)
	}
	if e := told["localizer 3-plane"]; e.Kind != KindLocalizer {
		t.Errorf("%+v", e)
	}
	if e := told["t1 test"]; !slices.Contains(e.Problems, "too few slices for a scan") {
		t.Errorf("%+v", e)
	}
}

// turned is a scan on other axes.
func turned(t *testing.T, v *volume.Volume, codes string) *volume.Volume {
	t.Helper()
	v, err := v.Orient(codes)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A folder that holds a fragment alone holds no scan.
func TestFragmentAlone(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteStudy(t, filepath.Join(root, "p"), "1.2.1", "1.2.9", 4, "CT", slicesOf(v, 2), nil)
	if d, err := Detect(root, Options{}); err == nil || !strings.Contains(err.Error(), "no scan: ") ||
		!strings.Contains(err.Error(), "too few slices for a scan; --series 4 takes it") {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := Detect(root, Options{Series: "4"}); err != nil || len(d.Cases) != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

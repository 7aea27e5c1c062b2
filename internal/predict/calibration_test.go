package predict

import (
	"bytes"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/segment"
)

// made is a model of which nothing is known but where its label maps come from.
type made struct {
	Model
	of segment.Provenance
}

func (m made) Provenance() segment.Provenance { return m.of }

func (m made) LabelNames() map[uint16]string { return nil }

// A calibration is of one model and its settings, and not of others. One without them is read.
func TestCalibrationIsOfItsModel(t *testing.T) {
	cases := []quality.Case{{ID: "a", Structures: []quality.Structure{{Label: 1, Volume: 20, Components: 1}},
		DSC: map[uint16]float64{1: 0.5}}}
	own := segment.Provenance{Model: "abc", Checkpoints: []segment.Trained{{Weights: "w", Step: 5}},
		Window: [3]int{32, 32, 16}, Overlap: 0.5, LargestOf: []string{"1"}}
	known, err := Calibration(cases, quality.NewSet(cases), made{of: own})
	if err != nil {
		t.Fatal(err)
	}
	var file, plain bytes.Buffer
	if err := known.CSV(&file); err != nil {
		t.Fatal(err)
	}
	if read, err := quality.ReadTable(bytes.NewReader(file.Bytes())); err != nil || read[0].DSC[1] != 0.5 {
		t.Error(read, err)
	}
	for what, change := range map[string]func(p *segment.Provenance){
		"":                func(*segment.Provenance) {},
		"another model":   func(p *segment.Provenance) { p.Model = "def" },
		"window":          func(p *segment.Provenance) { p.Overlap = 0 },
		"not of no label": func(p *segment.Provenance) { p.LargestOf = nil },
		"mirror":          func(p *segment.Provenance) { p.Mirror = "i" },
	} {
		now := own
		change(&now)
		err := CheckCalibration(file.Bytes(), made{of: now})
		if (err != nil) != (what != "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := quality.Table(cases, quality.NewSet(cases), nil).CSV(&plain); err != nil {
		t.Fatal(err)
	}
	if err := CheckCalibration(plain.Bytes(), made{of: own}); err == nil || !strings.Contains(err.Error(), madeBy) {
		t.Errorf("of a table without a word on its model: %v", err)
	}
}

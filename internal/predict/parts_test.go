package predict

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// A part writes nothing that tells of all scans, and refuses what could be told nowhere else.
func TestPartsTellOfThemselves(t *testing.T) {
	part := dataset.Part{Number: 1, Of: 2}
	for want, o := range map[string]Options{
		"":                     {Part: part, Format: NIfTI, Maps: segment.MapOptions{Agreement: true}},
		"--calibration":        {Part: part, Format: NIfTI, Known: []quality.Case{{ID: "a"}}},
		"no room for --agreem": {Part: part, Format: RTSTRUCT, Maps: segment.MapOptions{Agreement: true}},
	} {
		err := (&Batch{options: o}).checkPart()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	b := &Batch{options: Options{Part: part}, scans: make([]dataset.Case, 5)}
	if b.total() != 3 || b.Len() != 3 || b.mine(1) || !b.mine(4) {
		t.Errorf("%d scans, %d of this process", b.total(), b.Len())
	}
}

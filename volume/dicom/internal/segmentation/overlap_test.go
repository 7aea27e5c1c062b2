package segmentation

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/volume"
)

// Each segment shares voxels with the next one: all pairs are counted, and the first are named in
// the order of the segments. What is done for each pair that there could be would take minutes.
func TestManyOverlaps(t *testing.T) {
	g := &Object{Path: "seg.dcm"}
	overlaps := map[[2]uint16]int{}
	for n := range math.MaxUint16 {
		label := uint16(math.MaxUint16 - n) // in the file's order, not that of the labels
		g.Segments = append(g.Segments, segment{Label: label, Name: fmt.Sprintf("part %d", n), number: label})
		if n > 0 {
			overlaps[[2]uint16{label + 1, label}] = n
		}
	}
	began := time.Now()
	err := g.overlap(overlaps, nil, Options{})
	var refused *volume.UnsupportedError
	if want := "segments overlap: 65535 (part 0) and 65534 (part 1) in 1 voxel, 65534 " +
		"(part 1) and 65533 (part 2) in 2 voxels, "; !errors.As(err, &refused) ||
		!strings.Contains(refused.Problem, want) || !strings.Contains(refused.Problem, "and 65530 more pairs") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

package prepare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Resampled is how many voxels a label has, as it was drawn and as it was prepared.
type Resampled struct {
	Name     string `json:"name,omitempty"`
	Drawn    int    `json:"drawn"`
	Prepared int    `json:"prepared"`
}

// resampled counts the voxels of labels that came onto other voxels.
type resampled struct {
	cases  int
	labels map[uint16]Resampled
}

func (s *resampled) add(r prepared.Record) {
	if len(r.DrawnCounts) == 0 {
		return
	}
	s.cases++
	if s.labels == nil {
		s.labels = map[uint16]Resampled{}
	}
	for label, n := range r.DrawnCounts {
		one := s.labels[label]
		one.Name = cmp.Or(one.Name, r.LabelNames[label])
		one.Drawn += n
		one.Prepared += r.LabelCounts[label]
		s.labels[label] = one
	}
}

// note says how many voxels labels had before and after; "" where none came onto others.
func (s *resampled) note() string {
	if s.cases == 0 {
		return ""
	}
	const most = 10
	var list []string
	for _, label := range slices.Sorted(maps.Keys(s.labels)) {
		one := s.labels[label]
		list = append(list, fmt.Sprintf("%s %d and %d", cmp.Or(safetext.Text(one.Name), fmt.Sprintf("label %d", label)),
			one.Drawn, one.Prepared))
	}
	more := ""
	if n := len(list) - most; n > 1 {
		more, list = fmt.Sprintf(", and %s more (label_counts and drawn_label_counts of each case's record)",
			numbers.Count(n, "label")), list[:most]
	}
	text := ""
	for _, one := range list {
		text += ", " + one
	}
	return fmt.Sprintf("voxels of labels as drawn and as prepared, in %s: %s%s",
		numbers.Count(s.cases, "resampled case"), text[2:], more)
}

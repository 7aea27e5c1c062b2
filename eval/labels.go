package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// This file says which labels are scored, where they are given by name.

// A LabelError says that a label map has no label that is called so.
type LabelError struct {
	Label string // as it was asked for
	Names []string
}

func (e *LabelError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("no label is called %q: the labels are numbers without names, choose by number", e.Label)
	}
	return fmt.Sprintf("no label is called %q: there are %s", e.Label, safetext.List(e.Names))
}

// checkLabel refuses what is no label's number and no name.
func checkLabel(text string) error {
	if n, err := strconv.Atoi(text); err == nil && (n < 1 || n > math.MaxUint16) {
		return fmt.Errorf("label %d: want 1 to %d (0 is the background)", n, math.MaxUint16)
	}
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("label %q: want a number or a name", text)
	}
	return nil
}

// Find is the label that is meant by a number or by a name, whatever the case of its letters and
// whatever signs join its words: the reference's label of that name, or else the prediction's. A
// [LabelError] says that neither has one.
func Find(label string, prediction, reference *volume.LabelMap) (uint16, error) {
	if n, err := strconv.ParseUint(label, 10, 16); err == nil {
		return uint16(n), nil
	}
	var names []string
	for _, of := range []map[uint16]string{reference.Names, prediction.Names} {
		var found []uint16
		for _, number := range slices.Sorted(maps.Keys(of)) {
			if safetext.Fold(of[number]) == safetext.Fold(label) {
				found = append(found, number)
			}
			if of[number] != "" && !slices.Contains(names, of[number]) {
				names = append(names, of[number])
			}
		}
		if len(found) > 1 {
			return 0, fmt.Errorf("labels %s are all called %q: choose by number", numbers.List(found), label)
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return 0, &LabelError{label, names}
}

// find lists the labels that are to be scored; none for all that occur.
func (o Options) find(prediction, reference *volume.LabelMap) (labels []int, err error) {
	for _, text := range o.Labels {
		label, err := Find(text, prediction, reference)
		if err != nil {
			return nil, err
		}
		labels = append(labels, int(label))
	}
	return labels, nil
}

package eval

import (
	"errors"
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
// [LabelError] says that neither has one. A number that another label is called by is an error,
// where there is a label of that number, too.
func Find(label string, prediction, reference *volume.LabelMap) (uint16, error) {
	named, err := findName(label, prediction, reference)
	number, failed := strconv.ParseUint(label, 10, 16)
	switch n := uint16(number); {
	case failed != nil || err == nil && n == named:
		return named, err
	case errors.As(err, new(*LabelError)):
		return n, nil
	case err != nil || reference.Names[n] == "" && prediction.Names[n] == "" &&
		!slices.Contains(reference.Labels, n) && !slices.Contains(prediction.Labels, n):
		return named, err
	default:
		return 0, fmt.Errorf("label %q may be label %d, which is called so, or label %d by its number: choose by "+
			"another name, or give the labels other names", label, named, n)
	}
}

// findName is the label of a name.
func findName(label string, prediction, reference *volume.LabelMap) (uint16, error) {
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

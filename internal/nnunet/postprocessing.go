package nnunet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
)

// Where nnU-Net's cross-validation writes which postprocessing has made its predictions better.
const (
	validatedPrefix    = "crossval_results_folds_"
	postprocessingName = "postprocessing.json"
)

// keepLargest is the only step that nnU-Net's postprocessing has.
const keepLargest = "remove_all_but_largest_component_from_segmentation"

// Postprocessing is what nnUNetv2_find_best_configuration has found to raise the Dice of validation
// cases.
type Postprocessing struct {
	Path string
	// Steps, one after the other: of the voxels that have one of these labels, the largest
	// connected component is kept, all labels taken together, and all components of its size.
	Steps [][]uint16
}

// Apply postprocesses labels (k, j, i) of a shape (i, j, k).
func (p *Postprocessing) Apply(labels []uint16, shape [3]int) {
	for _, step := range p.Steps {
		quality.KeepLargestTogether(labels, shape, step)
	}
}

// Postprocessing reads that of the folds which predict. There is none, nil, where nobody has
// determined it; that of other folds alone is an error.
func (m *Model) Postprocessing() (*Postprocessing, error) {
	name := func(folds string) string { return filepath.Join(m.Folder, validatedPrefix+folds, postprocessingName) }
	predicting := slices.SortedFunc(slices.Values(m.Folds), numbers.CompareNatural)
	path := name(strings.Join(predicting, "_"))
	b, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(m.Folder)
		if err != nil {
			return nil, err
		}
		var others []string
		for _, e := range entries {
			folds, ok := strings.CutPrefix(e.Name(), validatedPrefix)
			if _, err := os.Stat(name(folds)); ok && err == nil {
				others = append(others, strings.ReplaceAll(folds, "_", ","))
			}
		}
		if others != nil {
			return nil, fmt.Errorf("%s has a postprocessing of folds %s, and predicts with folds %s",
				m.Folder, safetext.List(others), strings.Join(predicting, ","))
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Postprocessing{Path: path}
	if p.Steps, err = steps(b); err != nil {
		return nil, &volume.FormatError{Path: path, Problem: err.Error()}
	}
	if m.Regions { // whose members are labels of the training, not of predictions: those do nothing
		return p, nil
	}
	for _, step := range p.Steps {
		for _, label := range step {
			if !slices.Contains(m.Values(), label) {
				return nil, &volume.FormatError{Path: path,
					Problem: fmt.Sprintf("it is for label %d, which the model has not", label)}
			}
		}
	}
	return p, nil
}

var notFinite = regexp.MustCompile(`(:\s*)(NaN|-?Infinity)\b`)

// steps reads the steps. A region is a list of labels, as several labels are: of both the voxels
// are taken together.
func steps(b []byte) (all [][]uint16, err error) {
	var file struct {
		Functions []string `json:"postprocessing_fns"`
		Arguments []struct {
			Labels     json.RawMessage `json:"labels_or_regions"`
			Background int             `json:"background_label"`
		} `json:"postprocessing_kwargs"`
	}
	// Python writes a Dice that is not defined as what JSON does not have
	if err := json.Unmarshal(notFinite.ReplaceAll(b, []byte("${1}null")), &file); err != nil {
		return nil, err
	}
	if file.Functions == nil || len(file.Functions) != len(file.Arguments) {
		return nil, fmt.Errorf("postprocessing_fns has %d entries, postprocessing_kwargs %d", len(file.Functions),
			len(file.Arguments))
	}
	for n, function := range file.Functions {
		if function != keepLargest || file.Arguments[n].Background != 0 {
			return nil, fmt.Errorf("%s of background %d is no postprocessing that is known", function,
				file.Arguments[n].Background)
		}
		step, err := labelsOf(file.Arguments[n].Labels)
		if err != nil {
			return nil, fmt.Errorf("labels_or_regions %s: want a label, or a list of labels or of lists",
				file.Arguments[n].Labels)
		}
		all = append(all, step)
	}
	return all, nil
}

// labelsOf are the labels in nested lists.
func labelsOf(raw json.RawMessage) (labels []uint16, err error) {
	var one uint16
	if json.Unmarshal(raw, &one) == nil && one > 0 {
		return []uint16{one}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, raw := range list {
		more, err := labelsOf(raw)
		if err != nil {
			return nil, err
		}
		labels = append(labels, more...)
	}
	if labels == nil {
		return nil, errors.New("it is empty")
	}
	slices.Sort(labels)
	return slices.Compact(labels), nil
}

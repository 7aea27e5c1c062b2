package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// This file says which labels of label maps are compared, where they were asked for by name.

func newWantedLabels(labels []string) *wantedLabels {
	return &wantedLabels{labels: labels, lacking: map[string][]string{}, unknown: map[string]error{}}
}

// wantedLabels are the labels to compare. Not every case must have one of each name.
type wantedLabels struct {
	labels  []string
	lacking map[string][]string // the cases that know no such name
	unknown map[string]error
	cases   int
}

// compare scores those that a case knows.
func (w *wantedLabels) compare(name string, prediction, reference *volume.LabelMap, o eval.Options) ([]eval.Score, error) {
	w.cases++
	o.Labels = nil
	for _, label := range w.labels {
		_, err := eval.Find(label, prediction, reference)
		var unknown *eval.LabelError
		switch {
		case errors.As(err, &unknown):
			w.lacking[label], w.unknown[label] = append(w.lacking[label], name), err
		case err != nil:
			return nil, fmt.Errorf("case %s: %w", name, err)
		default:
			o.Labels = append(o.Labels, label)
		}
	}
	if len(o.Labels) == 0 && len(w.labels) > 0 {
		return nil, nil
	}
	return eval.Compare(name, prediction, reference, o)
}

// settle says which cases do not know a label. One that no case knows is an error.
func (w *wantedLabels) settle(stderr io.Writer) error {
	for _, label := range w.labels {
		switch lacking := w.lacking[label]; {
		case len(lacking) > 0 && len(lacking) == w.cases:
			return withHint(w.unknown[label], "voxsaw inspect FILE shows the labels of a file; a dataset.json beside label maps names them")
		case len(lacking) > 0:
			say(stderr, "no label is called %s in %s, which it is not scored in: %s", label, numbers.Count(len(lacking), "case"), list(lacking))
		}
	}
	return nil
}

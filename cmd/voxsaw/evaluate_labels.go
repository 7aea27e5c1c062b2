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

// caseScores is the result of comparing one case. Another rank may have computed it.
type caseScores struct {
	Scores []eval.Score
	Notes  []string
	// the labels that the case does not know, and what is to be said of each
	Unknown map[string]string
	// Failed says why the pair could not be compared; "" where it was.
	Failed string
	// Stopped says that somebody interrupted the work before the pair's turn.
	Stopped bool
}

// compareLabels scores those labels that a case knows.
func compareLabels(name string, prediction, reference *volume.LabelMap, o eval.Options) (s caseScores, err error) {
	wanted := o.Labels
	o.Labels = nil
	for _, label := range wanted {
		_, err := eval.Find(label, prediction, reference)
		var unknown *eval.LabelError
		switch {
		case errors.As(err, &unknown):
			if s.Unknown == nil {
				s.Unknown = map[string]string{}
			}
			s.Unknown[label] = err.Error()
		case err != nil:
			return s, fmt.Errorf("case %s: %w", name, err)
		default:
			o.Labels = append(o.Labels, label)
		}
	}
	if len(o.Labels) == 0 && len(wanted) > 0 {
		return s, nil
	}
	s.Scores, err = eval.Compare(name, prediction, reference, o)
	return s, err
}

func newWantedLabels(labels []string) *wantedLabels {
	return &wantedLabels{labels: labels, lacking: map[string][]string{}, unknown: map[string]string{}}
}

// wantedLabels are the labels to compare. Not every case must have one of each name.
type wantedLabels struct {
	labels  []string
	lacking map[string][]string // the cases that know no such name
	unknown map[string]string   // what is to be said of it
	cases   int
}

// add counts a case that does not know some of the labels.
func (w *wantedLabels) add(name string, unknown map[string]string) {
	w.cases++
	for label, message := range unknown {
		w.lacking[label], w.unknown[label] = append(w.lacking[label], name), message
	}
}

// settle says which cases do not know a label. One that no case knows is an error.
func (w *wantedLabels) settle(stderr io.Writer) error {
	for _, label := range w.labels {
		switch lacking := w.lacking[label]; {
		case len(lacking) > 0 && len(lacking) == w.cases:
			return withHint(errors.New(w.unknown[label]),
				"voxsaw inspect FILE shows the labels of a file; a dataset.json beside label maps names them")
		case len(lacking) > 0:
			say(stderr, "no label is called %s in %s, which it is not scored in: %s", label,
				numbers.Count(len(lacking), "case"), list(lacking))
		}
	}
	return nil
}

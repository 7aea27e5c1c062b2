package pairing

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// Scores is the result of comparing one case. Another rank may have computed it.
type Scores struct {
	Scores []eval.Score
	Notes  []string
	// the labels that the case does not know, and what is to be said of each
	Unknown map[string]string
	// the labels that were asked for by a number which neither map has, nor a name for
	Absent []uint16
	// Failed says why the pair could not be compared; "" where it was.
	Failed string
	// Stopped says that somebody interrupted the work before the pair's turn.
	Stopped bool
}

// Compare scores those labels that a case knows.
func Compare(name string, prediction, reference *volume.LabelMap, o eval.Options) (s Scores, err error) {
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
	// where they are merged, all of them are one label
	if len(wanted) > 0 && (len(o.Labels) == 0 || o.Merge && len(s.Unknown) > 0) {
		return s, nil
	}
	s.Scores, err = eval.Compare(name, prediction, reference, o)
	for _, score := range s.Scores {
		if len(wanted) > 0 && score.Outcome() == eval.Absent && score.Name == "" {
			s.Absent = append(s.Absent, score.Label)
		}
	}
	return s, err
}

// NewWanted has counted no case yet.
func NewWanted(labels []string) *Wanted {
	return &Wanted{labels: labels, lacking: map[string][]string{}, unknown: map[string]string{},
		absent: map[uint16]int{}}
}

// Wanted are the labels to compare. Not every case must have one of each name.
type Wanted struct {
	labels  []string
	lacking map[string][]string // the cases that know no such name
	unknown map[string]string   // what is to be said of it
	absent  map[uint16]int      // how many cases have none of such a number
	cases   int
}

// Add counts the scores of a case, which may not know some of the labels.
func (w *Wanted) Add(name string, s Scores) {
	w.cases++
	for _, label := range s.Absent {
		w.absent[label]++
	}
	for label, message := range s.Unknown {
		w.lacking[label], w.unknown[label] = append(w.lacking[label], name), message
	}
}

// Settle says which cases do not know a label. A name that no case knows is an error; a number that
// none has is said, as the structure may be in none of these scans.
func (w *Wanted) Settle() (notes []string, err error) {
	for _, label := range w.labels {
		switch lacking := w.lacking[label]; {
		case len(lacking) > 0 && len(lacking) == w.cases:
			return nil, hint.Addf(errors.New(w.unknown[label]),
				"voxsaw inspect FILE shows the labels of a file; a dataset.json beside label maps names them")
		case len(lacking) > 0:
			notes = append(notes, fmt.Sprintf("no label is called %s in %s, which it is not scored in: %s",
				safetext.Text(label), numbers.Count(len(lacking), "case"), safetext.List(lacking)))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(w.absent)) {
		if w.absent[label] == w.cases {
			notes = append(notes, fmt.Sprintf("WARNING: no label map has a label %d: nothing was compared for it "+
				"(voxsaw inspect FILE shows the labels of a file)",
				label))
		}
	}
	return notes, nil
}

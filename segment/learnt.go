package segment

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: what a predictor's weights have learnt from, and what scans they may be used on.

// A lesson is what the weights of a checkpoint have learnt from.
type lesson struct {
	path     string
	spacings volume.Range
	seen     checkpoint.Seen
	known    bool // which voxels, and not the names of cases alone
	lost     string
	chosen   bool // held-out cases chose the step, or of which labels the largest component is kept
}

// readLessons reads what the weights have learnt from.
func (p *Predictor) readLessons(checkpoints []string) error {
	for _, path := range checkpoints {
		d, err := checkpoint.Read(path)
		if err != nil {
			return err
		}
		last := path == train.Last(filepath.Dir(path)) // the settings say its step
		chosen := !last && d.Step > 0 && d.Step == d.BestStep ||
			len(d.Kept()) > 0 && p.options.Components == ComponentsValidated
		p.lessons = append(p.lessons, lesson{path, d.Learnt.Spacings, d.Seen(), d.Known(), d.Lost, chosen})
	}
	return nil
}

// A SpacingError says that the voxels of a scan are smaller or larger than those that a network was
// trained on, which were not brought to one size.
type SpacingError struct {
	Checkpoint string
	Spacing    [3]float64   // of the scan, along the axes of prepared cases, in mm
	Trained    volume.Range // of the training cases
}

func (e *SpacingError) Error() string {
	return fmt.Sprintf("its voxels measure %v, and %s was trained on voxels of %v: more than %g times smaller or "+
		"larger, so that organs have another size in voxels than the network knows",
		volume.Range{Min: e.Spacing, Max: e.Spacing}, e.Checkpoint, e.Trained, volume.SpacingTolerance)
}

// CheckSpacing gives a [SpacingError] for a scan on a grid whose voxels are none of those that the
// network was trained on, within [volume.SpacingTolerance]. Where the preparation resamples scans
// to one spacing there is none.
func (p *Predictor) CheckSpacing(g volume.Grid) error {
	spacing, err := spacingOf(p.config.Preparation, g)
	if err != nil {
		return err
	}
	for _, l := range p.lessons {
		if l.spacings.Known() && len(l.spacings.Outside(spacing)) > 0 {
			return &SpacingError{l.path, spacing, l.spacings}
		}
	}
	return nil
}

// spacingOf is what the voxels of a scan on a grid measure when it is prepared.
func spacingOf(how volume.Preparation, g volume.Grid) ([3]float64, error) {
	prepared, err := how.Grid(g)
	if err != nil {
		return [3]float64{}, err
	}
	spacing := prepared.Spacing()
	for axis, s := range how.Spacing {
		if s > 0 {
			spacing[axis] = s // to the last digit
		}
	}
	return spacing, nil
}

// Lesson says how the weights have learnt from a scan.
type Lesson struct {
	Name   string // of the case, when it was learnt from
	Labels bool   // with its labels; otherwise as a scan alone, in pretraining
}

// LearntFrom says whether weights have learnt from the scan of that name, whose voxels have that
// digest ([volume.Volume.Digest]): whatever it is called now, or, where names alone were noted, by
// its name.
func (p *Predictor) LearntFrom(name, digest string) (how Lesson, found bool) {
	for _, l := range p.lessons {
		if scan, seen := l.seen.Find(name, digest); seen && !how.Labels {
			how, found = Lesson{scan.Name, scan.Labels}, true
		}
	}
	return how, found
}

// Lost says of which checkpoint the list of scans that it has learnt from is not there any more, so
// that [Predictor.LearntFrom] may miss some; "" where all are known.
func (p *Predictor) Lost() string {
	for _, l := range p.lessons {
		if l.lost != "" {
			return l.path + ": " + l.lost
		}
	}
	return ""
}

// Chosen says whether the cases held out in training have decided anything about the label maps:
// from which step the weights are, or for which labels the largest component alone is kept. On
// these cases label maps are a little better than on others.
func (p *Predictor) Chosen() bool {
	return slices.ContainsFunc(p.lessons, func(l lesson) bool { return l.chosen })
}

// lessonNotes tell a person what to know about the data that the weights have learnt from.
func (p *Predictor) lessonNotes() (notes []string) {
	var names, lost []string
	for _, l := range p.lessons {
		switch {
		case l.lost != "":
			lost = append(lost, l.path+": "+l.lost)
		case !l.known:
			names = append(names, l.path)
		}
	}
	if len(names) > 0 {
		notes = append(notes, fmt.Sprintf("%s: which scans it was trained on is known by their names alone",
			safetext.List(names)))
	}
	for _, text := range lost {
		notes = append(notes, "WARNING: "+text+": nobody can say whether scans here are among them")
	}
	return notes
}

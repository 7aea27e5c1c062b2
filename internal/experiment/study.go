package experiment

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: what the plans of all kinds of data have in common, so that one command carries them
// out.

// A Study is a plan: [Plan] is one of scans, package photostudy has one of photographs.
type Study interface {
	// Check says what is wrong with the plan, nil if nothing is, and CheckRanks whether so many
	// ranks can carry out its trials together.
	Check() error
	CheckRanks(ranks int) error
	// Paths are those that the plan names.
	Paths() Paths
	// DataSets are the published ones that what it names is made of.
	DataSets() []Source
	// Trials is how many trials the plan has, in a folder that may hold some of them.
	Trials(out string) (int, error)
	// Trainings makes the trainings of each arm ready, and gives them to each.
	Trainings(ctx context.Context, s Stage, each func(Training) error) error
	// Idle says which settings of arms do nothing beside the others: arms that differ in them alone
	// would be the same. What all arms share is named only where none of them goes by it. A new
	// study is refused with it; one that is begun is told.
	Idle() error
	// Begun says whether a folder holds a part of such a study.
	Begun(out string) bool
	// Start carries out the plan, or what is left of it. The outcome is nil where nothing could
	// begin.
	Start(context.Context, Setting) (Outcome, error)
}

// An Outcome is what a study has found, so far.
type Outcome interface {
	Finished() int // trials
	ByOthers() int // see [Left]
	OthersWentOn() bool
	// Warnings are what is to be known of the tables.
	Warnings() []string
	// Write leaves the results in the study's folder. The first error says what could not be made
	// of them, the second one that they were not written.
	Write(Setting) (without, err error)
	// Tables are for a person, who may have asked for one trial alone.
	Tables(s Setting) ([]table.Table, error)
	// JSON is what is printed as JSON instead; nil: the first table.
	JSON() any
	Report(ctx context.Context, title string, s Setting) (report.Report, error)
}

// Paths implements [Study], as the methods below do.
func (p *Plan) Paths() Paths {
	all := Paths{{What: "data", At: &p.Data}, {What: "splits", At: &p.Splits, Else: true}}
	for n := range p.Inits {
		i := &p.Inits[n]
		all = append(all, Path{"checkpoint of initialisation " + i.Name, &i.Checkpoint, true},
			Path{"data of initialisation " + i.Name, &i.Data, false})
	}
	return all
}

func (p *Plan) DataSets() []Source { return p.Sources }

// Start implements [Study].
func (p *Plan) Start(ctx context.Context, s Setting) (Outcome, error) {
	r, err := Run(ctx, *p, s)
	if r == nil {
		return nil, err
	}
	return r, err
}

// Trials implements [Study].
func (p *Plan) Trials(out string) (int, error) {
	preview, err := Look(*p, out)
	return len(preview.Trials), err
}

// Finished implements [Outcome], as the methods below do.
func (r *Result) Finished() int { return len(r.Runs) }

func (r *Result) Warnings() []string { return r.Scored().Warnings() }
func (r *Result) JSON() any          { return nil }

// Write implements [Outcome].
func (r *Result) Write(s Setting) (without, err error) {
	if err := s.write(ScoresFile, table.Runs(r.Runs).CSV); err != nil {
		return nil, err
	}
	compute, without := r.Compute(s)
	if without == nil {
		without = s.write(ComputeFile, compute.CSV)
	}
	curves, err := r.LearningCurves(s.Out)
	if err == nil && len(curves) > 0 {
		err = s.write(CurvesFile, table.Curves(curves).CSV)
	}
	return errors.Join(without, err, s.Seal()), nil
}

// write writes a file of the study's folder, where a killed process has left nothing of it.
func (s Setting) write(name string, text func(io.Writer) error) error {
	release, err := atomicfile.Enter(s.Out, func(other string) bool { return other == name })
	if err != nil {
		return err
	}
	defer release()
	return atomicfile.Write(filepath.Join(s.Out, name), text)
}

// Tables implements [Outcome].
func (r *Result) Tables(s Setting) ([]table.Table, error) {
	if s.Trial > 0 {
		return []table.Table{table.PerLabel(r.Runs[0].Scores)}, nil
	}
	scored := r.Scored()
	folds, err := scored.Table()
	if err != nil {
		return nil, err
	}
	all := []table.Table{table.Folds(folds)}
	if len(scored.Published.Scores) > 0 {
		all = append(all, scored.Published.Beside(folds))
	}
	all = append(all, scored.Postprocessing())
	if scored.Measured("hd95") {
		hd95, err := scored.TableOf("hd95")
		if err != nil {
			return all, err
		}
		// What its columns are, the table of DSC has said.
		t := table.Folds(hd95)
		t.Notes = slices.DeleteFunc(t.Notes, func(note string) bool {
			return !strings.HasPrefix(note, "∞") && !strings.HasPrefix(note, table.LessIsBetter)
		})
		all = append(all, t)
	}
	// of a run that is gone nobody knows what it took, as Write has said
	if compute, err := r.Compute(s); err == nil {
		all = append(all, compute)
	}
	return all, nil
}

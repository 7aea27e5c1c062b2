package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepare"
)

// This file: --data-root of crossval and of 2d compare, which looks for the data sets of a plan
// before anything is done.

// find says what is there of a plan's data sets and how long the plan takes, and prepares what is
// there as published, unless only the plan is asked for, or nothing. It is ready where all is
// prepared, and where nobody asked.
func (f studyFlags) find(cmd *cobra.Command, of study) (ready bool, err error) {
	if f.root == "" {
		return true, nil
	}
	stderr := cmd.ErrOrStderr()
	found, err := experiment.Find(cmd.Context(), f.root, of.DataSets())
	if err != nil {
		return false, err
	}
	dev, closeDevice, err := of.machine.open()
	if err != nil {
		return false, err
	}
	defer closeDevice()
	prepared := !slices.ContainsFunc(
		found,
		func(s experiment.Found) bool { return s.State != experiment.SourcePrepared },
	)
	rehearsal, err := experiment.Rehearse(cmd.Context(), of, dev, prepared)
	if err != nil {
		return false, err
	}
	if err := terminal.Table(stderr, foundTable(f.root, found, rehearsal)); err != nil {
		return false, err
	}
	var missing, raw []string
	for _, s := range found {
		switch s.State {
		case experiment.SourceMissing:
			missing = append(missing, s.What)
		case experiment.SourceRaw:
			raw = append(raw, s.Data)
		}
	}
	switch {
	case len(missing) > 0:
		return false, withHint(fmt.Errorf("%s: missing: %s", f.root, strings.Join(missing, "; ")),
			"fetch it from who publishes it and put it, as it is, anywhere below %s", f.root)
	case f.out == "" && !f.dry:
		before := ""
		if len(raw) > 0 {
			before = ", and prepares before: " + strings.Join(raw, ", ")
		}
		say(stderr, "all is there: --out FOLDER runs the %s%s", f.of, before)
		return false, nil
	case len(raw) > 0 && f.dry:
		say(stderr, "not prepared yet, so that the trials cannot be listed: %s; the command with --out prepares it",
			strings.Join(raw, ", "))
		return false, nil
	case len(raw) > 0 && jobOf(cmd.Context()).launch.Ranks > 1:
		return false, withHint(fmt.Errorf("not prepared yet: %s", strings.Join(raw, ", ")),
			"run the command once without a launcher, and stop it when the first training begins")
	}
	out := cmd.OutOrStdout()
	cmd.SetOut(stderr) // what is printed of it is no part of the study's tables
	defer cmd.SetOut(out)
	for _, s := range found {
		if s.State != experiment.SourceRaw {
			continue
		}
		prepare := prepareSource
		if s.OfPhotographs() {
			prepare = preparePhotos
		}
		if err := prepare(cmd, s); err != nil {
			return false, fmt.Errorf("preparing %s: %w", s.Data, err)
		}
	}
	return true, nil
}

// foundTable is what was found, and what the trainings take.
func foundTable(root string, found []experiment.Found, r experiment.Rehearsal) terminal.TableData {
	_, items := found[0].Published()
	t := terminal.TableData{Title: "Data sets in " + root, Header: []string{"data set", "is", items, "where", ""},
		Right: []bool{false, false, true, false, false}, Remarks: true}
	for _, s := range found {
		published, _ := s.Published()
		where, count := s.Data, fmt.Sprintf("%d of %d", s.There, published)
		if s.There == experiment.Uncounted {
			count = fmt.Sprint(published)
		}
		switch s.State {
		case experiment.SourceRaw:
			where = s.Raw + ", to be prepared to " + s.Data
		case experiment.SourceMissing:
			known := "its layout (" + s.Layout + ")"
			if len(s.Holds) > 0 {
				known = "what it holds (" + strings.Join(s.Holds, ", ") + ")"
			}
			where = "neither " + s.Data + " nor, by " + known + ", anything below " + root
		}
		t.Rows = append(t.Rows, []string{s.What, s.State, count, where, s.Note})
	}
	if len(r.Works) == 0 { // of a plan of random arms alone
		return t
	}
	var works, flops []string
	seconds := 0.0 // on an H200
	for _, kind := range []string{experiment.OfPretraining, experiment.OfFinetuning, experiment.OfLabelling,
		experiment.OfTesting} {
		w, counted := r.Works[kind]
		if !counted {
			continue
		}
		works = append(works, numbers.Count(w.Trainings, kind))
		flops = append(flops, fmt.Sprintf("%.3g", w.FLOPs/1e12))
		if kind == experiment.OfPretraining {
			seconds += w.FLOPs / gpuPuzzles
		} else {
			seconds += w.FLOPs / gpuFinetuning
		}
	}
	without := "predictions and scores"
	elsewhere := fmt.Sprintf("On one H200 in bf16: %s at the least, by the kernels' own counts "+
		"(docs/gpu-engine.md); it was not measured.", longTime(time.Duration(seconds*float64(time.Second))))
	if _, counted := r.Works[experiment.OfTesting]; counted {
		without = "scores"
	}
	if found[0].OfPhotographs() {
		without = "fine-tuning, features and solving"
		elsewhere = "The paper, for each of its trainings on four V100s: 10 hours of AlexNet, 20 of ResNet-18, " +
			"60 of ResNet-50. No GPU was measured here."
	}
	t.Notes = []string{
		fmt.Sprintf("%s: %s TFLOP.", strings.Join(works, " and "), strings.Join(flops, " and ")),
		fmt.Sprintf("Here: about %s, at the %.0f GFLOP/s that were just measured in a few small steps; "+
			"%s are not counted.", longTime(r.Time()), r.Rate/1e9, without),
		elsewhere,
	}
	return t
}

// The arithmetic in a second that docs/gpu-engine.md allows an H200, in bf16, by the kernels' own
// counts: 6.48 TFLOP of puzzles, counted with all taps of each kernel, in 14.24 ms; 12.04 TFLOP of
// fine-tuning in 22.68 ms.
const (
	gpuPuzzles    = 6.48e12 / 14.24e-3
	gpuFinetuning = 12.04e12 / 22.68e-3
)

// prepareSource prepares a data set as voxsaw prepare does.
func prepareSource(cmd *cobra.Command, s experiment.Found) error {
	p := prepareOptions{Preparation: volume.DefaultPreparation(), Work: prepare.DefaultOptions()}
	p.Preparation.Spacing = volume.AllMedian()
	if err := s.Prepare.Apply("sources: "+s.Data+": prepare", &p); err != nil {
		return config.Mistaken(err)
	}
	p.Out, p.Dataset.Layout, p.Dataset.Labels = s.Data, s.Layout, s.Labels
	if p.Dataset.Unlabelled {
		p.Dataset.Labels = ""
	}
	return runPrepare(cmd, p, []string{s.Raw})
}

// preparePhotos prepares a data set as voxsaw 2d prepare does, or proposes boxes as voxsaw 2d
// propose does.
func preparePhotos(cmd *cobra.Command, s experiment.Found) error {
	section := "sources: " + s.Data
	prepare := photoPrepareOptions{Options: photos.DefaultOptions()}
	propose := photoProposeOptions{ProposeOptions: puzzle2d.DefaultProposeOptions()}
	if err := errors.Join(s.Prepare.Apply(section+": prepare", &prepare),
		s.Propose.Apply(section+": propose", &propose)); err != nil {
		return config.Mistaken(err)
	}
	if prepare.Out, propose.Out = s.Data, s.Data; !s.Propose.IsZero() {
		return runPhotoPropose(cmd, propose, s.Raw)
	}
	return runPhotoPrepare(cmd, prepare, s.Raw)
}

// longTime writes days where there are several.
func longTime(d time.Duration) string {
	if d > 72*time.Hour {
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return terminal.Duration(d)
}

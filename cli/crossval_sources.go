package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepare"
)

// This file: crossval --data-root, which looks for the data sets of a plan before anything is done.

// The arithmetic in a second that docs/gpu.md allows an H200, in bf16, by the kernels' own counts:
// 6.48 TFLOP of puzzles, counted with all taps of each kernel, in 14.24 ms; 12.04 TFLOP of
// fine-tuning in 22.68 ms.
const (
	gpuPuzzles    = 6.48e12 / 14.24e-3
	gpuFinetuning = 12.04e12 / 22.68e-3
)

// findSources says what is there of the plan's data sets and how long the plan takes, and prepares
// what is there as published, unless only the plan is asked for, or nothing. It is ready where all
// is prepared.
func (f crossvalFlags) findSources(cmd *cobra.Command, o crossvalOptions) (ready bool, err error) {
	stderr := cmd.ErrOrStderr()
	found, err := o.Plan.Find(cmd.Context(), f.root)
	if err != nil {
		return false, err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return false, err
	}
	defer closeDevice()
	rehearsal, err := o.Plan.Rehearse(cmd.Context(), dev)
	if err != nil {
		return false, err
	}
	if err := terminal.Table(stderr, sourcesTable(f.root, found, rehearsal)); err != nil {
		return false, err
	}
	var missing, raw []string
	for _, s := range found {
		switch s.State {
		case experiment.SourceMissing:
			missing = append(missing, s.What)
		case experiment.SourceRaw:
			raw = append(raw, s.Folder)
		}
	}
	if err := missingSources(f.root, missing); err != nil {
		return false, err
	}
	switch {
	case f.out == "" && !f.dry:
		say(stderr, "all is there: --out FOLDER runs the experiment%s", andPrepares(raw))
		return false, nil
	case len(raw) > 0 && f.dry:
		say(stderr, "not prepared yet, so that the trials cannot be listed: %s; the command with --out prepares it",
			strings.Join(raw, ", "))
		return false, nil
	case len(raw) > 0 && jobOf(cmd.Context()).launch.Ranks > 1:
		return false, withHint(fmt.Errorf("not prepared yet: %s", strings.Join(raw, ", ")),
			"run the command once without a launcher, and stop it when the first training begins")
	}
	for _, s := range found {
		if s.State != experiment.SourceRaw {
			continue
		}
		if err := prepareSource(cmd, s); err != nil {
			return false, fmt.Errorf("preparing %s: %w", s.Folder, err)
		}
	}
	return true, nil
}

// andPrepares says what a command does before.
func andPrepares(raw []string) string {
	if len(raw) == 0 {
		return ""
	}
	return ", and prepares before: " + strings.Join(raw, ", ")
}

// prepareSource prepares a data set as voxsaw prepare does.
func prepareSource(cmd *cobra.Command, s experiment.Found) error {
	p := prepareOptions{Preparation: volume.DefaultPreparation(), Work: prepare.DefaultOptions()}
	p.Preparation.Spacing = volume.AllMedian()
	if err := s.Prepare.Apply("sources: "+s.Data+": prepare", &p); err != nil {
		return &usageError{err}
	}
	p.Out, p.Dataset.Layout, p.Dataset.Labels = s.Folder, s.Layout, s.Labels
	if p.Dataset.Unlabelled {
		p.Dataset.Labels = ""
	}
	out := cmd.OutOrStdout()
	cmd.SetOut(cmd.ErrOrStderr()) // what prepare prints is no part of the experiment's tables
	defer cmd.SetOut(out)
	return runPrepare(cmd, p, []string{s.Raw})
}

// dataSets is an empty table of data sets.
func dataSets(root, items string) terminal.TableData {
	return terminal.TableData{Title: "Data sets in " + root, Header: []string{"data set", "is", items, "where", ""},
		Right: []bool{false, false, true, false, false}, Remarks: true}
}

// missingSources is the error on data sets that are not there; nil if all are.
func missingSources(root string, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return withHint(fmt.Errorf("%s: missing: %s", root, strings.Join(missing, "; ")),
		"fetch it from who publishes it and put it, as it is, anywhere below %s", root)
}

func sourcesTable(root string, found []experiment.Found, r experiment.Rehearsal) terminal.TableData {
	t := dataSets(root, "cases")
	for _, s := range found {
		where := s.Folder
		switch s.State {
		case experiment.SourceRaw:
			where = s.Raw + ", to be prepared to " + s.Folder
		case experiment.SourceMissing:
			where = "neither " + s.Folder + " nor, by its layout (" + s.Layout + "), anything below " + root
		}
		t.Rows = append(t.Rows, []string{s.What, s.State, fmt.Sprintf("%d of %d", s.There, s.Cases), where, s.Note})
	}
	gpu := time.Duration((r.Pretraining/gpuPuzzles + r.Finetuning/gpuFinetuning) * float64(time.Second))
	t.Notes = []string{
		fmt.Sprintf("%s and %s: %.3g and %.3g TFLOP.", numbers.Count(r.Encoders, "pretraining"),
			numbers.Count(r.Trials, "fine-tuning"), r.Pretraining/1e12, r.Finetuning/1e12),
		fmt.Sprintf("Here: about %s, at the %.0f GFLOP/s that were just measured in a few steps on small crops; predictions and scores are not counted.",
			longTime(r.Time()), r.Rate/1e9),
		fmt.Sprintf("On one H200 in bf16: %s at the least, by the kernels' own counts (docs/gpu.md); it was not measured.",
			longTime(gpu)),
	}
	return t
}

// longTime writes days where there are several.
func longTime(d time.Duration) string {
	if d > 72*time.Hour {
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return terminal.Duration(d)
}

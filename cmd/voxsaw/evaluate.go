package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/claim"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

type evaluateOptions struct {
	Metrics  eval.Options        `yaml:",inline"`
	Scans    string              `yaml:"scans" help:"folder of the DICOM series that SEG objects refer to, needed where both label maps are SEG, or where slices were straightened or resampled"`
	Read     dataset.ReadOptions `yaml:"read"`
	Pairs    string              `yaml:"pairs" help:"which prediction belongs to which reference, where names do not tell: a CSV file with the columns prediction and reference, or a pattern of paths as they are below the two folders, such as *_pred.nii.gz=*_manual.nii.gz"`
	AllDrawn bool                `yaml:"all_drawn" help:"where a case of the references does not name a structure that others have, it is not in the patient; otherwise nobody drew it, and it is not scored there"`
	Missing  string              `yaml:"missing" help:"references without a prediction: error; missed, which scores them as if nothing had been found (DSC 0, infinite distances); or left-out, for predictions of some cases alone" oneof:"error missed left-out"`
	Out      string              `yaml:"out" help:"folder for scores.csv, scores.json, scores.md and the page scores.html, with a box plot of every label"`
	JSON     bool                `yaml:"json" help:"print the scores as JSON"`
}

func newEvaluate() *cobra.Command {
	o := &evaluateOptions{Metrics: eval.DefaultOptions(), Read: dataset.DefaultReadOptions(), Missing: missingIsError}
	return verb("evaluate PREDICTIONS REFERENCES", "Compare label maps with references: DSC, HD95, ASSD, NSD, volumes",
		`Compares label maps with references, label by label: Dice (DSC), 95th percentile and maximum of the Hausdorff
distance (HD95, HD), average symmetric surface distance (ASSD), normalised surface Dice (NSD) at a tolerance, volumes.
PREDICTIONS and REFERENCES are two files, or two folders whose files have the same names: NIfTI, or DICOM SEG objects.
REFERENCES may be a data set in any layout that prepare reads (labels beside their scans, a file for each organ, BIDS, nnU-Net, ...): predictions
have the names of its cases, as predict writes them. A folder with a mask for each structure of one case, such as TotalSegmentator's
segmentations/, is one label map. --pairs says what belongs together where names do not.
Labels go by their names where both sides have them, in the file or in a dataset.json; otherwise by their numbers.
A reference without a prediction is an error, unless --missing says that it is to be counted as missed, or left out.`,
		`  voxsaw evaluate predictions/ labelsTs/ --tolerance 2 --out scores
  voxsaw evaluate predictions/ TotalSegmentator/
  voxsaw evaluate predictions/s0011.nii.gz s0011/segmentations`,
		cobra.ExactArgs(2), o, func(cmd *cobra.Command, args []string) error {
			return runEvaluate(cmd.Context(), *o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
}

// What evaluate does with references that have no prediction.
const (
	missingIsError  = "error"
	missingIsMissed = "missed"
	missingLeftOut  = "left-out"
)

func runEvaluate(ctx context.Context, o evaluateOptions, predictions, references string, stdout, stderr io.Writer) error {
	if err := o.Metrics.Check(); err != nil {
		return &usageError{err}
	}
	if o.Out != "" { // before the work
		if err := claim.Check(o.Out, evaluation, scoreFiles...); err != nil {
			return err
		}
	}
	pairs, err := pairFiles(predictions, references, o)
	if err != nil {
		return err
	}
	for _, note := range pairs.notes {
		say(stderr, "%s", note)
	}
	for _, path := range pairs.unreferenced {
		say(stderr, "%s: no reference of that name, left out", path)
	}
	if err := pairs.settle(o.Missing, predictions, stderr); err != nil {
		return err
	}
	if predicted := pairs.predictedReferences(); len(predicted) > 0 {
		say(stderr, "WARNING: %s: nobody drew the predictions of voxsaw that are compared with as references: %s", references, list(predicted))
	}
	scores, err := comparePairs(ctx, o, pairs.both, stderr)
	if err != nil {
		return err
	}
	eval.Sort(scores)
	perCase, perLabel := table.PerCase(scores), table.PerLabel(scores)
	if o.Out != "" {
		page := report.Scores("Evaluation", fmt.Sprintf("%s compared with %s", predictions, references), scores, pairs.remarks())
		if err := writeScores(o.Out, perCase, perLabel, page); err != nil {
			return err
		}
	}
	if o.JSON {
		return perCase.JSON(stdout)
	}
	return errors.Join(printTable(stdout, perCase), printTable(stdout, perLabel))
}

// scoreFiles are what evaluate leaves in a folder.
var scoreFiles = []string{"scores.csv", "scores.json", "scores.md", "scores.html"}

// evaluation is whose files they are.
const evaluation = "voxsaw evaluate"

// writeScores writes the scores into a folder.
func writeScores(folder string, perCase, perLabel table.Table, page report.Report) error {
	if err := claim.Take(folder, evaluation, scoreFiles...); err != nil {
		return err
	}
	writers := []func(io.Writer) error{
		perCase.CSV, perCase.JSON, func(w io.Writer) error { return errors.Join(perLabel.Markdown(w), perCase.Markdown(w)) }, page.HTML,
	}
	for n, name := range scoreFiles {
		if err := writeFile(filepath.Join(folder, name), writers[n]); err != nil {
			return err
		}
	}
	return nil
}

// comparePairs reads every pair of label maps and scores it.
func comparePairs(ctx context.Context, o evaluateOptions, pairs []filePair, stderr io.Writer) ([]eval.Score, error) {
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	var scores []eval.Score
	wanted := newWantedLabels(o.Metrics.Labels)
	progress := terminal.NewProgress(stderr, "evaluate", len(pairs))
	defer progress.Finish()
	for _, p := range pairs {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("stopped before case %s: %w", p.name, err)
		}
		prediction, reference, notes, err := p.read(scans, o.Read)
		if errors.Is(err, dataset.ErrNoScans) {
			return nil, withHint(err, "add --scans FOLDER")
		}
		if err != nil {
			return nil, err
		}
		for _, note := range notes {
			progress.Note(note)
		}
		s, err := wanted.compare(p.name, prediction, reference, o.Metrics)
		if err != nil {
			return nil, err // it names the case, and says what to do
		}
		scores = append(scores, s...)
		progress.Add(1)
	}
	progress.Finish()
	return scores, wanted.settle(stderr)
}

// printTable writes a table of results to the terminal.
func printTable(w io.Writer, t table.Table) error {
	header, rows := t.Text()
	right := make([]bool, len(header))
	for i := range right {
		right[i] = t.Numeric(i)
	}
	return terminal.Table(w, terminal.TableData{Title: t.Title, Header: header, Rows: rows, Right: right, Notes: t.Notes})
}

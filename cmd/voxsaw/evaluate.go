package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

type evaluateOptions struct {
	Metrics eval.Options        `yaml:",inline"`
	Scans   string              `yaml:"scans" help:"folder of the DICOM series that SEG objects refer to, needed where both label maps are SEG, or where slices were straightened or resampled"`
	Read    dataset.ReadOptions `yaml:"read"`
	Out     string              `yaml:"out" help:"folder for scores.csv, scores.json and scores.md"`
	JSON    bool                `yaml:"json" help:"print the scores as JSON"`
}

func newEvaluate() *cobra.Command {
	o := &evaluateOptions{Metrics: eval.DefaultOptions(), Read: dataset.DefaultReadOptions()}
	return verb("evaluate PREDICTIONS REFERENCES", "Compare label maps with references: DSC, HD95, ASSD, NSD, volumes",
		`Compares label maps with references, label by label: Dice (DSC), 95th percentile and maximum of the Hausdorff
distance (HD95, HD), average symmetric surface distance (ASSD), normalised surface Dice (NSD) at a tolerance, volumes.
PREDICTIONS and REFERENCES are two files, or two folders whose files have the same names: NIfTI, or DICOM SEG objects.`,
		`  voxsaw evaluate predictions/ labelsTs/ --tolerance 2 --out scores`,
		cobra.ExactArgs(2), o, func(cmd *cobra.Command, args []string) error {
			return runEvaluate(cmd.Context(), *o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
}

func runEvaluate(ctx context.Context, o evaluateOptions, predictions, references string, stdout, stderr io.Writer) error {
	if err := o.Metrics.Check(); err != nil {
		return &usageError{err}
	}
	pairs, missing, err := pairFiles(predictions, references)
	if err != nil {
		return err
	}
	for _, m := range missing {
		fmt.Fprintln(stderr, m)
	}
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	var scores []eval.Score
	progress := terminal.NewProgress(stderr, "evaluate", len(pairs))
	defer progress.Finish()
	for _, p := range pairs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped before case %s: %w", p.name, err)
		}
		prediction, reference, notes, err := dataset.ReadLabelPair(p.prediction, p.reference, scans, o.Read)
		if errors.Is(err, dataset.ErrNoScans) {
			return withHint(err, "add --scans FOLDER")
		}
		if err != nil {
			return err
		}
		for _, note := range notes {
			progress.Note(note)
		}
		s, err := eval.Compare(p.name, prediction, reference, o.Metrics)
		if err != nil {
			return err // it names the case, and says what to do
		}
		scores = append(scores, s...)
		progress.Add(1)
	}
	progress.Finish()
	eval.Sort(scores)
	perCase, perLabel := table.PerCase(scores), table.PerLabel(scores)
	if o.Out != "" {
		for name, write := range map[string]func(io.Writer) error{
			"scores.csv": perCase.CSV, "scores.json": perCase.JSON,
			"scores.md": func(w io.Writer) error { return errors.Join(perLabel.Markdown(w), perCase.Markdown(w)) },
		} {
			if err := writeFile(filepath.Join(o.Out, name), write); err != nil {
				return err
			}
		}
	}
	if o.JSON {
		return perCase.JSON(stdout)
	}
	return errors.Join(printTable(stdout, perCase), printTable(stdout, perLabel))
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

type filePair struct{ name, prediction, reference string }

// pairFiles finds for each prediction the reference of the same name. missing says what has no
// partner.
func pairFiles(predictions, references string) (pairs []filePair, missing []string, err error) {
	p, err := labelFiles(predictions)
	if err != nil {
		return nil, nil, err
	}
	r, err := labelFiles(references)
	if err != nil {
		return nil, nil, err
	}
	if len(p) == 1 && len(r) == 1 && isFile(predictions) && isFile(references) {
		for name, path := range p {
			for _, reference := range r {
				return []filePair{{name, path, reference}}, nil, nil
			}
		}
	}
	for name, path := range p {
		if reference, ok := r[name]; ok {
			pairs = append(pairs, filePair{name, path, reference})
		} else {
			missing = append(missing, fmt.Sprintf("%s: no reference of that name, left out", path))
		}
	}
	for name, path := range r {
		if _, ok := p[name]; !ok {
			missing = append(missing, fmt.Sprintf("%s: no prediction of that name, left out", path))
		}
	}
	slices.SortFunc(pairs, func(a, b filePair) int { return strings.Compare(a.name, b.name) })
	slices.Sort(missing)
	if len(pairs) == 0 {
		return nil, nil, withHint(fmt.Errorf("no label map of %s has a partner in %s", predictions, references), "a prediction and its reference have the same file name, such as case_01.nii.gz")
	}
	return pairs, missing, nil
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}

// labelFiles lists the NIfTI files and DICOM SEG objects of a folder, or the one file, by name
// without extension.
func labelFiles(path string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() || strings.HasPrefix(name, ".") {
			return nil
		}
		for _, ext := range []string{".nii.gz", ".nii", ".dcm"} {
			if base, ok := strings.CutSuffix(name, ext); ok && (ext != ".dcm" || dicom.IsSegmentation(p)) {
				if other, twice := files[base]; twice {
					return fmt.Errorf("%s and %s have the same name: keep one", other, p)
				}
				files[base] = p
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no NIfTI file (.nii, .nii.gz) and no DICOM SEG object (.dcm) here", path)
	}
	return files, nil
}

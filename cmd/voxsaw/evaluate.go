package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

type evaluateOptions struct {
	Metrics eval.Options        `yaml:",inline"`
	Scans   string              `yaml:"scans" help:"folder of the DICOM series that SEG objects refer to, needed where both label maps are SEG, or where slices were straightened or resampled"`
	Read    dataset.ReadOptions `yaml:"read"`
	Missing string              `yaml:"missing" help:"references without a prediction: error, or missed, which scores them as if nothing had been found (DSC 0, infinite distances)" oneof:"error missed"`
	Out     string              `yaml:"out" help:"folder for scores.csv, scores.json, scores.md and the page scores.html, with a box plot of every label"`
	JSON    bool                `yaml:"json" help:"print the scores as JSON"`
}

func newEvaluate() *cobra.Command {
	o := &evaluateOptions{Metrics: eval.DefaultOptions(), Read: dataset.DefaultReadOptions(), Missing: missingIsError}
	return verb("evaluate PREDICTIONS REFERENCES", "Compare label maps with references: DSC, HD95, ASSD, NSD, volumes",
		`Compares label maps with references, label by label: Dice (DSC), 95th percentile and maximum of the Hausdorff
distance (HD95, HD), average symmetric surface distance (ASSD), normalised surface Dice (NSD) at a tolerance, volumes.
PREDICTIONS and REFERENCES are two files, or two folders whose files have the same names: NIfTI, or DICOM SEG objects.
A reference without a prediction is an error, unless --missing missed says how it is to be counted.`,
		`  voxsaw evaluate predictions/ labelsTs/ --tolerance 2 --out scores`,
		cobra.ExactArgs(2), o, func(cmd *cobra.Command, args []string) error {
			return runEvaluate(cmd.Context(), *o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
}

// What evaluate does with references that have no prediction.
const (
	missingIsError  = "error"
	missingIsMissed = "missed"
)

func runEvaluate(ctx context.Context, o evaluateOptions, predictions, references string, stdout, stderr io.Writer) error {
	if err := o.Metrics.Check(); err != nil {
		return &usageError{err}
	}
	pairs, err := pairFiles(predictions, references)
	if err != nil {
		return err
	}
	for _, path := range pairs.unreferenced {
		say(stderr, "%s: no reference of that name, left out", path)
	}
	if err := pairs.settle(o.Missing, predictions, stderr); err != nil {
		return err
	}
	scores, err := comparePairs(ctx, o, pairs.both, stderr)
	if err != nil {
		return err
	}
	eval.Sort(scores)
	perCase, perLabel := table.PerCase(scores), table.PerLabel(scores)
	if o.Out != "" {
		for name, write := range map[string]func(io.Writer) error{
			"scores.csv": perCase.CSV, "scores.json": perCase.JSON,
			"scores.md":   func(w io.Writer) error { return errors.Join(perLabel.Markdown(w), perCase.Markdown(w)) },
			"scores.html": report.Scores("Evaluation", fmt.Sprintf("%s compared with %s", predictions, references), scores, pairs.remarks()).HTML,
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

// comparePairs reads every pair of label maps and scores it.
func comparePairs(ctx context.Context, o evaluateOptions, pairs []filePair, stderr io.Writer) ([]eval.Score, error) {
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	var scores []eval.Score
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
		s, err := eval.Compare(p.name, prediction, reference, o.Metrics)
		if err != nil {
			return nil, err // it names the case, and says what to do
		}
		scores = append(scores, s...)
		progress.Add(1)
	}
	return scores, nil
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

// filePair is a prediction and its reference. A prediction that is missed has no file.
type filePair struct{ name, prediction, reference string }

// read reads both label maps, on one grid. Where there is no prediction, its label map is empty.
func (p filePair) read(scans *dataset.Scans, o dataset.ReadOptions) (prediction, reference *volume.LabelMap, notes []string, err error) {
	if p.prediction != "" {
		return dataset.ReadLabelPair(p.prediction, p.reference, scans, o)
	}
	_, reference, notes, err = dataset.ReadLabelPair(p.reference, p.reference, scans, o)
	if err != nil {
		return nil, nil, nil, err
	}
	return &volume.LabelMap{Grid: reference.Grid, Labels: make([]uint16, len(reference.Labels))}, reference, slices.Compact(notes), nil
}

// filePairs are the label maps of two folders by their names.
type filePairs struct {
	both         []filePair // sorted by name
	unpredicted  []filePair // references without a prediction
	unreferenced []string   // predictions without a reference
	missed       []string   // references that are counted without a prediction
}

// settle decides what becomes of references without a prediction: an error, or one more pair each.
// A mean over the other cases would be better than the network is.
func (f *filePairs) settle(missing, predictions string, stderr io.Writer) error {
	if len(f.unpredicted) == 0 {
		return nil
	}
	var names []string
	for _, p := range f.unpredicted {
		names = append(names, filepath.Base(p.reference))
	}
	if missing != missingIsMissed {
		have := "have"
		if len(names) == 1 {
			have = "has"
		}
		return withHint(fmt.Errorf("%s %s no prediction in %s: %s", numbers.Count(len(names), "reference"), have, predictions, table.List(names, 10)),
			"predict them; with --missing missed they count as if nothing had been found")
	}
	say(stderr, "counted as missed, without a prediction: %s", table.List(names, 0))
	f.both, f.missed = append(f.both, f.unpredicted...), names
	slices.SortFunc(f.both, func(a, b filePair) int { return strings.Compare(a.name, b.name) })
	return nil
}

// remarks say of which label maps the scores are, and which are not in them.
func (f *filePairs) remarks() []string {
	all := []string{numbers.Count(len(f.both), "reference") + " compared."}
	if len(f.missed) > 0 {
		all = append(all, fmt.Sprintf("Counted as missed, without a prediction: %s.", table.List(f.missed, 20)))
	}
	if n := len(f.unreferenced); n > 0 {
		all = append(all, numbers.Count(n, "prediction")+" without a reference left out.")
	}
	return all
}

// pairFiles finds for each reference the prediction of the same name.
func pairFiles(predictions, references string) (filePairs, error) {
	var pairs filePairs
	p, err := labelFiles(predictions)
	if err != nil {
		return pairs, err
	}
	r, err := labelFiles(references)
	if err != nil {
		return pairs, err
	}
	if len(p) == 1 && len(r) == 1 && isFile(predictions) && isFile(references) {
		for name, path := range p {
			for _, reference := range r {
				pairs.both = []filePair{{name, path, reference}}
			}
		}
		return pairs, nil
	}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if path, ok := p[name]; ok {
			pairs.both = append(pairs.both, filePair{name, path, r[name]})
		} else {
			pairs.unpredicted = append(pairs.unpredicted, filePair{name: name, reference: r[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if _, ok := r[name]; !ok {
			pairs.unreferenced = append(pairs.unreferenced, p[name])
		}
	}
	if len(pairs.both) == 0 {
		return pairs, withHint(fmt.Errorf("no label map of %s has a partner in %s", predictions, references), "a prediction and its reference have the same file name, such as case_01.nii.gz")
	}
	return pairs, nil
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}

// isMap reports whether a file, by its name without extension, is one of the maps that predict
// writes beside its label maps.
func isMap(base string) bool {
	return strings.HasSuffix(base, "_probabilities") || strings.HasSuffix(base, "_logits")
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
			base, ok := strings.CutSuffix(name, ext)
			if ok && isMap(base) {
				break
			}
			if ok && (ext != ".dcm" || dicom.IsSegmentation(p)) {
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

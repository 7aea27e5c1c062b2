package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

type evaluateOptions struct {
	Metrics  eval.Options        `yaml:",inline"`
	Scans    string              `yaml:"scans" help:"folder of scans: of pictures, and of SEG's and RTSTRUCT's series"`
	Read     dataset.ReadOptions `yaml:"read"`
	Pairs    string              `yaml:"pairs" help:"which prediction belongs to which reference, where names do not tell: a CSV file with the columns prediction and reference, or a pattern of paths as they are below the two folders, such as *_pred.nii.gz=*_manual.nii.gz"`
	AllDrawn bool                `yaml:"all_drawn" help:"where a case of the references does not name a structure that others have, it is not in the patient; otherwise nobody drew it, and it is not scored there"`
	Missing  string              `yaml:"missing" help:"references without a prediction: error; missed, which scores them as if nothing had been found (DSC 0, infinite distances); or left-out, for predictions of some cases alone" oneof:"error missed left-out"`
	AnyScan  bool                `yaml:"any_scan" help:"compare label maps even if they say that they are of different scans: right where the files of a scan were written anew, such as compressed"`
	Memory   gibibytes           `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has. A case whose label maps, or the distances of a label, need more fails, and the others go on"`
	Out      string              `yaml:"out" help:"folder for scores.csv, scores.json, scores.md and the page scores.html: a box plot of every label, pictures of the cases with the lowest DSC"`
	JSON     bool                `yaml:"json" help:"print the scores as JSON"`
}

func newEvaluate() *cobra.Command {
	o := &evaluateOptions{
		Metrics: eval.DefaultOptions(),
		Read:    dataset.DefaultReadOptions(),
		Missing: pairing.MissingIsError,
	}
	cmd := verb("evaluate PREDICTIONS REFERENCES", "Compare label maps with references: DSC, HD95, ASSD, NSD, volumes",
		`Compares label maps with references, label by label: Dice (DSC), 95th percentile and maximum of
the Hausdorff distance (HD95, HD), average symmetric surface distance (ASSD), normalised surface Dice
(NSD) at a tolerance, volumes. PREDICTIONS and REFERENCES are two files, or two folders whose files have
the same names: NIfTI, DICOM SEG objects, or RT structure sets. RT structure sets, and SEG objects on
both sides, need the series that they refer to: --scans. REFERENCES may be a data set in any layout that
prepare reads (labels beside their scans, a file for each organ, BIDS, nnU-Net, ...): predictions have
the names of its cases, as predict writes them. A folder with a mask for each structure of one case, such
as TotalSegmentator's segmentations/, is one label map. --pairs says what belongs together where names do
not. Labels go by their names where both sides have them, in the file or in a dataset.json; otherwise by
their numbers. A reference without a prediction is an error, unless --missing says that it is to be
counted as missed, or left out.`,
		`  voxsaw evaluate predictions/ labelsTs/ --tolerance 2 --out scores
  voxsaw evaluate predictions/ TotalSegmentator/
  voxsaw evaluate predictions/s0011.nii.gz s0011/segmentations`,
		cobra.ExactArgs(2), o, func(cmd *cobra.Command, args []string) error {
			return runEvaluate(cmd.Context(), *o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

func runEvaluate(ctx context.Context, o evaluateOptions, predictions, references string, stdout,
	stderr io.Writer) error {
	if err := o.Metrics.Check(); err != nil {
		return config.Mistaken(err)
	}
	o.Memory.limitAll()
	ranks := jobOf(ctx)
	if o.Out != "" { // before the work
		var err error
		leave := func() {}
		if !ranks.silent() { // rank 0 writes
			leave, err = evaluation.Reserve(o.Out)
		}
		if err = train.GroupOf(voxsaw.RunOptions{Ranks: ranks.ranks()}).Agree(err); err != nil {
			return err
		}
		defer leave()
	}
	pairs, err := pairing.Find(predictions, references, o.Pairs, o.AllDrawn)
	if err != nil {
		return err
	}
	for _, note := range pairs.Notes {
		say(stderr, "%s", note)
	}
	for _, path := range pairs.Unreferenced {
		say(stderr, "%s: no reference of that name, left out", path)
	}
	note, err := pairs.Settle(o.Missing, predictions)
	if err != nil {
		return err
	}
	sayNote(stderr, note)
	if predicted := pairs.PredictedReferences(); len(predicted) > 0 {
		say(stderr, "WARNING: %s: nobody drew the predictions of voxsaw that are compared with as references: %s",
			references, list(predicted))
	}
	for _, note := range pairs.Learnt() {
		say(stderr, "WARNING: %s", note)
	}
	if err := sameEvaluation(ranks, o, pairs); err != nil {
		return err
	}
	if !o.AnyScan {
		if err := pairs.CheckScans(); err != nil {
			return err
		}
	}
	if err := pairs.CompareDigests(); err != nil {
		return err
	}
	scores, failed, err := comparePairs(ctx, ranks, o, pairs.Both, stderr)
	if err != nil || ranks.silent() {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(failed.why)) {
		pairs.Failed++
		pairs.Nowhere = append(pairs.Nowhere, fmt.Sprintf("not compared, and in no score: %s: %s", name,
			failed.why[name]))
	}
	eval.Sort(scores)
	pairs.NoteUnpredicted(scores, o.Metrics.Merge)
	for _, note := range pairs.Nowhere {
		say(stderr, "WARNING: %s", note)
	}
	perCase, perLabel := table.PerCase(scores), table.PerLabel(scores)
	if failed.stopped > 0 { // a part is printed, and not taken for the whole in a folder
		say(stderr, "WARNING: stopped: these are the scores of %d of %s; the other %d are in no mean",
			failed.of-failed.stopped, numbers.Count(failed.of, "case"), failed.stopped)
	} else if o.Out != "" {
		page := report.Scores("Evaluation", fmt.Sprintf("%s compared with %s", predictions, references), scores,
			pairs.Remarks(), sheetOfPairs(pairs.Both, scores, references, o,
				func(text string) { say(stderr, "%s", text) }).
				Section("Worst cases first", "The slices with the largest errors. "+filled)...)
		err = writeScores(o.Out, perCase, perLabel, page)
	}
	if o.JSON {
		return errors.Join(perCase.JSON(stdout), err, failed.error(), failed.label)
	}
	return errors.Join(printTable(stdout, perCase), printTable(stdout, perLabel), err, failed.error(), failed.label)
}

// failedPairs are the pairs that could not be compared, by their names, beside others that were;
// and what is wrong with a label that was asked for, and that no pair knows.
type failedPairs struct {
	first   error
	of      int // all pairs
	why     map[string]string
	stopped int   // pairs that nobody came to, because of
	cause   error // such as that somebody interrupted the work
	label   error
}

func (f failedPairs) error() error {
	switch n := len(f.why); {
	case f.stopped > 0:
		return fmt.Errorf("stopped after %d of %s: %w", f.of-f.stopped, numbers.Count(f.of, "case"), f.cause)
	case n == 0:
		return nil
	default:
		var more []string
		if n > 1 {
			more = append(more, fmt.Sprintf("the first of %d cases that could not be compared", n))
		}
		switch others := f.of - n; others {
		case 0:
		case 1:
			more = append(more, "the scores of the other one are complete")
		default:
			more = append(more, fmt.Sprintf("the scores of the other %d are complete", others))
		}
		if len(more) == 0 {
			return f.first
		}
		return fmt.Errorf("%w (%s)", f.first, strings.Join(more, "; "))
	}
}

// evaluation has what evaluate leaves in a folder.
var evaluation = outdir.Owner{Name: "voxsaw evaluate",
	Files: []string{"scores.csv", "scores.json", "scores.md", "scores.html"}}

// writeScores writes the scores into a folder that this process holds. None of the files of an
// earlier evaluation stays beside those of this one.
func writeScores(folder string, perCase, perLabel table.Table, page report.Report) error {
	if err := evaluation.Take(folder); err != nil {
		return err
	}
	writers := []func(io.Writer) error{
		perCase.CSV, perCase.JSON, func(w io.Writer) error {
			return errors.Join(perLabel.Markdown(w),
				perCase.Markdown(w))
		}, page.HTML,
	}
	var failed []error // one file that cannot be made does not keep the others from it
	var parts []atomicfile.File
	for n, name := range evaluation.Files {
		path := filepath.Join(folder, name)
		var text bytes.Buffer
		if err := writers[n](&text); err != nil {
			failed = append(failed, fmt.Errorf("writing %s: %w", path, err))
			continue
		}
		parts = append(parts, atomicfile.File{Path: path, Write: func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		}})
	}
	replace := func() error { return atomicfile.RemoveFrom(folder, evaluation.Files...) }
	if err := errors.Join(append(failed, atomicfile.WriteTogether(replace, parts...))...); err != nil {
		return err
	}
	return evaluation.Seal(folder)
}

// sameEvaluation makes sure that all ranks are about to compare the same label maps.
func sameEvaluation(j *job, o evaluateOptions, pairs pairing.Pairs) error {
	settings, err := config.Marshal(&o)
	if err != nil {
		return err
	}
	files := sha256.New()
	for _, p := range pairs.Both {
		fmt.Fprintln(files, p.Name, p.Prediction.Path, p.Reference.Path)
	}
	return train.GroupOf(voxsaw.RunOptions{Ranks: j.ranks()}).Same(map[string]string{
		"version": voxsaw.Version(), "settings": string(settings),
		"label maps": fmt.Sprintf("%d, digest %.16x", len(pairs.Both), files.Sum(nil)),
	})
}

// comparePairs reads every pair of label maps and scores it. Ranks share out the pairs; each is
// given the scores of all. A pair that cannot be compared does not keep the others from it; where
// none can, that is the error. Where somebody stops the work, the scores are those that were there.
func comparePairs(ctx context.Context, j *job, o evaluateOptions, pairs []pairing.Pair, stderr io.Writer) ([]eval.Score,
	failedPairs, error) {
	failed := failedPairs{of: len(pairs), why: map[string]string{}}
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	progress := terminal.NewProgress(stderr, "evaluate", len(pairs))
	defer progress.Finish()
	ranks := train.GroupOf(voxsaw.RunOptions{Ranks: j.ranks()})
	here := make([]bool, len(pairs)) // whether this rank has compared a pair
	note := func(s pairing.Scores) {
		for _, text := range s.Notes {
			progress.Note(text)
		}
	}
	all, err := train.Divide(ctx, ranks, len(pairs), func(ctx context.Context, i int) (pairing.Scores, error) {
		if ctx.Err() != nil {
			return pairing.Scores{Stopped: true}, nil
		}
		s, err := comparePair(pairs[i], scans, o)
		if errors.Is(err, dataset.ErrNoScans) || len(pairs) == 1 {
			if err != nil { // no other would fare better
				return s, err
			}
		}
		if err != nil {
			s = pairing.Scores{Failed: err.Error()}
			if failed.first == nil {
				failed.first = err
			}
		}
		here[i] = true
		note(s)
		// the other ranks, which have a case each, are about as far
		progress.Add(min(max(ranks.Size, 1), len(pairs)-i))
		return s, nil
	})
	if err != nil {
		return nil, failed, err
	}
	var scores []eval.Score
	wanted := pairing.NewWanted(o.Metrics.Labels)
	for i, s := range all {
		if s.Stopped {
			failed.stopped, failed.cause = failed.stopped+1, cmp.Or(ctx.Err(), context.Canceled)
			continue
		}
		if !here[i] {
			note(s)
		}
		if s.Failed != "" {
			failed.why[pairs[i].Name] = s.Failed
			if failed.first == nil { // of another rank
				failed.first = errors.New(s.Failed)
			}
			continue
		}
		scores = append(scores, s.Scores...)
		wanted.Add(pairs[i].Name, s)
	}
	progress.Finish()
	switch {
	case failed.stopped == len(pairs) && failed.stopped > 0:
		return nil, failed, failed.error()
	case len(failed.why) == len(pairs)-failed.stopped && failed.first != nil:
		return nil, failed, errors.Join(failed.first, failed.cause)
	}
	notes, err := wanted.Settle()
	for _, note := range notes {
		say(stderr, "%s", note)
	}
	failed.label = err
	if len(scores) == 0 {
		return nil, failed, failed.label
	}
	return scores, failed, nil
}

// comparePair reads a pair of label maps and scores it.
func comparePair(p pairing.Pair, scans *dataset.Scans, o evaluateOptions) (pairing.Scores, error) {
	err := memory.Check(dataset.PairMemory(p.Prediction, p.Reference))
	var prediction, reference *volume.LabelMap
	var notes []string
	if err == nil {
		prediction, reference, notes, err = p.Read(scans, o.Read)
	}
	if tooMuch := (*memory.Error)(nil); errors.As(err, &tooMuch) {
		return pairing.Scores{}, fmt.Errorf("case %s, %s: %w", p.Name, p.Reference.Path, tooMuch)
	}
	if errors.Is(err, dataset.ErrNoScans) {
		return pairing.Scores{}, withHint(err, "add --scans FOLDER, where the DICOM series are that were segmented")
	}
	if err != nil {
		return pairing.Scores{}, err
	}
	s, err := pairing.Compare(p.Name, prediction, reference, o.Metrics) // an error names the case
	s.Notes = notes
	return s, err
}

// printTable writes a table of results to the terminal.
func printTable(w io.Writer, t table.Table) error {
	header, rows := t.Text()
	right := make([]bool, len(header))
	for i := range right {
		right[i] = t.Numeric(i)
	}
	return terminal.Table(w, terminal.TableData{Title: t.Title, Header: header, Rows: rows, Right: right,
		Notes: t.Notes})
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/viewer"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type viewOptions struct {
	Predictions string              `yaml:"predictions" help:"folder of label maps to show with the cases; empty: of a trial those that it has kept"`
	Scores      string              `yaml:"scores" help:"folder of evaluate --out, or scores.csv: worst first; empty: of a trial its own"`
	Port        int                 `yaml:"port" help:"of this machine to listen on; 0: any that is free" range:"[0,65535]"`
	Read        dataset.ReadOptions `yaml:"read"`
}

func newView() *cobra.Command {
	o := &viewOptions{Read: dataset.DefaultReadOptions()}
	return verb("view RUN|SCANS|PREPARED", "Show curves, scans and label maps in the browser of this machine",
		`Prints the address of a page and shows it until Ctrl-C: the curves of a run as it trains and its
held-out cases, the scans of a folder or a data set, or prepared cases; with the labels that are there,
and the predictions of --predictions. With --scores the worst case comes first, else the one that
quality.csv beside the predictions doubts most. A trial of crossval brings its predictions and scores
along. The curves of a pretraining have its task beside them, on a case that it has not learnt from: a
puzzle round by round. The page is for this machine alone: it listens on the loopback interface, its
address has a token, and nothing on it is fetched from elsewhere. Mouse: click moves the crosshair, wheel
goes through slices, right drag sets the window. Keys: up and down another case, P prediction (filled), R
reference (outlined), O outlines of both or none, V planes, S screenshot, C curves. A scan that is
dropped on the page is shown, too. Label maps are corrected by 3D Slicer or ITK-SNAP: Copy path gives
their paths, and prepare --labels-corrected takes what was corrected.`,
		`  voxsaw view runs/organs
  voxsaw view imagesTs/ --predictions labels/ --scores scores/`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error { return runView(cmd, *o, args[0]) })
}

func runView(cmd *cobra.Command, o viewOptions, path string) error {
	site, done, err := o.site(cmd.Context(), path, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer done()
	shown := numbers.Count(len(site.Cases), "case")
	if len(site.Cases) == 0 && site.Curves != nil {
		shown = "the curves"
	}
	var failed error
	err = viewer.Serve(cmd.Context(), o.Port, site, func(address string) {
		_, failed = fmt.Fprintln(cmd.OutOrStdout(), address)
		say(cmd.ErrOrStderr(), "%s to be seen at this address, on this machine alone; Ctrl-C ends it", shown)
		if at, err := url.Parse(address); err == nil && os.Getenv("SSH_CONNECTION") != "" {
			say(cmd.ErrOrStderr(), "on the machine that you have come from: ssh -N -L %[1]s:127.0.0.1:%[1]s and the "+
				"name of this machine, and the same address there", at.Port())
		}
	})
	return cmp.Or(err, failed)
}

// site is the pages of a path; they can be shown until done is called.
func (o viewOptions) site(ctx context.Context, path string, stderr io.Writer) (site viewer.Site, done func(),
	err error) {
	site.Title = experiment.NameOf(path)
	tell := sayOnce(stderr)
	site.Failed = func(name string, err error) { tell(fmt.Sprintf("%s cannot be shown: %v", name, err)) }
	var open []func()
	done = func() {
		for _, f := range slices.Backward(open) {
			f()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	data := path
	run := train.Begun(path)
	var task *taskPicture
	if run {
		if data, err = dataOfRun(path); err != nil {
			return site, done, err
		}
		o = o.ofRun(path, stderr)
		site.Curves = func(w io.Writer) error { return pageOfRun(path, task, w) }
	}
	var readMap func(name, path string) (*volume.LabelMap, error) // a label map of a case's scan
	store, err := prepared.Open(data)
	if err == nil {
		readMap = func(name, path string) (*volume.LabelMap, error) {
			r, _ := store.Record(name)
			l, err := dataset.ReadLabelMapOf(r, path, o.Read)
			if err == nil {
				tell(dataset.DoubtOf(r, path, l.Grid))
			}
			return l, err
		}
	}
	switch {
	case err == nil && run:
		site.Cases = casesOfRun(path, store, stderr)
		task = &taskPicture{checkpoint: train.Last(path), look: onCases(ctx, store)}
		open = append(open, func() { store.Close() }, task.close)
	case err == nil:
		site.Cases = preparedCases(store, nil)
		open = append(open, func() { store.Close() })
	case run:
		if photographs, none := photos.Open(data); none == nil {
			task = &taskPicture{checkpoint: train.Last(path), look: onPhotographs(ctx, photographs)}
			open = append(open, func() { photographs.Close() }, task.close)
			break
		}
		say(stderr, "without the cases of the run: %v", err)
	default:
		found, why := dataset.Detect(path, dataset.Options{})
		if why != nil {
			return site, done, withHint(why, "%s", hintOfView(path))
		}
		if site.Cases, err = o.scans(found, stderr); err != nil {
			return site, done, err
		}
		readMap = func(name, path string) (*volume.LabelMap, error) {
			at := slices.IndexFunc(found.Cases, func(c dataset.Case) bool { return c.ID == name })
			l, err := found.Cases[at].ReadLabelMap(path, o.Read)
			if err == nil {
				tell(found.Cases[at].Doubt(path, l.Grid))
			}
			return l, err
		}
	}
	if err = o.addPredictions(site.Cases, readMap); err != nil {
		return site, done, err
	}
	site.Cases, err = o.worstFirst(site.Cases)
	return site, done, err
}

// sayOnce warns of each thing once, of "" never, from several goroutines.
func sayOnce(stderr io.Writer) func(text string) {
	var mutex sync.Mutex
	told := map[string]bool{}
	return func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		if text != "" && !told[text] {
			told[text] = true
			say(stderr, "WARNING: %s", text)
		}
	}
}

// hintOfView says what to name instead of a path that holds no scan.
func hintOfView(path string) string {
	if maps, err := pairing.Files(path); err == nil && allLabels(maps) {
		return fmt.Sprintf("label maps are shown with their scans: voxsaw view SCANS --predictions %s",
			hint.Word(path))
	}
	return hintOfRuns(path, "name the folder of a run, of scans, or of prepared cases")
}

// allLabels says whether all files are label maps, by what they say or by their values.
func allLabels(files map[string]string) bool {
	for _, path := range files {
		if _, predicted := provenance.Read(path); predicted {
			continue
		}
		if labels, err := nifti.MayBeLabels(path, nifti.Options{}); err != nil || !labels {
			return false
		}
	}
	return true
}

// preparedCases are the cases of a store, or those that are wanted.
func preparedCases(store *prepared.Store, wanted []string) (cases []viewer.Case) {
	how, names := store.Preparation(), store.LabelNames()
	for r := range store.Records() {
		if len(wanted) > 0 && !slices.Contains(wanted, r.ID) {
			continue
		}
		c := viewer.Case{Name: r.ID, Labels: names, Scan: func() (*volume.Volume, error) {
			c, err := store.Open(r.ID)
			if err != nil {
				return nil, err
			}
			return c.Volume()
		}}
		if opened, err := store.Open(r.ID); err == nil {
			c.Window = report.Shown(how.Channel(0), opened.Intensities(0))
		}
		if len(r.Sources) > 0 {
			c.Path = absolute(r.Sources[0].Path)
		}
		if r.HasLabels {
			c.Reference = func() (*volume.LabelMap, error) {
				c, err := store.Open(r.ID)
				if err != nil {
					return nil, err
				}
				return c.LabelMap()
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// absolute is the path of a file for a program that is started elsewhere. Where nothing is there,
// it is left as it is: prepared cases may have been made in another folder.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil && isThere(full) {
		return full
	}
	return path
}

// scans are the cases of a data set. What cannot be read is said, as far as headers tell; where
// nothing can, that is an error.
func (o viewOptions) scans(found *dataset.Dataset, stderr io.Writer) (cases []viewer.Case, err error) {
	var wrong []error
	for _, c := range found.Cases {
		one := viewer.Case{Name: c.ID, Path: absolute(c.Image), Labels: found.LabelNames}
		one.Scan = func() (*volume.Volume, error) {
			v, _, err := c.ReadImage(o.Read)
			return v, err
		}
		if c.Labels != "" {
			one.Reference = func() (*volume.LabelMap, error) {
				_, l, err := c.ReadQuietly(o.Read, found.LabelNames)
				return l, err
			}
		}
		if err := c.CheckHeader(); err != nil {
			one.Text = "cannot be read"
			wrong = append(wrong, err)
		}
		cases = append(cases, one)
	}
	if len(cases) == 1 && len(wrong) == 0 { // to the end: there is nothing else to see
		_, err := cases[0].Scan()
		return cases, err
	}
	if len(wrong) == len(cases) {
		return nil, errors.Join(wrong...)
	}
	for _, err := range wrong {
		say(stderr, "WARNING: %v", err)
	}
	return cases, nil
}

// addPredictions gives cases the label maps that have their names, which read reads.
func (o viewOptions) addPredictions(cases []viewer.Case, read func(name, path string) (*volume.LabelMap, error)) error {
	if o.Predictions == "" || len(cases) == 0 {
		return nil
	}
	files, err := pairing.Files(o.Predictions)
	if err != nil {
		return err
	}
	given := 0
	for n := range cases {
		path, ok := files[dataset.FileName(cases[n].Name)]
		if !ok {
			continue
		}
		given++
		cases[n].PredictionPath = absolute(path)
		var numbers map[uint16]uint16
		cases[n].Labels, numbers = numberedAs(cases[n].Labels, format.NamesIn(path))
		cases[n].Prediction = func() (*volume.LabelMap, error) {
			l, err := read(cases[n].Name, path)
			if err == nil && len(numbers) > 0 {
				for i, label := range l.Labels {
					if to, other := numbers[label]; other {
						l.Labels[i] = to
					}
				}
			}
			return l, err
		}
	}
	if given == 0 {
		return withHint(fmt.Errorf("no label map in %s has the name of a case", o.Predictions),
			"a prediction is called after its case, such as %s.nii.gz", dataset.FileName(cases[0].Name))
	}
	return nil
}

// numberedAs gives the labels of a prediction the numbers that a case has for their names, and free
// numbers to those whose names the case does not have: what a number means in a file, its names
// say. all are the names of both. Labels without a name, or called after their number, keep it.
func numberedAs(known, own map[uint16]string) (all map[uint16]string, numbers map[uint16]uint16) {
	if len(known) == 0 {
		return own, nil
	}
	all, numbers = maps.Clone(known), map[uint16]uint16{}
	of := map[string]uint16{}
	for label, name := range known {
		of[safetext.Fold(name)] = label
	}
	free := max(slices.Max(slices.Collect(maps.Keys(known))), slices.Max(append(slices.Collect(maps.Keys(own)), 0)))
	for _, label := range slices.Sorted(maps.Keys(own)) {
		name := own[label]
		to, there := of[safetext.Fold(name)]
		if label == 0 || name == "" || name == fmt.Sprintf("label %d", label) {
			continue
		}
		if !there {
			if free == math.MaxUint16 {
				continue
			}
			free++
			to, all[free] = free, name
		}
		if to != label {
			numbers[label] = to
		}
	}
	return all, numbers
}

// worstFirst puts the cases in the order of their scores, those without any at the end.
func (o viewOptions) worstFirst(cases []viewer.Case) ([]viewer.Case, error) {
	if o.Scores == "" {
		return cases, o.doubtfulFirst(cases)
	}
	path := o.Scores
	if isDir(path) {
		path = filepath.Join(path, "scores.csv")
	}
	text, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return nil, err
	}
	scores, err := table.ReadScores(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	order, means := report.WorstFirst(scores)
	at := map[string]int{}
	for n, name := range order {
		at[name] = n
	}
	for n := range cases {
		if dsc, ok := means[cases[n].Name]; ok {
			cases[n].Text = "DSC " + table.Rounded(dsc, 4)
		}
	}
	place := func(c viewer.Case) int {
		if n, ok := at[c.Name]; ok {
			return n
		}
		return len(at)
	}
	slices.SortStableFunc(cases, func(a, b viewer.Case) int { return place(a) - place(b) })
	return cases, nil
}

// doubtfulFirst orders cases by the quality list that predict leaves beside its label maps: first
// those with the most flags, then those with the lowest estimate of their DSC.
func (o viewOptions) doubtfulFirst(cases []viewer.Case) error {
	if o.Predictions == "" || !isDir(o.Predictions) {
		return nil
	}
	path := filepath.Join(o.Predictions, quality.File)
	text, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, err := table.Read(bytes.NewReader(text), "quality of label maps", "case", "label", "structure", "flag",
		"dsc_estimate")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	type doubt struct {
		flags  []string
		lowest float64 // estimate of DSC, in percent
	}
	doubts := map[string]doubt{}
	for _, row := range rows {
		d, known := doubts[row["case"]]
		if !known {
			d.lowest = 100
		}
		if row["flag"] != "" {
			d.flags = append(d.flags, cmp.Or(row["structure"], "label "+row["label"])+": "+row["flag"])
		}
		if x, err := strconv.ParseFloat(row["dsc_estimate"], 64); err == nil {
			d.lowest = min(d.lowest, x)
		}
		doubts[row["case"]] = d
	}
	for n := range cases {
		cases[n].Text = strings.Join(doubts[cases[n].Name].flags, "; ")
	}
	of := func(c viewer.Case) doubt {
		if d, known := doubts[c.Name]; known {
			return d
		}
		return doubt{lowest: 100}
	}
	slices.SortStableFunc(cases, func(a, b viewer.Case) int {
		x, y := of(a), of(b)
		return cmp.Or(len(y.flags)-len(x.flags), cmp.Compare(x.lowest, y.lowest))
	})
	return nil
}

package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: whether the data sets of a plan are there, and how long it will take, before anything
// is done.

// A Source is a published data set, as it lies on disk when it has been fetched, and how the
// prepared cases of the plan are made of it.
type Source struct {
	Data    string         `yaml:"data" help:"folder of prepared cases, as the plan or an initialisation names it"`
	What    string         `yaml:"what" help:"what it is, and who publishes it"`
	Layout  string         `yaml:"layout" help:"layout of the data set" oneof:"nih msd nnunet"`
	Named   string         `yaml:"named,omitempty" help:"part of its folder's name, where several have the layout"`
	Cases   int            `yaml:"cases" help:"scans that it has to train on"`
	Prepare config.Section `yaml:"prepare,omitempty" help:"settings of voxsaw prepare"`
}

// The states of a source.
const (
	SourcePrepared = "prepared"
	SourceRaw      = "as published"
	SourceMissing  = "missing"
)

// A Found is a source as it was found.
type Found struct {
	Source
	State  string
	Folder string // of the prepared cases, there or to be made
	Raw    string // where it lies as published; "" if it is not there
	Labels string // of layout nih: the folder of labels, where that is another
	There  int    // cases to train on
	Note   string // what is wrong with it; "" if nothing is
}

// Below puts a folder before the plan's relative paths of data, splits and checkpoints.
func (p *Plan) Below(root string) {
	join := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(root, *path)
		}
	}
	p.Sources = append([]Source(nil), p.Sources...)
	for n := range p.Sources {
		join(&p.Sources[n].Data)
	}
	p.Inits = append([]Initialisation(nil), p.Inits...)
	for n := range p.Inits {
		join(&p.Inits[n].Data)
		join(&p.Inits[n].Checkpoint)
	}
	join(&p.Data)
	join(&p.Splits)
}

// checkSources says which source the plan does not use, or is of a folder that is used twice.
func (p Plan) checkSources() error {
	used, seen := map[string]bool{p.Data: true}, map[string]bool{}
	for _, i := range p.Inits {
		used[i.Data] = true
	}
	for _, s := range p.Sources {
		switch {
		case !used[s.Data]:
			return fmt.Errorf("sources: data is %q, which neither the plan nor an initialisation has as data", s.Data)
		case seen[s.Data]:
			return fmt.Errorf("sources: there are two for %s", s.Data)
		case s.Cases < 1:
			return fmt.Errorf("sources: %s: cases is %d, must be at least 1", s.Data, s.Cases)
		}
		seen[s.Data] = true
	}
	return nil
}

// Find looks for the plan's sources: prepared already, or as published anywhere in a folder.
func (p Plan) Find(ctx context.Context, root string) ([]Found, error) {
	if len(p.Sources) == 0 {
		return nil, errors.New("the plan has no section sources: it does not say what data sets it is of")
	}
	if _, err := os.ReadDir(root); err != nil {
		return nil, fmt.Errorf("the folder of the data sets: %w", err)
	}
	var all []Found
	for _, s := range p.Sources {
		f, err := s.find(ctx, root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.What, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func (s Source) find(ctx context.Context, root string) (Found, error) {
	f := Found{Source: s, Folder: s.Data, State: SourceMissing}
	store, err := prepared.Open(s.Data)
	switch {
	case err == nil:
		defer store.Close()
		f.State = SourcePrepared
		for r := range store.Records() {
			if r.Group == "" {
				f.There++
			}
		}
		f.count()
		return f, nil
	default: // damaged, or not finished: preparing goes on or says why not
		if _, missing := os.Stat(s.Data); missing == nil {
			f.Note = err.Error()
		}
	}
	if f.Raw, f.Labels, err = s.look(ctx, root); err != nil || f.Raw == "" {
		return f, err
	}
	d, err := dataset.Detect(f.Raw, dataset.Options{Layout: s.Layout, Labels: f.Labels})
	if err != nil {
		f.Note = err.Error()
		return f, nil
	}
	f.State = SourceRaw
	for _, c := range d.Cases {
		if c.Group == "" {
			f.There++
		}
	}
	f.count()
	return f, nil
}

// count says of how many cases there are too few or too many.
func (f *Found) count() {
	if f.There != f.Cases {
		f.Note = fmt.Sprintf("%d cases, published are %d", f.There, f.Cases)
	}
}

// What the folder of a layout holds.
var (
	nihScan   = regexp.MustCompile(`(?i)^pancreas_\d{4}(\.nii(\.gz)?)?$`)
	nihLabels = regexp.MustCompile(`(?i)^label\d{4}\.nii(\.gz)?$`)
)

// sourceDepth is how many folders deep data sets are looked for.
const sourceDepth = 5

// look finds a data set as published, by the names of files and folders alone.
func (s Source) look(ctx context.Context, root string) (scans, labels string, err error) {
	if s.Layout != dataset.LayoutNIH {
		scans, err = Locate(ctx, root, s.Data, func(name string, children map[string]bool) bool {
			return children["imagesTr"] && children["dataset.json"] && strings.Contains(name, s.Named)
		})
		return scans, "", err
	}
	holds := func(pattern *regexp.Regexp) func(string, map[string]bool) bool {
		return func(_ string, children map[string]bool) bool {
			for name := range children {
				if pattern.MatchString(name) {
					return true
				}
			}
			return false
		}
	}
	if scans, err = Locate(ctx, root, s.Data, holds(nihScan)); err != nil || scans == "" {
		return scans, "", err
	}
	labels, err = Locate(ctx, root, s.Data, holds(nihLabels))
	if labels == scans || strings.HasPrefix(labels, scans+string(filepath.Separator)) {
		labels = "" // found with the scans
	}
	return scans, labels, err
}

// Locate finds the first folder in a folder, some levels deep, that is the one by its name and the
// names in it, without a look at one that is left out and what is below; "" if there is none.
// Folders that cannot be read hold nothing that could be used.
func Locate(ctx context.Context, root, without string,
	is func(name string, children map[string]bool) bool) (found string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if stopped := ctx.Err(); stopped != nil {
			return stopped
		}
		if err != nil || !entry.IsDir() {
			return nil
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if strings.Count(filepath.ToSlash(below), "/") >= sourceDepth || path == without ||
			path != root && (strings.HasPrefix(entry.Name(), ".") || nihScan.MatchString(entry.Name())) {
			return fs.SkipDir
		}
		if children, err := childrenOf(path); err == nil && is(entry.Name(), children) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

func childrenOf(path string) (map[string]bool, error) {
	entries, err := os.ReadDir(path)
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, err
}

// A Rehearsal is the arithmetic of a plan.
type Rehearsal struct {
	Trials, Encoders        int     // trainings and pretrainings
	Finetuning, Pretraining float64 // floating-point operations of all their steps
	// Rate is the operations that a step of fine-tuning does in a second on the device, measured on
	// small crops.
	Rate float64
}

// Time is how long the device takes for the steps.
func (r Rehearsal) Time() time.Duration {
	return time.Duration((r.Finetuning + r.Pretraining) / r.Rate * float64(time.Second))
}

// Rehearse counts the arithmetic of a plan, without its data: its networks are made ready for
// made-up patients, and a few steps are timed.
func (p Plan) Rehearse(ctx context.Context, dev voxsaw.Device) (r Rehearsal, err error) {
	folder, err := os.MkdirTemp("", "voxsaw-rehearsal")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	cases := []string{"one", "two", "three", "four"}
	store, err := madeUp(folder, cases)
	if err != nil {
		return r, err
	}
	defer store.Close()
	data := sample.Data{Store: store, Train: cases}
	folds := p.Folds
	if len(p.RunFolds) > 0 {
		folds = len(p.RunFolds)
	} else if p.Splits != "" {
		text, err := smallfile.Read(p.Splits, smallfile.List)
		if err != nil {
			return r, err
		}
		var splits []json.RawMessage
		if err := json.Unmarshal(text, &splits); err != nil {
			return r, fmt.Errorf("%s: %w", p.Splits, err)
		}
		folds = len(splits)
	}
	of := func(c segment.Config) (segment.Config, error) {
		c.Labels = []string{fmt.Sprint(phantom.Pancreas)}
		return c.Resolve(store)
	}
	for _, i := range p.Inits {
		c, err := p.finetune(i)
		if err == nil {
			c, err = of(c)
		}
		if err != nil {
			return r, err
		}
		one, err := Rehearse(c.Train.Steps, func(o voxsaw.RunOptions) error {
			_, _, err := segment.Finetune(ctx, dev, c, data, "", o)
			return err
		})
		if err != nil {
			return r, fmt.Errorf("initialisation %s: finetune: %w", i.Name, err)
		}
		trials := folds * len(p.Fractions) * len(p.Seeds)
		r.Trials, r.Finetuning = r.Trials+trials, r.Finetuning+float64(trials)*one.FLOPs
		if !i.pretrains() {
			continue
		}
		chosen, err := p.pretext(i)
		if err != nil {
			return r, err
		}
		_, settings := pretext.Chosen(&chosen)
		if err = settings.Resolve(store.Preparation()); err == nil {
			one, err = Rehearse(settings.Common().Train.Steps, func(o voxsaw.RunOptions) error {
				_, err := settings.Pretrain(ctx, dev, data, o)
				return err
			})
		}
		if err != nil {
			return r, fmt.Errorf("initialisation %s: pretrain: %w", i.Name, err)
		}
		encoders := p.Encoders
		if i.Data == "" && p.Unlabelled == 0 {
			encoders *= folds
		}
		r.Encoders, r.Pretraining = r.Encoders+encoders, r.Pretraining+float64(encoders)*one.FLOPs
	}
	c, err := of(p.Finetune)
	if err == nil {
		r.Rate, err = rateOf(ctx, dev, c, data)
	}
	return r, err
}

// rateSteps are the steps that a rate is measured on, after the first.
const rateSteps = 3

// rateOf times steps on small crops.
func rateOf(ctx context.Context, dev voxsaw.Device, c segment.Config, data sample.Data) (float64, error) {
	b, err := backbone.Of(c.Network)
	if err != nil {
		return 0, err
	}
	for axis, multiple := range b.Multiple() {
		c.Crop[axis] = min(c.Crop[axis], max(2*multiple, 32/multiple*multiple))
	}
	c.Batch, c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 1, 1+rateSteps, 0, 0
	c.Train.Accumulate = 0
	step, err := Rehearse(1, func(o voxsaw.RunOptions) error {
		_, _, err := segment.Finetune(ctx, dev, c, data, "", o)
		return err
	})
	if err != nil {
		return 0, err
	}
	var watch StepClock
	if _, _, err = segment.Finetune(ctx, dev, c, data, "", voxsaw.RunOptions{Observer: &watch}); err != nil {
		return 0, err
	}
	return watch.Rate(step.FLOPs), nil
}

// A StepClock is an observer that knows when each step ended.
type StepClock struct{ at []time.Duration }

// Started implements [voxsaw.Observer], as the methods below do.
func (*StepClock) Started(int, int) {}

func (s *StepClock) Stepped(p voxsaw.Progress)            { s.at = append(s.at, p.Elapsed) }
func (*StepClock) Validated(int, voxsaw.Validation, bool) {}
func (*StepClock) Saved(string, int)                      {}
func (*StepClock) Note(string)                            {}

// Rate is the operations in a second, given those of a step. The first step, which makes itself
// ready, is left out.
func (s *StepClock) Rate(flops float64) float64 {
	n := len(s.at) - 1
	return flops * float64(n) / max(s.at[n]-s.at[0], time.Microsecond).Seconds()
}

// madeUp prepares made-up patients.
func madeUp(folder string, names []string) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for n, name := range names {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{48, 40, 40}})
		if err != nil {
			return nil, err
		}
		if _, err := w.Add(prepared.Input{ID: name, Image: scan, Labels: organs}); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}

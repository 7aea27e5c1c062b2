package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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

// Paths are those that the plan names.
func (p *Plan) Paths() Paths {
	all := Paths{{What: "data", At: &p.Data}, {What: "splits", At: &p.Splits, Else: true}}
	for n := range p.Inits {
		i := &p.Inits[n]
		all = append(all, Path{"checkpoint of initialisation " + i.Name, &i.Checkpoint, true},
			Path{"data of initialisation " + i.Name, &i.Data, false})
	}
	return all
}

// checkSources says what is wrong with the plan's sources.
func (p Plan) checkSources() error {
	return p.Paths().CheckSources(p.Sources, func(s Source) error {
		if s.Photos != 0 || len(s.Holds) > 0 || !s.Propose.IsZero() {
			return errors.New("holds, photos and propose are of photographs: scans have a layout and cases")
		}
		if s.Cases < 1 {
			return fmt.Errorf("cases is %d, must be at least 1", s.Cases)
		}
		return nil
	})
}

// DataSets implements [Study].
func (p *Plan) DataSets() DataSets { return DataSets{p.Sources, ready, raw} }

// ready counts the prepared cases of a source.
func ready(s Source) (there int, err error) {
	store, err := prepared.Open(s.Data)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	for r := range store.Records() {
		if r.Group == "" {
			there++
		}
	}
	return there, nil
}

// raw looks for a source as published.
func raw(ctx context.Context, root string, f *Found) (err error) {
	if f.Raw, f.Labels, err = f.look(ctx, root); err != nil || f.Raw == "" {
		return err
	}
	d, err := dataset.Detect(f.Raw, dataset.Options{Layout: f.Layout, Labels: f.Labels})
	if err != nil {
		f.Note = err.Error()
		return nil
	}
	there := 0
	for _, c := range d.Cases {
		if c.Group == "" {
			there++
		}
	}
	f.State = SourceRaw
	f.Count(there)
	return nil
}

// What the folder of a layout holds.
var (
	nihScan   = regexp.MustCompile(`(?i)^pancreas_\d{4}(\.nii(\.gz)?)?$`)
	nihLabels = regexp.MustCompile(`(?i)^label\d{4}\.nii(\.gz)?$`)
)

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

// Rehearse counts the arithmetic of a plan, without its data: its networks are made ready for
// made-up patients, and a few steps are timed.
func (p Plan) Rehearse(ctx context.Context, dev voxsaw.Device) (r Rehearsal, err error) {
	r = Rehearsal{Works: []Work{{Name: "pretraining"}, {Name: "fine-tuning"}}, Without: "predictions and scores"}
	folder, err := os.MkdirTemp("", "voxsaw-rehearsal")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	cases, unlabelled := []string{"one", "two", "three", "four"}, []string{"five", "six"}
	store, err := madeUp(folder, cases, unlabelled)
	if err != nil {
		return r, err
	}
	defer store.Close()
	data := sample.Data{Store: store, Train: cases}
	tuned := func(c segment.Config) sample.Data {
		d := data
		if c.Unlabelled {
			d.Unlabelled = unlabelled
		}
		return d
	}
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
			_, _, err := segment.Finetune(ctx, dev, c, tuned(c), "", o)
			return err
		})
		if err != nil {
			return r, fmt.Errorf("initialisation %s: finetune: %w", i.Name, err)
		}
		trials := folds * len(p.Fractions) * len(p.Seeds)
		r.Of("fine-tuning").Add(trials*(1+i.Teachers), one.FLOPs)
		if !i.pretrains() {
			continue
		}
		chosen, err := p.pretext(i)
		if err != nil {
			return r, err
		}
		_, settings := pretext.Chosen(&chosen)
		if err = config.Mistaken(settings.Resolve(store.Preparation())); err == nil {
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
		r.Of("pretraining").Add(encoders, one.FLOPs)
	}
	c, err := of(p.Finetune)
	if err == nil {
		r.Rate, err = rateOf(ctx, dev, c, tuned(c))
	}
	return r, err
}

// rateOf times steps on small crops.
func rateOf(ctx context.Context, dev voxsaw.Device, c segment.Config, data sample.Data) (float64, error) {
	b, err := backbone.Of(c.Network)
	if err != nil {
		return 0, err
	}
	for axis, multiple := range b.Multiple() {
		c.Crop[axis] = min(c.Crop[axis], max(2*multiple, 32/multiple*multiple))
	}
	c.Batch, c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 1, RateSteps, 0, 0
	c.Train.Accumulate = 0
	return RateOf(func(o voxsaw.RunOptions) error {
		_, _, err := segment.Finetune(ctx, dev, c, data, "", o)
		return err
	})
}

// madeUp prepares made-up patients, with labels and without.
func madeUp(folder string, labelled, unlabelled []string) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for n, name := range slices.Concat(labelled, unlabelled) {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{48, 40, 40}})
		if err != nil {
			return nil, err
		}
		if n >= len(labelled) {
			organs = nil
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

package experiment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: whether the data sets of a plan are there, before anything is done.

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

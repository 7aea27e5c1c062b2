package photostudy

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// Paths are those of data that the plan names.
func (p *Plan) Paths() experiment.Paths {
	var all experiment.Paths
	add := func(what string, at *string) { all = append(all, experiment.Path{What: what, At: at}) }
	add("photos", &p.Photos)
	for n := range p.Transfer {
		t := &p.Transfer[n]
		add("data of transfer "+t.Name, &t.Data)
	}
	for n := range p.Finetune {
		f := &p.Finetune[n]
		add("data of finetune "+f.Name, &f.Data)
		add("proposals of finetune "+f.Name, &f.Proposals)
	}
	for n := range p.Arms {
		a := &p.Arms[n]
		add("photos of arm "+a.Name, &a.Photos)
	}
	return all
}

// checkSources says what is wrong with the plan's sources.
func (p Plan) checkSources() error {
	return p.Paths().CheckSources(p.Sources, func(s experiment.Source) error {
		if s.Layout != "" || s.Cases != 0 {
			return errors.New("layout and cases are of scans: photographs have holds and photos")
		}
		if len(s.Holds) == 0 {
			return errors.New("holds is empty: say what lies in the folder of the data set")
		}
		return nil
	})
}

// DataSets implements [experiment.Study].
func (p *Plan) DataSets() experiment.DataSets {
	return experiment.DataSets{Sources: p.Sources, Ready: ready, Raw: raw}
}

// ready counts the prepared photographs of a source. Nobody counts proposals.
func ready(s experiment.Source) (there int, err error) {
	if !s.Propose.IsZero() {
		_, err := os.Stat(s.Data)
		return experiment.Uncounted, err
	}
	store, err := photos.Open(s.Data)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.Len(), nil
}

// raw looks for a source as published.
func raw(ctx context.Context, root string, f *experiment.Found) (err error) {
	f.Raw, err = experiment.Locate(ctx, root, f.Data, func(name string, children map[string]bool) bool {
		return strings.Contains(name, f.Named) &&
			!slices.ContainsFunc(f.Holds, func(child string) bool { return !children[child] })
	})
	if f.Raw != "" {
		f.State, f.There = experiment.SourceRaw, experiment.Uncounted
	}
	return err
}

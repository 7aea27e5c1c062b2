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

// Below puts a folder before the plan's relative paths of data.
func (p *Plan) Below(root string) {
	p.Sources, p.Arms = slices.Clone(p.Sources), slices.Clone(p.Arms)
	p.Transfer, p.Finetune = slices.Clone(p.Transfer), slices.Clone(p.Finetune)
	for n := range p.Sources {
		experiment.Below(root, &p.Sources[n].Data)
	}
	for _, d := range p.data() {
		experiment.Below(root, d.path)
	}
}

// A named is a path of data that a plan names, and what it is.
type named struct {
	what string
	path *string
}

// data are the paths that the plan names.
func (p *Plan) data() []named {
	all := []named{{"photos", &p.Photos}}
	for n := range p.Transfer {
		t := &p.Transfer[n]
		all = append(all, named{"data of transfer " + t.Name, &t.Data})
	}
	for n := range p.Finetune {
		f := &p.Finetune[n]
		all = append(all, named{"data of finetune " + f.Name, &f.Data},
			named{"proposals of finetune " + f.Name, &f.Proposals})
	}
	for n := range p.Arms {
		a := &p.Arms[n]
		all = append(all, named{"photos of arm " + a.Name, &a.Photos})
	}
	return all
}

// Paths are the paths of data that the plan names: what each is, and the path.
func (p Plan) Paths() (all [][2]string) {
	for _, d := range p.data() {
		all = append(all, [2]string{d.what, *d.path})
	}
	return all
}

// checkSources says what is wrong with the plan's sources.
func (p Plan) checkSources() error {
	var used []string
	for _, d := range p.data() {
		used = append(used, *d.path)
	}
	return experiment.CheckSources(p.Sources, used, func(s experiment.Source) error {
		if s.Layout != "" || s.Cases != 0 {
			return errors.New("layout and cases are of scans: photographs have holds and photos")
		}
		if len(s.Holds) == 0 {
			return errors.New("holds is empty: say what lies in the folder of the data set")
		}
		return nil
	})
}

// Find looks for the plan's sources: prepared already, or as published anywhere in a folder.
func (p Plan) Find(ctx context.Context, root string) ([]experiment.Found, error) {
	return experiment.Finder{Ready: ready, Raw: raw}.Find(ctx, root, p.Sources)
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

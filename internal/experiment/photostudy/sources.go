package photostudy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// A Source is a published data set of photographs, as it lies on disk when it has been fetched, and
// how prepared ones, or boxes that may hold objects, are made of it.
type Source struct {
	Data    string         `yaml:"data" help:"folder of prepared photographs, or file of proposals, as the plan names it"`
	What    string         `yaml:"what" help:"what it is, and who publishes it"`
	Named   string         `yaml:"named,omitempty" help:"part of its folder's name, where several hold the same"`
	Holds   []string       `yaml:"holds,flow" help:"files and folders in its folder, by which it is known"`
	Photos  int            `yaml:"photos" help:"photographs that it has"`
	Prepare config.Section `yaml:"prepare,omitempty" help:"settings of voxsaw 2d prepare"`
	Propose config.Section `yaml:"propose,omitempty" help:"settings of voxsaw 2d propose, where data is a file of proposals"`
}

// proposes says whether a file of proposals is made of the source.
func (s Source) proposes() bool { return !s.Propose.IsZero() }

// A Location is where a source was found.
type Location struct {
	Source
	State string // see [experiment.SourcePrepared] and its like
	Raw   string // where it lies as published; "" where it was not looked for, or is not there
	There int    // photographs; 0 of proposals
	Note  string // what is odd about it
}

// Below puts a folder before the plan's relative paths of data.
func (p *Plan) Below(root string) {
	join := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(root, *path)
		}
	}
	p.Sources, p.Arms = slices.Clone(p.Sources), slices.Clone(p.Arms)
	p.Transfer, p.Finetune = slices.Clone(p.Transfer), slices.Clone(p.Finetune)
	join(&p.Photos)
	for n := range p.Sources {
		join(&p.Sources[n].Data)
	}
	for n := range p.Arms {
		join(&p.Arms[n].Photos)
	}
	for n := range p.Transfer {
		join(&p.Transfer[n].Data)
	}
	for n := range p.Finetune {
		join(&p.Finetune[n].Data)
		join(&p.Finetune[n].Proposals)
	}
}

// checkSources says which source the plan does not use.
func (p Plan) checkSources() error {
	used := []string{p.Photos}
	for _, a := range p.Arms {
		used = append(used, a.Photos)
	}
	for _, t := range p.Transfer {
		used = append(used, t.Data)
	}
	for _, f := range p.Finetune {
		used = append(used, f.Data, f.Proposals)
	}
	for n, s := range p.Sources {
		switch {
		case !slices.Contains(used, s.Data):
			return fmt.Errorf("sources: data is %q, which the plan has nowhere else", s.Data)
		case slices.ContainsFunc(p.Sources[:n], func(other Source) bool { return other.Data == s.Data }):
			return fmt.Errorf("sources: there are two for %s", s.Data)
		case len(s.Holds) == 0:
			return fmt.Errorf("sources: %s: holds is empty: say what lies in the folder of the data set", s.Data)
		}
	}
	return nil
}

// Find looks for the plan's sources: prepared already, or as published anywhere in a folder.
func (p Plan) Find(ctx context.Context, root string) (all []Location, err error) {
	if len(p.Sources) == 0 {
		return nil, errors.New("the plan has no section sources: it does not say what data sets it is of")
	}
	if _, err := os.ReadDir(root); err != nil {
		return nil, fmt.Errorf("the folder of the data sets: %w", err)
	}
	for _, s := range p.Sources {
		l := Location{Source: s, State: experiment.SourceMissing}
		if s.ready(&l) {
			all = append(all, l)
			continue
		}
		l.Raw, err = experiment.Locate(ctx, root, s.Data, func(name string, children map[string]bool) bool {
			return strings.Contains(name, s.Named) &&
				!slices.ContainsFunc(s.Holds, func(child string) bool { return !children[child] })
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.What, err)
		}
		if l.Raw != "" {
			l.State = experiment.SourceRaw
		}
		all = append(all, l)
	}
	return all, nil
}

// ready says whether a source is prepared, and what it then holds.
func (s Source) ready(l *Location) bool {
	if s.proposes() {
		_, err := os.Stat(s.Data)
		if err == nil {
			l.State = experiment.SourcePrepared
		}
		return err == nil
	}
	store, err := photos.Open(s.Data)
	if err != nil {
		if _, there := os.Stat(s.Data); there == nil {
			l.Note = err.Error()
		}
		return false
	}
	defer store.Close()
	l.State, l.There = experiment.SourcePrepared, store.Len()
	if l.There != s.Photos {
		l.Note = fmt.Sprintf("%d photographs, published are %d", l.There, s.Photos)
	}
	return true
}

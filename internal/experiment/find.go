package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: the data sets of any plan, of scans or of photographs, before anything is done.

// A Source is a published data set, as it lies on disk when it has been fetched, and how what a
// plan names is made of it: prepared cases or photographs, or boxes that may hold objects.
type Source struct {
	Data    string         `yaml:"data" help:"folder of what is prepared, or file of proposals, as the plan names it"`
	What    string         `yaml:"what" help:"what it is, and who publishes it"`
	Layout  string         `yaml:"layout,omitempty" help:"of scans: layout of the data set" oneof:"nih msd nnunet"`
	Named   string         `yaml:"named,omitempty" help:"part of its folder's name, where several look alike"`
	Holds   []string       `yaml:"holds,flow,omitempty" help:"of photographs: what lies in its folder, by which it is known"`
	Cases   int            `yaml:"cases,omitempty" help:"scans that it has to train on"`
	Photos  int            `yaml:"photos,omitempty" help:"photographs that it has"`
	Prepare config.Section `yaml:"prepare,omitempty" help:"settings of voxsaw prepare, or of voxsaw 2d prepare"`
	Propose config.Section `yaml:"propose,omitempty" help:"settings of voxsaw 2d propose, for a file of proposals"`
}

// Published is how many cases or photographs there are to be, and which they are.
func (s Source) Published() (n int, items string) {
	if s.OfPhotographs() {
		return s.Photos, "photographs"
	}
	return s.Cases, "cases"
}

// OfPhotographs says whether it is of photographs, or of boxes on them.
func (s Source) OfPhotographs() bool { return s.Photos != 0 || len(s.Holds) > 0 || !s.Propose.IsZero() }

// prepared counts what it holds that is prepared; an error says why it is not. Nobody counts
// proposals.
func (s Source) prepared() (there int, err error) {
	if !s.Propose.IsZero() {
		_, err := os.Stat(s.Data)
		return Uncounted, err
	}
	if s.OfPhotographs() {
		store, err := photos.Open(s.Data)
		if err != nil {
			return 0, err
		}
		defer store.Close()
		return store.Len(), nil
	}
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

// The states of a source.
const (
	SourcePrepared = "prepared"
	SourceRaw      = "as published"
	SourceMissing  = "missing"
)

// Uncounted is for what nobody has counted.
const Uncounted = -1

// A Found is a source as it was found.
type Found struct {
	Source
	State  string
	Raw    string // where it lies as published; "" where it was not looked for, or is not there
	Labels string // of layout nih: the folder of labels, where that is another
	There  int    // cases to train on, or photographs; or [Uncounted]
	Note   string // what is odd about it; "" if nothing is
}

// count takes down how many there are, and whether these are too few or too many.
func (f *Found) count(there int) {
	f.There = there
	if n, items := f.Published(); there != Uncounted && there != n {
		f.Note = fmt.Sprintf("%d %s, published are %d", there, items, n)
	}
}

// Find looks for the data sets of a plan: prepared already, or as published anywhere in a folder.
func Find(ctx context.Context, root string, sources []Source) (all []Found, err error) {
	if len(sources) == 0 {
		return nil, errors.New("the plan has no section sources: it does not say what data sets it is of")
	}
	if _, err := os.ReadDir(root); err != nil {
		return nil, fmt.Errorf("the folder of the data sets: %w", err)
	}
	for _, s := range sources {
		f := Found{Source: s, State: SourceMissing}
		there, err := s.prepared()
		if err == nil {
			f.State = SourcePrepared
			f.count(there)
			all = append(all, f)
			continue
		}
		// damaged, or not finished: preparing goes on or says why not
		if _, missing := os.Stat(s.Data); missing == nil {
			f.Note = err.Error()
		}
		if err := f.locate(ctx, root); err != nil {
			return nil, fmt.Errorf("%s: %w", s.What, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// A Path is one that a plan names: of data that a source may have, or of something else.
type Path struct {
	What string // such as "data of initialisation puzzles"
	At   *string
	Else bool
}

// Paths are those that a plan names.
type Paths []Path

// Named lists what each is, and the path.
func (all Paths) Named() (named [][2]string) {
	for _, p := range all {
		named = append(named, [2]string{p.What, *p.At})
	}
	return named
}

// CheckSources says which source a plan of scans or of photographs does not use, has twice, or
// could not find.
func (all Paths) CheckSources(sources []Source, photographs bool) error {
	for n, s := range sources {
		of := fmt.Sprintf("sources: %s: ", s.Data)
		switch {
		case !slices.ContainsFunc(all, func(p Path) bool { return !p.Else && *p.At == s.Data }):
			return fmt.Errorf("sources: data is %q, which the plan has nowhere else", s.Data)
		case slices.ContainsFunc(sources[:n], func(other Source) bool { return other.Data == s.Data }):
			return fmt.Errorf("sources: there are two for %s", s.Data)
		case !photographs && s.OfPhotographs():
			return errors.New(of + "holds, photos and propose are of photographs: scans have a layout and cases")
		case !photographs && s.Cases < 1:
			return fmt.Errorf("%scases is %d, must be at least 1", of, s.Cases)
		case photographs && (s.Layout != "" || s.Cases != 0):
			return errors.New(of + "layout and cases are of scans: photographs have holds and photos")
		case photographs && len(s.Holds) == 0:
			return errors.New(of + "holds is empty: say what lies in the folder of the data set")
		}
	}
	return nil
}

// Below puts a folder before the paths that are relative, and those of sources.
func (all Paths) Below(root string, sources []Source) {
	for n := range sources {
		all = append(all, Path{At: &sources[n].Data})
	}
	for _, p := range all {
		if *p.At != "" && !filepath.IsAbs(*p.At) {
			*p.At = filepath.Join(root, *p.At)
		}
	}
}

// locate looks for a source as published, below a folder. Where it is, State and Raw say so.
func (f *Found) locate(ctx context.Context, root string) (err error) {
	if f.Raw, f.Labels, err = f.look(ctx, root); err != nil || f.Raw == "" {
		return err
	}
	if f.OfPhotographs() {
		f.State, f.There = SourceRaw, Uncounted
		return nil
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
	f.count(there)
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
		wanted := s.Holds
		if !s.OfPhotographs() {
			wanted = []string{"imagesTr", "dataset.json"}
		}
		scans, err = locate(ctx, root, s.Data, func(name string, children map[string]bool) bool {
			return strings.Contains(name, s.Named) &&
				!slices.ContainsFunc(wanted, func(child string) bool { return !children[child] })
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
	if scans, err = locate(ctx, root, s.Data, holds(nihScan)); err != nil || scans == "" {
		return scans, "", err
	}
	labels, err = locate(ctx, root, s.Data, holds(nihLabels))
	if labels == scans || strings.HasPrefix(labels, scans+string(filepath.Separator)) {
		labels = "" // found with the scans
	}
	return scans, labels, err
}

// sourceDepth is how many folders deep data sets are looked for.
const sourceDepth = 5

// locate finds the first folder below root, some levels deep, that is the wanted one by its name
// and the names in it; "" if there is none. It does not look into the folder without. Folders that
// cannot be read hold nothing that could be used.
func locate(ctx context.Context, root, without string,
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

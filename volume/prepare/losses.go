package prepare

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file compares what cases were prepared to with what they would be prepared to now, so that
// nothing is lost unasked. It compares names of files and structures, not contents: a file that
// changed on disk is prepared again.

// A LossError says that preparing would replace cases of these scans, and lose their labels, some
// of their structures or the image that they were prepared from.
type LossError struct {
	Dir    string
	Cases  []string
	Losses []string // such as "the labels of p1, p2"
}

func (e *LossError) Error() string {
	return fmt.Sprintf("%s holds %s of these scans that would lose something: %s", e.Dir,
		numbers.Count(len(e.Cases), "prepared case"), strings.Join(e.Losses, "; "))
}

// checkLosses refuses to replace what the given cases were prepared to by less, or by something
// else. The paths are those of the files of each case.
func checkLosses(w *prepared.Writer, dir string, cases []dataset.Case, paths map[string][]string,
	p volume.Preparation) error {
	now := map[string]dataset.Case{}
	for _, c := range cases {
		now[c.ID] = c
	}
	lost := losses{}
	err := w.Earlier(func(r prepared.Record) {
		if c, known := now[r.ID]; known {
			lost.addLabels(c, r, paths[r.ID], p)
			lost.add(c.LostImage(r, paths[r.ID]), r.ID)
		}
	})
	if err != nil || len(lost.cases) == 0 {
		return err
	}
	return lost.failure(dir)
}

// losses are what is lost, and the cases that lose it.
type losses struct {
	cases      map[string][]string
	structures []string // all that cases lose
}

const lostStructures = "structures"

// add counts a case that loses something; "" is nothing.
func (l *losses) add(what, id string) {
	if what == "" {
		return
	}
	if l.cases == nil {
		l.cases = map[string][]string{}
	}
	l.cases[what] = append(l.cases[what], id)
}

// addLabels counts a case that loses its labels, or some of them.
func (l *losses) addLabels(c dataset.Case, r prepared.Record, paths []string, p volume.Preparation) {
	if !r.HasLabels {
		return
	}
	if c.Labels == "" {
		l.add("the labels", r.ID)
		return
	}
	if names := c.LostStructures(r, p); len(names) > 0 {
		l.structures = append(l.structures, names...)
		l.add(lostStructures, r.ID)
		return
	}
	if len(r.Sources) == 0 || !r.Sources[0].Among(paths) {
		return // the scan is another file, and that is said
	}
	for _, s := range r.Sources[1:] {
		if !s.Among(paths) && isThere(s.Path) {
			l.add("the labels (from other files now)", r.ID)
			return
		}
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// failure is the error that says what is lost.
func (l losses) failure(dir string) error {
	refused := &LossError{Dir: dir}
	for _, what := range slices.Sorted(maps.Keys(l.cases)) {
		cases := slices.SortedFunc(slices.Values(l.cases[what]), numbers.CompareNatural)
		refused.Cases = append(refused.Cases, cases...)
		if what == lostStructures {
			names := slices.Compact(slices.SortedFunc(slices.Values(l.structures), numbers.CompareNatural))
			what = fmt.Sprintf("%s (%s)", numbers.Count(len(names), "structure"), safetext.List(names))
		}
		refused.Losses = append(refused.Losses, what+" of "+safetext.List(cases))
	}
	slices.SortFunc(refused.Cases, numbers.CompareNatural)
	refused.Cases = slices.Compact(refused.Cases)
	return refused
}

// An OthersError says that preparing would remove cases of another data set.
type OthersError struct {
	Dir   string
	Cases []string
	From  string // a file that the first of them was prepared from, which is none of the data set's
}

func (e *OthersError) Error() string {
	text := fmt.Sprintf("%s holds %s not of these scans, which would be lost: %s", e.Dir,
		numbers.Count(len(e.Cases), "prepared case"), safetext.List(e.Cases))
	if e.From != "" {
		text += fmt.Sprintf(" (%s was prepared from %s)", e.Cases[0], e.From)
	}
	return text
}

// A SettingsError says that preparing would replace cases that were prepared with other settings.
type SettingsError struct {
	Dir         string
	Cases       []string
	Differences []volume.Difference // of the first of them
}

func (e *SettingsError) Error() string {
	var parts []string
	for _, d := range e.Differences {
		parts = append(parts, fmt.Sprintf("%s %s there, %s now", d.Key, d.Old, d.New))
	}
	return fmt.Sprintf("%s holds %s of these scans with other settings, which would be lost: %s; %s", e.Dir,
		numbers.Count(len(e.Cases), "prepared case"), safetext.List(e.Cases), strings.Join(parts, "; "))
}

// checkEarlier refuses to remove the prepared cases of another data set, and to replace those of
// this one that were prepared with other settings, or have more than now.
func (j job) checkEarlier(w *prepared.Writer) error {
	if err := cmp.Or(j.checkOthers(w), j.checkSettings(w)); err != nil {
		return err
	}
	paths, err := pathsOf(j.set.Cases)
	if err != nil {
		return err
	}
	return checkLosses(w, j.dir, j.set.Cases, paths, j.preparation)
}

// checkSettings refuses to replace what cases of this data set were prepared to with other
// settings.
func (j job) checkSettings(w *prepared.Writer) error {
	paths, err := pathsOf(j.set.Cases)
	if err != nil {
		return err
	}
	ids, before, err := w.Unlike(paths)
	if err != nil || len(ids) == 0 {
		return err
	}
	return &SettingsError{Dir: j.dir, Cases: ids, Differences: j.preparation.Differences(before)}
}

// checkOthers refuses to remove the prepared cases of another data set.
func (j job) checkOthers(w *prepared.Writer) error {
	cases, err := pathsOf(j.set.Cases)
	if err != nil {
		return err
	}
	for _, c := range j.set.Cases { // another series of the folder is told by what it loses
		folder, err := filepath.Abs(c.Image)
		if err != nil {
			return err
		}
		cases[c.ID] = append(cases[c.ID], folder)
	}
	others, err := w.Others(cases)
	if err != nil || len(others) == 0 {
		return err
	}
	refused := &OthersError{Dir: j.dir, Cases: slices.SortedFunc(maps.Keys(others), numbers.CompareNatural)}
	if from := others[refused.Cases[0]]; len(from) > 0 {
		refused.From = from[0]
	}
	return refused
}

// pathsOf lists the files of each case.
func pathsOf(cases []dataset.Case) (map[string][]string, error) {
	all := map[string][]string{}
	for _, c := range cases {
		paths, err := c.Sources()
		if err != nil {
			return nil, err
		}
		all[c.ID] = paths
	}
	return all, nil
}

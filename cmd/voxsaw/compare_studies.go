package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/plain"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: the runs of several files become those of one comparison, where they can be compared.

// studies are the runs of several files.
type studies struct {
	names, paths []string // of each file: what stands before its initialisations
	runs         []eval.Trial
	from         []int // the file of each run
	notes        []string
}

// readStudies reads the files of the command line. spare is asked about their paths first.
func readStudies(args []string, spare func(paths []string) error) (*studies, error) {
	s := &studies{}
	for _, arg := range args {
		name, path := nameOf(arg)
		if path == "" {
			return nil, usagef("%q names no file", arg)
		}
		if stat, err := os.Stat(path); err == nil && stat.IsDir() {
			path = filepath.Join(path, experiment.ScoresFile)
		}
		s.names, s.paths = append(s.names, name), append(s.paths, path)
	}
	if err := spare(s.paths); err != nil {
		return nil, err
	}
	for n, path := range s.paths {
		runs, err := readRuns(path)
		if err != nil {
			return nil, err
		}
		if err := s.add(n, runs); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// nameOf takes NAME=FILE apart; a file may have a name with an equals sign.
func nameOf(arg string) (name, path string) {
	if _, err := os.Stat(arg); err == nil {
		return "", arg
	}
	if name, path, named := strings.Cut(arg, "="); named && name != "" {
		return name + "/", path
	}
	return "", arg
}

// add adds the runs of file n. One that is there already must be the same.
func (s *studies) add(n int, runs []eval.Trial) error {
	shared := 0
	for _, r := range runs {
		r.Initialisation = s.names[n] + r.Initialisation
		at := slices.IndexFunc(s.runs, func(o eval.Trial) bool {
			return o.Initialisation == r.Initialisation && o.Fold == r.Fold && o.Fraction == r.Fraction && o.Seed == r.Seed
		})
		if at < 0 {
			s.runs, s.from = append(s.runs, r), append(s.from, n)
			continue
		}
		if !equalScores(s.runs[at].Scores, r.Scores) {
			return withHint(fmt.Errorf("%s and %s have other scores of %s", s.paths[s.from[at]], s.paths[n], describe(r)),
				"if these are two experiments, name them: a=%s b=%s", s.paths[s.from[at]], s.paths[n])
		}
		shared++
	}
	if shared > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %s that another file has, too, with the same scores, counted once", s.paths[n], numbers.Count(shared, "run")))
	}
	return nil
}

// describe tells a run from others.
func describe(r eval.Trial) string {
	return fmt.Sprintf("%s, fold %d, %s of the training cases, seed %d", r.Initialisation, r.Fold, table.Percent(r.Fraction), r.Seed)
}

// equalScores compares all numbers of all cases and labels, to the bit.
func equalScores(a, b []eval.Score) bool {
	type labelOf struct {
		id    string
		label uint16
	}
	of := func(scores []eval.Score) map[labelOf]string {
		m := map[labelOf]string{}
		for _, s := range scores {
			// the shortest text of each number, which tells it from all others
			m[labelOf{s.Case, s.Label}] = fmt.Sprint(s)
		}
		return m
	}
	return maps.Equal(of(a), of(b))
}

// sameTests makes sure that each run and that of the baseline it is compared with were tested on
// the same cases. Where some differ, those that both have are compared, which it says once for each
// fold. Means over other structures are told, too.
func sameTests(s experiment.Scored, label int) (notes []string, err error) {
	names := map[uint16]string{}
	for _, r := range s.Runs {
		for _, score := range r.Scores {
			if known := names[score.Label]; known != "" && score.Name != "" && known != score.Name {
				return nil, withHint(fmt.Errorf("label %d is %s in some runs and %s in others", score.Label, plain.Text(known), plain.Text(score.Name)), "compare runs that number their structures alike")
			}
			names[score.Label] = cmp.Or(names[score.Label], score.Name)
		}
	}
	told, other := map[int]bool{}, map[string]bool{} // folds, initialisations
	for _, r := range s.Runs {
		at := slices.IndexFunc(s.Runs, func(b eval.Trial) bool {
			return b.Initialisation == s.Baseline && b.Fold == r.Fold && b.Fraction == r.Fraction && b.Seed == r.Seed
		})
		if at < 0 || r.Initialisation == s.Baseline {
			continue
		}
		base := s.Runs[at]
		cases, theirs := casesOf(r), casesOf(base)
		shared := 0
		for id := range cases {
			if theirs[id] {
				shared++
			}
		}
		switch {
		case shared == 0:
			return nil, withHint(fmt.Errorf("no test case of %s is one of %s in the same fold: these are folds of other divisions", describe(r), s.Baseline), "compare runs whose folds test on the same cases")
		case (shared < len(cases) || shared < len(theirs)) && !told[r.Fold]:
			told[r.Fold] = true
			notes = append(notes, fmt.Sprintf("%s was tested on %s, %s on %d, of which %d are the same: differences are over the cases that both have, means over each run's own",
				describe(r), numbers.Count(len(cases), "case"), s.Baseline, len(theirs), shared))
		}
		if labels, of := eval.Labels(r.Scores), eval.Labels(base.Scores); label == 0 && !slices.Equal(labels, of) && !other[r.Initialisation] {
			other[r.Initialisation] = true
			notes = append(notes, fmt.Sprintf("%s was scored on labels %s, %s on %s: their means are of other structures; --label N compares one", describe(r), commas(labels), s.Baseline, commas(of)))
		}
	}
	return notes, nil
}

func casesOf(r eval.Trial) map[string]bool {
	cases := map[string]bool{}
	for _, s := range r.Scores {
		cases[s.Case] = true
	}
	return cases
}

func commas(labels []uint16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(labels), " ", ", "), "[]")
}

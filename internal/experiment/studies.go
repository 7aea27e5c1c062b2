package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: the runs of several files become those of one comparison, where they can be compared.

// Studies are the runs of several files.
type Studies struct {
	Runs  []eval.Trial
	Notes []string // what there is to say of them
	from  []string // the file of each run
}

// Add adds the runs of a file, with the experiment's name before their initialisations where it has
// one. A run that is there already must have the same scores, and counts once.
func (s *Studies) Add(name, path string, runs []eval.Trial) error {
	shared := 0
	for _, r := range runs {
		r.Initialisation = InStudy(name, r.Initialisation)
		at := indexOf(s.Runs, r)
		if at < 0 {
			s.Runs, s.from = append(s.Runs, r), append(s.from, path)
			continue
		}
		if !equalScores(s.Runs[at].Scores, r.Scores) {
			return hint.Addf(fmt.Errorf("%s and %s have other scores of %s", s.from[at], path, describe(r)),
				"if these are two experiments, name them: a=%s b=%s", s.from[at], path)
		}
		if known := &s.Runs[at].Draw; *known != r.Draw {
			if *known > 0 && r.Draw > 0 {
				return hint.Addf(fmt.Errorf("%s and %s have other draws of the labelled cases of %s: %d and %d",
					s.from[at], path, describe(r), *known, r.Draw),
					"if these are two experiments, name them: a=%s b=%s", s.from[at], path)
			}
			*known = max(*known, r.Draw) // a file without that column does not say it
		}
		shared++
	}
	if shared > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: %s that another file has, too, with the same scores, counted once",
			path, numbers.Count(shared, "run")))
	}
	return nil
}

// tolerances are those of NSD, in mm, where it was measured and the table says them.
func (s Scored) tolerances() (all []string) {
	seen := map[float64]bool{}
	for _, r := range s.Runs {
		for _, score := range r.Scores {
			if !math.IsNaN(score.NSD) && !math.IsNaN(score.Tolerance) && !seen[score.Tolerance] {
				seen[score.Tolerance] = true
				all = append(all, fmt.Sprint(score.Tolerance))
			}
		}
	}
	slices.SortFunc(all, numbers.CompareNatural)
	return all
}

// indexOf is where the run with the same initialisation, fold, share and seed is, -1 where none is.
func indexOf(runs []eval.Trial, r eval.Trial) int {
	return slices.IndexFunc(runs, func(o eval.Trial) bool {
		return o.Initialisation == r.Initialisation && o.Fold == r.Fold && o.Fraction == r.Fraction && o.Seed == r.Seed
	})
}

// describe tells a run from others.
func describe(r eval.Trial) string {
	return fmt.Sprintf("%s, fold %d, %s of the training cases, seed %d", r.Initialisation, r.Fold,
		table.Percent(r.Fraction), r.Seed)
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

// SameTests makes sure that each run and those it is compared with were tested on the same cases.
// Where some differ, those that both have are compared, which it says once for each fold, or, of
// runs with more labelled cases, each initialisation. Means over other structures are told, too,
// and so is that NSD has several tolerances, which is an error where it is the metric.
func (s Scored) SameTests(metric string, label int) (notes []string, err error) {
	if all := s.tolerances(); len(all) > 1 {
		text := fmt.Sprintf("NSD was measured with tolerances of %s mm", safetext.List(all))
		if metric == "nsd" {
			return nil, hint.Addf(errors.New(text+", and such values are not compared"),
				"score all runs with one --metrics-tolerance")
		}
		notes = append(notes, text+": it is not compared")
	}
	names := map[uint16]string{}
	for _, r := range s.Runs {
		for _, score := range r.Scores {
			if known := names[score.Label]; known != "" && score.Name != "" && known != score.Name {
				return nil, hint.Addf(fmt.Errorf("label %d is %s in some runs and %s in others", score.Label,
					safetext.Text(known), safetext.Text(score.Name)), "compare runs that number their structures alike")
			}
			names[score.Label] = cmp.Or(names[score.Label], score.Name)
		}
	}
	told := map[string]bool{}
	tell := func(once, note string) {
		if note != "" && !told[once] {
			told[once] = true
			notes = append(notes, note)
		}
	}
	for _, r := range s.Runs {
		base := r
		base.Initialisation = s.Baseline
		at := indexOf(s.Runs, base)
		if at < 0 || r.Initialisation == s.Baseline {
			continue
		}
		t := testsOf(r, s.Runs[at])
		if t.shared == 0 {
			return nil, hint.Addf(fmt.Errorf(
				"no test case of %s is one of %s in the same fold: these are folds of other divisions", describe(r),
				s.Baseline), "compare runs whose folds test on the same cases")
		}
		tell(fmt.Sprint("cases of fold ", r.Fold), t.cases(describe(r), s.Baseline))
		if label == 0 {
			tell("labels of "+r.Initialisation, t.labels(describe(r), s.Baseline))
		}
	}
	smallest := map[string]float64{}
	for _, r := range s.Runs {
		if f, known := smallest[r.Initialisation]; !known || r.Fraction < f {
			smallest[r.Initialisation] = r.Fraction
		}
	}
	paired, unpaired := map[string]bool{}, []string{} // shares of initialisations
	for _, r := range s.Runs {
		base := r
		base.Fraction = smallest[r.Initialisation]
		if r.Fraction == base.Fraction {
			continue
		}
		with := "the run with " + table.Percent(base.Fraction)
		share := fmt.Sprintf("%s with %s of the training cases: no run with %s", r.Initialisation,
			table.Percent(r.Fraction), table.Percent(base.Fraction))
		if !slices.Contains(unpaired, share) {
			unpaired = append(unpaired, share)
		}
		at := indexOf(s.Runs, base)
		if at < 0 {
			continue
		}
		t := testsOf(r, s.Runs[at])
		paired[share] = paired[share] || t.shared > 0
		tell("cases of shares of "+r.Initialisation, t.cases(describe(r), with))
		if label == 0 {
			tell("labels of shares of "+r.Initialisation, t.labels(describe(r), with))
		}
	}
	for _, share := range unpaired {
		if !paired[share] {
			notes = append(notes, "what changes with more labelled cases is not told for "+share+
				" has the same fold and seed and a test case in common")
		}
	}
	return notes, nil
}

// tests are those of a run and of the one that it is compared with.
type tests struct {
	own, other, shared int // cases
	structures, theirs []uint16
}

func testsOf(r, base eval.Trial) tests {
	cases, others := casesOf(r), casesOf(base)
	t := tests{own: len(cases), other: len(others), structures: eval.Labels(r.Scores), theirs: eval.Labels(base.Scores)}
	for id := range cases {
		if others[id] {
			t.shared++
		}
	}
	return t
}

// cases says where two runs were tested on other cases.
func (t tests) cases(run, with string) string {
	if t.shared == t.own && t.shared == t.other {
		return ""
	}
	return fmt.Sprintf("%s was tested on %s, %s on %d, of which %d are the same: differences are over the cases "+
		"that both have, means over each run's own", run, numbers.Count(t.own, "case"), with, t.other, t.shared)
}

// labels says where two runs were scored on other labels.
func (t tests) labels(run, with string) string {
	if slices.Equal(t.structures, t.theirs) {
		return ""
	}
	return fmt.Sprintf("%s was scored on labels %s, %s on %s: their means are of "+
		"other structures; --label N compares one", run, commas(t.structures), with, commas(t.theirs))
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

// Undrawn gives the runs of a file of scores that names no draw theirs, and says so: which seeds
// share a draw of the labelled cases, the plan beside the file tells. Without a column draw and a
// plan, it says what the file does not tell; with that column and no plan, each seed has its own.
// "" where no fold has two seeds, so that it makes no difference.
func Undrawn(path string, runs []eval.Trial, column bool) string {
	if slices.ContainsFunc(runs, func(r eval.Trial) bool { return r.Draw > 0 }) {
		return ""
	}
	const again = "voxsaw crossval with its plan and --finished writes the file with its draws"
	beside, lacks := PlanOf(filepath.Dir(path)), "no column draw"
	if column {
		lacks = "its column draw is empty"
	}
	plan := Plan{Pretrain: Pretrain{pretext.Scans.Choice()}, Subsets: subsetsShared}
	_, err := os.Stat(beside)
	if err == nil {
		err = config.Load(beside, &plan)
	}
	if err != nil {
		plan = Plan{Subsets: subsetsOwn}
	}
	for n, r := range runs {
		runs[n].Draw = plan.drawShared(r.Seed, r.Fraction)
	}
	switch {
	case err == nil && severalSeeds(runs, true):
		return fmt.Sprintf("%s does not say which seeds share a draw of the labelled cases (%s): taken from %s, "+
			"subsets: %s, draws: %d; %s", path, lacks, beside, plan.Subsets, plan.Draws, again)
	case err == nil || !severalSeeds(runs, false) || column && errors.Is(err, fs.ErrNotExist):
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s does not say which seeds share a draw of the labelled cases (%s): each "+
			"counts as one of its own, and where seeds share one, intervals and p are too small. If its plan has "+
			"draws, %s", path, lacks, again)
	}
	return fmt.Sprintf("%s: %s, and the plan beside it cannot be read (%v): each seed counts as a draw of its own; %s",
		path, lacks, err, again)
}

// severalSeeds says whether two runs differ in nothing but the seed, among those that have a draw,
// or that have none.
func severalSeeds(runs []eval.Trial, drawn bool) bool {
	type arm struct {
		initialisation string
		fold           int
		fraction       float64
	}
	seeds := map[arm]uint64{}
	return slices.ContainsFunc(runs, func(r eval.Trial) bool {
		if drawn != (r.Draw > 0) {
			return false
		}
		a := arm{r.Initialisation, r.Fold, r.Fraction}
		other, seen := seeds[a]
		seeds[a] = r.Seed
		return seen && other != r.Seed
	})
}

package dataset

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: which cases are of one patient, and what that means for folds.

// Patients maps cases to patients, by any name. A case that is not in it is of a patient of its
// own. Folds and held-out sets keep the cases of a patient together, because a network that has
// trained on one scan of a patient knows something about the next.
type Patients map[string]string

// PatientsOf returns the patients of prepared cases. Cases of one and the same scan, voxel by
// voxel, are of one patient, whatever they are called.
func PatientsOf(cases iter.Seq[prepared.Record]) Patients {
	p := Patients{}
	scans := map[string]string{} // the first case of each
	var same [][2]string         // cases of one scan
	for c := range cases {
		if c.Patient != "" {
			p[c.ID] = c.Patient
		}
		if c.Scan == "" { // of no store
			continue
		}
		if first, known := scans[c.Scan]; known {
			same = append(same, [2]string{first, c.ID})
		} else {
			scans[c.Scan] = c.ID
		}
	}
	for _, pair := range same {
		p.unite(pair[0], pair[1])
	}
	return p
}

// unite makes all cases of the patients of a and b those of one.
func (p Patients) unite(a, b string) {
	if p[a] == "" {
		p[a] = "of the scan of " + a
	}
	if was := p[b]; was != "" {
		for id, patient := range p {
			if patient == was {
				p[id] = p[a]
			}
		}
	}
	p[b] = p[a]
}

// Count is the number of the cases' patients; a case that nothing is known of is a patient of its
// own.
func (p Patients) Count(ids []string) int { return len(p.groups(ids)) }

// groups divides cases by patients, in the order of the first of each.
func (p Patients) groups(ids []string) (groups [][]string) {
	at := map[string]int{}
	for _, id := range ids {
		patient := p[id]
		n, known := at[patient]
		if patient == "" || !known {
			n = len(groups)
			groups = append(groups, nil)
		}
		at[patient] = n
		groups[n] = append(groups[n], id)
	}
	return groups
}

// Torn lists the held-out cases of patients who have other cases that are trained on.
func (p Patients) Torn(train, held []string) (torn []string) {
	trained := map[string]bool{"": false}
	for _, id := range train {
		if p[id] != "" {
			trained[p[id]] = true
		}
	}
	for _, id := range held {
		if trained[p[id]] {
			torn = append(torn, id)
		}
	}
	return torn
}

// WithoutLabels are those of some scans that a training may learn from without their labels, in the
// order of their names: none that it learns from with labels or that is held out, and no other scan
// of a patient who is held out.
func (p Patients) WithoutLabels(scans, labelled, held []string) []string {
	used := map[string]bool{}
	for _, id := range slices.Concat(labelled, held, p.Torn(held, scans)) {
		used[id] = true
	}
	free := slices.DeleteFunc(slices.Clone(scans), func(id string) bool { return used[id] })
	slices.SortFunc(free, numbers.CompareNatural)
	return free
}

func (p Patients) doubts(splits []Split) (doubts []string) {
	tested := map[string]int{}
	for f, s := range splits {
		if torn := p.Torn(s.Train, s.Val); len(torn) > 0 {
			doubts = append(doubts, fmt.Sprintf("fold %d trains on other cases of the same patients as it tests on: %s",
				f+1, safetext.List(torn)))
		}
		var again []string
		other := 0
		for _, id := range s.Val {
			if tested[id] > 0 {
				again, other = append(again, id), tested[id]
			} else {
				tested[id] = f + 1
			}
		}
		if len(again) > 0 {
			doubts = append(doubts, fmt.Sprintf("fold %d tests on cases that fold %d tests on, too: %s", f+1, other,
				safetext.List(again)))
		}
	}
	return doubts
}

// withRepeats adds what is published of NIH Pancreas-CT to what is known of the patients: for the
// cases of its published folds, and for names that only its cases have.
func (p Patients) withRepeats(scheme string, ids []string) Patients {
	var repeats []string
	for _, id := range ids {
		if number, ok := Number(id); ok && repeatsOneScan(number) && (scheme == FoldsNIH || nihName.MatchString(id)) {
			repeats = append(repeats, id)
		}
	}
	if len(repeats) < 2 {
		return p
	}
	more := Patients{}
	maps.Copy(more, p)
	for _, id := range repeats[1:] {
		more.unite(repeats[0], id)
	}
	return more
}

// Doubts says what makes results over the folds of a selection too good, or hard to interpret: a
// patient who is trained and tested on, a case that several folds test on.
func (s Selection) Doubts(splits []Split) []string {
	scheme := s.FoldScheme
	if s.Splits != "" {
		scheme = ""
	}
	var ids []string
	for _, split := range splits {
		ids = append(ids, split.Val...)
	}
	return s.Patients.withRepeats(scheme, ids).doubts(splits)
}

// Torn lists the held-out cases of patients who have other cases that are trained on.
func (s Selection) Torn(train, held []string) []string {
	scheme := s.FoldScheme
	if s.Splits != "" || s.Fold == 0 {
		scheme = ""
	}
	return s.Patients.withRepeats(scheme, slices.Concat(train, held)).Torn(train, held)
}

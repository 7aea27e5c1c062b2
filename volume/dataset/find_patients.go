package dataset

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

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
		scan := scanOf(c)
		if scan == "" {
			continue
		}
		if first, known := scans[scan]; known {
			same = append(same, [2]string{first, c.ID})
		} else {
			scans[scan] = c.ID
		}
	}
	for _, pair := range same {
		p.unite(pair[0], pair[1])
	}
	return p
}

// scanOf tells the scan of a case from others: by its voxels. Of a case that an earlier version has
// prepared they are not known: its files do, and which series or volume of them it is. It is ""
// where nobody has read them.
func scanOf(c prepared.Record) string {
	switch {
	case c.Scan != "":
		return c.Scan
	case len(c.Sources) == 0 || c.Sources[0].Hash == "":
		return ""
	}
	image, _, _ := strings.Cut(c.Origin, " by index")
	return c.Sources[0].Hash + " " + image
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

func (p Patients) doubts(splits []Split) (doubts []string) {
	tested := map[string]int{}
	for f, s := range splits {
		if torn := p.Torn(s.Train, s.Val); len(torn) > 0 {
			doubts = append(doubts, fmt.Sprintf("fold %d trains on other cases of the same patients as it tests on: %s", f+1, safetext.List(torn)))
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
			doubts = append(doubts, fmt.Sprintf("fold %d tests on cases that fold %d tests on, too: %s", f+1, other, safetext.List(again)))
		}
	}
	return doubts
}

// patients looks for cases that are of one patient: by what is published of NIH Pancreas-CT, or by
// folders. It returns what the cases of a patient have in common, "" where nothing is known.
func (d *Dataset) patients(prefix string, o Options) []string {
	if d.Layout != LayoutNIH || o.PatientPerCase {
		return d.patientsByFolder(prefix, o)
	}
	found := make([]string, len(d.Cases))
	var repeats []int
	for n, c := range d.Cases {
		if number, ok := Number(c.ID); ok && repeatsOneScan(number) {
			repeats = append(repeats, n)
		}
	}
	if len(repeats) > 1 {
		for _, n := range repeats {
			found[n] = nihPatient
		}
	}
	return found
}

// withRepeats adds what is published of NIH Pancreas-CT to what is known of the patients: for the
// cases of its published folds, and for names that only its cases have, such as those of a folder
// that an earlier version prepared.
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

// patientsByFolder looks for cases that are of one patient, by their folders: scans below one, if
// the tree has at least as many such folders as the fullest of them has cases. A folder of many
// patients, such as a hospital's or one for training, is no patient. It returns what the cases of a
// patient have in common, "" where nothing is known; prefix tells the folders of data sets apart.
func (d *Dataset) patientsByFolder(prefix string, o Options) []string {
	found := make([]string, len(d.Cases))
	if d.Layout != LayoutScans || o.PatientPerCase {
		return found
	}
	for depth := 0; ; depth++ {
		counts, deeper := map[string]int{}, false
		folder := func(c Case) string {
			if len(c.folders) <= depth {
				return ""
			}
			return strings.Join(c.folders[:depth+1], "/")
		}
		fullest := 0
		for _, c := range d.Cases {
			if name := folder(c); name != "" {
				deeper = true
				counts[name]++
				fullest = max(fullest, counts[name])
			}
		}
		if !deeper {
			return found
		}
		if fullest > 1 && len(counts) >= fullest {
			for n, c := range d.Cases {
				if name := folder(c); counts[name] > 1 {
					found[n] = "folder " + prefix + name
				}
			}
			return found
		}
	}
}

// setPatients gives the cases their patients, and says whose there are several of.
func (d *Dataset) setPatients(found []string) {
	patients := map[string][]string{}
	for n := range d.Cases {
		c := &d.Cases[n]
		if c.Patient = found[n]; c.Patient != "" {
			patients[c.Patient] = append(patients[c.Patient], c.ID)
		}
	}
	for _, c := range d.Cases {
		if ids := patients[c.Patient]; len(ids) > 1 {
			more := ""
			if len(patients) > 1 {
				more = fmt.Sprintf(", the first of %d such", len(patients))
			}
			d.note("%s are of one patient, by %s%s: folds keep them together; --patient-per-case divides case by case", safetext.List(ids), evidence(c.Patient), more)
			return
		}
	}
}

// evidence is what a patient is known by.
func evidence(patient string) string {
	if patient == nihPatient {
		return "what is published of NIH Pancreas-CT (one scan, three times)"
	}
	return "their folder or DICOM study"
}

// addStudies gives one patient to the cases of one DICOM study, if folders name none. Of the study,
// only a hash of its UID is kept. Cases in
// different folders and frames of reference are taken for different patients, and a note says so,
// unless a third case links them. A case that shares its patient with no other gets none.
func (d *Dataset) addStudies(found []string) {
	together := map[string][][]int{} // of each study, the cases of each patient
	for n, c := range d.Cases {
		if found[n] != "" || c.series == nil || c.series.Study == "" {
			continue
		}
		joined := []int{n}
		var apart [][]int
		for _, cases := range together[c.series.Study] {
			if slices.ContainsFunc(cases, func(m int) bool { return !elsewhere(d.Cases[m].series, c.series) }) {
				joined = append(cases, joined...)
			} else {
				apart = append(apart, cases)
			}
		}
		together[c.series.Study] = append(apart, joined)
	}
	for _, study := range slices.Sorted(maps.Keys(together)) {
		patients := together[study]
		if len(patients) > 1 {
			a, b := d.Cases[patients[0][0]], d.Cases[patients[1][0]]
			d.note("%s and %s are of one DICOM study, but lie in other folders and frames of reference: taken for different patients (%d in all)", a.ID, b.ID, len(patients))
		}
		for k, cases := range patients {
			if len(cases) > 1 {
				for _, n := range cases {
					found[n] = fmt.Sprintf("study %x", sha256.Sum256([]byte(study)))[:24]
					if k > 0 {
						found[n] += fmt.Sprintf(" %d", k+1)
					}
				}
			}
		}
	}
}

package dataset

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

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

// nihPatient is what case 2 and its repeats have in common.
const nihPatient = "NIH Pancreas-CT, case 2"

// nihName is the name of a case of NIH Pancreas-CT.
var nihName = regexp.MustCompile(`^PANCREAS_\d{4}$`)

// repeatsOneScan says whether a case number of NIH Pancreas-CT is one of those with one scan.
func repeatsOneScan(number int) bool {
	return number == nihRepeated || slices.Contains(nihRepeats, number)
}

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

// findPatients looks for cases that are of one patient: by what is published of NIH Pancreas-CT,
// or by folders. A patient is what its cases have in common, "" where nothing is known.
func (d Dataset) findPatients(o Options) (Dataset, error) {
	if o.PatientPerCase {
		return d, nil
	}
	switch d.Layout {
	case LayoutNIH:
		repeated := func(c Case) bool {
			number, ok := Number(c.ID)
			return ok && repeatsOneScan(number)
		}
		if first := slices.IndexFunc(d.Cases, repeated); first >= 0 &&
			slices.ContainsFunc(d.Cases[first+1:], repeated) {
			return d.each(func(c *Case) {
				if repeated(*c) {
					c.Patient = nihPatient
				}
			}), nil
		}
	case LayoutScans:
		return d.patientsByFolder(), nil
	}
	return d, nil
}

// patientsByFolder looks for cases that are of one patient, by their folders: scans below one, if
// the tree has at least as many such folders as the fullest of them has cases. A folder of many
// patients, such as a hospital's or one for training, is no patient.
func (d *Dataset) patientsByFolder() Dataset {
	prefix := "" // tells the folders of data sets apart
	if d.several {
		prefix = baseName(d.Root) + "/"
	}
	for depth := 0; ; depth++ {
		counts, fullest := map[string]int{}, 0
		folder := func(c Case) string {
			if len(c.folders) <= depth {
				return ""
			}
			return strings.Join(c.folders[:depth+1], "/")
		}
		for _, c := range d.Cases {
			if name := folder(c); name != "" {
				counts[name]++
				fullest = max(fullest, counts[name])
			}
		}
		switch {
		case fullest == 0:
			return *d
		case fullest > 1 && len(counts) >= fullest:
			return d.each(func(c *Case) {
				if name := folder(*c); counts[name] > 1 {
					c.Patient = "folder " + prefix + name
				}
			})
		}
	}
}

// joinPatients joins the cases of one DICOM study, and says whose cases there are several of.
func (d Dataset) joinPatients(o Options) (Dataset, error) {
	if o.PatientPerCase {
		return d, nil
	}
	d = d.joinStudies()
	patients := map[string][]string{}
	for _, c := range d.Cases {
		if c.Patient != "" {
			patients[c.Patient] = append(patients[c.Patient], c.ID)
		}
	}
	for _, c := range d.Cases {
		if ids := patients[c.Patient]; len(ids) > 1 {
			more := ""
			if len(patients) > 1 {
				more = fmt.Sprintf(", the first of %d such", len(patients))
			}
			d.note("%s are of one patient, by %s%s: folds keep them together; --patient-per-case divides case by case",
				safetext.List(ids), evidence(c.Patient), more)
			break
		}
	}
	return d, nil
}

// evidence is what a patient is known by.
func evidence(patient string) string {
	if patient == nihPatient {
		return "what is published of NIH Pancreas-CT (one scan, three times)"
	}
	return "their folder or DICOM study"
}

// joinStudies gives one patient to the cases of one DICOM study, if folders name none. It keeps
// only a hash of the study's UID. Cases in different folders and frames of reference are taken
// for different patients, and a note says so, unless a third case links them. A case that shares
// its patient with no other gets none.
func (d Dataset) joinStudies() Dataset {
	d.Cases = slices.Clone(d.Cases)
	together := map[string][][]int{} // of each study, the cases of each patient
	for n, c := range d.Cases {
		if c.Patient != "" || c.series == nil || c.series.Study == "" {
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
			d.note("%s and %s are of one DICOM study, but lie in other folders and frames of reference: "+
				"taken for different patients (%d in all)", a.ID, b.ID, len(patients))
		}
		for k, cases := range patients {
			if len(cases) > 1 {
				for _, n := range cases {
					d.Cases[n].Patient = fmt.Sprintf("study %x", sha256.Sum256([]byte(study)))[:24]
					if k > 0 {
						d.Cases[n].Patient += fmt.Sprintf(" %d", k+1)
					}
				}
			}
		}
	}
	return d
}

// nihPatient is what case 2 and its repeats have in common.
const nihPatient = "NIH Pancreas-CT, case 2"

// nihName is the name of a case of NIH Pancreas-CT.
var nihName = regexp.MustCompile(`^PANCREAS_\d{4}$`)

// repeatsOneScan says whether a case number of NIH Pancreas-CT is one of those with one scan.
func repeatsOneScan(number int) bool {
	return number == nihRepeated || slices.Contains(nihRepeats, number)
}

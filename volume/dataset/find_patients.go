package dataset

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// What a patient is known by: the first words of [Case.Patient].
const (
	byTable   = "table "
	byID      = "PatientID "
	bySubject = "subject "
	byFolder  = "folder "
	byStudy   = "study "
)

// kindsOfEvidence are these in words, the strongest first.
var kindsOfEvidence = []struct{ prefix, words string }{
	{byTable, "the table of --patients"}, {byID, "PatientID (DICOM)"}, {bySubject, "sub- in their names (BIDS)"},
	{byFolder, "their folders"}, {byStudy, "their DICOM study"}, {nihPatient, "what is published of NIH Pancreas-CT " +
		"(one scan, three times)"},
}

// findPatients looks for cases that are of one patient in what a data set alone says: what is
// published of NIH Pancreas-CT, sub- of BIDS, or folders. A patient is what its cases have in
// common, "" where nothing is known.
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
		return d, nil
	case LayoutScans:
		d = d.patientsByFolder()
	}
	return d.patientsBySubject(), nil
}

// subjectName is a subject of BIDS as a folder, or as what a file's name begins with.
var subjectName = regexp.MustCompile(`^sub-[0-9A-Za-z+]+`)

// patientsBySubject takes cases for one patient's that are below one folder sub-, or whose names
// begin so. Where all cases of several have one subject, as below a folder sub-study, it tells
// nobody apart.
func (d *Dataset) patientsBySubject() Dataset {
	root := absoluteOf(d.Root)
	subjects, prefix := map[string]bool{}, ""
	of := make([]string, len(d.Cases))
	if d.several {
		prefix = baseName(d.Root) + "/"
	}
	for n, c := range d.Cases {
		relative, err := filepath.Rel(root, absoluteOf(c.Image))
		if err != nil {
			continue
		}
		parts := strings.Split(filepath.ToSlash(relative), "/")
		// the folder that was given may be a subject, or a session of one
		parts = append([]string{filepath.Base(filepath.Dir(root)), filepath.Base(root)}, parts...)
		for k, part := range parts {
			subject := subjectName.FindString(part)
			switch rest := strings.TrimPrefix(part, subject); {
			case subject == "" || rest != "" && (k < len(parts)-1 || !strings.ContainsAny(rest[:1], "_.")):
			case k < 2 && d.several: // each folder may be one session
				of[n] = subject
			default:
				of[n] = prefix + subject
			}
		}
		subjects[of[n]] = true
	}
	if len(subjects) < 2 && len(d.Cases) > 1 && !d.several {
		return *d
	}
	n := -1
	return d.each(func(c *Case) {
		if n++; of[n] != "" {
			c.Patient = bySubject + of[n]
		}
	})
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
					c.Patient = byFolder + prefix + name
				}
			})
		}
	}
}

// joinPatients says whose each case is, by the strongest evidence: a table, PatientID, what
// findPatients has found, or the DICOM study. It says how many patients that makes, and whose cases
// there are several of.
func (d Dataset) joinPatients(o Options) (Dataset, error) {
	switch {
	case o.PatientPerCase && o.Patients != "":
		return d, fmt.Errorf("either --patients says whose the cases are, or --patient-per-case that each is another's")
	case o.PatientPerCase:
		return d, nil
	case o.Patients != "":
		var err error
		if d, err = d.patientsByTable(o.Patients); err != nil {
			return d, err
		}
	default:
		d = d.patientsByID().joinStudies()
	}
	patients := map[string][]string{}
	for _, c := range d.Cases {
		if c.Patient != "" {
			patients[c.Patient] = append(patients[c.Patient], c.ID)
		}
	}
	several := 0
	for _, ids := range patients {
		if len(ids) > 1 {
			several++
		}
	}
	for _, c := range d.Cases {
		if ids := patients[c.Patient]; len(ids) > 1 {
			more := ""
			if several > 1 {
				more = fmt.Sprintf(", the first of %d such", several)
			}
			d.note("%s are of one patient, by %s%s: folds keep them together; --patient-per-case divides case by case",
				safetext.List(ids), evidence(c.Patient), more)
			break
		}
	}
	d.Told = d.told(len(patients))
	return d, nil
}

// told says in a line how many patients the cases are of, and how that is known.
func (d *Dataset) told(known int) string {
	if len(d.Cases) < 2 {
		return ""
	}
	counts, without := map[string]int{}, 0
	for _, c := range d.Cases {
		if c.Patient == "" {
			without++
		} else {
			counts[evidence(c.Patient)]++
		}
	}
	const hint = "a table says who is one patient (--patients FILE)"
	if without == len(d.Cases) {
		return fmt.Sprintf("patients: nothing says which of %d cases are of one patient: each counts as one; %s",
			without, hint)
	}
	var by []string
	for _, kind := range kindsOfEvidence {
		if counts[kind.words] > 0 {
			by = append(by, fmt.Sprintf("%d by %s", counts[kind.words], kind.words))
		}
	}
	text := fmt.Sprintf("patients: %d cases count as %s: %s", len(d.Cases), numbers.Count(known+without, "patient"),
		strings.Join(by, ", "))
	if without > 0 {
		text += fmt.Sprintf("; nothing is known of %d, each of which counts as one; %s", without, hint)
	}
	return text
}

// evidence is what a patient is known by.
func evidence(patient string) string {
	for _, kind := range kindsOfEvidence {
		if strings.HasPrefix(patient, kind.prefix) {
			return kind.words
		}
	}
	return "what was recorded"
}

// patientsByTable gives each case the patient that a table says, as a digest: it may be an
// identifier.
func (d Dataset) patientsByTable(path string) (Dataset, error) {
	rows, err := readTable(path, "case", "patient", "")
	if err != nil {
		return d, err
	}
	patients := map[string]string{}
	for _, row := range rows {
		if other, twice := patients[row["case"]]; twice && other != row["patient"] {
			return d, fmt.Errorf("%s: case %s has two patients: keep one line", path, row["case"])
		}
		patients[row["case"]] = row["patient"]
	}
	var missing []string
	after := d.each(func(c *Case) {
		if patients[c.ID] == "" {
			missing = append(missing, c.ID)
		}
		c.Patient = byTable + fmt.Sprintf("%x", sha256.Sum256([]byte(patients[c.ID])))[:16]
	})
	if missing != nil {
		return d, fmt.Errorf("%s names no patient of %d of %s: %s: give each case a line, with a name of its own "+
			"where it is a patient's only one", path, len(missing), numbers.Count(len(d.Cases), "case"),
			safetext.List(missing))
	}
	return after, nil
}

// patientsByID gives DICOM cases the patient that their PatientID names. An identifier that three
// studies or more have, and no study another, is taken for a dummy. What has one StudyInstanceUID
// and lies in other folders and frames of reference counts as several studies here. Cases that tell
// nothing themselves follow the others of their folder or subject. A folder of several patients is
// none, and where most folders that can be checked are none, no folder of the data set is.
func (d Dataset) patientsByID() Dataset {
	studies, all := map[string]map[string]bool{}, map[string]bool{}
	first := map[string][]*dicom.Series{} // of each study, a series of each place
	for _, c := range d.Cases {
		if c.series == nil {
			continue
		}
		study := cmp.Or(c.series.Study, c.ID)
		place := slices.IndexFunc(first[study], func(s *dicom.Series) bool { return !elsewhere(s, c.series) })
		if place < 0 {
			place = len(first[study])
			first[study] = append(first[study], c.series)
		}
		study = fmt.Sprint(study, " ", place)
		all[study] = true
		if id := c.series.Patient; id != "" {
			if studies[id] == nil {
				studies[id] = map[string]bool{}
			}
			studies[id][study] = true
		}
	}
	for id, of := range studies {
		switch n := len(of); {
		case len(studies) == 1 && n >= 3 && n == len(all):
			d.note("WARNING: all %d DICOM studies have one PatientID: it is taken for one that anonymisation has put "+
				"there, and not used; if they are of one patient, a table says so (--patients FILE)", n)
			delete(studies, id)
		case n >= 4 && 2*n > len(all):
			d.note("WARNING: %d of %d DICOM studies have one PatientID, and count as one patient: if anonymisation "+
				"has put it there, a table says whose they are (--patients FILE)", n, len(all))
		}
	}
	if len(studies) == 0 {
		return d
	}
	idOf := func(c Case) string {
		if c.series == nil || studies[c.series.Patient] == nil {
			return ""
		}
		return c.series.Patient
	}
	guessed := map[string]map[string]bool{} // the identifiers in each folder or subject
	for _, c := range d.Cases {
		if id := idOf(c); id != "" && c.Patient != "" {
			if guessed[c.Patient] == nil {
				guessed[c.Patient] = map[string]bool{}
			}
			guessed[c.Patient][id] = true
		}
	}
	refuted := map[string]int{} // folders of each data set that are none, less those that are one
	site := func(patient string) string {
		if !d.several {
			return ""
		}
		name, _, _ := strings.Cut(patient, "/")
		return name
	}
	count := map[string]int{}
	for _, c := range d.Cases {
		if idOf(c) != "" {
			count[c.Patient]++
		}
	}
	for patient, ids := range guessed {
		switch {
		case !strings.HasPrefix(patient, byFolder) || count[patient] < 2:
		case len(ids) > 1:
			refuted[site(patient)]++
		default:
			refuted[site(patient)]--
		}
	}
	return d.each(func(c *Case) {
		id, others := idOf(*c), slices.Collect(maps.Keys(guessed[c.Patient]))
		switch {
		case id != "":
			c.Patient = byID + id
		case len(others) == 1:
			c.Patient = byID + others[0]
		case strings.HasPrefix(c.Patient, byFolder) && (len(others) > 1 || refuted[site(c.Patient)] > 0):
			c.Patient = ""
		}
	})
}

// joinStudies gives one patient to the cases of one DICOM study, if nothing else names any. It
// keeps only a hash of the study's UID. Cases in different folders and frames of reference are
// taken for different patients, and a note says so, unless a third case links them. A case that
// shares its study with no other gets no patient.
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
					d.Cases[n].Patient = fmt.Sprintf(byStudy+"%x", sha256.Sum256([]byte(study)))[:24]
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

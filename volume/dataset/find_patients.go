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
	return d.findSubjects(), nil
}

// subjectName is a subject of BIDS as a folder, or as what a file's name begins with.
var subjectName = regexp.MustCompile(`^sub-[0-9A-Za-z+]+`)

// findSubjects finds whose the cases are by BIDS: they lie below a folder sub-, or their names
// begin so.
func (d *Dataset) findSubjects() Dataset {
	root := absoluteOf(d.Root)
	parent := filepath.Dir(root)
	// the folder that was given may be a subject, or a session of one
	above := []string{filepath.Base(filepath.Dir(parent)), filepath.Base(parent), filepath.Base(root)}
	return d.each(func(c *Case) {
		relative, err := filepath.Rel(root, absoluteOf(c.Image))
		if err != nil {
			return
		}
		parts := slices.Concat(above, strings.Split(filepath.ToSlash(relative), "/"))
		for k, part := range parts[1:] {
			subject := subjectName.FindString(part)
			rest := strings.TrimPrefix(part, subject)
			if subject == "" || rest != "" && (k < len(parts)-2 || !strings.ContainsAny(rest[:1], "_.")) {
				continue
			}
			c.subject = subject
			switch {
			case d.several && k < 2: // each folder may be one session
				c.subject = parts[k] + "/" + subject
			case d.several:
				c.subject = filepath.Base(root) + "/" + subject
			}
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

// joinPatients says whose each case is, by a table, or by all that tells which cases are of one
// patient. It says how many patients that makes, and whose cases there are several of. Who has one
// case gets no name.
func (d Dataset) joinPatients(o Options) (Dataset, error) {
	var by []string // what each case's patient is known by
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
		by = slices.Repeat([]string{byTable}, len(d.Cases))
	default:
		d, by = d.patientsByEvidence()
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
	for n, c := range d.Cases {
		if ids := patients[c.Patient]; len(ids) > 1 {
			more := ""
			if several > 1 {
				more = fmt.Sprintf(", the first of %d such", several)
			}
			d.note("%s are of one patient, by %s%s: folds keep them together; --patient-per-case divides case by case",
				safetext.List(ids), evidence(by[n]), more)
			break
		}
	}
	d.Told = d.told(by, len(patients))
	return d.each(func(c *Case) {
		if len(patients[c.Patient]) < 2 {
			c.Patient = ""
		}
	}), nil
}

// told says in a line how many patients there are, and how that is known.
func (d *Dataset) told(by []string, known int) string {
	if len(d.Cases) < 2 {
		return ""
	}
	counts, without := map[string]int{}, 0
	for n, c := range d.Cases {
		if c.Patient == "" {
			without++
		} else {
			counts[by[n]]++
		}
	}
	const hint = "a table says who is one patient (--patients FILE)"
	if without == len(d.Cases) {
		return fmt.Sprintf("patients: nothing says which of %d cases are of one patient: each counts as one; %s",
			without, hint)
	}
	var list []string
	for _, kind := range kindsOfEvidence {
		if counts[kind.prefix] > 0 {
			list = append(list, fmt.Sprintf("%d by %s", counts[kind.prefix], kind.words))
		}
	}
	text := fmt.Sprintf("patients: %d cases count as %s: %s", len(d.Cases), numbers.Count(known+without, "patient"),
		strings.Join(list, ", "))
	if without > 0 {
		text += fmt.Sprintf("; nothing is known of %d, each of which counts as one; %s", without, hint)
	}
	return text
}

// evidence says in words what a patient is known by.
func evidence(by string) string {
	for _, kind := range kindsOfEvidence {
		if kind.prefix == by {
			return kind.words
		}
	}
	return by
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

// union tells which cases are of one patient: of each, an earlier one, or itself.
type union []int

func (j union) first(n int) int {
	for j[n] != n {
		j[n] = j[j[n]]
		n = j[n]
	}
	return n
}

func (j union) join(a, b int) {
	a, b = j.first(a), j.first(b)
	j[max(a, b)] = min(a, b)
}

// patientsByEvidence keeps together what PatientID, a subject of BIDS, a DICOM study or a folder
// says is of one patient, and names the patients; by is what each case's is known by. Unlike
// PatientIDs do not divide a study or a subject: de-identification may have given each study
// another, and to join two patients costs little. They do divide a folder; where most folders that
// can be checked are divided, no folder of the data set is a patient.
func (d Dataset) patientsByEvidence() (_ Dataset, by []string) {
	d.Cases = slices.Clone(d.Cases)
	ids, subjects := d.usableIDs(), d.usableSubjects()
	sets := make(union, len(d.Cases))
	for n := range sets {
		sets[n] = n
	}
	seen := map[string]int{}
	same := func(what string, n int) {
		if m, ok := seen[what]; ok {
			sets.join(m, n)
		} else {
			seen[what] = n
		}
	}
	idsOf := map[string]map[string]bool{} // of subjects and studies
	for n, c := range d.Cases {
		if ids[n] != "" {
			same(byID+ids[n], n)
		}
		if subject := bySubject + subjects[n]; subject != bySubject {
			same(subject, n)
			add(idsOf, subject, ids[n])
		}
		if c.Patient == nihPatient {
			same(nihPatient, n)
		}
	}
	places := d.placesOfStudies()
	studies := make([]string, len(d.Cases))
	for study, patients := range places {
		for k, cases := range patients {
			if len(cases) < 2 {
				continue
			}
			name := fmt.Sprintf(byStudy+"%x", sha256.Sum256([]byte(study)))[:24]
			if k > 0 {
				name += fmt.Sprintf(" %d", k+1)
			}
			for _, n := range cases {
				studies[n] = name
				sets.join(cases[0], n)
				add(idsOf, name, ids[n])
			}
		}
	}
	inFolder := d.joinFolders(sets, ids, subjects)
	d.notePlaces(places, func(n int) bool { return ids[n] != "" || subjects[n] != "" || inFolder[n] }, sets)
	differ := map[string]int{} // those with several identifiers, by their kind
	for name, of := range idsOf {
		if len(of) > 1 {
			kind, _, _ := strings.Cut(name, " ")
			differ[kind+" "]++
		}
	}
	if len(differ) > 0 {
		d.note("WARNING: PatientIDs differ within %s and %s (sub- of BIDS): each counts as one patient all the same, "+
			"as de-identification may have given each study or series another; if not, a table says who is one "+
			"patient (--patients FILE)", numbers.Count(differ[byStudy], "DICOM study", "DICOM studies"),
			numbers.Count(differ[bySubject], "subject"))
	}
	by = make([]string, len(d.Cases))
	sizes, members := map[string]int{}, map[int][]int{} // of folders and studies; of patients
	for n, c := range d.Cases {
		sizes[c.Patient]++
		sizes[studies[n]]++
		members[sets.first(n)] = append(members[sets.first(n)], n)
	}
	names := make([]string, len(d.Cases))
	for _, cases := range members {
		least := func(of func(n int) string) (name string) {
			for _, n := range cases {
				if text := of(n); text != "" && (name == "" || text < name) {
					name = text
				}
			}
			return name
		}
		// all cases of a folder or a study are named by it, whatever else is known
		whole := func(of func(n int) string) string {
			name := of(cases[0])
			if name == "" || len(cases) < 2 || sizes[name] != len(cases) ||
				slices.ContainsFunc(cases, func(n int) bool { return of(n) != name }) {
				return ""
			}
			return name
		}
		found := func(n int) string { return d.Cases[n].Patient }
		study := func(n int) string { return studies[n] }
		how, name := "", ""
		for _, kind := range []struct {
			by string
			of func(n int) string
		}{
			{byID, func(n int) string { return ids[n] }},
			{bySubject, func(n int) string { return subjects[n] }},
			{nihPatient, func(n int) string { return onlyIf(found(n) == nihPatient, nihPatient) }},
			{byFolder, func(n int) string { return onlyIf(inFolder[n], strings.TrimPrefix(found(n), byFolder)) }},
			{byStudy, func(n int) string { return strings.TrimPrefix(studies[n], byStudy) }},
		} {
			if text := least(kind.of); text != "" {
				how, name = kind.by, onlyIf(kind.by != nihPatient, kind.by)+text
				break
			}
		}
		name = cmp.Or(whole(found), whole(study), name)
		for _, n := range cases {
			by[n], names[n] = how, name
		}
	}
	for n := range d.Cases {
		d.Cases[n].Patient = names[n]
	}
	return d, by
}

// onlyIf is a text, or none.
func onlyIf(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// add adds a text, if it is one, to those of a name.
func add(to map[string]map[string]bool, name, text string) {
	if text == "" {
		return
	}
	if to[name] == nil {
		to[name] = map[string]bool{}
	}
	to[name][text] = true
}

// usableSubjects are the subjects of BIDS. Where all cases of several have one, as below a folder
// sub-study, it tells nobody apart.
func (d *Dataset) usableSubjects() []string {
	of, different := make([]string, len(d.Cases)), map[string]bool{}
	for n, c := range d.Cases {
		of[n] = c.subject
		different[c.subject] = true
	}
	if len(different) < 2 && len(d.Cases) > 1 {
		clear(of)
	}
	return of
}

// usableIDs are the digests of the cases' PatientIDs. An identifier that three studies or more
// have, and no study another, is taken for a dummy. What has one StudyInstanceUID and lies in other
// folders and frames of reference counts as several studies here. A case without one takes the only
// one of its study.
func (d *Dataset) usableIDs() []string {
	studies, all, withID := map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}
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
			studies[id][study], withID[study] = true, true
		}
	}
	for id, of := range studies {
		switch n := len(of); {
		case len(studies) == 1 && n >= 3 && n == len(all):
			d.note("WARNING: all %d DICOM studies have one PatientID: it is taken for one that anonymisation has put "+
				"there, and not used; if they are of one patient, a table says so (--patients FILE)", n)
			delete(studies, id)
		case len(withID) >= 4 && 2*n > len(withID):
			d.note("WARNING: %d of %d DICOM studies with a PatientID have one PatientID, and count as one patient: if "+
				"anonymisation has put it there, a table says whose they are (--patients FILE)", n, len(withID))
		}
	}
	of, ofStudy := make([]string, len(d.Cases)), map[string]map[string]bool{}
	for n, c := range d.Cases {
		if c.series != nil && studies[c.series.Patient] != nil {
			of[n] = c.series.Patient
			add(ofStudy, c.series.Study, of[n])
		}
	}
	for n, c := range d.Cases {
		if of[n] == "" && c.series != nil && c.series.Study != "" && len(ofStudy[c.series.Study]) == 1 {
			for id := range ofStudy[c.series.Study] {
				of[n] = id
			}
		}
	}
	return of
}

// joinFolders joins the cases of a folder that findPatients took for a patient, unless identifiers
// or subjects speak against it, and says which cases it looked at so.
func (d *Dataset) joinFolders(sets union, ids, subjects []string) []bool {
	folders := map[string][]int{}
	refuted := map[string]int{} // by data set: folders that are no patients, less those that are
	for n, c := range d.Cases {
		if strings.HasPrefix(c.Patient, byFolder) && subjects[n] == "" {
			folders[c.Patient] = append(folders[c.Patient], n)
		}
	}
	site := func(folder string) string {
		if !d.several {
			return ""
		}
		name, _, _ := strings.Cut(folder, "/")
		return name
	}
	patients, divided := map[string]int{}, 0 // that identifiers tell of in each folder
	for folder, cases := range folders {
		of, known := map[int]bool{}, 0
		for _, n := range cases {
			if ids[n] != "" {
				of[sets.first(n)] = true
				known++
			}
		}
		patients[folder] = len(of)
		switch {
		case known < 2:
		case len(of) > 1:
			refuted[site(folder)]++
			divided++
		default:
			refuted[site(folder)]--
		}
	}
	if divided > 0 {
		d.note("WARNING: PatientIDs differ within %s that would be a patient each: they are taken for those of "+
			"several patients; if de-identification gave each study another, a table says who is one patient "+
			"(--patients FILE)",
			numbers.Count(divided, "folder"))
	}
	in := make([]bool, len(d.Cases))
	for folder, cases := range folders {
		if n := patients[folder]; n > 1 || n == 0 && refuted[site(folder)] > 0 {
			continue
		}
		for _, n := range cases {
			in[n] = true
			sets.join(cases[0], n)
		}
	}
	return in
}

// placesOfStudies are the cases of each study, those together that are of one patient: cases in
// different folders and frames of reference are not, unless a third case links them.
func (d *Dataset) placesOfStudies() map[string][][]int {
	together := map[string][][]int{}
	if n := d.ofOneStudy(); n > 0 {
		d.note("WARNING: all %d DICOM series have one StudyInstanceUID, and each lies in a frame of reference of its "+
			"own: it is taken for one that anonymisation has put there, and not used; if they are of one patient, "+
			"a table says so (--patients FILE)", n)
		return together
	}
	for n, c := range d.Cases {
		if c.series == nil || c.series.Study == "" {
			continue
		}
		one := []int{n}
		var apart [][]int
		for _, cases := range together[c.series.Study] {
			if slices.ContainsFunc(cases, func(m int) bool { return !elsewhere(d.Cases[m].series, c.series) }) {
				one = append(cases, one...)
			} else {
				apart = append(apart, cases)
			}
		}
		together[c.series.Study] = append(apart, one)
	}
	return together
}

// ofOneStudy counts the series, three or more, if all have one StudyInstanceUID and no two share a
// frame of reference; 0 otherwise. Scans of one visit of a patient share one, most of them.
func (d *Dataset) ofOneStudy() int {
	var all []*dicom.Series
	for _, c := range d.Cases {
		if c.series == nil {
			continue
		}
		for _, s := range all {
			if s.Study != c.series.Study || s.SameSpace(c.series) {
				return 0
			}
		}
		all = append(all, c.series)
	}
	if len(all) < 3 || all[0].Study == "" {
		return 0
	}
	return len(all)
}

// notePlaces says where one study is taken for that of several patients, by nothing but its places.
func (d *Dataset) notePlaces(places map[string][][]int, known func(n int) bool, sets union) {
	for _, study := range slices.Sorted(maps.Keys(places)) {
		var firsts []int
		seen := map[int]bool{}
		for _, cases := range places[study] {
			if set := sets.first(cases[0]); !known(cases[0]) && !seen[set] {
				firsts = append(firsts, cases[0])
				seen[set] = true
			}
		}
		if len(firsts) > 1 {
			d.note("%s and %s are of one DICOM study, but lie in other folders and frames of reference: "+
				"taken for different patients (%d in all)", d.Cases[firsts[0]].ID, d.Cases[firsts[1]].ID, len(firsts))
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

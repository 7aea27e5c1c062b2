package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Folders are patients where there are as many of them as cases in the fullest, at the first depth
// where that is so.
func TestPatientsOfFolders(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		o     Options
		want  []string // patients with several cases
	}{
		"before and after": {[]string{"p1/pre/ct.nii.gz", "p1/post/ct.nii.gz", "p2/pre/ct.nii.gz", "p2/post/ct.nii.gz",
			"p1/pre/seg.nii.gz"}, Options{}, []string{"p1_post p1_pre", "p2_post p2_pre"}},
		"files": {[]string{"p1/1.nii.gz", "p1/2.nii.gz", "p2/3.nii.gz", "4.nii.gz"}, Options{},
			[]string{"p1_1 p1_2"}},
		"images alone": {[]string{"images/p1/1.nii.gz", "images/p1/2.nii.gz", "images/p2/3.nii.gz",
			"labels/p1/1.nii.gz"}, Options{}, []string{"p1_1 p1_2"}},
		"hospitals": {[]string{"a/1.nii.gz", "a/2.nii.gz", "a/3.nii.gz", "b/4.nii.gz"}, Options{}, nil},
		"patients in hospitals": {[]string{"a/p1/1.nii.gz", "a/p1/2.nii.gz", "a/p2/3.nii.gz", "b/p3/4.nii.gz"},
			Options{},
			[]string{"a_p1_1 a_p1_2"}},
		"one folder": {[]string{"data/images/1.nii.gz", "data/images/2.nii.gz", "data/labels/1.nii.gz"},
			Options{}, nil},
		"told not to look": {[]string{"p1/1.nii.gz", "p1/2.nii.gz", "p2/3.nii.gz"}, Options{PatientPerCase: true}, nil},
		"nnU-Net": {[]string{"imagesTr/p_1_0000.nii.gz", "imagesTr/p_2_0000.nii.gz", "labelsTr/p_1.nii.gz"},
			Options{}, nil},
	} {
		text := map[string]string{}
		for _, file := range c.files {
			text[file] = ""
		}
		d, err := Detect(tree(t, text), c.o)
		if err != nil {
			t.Fatal(err)
		}
		patients := map[string]string{}
		for _, c := range d.Cases {
			if c.Patient != "" {
				patients[c.Patient] = strings.TrimSpace(patients[c.Patient] + " " + c.ID)
			}
		}
		var got []string
		for _, cases := range patients {
			got = append(got, cases)
		}
		slices.Sort(got)
		if said := strings.Contains(strings.Join(d.Notes, "; "), "are of one patient"); !slices.Equal(got, c.want) ||
			said != (c.want != nil) {
			t.Errorf("%s: %q, want %q; notes %q", name, got, c.want, d.Notes)
		}
	}
}

// Patients who were all given one StudyInstanceUID are told apart by folders and frames of
// reference; what shares one of the two with a case is of the same patient.
func TestPatientsOfOneStudy(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	for n, folder := range []string{"p0/a", "p0/b", "p1/a", "p2/a", "p2/b"} {
		datasettest.WriteStudy(t, filepath.Join(root, folder, "ct"), "1.2."+string(rune('1'+n)), "1.2.9", n+1, "CT", v,
			nil)
	}
	datasettest.WriteStudy(t, filepath.Join(root, "p3"), "1.2.6", "1.2.9", 6, "CT", v, nil)
	// one frame of reference: that of their folder's folder
	datasettest.WriteStudy(t, filepath.Join(root, "p4"), "1.2.7", "1.2.9", 7, "CT", v, nil)
	d := Dataset{}
	found, _, _, err := listSeries(root, Options{Series: SeriesAll}, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		d.Cases = append(d.Cases, Case{ID: s.folder, series: s.series})
	}
	if d, err = d.joinPatients(Options{}); err != nil {
		t.Fatal(err)
	}
	patients := map[string]string{}
	for _, c := range d.Cases {
		if c.Patient != "" {
			patients[c.Patient] += filepath.Base(c.ID)
		}
	}
	if len(d.Cases) != 7 || len(patients) != 1 || d.Cases[5].Patient == "" ||
		d.Cases[5].Patient != d.Cases[6].Patient || !datasettest.Noted(d.Notes,
		"taken for different patients (6 in all)") {
		t.Errorf("%d cases, patients %q, notes %q", len(d.Cases), patients, d.Notes)
	}
}

// pairs are patients of two cases each, but for every third, who has one.
func pairs(ids []string) Patients {
	p := Patients{}
	for n, id := range ids {
		if n%5 < 4 {
			p[id] = string(rune('A' + n/5*2 + n%5/2))
		}
	}
	return p
}

func TestPatientsStayTogether(t *testing.T) {
	ids := names(25) // of 15 patients
	p := pairs(ids)
	for _, how := range []string{FoldsConsecutive, FoldsShuffled} {
		splits, err := Folds(how, ids, p, 4, 1)
		if err != nil {
			t.Fatal(err)
		}
		each(t, splits, ids)
		if doubts := (Selection{Patients: p}).Doubts(splits); doubts != nil {
			t.Errorf("%s: %q", how, doubts)
		}
		if _, err := Folds(how, ids, p, 16, 1); err == nil ||
			!strings.Contains(err.Error(), "16 folds of 25 cases, of 15 patients") {
			t.Errorf("%s: 16 folds: %v", how, err)
		}
		if alone, err := Folds(how, ids, nil, 4, 1); err != nil || (Selection{Patients: p}).Doubts(alone) == nil {
			t.Errorf("%s: case by case: %v, no doubts", how, err)
		}
	}
	for number := range uint64(20) {
		rest, held, err := HoldOut(ids, p, 0.2, number)
		if err != nil || len(rest)+len(held) != len(ids) || len(held) < 3 || len(held) > 6 ||
			p.Torn(rest, held) != nil {
			t.Errorf("held out %q, %v", held, err)
		}
	}
	if _, _, err := HoldOut(ids[:2], p, 0.5, 1); err == nil ||
		!strings.Contains(err.Error(), "2 cases, all of one patient: voxsaw prepare --patient-per-case") {
		t.Errorf("held out a patient who is the only one: %v", err)
	}
	// Scans without labels of patients who are held out are not trained on.
	s := DefaultSelection()
	s.Patients, s.Fold = p, 1
	train, held, err := s.ChooseWith(ids[:20:20], ids[20:])
	if err != nil || p.Torn(train, held) != nil {
		t.Errorf("%q, %q, %v", train, held, err)
	}
	s.Patients = Patients{ids[0]: "A", ids[24]: "A"}
	if train, held, err = s.ChooseWith(ids[:20:20], ids[20:]); err != nil || !slices.Contains(held, ids[0]) ||
		slices.Contains(train, ids[24]) || !slices.Contains(train, ids[23]) {
		t.Errorf("%q, %q, %v", train, held, err)
	}
}

func TestDoubtsAboutFolds(t *testing.T) {
	p := Patients{"a": "1", "b": "1"}
	got := (Selection{Patients: p}).Doubts([]Split{{Train: []string{"a", "c"}, Val: []string{"b", "d"}},
		{Train: []string{"a", "b"}, Val: []string{"c", "d"}}})
	want := []string{"fold 1 trains on other cases of the same patients as it tests on: b",
		"fold 2 tests on cases that fold 1 tests on, too: d"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOneScanIsOnePatients: cases of one scan belong together, and so do those of their patients.
func TestOneScanIsOnePatients(t *testing.T) {
	of := func(id, patient, scan string) prepared.Record {
		return prepared.Record{ID: id, Patient: patient, Scan: scan}
	}
	got := PatientsOf(slices.Values([]prepared.Record{
		of("a", "", "1"), of("b", "", "2"), of("c", "", "1"),
		of("d", "P", "3"), of("e", "Q", "3"), of("f", "Q", "4"), // two names of a patient
		of("g", "", ""), of("h", "", ""), // of no store
	}))
	want := Patients{"a": "of the scan of a", "c": "of the scan of a", "d": "P", "e": "P", "f": "P"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Cases 25 and 70 of NIH Pancreas-CT repeat the scan of case 2: folds keep the three together. The
// published folds part them, with a note, as of a folder that nothing knows the patients of.
func TestRepeatsOfNIH(t *testing.T) {
	var ids []string
	files := map[string]string{}
	for _, number := range []int{1, 2, 3, 20, 21, 25, 40, 41, 61, 62, 70, 82} {
		ids = append(ids, fmt.Sprintf("PANCREAS_%04d", number))
		files[ids[len(ids)-1]+".nii.gz"] = "not looked at"
	}
	root := tree(t, files)
	d, err := Detect(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	known := Patients{}
	for _, c := range d.Cases {
		if c.Patient != "" {
			known[c.ID] = c.Patient
		}
	}
	if len(known) != 3 || known["PANCREAS_0002"] == "" || known["PANCREAS_0025"] != known["PANCREAS_0002"] ||
		known["PANCREAS_0070"] != known["PANCREAS_0002"] {
		t.Errorf("patients %v", known)
	}
	if note := "PANCREAS_0002, PANCREAS_0025, PANCREAS_0070 are of one " +
		"patient, by what is published of NIH Pancreas-CT"; !slices.ContainsFunc(d.Notes,
		func(n string) bool { return strings.HasPrefix(n, note) }) {
		t.Errorf("notes %q", d.Notes)
	}
	alone, err := Detect(root, Options{WithoutRepeats: true})
	if err != nil || slices.ContainsFunc(alone.Cases, func(c Case) bool { return c.Patient != "" }) {
		t.Errorf("without repeats: %v", err)
	}
	for how, torn := range map[string]bool{FoldsConsecutive: false, FoldsShuffled: false, FoldsNIH: true} {
		for patients, name := range map[*Patients]string{&known: "known", {}: "unknown"} {
			s := Selection{Folds: 4, FoldScheme: how, SubsetSeed: 1, Patients: *patients}
			splits, err := s.AllFolds(ids)
			if err != nil {
				t.Fatal(err)
			}
			apart := 0 // folds with some of the three
			for n, split := range splits {
				held := 0
				for _, id := range []string{"PANCREAS_0002", "PANCREAS_0025", "PANCREAS_0070"} {
					if slices.Contains(split.Val, id) {
						held++
					}
				}
				if held > 0 {
					apart++
				}
				s.Fold = n + 1
				if got := len(s.Torn(split.Train, split.Val)); (got > 0) != (held > 0 && held < 3) {
					t.Errorf("%s, %s, fold %d: %d are torn", how, name, n+1, got)
				}
			}
			if name == "known" && (apart > 1) != torn {
				t.Errorf("%s: the three are in %d folds", how, apart)
			}
			if doubts := s.Doubts(splits); (len(doubts) > 0) != (apart > 1) ||
				len(doubts) > 0 && !strings.Contains(doubts[0],
					"fold 1 trains on other cases of the same patients as it tests on: PANCREAS_0002") &&
					how == FoldsNIH {
				t.Errorf("%s, %s: %q", how, name, doubts)
			}
		}
	}
}

// patientsIn lists the cases of each patient who has several, and how patients are told.
func patientsIn(t *testing.T, root string, o Options) (groups []string, d *Dataset) {
	t.Helper()
	d, err := Detect(root, o)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{}
	for _, c := range d.Cases {
		if c.Patient != "" {
			of[c.Patient] = append(of[c.Patient], c.ID)
		}
	}
	for _, ids := range of {
		if len(ids) > 1 {
			groups = append(groups, strings.Join(ids, " "))
		}
	}
	slices.Sort(groups)
	return groups, d
}

// Studies of one PatientID are of one patient, whatever their folders say; a digest of it alone is
// kept. A dummy joins nothing in silence.
func TestPatientsByID(t *testing.T) {
	v, _ := datasettest.Axial(t, 1)
	for name, c := range map[string]struct {
		ids  []string // folder=ID, folder=ID/issuer or folder=ID@study
		want []string
		told string
	}{
		"follow-ups": {[]string{"a=P1", "b=P2", "c=P1", "d=P2", "e=P3"}, []string{"a c", "b d"},
			"5 cases count as 3 patients: 5 by PatientID (DICOM)"},
		"folders of several patients": {[]string{"dicom/a=P1", "dicom/b=P2", "more/c=P3", "more/d=P1"},
			[]string{"dicom_a more_d"}, "4 cases count as 3 patients: 4 by PatientID (DICOM)"},
		"folders without identifiers": {[]string{"dicom/a=P1", "dicom/b=P2", "none/c=", "none/d=", "more/e=P3"}, nil,
			"5 cases count as 5 patients: 3 by PatientID (DICOM); nothing is known of 2"},
		"issuers":        {[]string{"a=P1/X", "b=P1/Y", "c=P1/X"}, []string{"a c"}, "3 cases count as 2 patients"},
		"of one dummy":   {[]string{"a=ANON", "b=ANON", "c=ANON"}, nil, "nothing says which of 3 cases"},
		"of one ID":      {[]string{"a=X7", "b=X7", "c=X7"}, nil, "nothing says which of 3 cases"},
		"of two studies": {[]string{"a=X7", "b=X7"}, []string{"a b"}, "2 cases count as 1 patient"},
		"none":           {[]string{"a=", "b="}, nil, "nothing says which of 2 cases"},
		"most of one": {[]string{"a=X7", "b=X7", "c=X7", "d=X7", "e=P1"}, []string{"a b c d"},
			"5 cases count as 2 patients"},
		"some of none": {[]string{"a=P1", "b=P1", "c=", "d=0"}, []string{"a b"},
			"4 cases count as 3 patients: 2 by PatientID (DICOM); nothing is known of 2"},
		"one of a folder says it": {[]string{"p1/a=P1", "p1/b=", "p2/c=P2", "p2/d=P2"},
			[]string{"p1_a p1_b", "p2_c p2_d"}, "4 by PatientID"},
		// studies and subjects are not torn
		"some series of a study": {[]string{"x/a=P1@1", "y/b=@1", "z/c=P2@2", "w/d=P1@3"}, []string{"w_d x_a y_b"},
			"4 cases count as 2 patients: 4 by PatientID (DICOM)"},
		"a study of several IDs": {[]string{"a=P1@1", "b=P2@1", "c=P3@2", "d=P2@3"}, []string{"a b d"},
			"4 cases count as 2 patients"},
		"a subject of several IDs": {[]string{"sub-01/a=P1", "sub-01/b=P2", "sub-02/c=P3"},
			[]string{"sub-01_a sub-01_b"}, "3 cases count as 2 patients"},
		"most of those that have one": {[]string{"a=X7", "b=X7", "c=X7", "d=P1", "e=", "f="}, []string{"a b c"},
			"6 cases count as 4 patients"},
		"of one dummy and study": {[]string{"x/a=X7@9", "y/b=X7@9", "z/c=X7@9"}, nil, "nothing says"},
	} {
		root := t.TempDir()
		for n, text := range c.ids {
			folder, id, _ := strings.Cut(text, "=")
			id, study, _ := strings.Cut(id, "@")
			id, issuer, _ := strings.Cut(id, "/")
			if study == "" {
				study = fmt.Sprint(n)
			}
			more := datasettest.Element(0x0010, 0x0020, "LO", id)
			if issuer != "" {
				more += datasettest.Element(0x0010, 0x0021, "LO", issuer)
			}
			datasettest.WriteTold(t, filepath.Join(root, folder), fmt.Sprint("1.2.3.", n), "1.2.4."+study, 1, "CT", v,
				nil, more)
		}
		got, d := patientsIn(t, root, Options{Series: SeriesAll})
		if !slices.Equal(got, c.want) || !strings.Contains(d.Told, c.told) {
			t.Errorf("%s: %q, want %q; %s", name, got, c.want, d.Told)
		}
		warned := name == "of one ID" || strings.HasPrefix(name, "most of") || name == "of one dummy and study"
		if datasettest.Noted(d.Notes, "have one PatientID") != warned {
			t.Errorf("%s: notes %q", name, d.Notes)
		}
		differ := strings.Contains(name, "several") || name == "folders without identifiers"
		if datasettest.Noted(d.Notes, "PatientIDs differ") != differ {
			t.Errorf("%s: notes %q", name, d.Notes)
		}
		for _, one := range d.Cases {
			if one.Patient != "" && !slices.ContainsFunc(got, func(ids string) bool {
				return slices.Contains(strings.Fields(ids), one.ID)
			}) {
				t.Errorf("%s: %s, the only case of a patient, has one: %s", name, one.ID, one.Patient)
			}
			if strings.Contains(one.Patient, "P1") || strings.Contains(one.Patient, "X7") {
				t.Errorf("%s: the identifier is in %s", name, one.Patient)
			}
		}
	}
}

// Where identifiers say what folders and studies say, patients are called what
// they were: fingerprints of prepared cases stay.
func TestNamesOfPatientsStay(t *testing.T) {
	v, _ := datasettest.Axial(t, 1)
	for layout, want := range map[string][]string{
		"a=1@P b=2@Q c=3@R": {"", "", ""},
		// as sha256sum has it: printf 1.2.4.1 | sha256sum
		"a=1@P b=1@P c=2@Q":                     {"study 330553de1f7fae240b", "study 330553de1f7fae240b", ""},
		"p1/a=1@P p1/b=2@P p2/c=3@Q p2/d=4@Q":   {"folder p1", "folder p1", "folder p2", "folder p2"},
		"sub-1/a=1@P sub-1/b=2@Q sub-2/c=30@RS": {"folder sub-1", "folder sub-1", ""},
	} {
		var named [2][]string
		for with := range named {
			root := t.TempDir()
			for n, text := range strings.Fields(layout) {
				folder, study, _ := strings.Cut(text, "=")
				study, id, _ := strings.Cut(study, "@")
				more := ""
				if with == 1 {
					more = datasettest.Element(0x0010, 0x0020, "LO", "P-"+id)
				}
				datasettest.WriteTold(t, filepath.Join(root, folder), fmt.Sprint("1.2.3.", n), "1.2.4."+study, 1, "CT",
					v, nil, more)
			}
			_, d := patientsIn(t, root, Options{Series: SeriesAll})
			for _, c := range d.Cases {
				named[with] = append(named[with], c.Patient)
			}
		}
		if !slices.Equal(named[0], want) || !slices.Equal(named[1], want) {
			t.Errorf("%s: without identifiers %q, with them %q, want %q", layout, named[0], named[1], want)
		}
	}
}

// sub- of BIDS names the patient, as a folder or in the name of a file.
func TestPatientsBySubject(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		below string
		want  []string
	}{
		"flat": {[]string{"sub-01_ses-1_ct.nii.gz", "sub-01_ses-2_ct.nii.gz", "sub-02_ses-1_ct.nii.gz"}, "",
			[]string{"sub-01_ses-1_ct sub-01_ses-2_ct"}},
		"folders, other names": {[]string{"x/sub-01/a/1.nii.gz", "x/sub-01/b/2.nii.gz", "x/sub-02/c/3.nii.gz",
			"x/sub-03/d/4.nii.gz", "x/sub-03/d/5.nii.gz", "x/sub-03/d/6.nii.gz"}, "",
			[]string{"x_sub-01_a_1 x_sub-01_b_2", "x_sub-03_d_4 x_sub-03_d_5 x_sub-03_d_6"}},
		"nnU-Net": {[]string{"imagesTr/sub-01_a_0000.nii.gz", "imagesTr/sub-01_b_0000.nii.gz",
			"imagesTr/sub-02_0000.nii.gz", "labelsTr/sub-01_a.nii.gz"}, "", []string{"sub-01_a sub-01_b"}},
		"one for all": {[]string{"sub-study/1.nii.gz", "sub-study/2.nii.gz", "sub-study/3.nii.gz"}, "", nil},
		"no subject":  {[]string{"sub-x y/1.nii.gz", "sub-x y/2.nii.gz", "subject-1.nii.gz"}, "", nil},
	} {
		text := map[string]string{}
		for _, file := range c.files {
			text[file] = ""
		}
		if got, d := patientsIn(t, tree(t, text), Options{}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q; %s", name, got, c.want, d.Told)
		}
	}
	root := tree(t, map[string]string{"sub-01/ses-1/a.nii.gz": "", "sub-01/ses-2/b.nii.gz": "", "sub-02/c.nii.gz": ""})
	d, err := DetectAll([]string{filepath.Join(root, "sub-01", "ses-1"), filepath.Join(root, "sub-01", "ses-2"),
		filepath.Join(root, "sub-02")}, Options{})
	if err != nil || len(d.Cases) != 3 || d.Cases[0].Patient == "" || d.Cases[0].Patient != d.Cases[1].Patient ||
		d.Cases[2].Patient == d.Cases[0].Patient {
		t.Errorf("%+v, %v", d, err)
	}
	// several folders below one are no sessions of a patient where that is so of all; two sites may
	// have a subject of one number
	root = tree(t, map[string]string{"sub-study/A/a.nii.gz": "", "sub-study/B/b.nii.gz": "",
		"siteA/sub-01/ses-1/c.nii.gz": "", "siteA/sub-01/ses-2/e.nii.gz": "", "siteB/sub-01/ses-1/d.nii.gz": ""})
	for folders, want := range map[string]string{"sub-study/A sub-study/B": "",
		"siteA/sub-01/ses-1 siteB/sub-01/ses-1": "", "siteA/sub-01 siteB/sub-01": "c e",
		"siteB/sub-01/ses-1 siteA/sub-01/ses-1 siteA/sub-01/ses-2": "c e"} {
		var roots []string
		for _, folder := range strings.Fields(folders) {
			roots = append(roots, filepath.Join(root, filepath.FromSlash(folder)))
		}
		d, err := DetectAll(roots, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range d.Cases {
			if c.Patient != "" {
				got = append(got, c.ID[len(c.ID)-1:])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: together %q, want %s", folders, got, want)
		}
	}
}

// A table of patients outranks everything, and names each case.
func TestPatientsByTable(t *testing.T) {
	root := tree(t, map[string]string{"p1/a.nii.gz": "", "p1/b.nii.gz": "", "p2/c.nii.gz": ""})
	path := filepath.Join(t.TempDir(), "patients.csv")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("case;patient\np1_a;Smith\np1_b;Jones\np2_c;Smith\nother;Miller\n")
	got, d := patientsIn(t, root, Options{Patients: path})
	if !slices.Equal(got, []string{"p1_a p2_c"}) || !strings.Contains(d.Told,
		"2 patients: 3 by the table of --patients") ||
		strings.Contains(d.Cases[0].Patient, "Smith") {
		t.Errorf("%q, %s, %s", got, d.Told, d.Cases[0].Patient)
	}
	for text, want := range map[string]string{
		"case,patient\np1_a,1\n":                "names no patient of 2 of 3 cases: p1_b, p2_c",
		"case,patient\np1_a,1\np1_a,2\n":        "case p1_a has two patients",
		"scan,patient\np1_a,1\n":                "must name the columns (case,patient)",
		"case,patient\np1_a,1\np1_b,\np2_c,1\n": "line 3: needs case and patient",
	} {
		write(text)
		if _, err := Detect(root, Options{Patients: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	write("p1_a,Smith\np1_b,Jones\n")
	if _, err := Detect(root, Options{Patients: path}); err == nil || strings.Contains(err.Error(), "smith") {
		t.Errorf("the first line of a table, which may name a patient: %v", err)
	}
	if _, err := Detect(root, Options{Patients: path, PatientPerCase: true}); err == nil {
		t.Error("a table and --patient-per-case are taken together")
	}
}

// A StudyInstanceUID that all scans have joins nobody, unless two of them lie in one frame of
// reference.
func TestOneStudyOfAll(t *testing.T) {
	v, _ := datasettest.Axial(t, 1)
	for _, c := range []struct {
		patients int
		twice    bool // the first has two series
		want     []int
	}{{2, false, []int{2}}, {3, false, nil}, {4, false, nil}, {3, true, []int{4}}} {
		root, flat := t.TempDir(), filepath.Join(t.TempDir(), "flat")
		if err := os.MkdirAll(flat, 0o777); err != nil {
			t.Fatal(err)
		}
		for n := range c.patients {
			for k := range 2 {
				if k == 0 || n == 0 && c.twice {
					datasettest.WriteStudy(t, filepath.Join(root, fmt.Sprint(n), fmt.Sprint(k)),
						fmt.Sprintf("1.2.%d.%d", n, k), "1.2.9", 1, "CT", v, nil)
				}
			}
		}
		files, err := filepath.Glob(filepath.Join(root, "*", "*", "*.dcm"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for n, file := range files { // all into one folder
			if err := os.Rename(file, filepath.Join(flat, fmt.Sprint(n, ".dcm"))); err != nil {
				t.Fatal(err)
			}
		}
		groups, d := patientsIn(t, flat, Options{Series: SeriesAll})
		var sizes []int
		for _, ids := range groups {
			sizes = append(sizes, len(strings.Fields(ids)))
		}
		if !slices.Equal(sizes, c.want) || datasettest.Noted(d.Notes, "have one StudyInstanceUID") != (c.want == nil) {
			t.Errorf("%+v: %q, %q", c, groups, d.Notes)
		}
	}
}

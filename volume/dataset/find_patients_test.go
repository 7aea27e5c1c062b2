package dataset

import (
	"fmt"
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
	of := func(id, patient string, hashes ...string) prepared.Record {
		r := prepared.Record{ID: id, Patient: patient}
		for _, h := range hashes {
			r.Sources = append(r.Sources, prepared.Source{Hash: h})
		}
		return r
	}
	series := func(r prepared.Record, uid string) prepared.Record {
		r.Origin = fmt.Sprintf(originOfImage+" by index false, {}", uid, 0)
		return r
	}
	voxels := func(r prepared.Record, digest string) prepared.Record {
		r.Scan = digest
		return r
	}
	got := PatientsOf(slices.Values([]prepared.Record{
		// one scan; labels that are alike mean nothing
		of("a", "", "1", "empty"), of("b", "", "2", "empty"), of("c", "", "1"),
		of("d", "P", "3"), of("e", "Q", "3"), of("f", "Q", "4"), // two names of a patient
		of("g", "", ""), of("h", "", ""), // nobody has read them
		// two series of one folder, by an earlier version, and one of them once more
		series(of("i", "", "5"), "1.2.1"), series(of("j", "", "5"), "1.2.2"), series(of("k", "", "5"), "1.2.2"),
		// voxels count where they are known
		voxels(of("l", "", "6"), "x"), voxels(of("m", "", "6"), "y"), voxels(of("n", "", "7"), "x"),
	}))
	want := Patients{"a": "of the scan of a", "c": "of the scan of a", "d": "P", "e": "P", "f": "P",
		"j": "of the scan of j", "k": "of the scan of j", "l": "of the scan of l", "n": "of the scan of l"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Cases 25 and 70 of NIH Pancreas-CT repeat the scan of case 2: folds keep the three together. The
// published folds part them, which is said, as of a folder that nothing knows the patients of.
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
		for patients, name := range map[*Patients]string{&known: "known", {}: "of an earlier version"} {
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

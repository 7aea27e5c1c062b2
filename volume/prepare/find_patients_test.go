package prepare

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Series of one study are of one patient, and the study's UID goes nowhere.
func TestPatientsOfStudies(t *testing.T) {
	root := t.TempDir()
	for n, study := range []string{"1.2.9", "1.2.9", "1.2.8"} {
		v, _ := datasettest.Axial(t, uint64(n+1))
		datasettest.WriteStudy(t, filepath.Join(root, "series"+string(rune('a'+n))), "1.2."+string(rune('1'+n)), study,
			n+1, "CT",
			v, nil)
	}
	d, err := dataset.Detect(root, dataset.Options{Series: dataset.SeriesAll})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := d.Cases[0].Patient, d.Cases[1].Patient, d.Cases[2].Patient; a == "" || a != b || c != "" ||
		strings.Contains(a, "1.2.9") {
		t.Errorf("patients %q, %q, %q", a, b, c)
	}
	dir := t.TempDir()
	before := ""
	for kept := range 2 { // prepared, then all kept
		summary, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil)
		if err != nil || summary.Kept != 3*kept || summary.Fingerprint == before {
			t.Fatalf("%+v, %v", summary, err)
		}
		before = summary.Fingerprint
		store, err := prepared.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := dataset.Patients{d.Cases[0].ID: d.Cases[0].Patient, d.Cases[1].ID: d.Cases[1].Patient}
		if d.Cases[0].Patient == "" {
			want = dataset.Patients{}
		}
		if got := dataset.PatientsOf(store.Records()); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		store.Close()
		if d, err = dataset.Detect(root, dataset.Options{Series: dataset.SeriesAll, PatientPerCase: true}); err != nil {
			t.Fatal(err)
		}
	}
}

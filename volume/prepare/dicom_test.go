package prepare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func TestNIHPancreasCT(t *testing.T) {
	root := t.TempDir()
	labels := filepath.Join(root, "TCIA_pancreas_labels-02-05-2017")
	if err := os.Mkdir(labels, 0o777); err != nil {
		t.Fatal(err)
	}
	truth := map[string]*volume.LabelMap{}
	for number := 1; number <= 4; number++ {
		v, l := datasettest.Axial(t, uint64(number))
		id := fmt.Sprintf("PANCREAS_%04d", number)
		truth[id] = l
		descending := number == 2
		datasettest.WriteSeries(t, filepath.Join(root, "DOI", id, "1.2.3", "1.2.3.4"), fmt.Sprintf("1.2.3.%d", number),
			v,
			descending)
		// Labels count slices by instance number, and their header says something else: read by it,
		// they are upside down.
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: l.Labels}
		if descending {
			stored = datasettest.FlipLabels(stored, "k")
		}
		if number == 4 {
			stored = datasettest.FlipLabels(stored, "j") // a case that is wrong even so
		}
		if err := nifti.WriteLabels(filepath.Join(labels, fmt.Sprintf("label%04d.nii.gz", number)),
			stored); err != nil {
			t.Fatal(err)
		}
	}
	d := detect(t, root)
	if d.Layout != dataset.LayoutNIH || len(d.Cases) != 4 {
		t.Fatalf("layout %s, %d cases", d.Layout, len(d.Cases))
	}
	for _, c := range d.Cases {
		_, got, _, err := c.Read(dataset.DefaultReadOptions(), d.LabelNames)
		if c.ID == "PANCREAS_0004" {
			if err == nil || !strings.Contains(err.Error(), "along j") {
				t.Errorf("%s: %v", c.ID, err)
			}
			var notes []string
			if _, got, notes, err = c.Read(dataset.ReadOptions{Flips: dataset.FlipsFix},
				d.LabelNames); len(notes) != 1 {
				t.Errorf("%s: notes %q", c.ID, notes)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if !got.Same(truth[c.ID].Grid, 1e-3) || !slices.Equal(got.Labels, truth[c.ID].Labels) {
			t.Errorf("%s: labels do not lie where they were drawn", c.ID)
		}
	}
	dir := t.TempDir()
	s, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil)
	if err == nil || s.Prepared != 3 || len(s.Failed) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	// Nothing about the patient is written anywhere.
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "Secret") {
			t.Errorf("%s names the patient", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	entries, notes, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
	if err != nil || len(entries) != 8 {
		t.Fatalf("%d entries, %v, %v", len(entries), notes, err)
	}
	series := 0
	for _, e := range entries {
		if want := strings.HasSuffix(e.Path, "label0004.nii.gz"); want != (len(e.Problems) > 0) {
			t.Errorf("%s: problems %q", e.Path, e.Problems)
		}
		if e.Series != "" {
			series++
			if e.Kind != "DICOM" || e.Axcodes != "LAS" || !slices.Equal(e.Shape, []int{40, 36, 30}) {
				t.Errorf("%+v", e)
			}
		}
	}
	if series != 4 {
		t.Errorf("%d series", series)
	}
}

func TestTreeOfSeries(t *testing.T) {
	root := t.TempDir()
	a, l := datasettest.Axial(t, 1)
	b, _ := datasettest.Axial(t, 2)
	datasettest.WriteSeries(t, filepath.Join(root, "one", "CT"), "1.2.1", a, false)
	datasettest.WriteSeries(t, filepath.Join(root, "two"), "1.2.2", a, false)
	datasettest.WriteSeries(t, filepath.Join(root, "two"), "1.2.3", b, false)
	if err := errors.Join(nifti.WriteLabels(filepath.Join(root, "one_seg.nii.gz"), l),
		nifti.Write(filepath.Join(root, "three.nii"), b),
		os.WriteFile(filepath.Join(root, "readme.txt"), []byte("text"), 0o666)); err != nil {
		t.Fatal(err)
	}
	d := detect(t, root)
	first, second := "two_s1_1ec4fab0d8", "two_s1_c47f5b18b8" // SHA-256 of 1.2.2 and 1.2.3
	if got, want := list(d), []string{"one one/CT one_seg.nii.gz", "three three.nii", first + " two",
		second + " two"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	dir := t.TempDir()
	if _, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want := map[string]*volume.Volume{"one": a, first: a, second: b, "three": b}
	for info := range store.Records() {
		p, err := store.Preparation().Apply(want[info.ID], info.Bounds())
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Open(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Volume()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.Int16, p.Int16) || !c.Same(p.Grid, 1e-3) || info.HasLabels != (info.ID == "one") {
			t.Errorf("%s is not the scan that was written", info.ID)
		}
	}
	// A folder alone, as predict is given one.
	v, notes, err := dataset.ReadImage(filepath.Join(root, "one"), dataset.DefaultReadOptions())
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	if v, err = v.Orient("LPS"); err != nil || !slices.Equal(v.Int16, a.Int16) {
		t.Errorf("%v", err)
	}
	if _, notes, err = dataset.ReadImage(filepath.Join(root, "two"), dataset.DefaultReadOptions()); err != nil ||
		len(notes) != 1 {
		t.Errorf("a choice of two: %q, %v", notes, err)
	}
	for _, path := range []string{"readme.txt", "nothing"} {
		if _, _, err := dataset.ReadImage(filepath.Join(root, path), dataset.DefaultReadOptions()); err == nil {
			t.Errorf("%s is read as a scan", path)
		}
	}
}

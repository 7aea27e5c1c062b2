package prepare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// What is said about labels on other voxels: nothing where only the order of axes differs, which is
// no change.
func TestLabelsBesideTheirScan(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	turned, err := l.Orient("LPS")
	if err != nil {
		t.Fatal(err)
	}
	moved := func(voxels float64) *volume.LabelMap {
		m := &volume.LabelMap{Grid: l.Grid, Labels: l.Labels}
		m.Affine[0][3] += voxels * l.Spacing()[0]
		return m
	}
	coarse, err := l.Resample([3]float64{2 * l.Spacing()[0], 2 * l.Spacing()[1], 2 * l.Spacing()[2]})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		labels     *volume.LabelMap
		note, fail string
		exact      bool
	}{
		"same":       {l, "", "", true},
		"other axes": {turned, "", "", true},
		"rounded":    {moved(0.01), "", "", true},
		"0.4 voxels": {moved(0.4), "0.40 voxels beside those of the scan, by their header: taken voxel by voxel", "",
			true},
		"coarse":     {coarse, "on other voxels in the same box: resampled", "", false},
		"0.6 voxels": {moved(0.6), "", "do not fill the same box", false},
	} {
		root := t.TempDir()
		if err := errors.Join(nifti.Write(filepath.Join(root, "a.nii"), v),
			nifti.WriteLabels(filepath.Join(root, "a_seg.nii"), c.labels)); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		s, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{}, nil)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v, %+v", name, err, s)
		}
		store, err := prepared.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if notes := strings.Join(slices.Collect(store.Records())[0].Notes, "; "); notes != "" != (c.note != "") ||
			!strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q", name, notes)
		}
		opened, err := store.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		labels, err := opened.LabelMap()
		if err != nil {
			t.Fatal(err)
		}
		if c.exact && !slices.Equal(labels.Labels, l.Labels) {
			t.Errorf("%s: other labels", name)
		}
		entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(entries[0].Problems, entries[1].Problems); !strings.Contains(said, c.note) ||
			c.note == "" && said != "[] []" {
			t.Errorf("%s: inspect says %s", name, said)
		}
	}
}

// Patients that are links, links that go round or nowhere.
func TestTreeOfLinks(t *testing.T) {
	archive, root := t.TempDir(), t.TempDir()
	a, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, filepath.Join(archive, "p1", "CT"), "1.2.1", a, false)
	datasettest.WriteSeries(t, filepath.Join(archive, "p2"), "1.2.2", a, false)
	for name, target := range map[string]string{"one": filepath.Join(archive, "p1"),
		"two": filepath.Join(archive, "p2"), "round": ".", "broken": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	d := detect(t, root)
	if got, want := list(d), []string{"one one/CT", "two two"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if said := strings.Join(d.PassedOver, "; "); !strings.Contains(said, "broken") ||
		!strings.Contains(said, "a link that leads nowhere") {
		t.Errorf("passed over %q", said)
	}
	dir := t.TempDir()
	if _, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	if s, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{},
		nil); err != nil || s.Kept != 2 {
		t.Errorf("again: %+v, %v", s, err)
	}
	// Behind a link, too, a changed file is noticed.
	files, err := filepath.Glob(filepath.Join(archive, "p2", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.Open(dir); !errors.Is(err, prepared.ErrStale) {
		t.Errorf("a slice is gone: %v", err)
	}
}

// One study of several series: a scan, chosen by rule or as asked for; the localizer is never one.
func TestSeriesOfAStudy(t *testing.T) {
	root := t.TempDir()
	thin, _ := datasettest.Axial(t, 1)
	thick := &volume.Volume{Grid: thin.Grid} // every second slice
	thick.Shape[2] /= 2
	for w := range 3 {
		thick.Affine[w][2] *= 2
	}
	area := thin.Shape[0] * thin.Shape[1]
	for k := range thick.Shape[2] {
		thick.Int16 = append(thick.Int16, thin.Int16[2*k*area:][:area]...)
	}
	datasettest.WriteStudy(t, filepath.Join(root, "pat", "se1"), "1.2.1", "1.2.9", 2, "CT", thick, nil)
	datasettest.WriteStudy(t, filepath.Join(root, "pat", "se2"), "1.2.2", "1.2.9", 3, "CT", thin, nil)
	datasettest.WriteStudy(t, filepath.Join(root, "other", "se7"), "1.2.3", "1.2.8", 3, "CT", thick, nil)
	for _, c := range []struct {
		series, fails string
		cases         []string
		notes         int
	}{
		{"", "", []string{"other_se7 other/se7", "pat_se2 pat/se2"}, 1},
		{"2", "", []string{"pat_se1 pat/se1"}, 1}, // and that the other study has none
		{"3", "", []string{"other_se7 other/se7", "pat_se2 pat/se2"}, 0},
		{"1.2.1", "", []string{"pat_se1 pat/se1"}, 1},
		// and that two are of one patient
		{dataset.SeriesAll, "", []string{"other_se7 other/se7", "pat_se1 pat/se1", "pat_se2 pat/se2"}, 1},
		{"77", "there is no series 77; there are:\n", nil, 0},
	} {
		d, err := dataset.Detect(root, dataset.Options{Series: c.series})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("series %q: %v", c.series, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := list(d); !slices.Equal(got, c.cases) || len(d.Notes) != c.notes {
			t.Errorf("series %q: %q, notes %q", c.series, got, d.Notes)
		}
	}
	d := detect(t, root)
	if !strings.Contains(d.Notes[0],
		"pat: CT series 3: 30 axial slices of 40x36, explicit VR little endian: the largest axial "+
			"CT of 2 series; --series chooses another") {
		t.Errorf("notes %q", d.Notes)
	}
	// Anonymised to one study: the others are not passed over without a word of warning.
	for n := range 3 {
		datasettest.WriteStudy(t, filepath.Join(root, "anonymous", fmt.Sprint("p", n), "ct"), fmt.Sprint("1.2.6", n),
			"1.2.7", 1,
			"CT", thin, nil)
	}
	if d := detect(t, root); !strings.Contains(strings.Join(d.Notes, "\n"),
		"2 of them lie in other folders and frames of reference") {
		t.Errorf("notes %q", d.Notes)
	}
	files, err := filepath.Glob(filepath.Join(root, "anonymous", "p2", "ct", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // a projection is no scan of anybody else
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		class := datasettest.Element(0x0008, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.2")
		if err := os.WriteFile(file, []byte(strings.Replace(string(data), class,
			datasettest.Element(0x0008, 0x0008, "CS", `DERIVED\SECONDARY\AXIAL\MIP`)+class, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if d := detect(t, root); !strings.Contains(strings.Join(d.Notes, "\n"),
		"1 of them lie in other folders and frames of reference") {
		t.Errorf("notes %q", d.Notes)
	}
	if err := os.RemoveAll(filepath.Join(root, "anonymous")); err != nil {
		t.Fatal(err)
	}
	entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{Series: "3"})
	if err != nil || len(entries) != 2 || entries[0].Number != "3" || entries[0].Modality != "CT" {
		t.Errorf("inspect --series 3: %+v, %v", entries, err)
	}
	// A study of which none can be chosen is a case that fails by name; the others are prepared.
	datasettest.WriteStudy(t, filepath.Join(root, "mr", "a"), "1.2.5", "1.2.7", 1, "MR", thin, nil)
	datasettest.WriteStudy(t, filepath.Join(root, "mr", "b"), "1.2.6", "1.2.7", 2, "MR", thick, nil)
	s, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
	if err == nil || s.Prepared != 2 || len(s.Failed) != 1 || s.Failed[0].Case.ID != "mr" ||
		!strings.Contains(err.Error(), "none of several series is an axial CT: choose with --series") {
		t.Errorf("%+v, %v", s, err)
	}
	// Two such studies in one folder are two.
	for n, series := range []string{"1.2.11", "1.2.12", "1.2.13", "1.2.14"} {
		datasettest.WriteStudy(t, filepath.Join(root, "mixed"), series, fmt.Sprintf("1.2.2%d", n/2), n, "MR", thick,
			nil)
	}
	s, err = Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
	if err == nil || s.Prepared != 2 || len(s.Failed) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A file whose name is not UTF-8 is prepared once, not each time.
func TestNamesThatAreNotUTF8(t *testing.T) {
	v, _ := datasettest.Patient(t, 1)
	root, out := t.TempDir(), t.TempDir()
	path := filepath.Join(root, "caf\xe9.nii.gz")
	if err := nifti.Write(path, v); err != nil {
		t.Skip("no such names here: ", err)
	}
	for n, want := range [][2]int{{1, 0}, {0, 1}} {
		s, err := Run(t.Context(), detect(t, root), out, volume.DefaultPreparation(), Options{}, nil)
		if err != nil || s.Prepared != want[0] || s.Kept != want[1] {
			t.Errorf("run %d: %+v, %v", n+1, s, err)
		}
	}
	store, err := prepared.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r := range store.Records() {
		if len(r.Sources) != 1 || r.Sources[0].Path != path || !utf8.ValidString(r.ID) {
			t.Errorf("%+v", r)
		}
	}
}

// TestNumbersOfUnlikeCases: where one case has less than half of the labels of another, and none
// has a name, a number may mean two things.
func TestNumbersOfUnlikeCases(t *testing.T) {
	of := func(sets ...[]uint16) string {
		var u unlike
		for n, labels := range sets {
			counts := map[uint16]int{}
			for _, label := range labels {
				counts[label] = 5
			}
			u.add(string(rune('a'+n)), counts)
		}
		return u.doubt()
	}
	if got := of([]uint16{1, 2, 3}, []uint16{1, 3}, nil); got != "" {
		t.Error(got)
	}
	for _, got := range []string{of([]uint16{1, 2, 3, 7}, []uint16{5}), of([]uint16{5}, nil, []uint16{1, 2, 3, 7})} {
		if !strings.Contains(got, "has 1 label (5), ") ||
			!strings.Contains(got, " has 4 labels (1 to 3, 7): a number is learnt as one organ") {
			t.Errorf("%q", got)
		}
	}
}

func TestImplausibleScansAreNamed(t *testing.T) {
	scan := func(spacing float64, values ...int16) *volume.Volume {
		g := volume.Grid{Shape: [3]int{4, 3, 2}, Affine: volume.Scaling([3]float64{spacing, spacing, 1})}
		v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
		for n := range v.Int16 {
			v.Int16[n] = values[n%len(values)]
		}
		return v
	}
	for name, c := range map[string]struct {
		scan *volume.Volume
		want string
	}{
		"micrometres": {scan(3906, -1000, 40),
			"voxels of 3906 x 3906 x 1 mm are none of a patient: is the unit of length another?"},
		"metres": {scan(0.0001, -1000, 40),
			"voxels of 0.0001 x 0.0001 x 1 mm are none of a patient: is the unit of length another?"},
		"blank":  {scan(1, -1024), "all voxels are -1024: there is nothing to see"},
		"zeros":  {scan(1, 0), "all voxels are 0: there is nothing to see"},
		"a scan": {scan(1, -1000, 40), ""},
		"fine":   {scan(0.02, -1000, 40), ""},
	} {
		path := filepath.Join(t.TempDir(), "ct.nii.gz")
		if err := nifti.Write(path, c.scan); err != nil {
			t.Fatal(err)
		}
		entries, _, err := dataset.Inspect(t.Context(), []string{path}, dataset.InspectOptions{})
		if err != nil || len(entries) != 1 || strings.Join(entries[0].Problems, "; ") != c.want {
			t.Errorf("%s: inspect says %+v, %v", name, entries, err)
		}
		_, notes, err := (dataset.Case{Image: path}).ReadImage(dataset.DefaultReadOptions())
		notes = slices.DeleteFunc(notes, func(note string) bool {
			return strings.HasPrefix(note,
				"is taken for a scan")
		})
		if err != nil || strings.Join(notes, "; ") != c.want {
			t.Errorf("%s: reading it notes %q, %v", name, notes, err)
		}
	}
	// The same of DICOM, whose SeriesInstanceUID is text that may say who it is.
	root, out := t.TempDir(), t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	for n := range v.Int16 {
		v.Int16[n] = int16(n % 301)
	}
	datasettest.WriteSeries(t, filepath.Join(root, "p"), "Mustermann^Erika", v, false)
	if _, err := Run(t.Context(), detect(t, root), out, volume.DefaultPreparation(), Options{},
		nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.json", "cases/p.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), "values go from 0 to 300") ||
			strings.Contains(string(text), "Mustermann") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// Cases that cannot be read are left out and named, where enough others are left.
func TestLeastShareOfCases(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, id := range []string{"a", "b", "c", "d"} { // a and b have labels
		if err := nifti.Write(filepath.Join(root, id+".nii.gz"), v); err != nil {
			t.Fatal(err)
		}
		if id < "c" {
			if err := nifti.WriteLabels(filepath.Join(root, id+"_seg.nii.gz"), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, err := os.ReadFile(filepath.Join(root, "a.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		broken string
		share  float64
		ok     bool
	}{{"a", 0, false}, {"a", 0.5, true}, {"a", 0.6, false}, {"c", 0.75, true}, {"ab", 0.5, false},
		{"abcd", 0.1, false}, {"bcd", 0.25, true}, {"acd", 0.5, false}, {"", 1, true}} {
		for _, id := range []string{"a", "b", "c", "d"} {
			bytes := whole
			if strings.Contains(c.broken, id) {
				bytes = whole[:len(whole)/2]
			}
			if err := os.WriteFile(filepath.Join(root, id+".nii.gz"), bytes, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(),
			Options{LeastShare: c.share}, nil)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if c.ok && c.broken != "" && (s.Prepared != 4-len(c.broken) || !strings.Contains(strings.Join(s.Notes, " "),
			"left out: "+fmt.Sprint(len(c.broken))+" of 4 cases")) {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

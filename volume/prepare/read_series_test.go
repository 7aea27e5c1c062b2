package prepare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A number that several series of a study have chooses none of them: their UIDs are told, by
// inspect as well, and choose.
func TestSeriesOfOneNumber(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	for _, series := range []string{"1.2.1", "1.2.2"} {
		datasettest.WriteStudy(t, filepath.Join(root, "pat"), series, "1.2.9", 2, "CT", v, nil)
	}
	// the only one of its study
	datasettest.WriteStudy(t, filepath.Join(root, "other"), "1.2.3", "1.2.8", 2, "CT", v, nil)
	d, err := dataset.Detect(root, dataset.Options{Series: "2"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
	if err == nil || s.Prepared != 1 || len(s.Failed) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, want := range []string{"series 2 is not one but 2 (choose by UID", ", UID 1.2.1", ", UID 1.2.2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if d, err = dataset.Detect(root, dataset.Options{Series: "1.2.2"}); err != nil || len(d.Cases) != 1 ||
		d.Cases[0].Series != "1.2.2" {
		t.Errorf("by UID: %+v, %v", d, err)
	}
	if d = detect(t, root); len(d.Notes) != 1 ||
		!strings.Contains(d.Notes[0],
			"the largest axial CT of 2 series, UID 1.2.1, as large as series 2 UID 1.2.2; --series chooses another") {
		t.Errorf("notes %q", d.Notes)
	}
	entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want := "another series of its study has the same number: --series " + e.Series + " takes this one"
		if e.Series == "1.2.3" {
			want = ""
		}
		if got := strings.Join(e.Problems, "; "); got != want {
			t.Errorf("series %s: problems %q", e.Series, got)
		}
	}
}

// A scan of whose slices each has UIDs of its own is prepared as a whole, or not at all: never is a
// slice of it taken for a scan.
func TestSlicesWithUIDsOfTheirOwn(t *testing.T) {
	v, _ := datasettest.Axial(t, 3)
	each := func(k int) string { return fmt.Sprintf("1.8.%d", k) }
	for name, c := range map[string]struct {
		without func(k int) bool // slices that are missing
		study   func(k int) string
		fail    string
	}{
		"each of a study of its own": {func(int) bool { return false }, each, ""},
		"all of one study":           {func(int) bool { return false }, func(int) string { return "1.8" }, ""},
		"one is missing": {func(k int) bool { return k == 12 }, func(int) string { return "1.8" },
			"slices are not evenly spaced"},
		"one is missing, studies": {func(k int) bool { return k == 12 }, each, "slices are not evenly spaced"},
	} {
		root, out := t.TempDir(), t.TempDir()
		for k := range v.Shape[2] {
			one, err := v.Crop([3]int{0, 0, k}, [3]int{v.Shape[0], v.Shape[1], 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !c.without(k) {
				datasettest.WriteStudy(t, filepath.Join(root, "patient"), fmt.Sprintf("1.7.%d", k), c.study(k), 4, "CT",
					one, nil)
			}
		}
		_, err := Run(t.Context(), detect(t, root), out, volume.DefaultPreparation(), Options{}, nil)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		store, err := prepared.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		records := slices.Collect(store.Records())
		want, err := v.Orient("RAS")
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 1 || records[0].Shape != want.Shape || !strings.Contains(strings.Join(records[0].Notes, ""),
			"taken for one volume") {
			t.Errorf("%s: %+v", name, records)
		}
	}
}

// Single slices whose UIDs have nothing in common are no cases if they lie in one folder and look
// alike, unless that is asked for.
func TestSingleSlicesOfOneFolder(t *testing.T) {
	v, _ := datasettest.Axial(t, 3)
	for name, these := range map[string][]int{"two": {3, 4}, "three, unevenly": {2, 3, 8}} {
		root := t.TempDir()
		folder := filepath.Join(root, "data", "patient")
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, k := range these {
			one, err := v.Crop([3]int{0, 0, k}, [3]int{v.Shape[0], v.Shape[1], 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			from := filepath.Join(root, fmt.Sprint(k), "one") // a frame of reference each
			datasettest.WriteStudy(t, from, fmt.Sprintf("1.7.%d", k), fmt.Sprintf("1.8.%d", k), 4, "CT", one, nil)
			files, err := filepath.Glob(filepath.Join(from, "*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := os.Rename(files[0], filepath.Join(folder, filepath.Base(files[0]))); err != nil {
				t.Fatal(err)
			}
		}
		root = filepath.Join(root, "data")
		_, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
		if want := fmt.Sprintf("%d single slices that look alike have UIDs of their own", len(these)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if d, err := dataset.Detect(root, dataset.Options{Series: dataset.SeriesAll}); err != nil ||
			len(d.Cases) != len(these) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

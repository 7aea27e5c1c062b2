package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// preparedCase prepares the only case of a folder, and returns its labels on the scan's voxels.
func preparedCase(t *testing.T, root string, o Options) (prepared.Record, *volume.LabelMap, error) {
	t.Helper()
	dir := t.TempDir()
	p := volume.DefaultPreparation()
	p.Spacing = [3]float64{}
	if _, err := Run(t.Context(), detect(t, root), dir, p, o, nil); err != nil {
		return prepared.Record{}, nil, err
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := slices.Collect(store.Records())[0]
	c, err := store.Open(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.OriginalLabelMap()
	return r, l, err
}

// Labels on a part of the scan's voxels are placed there, with a note.
func TestLabelsOnAPartOfTheScan(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	shape := l.Shape
	crop := func(origin, size [3]int) *volume.LabelMap {
		part, err := l.Crop(origin, size)
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	turned, err := crop([3]int{2, 1, 3}, [3]int{20, 17, 12}).Orient("PIR")
	if err != nil {
		t.Fatal(err)
	}
	larger := crop([3]int{-3, -2, -1}, [3]int{shape[0] + 5, shape[1] + 5, shape[2] + 5})
	drawnBeyond := &volume.LabelMap{Grid: larger.Grid, Labels: slices.Clone(larger.Labels)}
	drawnBeyond.Labels[0], drawnBeyond.Labels[1] = 1, 1
	beside := crop([3]int{2, 1, 3}, [3]int{20, 17, 12})
	for a := range 3 { // a fifth of a voxel, along j
		beside.Affine[a][3] += beside.Affine[a][1] / 5
	}
	for name, c := range map[string]struct {
		labels         *volume.LabelMap
		note           string
		origin, extent [3]int // of what is known
	}{
		"cropped, other axes": {turned,
			"labels lie on a part of the scan's voxels, 17x12x20 of 24x20x16: the rest is background", [3]int{2, 1, 3},
			[3]int{20, 17, 12}},
		"a slice less": {crop([3]int{}, [3]int{24, 20, 15}), "24x20x15 of 24x20x16: the rest is background", [3]int{},
			[3]int{24, 20, 15}},
		"larger": {larger, "29x25x21 of 24x20x16", [3]int{}, shape},
		"drawn beyond": {drawnBeyond,
			"WARNING: a_seg.nii: labels reach beyond the scan: 2 labelled voxels there left out; labels lie on a part",
			[3]int{}, shape},
		"a fifth beside": {beside, "the rest is background; they lie 0.20 voxels beside those, by their header",
			[3]int{2, 1, 3}, [3]int{20, 17, 12}},
	} {
		root := datasettest.Written(t, v, map[string]*volume.LabelMap{"a_seg.nii": c.labels})
		r, got, err := preparedCase(t, root, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !datasettest.Noted(r.Notes, c.note) {
			t.Errorf("%s: notes %q", name, r.Notes)
		}
		if datasettest.Noted(r.Notes, "beside") != (name == "a fifth beside") {
			t.Errorf("%s: notes %q", name, r.Notes)
		}
		inside, err := l.Crop(c.origin, c.extent)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := inside.Place(l.Grid)
		if !slices.Equal(got.Labels, want.Labels) || slices.Max(got.Labels) == 0 {
			t.Errorf("%s: labels lie elsewhere", name)
		}
		entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range entries {
			found = found || datasettest.Noted(e.Problems, "labels lie on a part of the scan's voxels")
			if e.Unreadable {
				t.Errorf("%s: inspect cannot read %s: %q", name, e.Path, e.Problems)
			}
		}
		if !found {
			t.Errorf("%s: inspect says nothing", name)
		}
	}
	elsewhere := crop([3]int{-2, -2, -2}, [3]int{8, 8, 8})
	clear(elsewhere.Labels)
	elsewhere.Labels[0] = 1
	if _, _, err := preparedCase(t, datasettest.Written(t, v, map[string]*volume.LabelMap{"a_seg.nii": elsewhere}),
		Options{}); err == nil ||
		!strings.Contains(err.Error(), "none of its 1 labelled voxel lies in the scan") {
		t.Errorf("all drawn beyond the scan: %v", err)
	}
}

// Masks of structures that are cropped each to its own extent lie on one scan.
func TestMasksOnPartsOfTheScan(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 32}})
	if err != nil {
		t.Fatal(err)
	}
	labels := []uint16{1, 2, 3}
	masks, want := map[string]*volume.LabelMap{}, make([]uint16, l.Len())
	for n, label := range labels {
		low, high := l.Shape, [3]int{}
		mask := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
		for at, x := range l.Labels {
			if x == label {
				mask.Labels[at], want[at] = 1, uint16(n+1)
				for a, p := range [3]int{at % l.Shape[0], at / l.Shape[0] % l.Shape[1], at / l.Shape[0] / l.Shape[1]} {
					low[a], high[a] = min(low[a], p), max(high[a], p+1)
				}
			}
		}
		part, err := mask.Crop(low, [3]int{high[0] - low[0], high[1] - low[1], high[2] - low[2]})
		if err != nil {
			t.Fatal(err)
		}
		masks["segmentations/"+string(rune('a'+n))+".nii"] = part
	}
	root := datasettest.Written(t, v, masks)
	if err := os.Rename(filepath.Join(root, "a.nii"), filepath.Join(root, "ct.nii")); err != nil {
		t.Fatal(err)
	}
	r, got, err := preparedCase(t, root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Labels, want) || len(got.Names) != 3 {
		t.Errorf("labels lie elsewhere, names %v", got.Names)
	}
	if !datasettest.Noted(r.Notes, "masks lie on different parts of the scan's voxels") {
		t.Errorf("notes %q", r.Notes)
	}
}

// Labels without a header of their own go by index where somebody says so, and the refusal says
// how.
func TestLabelsByIndexOfTheFile(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	for _, codes := range []string{"RAS", "LPS", "PSR"} {
		scan, err := v.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		labels, err := l.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		bare := &volume.LabelMap{Grid: volume.Grid{Shape: labels.Shape, Affine: volume.Scaling([3]float64{1, 1, 1})},
			Labels: labels.Labels}
		root := datasettest.Written(t, scan, map[string]*volume.LabelMap{"a_seg.nii": bare})
		if _, _, err := preparedCase(t, root, Options{}); err == nil ||
			!strings.Contains(err.Error(), "--labels-by index takes them so") {
			t.Errorf("%s: %v", codes, err)
		}
		read := dataset.DefaultReadOptions()
		read.LabelsBy = dataset.LabelsByIndex
		_, got, err := preparedCase(t, root, Options{Read: read})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, labels.Labels) {
			t.Errorf("%s: labels lie elsewhere", codes)
		}
		for by, problems := range map[dataset.LabelsBy]bool{"": true, dataset.LabelsByIndex: false} {
			entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{LabelsBy: by})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if filepath.Base(e.Path) == "a_seg.nii" && datasettest.Noted(e.Problems,
					"do not fill the same box") != problems {
					t.Errorf("%s, by %q: problems %q", codes, by, e.Problems)
				}
			}
		}
	}
	read := dataset.DefaultReadOptions()
	read.LabelsBy = dataset.LabelsByIndex
	short := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{24, 20, 15}, Affine: l.Affine},
		Labels: l.Labels[:24*20*15]}
	root := datasettest.Written(t, v, map[string]*volume.LabelMap{"a_seg.nii": short})
	if _, _, err := preparedCase(t, root, Options{Read: read}); err == nil ||
		!strings.Contains(err.Error(),
			"has 24x20x15 voxels, its scan has 24x20x16: labels go by index "+
				"(--labels-by index) where both have the same") {
		t.Errorf("other shape: %v", err)
	}
	// Labels that were turned, and whose header says nothing of it, fit better when they are
	// flipped.
	turned := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels)}
	slices.Reverse(turned.Labels)
	turned.Affine = volume.Scaling([3]float64{1, 1, 1})
	if _, _, err := preparedCase(t, datasettest.Written(t, v, map[string]*volume.LabelMap{"a_seg.nii": turned}),
		Options{Read: read}); err == nil || !strings.Contains(err.Error(), "fits its scan better when flipped") {
		t.Errorf("turned: %v", err)
	}
}

// An order of structures says whose the voxels are that masks share. A structure that has none left
// is emptied: it was drawn, so it is not undrawn, and the record says so.
func TestOrderOfMasksThatOverlap(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	inner := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels)}
	first := slices.Index(inner.Labels, 1)
	for n := range inner.Labels {
		inner.Labels[n] = 0
	}
	inner.Labels[first], inner.Labels[first+1] = 1, l.Labels[first+1]
	root := datasettest.Written(t, v, map[string]*volume.LabelMap{"segmentations/liver.nii": l,
		"segmentations/tumour.nii": inner})
	if err := os.Rename(filepath.Join(root, "a.nii"), filepath.Join(root, "ct.nii")); err != nil {
		t.Fatal(err)
	}
	drawn := func(l *volume.LabelMap) (n int) {
		return l.Len() - l.Counts()[0]
	}
	for rule, want := range map[dicom.Overlap]struct {
		liver, tumour int
		emptied       []uint16
	}{
		"last":               {drawn(l) - drawn(inner), drawn(inner), nil},
		"order:Tumour":       {drawn(l) - drawn(inner), drawn(inner), nil},
		"order:liver,tumour": {drawn(l), 0, []uint16{2}},
	} {
		read := dataset.DefaultReadOptions()
		read.Overlap = rule
		r, got, err := preparedCase(t, root, Options{Read: read})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if r.LabelCounts[1] != want.liver || r.LabelCounts[2] != want.tumour ||
			!slices.Equal(r.Emptied, want.emptied) || r.Undrawn != nil || !slices.Equal(got.Emptied, want.emptied) {
			t.Errorf("%s: voxels %v, emptied %v, undrawn %v", rule, r.LabelCounts, r.Emptied, r.Undrawn)
		}
		if datasettest.Noted(
			r.Notes,
			"WARNING: emptied, because others have all their voxels (--segment-overlap): tumour",
		) != (want.emptied != nil) {
			t.Errorf("%s: notes %q", rule, r.Notes)
		}
	}
	for rule, problem := range map[dicom.Overlap]string{
		"error": "order:NAME,NAME to the first that is named", "order:spleen": "structures overlap: liver and tumour",
		"lest": "must be error, last, or order:",
	} {
		read := dataset.DefaultReadOptions()
		read.Overlap = rule
		if _, _, err := preparedCase(t, root, Options{Read: read}); err == nil ||
			!strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

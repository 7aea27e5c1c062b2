package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
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

func TestPrepareIsIncremental(t *testing.T) {
	root, dir := folderOf(t, "p1", "p2", "p3"), t.TempDir()
	p := volume.DefaultPreparation()
	force := false
	prepare := func(fresh, kept int) *Summary {
		t.Helper()
		results := 0
		s, err := Run(t.Context(), detect(t, root), dir, p, Options{Workers: 2, Force: force},
			func(Result) { results++ })
		if err != nil {
			t.Fatal(err)
		}
		if s.Prepared != fresh || s.Kept != kept || results != fresh+kept {
			t.Errorf("prepared %d and kept %d of %d, want %d and %d", s.Prepared, s.Kept, results, fresh, kept)
		}
		store, err := prepared.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if store.Fingerprint() != s.Fingerprint || store.Len() != fresh+kept {
			t.Errorf("%d cases in the store, fingerprints %s and %s", store.Len(), store.Fingerprint(), s.Fingerprint)
		}
		if err := store.Verify(); err != nil {
			t.Error(err)
		}
		return s
	}
	first := prepare(3, 0)
	before := times(t, dir)
	again := prepare(0, 3)
	if again.Fingerprint != first.Fingerprint || !slices.Equal(times(t, dir), before) {
		t.Error("a second run changes something")
	}

	// A case more, a case changed, a case gone.
	v, l := datasettest.Patient(t, 77)
	if err := errors.Join(nifti.Write(filepath.Join(root, "imagesTr/p4.nii.gz"), v),
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p2.nii.gz"), l),
		os.Remove(filepath.Join(root, "imagesTr/p1.nii.gz")),
		os.Remove(filepath.Join(root, "labelsTr/p1.nii.gz"))); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.Open(dir); !errors.Is(err, prepared.ErrStale) || !strings.Contains(err.Error(), "p2") {
		t.Errorf("labels that changed: %v", err)
	}
	var others *OthersError
	if _, err := Run(t.Context(), detect(t, root), dir, p, Options{}, nil); !errors.As(err, &others) ||
		!slices.Equal(others.Cases, []string{"p1"}) {
		t.Errorf("a case that is gone is removed unasked: %v", err)
	}
	force = true
	if prepare(2, 1).Fingerprint == first.Fingerprint {
		t.Error("other cases, the same fingerprint")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cases", "p1*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	p.Relabel = "1:5"
	prepare(3, 0)
}

// times lists the files below a folder with the times they were written.
func times(t *testing.T, dir string) (lines []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			lines = append(lines, path+info.ModTime().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestPrepareResumes(t *testing.T) {
	root, dir := folderOf(t, "p1", "p2", "p3", "p4"), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	done := 0
	_, err := Run(ctx, detect(t, root), dir, volume.DefaultPreparation(), Options{Workers: 1}, func(Result) {
		if done++; done == 2 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped with %v", err)
	}
	if _, err := prepared.Open(dir); !errors.Is(err, prepared.ErrNotPrepared) {
		t.Errorf("half-prepared cases: %v", err)
	}
	s, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{}, nil)
	if err != nil || s.Kept != 2 || s.Prepared != 2 {
		t.Errorf("resumed: %+v, %v", s, err)
	}
	fresh, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(),
		Options{Memory: 300_000}, nil)
	if err != nil || fresh.Fingerprint != s.Fingerprint {
		t.Errorf("prepared at once: %+v, %v", fresh, err)
	}
}

func TestPrepareGoesOnAfterABadFile(t *testing.T) {
	root := folderOf(t, "p1", "p2", "p3", "p4", "p5")
	v, l := datasettest.Patient(t, 1)
	moved := &volume.LabelMap{Grid: l.Grid, Labels: l.Labels}
	moved.Affine[2][3] += 40
	empty := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
	halves, err := l.Resample([3]float64{8, 8, 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "imagesTr/p1.nii.gz"), []byte("no scan"), 0o666),
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p2.nii.gz"), moved),
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p3.nii.gz"), empty),
		nifti.Write(filepath.Join(root, "labelsTr/p4.nii.gz"), v), // HU are no labels
		nifti.WriteLabels(filepath.Join(root, "labelsTr/p5.nii.gz"), halves),
	); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{}, nil)
	if err == nil || !strings.Contains(err.Error(), "3 of 5") {
		t.Errorf("error %v", err)
	}
	var failed []string
	for _, r := range s.Failed {
		failed = append(failed, r.Case.ID)
		if !strings.Contains(err.Error(), r.Case.ID) {
			t.Errorf("%s is not named by %v", r.Case.ID, err)
		}
	}
	if !slices.Equal(failed, []string{"p1", "p2", "p4"}) || !slices.Equal(s.Empty, []string{"p3"}) {
		t.Errorf("failed %v, empty %v", failed, s.Empty)
	}
	var geometry *volume.GeometryError
	if !errors.As(s.Failed[1].Err, &geometry) {
		t.Errorf("labels elsewhere: %v", s.Failed[1].Err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	cases := slices.Collect(store.Records())
	if len(cases) != 2 || cases[0].ID != "p3" || cases[1].ID != "p5" {
		t.Fatalf("cases %v", cases)
	}
	if notes := cases[1].Notes; len(notes) != 1 || !strings.Contains(notes[0], "resampled") {
		t.Errorf("labels on other voxels: notes %q", notes)
	}
	if _, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(),
		Options{Strict: true, Workers: 1}, nil); err == nil || !strings.Contains(err.Error(), "case p1") {
		t.Errorf("strictly: %v", err)
	}
	if _, err := Run(t.Context(), detect(t, root), t.TempDir(), volume.DefaultPreparation(),
		Options{Read: dataset.ReadOptions{Flips: "maybe"}}, nil); err == nil {
		t.Error("unknown flips are let pass")
	}
}

func TestPrepareRealScans(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	d := detect(t, filepath.Join(data, "openkbp"))
	d.Cases = d.Cases[:3]
	dir := t.TempDir()
	p := volume.DefaultPreparation()
	if _, err := Run(t.Context(), d, dir, p, Options{}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for n, info := range slices.Collect(store.Records()) {
		c, err := store.Open(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		if info.Axcodes() != "RAS" || info.Original.Axcodes() != "PLI" || len(info.LabelCounts) == 0 ||
			info.Air < 0.3 || info.Air > 0.99 {
			t.Errorf("%s: %s from %s, labels %v, %.2f air", info.ID, info.Axcodes(), info.Original.Axcodes(),
				info.LabelCounts, info.Air)
		}
		// There and back.
		l, err := nifti.ReadLabels(d.Cases[n].Labels)
		if err != nil {
			t.Fatal(err)
		}
		labels, err := c.LabelMap()
		if err != nil {
			t.Fatal(err)
		}
		restored, err := p.Restore(labels, info.Bounds())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(restored.Labels, l.Labels) || !restored.Same(l.Grid, 1e-6) {
			t.Errorf("%s: the labels do not come back as they were", info.ID)
		}
	}
}

// Values that no scanner writes are named; NaN becomes air, infinite ones the ends of the window.
func TestValuesThatAreNotFinite(t *testing.T) {
	root := t.TempDir()
	inf := float32(math.Inf(1))
	g := volume.Grid{Shape: [3]int{3, 2, 1}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	if err := nifti.Write(filepath.Join(root, "a.nii.gz"),
		&volume.Volume{Grid: g, Float32: []float32{10, inf, -inf, inf - inf, 20, 2000}}); err != nil {
		t.Fatal(err)
	}
	const want = "3 of 6 voxels are not finite"
	entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
	if err != nil || !slices.Equal(entries[0].Problems, []string{want}) || *entries[0].Max != 2000 {
		t.Errorf("%+v, %v", entries, err)
	}
	dir := t.TempDir()
	if _, err := Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{},
		nil); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if notes := slices.Collect(store.Records())[0].Notes; !slices.Equal(notes,
		[]string{want + ", the first at (1, 0, 0): NaN is taken for air, infinite values for the ends of the window"}) {
		t.Errorf("notes %q", notes)
	}
	a, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Volume()
	if err != nil {
		t.Fatal(err)
	}
	if want := []int16{10, 275, -125, -125, 20, 275}; !slices.Equal(v.Int16, want) {
		t.Errorf("%v, want %v", v.Int16, want)
	}
}

func TestMixedSpacingsAreNamed(t *testing.T) {
	root := tree(t, map[string]string{"a1.nii.gz": "", "a2.nii.gz": "", "a3.nii.gz": ""})
	v, err := nifti.Read(filepath.Join(root, "a2.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	usual := v.Spacing()
	v.Affine[2][2] *= 2
	if err := nifti.Write(filepath.Join(root, "a2.nii.gz"), v); err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	for _, c := range []struct {
		spacing float64 // from feet to head
		want    string
	}{{0, "from feet to head"}, {usual[2], ""}} {
		p.Spacing[2] = c.spacing
		s, err := Run(t.Context(), detect(t, root), t.TempDir(), p, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(s.Notes, "; "); (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("spacing %g: %q", c.spacing, said)
		}
	}
}

// Cases of the same name that were read from other files are another data set's; those of a folder
// that was moved are not.
func TestCasesOfOtherScansAreKept(t *testing.T) {
	first, second, dir := folderOf(t, "p1", "p2"), folderOf(t, "p1", "p2"), t.TempDir()
	prepare := func(root string) (*Summary, error) {
		return Run(t.Context(), detect(t, root), dir, volume.DefaultPreparation(), Options{}, nil)
	}
	if _, err := prepare(first); err != nil {
		t.Fatal(err)
	}
	before := times(t, dir)
	var others *OthersError
	if _, err := prepare(second); !errors.As(err, &others) || len(others.Cases) != 2 ||
		!strings.Contains(err.Error(), "was prepared from "+first) || !slices.Equal(times(t, dir), before) {
		t.Errorf("cases of other scans are replaced: %v", err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(first, moved); err != nil {
		t.Fatal(err)
	}
	if s, err := prepare(moved); err != nil || s.Prepared != 2 || s.Labelled != 2 {
		t.Errorf("a folder that was moved: %v", err)
	}
}

// Cases that were prepared with other settings are replaced when that is asked for, and not before;
// so is a part, for the cases of other parts, too: all become one folder.
func TestOtherSettingsAreRefused(t *testing.T) {
	root, dir := folderOf(t, "p1", "p2"), t.TempDir()
	p := volume.DefaultPreparation()
	prepare := func(o Options) (*Summary, error) { return Run(t.Context(), detect(t, root), dir, p, o, nil) }
	if _, err := prepare(Options{}); err != nil {
		t.Fatal(err)
	}
	before := times(t, dir)
	p.Spacing, p.Window = [3]float64{0, 0, 20}, [2]float64{-100, 240}
	want := []volume.Difference{{Key: "spacing", Old: "each scan's own", New: "ownxownx20 mm"},
		{Key: "window", Old: "-125 to 275", New: "-100 to 240"}}
	var refused *SettingsError
	if _, err := prepare(Options{}); !errors.As(err, &refused) ||
		!slices.Equal(refused.Cases, []string{"p1", "p2"}) || !slices.Equal(refused.Differences, want) {
		t.Errorf("%v", err)
	}
	if _, err := prepare(Options{Part: "2/2"}); !errors.As(err, &refused) ||
		!slices.Equal(refused.Cases, []string{"p1", "p2"}) {
		t.Errorf("a part: %v", err)
	}
	if now := times(t, dir); !slices.Equal(now, before) {
		t.Errorf("a run that was refused changed the folder: %q, before %q", now, before)
	}
	if _, err := prepare(Options{Part: "2/2", Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(Options{Part: "2/2"}); !errors.As(err, &refused) ||
		!slices.Equal(refused.Cases, []string{"p1"}) {
		t.Errorf("a part beside one of other settings: %v", err)
	}
	if s, err := prepare(Options{Part: "2/2", Force: true}); err != nil || s.Kept != 1 {
		t.Errorf("a part that is run again: %v", err)
	}
	if _, err := prepare(Options{}); !errors.As(err, &refused) || !slices.Equal(refused.Cases, []string{"p1"}) {
		t.Errorf("half of the cases: %v", err)
	}
	if s, err := prepare(Options{Force: true}); err != nil || s.Prepared != 1 || s.Kept != 1 {
		t.Errorf("forced: %v", err)
	}
}

// Numbers without names that two folders have others of may mean two things. Cases that have a
// folder each are no reason to say so.
func TestNumbersOfSeveralFolders(t *testing.T) {
	root := tree(t, map[string]string{"north/a1.nii.gz": "", "north/a1_seg.nii.gz": "", "north/a2.nii.gz": "",
		"north/a2_seg.nii.gz": "", "south/b1.nii.gz": "", "south/b1_seg.nii.gz": "", "south/b2.nii.gz": "",
		"south/b2_seg.nii.gz": ""})
	notes := func(roots []string, o dataset.Options) []string {
		t.Helper()
		d, err := dataset.DetectAll(roots, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Notes
	}
	const doubt = "labels are numbers without names"
	both := []string{filepath.Join(root, "north"), filepath.Join(root, "south")}
	if got := notes([]string{root}, dataset.Options{}); datasettest.Noted(got, doubt) {
		t.Errorf("the same numbers: %q", got)
	}
	_, l := datasettest.Patient(t, 2)
	for n := range l.Labels {
		l.Labels[n] *= 3
	}
	if err := nifti.WriteLabels(filepath.Join(root, "south", "b2_seg.nii.gz"), l); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("cases of %s have others (1) than those of %s (1, 3)", both[0], both[1])
	for _, roots := range [][]string{{root}, both} {
		if got := notes(roots, dataset.Options{}); !datasettest.Noted(got, doubt) || !datasettest.Noted(got, want) {
			t.Errorf("%d folders: %q, want %q", len(roots), got, want)
		}
		if got := notes(roots, dataset.Options{SameLabels: true}); datasettest.Noted(got, doubt) {
			t.Errorf("said to be the same: %q", got)
		}
	}
	each := tree(t, map[string]string{"p1/ct.nii.gz": "", "p1/seg.nii.gz": "", "p2/ct.nii.gz": ""})
	if err := nifti.WriteLabels(filepath.Join(each, "p2", "seg.nii.gz"), l); err != nil {
		t.Fatal(err)
	}
	if got := notes([]string{each}, dataset.Options{}); datasettest.Noted(got, doubt) {
		t.Errorf("a folder for each case: %q", got)
	}
}

// nnU-Net refuses a label that dataset.json does not name.
func TestLabelsWithoutAName(t *testing.T) {
	for name, want := range map[string]string{
		`{"1": "pancreas"}`: "label 3 has no name, other labels have " +
			"one: 2 cases with voxels of it, such as p1;",
		`{"background": 0, "pancreas": 1, "tumour": 3}`:                "",
		`{"background": 0, "all": [1, 3], "pancreas": 1, "ignore": 4}`: "",
	} {
		root := tree(t, map[string]string{"imagesTr/p1.nii.gz": "", "labelsTr/p1.nii.gz": "", "imagesTr/p2.nii.gz": "",
			"labelsTr/p2.nii.gz": "", "dataset.json": `{"labels": ` + name + `}`})
		_, l := datasettest.Patient(t, 1)
		l.Labels[0] = 3
		for _, id := range []string{"p1", "p2"} {
			if err := nifti.WriteLabels(filepath.Join(root, "labelsTr", id+".nii.gz"), l); err != nil {
				t.Fatal(err)
			}
		}
		d, err := dataset.DetectAll([]string{root}, dataset.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && datasettest.Noted(s.Notes, "has no name") || want != "" && !datasettest.Noted(s.Notes, want) {
			t.Errorf("%s: %q, want %q", name, s.Notes, want)
		}
	}
}

// Every axis along which voxels differ much is named, with its own sizes.
func TestMixedSpacingsOfAllAxes(t *testing.T) {
	p := volume.DefaultPreparation()
	spacings := [][3]float64{{0.7, 0.7, 5}, {1.5, 1.5, 1}, {0.8, 0.8, 2.5}}
	if got, want := mixedSpacings(spacings, p),
		"voxels measure 0.7 to 1.5 mm from left to right, 0.7 to 1.5 mm from back to front, 1 to 5 mm from "+
			"feet to head, and were left so: organs have different sizes in voxels from case to case; --spacing "+
			"median makes them alike (0.8x0.8x2.5 mm)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	p.Spacing = [3]float64{1, 1, 0}
	if got, want := mixedSpacings(spacings, p),
		"voxels measure 1 to 5 mm from feet to head, and were left so: "; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

package dataset

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Labels of NIH Pancreas-CT are the stack of images by instance number, whatever way the patient
// lies in the scanner and slices are numbered; where the numbers do not tell one order, they are
// refused.
func TestLabelsCountSlicesByInstance(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	n := v.Shape[2]
	numbers := func(f func(k int) int) []int {
		all := make([]int, n)
		for k := range all {
			all[k] = f(k)
		}
		return all
	}
	shuffled := numbers(func(k int) int { return k*7%n + 1 }) // 7 has no factor in common with 30
	tilted := &volume.Volume{Grid: v.Grid, Int16: v.Int16}
	tilted.Affine[1][2] = 0.3 * v.Spacing()[2]
	// the same pixels of a patient who lies the other way
	prone := func(g volume.Grid) volume.Grid {
		for w := range 2 {
			for a := range 4 {
				g.Affine[w][a] = -g.Affine[w][a]
			}
		}
		return g
	}
	for name, c := range map[string]struct {
		scan      *volume.Volume
		instances []int
		o         ReadOptions
		fails     string
	}{
		"ascending":           {v, numbers(func(k int) int { return k + 1 }), ReadOptions{}, ""},
		"descending":          {v, numbers(func(k int) int { return n - k }), ReadOptions{}, ""},
		"in no order":         {v, shuffled, ReadOptions{}, ""},
		"interleaved, from 0": {v, numbers(func(k int) int { return k/2 + k%2*(n/2) }), ReadOptions{}, ""},
		"every tenth":         {v, numbers(func(k int) int { return 10 * shuffled[k] }), ReadOptions{}, ""},
		"prone":               {&volume.Volume{Grid: prone(v.Grid), Int16: v.Int16}, shuffled, ReadOptions{}, ""},
		"tilted, kept":        {tilted, shuffled, ReadOptions{Tilt: dicom.TiltKeep}, ""},
		"twice": {v, numbers(func(k int) int { return max(k, 1) }), ReadOptions{},
			"have the instance number 1 both, by which the labels count the slices"},
		"none": {v, nil, ReadOptions{}, "have no instance number, by which the labels count the slices"},
		"one without": {v, slices.Replace(numbers(func(k int) int { return k + 1 }), 9, 10, datasettest.NoNumber),
			ReadOptions{},
			"has no instance number, by which the labels count the slices"},
	} {
		root := t.TempDir()
		datasettest.WriteStudy(t, filepath.Join(root, "PANCREAS_0001", "1.2"), "1.2.1", "1.2.9", 1, "CT", c.scan,
			c.instances)
		file := filepath.Join(root, "label0001.nii.gz")
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: make([]uint16, l.Len())}
		area := l.Shape[0] * l.Shape[1]
		rank := slices.Sorted(slices.Values(c.instances))
		for k := range c.instances {
			z, _ := slices.BinarySearch(rank, c.instances[k])
			copy(stored.Labels[z*area:][:area], l.Labels[k*area:])
		}
		if err := nifti.WriteLabels(file, stored); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		scan, got, _, err := d.Cases[0].Read(c.o, nil)
		if c.fails != "" {
			if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := (&volume.LabelMap{Grid: c.scan.Grid, Labels: l.Labels}).Orient("LPS")
		if err != nil {
			t.Fatal(err)
		}
		if !got.Same(scan.Grid, 1e-9) || !got.Same(want.Grid, 1e-2) || !slices.Equal(got.Labels, want.Labels) {
			t.Errorf("%s: labels do not lie where they were drawn", name)
		}
	}
}

// Labels by index go where the slices go that were straightened, or between which others were
// missing.
func TestLabelsByIndexFollowRepairs(t *testing.T) {
	for name, c := range map[string]struct {
		tilt    float64 // mm to the front per mm to the head
		missing bool    // the tenth slice
		o       ReadOptions
	}{
		"tilted":         {0.3, false, ReadOptions{Tilt: dicom.TiltResample}},
		"a slice less":   {0, true, ReadOptions{Gaps: dicom.GapsResample}},
		"both":           {-0.3, true, ReadOptions{Gaps: dicom.GapsResample}},
		"nothing to do":  {0, false, ReadOptions{}},
		"tilted, as is":  {0.3, false, ReadOptions{Tilt: dicom.TiltKeep}},
		"as is, resized": {0.3, true, ReadOptions{Tilt: dicom.TiltKeep, Gaps: dicom.GapsResample}},
	} {
		v, l := datasettest.Axial(t, 2)
		v.Affine[1][2] = c.tilt * v.Spacing()[2]
		root := t.TempDir()
		series := filepath.Join(root, "PANCREAS_0001")
		numbers := make([]int, v.Shape[2])
		for k := range numbers {
			numbers[k] = k*7%len(numbers) + 1
		}
		datasettest.WriteStudy(t, series, "1.2.1", "1.2.9", 1, "CT", v, numbers)
		area := l.Shape[0] * l.Shape[1]
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: make([]uint16, l.Len())}
		for k, number := range numbers {
			copy(stored.Labels[(number-1)*area:][:area], l.Labels[k*area:])
		}
		const tenth = 9
		if c.missing {
			all, _, err := dicom.Scan(series)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(all[0].Files[tenth]); err != nil {
				t.Fatal(err)
			}
			stored.Labels = slices.Delete(stored.Labels, (numbers[tenth]-1)*area, numbers[tenth]*area)
			stored.Shape[2]--
		}
		if err := nifti.WriteLabels(filepath.Join(root, "label0001.nii.gz"), stored); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		scan, got, _, err := d.Cases[0].Read(c.o, nil)
		if err != nil || !got.Same(scan.Grid, 1e-9) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// What was drawn at a place in the patient is there, but for half a pixel that slices are
		// moved in their plane.
		there, here := 0, 0
		for n, label := range l.Labels {
			if label == 0 || c.missing && n/area == tenth {
				continue
			}
			there++
			p, err := got.Voxel((volume.Grid{Shape: l.Shape,
				Affine: v.Affine}).World([3]float64{float64(n % l.Shape[0]), float64(n % area / l.Shape[0]),
				float64(n / area)}))
			if err != nil {
				t.Fatal(err)
			}
			if got.At(int(math.Round(p[0])), int(math.Round(p[1])), int(math.Round(p[2]))) == label {
				here++
			}
		}
		if there == 0 || here < there*98/100 {
			t.Errorf("%s: %d of %d voxels are where they were drawn", name, here, there)
		}
	}
}

// A real trunk at 3 mm, written as TCIA wrote Pancreas-CT: the label file's rows run against what
// its header says.
func TestNIHLayoutFromARealScan(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	v, _, err := ReadImage(filepath.Join(data, "totalsegmentator", "ct.nii.gz"), DefaultReadOptions())
	if err != nil {
		t.Fatal(err)
	}
	organs, err := nifti.ReadLabels(filepath.Join(data, "totalsegmentator", "ct_seg.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	p.Relabel = "7:1,*:0" // the pancreas
	p.Axcodes = "LPS"
	l, err := p.ApplyLabels(organs, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.Orient("LPS"); err != nil {
		t.Fatal(err)
	}
	for n, hu := range v.Int16 { // what a scanner stores
		v.Int16[n] = max(hu, -1024)
	}

	root := t.TempDir()
	datasettest.WriteSeries(t, filepath.Join(root, "PANCREAS_0007", "study", "series"), "1.2.7", v, false)
	file := filepath.Join(root, "labels", "label0007.nii.gz")
	if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	// As an array the label is the stack of slices; its header claims that rows run to the front.
	claimed := l.Grid
	claimed.Affine[1][1], claimed.Affine[1][3] = -l.Affine[1][1], l.Affine[1][3]+float64(l.Shape[1]-1)*l.Affine[1][1]
	write := func(flip string) {
		t.Helper()
		if err := nifti.WriteLabels(file, flipLabels(&volume.LabelMap{Grid: claimed, Labels: l.Labels},
			flip)); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	d := detect(t, root)
	scan, got, notes, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	if !slices.Equal(got.Labels, l.Labels) || !got.Same(v.Grid, 1e-2) || !slices.Equal(scan.Int16, v.Int16) {
		t.Error("the scan and its labels do not come back")
	}
	// By the headers they would lie elsewhere in the body, though in the same box.
	byHeader := d.Cases[0]
	byHeader.ByIndex = false
	if _, wrong, _, err := byHeader.Read(DefaultReadOptions(), nil); err == nil {
		prepared, err := volume.DefaultPreparation().ApplyLabels(wrong, scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		right, err := volume.DefaultPreparation().ApplyLabels(got, scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(prepared.Labels, right.Labels) {
			t.Error("the headers agree: the test shows nothing")
		}
	}
	for _, flip := range []string{"i", "j", "ij", "k", "ik", "jk", "ijk"} {
		write(flip)
		if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), nil); err == nil ||
			!strings.Contains(err.Error(), "along "+flip+",") {
			t.Errorf("labels flipped along %s: %v", flip, err)
		}
	}

	// Slices that were numbered in another order than they lie in.
	numbers := make([]int, l.Shape[2])
	for k := range numbers {
		numbers[k] = k/2 + k%2*((len(numbers)+1)/2) + 1
	}
	datasettest.WriteStudy(t, filepath.Join(root, "PANCREAS_0008"), "1.2.8", "1.2.9", 1, "CT", v, numbers)
	stored := &volume.LabelMap{Grid: claimed, Labels: make([]uint16, l.Len())}
	area := l.Shape[0] * l.Shape[1]
	for k, number := range numbers {
		copy(stored.Labels[(number-1)*area:][:area], l.Labels[k*area:])
	}
	if err := nifti.WriteLabels(filepath.Join(root, "labels", "label0008.nii.gz"), stored); err != nil {
		t.Fatal(err)
	}
	if _, got, notes, err = detect(t, root).Cases[1].Read(DefaultReadOptions(), nil); err != nil || len(notes) > 0 ||
		!slices.Equal(got.Labels, l.Labels) {
		t.Errorf("slices in another order than their numbers: %q, %v", notes, err)
	}
}

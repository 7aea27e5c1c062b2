package prepared

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// oblong makes a scan whose axes are unlike in every way, with labels in two places.
func oblong(t *testing.T, shape [3]int) (*volume.Volume, *volume.LabelMap) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	g := volume.Grid{Shape: shape, Affine: volume.Affine{{0, -0.8, 0, 10}, {0.7, 0, 0, -5}, {0, 0, 2.5, 100},
		{0, 0, 0, 1}}}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len()),
		Names: map[uint16]string{1: "liver", 300: "pancreas"}}
	for n := range v.Int16 {
		v.Int16[n] = int16(r.IntN(3000) - 1024)
		switch {
		case n%97 < 10:
			l.Labels[n] = 1
		case n%97 == 50:
			l.Labels[n] = 300
		}
	}
	return v, l
}

func writeStore(t *testing.T, dir string, p volume.Preparation, scans ...Input) *Store {
	t.Helper()
	w, err := NewWriter(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scans {
		if _, err := w.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCropsEqualVolumeCrops(t *testing.T) {
	v, l := oblong(t, [3]int{21, 17, 13})
	p := volume.DefaultPreparation()
	p.Spacing = [3]float64{1, 0, 2}
	store := writeStore(t, t.TempDir(), p, Input{ID: "a", Image: v, Labels: l}, Input{ID: "b", Image: v})
	if err := store.Verify(); err != nil {
		t.Error(err)
	}
	prepared, err := p.Apply(v, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	labels, err := p.ApplyLabels(l, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Volume(); err != nil || !reflect.DeepEqual(got, prepared.Volume) {
		t.Error("the case's volume is not the prepared one")
	}
	if got, err := c.LabelMap(); err != nil || !reflect.DeepEqual(got, labels) {
		t.Error("the case's labels are not the prepared ones")
	}
	for _, crop := range [][2][3]int{
		{{0, 0, 0}, {5, 6, 7}}, {{3, 2, 1}, {1, 1, 1}}, {{-4, -3, -2}, {30, 30, 30}}, {{-9, 0, 0}, {4, 4, 4}},
		{{40, 0, 0}, {4, 4, 4}},
		{{0, 90, 0}, {4, 4, 4}}, {{9, 12, 9}, {16, 4, 8}}, {{0, 0, -100}, {2, 3, 4}},
	} {
		origin, size := crop[0], crop[1]
		image := make([]float32, size[0]*size[1]*size[2])
		numbers := make([]float32, len(image))
		if err := errors.Join(c.Crop(image, origin, size), c.Labels(numbers, origin, size)); err != nil {
			t.Fatal(err)
		}
		wantImage, err := prepared.Crop(origin, size, -125)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float32, len(image))
		p.Intensities(nil).Normalise(want, wantImage.Int16)
		if !reflect.DeepEqual(image, want) {
			t.Errorf("image of crop %v %v differs", origin, size)
		}
		wantLabels, err := labels.Crop(origin, size)
		if err != nil {
			t.Fatal(err)
		}
		for n := range numbers {
			if numbers[n] != float32(wantLabels.Labels[n]) {
				t.Fatalf("labels of crop %v %v differ at %d", origin, size, n)
			}
		}
	}
	if again, err := store.Open("a"); err != nil || again != c {
		t.Errorf("opening twice: %v, %v", again, err)
	}
	unlabelled, err := store.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := unlabelled.Labels(make([]float32, 8), [3]int{}, [3]int{2, 2, 2}); err == nil {
		t.Error("labels of a case without any")
	}
	if err := c.Crop(make([]float32, 7), [3]int{}, [3]int{2, 2, 2}); err == nil {
		t.Error("a crop into a slice of the wrong length")
	}
	if _, err := store.Open("c"); err == nil {
		t.Error("opened a case that is not there")
	}
}

func TestCaseForeground(t *testing.T) {
	v, l := oblong(t, [3]int{40, 50, 60})
	store := writeStore(t, t.TempDir(), volume.DefaultPreparation(), Input{ID: "a", Image: v, Labels: l},
		Input{ID: "b", Image: v, Labels: &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}})
	c, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	labels, err := c.LabelMap()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	drawn := map[uint16]map[[3]int]int{1: {}, 300: {}}
	for _, label := range []int{1, 300, 0} {
		for range 20000 {
			voxel, ok, err := c.Foreground(label, r)
			if !ok || err != nil {
				t.Fatalf("no voxel of label %d (%v)", label, err)
			}
			got := labels.At(voxel[0], voxel[1], voxel[2])
			if got == 0 || label > 0 && int(got) != label {
				t.Fatalf("label %d at %v, drawn for %d", got, voxel, label)
			}
			if label > 0 {
				drawn[got][voxel]++
			}
		}
	}
	// 20000 draws of 1237 voxels leave none out, but for one chance in ten thousand: 1237
	// exp(-16.2).
	if len(drawn[300]) != c.LabelCounts[300] || c.LabelCounts[300] > maxSamples {
		t.Errorf("%d of %d voxels of label 300 drawn", len(drawn[300]), c.LabelCounts[300])
	}
	if c.LabelCounts[1] <= maxSamples || len(drawn[1]) > maxSamples || len(drawn[1]) < maxSamples*8/10 {
		t.Errorf("%d of %d voxels of label 1 drawn", len(drawn[1]), c.LabelCounts[1])
	}
	for _, label := range []int{2, -1, 70000} {
		if _, ok, _ := c.Foreground(label, r); ok {
			t.Errorf("found a voxel of label %d", label)
		}
	}
	empty, err := store.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := empty.Foreground(0, r); ok {
		t.Error("found foreground in an empty label map")
	}
}

func TestCaseAir(t *testing.T) {
	// A body of 20x20x20 voxels in a scan of 50x40x30 of air.
	g := volume.Grid{Shape: [3]int{50, 40, 30}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	body := func(i, j, k int) bool { return i >= 11 && i < 31 && j >= 9 && j < 29 && k >= 2 && k < 22 }
	for k := range 30 {
		for j := range 40 {
			for i := range 50 {
				v.Int16[g.Index(i, j, k)] = -1000
				if body(i, j, k) {
					v.Int16[g.Index(i, j, k)] = 40
				}
			}
		}
	}
	store := writeStore(t, t.TempDir(), volume.DefaultPreparation(), Input{ID: "a", Image: v})
	c, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 - 8000./60000; math.Abs(c.Air-want) > 1e-12 {
		t.Errorf("air %g of the case, want %g", c.Air, want)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		var origin, size [3]int
		for a := range origin {
			origin[a], size[a] = r.IntN(70)-20, 1+r.IntN(60)
			if n%2 == 0 { // faces between blocks: exact
				origin[a], size[a] = origin[a]/8*8, (size[a]+7)/8*8
			}
		}
		count := 0
		for k := range size[2] {
			for j := range size[1] {
				for i := range size[0] {
					if body(origin[0]+i, origin[1]+j, origin[2]+k) {
						count++
					}
				}
			}
		}
		want := 1 - float64(count)/float64(size[0]*size[1]*size[2])
		got, err := c.AirFraction(origin, size)
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 && math.Abs(got-want) > 1e-12 || got < -1e-12 || got > 1+1e-12 {
			t.Errorf("air %g of crop %v %v, want %g", got, origin, size, want)
		}
	}
	air := func(maxAir float64) (sum float64) {
		for range 200 {
			origin, err := sample.RandomOrigin(c, r, [3]int{16, 16, 40}, maxAir)
			if err != nil {
				t.Fatal(err)
			}
			if origin[0] < 0 || origin[0] > 34 || origin[1] < 0 || origin[1] > 24 || origin[2] != -5 {
				t.Fatalf("crop of 16x16x40 at %v", origin)
			}
			air, err := c.AirFraction(origin, [3]int{16, 16, 40})
			if err != nil {
				t.Fatal(err)
			}
			sum += air
		}
		return sum / 200
	}
	if all, few := air(1), air(0.5); few > all-0.1 {
		t.Errorf("air %g where little is wanted, %g otherwise", few, all)
	}
	if got := sample.OriginAround(c, [3]int{49, 3, 20}, [3]int{16, 16, 40}); got != [3]int{34, 0, -5} {
		t.Errorf("crop around a voxel at %v", got)
	}
}

func TestTroubleIsNoticed(t *testing.T) {
	v, l := oblong(t, [3]int{9, 8, 7})
	scans := t.TempDir()
	file := filepath.Join(scans, "a.nii")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o666), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-time.Hour)
	write("scan", then)
	source, err := NewSource(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, path := range []string{dir, file} {
		if _, err := Open(path); !errors.Is(err, ErrNotPrepared) || errors.Is(err, ErrInterrupted) {
			t.Errorf("an empty folder, or a scan: %v", err)
		}
	}
	p := volume.DefaultPreparation()
	fingerprint := writeStore(t, dir, p, Input{ID: "a", Image: v, Labels: l, Sources: []Source{source}}).Fingerprint()

	// The same contents at another time are no change, nor is a scan that was moved away, whether
	// its label map stays or not.
	write("scan", then.Add(time.Minute))
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	write("scam", then.Add(2*time.Minute))
	if _, err := Open(dir); !errors.Is(err, ErrStale) {
		t.Errorf("a scan that changed: %v", err)
	}
	now, errNow := NewSource(file)
	drawn, err := NewSource(t.TempDir())
	if err := errors.Join(errNow, err); err != nil {
		t.Fatal(err)
	}
	both := t.TempDir()
	writeStore(t, both, p, Input{ID: "a", Image: v, Labels: l, Sources: []Source{now, drawn},
		Origin: `series "1.2.3", volume 0,`})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, both} {
		if _, err := Open(dir); err != nil {
			t.Error(err)
		}
	}

	// A run that is killed leaves the store as it was, and after a change of one of its cases none.
	// What it has done is kept by the next.
	write("scan", then)
	w, err := NewWriter(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(id, group, origin string, paths ...string) bool {
		_, kept := w.Keep(Input{ID: id, Group: group, Origin: origin}, paths)
		return kept
	}
	if !keep("a", "", "", file) || keep("a", "test", "", file) || keep("a", "", "flipped", file) ||
		keep("b", "", "", file) || keep("a", "", "") {
		t.Error("keeps the wrong cases")
	}
	if _, err := w.Add(Input{ID: "b", Image: v}); err != nil {
		t.Fatal(err)
	}
	before, err := Open(dir)
	if err != nil || before.Fingerprint() != fingerprint ||
		w.Standing() != "the cases that were prepared before are untouched" {
		t.Errorf("a case that is new: %q, %v", w.Standing(), err)
	}
	before.Close()
	if _, err := w.Add(Input{ID: "a", Image: v, Labels: l, Sources: []Source{source}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotPrepared) || !errors.Is(err, ErrInterrupted) {
		t.Errorf("a half-prepared folder: %v", err)
	} else if want := "voxsaw prepare was interrupted here, or has parts left, after 2 cases: run it " +
		"again"; !strings.Contains(err.Error(), want) {
		t.Errorf("a half-prepared folder: %v; want %q", err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "cases", ".c.vox.1.tmp"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if w, err = NewWriter(dir, p); err != nil {
		t.Fatal(err)
	}
	if !keep("a", "", "", file) {
		t.Error("a finished case is not kept")
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cases", "[^.]*")); len(left) != 2 {
		t.Errorf("left over: %v", left)
	}
	if c, err := Open(dir); err != nil || c.Fingerprint() != fingerprint {
		t.Errorf("the same cases again: %v", err)
	}
	other := p
	other.Window[1]++
	if w, err = NewWriter(dir, other); err != nil || keep("a", "", "", file) {
		t.Errorf("keeps a case prepared in another way (%v)", err)
	}

	// Damage.
	path := voxelPath(dir, "a")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[5] ^= 1
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(); err == nil {
		t.Error("a flipped bit goes unnoticed")
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("opened a truncated store")
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"version": 1, "cases": [{"id": "../a"}]}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("opened a manifest that points outside")
	}
	for _, id := range []string{"", ".", "../a", "a/b", " a", "a\n"} {
		if _, err := w.Add(Input{ID: id, Image: v}); err == nil {
			t.Errorf("a case called %q", id)
		}
	}
}

func BenchmarkCaseImage(b *testing.B) {
	g := volume.Grid{Shape: [3]int{160, 160, 160}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	w, err := NewWriter(b.TempDir(), volume.DefaultPreparation())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.Add(Input{ID: "a", Image: &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}}); err != nil {
		b.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	store, err := Open(w.dir)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	c, err := store.Open("a")
	if err != nil {
		b.Fatal(err)
	}
	size := [3]int{96, 96, 96}
	dst := make([]float32, 96*96*96)
	b.Run("Image", func(b *testing.B) {
		b.SetBytes(2 * 96 * 96 * 96)
		for b.Loop() {
			if err := c.Crop(dst, [3]int{30, 31, 32}, size); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("AirFraction", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.AirFraction([3]int{30, 31, 32}, size); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// damage changes a byte of a case's voxels.
func damage(t *testing.T, dir, id string) {
	t.Helper()
	data, err := os.ReadFile(voxelPath(dir, id))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(voxelPath(dir, id), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A case whose voxels are not those that were prepared is refused by every reader, and named.
func TestDamagedCaseIsRefused(t *testing.T) {
	v, l := oblong(t, [3]int{21, 17, 13})
	dir := t.TempDir()
	store := writeStore(t, dir, volume.DefaultPreparation(), Input{ID: "whole", Image: v, Labels: l},
		Input{ID: "hurt", Image: v, Labels: l})
	damage(t, dir, "hurt")
	size, crop := [3]int{4, 4, 4}, make([]float32, 64)
	readers := map[string]func(*Case) error{
		"Crop":        func(c *Case) error { return c.Crop(crop, [3]int{}, size) },
		"Labels":      func(c *Case) error { return c.Labels(crop, [3]int{}, size) },
		"Volume":      func(c *Case) error { _, err := c.Volume(); return err },
		"LabelMap":    func(c *Case) error { _, err := c.LabelMap(); return err },
		"AirFraction": func(c *Case) error { _, err := c.AirFraction([3]int{}, size); return err },
		"Foreground":  func(c *Case) error { _, _, err := c.Foreground(1, rand.New(rand.NewPCG(1, 1))); return err },
		"RandomOrigin": func(c *Case) error {
			_, err := sample.RandomOrigin(c, rand.New(rand.NewPCG(1, 1)), size, 0.5)
			return err
		},
	}
	for name, read := range readers {
		for _, id := range []string{"whole", "hurt"} {
			fresh, err := Open(dir) // each reader is the first
			if err != nil {
				t.Fatal(err)
			}
			c, err := fresh.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			err = read(c)
			if id == "whole" && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if id == "hurt" && (err == nil || !strings.Contains(err.Error(), "case hurt: ") ||
				!strings.Contains(err.Error(), "prepare again")) {
				t.Errorf("%s of a damaged case: %v", name, err)
			}
			if err := fresh.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := store.Verify(); err == nil || !strings.Contains(err.Error(), "case hurt") ||
		strings.Contains(err.Error(), "whole") {
		t.Errorf("Verify: %v", err)
	}
}

// A file that is cut short while it is mapped gives an error that names the case. A fault that is
// not handled ends the process with exit code 2.
func TestTruncatedWhileMapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut short there")
	}
	v, l := oblong(t, [3]int{64, 64, 20})
	dir := t.TempDir()
	store := writeStore(t, dir, volume.DefaultPreparation(), Input{ID: "a", Image: v, Labels: l})
	c, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	size := [3]int{64, 64, 20}
	crop := make([]float32, v.Len())
	if err := c.Crop(crop, [3]int{}, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(voxelPath(dir, "a"), 4096); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Crop":     func() error { return c.Crop(crop, [3]int{}, size) },
		"Labels":   func() error { return c.Labels(crop, [3]int{}, size) },
		"Volume":   func() error { _, err := c.Volume(); return err },
		"LabelMap": func() error { _, err := c.LabelMap(); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "case a: its file cannot be read any more") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A mistake of the program's own is no damage of a file: it stays a panic.
func TestOtherPanicsPass(t *testing.T) {
	v, _ := oblong(t, [3]int{8, 8, 8})
	store := writeStore(t, t.TempDir(), volume.DefaultPreparation(), Input{ID: "a", Image: v})
	c, err := store.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	func() (err error) {
		_, end, ok := c.begin(&err)
		if !ok {
			t.Error(err)
		}
		defer end()
		var none []int
		return fmt.Errorf("%d", none[len(err.Error())]) // a nil pointer
	}()
}

// What does not verify is not kept: the case is prepared again.
func TestDamagedCaseIsNotKept(t *testing.T) {
	v, _ := oblong(t, [3]int{8, 8, 8})
	dir := t.TempDir()
	p := volume.DefaultPreparation()
	writeStore(t, dir, p, Input{ID: "whole", Image: v}, Input{ID: "hurt", Image: v})
	damage(t, dir, "hurt")
	w, err := NewWriter(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"whole": true, "hurt": false} {
		if _, kept := w.Keep(Input{ID: id}, nil); kept != want {
			t.Errorf("%s is kept: %v", id, kept)
		}
	}
}

// A manifest whose cases are not those of its fingerprint is refused.
func TestFingerprintIsChecked(t *testing.T) {
	v, l := oblong(t, [3]int{8, 8, 8})
	dir := t.TempDir()
	background := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
	store := writeStore(t, dir, volume.DefaultPreparation(), Input{ID: "a", Image: v, Labels: l},
		Input{ID: "b", Image: v, Labels: background}, Input{ID: "c", Image: v})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := store.Record("a")
	other := strings.Replace(string(data), a.Checksum, strings.Repeat("0", len(a.Checksum)), 1)
	if err := os.WriteFile(path, []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil ||
		!strings.Contains(err.Error(), "manifest.json is damaged (it is not what was written") {
		t.Errorf("another manifest: %v", err)
	}
	forget(t, dir) // as whoever changes it on purpose
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "fingerprint") {
		t.Errorf("another case under the same fingerprint: %v", err)
	}
}

// forget removes the digests of a store's files.
func forget(t *testing.T, dir string) {
	t.Helper()
	for _, folder := range []string{dir, filepath.Join(dir, casesFolder)} {
		if err := os.Remove(filepath.Join(folder, atomicfile.SumsFile)); err != nil {
			t.Fatal(err)
		}
	}
}

// Texts that are not UTF-8 are read again as they were written, and the case is kept.
func TestTextsOfOtherEncodings(t *testing.T) {
	v, l := oblong(t, [3]int{8, 8, 8})
	l.Names = map[uint16]string{1: "Gr\xf6sse", 2: "Größe"}
	dir := t.TempDir()
	in := Input{ID: "a", Group: "\xff", Patient: "\xe9", Origin: "\xe8", Notes: []string{"\xfc"}, Image: v, Labels: l}
	store := writeStore(t, dir, volume.DefaultPreparation(), in)
	r, _ := store.Record("a")
	if r.Group != "%FF" || r.Patient != "%E9" || r.Origin != "%E8" || r.LabelNames[1] != "Gr%F6sse" ||
		r.LabelNames[2] != "Größe" {
		t.Errorf("%+v", r)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := w.Keep(in, nil); !kept {
		t.Error("the case is not kept")
	}
	in.ID = "Gr\xf6sse"
	if _, err := w.Add(in); err == nil || !strings.Contains(err.Error(), "cannot be the name of a case") {
		t.Error(err)
	}
}

// A record whose text has changed, though the network sees the same, is not kept.
func TestChangedRecordsAreNotKept(t *testing.T) {
	v, l := oblong(t, [3]int{8, 8, 8})
	v2, l2 := oblong(t, [3]int{8, 8, 8})
	dir := t.TempDir()
	p := volume.DefaultPreparation()
	store := writeStore(t, dir, p, Input{ID: "a", Image: v, Labels: l},
		Input{ID: "b", Image: v2, Labels: l2, Notes: []string{"as it was"}})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(recordPath(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordPath(dir, "b"), bytes.Replace(data, []byte("as it was"), []byte("as it wbs"), 1),
		0o666); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"a": true, "b": false} {
		if _, kept := w.Retain(id, ""); kept != want {
			t.Errorf("%s is kept: %v", id, kept)
		}
	}
}

// While a store is read, nobody can take its folder to prepare into it; many can read it.
func TestReadersShareTheFolder(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "solaris" || runtime.GOOS == "aix" {
		t.Skip("no locks of folders here")
	}
	v, _ := oblong(t, [3]int{8, 8, 8})
	dir := t.TempDir()
	one := writeStore(t, dir, volume.DefaultPreparation(), Input{ID: "a", Image: v})
	two, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []*Store{one, two} {
		if release, err := atomicfile.Hold(dir); err == nil || !strings.Contains(err.Error(), "in use") {
			release()
			t.Errorf("the folder can be taken while it is read: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	release, err := atomicfile.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is being written by another run") {
		t.Errorf("opened while it is prepared: %v", err)
	}
	release()
	if store, err := Open(dir); err != nil {
		t.Error(err)
	} else {
		store.Close()
	}
}

// What checking a case costs when it is first read, in bytes a second.
func BenchmarkVerifyCase(b *testing.B) {
	g := volume.Grid{Shape: [3]int{512, 512, 100}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	dir := b.TempDir()
	w, err := NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		b.Fatal(err)
	}
	r, err := w.Add(Input{ID: "a", Image: &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(r.Bytes)
	for b.Loop() {
		if err := verifyVoxels(dir, r); err != nil {
			b.Fatal(err)
		}
	}
}

// A record says that labels are predicted, and of labels that somebody has corrected since nothing;
// a folder learns of it without another look at the scan. Nothing else is then as before.
func TestPredictedLabelsAreRecorded(t *testing.T) {
	dir := t.TempDir()
	v, l := oblong(t, [3]int{9, 8, 7})
	scan := filepath.Join(t.TempDir(), "scan")
	if err := os.WriteFile(scan, []byte("voxels"), 0o644); err != nil {
		t.Fatal(err)
	}
	source, err := NewSource(scan)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{ID: "a", Image: v, Labels: l, Sources: []Source{source}}
	plain := Input{ID: "b", Image: v, Predicted: true}
	fingerprints := map[bool]string{}
	for _, predicted := range []bool{false, true, false, true} {
		in.Predicted = predicted
		w, err := NewWriter(dir, volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := w.Keep(in, []string{scan}); kept != (len(fingerprints) > 0) {
			t.Fatalf("kept: %v", kept)
		} else if !kept {
			if _, err := w.Add(in); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Add(plain); err != nil { // it has no labels
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Predicted(); predicted != (len(got) == 1 && got[0] == "a") || !predicted && got != nil {
			t.Errorf("predicted: %v, recorded of %v", predicted, got)
		}
		if before := fingerprints[predicted]; before != "" && before != s.Fingerprint() ||
			s.Fingerprint() == fingerprints[!predicted] {
			t.Errorf("fingerprint %s of predicted: %v, before %v", s.Fingerprint(), predicted, fingerprints)
		}
		fingerprints[predicted] = s.Fingerprint()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, manifestName))
		if err != nil || bytes.Contains(text, []byte("labels_predicted")) != predicted {
			t.Errorf("predicted: %v, %v, and %s", predicted, err, text)
		}
	}
}

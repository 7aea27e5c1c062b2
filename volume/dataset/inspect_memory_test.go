package dataset

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A volume that there is no memory for is looked at piece by piece, and its values and labels are
// those that it has when it is read whole: of whole numbers, of fractions, scaled, with numbers
// that are not finite, and of labels, compressed and not.
func TestInspectPieceByPiece(t *testing.T) {
	dir := t.TempDir()
	g := volume.Grid{Shape: [3]int{97, 89, 61}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	r := rand.New(rand.NewPCG(3, 4))
	scan := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	fractions := &volume.Volume{Grid: g, Float32: make([]float32, g.Len())}
	few := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	for n := range scan.Int16 {
		scan.Int16[n] = int16(r.IntN(3000) - 1000)
		fractions.Float32[n] = float32(r.NormFloat64() * 400)
		few.Int16[n] = int16(n / 1000 % 4)
	}
	fractions.Float32[70_000], fractions.Float32[1] = float32(math.NaN()), float32(math.Inf(-1))
	labels := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for n := range labels.Labels {
		labels.Labels[n] = uint16(few.Int16[n])
	}
	written := errors.Join(nifti.WriteLabels(filepath.Join(dir, "case_seg.nii.gz"), labels))
	for name, v := range map[string]*volume.Volume{"scan.nii.gz": scan, "fractions.nii.gz": fractions, "few.nii": few,
		"plain.nii": scan} {
		written = errors.Join(written, nifti.Write(filepath.Join(dir, name), v))
	}
	if written != nil {
		t.Fatal(written)
	}
	look := func() map[string]Entry {
		entries, _, err := Inspect(context.Background(), []string{dir}, InspectOptions{})
		if err != nil || len(entries) != 5 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		found := map[string]Entry{}
		for _, e := range entries {
			found[filepath.Base(e.Path)] = e
		}
		return found
	}
	whole := look()
	defer memory.Limit(0)
	memory.Limit(1 << 20) // a volume has a mebibyte and more
	for name, e := range look() {
		want := whole[name]
		if e.Unreadable || len(e.Problems) == 0 || !strings.Contains(strings.Join(e.Problems, "\n"),
			"only looked at piece by piece: it needs ") {
			t.Errorf("%s: %q", name, e.Problems)
			continue
		}
		if *e.Min != *want.Min || *e.Max != *want.Max || *e.Mean != *want.Mean || !maps.Equal(e.Labels, want.Labels) ||
			e.mayBeLabels != want.mayBeLabels {
			t.Errorf("%s: %g to %g, mean %v, labels %v, %v; read whole: %g to %g, mean %v, labels %v, %v",
				name, *e.Min, *e.Max, *e.Mean, e.Labels, e.mayBeLabels, *want.Min, *want.Max, *want.Mean, want.Labels,
				want.mayBeLabels)
		}
	}
	if whole["scan.nii.gz"].mayBeLabels || !whole["few.nii"].mayBeLabels || len(whole["case_seg.nii.gz"].Labels) != 4 {
		t.Errorf("the files are not what they were made to be: %+v", whole)
	}
}

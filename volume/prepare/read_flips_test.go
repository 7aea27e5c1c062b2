package prepare

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// How many cases agree with their scans, and of how many nothing can be told, is said by who
// inspects and by who prepares.
func TestFlipsOfAllCases(t *testing.T) {
	// The organ is steps HU above noise that hides its edge, or does not; below 0, it is flipped.
	build := func(steps ...int) string {
		root := t.TempDir()
		for n, step := range steps {
			_, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{40, 36, 30}})
			if err == nil {
				l, err = l.Orient("LPS")
			}
			if err != nil {
				t.Fatal(err)
			}
			v := &volume.Volume{Grid: l.Grid, Int16: make([]int16, l.Len())}
			random := rand.New(rand.NewPCG(uint64(n), 3))
			for i, label := range l.Labels {
				hu := random.IntN(200) - 100
				if l.Labels[i] = 0; label == phantom.Pancreas {
					l.Labels[i] = 1
					hu += max(step, -step)
				}
				v.Int16[i] = int16(hu)
			}
			l.Names = nil
			if step < 0 {
				l = datasettest.FlipLabels(l, "j")
			}
			name := fmt.Sprintf("%04d.nii", n+1)
			if err := nifti.Write(filepath.Join(root, "PANCREAS_"+name), v); err != nil {
				t.Fatal(err)
			}
			if err := nifti.WriteLabels(filepath.Join(root, "label"+name), l); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	const text = "labels by index, by the HU inside and around them: "
	for _, c := range []struct {
		steps []int
		fix   bool
		want  string
	}{
		{[]int{150, 150, 0}, false, text + "2 agree, 1 cannot be told"},
		{[]int{0, 0}, false, "WARNING: " + text + "0 agree, 2 cannot be told, and all together do not tell"},
		{[]int{150, -150}, false, text + "1 agree, 0 cannot be told, 1 fit better when flipped"},
		{[]int{150, -150}, true, text + "2 agree, 0 cannot be told"},
	} {
		root := build(c.steps...)
		d := detect(t, root)
		o := DefaultOptions()
		if c.fix {
			o.Read.Flips = dataset.FlipsFix
		}
		s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), o, nil)
		if s == nil || !datasettest.Noted(s.Notes, c.want) {
			t.Errorf("%v: %v, prepare says %+v, want %q", c.steps, err, s, c.want)
		}
		_, notes, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
		if err != nil || !c.fix && !datasettest.Noted(notes, c.want) {
			t.Errorf("%v: %v, inspect says %q, want %q", c.steps, err, notes, c.want)
		}
	}
}

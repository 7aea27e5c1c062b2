package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
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
				l = flipLabels(l, "j")
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
		o := DefaultPrepareOptions()
		if c.fix {
			o.Read.Flips = FlipsFix
		}
		s, err := Prepare(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), o, nil)
		if s == nil || !noted(s.Notes, c.want) {
			t.Errorf("%v: %v, prepare says %+v, want %q", c.steps, err, s, c.want)
		}
		_, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
		if err != nil || !c.fix && !noted(notes, c.want) {
			t.Errorf("%v: %v, inspect says %q, want %q", c.steps, err, notes, c.want)
		}
	}
}

// What no case tells, the sums of all may; flipping labels moves the evidence along.
func TestFlipsArePooled(t *testing.T) {
	// the share of the variance that lies between inside and outside, of each flip
	evidence := func(shares [8]float64) (e flipEvidence) {
		for flip, share := range shares {
			apart := math.Sqrt(share) // half the difference of the means, of a variance of 1
			e[flip] = [2]moments{{50, 50 * apart, 50}, {50, -50 * apart, 50}}
		}
		return e
	}
	of := func(share float64, flips ...int) flipEvidence {
		var shares [8]float64
		for _, flip := range flips {
			shares[flip] = share
		}
		return evidence(shares)
	}
	for _, c := range []struct {
		seen flipsSeen
		want string
	}{
		{flipsSeen{}, ""},
		{flipsSeen{"a": of(0.3, 0), "b": of(0.09, 0)}, "1 agree, 1 cannot be told"},
		{flipsSeen{"a": of(0.05, 0), "b": of(0.05, 0)}, "0 agree, 2 cannot be told, and all together do not tell"},
		{
			flipsSeen{"a": of(0.4, 0, 1), "b": of(0.4, 0, 2), "c": of(0.4, 0, 4), "d": of(0.4, 0, 3),
				"e": of(0.4, 0, 5)},
			"0 agree, 5 cannot be told; all together agree",
		},
		{
			flipsSeen{"a": of(0.4, 2, 0), "b": of(0.4, 2), "c": of(0.4, 2), "d": of(0.4, 2), "e": of(0.4, 2)},
			"1 cannot be told, 4 fit better when flipped; all 5 together fit better when flipped along j",
		},
		{flipsSeen{"a": of(0.3, 2)}, "0 agree, 0 cannot be told, 1 fit better when flipped"},
	} {
		if got := c.seen.note(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	e := of(0.3, 2)
	after := e.flipped("j")
	if _, agrees := after.verdict(); !agrees {
		t.Error("labels that were flipped do not agree")
	}
}

package prepare

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/childtest"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// madeScan writes a scan of a shape, and labels if they are wanted, as case a of nnU-Net's layout.
func madeScan(t *testing.T, root string, shape [3]int, labelled bool) {
	t.Helper()
	g := volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{1, 1, 1})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for n := range v.Int16 {
		v.Int16[n] = int16(n%1500 - 1000)
		l.Labels[n] = uint16(n / 64 % 5)
	}
	for _, sub := range []string{"imagesTr", "labelsTr"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	err := nifti.Write(filepath.Join(root, "imagesTr", "a_0000.nii"), v)
	if labelled {
		err = errors.Join(err, nifti.WriteLabels(filepath.Join(root, "labelsTr", "a.nii"), l))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A case that needs more than is allowed fails by name, and says what it needs; the others are
// prepared, be they fewer at once.
func TestCasesThatDoNotFit(t *testing.T) {
	root := t.TempDir()
	madeScan(t, root, [3]int{128, 128, 64}, true)
	for _, small := range []string{"b", "c", "d"} {
		g := volume.Grid{Shape: [3]int{32, 32, 32}, Affine: volume.Scaling([3]float64{1, 1, 1})}
		v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
		for n := range v.Int16 {
			v.Int16[n] = int16(n%1500 - 1000)
		}
		if err := nifti.Write(filepath.Join(root, "imagesTr", small+"_0000.nii"), v); err != nil {
			t.Fatal(err)
		}
	}
	d, err := dataset.Detect(root, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	o.Workers, o.Memory = 4, 1<<20
	summary, err := Run(context.Background(), d, t.TempDir(), volume.DefaultPreparation(), o, nil)
	if summary == nil || summary.Prepared != 3 || len(summary.Failed) != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	o.LeastShare = 0.5 // but what is left out must not depend on the machine
	if _, tolerant := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), o, nil); tolerant == nil {
		t.Error("a case was left out for want of memory")
	}
	var tooMuch *memory.Error
	if !errors.As(summary.Failed[0].Err, &tooMuch) || tooMuch.Allowed != 1<<20 {
		t.Errorf("%v", summary.Failed[0].Err)
	}
	for _, words := range []string{"1 of 4 cases", "a_0000.nii, with 128x128x64 voxels, needs ",
		" MiB of memory, and 1 MiB are allowed"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: want %q in it", err, words)
		}
	}
}

// peakOf runs a function in a process of its own and returns the most memory in MiB that it had
// beyond what it began with.
func peakOf(t *testing.T, f func()) int {
	t.Helper()
	status := func(field string) int {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); name == field {
				kib, _ := strconv.Atoi(strings.Fields(value)[0])
				return kib >> 10
			}
		}
		t.Fatalf("/proc/self/status has no %s", field)
		return 0
	}
	before := status("VmRSS")
	f()
	return status("VmHWM") - before
}

// What is planned of a case is what preparing it takes, at most; and not much more, or cases would
// be refused that fit. The garbage collector is held to a limit as the program holds it.
func TestPreparingTakesWhatIsPlanned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("peaks are read from /proc, on ", runtime.GOOS)
	}
	for _, c := range []struct {
		name     string
		labelled bool
		change   func(*volume.Preparation)
	}{
		{"as it is", false, func(*volume.Preparation) {}},
		{"labelled", true, func(*volume.Preparation) {}},
		{"turned", true, func(p *volume.Preparation) { p.Axcodes = "SPL" }},
		{"coarser", true, func(p *volume.Preparation) { p.Spacing = [3]float64{1.5, 1.5, 2} }},
		{"finer", true, func(p *volume.Preparation) { p.Spacing = [3]float64{0.8, 0.8, 0.8} }},
		{"cubic", false, func(p *volume.Preparation) {
			p.Spacing, p.Interpolation = [3]float64{1.5, 1.5, 1.5},
				"cubic"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if dir := os.Getenv("VOXSAW_TEST_SCANS"); dir != "" {
				root = dir
			} else {
				madeScan(t, root, [3]int{256, 256, 128}, c.labelled)
				t.Setenv("VOXSAW_TEST_SCANS", root)
			}
			if childtest.InChild(t) {
				return
			}
			p := volume.DefaultPreparation()
			c.change(&p)
			d, err := dataset.Detect(root, dataset.Options{})
			if err != nil {
				t.Fatal(err)
			}
			need, known := d.Cases[0].Memory(p)
			if !known {
				t.Fatal("what it needs is not known")
			}
			debug.SetMemoryLimit(need + memory.Own)
			out := filepath.Join(root, "out")
			took := peakOf(t, func() {
				if _, err := Run(context.Background(), d, out, p, DefaultOptions(), nil); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("planned: %d MiB, taken: %d MiB", need>>20, took)
			if planned := int((need + memory.Own) >> 20); took > planned || 4*took < int(need>>20) {
				t.Errorf("%d MiB are planned, %d MiB were taken", planned, took)
			}
		})
	}
}

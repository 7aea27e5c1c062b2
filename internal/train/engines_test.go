package train

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
)

// tuned is a device that follows choices.
type tuned struct {
	device.Device
	inForce, refused []string
}

func (d tuned) Engines() (inForce, refused []string) { return d.inForce, d.refused }

// TestEnginesAreTold: what was chosen is told and recorded, and so is what a resumed run was
// computed with before.
func TestEnginesAreTold(t *testing.T) {
	path := t.TempDir()
	id := checkpoint.Description{Kind: checkpoint.Segmentation, Settings: "a: 1\n", Run: "a: 1\n", Version: "v1",
		Device: "gpu", Fingerprint: "f"}
	f, err := OpenFolder(path, id, voxsaw.ModeNew)
	if err != nil {
		t.Fatal(err)
	}
	notes := f.computeWith(tuned{inForce: []string{"a = rows", "b = cuDNN"}, refused: []string{"c is refused"}})
	if want := []string{"by measurement: a = rows", "by measurement: b = cuDNN", "c is refused"}; !slices.Equal(notes,
		want) {
		t.Errorf("a new run is told %q, want %q", notes, want)
	}
	if err := f.claim(); err != nil {
		t.Fatal(err)
	}
	if got := f.description(checkpoint.Progress{}).Engines; len(got) != 2 {
		t.Errorf("the checkpoint has %q", got)
	}
	if err := os.WriteFile(filepath.Join(path, lastFile), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ now, want []string }{
		{[]string{"a = rows", "b = cuDNN"}, nil},
		{[]string{"a = rows", "b = gathered"}, []string{"b = cuDNN before", "b = gathered is new"}},
		{nil, []string{"a = rows before", "b = cuDNN before"}},
	} {
		f, err := OpenFolder(path, id, voxsaw.ModeResume)
		if err != nil {
			t.Fatal(err)
		}
		notes := f.computeWith(tuned{inForce: c.now})[len(c.now):]
		if !slices.EqualFunc(notes, c.want, strings.HasSuffix) {
			t.Errorf("with %q the resumed run is told %q, want ... %q", c.now, notes, c.want)
		}
	}
	if notes := f.computeWith(nil); notes != nil {
		t.Errorf("a device without engines: %q", notes)
	}
}

// A run that goes on with another precision is told so; on another exact device only bits differ.
func TestOtherPrecisionIsTold(t *testing.T) {
	const gpu = "H200, 139.8 GiB, 132 multiprocessors, driver of CUDA 12.8, "
	for _, c := range []struct{ before, now, want string }{
		{gpu + "bf16", gpu + "fp32", "WARNING: the run was computed by cuda bf16, and goes on with cuda fp32"},
		{"Xeon, avx512 kernels, 2 threads", gpu + "fp32", "the run was started on Xeon"},
		{gpu + "tf32", "Xeon, avx512 kernels, 2 threads",
			"WARNING: the run was computed by cuda tf32, and goes on with cpu"},
	} {
		path, id := t.TempDir(), identity
		id.Device = c.before
		if err := open(t, path, id, voxsaw.ModeNew).claim(); err != nil {
			t.Fatal(err)
		}
		id.Device = c.now
		f := open(t, path, id, voxsaw.ModeResume)
		if len(f.drifts) != 1 || !strings.HasPrefix(f.drifts[0], c.want) {
			t.Errorf("%q, want %s", f.drifts, c.want)
		}
	}
}

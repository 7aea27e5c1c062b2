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

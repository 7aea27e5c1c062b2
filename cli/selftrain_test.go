package cli

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// The network that MONAI is to make takes as many channels as the weights do.
func TestChannelsOfMONAI(t *testing.T) {
	if got, want := ofMONAI(voxsaw.Network{Inputs: 2, Classes: 3, Activation: "elu"}),
		`VNet(spatial_dims=3, in_channels=2, out_channels=3, act="elu")`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// plain is a device that cannot merge classes.
type plain struct{ device.Device }

// selftrain says before its teachers work that the device cannot train a student with structures
// ignored, and what to choose.
func TestStudentsDeviceIsLookedAt(t *testing.T) {
	opened, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d, err := device.From(opened)
	if err != nil {
		t.Fatal(err)
	}
	c := segment.DefaultConfig()
	if err := learnsFromTargets(opened, c); err != nil {
		t.Error(err)
	}
	var advice interface{ Advice() string }
	if err := learnsFromTargets(plain{d}, c); !errors.As(err, &advice) ||
		!strings.Contains(advice.Advice(), "--undrawn background") {
		t.Errorf("%v", err)
	}
	c.Undrawn = segment.UndrawnBackground
	if err := learnsFromTargets(plain{d}, c); err != nil {
		t.Error(err)
	}
}

// Students that are to be teachers do not begin with weights of which nobody knows what they have
// learnt from: that is said before the first round, and where nothing is held out it does not
// matter.
func TestLostListOfFirstWeightsIsFoundBefore(t *testing.T) {
	opened, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	dev, err := device.From(opened)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 1)
	defer params.Close()
	g := nn.NewGraph(nn.Train, dev.Activations())
	g.Linear("head", g.Flatten(g.Input("image", 1, 1, 2, 2, 2)), 3, true)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := selftrainOptions{finetuneOptions: finetuneOptions{Cases: dataset.DefaultSelection(),
		Data: filepath.Join(dir, "prepared"), Init: filepath.Join(dir, "lost.safetensors")}, Rounds: 2}
	learnt := checkpoint.Learnt{Lost: "the list of teacher.safetensors is gone"}
	if err := checkpoint.Write(o.Init, checkpoint.Description{Kind: "jigsaw", Learnt: learnt}, params); err != nil {
		t.Fatal(err)
	}
	preparedPhantoms(t, o.Data)
	o.Cases.Fold = 1
	if err := o.initKnown(newSelftrain()); err == nil || !strings.Contains(err.Error(), learnt.Lost) {
		t.Errorf("two rounds: %v", err)
	}
	o.Rounds = 1
	if err := o.initKnown(newSelftrain()); err != nil {
		t.Errorf("one round: %v", err)
	}
}

// preparedPhantoms prepares four made-up patients into a folder.
func preparedPhantoms(t *testing.T, dir string) {
	t.Helper()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		v, l, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{20, 20, 20}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(prepared.Input{ID: string(rune('a' + n)), Image: v, Labels: l}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

// More labelled steps at the end than there are steps are refused before the teachers work, also
// where the hours, or a plan, say how many there are.
func TestLabelledLastIsLookedAtBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prepared")
	preparedPhantoms(t, dir)
	for _, c := range []struct {
		flags []string
		hours float64
	}{
		{[]string{"crop", "16x16x16", "steps", "100"}, 0},
		{[]string{"crop", "16x16x16", "channels", "2", "levels", "1", "hours", "0.01"}, 0.01},
		{nil, 0},
	} {
		cmd := newSelftrain()
		cmd.SetErr(io.Discard)
		cmd.SetContext(t.Context())
		o := selftrainOptions{finetuneOptions: finetuneOptions{Config: segment.DefaultConfig(),
			Cases: dataset.DefaultSelection(), Data: dir, Machine: defaultDevice()}}
		o.Cases.Fold, o.Crop = 1, [3]int{16, 16, 16}
		o.Network.Channels, o.Network.Levels, o.Train.Steps = 2, 1, 100
		for n := 0; n < len(c.flags); n += 2 {
			if err := cmd.Flags().Set(c.flags[n], c.flags[n+1]); err != nil {
				t.Fatal(err)
			}
		}
		o.LabelledLast = 1_000_000
		err := o.check(cmd, &runFlags{cmd: cmd, hours: hours(c.hours)}, filepath.Join(dir, "student"))
		if err == nil || !strings.Contains(err.Error(), "labelled_last is 1000000 of ") {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
}

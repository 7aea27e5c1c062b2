package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/segment"
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

package config

import "testing"

func TestUnlike(t *testing.T) {
	a, b := defaults(), defaults()
	if got := Unlike(&a, &b); got != "" {
		t.Errorf("equal: %q", got)
	}
	b.Network.Channels, b.Crop, b.Cases, b.Items = 8, [3]int{64, 64, 32}, []string{"a b", "1"}, []item{{Name: "x"}}
	want := `cases: [] and [a b, "1"]; crop: [96, 96, 96] and [64, 64, 32]; items: [] and [{extent: [0, 0, 0], name: x}]; network.channels: 16 and 8`
	if got := Unlike(&a, &b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

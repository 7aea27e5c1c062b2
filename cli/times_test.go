package cli

import (
	"slices"
	"strings"
	"testing"
)

// A grid of four axes is one of three, and times; what else stands on the line stays.
func TestGridOfFourAxes(t *testing.T) {
	for line, want := range map[string]string{
		"pretrain --grid 2x2x2x4 --out x":          "pretrain --grid=2x2x2 --times=4 --out x",
		"pretrain --out x --grid=1x1x1x4":          "pretrain --out x --grid=1x1x1 --times=4",
		"crossval --pretrain-grid 2x2x2x2 --steps": "crossval --pretrain-grid=2x2x2 --pretrain-times=2 --steps",
		"pretrain --grid 2x2x2 --crop 8x8x8x8":     "pretrain --grid 2x2x2 --crop 8x8x8x8",
		"pretrain --grid":                          "pretrain --grid",
	} {
		args := strings.Fields(line)
		if got := strings.Join(withTimes(args), " "); got != want {
			t.Errorf("%s becomes %s, want %s", line, got, want)
		}
		if !slices.Equal(args, strings.Fields(line)) {
			t.Errorf("%s was changed", line)
		}
	}
	var out, complaint strings.Builder
	if code := Run([]string{"pretrain", "--grid", "2x2x2x2", "--data", t.TempDir(), "--out", t.TempDir()}, &out,
		&complaint); code == 0 || strings.Contains(complaint.String(), "--grid") {
		t.Errorf("%s", complaint.String())
	}
}

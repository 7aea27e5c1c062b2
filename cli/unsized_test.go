package cli

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// Sizes that nobody has said, beside others that somebody has, are named; a file's are not.
func TestDefaultSizesAreNamed(t *testing.T) {
	for flags, want := range map[string]string{
		"--steps 2":                               " beside --steps: crops of 64x64x64, vnet with 16 channels and 4",
		"--crop 64x64x64 --hours 1":               " beside --crop: vnet with 16 channels and 4 levels;",
		"--channels 16 --steps 2":                 " beside --channels, --steps: crops of 64x64x64;",
		"--init run --batch 2":                    " beside --batch: crops of 64x64x64, 2 steps;",
		"--init run":                              "planned: crops of 64x64x64, 2 steps;",
		"--init run --steps 2 --crop 64x64x64":    "",
		"--steps 2 --crop 64x64x64 --channels 16": "",
	} {
		want = strings.Replace(want, ": ", ", so these are the defaults: ", 1)
		cmd := newFinetune()
		if err := cmd.ParseFlags(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		cmd.SetContext(t.Context())
		var told strings.Builder
		cmd.SetErr(&told)
		new(runFlags).sayDefaults(cmd, [3]int{64, 64, 64}, voxsaw.Network{Kind: "vnet", Channels: 16, Levels: 4}, 2)
		if got := told.String(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", flags, got, want)
		}
	}
	if err := flagMistake(newCrossval(), newCrossval().ParseFlags([]string{"--hours", "1"})); !strings.HasPrefix(
		hintOf(err), "voxsaw plan PREPARED --hours H") {
		t.Errorf("%v, hint %q", err, hintOf(err))
	}
}

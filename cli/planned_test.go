package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/volume"
)

// goldenPlans are plans.json of nnU-Net's own planner.
var goldenPlans = filepath.Join("..", "testdata", "nnunet", "thick", "plans.json") + ":3d_small"

// withConfig gives a verb the settings of a file, and flags.
func withConfig(t *testing.T, cmd *cobra.Command, text string, flags ...string) *cobra.Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(append([]string{"--config", path}, flags...)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A file of settings without a crop leaves the crop to the plan; one that has it does not.
func TestCropOfPlan(t *testing.T) {
	p, err := nnunet.PlanOf(goldenPlans)
	if err != nil {
		t.Fatal(err)
	}
	own := [3]int{48, 48, 48}
	for text, want := range map[string][3]int{
		"train: {steps: 5}\n":  p.PatchSize(),
		"crop: [48, 48, 48]\n": own,
		// of a plan, each command reads its own section
		"plan: {version: 1}\nfinetune: {train: {steps: 5}}\nprepare: {preparation: {crop: none}}\n": p.PatchSize(),
		"plan: {version: 1}\nfinetune: {crop: [48, 48, 48]}\n":                                      own,
	} {
		crop := own
		cropOfPlan(withConfig(t, newFinetune(), text), p, &crop)
		if crop != want {
			t.Errorf("%q: crop %v, want %v", text, crop, want)
		}
	}
}

// What a plan says of the preparation is said by nothing else, neither by flags nor by the file of
// settings.
func TestSettingsBesidePlansAreRefused(t *testing.T) {
	for _, c := range []struct{ text, flag, want string }{
		{"read: {tilt: resample}\n", "", ""},
		{"preparation: {relabel: '2:1'}\n", "", ""},
		{"preparation: {spacing: [1, 1, 1]}\n", "", "--spacing"},
		{"preparation: {window: [-100, 200]}\n", "", "--window"},
		{"", "--window=-100,200", "--window"},
		{"", "--modality=MR", "--modality"},
	} {
		var flags []string
		if c.flag != "" {
			flags = append(flags, c.flag)
		}
		how := volume.DefaultPreparation()
		err := likePlan(withConfig(t, newPrepare(), c.text, flags...), goldenPlans, &how)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want+" beside --plans") {
			t.Errorf("%q %s: %v", c.text, c.flag, err)
		}
	}
}

// So it is with a plan that knows no time and no machine.
func TestSettingsBesideKindsOfPlansAreRefused(t *testing.T) {
	for text, given := range map[string]bool{"hours: 5\n": true, "out: plan.yaml\n": false} {
		err := notBeside(withConfig(t, newPlan(), text), "it knows no time", "nnunet", "hours", "memory")
		if (err != nil) != given || given && !strings.Contains(err.Error(), "--hours beside --to nnunet") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Channels that come in another order than those of nnU-Net's model, or are called otherwise, are
// told of.
func TestChannelsOfAStart(t *testing.T) {
	model := filepath.Join("..", "testdata", "nnunet", "regions") // T1, T2
	for _, c := range []struct {
		here []string
		want string
	}{
		{[]string{"t1", "T2"}, ""},
		{[]string{"T2", "T1"}, "WARNING: the channels T2, T1 are taken for T1, T2 of "},
		{nil, ""},
	} {
		var said strings.Builder
		sayChannels(&said, model, c.here)
		if got := strings.Join(strings.Fields(said.String()), " "); !strings.Contains(got, c.want) ||
			c.want == "" && got != "" {
			t.Errorf("%v: %s, want %q", c.here, got, c.want)
		}
	}
}

// In a job a second plan is told by what is other than in the first.
func TestSecondPlanIsShort(t *testing.T) {
	cmd, out := newPlan(), &strings.Builder{}
	cmd.SetOut(out)
	cmd.SetContext(context.WithValue(t.Context(), stageKey{}, &stageOf{fingerprint: true}))
	p := &planning.Plan{Decisions: []planning.Decision{{What: "crop", Is: "64x64x64", Because: "first"},
		{What: "steps", Is: "10", Because: "first"}}}
	show := func() string {
		out.Reset()
		if err := showPlan(cmd, p, planning.Fingerprint{}, "plan.yaml"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := show(); !strings.Contains(text, "crop") || !strings.Contains(text, "steps") {
		t.Errorf("the first plan: %s", text)
	}
	p.Decisions[1] = planning.Decision{What: "steps", Is: "20", Because: "second"}
	if text := show(); strings.Contains(text, "crop") || !strings.Contains(text, "20") ||
		!strings.Contains(text, "what is new") {
		t.Errorf("the second: %s", text)
	}
	if text := show(); text != "plan.yaml: all as before\n" {
		t.Errorf("the third: %q", text)
	}
}

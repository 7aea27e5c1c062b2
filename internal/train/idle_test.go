package train

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// Settings of another schedule or optimiser are told where somebody has set them, those that count
// are not.
func TestTrainingSettingsThatDoNothing(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*voxsaw.Training)
	}{
		{"", func(*voxsaw.Training) {}},
		{"gamma 0.5 does nothing", func(o *voxsaw.Training) { o.Gamma = 0.5 }},
		{"", func(o *voxsaw.Training) { o.Gamma, o.Schedule = 0.5, "step" }},
		{"step_size 10 does nothing", func(o *voxsaw.Training) { o.StepSize = 10 }},
		{"", func(o *voxsaw.Training) { o.StepSize, o.Schedule = 10, "step" }},
		{"tooth 50 does nothing", func(o *voxsaw.Training) { o.Tooth = 50 }},
		{"", func(o *voxsaw.Training) { o.Tooth, o.Schedule = 50, "sawtooth" }},
		{"part_norm true does nothing", func(o *voxsaw.Training) { o.PartNorm = true }},
		{"", func(o *voxsaw.Training) { o.PartNorm, o.Accumulate = true, 2 }},
		{"reduce bf16 does nothing", func(o *voxsaw.Training) { o.Reduce = "bf16" }},
		{"power 2 does nothing", func(o *voxsaw.Training) { o.Power, o.Schedule = 2, "cosine" }},
		{"", func(o *voxsaw.Training) { o.Power = 2 }},
		{"beta2 0.9 does nothing", func(o *voxsaw.Training) { o.Beta2 = 0.9 }},
		{"", func(o *voxsaw.Training) { o.Beta2, o.Optimizer = 0.9, "adamw" }},
	} {
		o := voxsaw.DefaultTraining()
		c.change(&o)
		notes := strings.Join(idle(o, 1), "; ")
		if !strings.Contains(notes, c.want) || (notes == "") != (c.want == "") {
			t.Errorf("notes %q, want %q", notes, c.want)
		}
	}
	if notes := idle(voxsaw.Training{Reduce: "bf16"}, 2); strings.Contains(strings.Join(notes, "; "), "reduce") {
		t.Errorf("of two ranks: %q", notes)
	}
}

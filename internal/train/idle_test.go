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
		{"", func(o *voxsaw.Training) { o.StepSize, o.Tooth = 10, 50 }},
		{"power 2 does nothing", func(o *voxsaw.Training) { o.Power, o.Schedule = 2, "cosine" }},
		{"", func(o *voxsaw.Training) { o.Power = 2 }},
		{"beta2 0.9 does nothing", func(o *voxsaw.Training) { o.Beta2 = 0.9 }},
		{"", func(o *voxsaw.Training) { o.Beta2, o.Optimizer = 0.9, "adamw" }},
	} {
		o := voxsaw.DefaultTraining()
		c.change(&o)
		notes := strings.Join(idle(o), "; ")
		if !strings.Contains(notes, c.want) || (notes == "") != (c.want == "") {
			t.Errorf("notes %q, want %q", notes, c.want)
		}
	}
}

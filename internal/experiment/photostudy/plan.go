// Package photostudy compares what networks learn from photographs: arms x seeds, each a training
// with puzzles that are solved and features that are measured, and the tables of them all.
//
// Start at [Plan] and [Run]. An arm that is finished is not repeated; one that was interrupted is
// resumed. Nothing is learnt or measured here: package puzzle2d does that.
package photostudy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// Plan is a comparison. One YAML file holds it.
type Plan struct {
	Photos string   `yaml:"photos" help:"folder of prepared photographs to train on"`
	Seeds  []uint64 `yaml:"seeds,flow" help:"of the trainings"`
	Rounds []int    `yaml:"rounds,flow" help:"rounds after which solved puzzles are counted" range:"[1,)"`
	Only   int      `yaml:"only_classes" help:"orders that puzzles are restricted to, to compare with K-way ones; 0: not"`
	Solve  int      `yaml:"solve_photos" help:"held-out photographs to solve puzzles of; 0: all"`

	Pretrain experiment.Pretrain `yaml:"pretrain" flag:"pretrain"`
	Arms     []Arm               `yaml:"arms" help:"what is compared"`
	Transfer []Target            `yaml:"transfer" help:"what the features are measured on"`
	// Finetune is what whole networks are fine-tuned for.
	Finetune []Finetune `yaml:"finetune,omitempty" help:"tasks of Pascal VOC that the network of each arm is fine-tuned for"`
	// Published and Sources change no result.
	Published string              `yaml:"published,omitempty" help:"whose table the published scores of the arms are from"`
	Sources   []experiment.Source `yaml:"sources,omitempty" help:"the data sets that the prepared photographs are made of, which --data-root looks for"`
	// Contrasts change no result: they may be added to a comparison that is finished
	Contrasts []Contrast `yaml:"contrasts,omitempty" help:"claims to look at: one arm against another"`
}

// An Arm is a way to come to a network: by a training, or at random.
type Arm struct {
	Name     string         `yaml:"name" help:"as it is called in the tables"`
	Random   bool           `yaml:"random,omitempty" help:"random weights: the row that must never be missing"`
	Pretrain config.Section `yaml:"pretrain,omitempty" help:"settings that differ from those of the plan's section pretrain, {} for none; of a random arm those of its network"`
	Photos   string         `yaml:"photos,omitempty" help:"folder of prepared photographs to train on instead"`
	// Published changes no result.
	Published map[string]float64 `yaml:"published,omitempty" help:"scores in percent that others published: correct, near (D<=2), only, or the name of a target or of a task"`
}

// A Target is labelled photographs that features are measured on.
type Target struct {
	Name      string    `yaml:"name" help:"as it is called in the tables"`
	Data      string    `yaml:"data" help:"folder of prepared photographs with classes"`
	PerClass  int       `yaml:"per_class" help:"photographs of each class that a machine is fitted to; 0: all"`
	C         []float64 `yaml:"C,flow" help:"weight of the losses; of several, cross-validation chooses" range:"(0,)"`
	Draws     int       `yaml:"draws" help:"draws of these photographs" range:"[1,)"`
	Mix       bool      `yaml:"mix" help:"draw from all photographs, not from those to train on"`
	Normalise bool      `yaml:"normalise" help:"features have length 1"`
	Layer     string    `yaml:"layer,omitempty" help:"empty: the last; or conv5"`
	Side      int       `yaml:"side" help:"width and height of what is looked at; 0: the shorter side"`
}

// DefaultPlan has the paper's settings and no data.
func DefaultPlan() Plan {
	return Plan{Seeds: []uint64{1}, Rounds: []int{1, 2, 5, 10, 20},
		Pretrain: experiment.Pretrain{OneOf: pretext.Photographs.Choice()},
		Arms:     []Arm{{Name: "random", Random: true}, {Name: "puzzles", Pretrain: config.NewSection("{}\n")}}}
}

// Check says what is wrong with the plan, nil if nothing is.
func (p Plan) Check() error {
	if p.Photos == "" {
		return errors.New("photos: name the folder of prepared photographs")
	}
	if len(p.Seeds) == 0 || len(p.Arms) == 0 {
		return errors.New("a comparison needs at least one seed and one arm")
	}
	for _, r := range p.Rounds {
		if r < 1 {
			return fmt.Errorf("rounds: %d, must be at least 1", r)
		}
	}
	if err := experiment.Once("seeds", p.Seeds); err != nil {
		return err
	}
	seen := experiment.Names{}
	random := false
	for _, a := range p.Arms {
		if err := seen.Add("arm", "arms", a.Name); err != nil {
			return err
		}
		if random = random || a.Random; !a.Random && a.Pretrain.IsZero() {
			return fmt.Errorf("arm %s: say either random: true, or what is "+
				"trained (pretrain: {} for the plan's settings)", a.Name)
		}
		if _, err := p.settings(a); err != nil {
			return err
		}
	}
	if err := errors.Join(p.checkFinetune(), p.checkPublished(), p.Paths().CheckSources(p.Sources, true)); err != nil {
		return err
	}
	if len(p.Transfer)+len(p.Finetune) > 0 && !random {
		return errors.New("no arm is random: without that row nobody can say what the others have learnt")
	}
	for _, t := range p.Transfer {
		if t.Name == "" || t.Data == "" {
			return errors.New("transfer: each needs a name and data, a folder of prepared photographs")
		}
	}
	return p.checkContrasts(seen)
}

// CheckRanks says whether so many ranks can carry out the plan's trainings together.
func (p Plan) CheckRanks(ranks int) error {
	for _, a := range p.Arms {
		if a.Random || ranks < 2 {
			continue
		}
		chosen, err := p.settings(a)
		if err != nil {
			return err
		}
		settings := chosen.Settings()
		task, _, _ := puzzle2d.SettingsOf(settings)
		if n := task.Network; n.Backbone != photonet.AlexNet || n.Norm == photonet.Batch {
			err = errors.New("several ranks cannot share the statistics of batch norm: take the backbone alexnet " +
				"with norm lrn, which has none")
		} else {
			_, _, err = train.Group{Size: ranks}.Accumulating(task.Train.Accumulate).Share(*settings.Common().Batch)
		}
		if err != nil {
			return fmt.Errorf("arm %s: %w", a.Name, err)
		}
	}
	return nil
}

// settings are those of an arm.
func (p Plan) settings(a Arm) (experiment.Pretrain, error) {
	return p.Pretrain.For(a.called(), a.Pretrain)
}

// called is what errors call an arm.
func (a Arm) called() string { return "arm " + a.Name }

// Idle implements [experiment.Study].
func (p Plan) Idle() error {
	var arms []experiment.ArmSettings
	for _, a := range p.Arms {
		if !a.Random {
			arms = append(arms, p.Pretrain.Arm(a.called(), a.Pretrain))
		}
	}
	return experiment.IdleIn(arms)
}

// Paths implements [experiment.Study].
func (p *Plan) Paths() experiment.Paths {
	var all experiment.Paths
	add := func(what string, at *string) { all = append(all, experiment.Path{What: what, At: at}) }
	add("photos", &p.Photos)
	for n := range p.Transfer {
		t := &p.Transfer[n]
		add("data of transfer "+t.Name, &t.Data)
	}
	for n := range p.Finetune {
		f := &p.Finetune[n]
		add("data of finetune "+f.Name, &f.Data)
		add("proposals of finetune "+f.Name, &f.Proposals)
	}
	for n := range p.Arms {
		a := &p.Arms[n]
		add("photos of arm "+a.Name, &a.Photos)
	}
	return all
}

// DataSets implements [experiment.Study].
func (p *Plan) DataSets() []experiment.Source { return p.Sources }

// Begun implements [experiment.Study].
func (p Plan) Begun(out string) bool {
	folders, err := os.ReadDir(filepath.Join(out, armsFolder))
	return err == nil && len(folders) > 0
}

// network is that of an arm.
func (p Plan) network(a Arm) puzzle2d.Network {
	chosen, err := p.settings(a)
	if err != nil {
		return puzzle2d.Network{} // Check has said so
	}
	c, _, _ := puzzle2d.SettingsOf(chosen.Settings())
	return c.Network
}

// randomFor is the arm of random weights that an arm is compared with: of its own network, where
// there is one, else the first.
func (p Plan) randomFor(a Arm) string {
	name := ""
	for _, other := range p.Arms {
		switch {
		case !other.Random:
		case p.network(other) == p.network(a):
			return other.Name
		case name == "":
			name = other.Name
		}
	}
	return name
}

// measure is how a target's features are measured.
func (t Target) measure() puzzle2d.Transfer {
	m := puzzle2d.Transfer{PerClass: t.PerClass, C: t.C, Seeds: t.Draws, Mix: t.Mix, Normalise: t.Normalise}
	if len(m.C) == 0 {
		m.C = puzzle2d.DefaultTransfer().C
	}
	if m.Seeds == 0 {
		m.Seeds = puzzle2d.DefaultTransfer().Seeds
	}
	return m
}

package auto

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file reads what commands have written: the plan, and the settings of a training.

// plan is what a job needs to know of a plan's file.
type plan struct {
	Plan struct {
		PuzzleSeconds float64             `yaml:"puzzle_seconds"`
		Decisions     []planning.Decision `yaml:"decisions"`
	} `yaml:"plan"`
	Pretrain, Finetune struct {
		Train settings `yaml:"train"`
	}
}

// Steps are those of a fine-tuning, Puzzles those of the pretraining; 0: there is none.
func (p *plan) Steps() int   { return p.Finetune.Train.Steps }
func (p *plan) Puzzles() int { return p.Pretrain.Train.Steps }

// puzzling is the time of the pretraining: that of the steps, and of validations and checkpoints.
func (p *plan) puzzling() time.Duration {
	return time.Duration(float64(p.Puzzles()) * p.Plan.PuzzleSeconds * float64(time.Second) / trainings)
}

func readPlan(path string) (*plan, error) {
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	return p, config.Unmarshal(path, text, p)
}

// settings are those of a training that its steps are counted by.
type settings struct {
	Schedule        string `yaml:"schedule"`
	Steps           int    `yaml:"steps"`
	Warmup          int    `yaml:"warmup"`
	StepSize        int    `yaml:"step_size"` // of schedule step
	Tooth           int    `yaml:"tooth"`     // of schedule sawtooth
	ValidateEvery   int    `yaml:"validate_every"`
	CheckpointEvery int    `yaml:"checkpoint_every"`
}

// settingsOf are those of the run in a folder.
func settingsOf(folder string) (settings, error) {
	path := train.ConfigOf(folder)
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return settings{}, err
	}
	var c struct {
		Train settings `yaml:"train"`
	}
	return c.Train, config.Unmarshal(path, text, &c)
}

// A counter is a setting that counts steps, by the name of its flag.
type counter struct {
	name  string
	value *int
}

// counters are the settings that count steps, but for those of another schedule.
func (s *settings) counters() []counter {
	all := []counter{{"steps", &s.Steps}, {"warmup", &s.Warmup}}
	switch s.Schedule {
	case "step":
		all = append(all, counter{"step-size", &s.StepSize})
	case "sawtooth":
		all = append(all, counter{"tooth", &s.Tooth})
	}
	return append(all, counter{"validate-every", &s.ValidateEvery}, counter{"checkpoint-every", &s.CheckpointEvery})
}

// scale makes a training shorter or longer, and what counts its steps with it.
func (s *settings) scale(to float64) {
	for _, c := range s.counters() {
		if *c.value > 0 {
			*c.value = max(int(math.Round(float64(*c.value)*to)), 1)
		}
	}
}

// flags are those that give a training these settings.
func (s settings) flags() []string {
	var flags []string
	for _, c := range s.counters() {
		flags = append(flags, "--"+c.name, strconv.Itoa(*c.value))
	}
	return flags
}

// windows are those that a network looks at scans in.
type windows struct{ sliding.Options }

// windowsOf are those of the validations of the run in a folder.
func windowsOf(folder string) (w windows, err error) {
	path := train.ConfigOf(folder)
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return w, err
	}
	c := struct {
		Crop    [3]int  `yaml:"crop"`
		Overlap float64 `yaml:"validate_overlap"`
	}{}
	if err := config.Unmarshal(path, text, &c); err != nil {
		return w, err
	}
	w.Size, w.Overlap = c.Crop, c.Overlap
	if min(c.Crop[0], c.Crop[1], c.Crop[2]) < 1 || !(c.Overlap >= 0 && c.Overlap < 1) {
		return w, fmt.Errorf("%s: crop is %s with validate_overlap %g, which no run has", path,
			numbers.Extents(c.Crop[:]), c.Overlap)
	}
	return w, nil
}

// mean is how many are laid over a scan of these shapes, in the mean.
func (w windows) mean(shapes [][3]int) float64 {
	n := 0
	for _, shape := range shapes {
		n += w.Windows(shape)
	}
	return float64(n) / float64(max(len(shapes), 1))
}

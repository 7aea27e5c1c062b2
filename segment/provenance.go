package segment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
)

// Provenance is what label maps of a [Predictor] come from: which weights, and the settings that
// decide what they look like. Those of two predictors are alike where their models and settings
// are.
type Provenance struct {
	// Model identifies the weights and the configurations of all checkpoints, in any order.
	Model       string    `json:"model"`
	Checkpoints []Trained `json:"checkpoints,omitempty"`
	Window      [3]int    `json:"window"`
	Overlap     float64   `json:"overlap"`
	Largest     bool      `json:"largest_component"`
	Mirror      string    `json:"mirror,omitempty"`
	// Device computed them, and how a GPU multiplied: "cpu", "cuda bf16"; "" in files of versions
	// that did not note it.
	Device string `json:"device,omitempty"`
	// labels of which the largest component is kept, as validation decided
	LargestOf []string `json:"largest_component_of,omitempty"`
}

// Trained is a checkpoint, as a label map names it.
type Trained struct {
	// the first of the digits of its digest, which its metadata have
	Weights string `json:"weights"`
	Step    int    `json:"step"`
	Data    string `json:"data"` // fingerprint of the prepared cases that it was trained on
}

// digits is how many hexadecimal digits of a digest are shown.
const digits = 16

// provenance reads what is said of the checkpoints.
func (p *Predictor) readProvenance(dev device.Device, checkpoints []string) error {
	made := Provenance{Device: device.Computer(dev.Describe()), Window: p.options.Window, Overlap: p.options.Overlap,
		Largest: p.options.Components == ComponentsLargest, Mirror: p.options.Mirror}
	if !made.Largest {
		made.LargestOf = p.largestOf()
	}
	var models []string
	for _, path := range checkpoints {
		weights, err := checkpoint.Digest(path)
		if err != nil {
			return err
		}
		d, err := checkpoint.Read(path)
		if err != nil {
			return err
		}
		made.Checkpoints = append(made.Checkpoints, Trained{Weights: weights[:min(digits, len(weights))], Step: d.Step,
			Data: d.Fingerprint})
		models = append(models, fmt.Sprintf("%q %q\n", weights, d.Settings))
	}
	slices.Sort(models)
	sum := sha256.New()
	for _, model := range models {
		sum.Write([]byte(model))
	}
	made.Model = hex.EncodeToString(sum.Sum(nil))[:2*digits]
	p.made = made
	return nil
}

// Provenance is what this predictor's label maps come from.
func (p *Predictor) Provenance() Provenance {
	made := p.made
	made.Checkpoints = slices.Clone(made.Checkpoints)
	return made
}

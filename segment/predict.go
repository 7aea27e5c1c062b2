package segment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Inference is how label maps are made.
type Inference struct {
	Window  [3]int  `yaml:"window,flow" help:"size of the window in voxels; 0: the crop that the network was trained on"`
	Overlap float64 `yaml:"overlap" help:"share of a window that its neighbour covers too"`
	Batch   int     `yaml:"batch" help:"windows in a batch"`
	Largest bool    `yaml:"largest_component" help:"keep only the largest connected component of each label"`
}

// DefaultInference overlaps windows by half.
func DefaultInference() Inference { return Inference{Overlap: 0.5, Batch: 1} }

// A Predictor makes label maps with one network, or with the mean of several.
type Predictor struct {
	Progress func(done, total int) // told of the windows of a scan; may be nil

	config  Config
	options Inference
	params  *nn.Params
	slider  *slider
	// weights of each checkpoint; empty if there is one, whose weights stay in place
	members []map[string][]float32
	labels  []uint16 // that each class is written as
	names   map[uint16]string
}

// NewPredictor loads checkpoints of fine-tuning runs. Of several, which must have the same network,
// labels and preparation, the class probabilities are averaged. memory limits the bytes of the
// program; 0: no limit.
func NewPredictor(dev device.Device, checkpoints []string, o Inference, memory int64) (*Predictor, error) {
	if len(checkpoints) == 0 {
		return nil, errors.New("there is no checkpoint to predict with")
	}
	if o.Batch < 1 || o.Batch > 1<<16 {
		return nil, fmt.Errorf("batch is %d, must be at least 1", o.Batch)
	}
	p := &Predictor{options: o}
	var err error
	if p.config, err = readConfig(checkpoints[0]); err != nil {
		return nil, err
	}
	for _, path := range checkpoints[1:] {
		other, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		if err := p.config.agrees(other); err != nil {
			return nil, fmt.Errorf("%s and %s cannot be averaged: %w", checkpoints[0], path, err)
		}
	}
	if p.options.Window == [3]int{} {
		p.options.Window = p.config.Crop
	}
	p.params = nn.NewParams(dev, 0)
	if p.slider, err = newSlider(dev, p.params, p.config.Network, p.options.Window, o.Batch, o.Overlap, nn.Options{MemoryLimit: memory}); err != nil {
		return nil, err
	}
	for _, path := range checkpoints {
		report, err := train.LoadWeights(path, p.params, nil)
		if err != nil {
			return nil, err
		}
		if len(report.Missing) > 0 {
			return nil, fmt.Errorf("a checkpoint without all weights: %v", report)
		}
		if len(checkpoints) > 1 {
			weights := map[string][]float32{}
			for _, name := range p.params.Names() {
				if weights[name], err = p.params.Read(name); err != nil {
					return nil, err
				}
			}
			p.members = append(p.members, weights)
		}
	}
	return p, p.nameLabels()
}

// nameLabels chooses what each class is written as: its label, or the first of those merged.
func (p *Predictor) nameLabels() error {
	classes, err := parseClasses(p.config.Labels)
	if err != nil {
		return err
	}
	p.labels, p.names = []uint16{0}, map[uint16]string{}
	for i, class := range classes {
		p.labels = append(p.labels, class[0])
		if i < len(p.config.Names) {
			p.names[class[0]] = p.config.Names[i]
		}
	}
	return nil
}

// readConfig reads the configuration of a fine-tuning run from its checkpoint.
func readConfig(path string) (Config, error) {
	meta, err := train.ReadMeta(path)
	if err != nil {
		return Config{}, err
	}
	if meta.Kind != Kind {
		return Config{}, fmt.Errorf("%s is a checkpoint of kind %q: predictions need one of kind %q, as voxsaw finetune makes it", path, meta.Kind, Kind)
	}
	c := DefaultConfig()
	if err := yaml.Unmarshal([]byte(meta.Config), &c); err != nil {
		return c, fmt.Errorf("%s: configuration: %w", path, err)
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: configuration: %w", path, err)
	}
	return c, nil
}

// agrees says whether the networks of two runs can vote on one scan.
func (c Config) agrees(o Config) error {
	switch {
	case c.Network != o.Network:
		return fmt.Errorf("their networks differ: %+v, %+v", c.Network, o.Network)
	case fmt.Sprint(c.Labels) != fmt.Sprint(o.Labels):
		return fmt.Errorf("their labels differ: %v, %v", c.Labels, o.Labels)
	case c.Preparation != o.Preparation:
		return fmt.Errorf("their scans were prepared in different ways: %+v, %+v", c.Preparation, o.Preparation)
	}
	return nil
}

// Config is the configuration of the run that the first checkpoint is of.
func (p *Predictor) Config() Config { return p.config }

// LabelNames names the labels that predictions have.
func (p *Predictor) LabelNames() map[uint16]string { return maps.Clone(p.names) }

// Labels lists the labels that predictions may have.
func (p *Predictor) Labels() []uint16 { return slices.Clone(p.labels[1:]) }

// Bytes is the memory that the network takes in inference, beside the sums over the scan.
func (p *Predictor) Bytes() int64 { return p.slider.program.Bytes() + p.params.Bytes() }

// Predict segments a scan as it was read. The label map lies on the scan's own grid.
func (p *Predictor) Predict(ctx context.Context, v *volume.Volume) (*volume.LabelMap, error) {
	prepared, err := p.config.Preparation.Apply(v)
	if err != nil {
		return nil, fmt.Errorf("preparing the scan: %w", err)
	}
	l, err := p.predict(ctx, hold(v, prepared, p.config.Preparation), prepared.Grid)
	if err != nil {
		return nil, err
	}
	return p.config.Preparation.Restore(l, v.Grid)
}

// PredictCase segments a prepared case. The label map lies on the prepared grid.
func (p *Predictor) PredictCase(ctx context.Context, c *prepared.Case) (*volume.LabelMap, error) {
	l, err := p.predict(ctx, c, c.Grid)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	return l, nil
}

func (p *Predictor) predict(ctx context.Context, src source, grid volume.Grid) (*volume.LabelMap, error) {
	classes, err := p.slider.classify(ctx, src, grid.Shape, p.ensemble(), p.Progress)
	if err != nil {
		return nil, err
	}
	if p.options.Largest {
		keepLargest(classes, grid.Shape)
	}
	for i, class := range classes {
		classes[i] = p.labels[class]
	}
	return &volume.LabelMap{Grid: grid, Labels: classes, Names: p.LabelNames()}, nil
}

func (p *Predictor) ensemble() ensemble {
	return ensemble{members: len(p.members), use: func(member int) error {
		if len(p.members) == 0 {
			return nil
		}
		for name, values := range p.members[member] {
			if err := p.params.Write(name, values); err != nil {
				return err
			}
		}
		return nil
	}}
}

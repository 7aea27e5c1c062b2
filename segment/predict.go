package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Inference is how label maps are made.
type Inference struct {
	// size of the window in voxels; 0: the crop that the network was trained on
	Window [3]int `yaml:"window,flow"`
	// share of a window that its neighbour covers too
	Overlap float64 `yaml:"overlap" range:"[0,0.95]"`
	// windows in a batch
	Batch int `yaml:"batch" range:"[1,)" most:"4096"`
	// connected components of a label that predictions keep: all, the largest, or validated: the
	// largest of those labels that people drew in one component and whose DSC that raised on
	// validation cases, as the checkpoint says;
	// left out: validated, in a study all; of nnU-Net's models all, where validated means its own
	// postprocessing.json
	//
	// Components is the post-processing: what predictions keep of each label.
	Components string `yaml:"components" oneof:"all largest validated"`
	// older name of components: largest
	Largest bool `yaml:"largest_component,omitempty" flag:"-"`
	// test-time augmentation: axes along which windows are mirrored, such as ijk for all eight
	// mirror images, whose probabilities are averaged; for networks that were trained on mirrored
	// crops; empty: none. nnU-Net's models: empty mirrors as they were trained, none does not
	Mirror string `yaml:"mirror,omitempty"`
	// Logits makes the network ready to tell its logits, too: see [MapOptions].
	Logits bool `yaml:"-"`
}

// DefaultInference overlaps windows by half.
func DefaultInference() Inference { return Inference{Overlap: 0.5, Batch: 1} }

// The words of Inference.Components, beside the empty one: which connected components predictions
// keep.
const (
	ComponentsAll       = "all"
	ComponentsLargest   = "largest"   // of every label
	ComponentsValidated = "validated" // the largest, of labels for which validation decided so
)

// Named returns the settings with the post-processing in Components alone, where its older name
// says it, too. Components stays empty where nothing says it. Two that contradict each other are an
// error.
func (o Inference) Named() (Inference, error) {
	if o.Largest {
		if o.Components != "" && o.Components != ComponentsLargest {
			return o, fmt.Errorf("largest_component: true says components: %s, which is %s as well: leave one out",
				ComponentsLargest, o.Components)
		}
		o.Components, o.Largest = ComponentsLargest, false
	}
	switch o.Components {
	case "", ComponentsAll, ComponentsLargest, ComponentsValidated:
		return o, nil
	}
	return o, fmt.Errorf("components is %q, must be %s, %s or %s", o.Components, ComponentsAll, ComponentsLargest,
		ComponentsValidated)
}

// WindowNote says whether label maps are made in other windows than the crops that the network was
// trained on, which costs accuracy; "" where they are not.
func (c Config) WindowNote(o Inference) string {
	if o.Window == [3]int{} || o.Window == c.Crop {
		return ""
	}
	return fmt.Sprintf("WARNING: the window of inference is %dx%dx%d, the network is trained on crops of %dx%dx%d: "+
		"another window than the crop costs accuracy (leave --window out, or train on such crops)",
		o.Window[0], o.Window[1], o.Window[2], c.Crop[0], c.Crop[1], c.Crop[2])
}

// A Predictor makes label maps with one network, or with the mean of several.
type Predictor struct {
	Progress func(done, total int) // told of the windows of a scan; may be nil
	// Note is told how the windows of a scan are computed where the memory is too little for all of
	// their sums at once; may be nil.
	Note func(text string)

	config  Config
	options Inference
	params  *nn.Params
	windows *sliding.Inferer
	// weights of each checkpoint; empty if there is one, whose weights stay in place
	members []map[string][]float32
	labels  []uint16 // that each class is written as
	names   map[uint16]string
	made    Provenance
	lessons []lesson // a checkpoint each
	largest []bool   // classes that keep their largest component alone; nil: none
	// of each checkpoint that has a vote, the labels of which validation kept the largest component
	decisions [][]checkpoint.Kept
}

// NewPredictor loads checkpoints of fine-tuning runs. Of a run's folder it takes the best one, or
// the last where nothing was validated. Of several, which must have the same network,
// labels and preparation, the class probabilities are averaged. memory limits the bytes of the
// network, a scan and the sums over it; 0: no limit.
func NewPredictor(dev voxsaw.Device, checkpoints []string, o Inference, memory int64) (*Predictor, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, err
	}
	if len(checkpoints) == 0 {
		return nil, errors.New("there is no checkpoint to predict with")
	}
	checkpoints = slices.Clone(checkpoints)
	for n, path := range checkpoints {
		if checkpoints[n], err = train.CheckpointOf(path); err != nil {
			return nil, err
		}
	}
	if o, err = o.Named(); err != nil {
		return nil, err
	}
	o.Components = cmp.Or(o.Components, ComponentsValidated)
	p := &Predictor{options: o}
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
	if err := errors.Join(p.nameLabels(), p.decideComponents(checkpoints)); err != nil {
		return nil, err
	}
	b, err := backbone.Of(p.config.Network)
	if err != nil {
		return nil, err
	}
	p.params = nn.NewParams(d, 0)
	windows := sliding.Options{Size: p.options.Window, Batch: o.Batch, Overlap: o.Overlap, Logits: o.Logits,
		Mirror: o.Mirror}
	if p.windows, err = sliding.New(d, p.params, b, windows, nn.Options{MemoryLimit: memory}); err == nil {
		err = errors.Join(p.load(checkpoints), p.readProvenance(d, checkpoints), p.readLessons(checkpoints))
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// load reads the weights. Those of several checkpoints are kept beside the network.
func (p *Predictor) load(checkpoints []string) error {
	for _, path := range checkpoints {
		if _, err := checkpoint.LoadAll(path, p.params,
			func(string) string { return "it has not all weights of the network" }); err != nil {
			return err
		}
		if len(checkpoints) == 1 {
			return nil
		}
		weights := map[string][]float32{}
		for _, name := range p.params.Names() {
			var err error
			if weights[name], err = p.params.Read(name); err != nil {
				return err
			}
		}
		p.members = append(p.members, weights)
	}
	return nil
}

// Close gives the memory back.
func (p *Predictor) Close() {
	if p.windows != nil {
		p.windows.Close()
	}
	p.params.Close()
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

// decideComponents chooses the classes that keep their largest component alone: all, or those that
// the validations of all checkpoints have decided on. A checkpoint whose training held nothing out
// has no vote; one whose best was forgotten since, has.
func (p *Predictor) decideComponents(checkpoints []string) error {
	switch p.options.Components {
	case ComponentsLargest:
		p.largest = slices.Repeat([]bool{true}, len(p.labels))
		return nil
	case ComponentsAll:
		return nil
	}
	votes, voters := make([]int, len(p.labels)), 0
	for _, path := range checkpoints {
		d, err := checkpoint.Read(path)
		if err != nil {
			return err
		}
		if d.BestStep == 0 && d.Largest == "" {
			continue
		}
		voters++
		p.decisions = append(p.decisions, d.Kept())
		for _, kept := range d.Kept() {
			if class := slices.Index(p.config.Labels, kept.Label); class >= 0 {
				votes[class+1]++
			}
		}
	}
	for class, n := range votes {
		if voters > 0 && n == voters {
			p.largest = append(p.largest, make([]bool, len(votes)-len(p.largest))...)
			p.largest[class] = true
		}
	}
	return nil
}

// largestOf names the classes that keep their largest component alone, by their labels.
func (p *Predictor) largestOf() (labels []string) {
	for class, kept := range p.largest {
		if kept && class > 0 {
			labels = append(labels, p.config.Labels[class-1])
		}
	}
	return labels
}

// readConfig reads the configuration of a fine-tuning run from its checkpoint.
func readConfig(path string) (Config, error) {
	c := DefaultConfig()
	d, err := checkpoint.ReadKind(path, "predictions need one of kind "+checkpoint.Segmentation+
		", as voxsaw finetune makes it", checkpoint.Segmentation)
	if err != nil {
		return c, err
	}
	if err := d.Parse(&c); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: configuration: %w", path, err)
	}
	return c, nil
}

// agrees says whether the networks of two runs can vote on one scan.
func (c Config) agrees(o Config) error {
	switch {
	case !c.Network.Equal(o.Network):
		return fmt.Errorf("their networks differ: %s", config.Unlike(&c.Network, &o.Network))
	case !slices.Equal(c.Labels, o.Labels) || !slices.EqualFunc(c.classes(), o.classes(), class.is):
		return fmt.Errorf("their labels differ: %s and %s", c.shownClasses(), o.shownClasses())
	}
	var differ []string
	for _, d := range o.Preparation.Differences(c.Preparation) {
		differ = append(differ, fmt.Sprintf("%s %s and %s", d.Key, d.Old, d.New))
	}
	if differ != nil {
		return fmt.Errorf("their scans were prepared in different ways: %s", strings.Join(differ, "; "))
	}
	return nil
}

// Preparation is how scans are prepared for the network.
func (p *Predictor) Preparation() volume.Preparation { return p.config.Preparation }

// WindowNote is [Config.WindowNote] of the checkpoint that the predictor was made of.
func (p *Predictor) WindowNote() string { return p.config.WindowNote(p.options) }

// LabelNames names the labels that predictions have.
func (p *Predictor) LabelNames() map[uint16]string { return maps.Clone(p.names) }

// Labels lists the labels that predictions may have.
func (p *Predictor) Labels() []uint16 { return slices.Clone(p.labels[1:]) }

// Notes are what a person should know of the settings.
func (p *Predictor) Notes() (notes []string) {
	var names []string
	for _, labels := range p.config.Labels {
		names = append(names, p.config.DescribeLabels(labels))
	}
	notes = append(notes, fmt.Sprintf("the network has classes for %s; everything else is background",
		safetext.List(names)))
	if of := p.largestOf(); len(of) > 0 && p.options.Components != ComponentsLargest {
		notes = append(notes, p.largestNote(of))
	}
	notes = append(notes, p.lessonNotes()...)
	var unseen []string
	for _, axis := range strings.Split(p.options.Mirror, "") {
		if !strings.Contains(p.config.Augment.Mirror, axis) {
			unseen = append(unseen, axis)
		}
	}
	if len(unseen) == 0 {
		return notes
	}
	return append(notes,
		fmt.Sprintf("the network was not trained on crops that are mirrored along %s: their probabilities may "+
			"be worse, and left and right be mixed up", safetext.List(unseen)))
}

// largestNote says of which labels the largest component is kept, and why.
func (p *Predictor) largestNote(of []string) string {
	var all []checkpoint.Kept
	for _, label := range of {
		var reasons []string
		for _, decided := range p.decisions {
			for _, k := range decided {
				if k.Label == label {
					reasons = append(reasons, k.Because)
				}
			}
		}
		all = append(all, checkpoint.Kept{Label: label, Because: strings.Join(reasons, " / ")})
	}
	return fmt.Sprintf("only the largest connected component is kept of %s (--components all keeps all)",
		p.config.describeKept(all))
}

// Bytes is the memory that the network takes in inference, beside the sums over the scan.
func (p *Predictor) Bytes() int64 { return p.windows.NetworkBytes() + p.params.Bytes() }

// Predict segments a scan as it was read. The label map lies on the scan's own grid: where the
// preparation resampled the scan, the class probabilities are interpolated linearly between the
// prepared voxels, and each voxel of the scan gets the class with the highest.
func (p *Predictor) Predict(ctx context.Context, v *volume.Volume) (*volume.LabelMap, error) {
	l, _, err := p.PredictMaps(ctx, v, MapOptions{})
	return l, err
}

// PredictCase segments a prepared case. The label map lies on the prepared grid.
func (p *Predictor) PredictCase(ctx context.Context, c *prepared.Case) (*volume.LabelMap, error) {
	to, err := volume.Stay(c.Grid)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	return p.predictCase(ctx, c, to)
}

// PredictOriginal segments a prepared case. The label map lies on the voxels of the scan that the
// case was prepared from, as that of [Predictor.Predict] does.
func (p *Predictor) PredictOriginal(ctx context.Context, c *prepared.Case) (*volume.LabelMap, error) {
	to, err := c.Restoration()
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	return p.predictCase(ctx, c, to)
}

func (p *Predictor) predictCase(ctx context.Context, c *prepared.Case, to *volume.Restoration) (*volume.LabelMap,
	error) {
	l, _, err := p.predict(ctx, sliding.Case{Case: c}, sliding.Wanted{Classes: to})
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	return l, nil
}

func (p *Predictor) predict(ctx context.Context, src sliding.Source, wanted sliding.Wanted) (*volume.LabelMap,
	sliding.Result, error) {
	p.windows.Note = p.Note
	r, err := p.windows.Infer(ctx, src, p.ensemble(), wanted, p.Progress)
	p.windows.Note = nil // other passes over the same scan are like the first
	if err != nil {
		return nil, r, err
	}
	to := wanted.Classes
	if p.largest != nil {
		quality.KeepLargest(r.Classes, to.Scan.Shape, p.largest)
	}
	for i, class := range r.Classes {
		r.Classes[i] = p.labels[class]
	}
	return &volume.LabelMap{Grid: to.Scan, Labels: r.Classes, Names: p.LabelNames()}, r, nil
}

// Reference is a label map with the labels that the network was taught: merged as its classes are,
// all others background. A perfect prediction of the case equals it.
func (p *Predictor) Reference(l *volume.LabelMap) *volume.LabelMap { return p.config.Reference(l) }

func (p *Predictor) ensemble() sliding.Ensemble {
	if len(p.members) == 0 {
		return sliding.Ensemble{}
	}
	return sliding.Ensemble{Members: len(p.members), Use: func(member int) error {
		for name, values := range p.members[member] {
			if err := p.params.Write(name, values); err != nil {
				return err
			}
		}
		return nil
	}}
}

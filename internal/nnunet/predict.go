package nnunet

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// Predictor makes label maps with a model's folds together.
type Predictor struct {
	*Model
	Progress func(done, total int) // told of the windows of a scan, of all folds; may be nil

	program *nn.Program
	params  *nn.Params
	members []map[string][]float32 // weights of each fold; one fold's are in place
	mirror  [][]int
	logits  []float32
	memory  int64 // limit in bytes; 0: none
}

// Options say how a model predicts.
type Options struct {
	NoMirroring bool  // windows alone, without their mirror images
	Memory      int64 // limit in bytes for the network and a scan; 0: none
}

// NewPredictor makes the network of a model and loads its weights.
func NewPredictor(dev device.Device, m *Model, o Options) (*Predictor, error) {
	p := &Predictor{Model: m, mirror: mirrorSets(m.Mirror), memory: o.Memory}
	if o.NoMirroring {
		p.mirror = mirrorSets(nil)
	}
	for a, multiple := range m.Network.Multiple() {
		if m.Patch[a]%multiple != 0 {
			return nil, fmt.Errorf(
				"%s: the patch of %s is no multiple of %d along its axis %d, by which the network divides it",
				m.Folder,
				numbers.Extents(m.Patch[:]),
				multiple,
				a,
			)
		}
	}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	x := g.Input("image", 1, m.Network.In, m.Patch[0], m.Patch[1], m.Patch[2])
	logits := m.Network.Logits(g, x)[0]
	p.params = nn.NewParams(dev, 0)
	var err error
	if p.program, err = nn.Compile(dev, g, p.params, nn.Options{Outputs: map[string]*nn.Node{"logits": logits},
		MemoryLimit: o.Memory}); err == nil {
		err = p.load()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	p.logits = make([]float32, m.Heads()*m.Patch[0]*m.Patch[1]*m.Patch[2])
	return p, nil
}

// Close gives the memory back.
func (p *Predictor) Close() {
	if p.program != nil {
		p.program.Close()
	}
	p.params.Close()
}

// Bytes is the memory of the network and its parameters.
func (p *Predictor) Bytes() int64 { return p.program.Bytes() + p.params.Bytes() }

// Need is the memory in bytes that a scan of a shape (i, j, k) and a spacing along these axes takes
// beside the network, at most, its voxels taking so many bytes in each channel as they were read.
func (p *Predictor) Need(g volume.Grid, voxelBytes int) int64 {
	if turned, err := g.Oriented(turnedAxes); p.Turned && err == nil {
		g, voxelBytes = turned, 2*voxelBytes
	}
	scan, channels := int64(g.Len()), int64(len(p.Plan.Channels))
	spacing := permuted(fileSpacing(g), p.Forward)
	shape := permuted([3]int{g.Shape[2], g.Shape[1], g.Shape[0]}, p.Forward)
	// one channel at a time is resampled: two arrays of float64 beside all channels as float32
	between := [4]int64{scan}
	for a := range 3 {
		m := max(1, int(math.RoundToEven(spacing[a]/p.Spacing[a]*float64(shape[a]))))
		between[a+1] = between[a] / int64(shape[a]) * int64(m)
		shape[a] = m
	}
	resampled := int64(shape[0]) * int64(shape[1]) * int64(shape[2])
	preparing := 4*scan*channels + 2*scan + 8*max(between[1], between[1]+between[2], between[2]+between[3]) +
		4*resampled*channels
	var window, sums int64 = 1, int64(p.Patch[0])
	for a, n := range p.Patch {
		window *= int64(n)
		if a > 0 {
			sums *= int64(max(shape[a], n))
		}
	}
	heads := int64(p.Heads())
	atOnce := heads + channels // of a window, and once more where its mirror images are summed
	if len(p.mirror) > 1 {
		atOnce *= 2
	}
	inferring := 4*resampled*channels + 2*scan + 2*sums*(heads+1)*int64(len(p.members)) + 4*window*(atOnce+2)
	return int64(voxelBytes)*scan*channels + max(preparing, inferring)
}

// Fits says whether there is memory for a scan beside the network, before it is read.
func (p *Predictor) Fits(g volume.Grid, voxelBytes int) error {
	need, room := p.Need(g, voxelBytes), p.memory-p.Bytes()
	if p.memory <= 0 || need <= room {
		return nil
	}
	return fmt.Errorf(
		"a scan of %s voxels takes %d MiB of memory with this model of %d classes beside its network, which leaves %d MiB: raise --memory, take fewer folds, or a part of the scan",
		numbers.Extents(g.Shape[:]), need>>20, p.Heads(), max(room, 0)>>20,
	)
}

// load reads the weights of all folds.
func (p *Predictor) load() error {
	for _, path := range p.checkpoints {
		found, file, err := weights(path)
		if err != nil {
			return err
		}
		defer file.Close()
		member := map[string][]float32{}
		var missing []string
		for _, name := range p.params.Names() {
			t, ok := found[name]
			if !ok {
				missing = append(missing, name)
				continue
			}
			if want := p.params.Shape(name); !slices.Equal(t.Shape, []int(want)) {
				return fmt.Errorf(
					"%s: %s has the shape %s, where the plans ask for %s",
					path,
					name,
					numbers.Extents(t.Shape),
					numbers.Extents([]int(want)),
				)
			}
			if member[name], err = file.Read(t); err != nil {
				return err
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf(
				"%s has not all weights that the plans ask for: %s are missing",
				path,
				safetext.List(missing),
			)
		}
		p.members = append(p.members, member)
	}
	return p.use(0)
}

// use puts the weights of a fold in place.
func (p *Predictor) use(member int) error {
	for name, values := range p.members[member] {
		if err := p.params.Write(name, values); err != nil {
			return err
		}
	}
	return nil
}

// run is the network on one window.
func (p *Predictor) run(x []float32) ([]float32, error) {
	if err := p.program.Set("image", x); err != nil {
		return nil, err
	}
	if err := p.program.Forward(); err != nil {
		return nil, err
	}
	return p.logits, p.program.Read("logits", p.logits)
}

// Predict makes the label map of a scan, whose channels are given in the model's order, on the
// scan's own grid.
func (p *Predictor) Predict(ctx context.Context, channels []*volume.Volume) (*volume.LabelMap, error) {
	if err := p.check(channels); err != nil {
		return nil, err
	}
	own := channels[0].Grid
	if p.Turned {
		turned := make([]*volume.Volume, len(channels))
		for n, v := range channels {
			var err error
			if turned[n], err = v.Orient(turnedAxes); err != nil {
				return nil, err
			}
		}
		channels = turned
	}
	scan, err := p.prepare(channels)
	if err != nil {
		return nil, err
	}
	labels := newArray[uint16]([3]int{channels[0].Shape[2], channels[0].Shape[1], channels[0].Shape[0]})
	shape := scan.channels[0].shape
	d := p.decide(p.Labels, shape, labels.view().transposed(p.Forward).part(scan.box), scan.spacing)
	f := &inference{
		Plan:     p.Plan,
		channels: scan.channels,
		mirror:   p.mirror,
		members:  len(p.members),
		use:      p.use,
		run:      p.run,
		progress: p.progress(shape),
	}
	if err := f.over(ctx, p.Heads(), d.plane); err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: channels[0].Grid, Labels: labels.values, Names: p.Names()}
	if p.Turned {
		if l, err = l.Orient(own.Axcodes()); err != nil {
			return nil, err
		}
		l.Grid = own
	}
	return l, nil
}

// turnedAxes are where axes grow to that are turned.
const turnedAxes = "RAS"

// progress counts the windows of all folds.
func (p *Predictor) progress(shape [3]int) func() {
	windows, done := len(p.members), 0
	for a, n := range shape {
		windows *= len(starts(max(n, p.Patch[a]), p.Patch[a]))
	}
	return func() {
		if done++; p.Progress != nil {
			p.Progress(done, windows)
		}
	}
}

// check says whether the channels are those that the model wants, and lie on one grid.
func (p *Predictor) check(channels []*volume.Volume) error {
	if len(channels) != len(p.Plan.Channels) {
		return fmt.Errorf(
			"the model wants %s (%s), there are %d",
			numbers.Count(len(p.Plan.Channels), "channel"),
			safetext.List(p.Labels.Channels),
			len(channels),
		)
	}
	for n, v := range channels {
		if err := v.Check(); err != nil {
			return fmt.Errorf("channel %d: %w", n, err)
		}
		if exact, err := channels[0].Match(v.Grid); err != nil || !exact || v.Shape != channels[0].Shape {
			return fmt.Errorf(
				"channel %d, %s, does not lie on the voxels of channel 0: %s and %s",
				n,
				p.Labels.Channels[n],
				numbers.Extents(v.Shape[:]),
				numbers.Extents(channels[0].Shape[:]),
			)
		}
	}
	return nil
}

// MirroredAxes names the axes of the plans, 0 to 2, along which windows are mirrored.
func (p *Predictor) MirroredAxes() string {
	var names string
	for _, a := range p.mirror[len(p.mirror)-1] {
		names += fmt.Sprint(a)
	}
	return names
}

// Notes are what a person should know of the model.
func (p *Predictor) Notes() []string {
	var found []string
	for _, s := range p.Structures {
		if s.Label > 0 {
			found = append(found, s.Name)
		}
	}
	what := "classes"
	if p.Regions {
		what = "regions"
	}
	folds := "fold "
	if len(p.Folds) > 1 {
		folds = "folds "
	}
	mirrored := "without mirror images, which it was not trained for or are switched off"
	if axes := p.MirroredAxes(); axes != "" {
		mirrored = fmt.Sprintf("the mean over %d mirror images (--mirror none: windows as they are)", len(p.mirror))
	}
	spacing := p.Spacing
	for a, s := range spacing {
		spacing[a], _ = strconv.ParseFloat(fmt.Sprintf("%.4g", s), 64)
	}
	notes := []string{
		fmt.Sprintf("nnU-Net's %s of %s, %s: a %s with %s for %s; everything else is background",
			p.Configuration, p.Dataset, p.Trainer, p.Network.Describe(), what, safetext.List(found)),
		fmt.Sprintf("predicted as nnU-Net does: %s, windows of %s at %s, %s",
			folds+safetext.List(p.Folds), numbers.Extents(p.Patch[:]), volume.SpacingText(spacing), mirrored),
	}
	for n, path := range p.checkpoints {
		if name := filepath.Base(path); name != checkpointNames[0] {
			notes = append(notes, fmt.Sprintf("fold %s: %s is taken, not %s", p.Folds[n], name, checkpointNames[0]))
		}
	}
	return notes
}

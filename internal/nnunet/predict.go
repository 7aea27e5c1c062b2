package nnunet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// Predictor makes label maps with a model's folds together.
type Predictor struct {
	*Model
	Progress func(done, total int) // told of the windows of a scan, of all folds; may be nil
	// Note is told how a scan is taken apart where the memory is too little for all of its sums;
	// may be nil.
	Note func(text string)

	network *network
	params  *nn.Params
	members []map[string][]float32 // weights of each fold; one fold's are in place
	mirror  [][]int
	step    float64 // between windows, as a share of one
	memory  int64   // limit in bytes; 0: none
	summed  bool    // probabilities of other models are there before it begins
	bytes   int64   // that the network takes
	values  int64   // that it gives of a window
	dev     device.Device
	options Options
	after   *Postprocessing // nil: none
}

// Options say how a model predicts.
type Options struct {
	NoMirroring bool  // windows alone, without their mirror images
	Memory      int64 // limit in bytes for the network and a scan; 0: none
	// Postprocess keeps what nnU-Net's cross-validation has decided to keep; false: everything, as
	// nnUNetv2_predict does.
	Postprocess bool
	// Step is how far windows lie apart at most, as a share of one; 0: half of one, nnU-Net's own.
	Step float64

	// Probabilities and Agreement: what [Predictor.PredictMaps] tells beside label maps.
	Probabilities, Agreement bool

	// of the last layer's result that is made at once; 0: all, but where that takes much memory
	partBytes int
	ensemble  bool // of which the model is one: probabilities are asked for, of regions, too
}

// NewPredictor makes the network of a model and loads its weights.
func NewPredictor(dev device.Device, m *Model, o Options) (*Predictor, error) {
	if m.unfinished != nil {
		return nil, m.unfinished
	}
	p := &Predictor{Model: m, mirror: mirrorSets(m.Mirror), memory: o.Memory, step: cmp.Or(o.Step, 0.5),
		dev: dev, options: o}
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
	if o.Agreement {
		if err := p.canAgree(); err != nil {
			return nil, &AskedError{fmt.Sprintf("%s: %v", m.Folder, err), "--agreement"}
		}
	}
	if o.Probabilities && m.Regions && !o.ensemble {
		return nil, &AskedError{m.Folder + ": its regions may overlap, so that their probabilities are none of labels",
			"--probabilities"}
	}
	if err := p.postprocessed(); err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	return p, nil
}

// postprocessed reads what is done to label maps where that is asked for.
func (p *Predictor) postprocessed() (err error) {
	if !p.options.Postprocess {
		return nil
	}
	if p.after, err = p.Postprocessing(); err == nil && p.after == nil {
		err = fmt.Errorf("%s has no %s*/%s: nnUNetv2_find_best_configuration determines it", p.Folder, validatedPrefix,
			postprocessingName)
	}
	return err
}

// Computer is the [device.Computer] of the label maps.
func (p *Predictor) Computer() string { return device.Computer(p.dev.Describe()) }

// Kept is the postprocessing of label maps; nil: none.
func (p *Predictor) Kept() *Postprocessing { return p.after }

// open makes the network and loads the weights.
func (p *Predictor) open() error {
	p.params = nn.NewParams(p.dev, 0)
	var err error
	p.network, err = newNetwork(p.dev, p.params, p.Model, p.options.Memory, p.options.partBytes)
	if err == nil {
		err = p.load()
	}
	if err != nil {
		p.rest()
		return err
	}
	p.bytes, p.values = p.network.bytes()+p.params.Bytes(), int64(p.network.channels*p.Patch[0]*p.Patch[1]*p.Patch[2])
	if len(p.members) > 1 {
		p.bytes += int64(len(p.members)) * p.params.Bytes()
	}
	return nil
}

// rest gives the memory of the network back until it is opened again.
func (p *Predictor) rest() {
	if p.network != nil {
		p.network.close()
	}
	if p.params != nil {
		p.params.Close()
	}
	p.network, p.params, p.members = nil, nil, nil
}

// Close gives the memory back.
func (p *Predictor) Close() { p.rest() }

// Bytes is the memory of the network and its parameters, those of several folds among them.
func (p *Predictor) Bytes() int64 { return p.bytes }

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
			want := []int(p.params.Shape(name))
			if p.Flat && len(want) == 5 {
				// kernels are 1 along the axis of slices
				want = slices.Delete(slices.Clone(want), 2, 3)
			}
			if !slices.Equal(t.Shape, want) {
				return fmt.Errorf("%s: %s has the shape %s, where the plans ask for %s", path, name,
					numbers.Extents(t.Shape), numbers.Extents(want))
			}
			if member[name], err = file.Read(t); err != nil {
				return err
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%s, of trainer %s, has not all weights that the plans ask for: %s are missing", path,
				safetext.Text(p.Trainer), safetext.List(missing))
		}
		if more := p.more(found); len(more) > 0 {
			return hint.Addf(&volume.UnsupportedError{Path: path, Problem: fmt.Sprintf("trainer %s made another "+
				"network than plans.json says: it has the weights %s, too", safetext.Text(p.Trainer),
				safetext.List(more))}, "predict with nnU-Net, where that trainer is installed")
		}
		p.members = append(p.members, member)
	}
	if len(p.members) == 1 { // and stay there
		defer func() { p.members[0] = nil }()
	}
	return p.use(0)
}

// more are the weights that a checkpoint has and the network has not, but for the heads of coarser
// stages, which training alone looks at.
func (p *Predictor) more(found map[string]*pytorch.Tensor) (names []string) {
	for name := range found {
		if !IsHead(name) && !slices.Contains(p.params.Names(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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

// AskedError says that a model cannot tell what the options ask for.
type AskedError struct{ Problem, Flag string }

// Error implements error.
func (e *AskedError) Error() string { return e.Problem }

// Maps are what is told beside a label map where that is asked for.
type Maps struct {
	// Probabilities of each class, (class, K, J, I), i fastest, the background's first: the softmax
	// of the logits that decide. Outside of the box of what is not 0 the background has 1.
	Probabilities []float32
	// Agreement is the DSC of each label between the label maps that each fold makes alone, on the
	// network's grid, averaged over their pairs; of one fold, between those with and without mirror
	// images. Labels that none has are left out.
	Agreement map[uint16]float64
}

// Predict makes the label map of a scan, whose channels are given in the model's order, on the
// scan's own grid. The voxels of the channels are let go of, so that they take no memory beside the
// windows: the volumes are empty afterwards.
func (p *Predictor) Predict(ctx context.Context, channels []*volume.Volume) (*volume.LabelMap, error) {
	l, _, err := p.PredictMaps(ctx, channels)
	return l, err
}

// PredictMaps is [Predictor.Predict] that tells what the options ask for, too.
func (p *Predictor) PredictMaps(ctx context.Context, channels []*volume.Volume) (*volume.LabelMap, *Maps, error) {
	return p.predict(ctx, channels, nil)
}

// predict is [Predictor.PredictMaps] whose probabilities are added to those of other models; nil:
// there are none.
func (p *Predictor) predict(ctx context.Context, channels []*volume.Volume, sums []float32) (*volume.LabelMap, *Maps,
	error) {
	if err := p.check(channels); err != nil {
		return nil, nil, err
	}
	grid := channels[0].Grid
	t, err := p.turn(grid, channels[0].Pixdim)
	if err != nil {
		return nil, nil, err
	}
	voxelBytes := 2
	if channels[0].Float32 != nil {
		voxelBytes = 4
	}
	// no network is there after a failure
	crowded := p.network == nil || p.crowded(p.Seen(grid, channels[0].Pixdim), voxelBytes)
	if crowded {
		p.rest()
	}
	scan, err := p.prepare(channels, t)
	if crowded {
		err = cmp.Or(err, p.open())
	}
	if err != nil {
		return nil, nil, err
	}
	labels := newArray[uint16]([3]int{grid.Shape[2], grid.Shape[1], grid.Shape[0]})
	said := &Maps{Probabilities: sums}
	if err := p.infer(ctx, grid, t, scan, labels, said); err != nil {
		return nil, nil, err
	}
	if p.after != nil {
		p.after.Apply(labels.values, grid.Shape)
	}
	return &volume.LabelMap{Grid: grid, Labels: labels.values, Names: p.Names()}, said, nil
}

// infer slides windows over a prepared scan and decides on labels, and says what the options ask
// for.
func (p *Predictor) infer(ctx context.Context, grid volume.Grid, t turn, scan *prepared, labels array[uint16],
	said *Maps) error {
	part := turned(t, labels.view()).transposed(p.Forward).part(scan.box)
	shape := scan.channels[0].shape
	orders, _ := p.probabilities.orders(p.target(scan.spacing), scan.spacing)
	e := extent{logits: shape, rows: rowTaps(shape, part.shape, orders), held: p.told(int64(len(labels.values)))}
	for _, x := range scan.channels {
		e.held += 4 * int64(len(x.values))
	}
	e.held += 2 * int64(len(labels.values))
	count := len(bandsOf(e.rows, p.count(e, p.room())))
	if err := p.fits(grid, p.Bytes()+p.inferring(e, count)); err != nil {
		return err
	}
	if count > 1 && p.Note != nil {
		p.Note(p.apart(e, count))
	}
	f := &inference{
		Plan:     p.Plan,
		channels: scan.channels,
		mirror:   p.mirror,
		step:     p.step,
		members:  len(p.members),
		use:      p.use,
		network:  p.network,
		progress: p.progress(p.windows(e, count)),
	}
	if p.options.Agreement {
		f.votes = newVotes(p.Labels, max(len(p.members), 2))
	}
	bands := bandsOf(e.rows, count)
	work := f.newWorkspace(rowsOf(bands))
	d := p.decide(p.Labels, shape, part, orders, rowsOf(bands))
	d.chances = p.chances(said, t, labels.shape, scan.box)
	for _, b := range bands {
		d.begin(b)
		err := f.over(ctx, work, b.logits, d.plane)
		if errors.Is(err, errNotNumbers) || errors.Is(err, errInfinite) {
			err = fmt.Errorf("%s: %w", p.Folder, err)
		}
		if err != nil {
			return err
		}
	}
	if f.votes != nil {
		said.Agreement = f.votes.agreement()
	}
	return nil
}

// chances are where in the part of a scan of a shape the probabilities of each head are added; nil
// where they are not wanted. Outside of that box they are added here: there is background alone,
// and no region.
func (p *Predictor) chances(said *Maps, t turn, shape [3]int, b box) (all []view[float32]) {
	if !p.options.Probabilities {
		return nil
	}
	n := shape[0] * shape[1] * shape[2]
	if said.Probabilities == nil {
		said.Probabilities = make([]float32, p.Heads()*n)
	}
	for head := range p.Heads() {
		one := array[float32]{shape, said.Probabilities[head*n:][:n]}
		whole := turned(t, one.view()).transposed(p.Forward)
		all = append(all, whole.part(b))
		if head > 0 || p.Regions {
			continue
		}
		parallel(whole.shape[0], func(i int) {
			for j := range whole.shape[1] {
				for k := range whole.shape[2] {
					if !b.has(i, j, k) {
						one.values[whole.index(i, j, k)]++
					}
				}
			}
		})
	}
	return all
}

// progress counts the windows of all folds.
func (p *Predictor) progress(windows int) func() {
	done := 0
	return func() {
		if done++; p.Progress != nil {
			p.Progress(done, windows)
		}
	}
}

// check says whether the channels are those that the model wants, and lie on one grid.
func (p *Predictor) check(channels []*volume.Volume) error {
	if len(channels) != len(p.Plan.Channels) {
		return fmt.Errorf("the model wants %s (%s), there are %d", numbers.Count(len(p.Plan.Channels), "channel"),
			safetext.List(p.Labels.Channels), len(channels))
	}
	for n, v := range channels {
		if err := v.Check(); err != nil {
			return fmt.Errorf("channel %d: %w", n, err)
		}
		if exact, err := channels[0].Match(v.Grid); err != nil || !exact || v.Shape != channels[0].Shape {
			return fmt.Errorf("channel %d, %s, does not lie on the voxels of channel 0: %s and %s", n,
				p.Labels.Channels[n], numbers.Extents(v.Shape[:]), numbers.Extents(channels[0].Shape[:]))
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
	windows := fmt.Sprintf("windows of %s at %s", numbers.Extents(p.Patch[:]), spacingText(p.Spacing[:]))
	if p.Flat {
		windows = fmt.Sprintf("slice by slice, windows of %s at %s", numbers.Extents(p.Patch[1:]),
			spacingText(p.Spacing[1:]))
	}
	notes := []string{
		fmt.Sprintf("nnU-Net's %s of %s, %s: a %s with %s for %s; everything else is background",
			p.Configuration, p.Dataset, p.Trainer, p.Network.Describe(), what, safetext.List(found)),
		fmt.Sprintf("predicted as nnU-Net does: %s, %s, %s", folds+safetext.List(p.Folds), windows, mirrored),
	}
	if !shippedTrainer.MatchString(p.Trainer) {
		notes = append(notes, fmt.Sprintf("WARNING: trainer %s is none of nnU-Net's own: where it makes another "+
			"network than plans.json says, such as of another activation, these label maps are wrong. Compare a few "+
			"with nnUNetv2_predict's", safetext.Text(p.Trainer)))
	}
	notes = append(notes, p.componentNotes()...)
	for n, path := range p.checkpoints {
		if name := filepath.Base(path); name != checkpointNames[0] {
			notes = append(notes, fmt.Sprintf("fold %s: %s is taken, not %s", p.Folds[n], name, checkpointNames[0]))
		}
	}
	return notes
}

// componentNotes say what becomes of components of labels.
func (p *Predictor) componentNotes() (notes []string) {
	after := p.after
	if after == nil {
		found, err := p.Postprocessing()
		if err == nil && found != nil && len(found.Steps) > 0 {
			notes = append(notes, fmt.Sprintf("the postprocessing of %s is left out, as nnUNetv2_predict leaves it "+
				"out (--components validated: not)",
				found.Path))
		}
		return notes
	}
	if len(after.Steps) == 0 {
		return []string{fmt.Sprintf("by %s everything is kept", after.Path)}
	}
	names := p.Names()
	for _, step := range after.Steps {
		var of []string
		for _, label := range step {
			of = append(of, cmp.Or(names[label], fmt.Sprintf("label %d", label)))
		}
		together := ""
		if len(of) > 1 {
			together = ", taken together"
		}
		notes = append(notes, fmt.Sprintf("by %s only the largest connected component of %s%s is kept", after.Path,
			safetext.List(of), together))
	}
	return notes
}

// spacingText is a spacing for a person: no more digits than matter.
func spacingText(spacing []float64) string {
	var parts []string
	for _, s := range spacing {
		parts = append(parts, fmt.Sprintf("%.4g", s))
	}
	return strings.Join(parts, "x") + " mm"
}

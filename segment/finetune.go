package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// labelled is prepared cases by their role.
type labelled struct {
	Store           *prepared.Store
	Train, Validate []string
	Unlabelled      []string
	soft            map[string]*soft // label maps of teachers, of these
	doubted         []string         // scans that are left out, for something is ignored in them
}

// A CaseObserver is a [voxsaw.Observer] that is given, too, what a validation makes of each
// held-out case that this process predicts.
type CaseObserver interface {
	voxsaw.Observer
	// CaseValidated gives the mean Dice coefficient of a case (NaN where there is nothing to
	// compare), what was predicted, with all components, and the reference, as [Config.Reference]
	// gives it.
	CaseValidated(id string, dsc float64, prediction, reference *volume.LabelMap)
}

// Finetune trains a network to segment, on prepared cases: the store of the data is one of package
// prepared. What its configuration leaves out follows from the data
// ([Config.Resolve]).
// init is a checkpoint, or a safetensors file of another program, whose weights are loaded first,
// as far as they fit and [Config].Load says, the head only where its classes are the run's: a
// [voxsaw.PartialError] where that is less than nine tenths of the encoder, unless the
// configuration allows it. It is empty for random weights. What became of them is returned, and
// told to the observer; it is empty where
// a run is resumed. The score of a validation is the mean Dice coefficient over the classes, of the
// held-out cases.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.ModeResume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Finetune(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data, init string,
	o voxsaw.RunOptions) (voxsaw.Summary, voxsaw.Loaded, error) {
	return finetune(ctx, dev, c, data, init, o, train.GroupOf(o))
}

// finetune is [Finetune] as one of several ranks.
func finetune(ctx context.Context, dev voxsaw.Device, c Config, of sample.Data, init string, o voxsaw.RunOptions,
	group train.Group) (summary voxsaw.Summary, loaded voxsaw.Loaded, err error) {
	if c, err = c.Resolve(of.Store); err != nil {
		return summary, loaded, err
	}
	// Resolve takes no other store
	data := labelled{Store: of.Store.(*prepared.Store), Train: of.Train, Validate: of.Validate,
		Unlabelled: of.Unlabelled}
	if err := c.checkUnlabelled(data); err != nil {
		return summary, loaded, err
	}
	var taught *checkpoint.Learnt
	data.soft, c.Predicted, taught, err = c.openTargets(data)
	if o.Need == nil {
		err = group.Agree(err)
	}
	if err != nil {
		return summary, loaded, err
	}
	if data.soft != nil {
		known := func(id string) bool { return data.soft[id] != nil }
		data.doubted = slices.DeleteFunc(slices.Clone(data.Unlabelled), known)
		data.Unlabelled = slices.Sorted(maps.Keys(data.soft))
	}
	settings, err := config.Marshal(&c)
	if err != nil {
		return summary, loaded, err
	}
	learnt, err := learntWith(data, init, o, group.Rank)
	if o.Need == nil {
		err = group.Agree(err)
	}
	if err != nil {
		return summary, loaded, err
	}
	if taught != nil { // what the teachers know, the student is told
		learnt = learnt.After(checkpoint.Description{Learnt: *taught})
	}
	l := learner{}
	if l.observer, _ = o.Observer.(CaseObserver); o.Observer != nil {
		l.note = o.Observer.Note
	}
	group = group.Accumulating(c.Train.Accumulate)
	job := train.Job[*batch]{
		Identity: train.Identity{
			Kind: checkpoint.Segmentation, Settings: settings, TrainedOn: data.Train, ValidatedOn: data.Validate,
			Unlabelled: data.Unlabelled, Init: init, Fingerprint: data.Store.Fingerprint(), Learnt: learnt,
		},
		Options: c.Train, Groups: c.groups(), ByShare: c.byShare(), Idle: c.Idle(),
		Open: func() (notes []string, err error) {
			err = l.open(c, data, group)
			return append(c.notes(init == "" && !o.Idle), l.notes...), err
		},
		Declare: l.declare,
		Compile: func(w train.Workbench) (train.Learner[*batch], error) { return &l, l.compile(w) },
	}
	if init != "" {
		job.Start = func(params *nn.Params) (string, error) {
			loaded, err = initialise(init, c, params)
			return "starting from " + loaded.String(), err
		}
	}
	summary, err = job.Run(ctx, dev, o, group)
	return summary, loaded, err
}

// EstimateMemory is the memory that [Finetune] would need, and trains nothing.
func EstimateMemory(ctx context.Context, dev voxsaw.Device, c Config, data sample.Data,
	o voxsaw.RunOptions) (need voxsaw.MemoryNeed,
	err error) {
	o.Need = &need
	_, _, err = Finetune(ctx, dev, c, data, "", o)
	return need, err
}

// learntWith is what a run learns from, and what the weights that it starts from have learnt from.
// A run that is resumed says it itself: the file that it started from may be gone by now, or hold
// other weights. Rank 0 alone has a folder to write it into, and needs to know it.
func learntWith(data labelled, init string, o voxsaw.RunOptions, rank int) (checkpoint.Learnt, error) {
	own := checkpoint.Learnt{Spacings: data.Store.Spacings(data.Train), Series: data.Store.Series(),
		Scans: checkpoint.ScansOf(data.Train, data.Store.Voxels(data.Train), true)}
	if len(data.Unlabelled) > 0 {
		own.Scans = append(own.Scans, checkpoint.ScansOf(data.Unlabelled, data.Store.Voxels(data.Unlabelled), false)...)
	}
	if init == "" || rank > 0 {
		return own, nil
	}
	resumed := o.Mode == voxsaw.ModeResume && o.Folder != ""
	if resumed {
		last, err := checkpoint.Read(train.Last(o.Folder))
		switch {
		case err == nil && (last.Learnt.Scans != nil || last.Lost != ""):
			return own.After(last), nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return own, fmt.Errorf("resuming: %w", err)
		}
		// no step was saved
	}
	d, err := checkpoint.Read(init)
	switch {
	case resumed && errors.Is(err, fs.ErrNotExist):
		return own, nil // whoever loads the first weights says what is wrong
	case errors.Is(err, checkpoint.ErrForeign):
		return own, nil
	case err != nil:
		return own, fmt.Errorf("initial weights: %w", err)
	}
	return own.After(d), nil
}

// initialise loads the weights that a run starts from.
func initialise(path string, c Config, params *nn.Params) (voxsaw.Loaded, error) {
	network, err := backbone.Of(c.Network)
	if err != nil {
		return voxsaw.Loaded{}, err
	}
	head, left, err := c.leftHead(path, network, params)
	if err == nil {
		err = c.sameChannels(path)
	}
	if err != nil {
		return voxsaw.Loaded{}, fmt.Errorf("initial weights: %w", err)
	}
	leave := func(name string) checkpoint.Left {
		switch {
		case c.Load == LoadEncoder && !isEncoder(name):
			return checkpoint.Left{Why: "not of the encoder, which alone was asked for (load: encoder)"}
		case slices.Contains(head, name):
			return left
		}
		return checkpoint.Left{}
	}
	loaded, err := checkpoint.LoadPart(path, params, func(name string) string { return backbone.Rename(network, name) },
		leave)
	if err != nil {
		return loaded, fmt.Errorf("initial weights: %w", err)
	}
	if !slices.ContainsFunc(loaded.Loaded, isEncoder) {
		return loaded,
			fmt.Errorf("initial weights: none of the encoder's fit this network: is it of another kind, "+
				"preset, or number of channels or levels?\n  %v", loaded)
	}
	if c.InitPartial {
		return loaded, nil
	}
	encoder := slices.DeleteFunc(params.Names(),
		func(name string) bool { return !isEncoder(name) || !params.Trained(name) })
	if err := checkpoint.CheckWhole(loaded, encoder); err != nil {
		return loaded, fmt.Errorf("initial weights: %w", err)
	}
	return loaded, nil
}

// CheckInit says what [Finetune] would say of the weights to start from: that they cannot be used,
// or fit too small a part of the network. Nothing is trained.
func CheckInit(dev voxsaw.Device, c Config, init string) error {
	d, err := device.From(dev)
	if err != nil {
		return err
	}
	l := learner{sampler: sampler{config: c}, pass: 1}
	if l.network, err = backbone.Of(c.Network); err != nil {
		return err
	}
	params := nn.NewParams(d, 0)
	defer params.Close()
	if err := l.declare(params); err != nil {
		return err
	}
	_, err = initialise(init, c, params)
	return err
}

// sameChannels refuses a checkpoint whose network takes scans of another number of channels, whose
// first convolution fits nothing, unless a part of the weights is enough.
func (c Config) sameChannels(path string) error {
	d, err := checkpoint.Read(path)
	names := func(asked []string) string {
		if len(asked) == 0 {
			return ""
		}
		return " (" + safetext.Text(strings.Join(asked, ", ")) + ")"
	}
	here := names(c.Preparation.ChannelsAsked())
	others := func(n int, there []string) error {
		return fmt.Errorf("%s was trained on scans of %s%s, and these have %d%s: prepare the same channels, or begin "+
			"the first convolution afresh with --init-partial",
			path, numbers.Count(n, "channel"), names(there), c.Network.InputChannels(), here)
	}
	if c.InitPartial {
		return nil
	}
	if errors.Is(err, checkpoint.ErrForeign) {
		if !checkpoint.IsPyTorch(path) {
			return nil
		}
		m, err := nnunet.Open(path, nil)
		if err != nil || len(m.Labels.Channels) == c.Network.InputChannels() {
			return nil // a file of weights alone does not name its channels
		}
		return others(len(m.Labels.Channels), m.Labels.Channels)
	}
	if err != nil || d.Settings == "" { // without settings the shapes tell
		return err
	}
	of, err := d.Network()
	if err != nil || of.InputChannels() == c.Network.InputChannels() {
		return err
	}
	how, err := d.Preparation()
	if err != nil {
		return err
	}
	if max(how.Inputs(), 1) != of.InputChannels() {
		return fmt.Errorf("%s has learnt one time of its 4D scans at once (a grid of four numbers): "+
			"it goes on with scans of one channel, and these have %d%s",
			path, c.Network.InputChannels(), here)
	}
	return others(of.InputChannels(), how.ChannelsAsked())
}

// leftHead are the parameters that a run does not take over, because they say what other outputs
// mean than its own, and why: those of a pretext task, or of a segmentation into other classes.
// Those of another program's file may go on to mean what they mean; of nnU-Net's, the rows of
// classes that the run has, too.
func (c Config) leftHead(path string, network backbone.Backbone, params *nn.Params) (names []string,
	left checkpoint.Left, err error) {
	d, err := checkpoint.Read(path)
	switch {
	case errors.Is(err, checkpoint.ErrForeign) && checkpoint.IsPyTorch(path):
		left, err = c.rowsOfNNUNet(path), nil
	case errors.Is(err, checkpoint.ErrForeign):
		return nil, left, nil
	case err != nil:
		return nil, left, err
	case d.Kind == checkpoint.Segmentation:
		left.Why, err = c.otherClasses(d)
	default:
		left.Why = "the last layer of another task"
	}
	if err != nil || left.Why == "" && left.Rows == nil {
		return nil, left, err
	}
	names, err = outputsOf(network, params)
	return names, left, err
}

// outputsOf are the parameters that say what a network's outputs mean, at every resolution: those
// whose shape follows from the number of classes.
func outputsOf(network backbone.Backbone, params *nn.Params) (names []string, err error) {
	settings := network.Settings()
	settings.Classes++
	more, err := backbone.Of(settings)
	if err != nil {
		return nil, err
	}
	g, size := nn.NewGraph(nn.Train, params.Device().Activations()), more.Multiple()
	if stages := more.Encoder(g, backbone.Input(g, "image", more, 1,
		[3]int{2 * size[0], 2 * size[1], 2 * size[2]})); g.Err() == nil {
		more.Decoder(g, stages)
	}
	other := nn.NewParams(params.Device(), 0)
	defer other.Close()
	if err := other.Declare(g); err != nil {
		return nil, err
	}
	for _, name := range params.Names() {
		if !params.Shape(name).Equal(other.Shape(name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

func isEncoder(parameter string) bool { return strings.HasPrefix(parameter, backbone.EncoderPrefix) }

// byShare says what else than the learning rate goes by the share of the steps that are done.
func (c Config) byShare() string {
	switch {
	case c.Unlabelled && c.UnlabelledRamp == 0:
		return "scans without labels count in full after a third of the steps (unlabelled_ramp)"
	case c.Targets != "" && c.LabelledLast == 0:
		return "the last tenth of the steps is of scans with labels alone (labelled_last)"
	case c.Targets != "":
		return fmt.Sprintf("the last %s of scans with labels alone (labelled_last)",
			numbers.Count(c.LabelledLast, "step is", "steps are"))
	}
	return ""
}

// groups are the learning rates that differ from the schedule's.
func (c Config) groups() []train.ParamGroup {
	frozen := c.FreezeEncoder
	if c.Train.Schedule == "sawtooth" {
		frozen = max(frozen, c.Train.Tooth)
	}
	if c.EncoderLR == 1 && frozen == 0 {
		return nil
	}
	return []train.ParamGroup{{Fits: isEncoder, Factor: func(step int) float64 {
		if step < frozen {
			return 0
		}
		return c.EncoderLR
	}}}
}

package segment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Data is prepared cases by their role.
type Data struct {
	Store    *prepared.Store
	Train    []string // case IDs
	Validate []string // held-out case IDs; may be empty
}

// Finetune trains a network to segment. The configuration is a resolved one ([Config.Resolve]).
// init is a checkpoint, or a safetensors file of another program, whose weights are loaded first,
// as far as they fit; empty for random weights. What became of them is returned, and told to the
// observer; it is empty where a run is resumed. The score of a validation is the mean Dice
// coefficient over the classes, of the held-out cases.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]; the same call with [voxsaw.Resume] goes on from there. A loss or
// gradient that is not finite gives a [voxsaw.DivergedError], other settings than the run was begun
// with a [voxsaw.ChangedError].
func Finetune(ctx context.Context, dev voxsaw.Device, c Config, data Data, init string, o voxsaw.RunOptions) (voxsaw.Summary, voxsaw.Loaded, error) {
	return finetune(ctx, dev, c, data, init, o, train.GroupOf(o))
}

// finetune is [Finetune] as one of several ranks.
func finetune(ctx context.Context, dev voxsaw.Device, c Config, data Data, init string, o voxsaw.RunOptions, group train.Group) (summary voxsaw.Summary, loaded voxsaw.Loaded, err error) {
	if err := c.Check(); err != nil {
		return summary, loaded, err
	}
	settings, err := config.Marshal(&c)
	if err != nil {
		return summary, loaded, err
	}
	l := learner{}
	job := train.Job[*batch]{
		Identity: train.Identity{
			Kind: checkpoint.Segmentation, Settings: settings, TrainedOn: data.Train, ValidatedOn: data.Validate, Init: init, Fingerprint: data.Store.Fingerprint(),
		},
		Options: c.Train, Groups: c.groups(),
		Open: func() (notes []string, err error) {
			err = l.open(c, data, group)
			return l.notes, err
		},
		Declare: l.declare,
		Compile: func(w train.Workbench) (train.Learner[*batch], error) { return &l, l.compile(w) },
	}
	if init != "" {
		job.Start = func(params *nn.Params) (string, error) {
			loaded, err = initialise(init, c.Network, params)
			return loaded.String(), err
		}
	}
	summary, err = job.Run(ctx, dev, o, group)
	return summary, loaded, err
}

// initialise loads the weights that a run starts from.
func initialise(path string, settings voxsaw.Network, params *nn.Params) (voxsaw.Loaded, error) {
	network, err := backbone.Of(settings)
	if err != nil {
		return voxsaw.Loaded{}, err
	}
	loaded, err := checkpoint.LoadRenamed(path, params, func(name string) string { return backbone.Rename(network, name) })
	if err != nil {
		return loaded, fmt.Errorf("initial weights: %w", err)
	}
	if !slices.ContainsFunc(loaded.Loaded, isEncoder) {
		return loaded, fmt.Errorf("initial weights: none of the encoder's fit this network: is it of another kind, preset, or number of channels or levels?\n%v", loaded)
	}
	return loaded, nil
}

func isEncoder(parameter string) bool { return strings.HasPrefix(parameter, backbone.EncoderPrefix) }

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

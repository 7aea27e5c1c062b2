package photostudy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/sample"
)

// This file: what the networks of the arms are fine-tuned for.

// A Finetune is a task of Pascal VOC that the whole network of each arm is fine-tuned for.
type Finetune struct {
	Name      string         `yaml:"name" help:"as it is called in the tables; its folder's name, too"`
	Data      string         `yaml:"data" help:"folder of prepared photographs of Pascal VOC"`
	Proposals string         `yaml:"proposals,omitempty" help:"task detect: file of proposals, as voxsaw 2d propose makes it"`
	TrainOn   string         `yaml:"train_on,omitempty" help:"sides that are trained on: trainval, or train; left out: trainval" oneof:"trainval train"`
	Settings  config.Section `yaml:"settings" help:"task, classify or detect, and settings of voxsaw 2d finetune"`
}

// A Finetuned is how well an arm does a task that it was fine-tuned for.
type Finetuned struct {
	Task string `json:"task"` // the Finetune's name
	puzzle2d.Precision
}

// Finetunings is the choice among the tasks that a network can be fine-tuned for.
func Finetunings() config.OneOf {
	classify, detect := puzzle2d.DefaultMultilabel(), puzzle2d.DefaultDetection()
	return config.NewOneOf("task",
		"what is learnt: classify (which classes are on a photograph) or detect (where "+
			"they are; Fast R-CNN on proposals of a file)",
		config.Option{Name: puzzle2d.Classify, Value: &classify}, config.Option{Name: puzzle2d.Detect, Value: &detect})
}

// task is the task with its settings.
func (f Finetune) task() (config.OneOf, error) {
	holder := experiment.Pretrain{OneOf: Finetunings()}
	err := f.Settings.Apply("finetune "+f.Name+": settings", &holder)
	if d, ok := holder.Value().(*puzzle2d.Detection); ok && err == nil {
		d.Proposals = f.Proposals
	} else if err == nil && f.Proposals != "" {
		err = fmt.Errorf("finetune %s: proposals are for task detect", f.Name)
	}
	return holder.OneOf, err
}

func (f Finetune) on() string {
	if f.TrainOn == "" {
		return puzzle2d.OnTrainval
	}
	return f.TrainOn
}

// checkFinetune says what is wrong with the plan's tasks of fine-tuning.
func (p Plan) checkFinetune() error {
	seen := experiment.Names{}
	for _, f := range p.Finetune {
		if err := seen.Add("finetune", "tasks of finetune", f.Name); err != nil {
			return err
		}
		if f.Data == "" {
			return fmt.Errorf("finetune %s: data: name the folder of prepared photographs", f.Name)
		}
		if _, err := f.task(); err != nil {
			return err
		}
	}
	return nil
}

// finetuning is one of these tasks as an evaluation.
type finetuning struct {
	*runner
	Finetune
	data sample.Data
}

func (e *finetuning) What() string { return "finetune " + e.Name }

func (e *finetuning) settings() (kind string, all map[string]string, err error) {
	chosen, err := e.task()
	if err != nil {
		return "", nil, err
	}
	digest := ""
	if d, ok := chosen.Value().(*puzzle2d.Detection); ok {
		if d.Proposals = ""; e.Proposals != "" {
			if digest, err = atomicfile.SHA256(e.Proposals); err != nil {
				return "", nil, err
			}
		}
	}
	if all, err = leaves("", &experiment.Pretrain{OneOf: chosen}); err != nil {
		return "", nil, err
	}
	all["data"], all["train_on"], all["name"] = e.data.Store.Fingerprint(), e.on(), e.Name
	if digest != "" {
		all[digestKey] = digest
	}
	return "finetune", all, nil
}

func (e *finetuning) Done(n network) bool {
	return slices.ContainsFunc(n.result.Finetuned, func(f Finetuned) bool { return f.Task == e.Name })
}

// digestKey is the setting that tells proposals from others, wherever the file lies.
const digestKey = "proposals_digest"

// evaluate fine-tunes the network of an arm and scores it, from where an earlier run has stopped.
func (e *finetuning) Evaluate(ctx context.Context, n network) error {
	chosen, err := e.task()
	if err != nil {
		return err
	}
	task := chosen.Value().(puzzle2d.Finetuning)
	settings := task.Settings()
	settings.TrainOn = e.on()
	dropout := settings.Network.Dropout
	settings.Network = n.common.Network
	settings.Network.Dropout = dropout
	source, err := puzzle2d.ReadSource(n.checkpoint, settings.Network)
	if err != nil {
		return err
	}
	settings.Start(source)
	settings.Train.Seed = n.result.Seed
	if task, err = task.Resolve(e.data.Store); err != nil {
		return err
	}
	run := filepath.Join(n.folder, e.Name)
	observer := e.Console.Training(fmt.Sprintf("%s, seed %d: %s", n.result.Arm, n.result.Seed, e.Name), "photographs")
	o := e.alone().Run(run, nil, observer)
	o.MayDiffer = []string{"proposals", "checkpoint"}
	_, err = task.Run(ctx, e.Device, e.data, o)
	e.Console.Trained()
	if err != nil {
		return err
	}
	out := Finetuned{Task: e.Name}
	if out.Precision, err = task.Score(ctx, e.Device, train.Last(run), e.data, e.Memory, nil); err == nil {
		n.result.Finetuned = append(n.result.Finetuned, out)
	}
	return err
}

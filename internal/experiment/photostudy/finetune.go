package photostudy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
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
		"what is learnt: classify (which classes are on a photograph) or detect (where they are; Fast R-CNN on proposals of a file)",
		config.Option{Name: puzzle2d.Classify, Value: &classify}, config.Option{Name: puzzle2d.Detect, Value: &detect})
}

// task is the task with its settings.
func (f Finetune) task() (config.OneOf, error) {
	holder := struct {
		config.OneOf `yaml:",inline"`
	}{Finetunings()}
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
	seen := map[string]bool{}
	for _, f := range p.Finetune {
		switch {
		case f.Name == "" || strings.ContainsAny(f.Name, `/\`) || strings.HasPrefix(f.Name, "."):
			return fmt.Errorf("finetune %q: its name becomes a folder's, and must not be empty, contain a slash or begin with a dot", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("there are two tasks of finetune %q", f.Name)
		case f.Data == "":
			return fmt.Errorf("finetune %s: data: name the folder of prepared photographs", f.Name)
		}
		seen[f.Name] = true
		if _, err := f.task(); err != nil {
			return err
		}
	}
	return nil
}

// openFinetune opens the photographs of each task.
func (r *runner) openFinetune() error {
	for _, f := range r.plan.Finetune {
		store, err := experiment.Open(r.Setting, photos.Open, f.Data)
		if err != nil {
			return fmt.Errorf("finetune %s: %w", f.Name, err)
		}
		r.stores = append(r.stores, store)
		data, err := puzzle2d.SplitMarked(store, f.on())
		if err != nil {
			return fmt.Errorf("finetune %s: %w", f.Name, err)
		}
		r.marked = append(r.marked, data)
	}
	return nil
}

// finetuneSettings are what the result of a task depends on, by dotted keys.
func (r *runner) finetuneSettings(k int) (map[string]string, error) {
	f := r.plan.Finetune[k]
	chosen, err := f.task()
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("finetune.%d.", k+1)
	all := map[string]string{prefix + "data": r.marked[k].Photos.Fingerprint(), prefix + "train_on": f.on(),
		prefix + "name": f.Name}
	if d, ok := chosen.Value().(*puzzle2d.Detection); ok {
		if d.Proposals = ""; f.Proposals != "" {
			if all[prefix+"proposals_digest"], err = digestOf(f.Proposals); err != nil {
				return nil, fmt.Errorf("finetune %s: %w", f.Name, err)
			}
		}
	}
	parts, err := leaves(prefix, &Pretrain{chosen})
	for key, value := range parts {
		all[key] = value
	}
	return all, err
}

// digestOf is the SHA-256 of a file of proposals, which may hold gigabytes.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// finetune fine-tunes the network of an arm for task k and scores it, from where an earlier run has
// stopped. checkpoint is empty for random weights, which are those of the network and the seed.
func (r *runner) finetune(ctx context.Context, k int, result *Result, checkpoint string, n puzzle2d.Network,
	folder string) (Finetuned, error) {
	f := r.plan.Finetune[k]
	out := Finetuned{Task: f.Name}
	chosen, err := f.task()
	if err != nil {
		return out, err
	}
	task := chosen.Value().(puzzle2d.Finetuning)
	settings := task.Settings()
	dropout := settings.Network.Dropout
	settings.Network = n
	settings.Network.Dropout = dropout
	source, err := puzzle2d.ReadSource(checkpoint, settings.Network)
	if err != nil {
		return out, err
	}
	settings.Start(source)
	settings.Train.Seed = result.Seed
	if err := task.Resolve(r.marked[k]); err != nil {
		return out, err
	}
	run := filepath.Join(folder, f.Name)
	observer := r.Console.Training(fmt.Sprintf("%s, seed %d: %s", result.Arm, result.Seed, f.Name), "photographs")
	_, err = task.Run(ctx, r.Device, r.marked[k], voxsaw.RunOptions{Folder: run, Mode: voxsaw.ModeResume,
		Observer: observer, Memory: r.Memory, MayDiffer: []string{"proposals", "checkpoint"}})
	r.Console.Trained()
	if err != nil {
		return out, err
	}
	out.Precision, err = task.Score(ctx, r.Device, train.Last(run), r.marked[k], r.Memory, nil)
	return out, err
}

package experiment

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
)

// This file: arms whose runs have further networks. Of an ensemble ([Initialisation].Networks), a
// run is several networks of other seeds, and what it predicts is their mean: all but the last lie
// in OUT/networks/TRIAL/1 and so on, the last where that of another trial would.
//
// And arms whose runs learn from what other networks predict for scans without labels
// ([Initialisation].Teachers). A run has teachers of its own. They learn from its labelled cases
// alone, so that they know nothing that the run may not know, and start as it does, from seeds that
// follow from its own. They lie in OUT/teachers/TRIAL/1 and so on, their label maps in
// OUT/teachers/TRIAL/targets.

func (t Trial) teaching(out string) string {
	return filepath.Join(out, teachersFolder, filepath.FromSlash(t.Name()))
}

// teacher is the folder of a trial's teacher, from 0.
func (t Trial) teacher(out string, n int) string {
	return filepath.Join(t.teaching(out), fmt.Sprint(n+1))
}

// targets is the folder of what its teachers predict.
func (t Trial) targets(out string) string { return filepath.Join(t.teaching(out), "targets") }

// others are the folders of the networks of a trial beside its last.
func (t Trial) others(out string, i Initialisation) (folders []string) {
	for n := range i.networks() - 1 {
		folders = append(folders, filepath.Join(out, networksFolder, filepath.FromSlash(t.Name()), fmt.Sprint(n+1)))
	}
	return folders
}

// another trains one more network of a trial, its nth, as far as that has not been done.
func (r *runner) another(ctx context.Context, t Trial, what string, n int, folder string, c segment.Config,
	init string) error {
	c.Train.Seed = seed.Rand(t.Seed, what, uint64(n)).Uint64() >> 32
	resolved, err := r.plan.record(c, relative(r.Out, init), t)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s, %s %d", t.Name(), what, n+1)
	data := sample.Data{Store: r.store, Train: t.Train, Validate: t.Curve, Unlabelled: t.Unlabelled}
	_, _, err = segment.Finetune(ctx, r.Device, c, data, init,
		r.Setting.Run(folder, resolved, r.Console.Training(name, "crops")))
	r.Console.Trained()
	if err != nil {
		return fmt.Errorf("%s %d: %w", what, n+1, err)
	}
	return nil
}

// taught trains the teachers of a trial and has them label scans, as far as that has not been done:
// it gives the folder of these label maps, and the scans that are learnt from.
func (r *runner) taught(ctx context.Context, t Trial, c segment.Config, init string) (folder string,
	scans []string, err error) {
	i := r.plan.initialisation(t.Init)
	folder = t.targets(r.Out)
	c.LabelledLast, c.Train.ValidateEvery = 0, 0
	alone := t // with its labelled cases
	alone.Curve, alone.Unlabelled = nil, nil
	var teachers []string
	for n := range i.Teachers {
		path := t.teacher(r.Out, n)
		if err := r.another(ctx, alone, "teacher", n, path, c, init); err != nil {
			return "", nil, err
		}
		teachers = append(teachers, train.Last(path))
	}
	_, errBefore := os.Stat(folder)
	p, err := segment.NewPredictor(r.Device, teachers, segment.DefaultInference(), r.Memory)
	if err != nil {
		return "", nil, err
	}
	defer p.Close()
	asked := t.asked()
	asked.Agreement = cmp.Or(i.Agreement, 0.5)
	targets, err := p.MakeTargets(ctx, r.store, folder, asked)
	if err != nil {
		return "", nil, err
	}
	if errBefore != nil {
		ignored := 0
		for _, s := range targets.Scans {
			ignored += len(s.Ignored)
		}
		r.Console.Note(fmt.Sprintf("%s: teachers have labelled %s: %d left out, %s ignored", t.Name(),
			numbers.Count(len(targets.Scans), "scan"), len(targets.Scans)-len(targets.Kept()),
			numbers.Count(ignored, "structure")))
	}
	return folder, targets.Kept(), nil
}

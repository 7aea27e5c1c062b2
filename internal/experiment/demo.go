package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepare"
)

// Demo is the size of the demonstration.
type Demo struct {
	Labelled, Unlabelled      int     // made-up patients
	Shape                     [3]int  // of their scans, in voxels
	PretrainSteps, TrainSteps int     // of the encoder, of each network
	Fraction                  float64 // of the training cases that the networks see
}

// FullDemo takes a few minutes on two cores, QuickDemo less than one.
var (
	FullDemo = Demo{Labelled: 20, Unlabelled: 40, Shape: [3]int{72, 60, 60}, PretrainSteps: 800, TrainSteps: 500,
		Fraction: 0.2}
	QuickDemo = Demo{Labelled: 8, Unlabelled: 10, Shape: [3]int{60, 48, 48}, PretrainSteps: 100, TrainSteps: 120,
		Fraction: 0.5}
)

// WriteScans makes the patients and writes their scans as a data set of NIfTI files: imagesTr,
// labelsTr for the labelled ones. It does nothing where they are there already.
func (d Demo) WriteScans(ctx context.Context, folder string, done func()) error {
	for _, sub := range []string{"imagesTr", "labelsTr"} {
		if err := atomicfile.MakeFolder(filepath.Join(folder, sub)); err != nil {
			return err
		}
	}
	for n := range d.Labelled + d.Unlabelled {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := fmt.Sprintf("patient_%03d.nii.gz", n+1)
		image, labels := filepath.Join(folder, "imagesTr", name), filepath.Join(folder, "labelsTr", name)
		if _, err := os.Stat(image); err != nil {
			v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: d.Shape})
			if err != nil {
				return err
			}
			if n < d.Labelled {
				if err := nifti.WriteLabels(labels, l); err != nil {
					return err
				}
			}
			if err := nifti.Write(image, v); err != nil {
				return err
			}
		}
		done()
	}
	return d.describe(folder)
}

// describe writes the dataset.json that makes it a data set in the layout of the Medical
// Segmentation Decathlon.
func (d Demo) describe(folder string) error {
	labels := map[string]string{"0": "background"}
	for label, name := range phantom.Names() {
		labels[fmt.Sprint(label)] = name
	}
	data, err := json.MarshalIndent(map[string]any{"name": "made-up patients", "modality": map[string]string{"0": "CT"},
		"labels": labels}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(folder, "dataset.json"), data)
}

// Prepare prepares the scans as any data set is prepared.
func (d Demo) Prepare(ctx context.Context, scans, prepared string, done func()) error {
	set, err := dataset.Detect(scans, dataset.Options{})
	if err != nil {
		return err
	}
	_, err = prepare.Run(ctx, set, prepared, volume.DefaultPreparation(), prepare.DefaultOptions(),
		func(prepare.Result) { done() })
	return err
}

// Plan is the demo's experiment: one fold of four, from scratch and from an encoder that solved
// 3x3x3 puzzles.
func (d Demo) Plan(prepared string) (Plan, error) {
	p := DefaultPlan()
	p.Data, p.RunFolds, p.Fractions, p.Seeds = prepared, []int{1}, []float64{d.Fraction}, []uint64{1}
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	side, levels, patch := min(d.Shape[0], d.Shape[1], d.Shape[2]), 3, 16
	if side < 60 {
		levels, patch = 2, 8
	}
	settings := p.Pretrain.Settings()
	common := settings.Common()
	common.Network.Channels, common.Network.Levels = 8, levels
	*common.Crop, *common.Batch = cube(side), 2
	common.Train.Steps, common.Train.ValidateEvery = d.PretrainSteps, max(d.PretrainSteps/5, 1)
	if err := config.NewSection(fmt.Sprintf("patch: [%[1]d, %[1]d, %[1]d]\nfeatures: 256\n", patch)).Apply("demo",
		settings); err != nil {
		return p, err
	}
	p.Finetune.Network = *common.Network
	p.Finetune.Crop, p.Finetune.Train.Steps, p.Finetune.Train.ValidateEvery = cube(32), d.TrainSteps, 0
	p.Finetune.Labels = []string{fmt.Sprint(phantom.Pancreas), fmt.Sprint(phantom.LeftKidney),
		fmt.Sprint(phantom.Stomach)}
	p.Inference.Overlap = 0.25
	return p, nil
}

// PredictScan segments one test scan from its file, as voxsaw predict does, writes the label map
// beside the report, and compares it with the reference.
func (d Demo) PredictScan(ctx context.Context, r *Result, s Setting, scans string) (path string, scores []eval.Score,
	err error) {
	last := r.trials[len(r.Runs)-1]
	predictor, err := segment.NewPredictor(s.Device, []string{train.Last(last.Folder(s.Out))}, r.Plan.Inference,
		s.Memory)
	if err != nil {
		return "", nil, err
	}
	defer predictor.Close()
	id := last.Test[0]
	scan, err := nifti.Read(filepath.Join(scans, "imagesTr", id+".nii.gz"))
	if err != nil {
		return "", nil, err
	}
	labels, err := predictor.Predict(ctx, scan)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(s.Out, labelsFolder, id+".nii.gz")
	if err := atomicfile.MakeFolder(filepath.Dir(path)); err != nil {
		return "", nil, err
	}
	if err := nifti.WriteLabels(path, labels); err != nil {
		return "", nil, err
	}
	written, err := nifti.ReadLabels(path)
	if err != nil {
		return "", nil, err
	}
	reference, err := nifti.ReadLabels(filepath.Join(scans, "labelsTr", id+".nii.gz"))
	if err != nil {
		return "", nil, err
	}
	scores, err = eval.Compare(id, written, predictor.Reference(reference), r.Plan.Metrics)
	return path, scores, err
}

package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// predictAndRead gives what the network makes of a case, and its labels, on the same voxels.
func predictAndRead(ctx context.Context, p *segment.Predictor, c *prepared.Case, on string) (prediction,
	labels *volume.LabelMap, err error) {
	if on == scoreOnPrepared {
		if prediction, err = p.PredictCase(ctx, c); err == nil {
			labels, err = c.LabelMap()
		}
		return prediction, labels, err
	}
	// The labels first: a folder that has none of them says so before the work.
	if labels, err = c.OriginalLabelMap(); err == nil {
		prediction, err = p.PredictOriginal(ctx, c)
	}
	return prediction, labels, err
}

// PredictionsOf is the folder in which a trial keeps what its network made of its test cases.
func PredictionsOf(trial string) string { return filepath.Join(trial, "predictions") }

// ScoresOf is the path of the scores of a trial's test cases.
func ScoresOf(trial string) string { return filepath.Join(trial, ScoresFile) }

// predictionPath is where a trial keeps what its network made of a test case, on the voxels that it
// was scored on.
func predictionPath(folder, id string) string {
	return filepath.Join(PredictionsOf(folder), id+".nii.gz")
}

// keepPrediction writes a label map that says which weights made it, and so that nobody drew it.
func keepPrediction(folder, id string, l *volume.LabelMap, made segment.Provenance) error {
	stamp, err := json.Marshal(struct {
		Program string `json:"program"`
		segment.Provenance
	}{provenance.Crossval, made})
	if err != nil {
		return err
	}
	path := predictionPath(folder, id)
	if err := atomicfile.MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	return nifti.WriteLabelsWith(path, l, nil, []nifti.Extension{provenance.Extension(string(stamp))})
}

// sealPredictions keeps the digests of the predictions that a trial has kept.
func sealPredictions(folder string) error {
	dir := PredictionsOf(folder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if nifti.IsName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return atomicfile.Seal(dir, names...)
}

// prediction is what a trial's network made of a case, on the case's prepared voxels: as the trial
// kept it. A trial of a version that kept none predicts the case again.
func (r *Result) prediction(ctx context.Context, s Setting, t Trial, c *prepared.Case) (*volume.LabelMap, error) {
	folder := t.Folder(s.Out)
	if err := atomicfile.CompareFiles(predictionPath(folder, c.ID)); err != nil {
		return nil, err
	}
	kept, err := nifti.ReadLabels(predictionPath(folder, c.ID))
	if err == nil {
		return kept.ResampleTo(c.Grid)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// no trial of such a version has several networks
	predictor, err := segment.NewPredictor(s.Device, []string{train.Last(folder)}, r.Plan.Inference, s.Memory)
	if err != nil {
		return nil, err
	}
	defer predictor.Close()
	return predictor.PredictCase(ctx, c)
}

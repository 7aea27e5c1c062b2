// Package nnunet predicts with models that nnU-Net v2 has trained, to the same label maps.
//
// Start at [Open] and [Predictor.Predict]. What nnU-Net computes was taken from its documentation
// and from experiments, and each step is held against it: the file's axes are kept and transposed
// as the plans say (prepare.go), cubic interpolation is clipped (resample.go), logits are summed in
// float16 (windows.go) and decide in float16 (finish.go). Of these, none can be left out without
// voxels that differ.
//
// A 2D network sees a slice at a time: its plan is one of three dimensions that is flat.
//
// It leaves out cascades and networks other than PlainConvUNet and
// ResidualEncoderUNet, each of which is refused by its name.
package nnunet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
)

// The files of a model's folder.
const (
	plansName   = "plans.json"
	datasetName = "dataset.json"
)

// checkpointNames are what a fold's checkpoint may be called, the first that is there is taken.
var checkpointNames = []string{"checkpoint_final.pth", "checkpoint_best.pth"}

// shippedTrainer are the names of trainers of nnU-Net and TotalSegmentator, all of which make the
// network that the plans say.
var shippedTrainer = regexp.MustCompile(`^(nnUNet_?|PretrainedT|DynamicPretrainedT)(T?rainer)` +
	`(_?(\d+epochs?|\d+ep|BS8|NoMirroring|nomirroring|onlyMirror01|DA5|(DASeg|DA|Seg)?[oO]rd0|NoDA|noDummy2DDA|` +
	`NoDeepSupervision|(CE|Dice|DiceCE|Topk10|DiceTopK10)Loss(LS01)?|noSmooth|(Vanilla)?(Adam|Adan|adam)|\den\d|` +
	`CosAnneal|warmup|smallerlr|probabilisticOversampling|\d{3}|Benchmark|noDataLoading|MOSAIC|1k|QuarterLR))*_?$`)

// Model is a folder of nnUNet_results: TRAINER__PLANS__CONFIGURATION.
type Model struct {
	Folder string
	*Plan
	*Labels
	Folds  []string // whose checkpoints predict together
	Mirror []int    // axes that the network was trained to be mirrored along

	Trainer     string
	checkpoints []string
	unfinished  error // why folds that nobody has chosen do not vote together; nil: they do
}

// Digest identifies a model: its checkpoints, plans and labels.
func (m *Model) Digest() (string, error) {
	sum := sha256.New()
	for _, path := range append([]string{filepath.Join(m.Folder, plansName), filepath.Join(m.Folder, datasetName)},
		m.checkpoints...) {
		f, err := folders.Open(path)
		if err != nil {
			return "", err
		}
		one := sha256.New()
		_, err = io.Copy(one, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		sum.Write(one.Sum(nil))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// First is the checkpoint of the first fold.
func (m *Model) First() string { return m.checkpoints[0] }

// IsModel says whether a path is what nnU-Net writes: a folder with plans.json, or a .pth file.
func IsModel(path string) bool {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		_, err := os.Stat(filepath.Join(path, plansName))
		return err == nil
	}
	return strings.EqualFold(filepath.Ext(path), ".pth")
}

// IsOfVersion1 says whether a path is a model of nnU-Net 1, which is not read: its folder, or a
// fold's, or a checkpoint.
func IsOfVersion1(path string) bool {
	if _, err := os.Stat(filepath.Join(path, "plans.pkl")); err == nil {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "model_final_checkpoint.model"))
	return err == nil || strings.EqualFold(filepath.Ext(path), ".model")
}

// Near lists the folders of models that a path may have been meant for, which is none itself: the
// one that it lies in, such as a fold's, or those one or two folders below, such as a data set's.
func Near(path string) []string {
	for _, above := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if above != path && IsModel(above) {
			return []string{above}
		}
	}
	var models []string
	for _, below := range []string{"*", filepath.Join("*", "*")} {
		// A path that holds signs of patterns finds nothing, and is not helped.
		found, _ := filepath.Glob(filepath.Join(path, below, plansName))
		for _, plans := range found {
			models = append(models, filepath.Dir(plans))
		}
	}
	return models
}

// Open reads what a model says about itself. path is its folder, or one checkpoint in it. folds
// choose among the checkpoints of a folder; none: all of its cross-validation, or fold_all where
// there is no other. Then [NewPredictor] refuses folds if only some of them were trained to the
// end.
func Open(path string, folds []string) (*Model, error) {
	m := &Model{Folder: path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if len(folds) > 0 {
			return nil, fmt.Errorf("%s is one checkpoint, and has no folds to choose among: give the folder of the "+
				"model with --folds %s, or leave --folds out", path, strings.Join(folds, ","))
		}
		if err := m.of(path); err != nil {
			return nil, err
		}
	} else if err := m.find(folds); err != nil {
		return nil, err
	}
	file, err := pytorch.Open(m.checkpoints[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	configuration, err := m.describe(file)
	if err != nil {
		return nil, err
	}
	if m.Plan, err = readPlan(filepath.Join(m.Folder, plansName), configuration); err != nil {
		return nil, err
	}
	if m.Labels, err = readLabels(filepath.Join(m.Folder, datasetName)); err != nil {
		return nil, err
	}
	if m.Flat { // whose axes of mirroring are those of a slice
		for n := range m.Mirror {
			m.Mirror[n]++
		}
		if slices.Contains(m.Mirror, 3) {
			return nil, &volume.FormatError{Path: m.First(),
				Problem: "it is mirrored along an axis that slices have not"}
		}
	}
	if n := len(m.Labels.Channels); n != len(m.Plan.Channels) {
		return nil, &volume.FormatError{Path: filepath.Join(m.Folder, datasetName),
			Problem: fmt.Sprintf("it has %d channels, and the plans %d", n, len(m.Plan.Channels))}
	}
	m.Network.Classes = m.Heads()
	return m, m.Network.Check()
}

// of takes one checkpoint, with the files of the folder that it lies in, or of the one above.
func (m *Model) of(path string) error {
	m.checkpoints, m.Folds = []string{path}, []string{strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "fold_")}
	for _, folder := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if _, err := os.Stat(filepath.Join(folder, plansName)); err == nil {
			m.Folder = folder
			return nil
		}
	}
	return fmt.Errorf("%s: there is no %s beside it or in the folder above: a checkpoint of nnU-Net needs it, and %s",
		path, plansName, datasetName)
}

// find lists the checkpoints of a model's folder.
func (m *Model) find(folds []string) error {
	entries, err := os.ReadDir(m.Folder)
	if err != nil {
		return err
	}
	var there []string
	for _, e := range entries {
		if fold, ok := strings.CutPrefix(e.Name(), "fold_"); ok && e.IsDir() {
			there = append(there, fold)
		}
	}
	chosen := len(folds) > 0
	if !chosen {
		for _, fold := range there {
			if _, err := strconv.Atoi(fold); err == nil {
				folds = append(folds, fold)
			}
		}
		if len(folds) == 0 && slices.Contains(there, "all") {
			folds = []string{"all"}
		}
		slices.SortFunc(folds, func(a, b string) int {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return cmp.Compare(x, y)
		})
	}
	if len(folds) == 0 {
		return fmt.Errorf("%s has no folder fold_0, as a model of nnU-Net does", m.Folder)
	}
	for _, fold := range folds {
		path, err := checkpointOf(filepath.Join(m.Folder, "fold_"+fold))
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(there, fold) {
			return fmt.Errorf("%s has no fold %s, only %s", m.Folder, fold, safetext.List(there))
		}
		if err != nil {
			return err
		}
		m.Folds, m.checkpoints = append(m.Folds, fold), append(m.checkpoints, path)
	}
	var ended, others []string
	for n, path := range m.checkpoints {
		if filepath.Base(path) == checkpointNames[0] {
			ended = append(ended, m.Folds[n])
		} else {
			others = append(others, m.Folds[n])
		}
	}
	if !chosen && len(ended) > 0 && len(others) > 0 {
		m.unfinished = hint.Addf(fmt.Errorf("%s: the training of fold %s has not ended, as that of others has: it "+
			"has %s alone", m.Folder, safetext.List(others), checkpointNames[1]),
			"--folds %s leaves it out; who names it in --folds takes it as it is", strings.Join(ended, ","))
	}
	return nil
}

func checkpointOf(folder string) (string, error) {
	for _, name := range checkpointNames {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s has neither %s: %w", folder, strings.Join(checkpointNames, " nor "), fs.ErrNotExist)
}

// describe reads what the first checkpoint says: configuration, trainer, mirroring.
func (m *Model) describe(file *pytorch.File) (configuration string, err error) {
	path := m.checkpoints[0]
	root, ok := file.Root().(*pytorch.Dict)
	if !ok || root.Get("network_weights") == nil {
		return "", &volume.UnsupportedError{Path: path,
			Problem: "it is a checkpoint of PyTorch, but not of nnU-Net v2: it has no network_weights"}
	}
	m.Trainer, _ = root.Get("trainer_name").(string)
	if strings.Contains(m.Trainer, "Primus") { // whose plans say a network that it does not make
		return "", &volume.UnsupportedError{Path: path, Problem: fmt.Sprintf("its network is a Primus, by trainer %s: "+
			"only PlainConvUNet and ResidualEncoderUNet are known", safetext.Text(m.Trainer))}
	}
	args, _ := root.Get("init_args").(*pytorch.Dict)
	if configuration, _ = args.Get("configuration").(string); configuration == "" {
		return "", &volume.FormatError{Path: path, Problem: "it does not say of which configuration it is"}
	}
	var axes []any
	switch list := root.Get("inference_allowed_mirroring_axes").(type) {
	case pytorch.Tuple:
		axes = list
	case *[]any:
		axes = *list
	}
	for _, a := range axes {
		axis, ok := a.(int64)
		if !ok || axis < 0 || axis > 2 || slices.Contains(m.Mirror, int(axis)) {
			return "", &volume.FormatError{Path: path, Problem: fmt.Sprintf("it is mirrored along %v", axes)}
		}
		m.Mirror = append(m.Mirror, int(axis))
	}
	return configuration, nil
}

// weights are the parameters of a checkpoint by their names here. Names that PyTorch has for one
// tensor must mean one.
func weights(path string) (map[string]*pytorch.Tensor, *pytorch.File, error) {
	file, err := pytorch.Open(path)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (map[string]*pytorch.Tensor, *pytorch.File, error) {
		file.Close()
		return nil, nil, err
	}
	root, _ := file.Root().(*pytorch.Dict)
	list, ok := root.Get("network_weights").(*pytorch.Dict)
	if !ok {
		return fail(
			&volume.UnsupportedError{Path: path,
				Problem: "it is a checkpoint of PyTorch, but not of nnU-Net v2: it has no network_weights"},
		)
	}
	found := map[string]*pytorch.Tensor{}
	for n, key := range list.Keys {
		name, isText := key.(string)
		t, isTensor := list.Values[n].(*pytorch.Tensor)
		if !isText || !isTensor {
			return fail(&volume.FormatError{Path: path, Problem: fmt.Sprintf("weight %v is no tensor", key)})
		}
		if strings.HasSuffix(name, "running_mean") {
			return fail(
				&volume.UnsupportedError{Path: path,
					Problem: "it has batch norms, which the plans do not tell: only instance norms are known"},
			)
		}
		canonical := unet.Canonical(name)
		if other, twice := found[canonical]; twice {
			same, err := equal(file, t, other)
			if err != nil {
				return fail(err)
			}
			if !same {
				return fail(
					&volume.FormatError{Path: path, Problem: fmt.Sprintf("%s has two values by two names", canonical)},
				)
			}
			continue
		}
		found[canonical] = t
	}
	return found, file, nil
}

// equal says whether two tensors have the same numbers.
func equal(file *pytorch.File, a, b *pytorch.Tensor) (bool, error) {
	if a.Same(b) {
		return true, nil
	}
	if !slices.Equal(a.Shape, b.Shape) {
		return false, nil
	}
	x, err := file.Read(a)
	if err != nil {
		return false, err
	}
	y, err := file.Read(b)
	return slices.Equal(x, y), err
}

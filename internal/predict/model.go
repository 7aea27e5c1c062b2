package predict

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// A Model makes label maps of scans, whose channels come in its own order.
type Model interface {
	Provenance() segment.Provenance
	Labels() []uint16              // that its label maps may have, without the background
	LabelNames() map[uint16]string // of these, where known
	// Watch has the windows of a scan counted, and is told what is done in another way because of
	// the memory.
	Watch(progress func(done, total int), note func(text string))
	// Fits says whether there is memory for a scan, before it is read, whose voxels take so many
	// bytes in each channel.
	Fits(g volume.Grid, voxelBytes int, o segment.MapOptions) error
	// CheckSpacing says what is wrong with the voxels of a scan.
	CheckSpacing(g volume.Grid) error
	// Modality is that of the scans that it was trained on; "" where nobody knows.
	Modality() string
	// AboveHU says that it was trained on CTs whose values lie 1024 above Hounsfield units.
	AboveHU() bool
	// AsStored says that it takes voxels as nnU-Net does ([dataset.Case.AsStored]).
	AsStored() bool
	// LearntFrom says whether weights have learnt from a scan of that name and digest.
	LearntFrom(name, digest string) (segment.Lesson, bool)
	Predict(ctx context.Context, channels []*volume.Volume, o segment.MapOptions) (*volume.LabelMap, *segment.Maps,
		error)
}

// Own is a model of this program's.
func Own(p *segment.Predictor) Model { return own{p} }

type own struct{ *segment.Predictor }

// Modality implements [Model].
func (p own) Modality() string { return p.Preparation().ModalityName() }

// AboveHU implements [Model].
func (p own) AboveHU() bool { return p.Preparation().Channel(0).AboveHU() }

// AsStored implements [Model].
func (own) AsStored() bool { return false }

func (p own) Watch(progress func(done, total int), note func(text string)) {
	p.Progress, p.Note = progress, note
}

func (p own) Predict(ctx context.Context, channels []*volume.Volume, o segment.MapOptions) (*volume.LabelMap,
	*segment.Maps, error) {
	return p.PredictMaps(ctx, channels[0], o, channels[1:]...)
}

// OfNNUNet is a model that nnU-Net has trained.
func OfNNUNet(p *nnunet.Predictor) (Model, error) {
	made, err := foreignProvenance(p, p)
	watch := func(progress func(done, total int), note func(text string)) { p.Progress, p.Note = progress, note }
	return &foreign{p, p.Model, watch, made}, err
}

// EnsembleOfNNUNet is several models that nnU-Net has trained.
func EnsembleOfNNUNet(e *nnunet.Ensemble) (Model, error) {
	made, err := foreignProvenance(e, e.Members()[0])
	watch := func(progress func(done, total int), note func(text string)) { e.Progress, e.Note = progress, note }
	return &foreign{e, e.Model(), watch, made}, err
}

// foreignProvenance is the provenance of a predictor's label maps, whose windows are those of the
// first model.
func foreignProvenance(all foreignPredictor, first *nnunet.Predictor) (made segment.Provenance, err error) {
	digest, err := all.Digest()
	if err != nil {
		return made, err
	}
	const digits = 32 // as those of this program's have
	made = segment.Provenance{Model: digest[:digits], Window: first.Patch, Overlap: 0.5, Mirror: all.MirroredAxes(),
		Device: first.Computer()}
	if kept := first.Kept(); kept != nil {
		for _, step := range kept.Steps {
			made.LargestOf = append(made.LargestOf, strings.Trim(strings.ReplaceAll(fmt.Sprint(step), " ", "+"), "[]"))
		}
	}
	return made, nil
}

// foreignPredictor is what a model of nnU-Net does, or several together.
type foreignPredictor interface {
	Digest() (string, error)
	MirroredAxes() string
	Fits(g volume.Grid, voxelBytes int) error
	PredictMaps(ctx context.Context, channels []*volume.Volume) (*volume.LabelMap, *nnunet.Maps, error)
}

type foreign struct {
	predictor foreignPredictor
	*nnunet.Model
	watch func(progress func(done, total int), note func(text string))
	made  segment.Provenance
}

func (p *foreign) Provenance() segment.Provenance { return p.made }

func (p *foreign) Labels() []uint16 { return p.Values() }

func (p *foreign) LabelNames() map[uint16]string { return p.Names() }

func (p *foreign) Watch(progress func(done, total int), note func(text string)) {
	p.watch(progress, note)
}

func (p *foreign) Fits(g volume.Grid, voxelBytes int, _ segment.MapOptions) error {
	return p.predictor.Fits(g, voxelBytes)
}

// CheckSpacing finds nothing: scans are resampled to the spacing of the plans.
func (p *foreign) CheckSpacing(volume.Grid) error { return nil }

// Modality is what dataset.json calls the channel. Which channels of several a scan has, its files
// say by their numbers.
func (p *foreign) Modality() string {
	if channels := p.Model.Labels.Channels; len(channels) == 1 {
		return dataset.ModalityOfChannel(channels[0])
	}
	return ""
}

// AboveHU goes by the foreground of the training cases, which plans.json has for CT.
func (p *foreign) AboveHU() bool {
	foreground := [4]float64{2: p.Plan.Channels[0].Mean}
	return volume.Preparation{Intensity: volume.CTPercentiles, Foreground: foreground}.AboveHU()
}

func (*foreign) AsStored() bool { return true }

// LearntFrom is not known of nnU-Net's checkpoints.
func (p *foreign) LearntFrom(string, string) (how segment.Lesson, found bool) { return how, false }

func (p *foreign) Predict(ctx context.Context, channels []*volume.Volume, o segment.MapOptions) (*volume.LabelMap,
	*segment.Maps, error) {
	if o.Logits || o.Prepared {
		return nil, nil, errors.New("of nnU-Net's models no logits are written, and maps on the scan's voxels alone")
	}
	l, said, err := p.predictor.PredictMaps(ctx, channels)
	if err != nil {
		return nil, nil, fmt.Errorf("as nnU-Net: %w", err)
	}
	if !o.Probabilities && !o.Agreement {
		return l, nil, nil
	}
	m := &segment.Maps{Grid: l.Grid, Names: p.Names(), Probabilities: said.Probabilities, Agreement: said.Agreement}
	for _, s := range p.Structures {
		m.Labels = append(m.Labels, s.Label)
	}
	return l, m, nil
}

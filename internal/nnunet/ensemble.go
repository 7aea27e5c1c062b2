package nnunet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// Ensemble is several models of the same labels, such as a 2D and a 3D one. As nnUNetv2_ensemble
// does, it averages their probabilities on the voxels of the scan, where the mean decides. One
// model's network is in memory at a time.
type Ensemble struct {
	Progress func(done, total int) // told of the windows of each model in turn; may be nil
	Note     func(text string)     // [Predictor.Note]; may be nil

	members []*Predictor // in the order of their digests, which no order of naming them changes
	digest  string
	memory  int64 // limit in bytes; 0: none
	asked   Options
}

// NewEnsemble makes the models ready, which all must tell the same labels by the same channels. In
// which order they are given changes no bit of what they predict.
func NewEnsemble(dev device.Device, models []*Model, o Options) (*Ensemble, error) {
	switch {
	case o.Postprocess:
		return nil, &AskedError{"of several models of nnU-Net no postprocessing is known: that of each is of its own " +
			"label maps", "--components"}
	case o.Probabilities && models[0].Regions:
		return nil, &AskedError{models[0].Folder + ": its regions may overlap, so that their probabilities are none " +
			"of labels", "--probabilities"}
	}
	e := &Ensemble{memory: o.Memory, asked: o}
	o.Probabilities, o.Agreement, o.ensemble = true, false, true
	digests := map[*Model]string{}
	for _, m := range models {
		if err := models[0].agrees(m); err != nil {
			return nil, fmt.Errorf("%s and %s cannot be averaged: %w", models[0].Folder, m.Folder, err)
		}
		digest, err := m.Digest()
		if err != nil {
			return nil, err
		}
		digests[m] = digest
	}
	models = slices.SortedStableFunc(slices.Values(models), func(a, b *Model) int {
		return strings.Compare(digests[a], digests[b])
	})
	var sorted []string
	for _, m := range models {
		sorted = append(sorted, digests[m])
		p, err := NewPredictor(dev, m, o)
		if err != nil {
			return nil, err
		}
		p.rest() // it is known now what it takes
		e.members = append(e.members, p)
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(sorted)))
	e.digest = hex.EncodeToString(sum[:])
	return e, nil
}

// SharesFolder says whether two models lie in one folder, as folds of one do.
func (m *Model) SharesFolder(other *Model) bool {
	one, err := os.Stat(m.Folder)
	if err != nil {
		return false
	}
	two, err := os.Stat(other.Folder)
	return err == nil && os.SameFile(one, two)
}

// agrees says whether two models tell the same labels by the same channels.
func (m *Model) agrees(other *Model) error {
	names := func(m *Model) (all []string) {
		for _, s := range m.Structures {
			text := fmt.Sprintf("%s (%d)", s.Name, s.Label)
			if s.Union {
				text = fmt.Sprintf("%s (%d of %s)", s.Name, s.Label, s.of)
			}
			all = append(all, text)
		}
		return all
	}
	switch {
	case m.Regions != other.Regions || !slices.Equal(m.Structures, other.Structures):
		return fmt.Errorf("their labels differ: %s and %s", safetext.List(names(m)), safetext.List(names(other)))
	case !slices.Equal(m.Labels.Channels, other.Labels.Channels):
		return fmt.Errorf("their channels differ: %s and %s", safetext.List(m.Labels.Channels),
			safetext.List(other.Labels.Channels))
	}
	return nil
}

// Model is one of the models: labels, names and channels are those of all.
func (e *Ensemble) Model() *Model { return e.members[0].Model }

// Members are the models.
func (e *Ensemble) Members() []*Predictor { return e.members }

// Digest identifies the models, in any order, as they were when the ensemble was made.
func (e *Ensemble) Digest() (string, error) { return e.digest, nil }

// MirroredAxes are those of each model ([Predictor.MirroredAxes]; "-": none), or of one where all
// have the same.
func (e *Ensemble) MirroredAxes() string {
	var all []string
	for _, p := range e.members {
		all = append(all, cmp.Or(p.MirroredAxes(), "-"))
	}
	if one := e.members[0].MirroredAxes(); len(slices.Compact(slices.Clone(all))) == 1 {
		return one
	}
	return strings.Join(all, ",")
}

// Bytes is the memory of the largest network: one is there at a time.
func (e *Ensemble) Bytes() (most int64) {
	for _, p := range e.members {
		most = max(most, p.Bytes())
	}
	return most
}

// Notes are what a person should know of the models.
func (e *Ensemble) Notes() (notes []string) {
	for _, p := range e.members {
		notes = append(notes, p.Notes()...)
	}
	return append(notes, fmt.Sprintf("the probabilities of these %d models are averaged, as nnUNetv2_ensemble does",
		len(e.members)))
}

// hold leaves a model the memory that is not taken by the scan, which all models but the last are
// given a copy of, and by the label maps of those before it, where they are compared.
func (e *Ensemble) hold(member, voxels int, scanBytes int64) *Predictor {
	p := e.members[member]
	p.summed = member > 0
	taken := int64(0)
	if member < len(e.members)-1 {
		taken = scanBytes
	}
	if e.asked.Agreement {
		taken += 2 * int64(voxels*member)
	}
	if p.memory = e.memory; e.memory > 0 {
		p.memory = max(e.memory-taken, 1)
	}
	return p
}

// Fits says whether there is memory for a scan, before it is read, as [Predictor.Fits] does.
func (e *Ensemble) Fits(g volume.Grid, voxelBytes int) error {
	scanBytes := int64(g.Len()) * int64(voxelBytes*len(e.members[0].Plan.Channels))
	for n := range e.members {
		if err := e.hold(n, g.Len(), scanBytes).Fits(g, voxelBytes); err != nil {
			return err
		}
	}
	return nil
}

// PredictMaps makes the label map of a scan, as [Predictor.PredictMaps] does. The probabilities are
// the means, and the agreement is that of the label maps which the models make alone, on the voxels
// of the scan, where they are asked for.
func (e *Ensemble) PredictMaps(ctx context.Context, channels []*volume.Volume) (*volume.LabelMap, *Maps, error) {
	var scanBytes int64
	for _, v := range channels {
		scanBytes += 2*int64(len(v.Int16)) + 4*int64(len(v.Float32))
	}
	var l *volume.LabelMap
	var sums []float32
	opinions := newVotes(e.members[0].Labels, len(e.members))
	for n := range e.members {
		if len(channels) == 0 {
			return nil, nil, e.members[n].check(channels)
		}
		p, scan := e.hold(n, channels[0].Len(), scanBytes), channels
		if n < len(e.members)-1 {
			scan = copies(channels)
		}
		p.Note, p.Progress = e.Note, e.progress(n)
		one, said, err := p.predict(ctx, scan, sums)
		p.rest()
		if err != nil {
			return nil, nil, err
		}
		l, sums = one, said.Probabilities
		if e.asked.Agreement {
			opinions.plane[n] = l.Labels
		}
	}
	said := &Maps{}
	if e.asked.Agreement {
		opinions.count(0, l.Shape[0])
		said.Agreement = opinions.agreement()
	}
	e.members[0].decideBy(sums, float32(len(e.members)), l.Labels)
	if e.asked.Probabilities {
		said.Probabilities = sums
	}
	return l, said, nil
}

// progress counts the windows of a model among those of all, as if each had as many.
func (e *Ensemble) progress(member int) func(done, total int) {
	return func(done, total int) {
		if e.Progress != nil {
			e.Progress(member*total+done, len(e.members)*total)
		}
	}
}

// copies are volumes with voxels of their own, which a model uses up.
func copies(channels []*volume.Volume) (all []*volume.Volume) {
	for _, v := range channels {
		all = append(all, &volume.Volume{Grid: v.Grid, Int16: slices.Clone(v.Int16), Float32: slices.Clone(v.Float32),
			Pixdim: v.Pixdim})
	}
	return all
}

// decideBy makes the sums of so many models' probabilities means, and labels of these: the label
// with the highest, the first of equals; of regions each that has more than a half, later ones over
// earlier ones.
func (l *Labels) decideBy(sums []float32, models float32, labels []uint16) {
	const block = 1 << 16 // voxels
	n := len(labels)
	parallel((n+block-1)/block, func(b int) {
		from, to := b*block, min((b+1)*block, n)
		best := make([]float32, to-from)
		clear(labels[from:to])
		for head, s := range l.Structures {
			chances := sums[head*n+from : head*n+to]
			for i, x := range chances {
				x /= models
				chances[i] = x
				switch {
				case l.Regions:
					if x > 0.5 {
						labels[from+i] = s.Label
					}
				case head == 0 || x > best[i]:
					best[i], labels[from+i] = x, s.Label
				}
			}
		}
	})
}

package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"

	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/volume"
)

// MapOptions say which numbers of the network are wanted beside the label map.
type MapOptions struct {
	Probabilities bool
	Logits        bool // the Predictor must have been made with Inference.Logits
	Prepared      bool // on the prepared grid, as the network gave them, and not on the scan's
	Agreement     bool // [Predictor.Agreement], on the grid of the label map
}

// Maps are what the network says of every voxel: a number for each class.
type Maps struct {
	volume.Grid
	// Labels are what each class is written as in label maps, 0 for the background, which is class
	// 0.
	Labels []uint16
	Names  map[uint16]string // of the labels, where known
	// (class, K, J, I), i fastest; nil if not asked for. Both are means over windows, weighted by a
	// Gaussian, and over networks, interpolated linearly where they lie on another grid than the
	// network's. So probabilities sum to 1 but for rounding, and the label map has the class with
	// the highest, unless only the largest component of each label is kept. The softmax of these
	// logits is not these probabilities: a mean of logits is another thing than a mean of
	// probabilities.
	Probabilities, Logits []float32
	Agreement             map[uint16]float64 // nil if not asked for
}

// Fits says whether there is memory to segment a scan on the grid whose voxels take so many bytes
// each, and what can be done where there is not: what [Predictor.PredictMaps] says, before the scan
// is read. Where only the patient's box is prepared, it takes less than what this counts with.
func (p *Predictor) Fits(g volume.Grid, voxelBytes int, o MapOptions) error {
	wanted, err := p.wanted(g.Whole(), o)
	if err != nil {
		return err
	}
	prepared, err := p.config.Preparation.Grid(g)
	if err != nil {
		return fmt.Errorf("preparing the scan: %w", err)
	}
	// Resampling linearly holds the scan, windowed and turned, and the result in its type and as
	// int16; other ways hold the scan as float32, then both grids.
	scanBytes, preparedBytes := int64(3*voxelBytes), int64(2)
	if voxelBytes > 2 {
		preparedBytes += int64(voxelBytes)
	}
	channels := len(p.config.Preparation.ChannelNames())
	if n := channels; n > 1 { // all are read before the first is prepared
		voxelBytes *= n
		scanBytes, preparedBytes = scanBytes*int64(n), preparedBytes*int64(n)
	}
	if p.config.Preparation.Interpolation != volume.Linear.String() {
		scanBytes, preparedBytes = 12, 10
	}
	standardised := p.config.Preparation.Scheme() != volume.CTWindow
	if standardised { // float32, turned, with what a mask of it takes; the result as float32, too
		scanBytes, preparedBytes = max(scanBytes, int64(voxelBytes)+10), max(preparedBytes, 6)
	}
	need := scanBytes*int64(g.Len()) + preparedBytes*int64(prepared.Len())
	if room := p.windows.Room(); (standardised || p.config.Preparation.Spacing != [3]float64{}) && room >= 0 &&
		need > room {
		at := prepared.Spacing()
		for axis, size := range p.config.Preparation.Spacing {
			if size > 0 {
				at[axis] = size // to the last digit
			}
		}
		return fmt.Errorf("preparing a scan of %s as %s voxels of %s mm needs %d MiB "+
			"of memory beside the network, which leaves %d MiB: the network was trained so, therefore take a part of "+
			"the scan, or more memory",
			numbers.Extents(g.Shape[:]), numbers.Extents(prepared.Shape[:]), numbers.Extents(at[:]), need>>20, room>>20)
	}
	return p.windows.Fits(prepared.Shape, int64(voxelBytes)*int64(g.Len())+2*int64(channels)*int64(prepared.Len()),
		wanted)
}

// wanted says which maps to make of a scan whose part is prepared, and where.
func (p *Predictor) wanted(bounds volume.Bounds, o MapOptions) (sliding.Wanted, error) {
	to, err := p.config.Preparation.Restoration(bounds)
	w := sliding.Wanted{Classes: to, Probabilities: o.Probabilities, Logits: o.Logits}
	if !o.Prepared {
		w.Maps = to
	}
	return w, err
}

// PredictMaps is [Predictor.Predict] that tells the network's numbers, too: 4 bytes for each class
// and voxel, all in memory. The maps are nil if none are wanted. Of a network that takes several
// channels, the further ones follow, on the voxels of the first.
func (p *Predictor) PredictMaps(ctx context.Context, v *volume.Volume, o MapOptions,
	more ...*volume.Volume) (*volume.LabelMap, *Maps, error) {
	names := p.config.Preparation.ChannelNames()
	if 1+len(more) != len(names) {
		return nil, nil, fmt.Errorf("the scan has %s, and the network takes %d (%s)",
			numbers.Count(1+len(more), "channel"), len(names), strings.Join(names, ", "))
	}
	if o.Logits && !p.options.Logits {
		return nil, nil, errors.New("logits are wanted of a predictor that was made without Inference.Logits")
	}
	bounds, err := p.config.Preparation.Bounds(v, more...)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the scan: %w", err)
	}
	wanted, err := p.wanted(bounds, o)
	if err != nil {
		return nil, nil, err
	}
	held := sliding.Held{}
	channels := append([]*volume.Volume{v}, more...)
	mask := p.config.Preparation.Mask(bounds, channels...)
	for n, channel := range channels {
		how := p.config.Preparation.Channel(n)
		prepared, err := how.ApplyMasked(channel, bounds, mask)
		if err != nil {
			return nil, nil, fmt.Errorf("preparing the scan: %w", err)
		}
		held = held.With(channel, prepared.Volume, how.Intensities(prepared.Levels))
	}
	l, r, err := p.predict(ctx, held, wanted)
	if err != nil || !o.Probabilities && !o.Logits && !o.Agreement {
		return l, nil, err
	}
	var agreement map[uint16]float64
	if o.Agreement {
		if agreement, err = p.agreement(ctx, held, wanted); err != nil {
			return l, nil, err
		}
	}
	m := &Maps{Grid: v.Grid, Labels: slices.Clone(p.labels), Names: p.LabelNames(), Probabilities: r.Probabilities,
		Logits: r.Logits, Agreement: agreement}
	if o.Prepared {
		m.Grid = held.Grid()
	}
	return l, m, nil
}

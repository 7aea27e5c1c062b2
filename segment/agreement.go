package segment

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// CanAgree says what is missing for label maps to be compared with one another; nil if nothing is:
// there are several checkpoints, or windows are mirrored.
func (p *Predictor) CanAgree() error {
	if len(p.members) < 2 && p.options.Mirror == "" {
		return errors.New("agreement is that of several checkpoints, or of windows with their mirror images: " +
			"there is one checkpoint, and no axis to mirror along")
	}
	return nil
}

// Agreement is how alike the label maps are that each checkpoint makes alone of a prepared case,
// or, where there is one checkpoint, those with and without mirror images: the DSC of each label,
// on the prepared grid, averaged over pairs. Labels that no label map has are left out. It takes
// the time of another prediction.
func (p *Predictor) Agreement(ctx context.Context, c *prepared.Case) (map[uint16]float64, error) {
	return p.agreement(ctx, sliding.Case{Case: c}, sliding.Wanted{})
}

// Opinions are the label maps that [Predictor.Agreement] compares, on the prepared grid: of each
// checkpoint, in their order, or, where there is one, with mirror images and without. They keep all
// components.
func (p *Predictor) Opinions(ctx context.Context, c *prepared.Case) ([]*volume.LabelMap, error) {
	to, err := volume.Stay(c.Grid)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	all, err := p.opinions(ctx, sliding.Case{Case: c}, sliding.Wanted{Classes: to})
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	var maps []*volume.LabelMap
	for _, classes := range all {
		for i, class := range classes {
			classes[i] = p.labels[class]
		}
		maps = append(maps, &volume.LabelMap{Grid: to.Scan, Labels: classes, Names: p.LabelNames()})
	}
	return maps, nil
}

// opinions are the classes of the voxels of each.
func (p *Predictor) opinions(ctx context.Context, src sliding.Source, wanted sliding.Wanted) (maps [][]uint16,
	err error) {
	if err := p.CanAgree(); err != nil {
		return nil, err
	}
	wanted.Probabilities, wanted.Logits = false, false
	opinion := func(of sliding.Ensemble) error {
		r, err := p.windows.Infer(ctx, src, of, wanted, p.Progress)
		maps = append(maps, r.Classes)
		return err
	}
	if len(p.members) < 2 {
		mirror := p.windows.Mirror
		defer func() { p.windows.Mirror = mirror }()
		for _, p.windows.Mirror = range []string{mirror, ""} {
			if err := opinion(sliding.Ensemble{}); err != nil {
				return nil, err
			}
		}
	}
	whole := p.ensemble()
	for member := range p.members {
		alone := sliding.Ensemble{Members: 1, Use: func(int) error { return whole.Use(member) }}
		if err := opinion(alone); err != nil {
			return nil, err
		}
	}
	return maps, nil
}

func (p *Predictor) agreement(ctx context.Context, src sliding.Source, wanted sliding.Wanted) (map[uint16]float64,
	error) {
	maps, err := p.opinions(ctx, src, wanted)
	if err != nil {
		return nil, err
	}
	return p.alike(maps), nil
}

// alike is the mean DSC of each label over pairs of label maps, of classes. Labels that none has
// are left out.
func (p *Predictor) alike(maps [][]uint16) map[uint16]float64 {
	sum, pairs := make([]float64, len(p.labels)), make([]float64, len(p.labels))
	for n, a := range maps {
		for _, b := range maps[:n] {
			for class, dsc := range eval.Dice(a, b, nil, len(p.labels)-1) {
				if !math.IsNaN(dsc) {
					sum[class], pairs[class] = sum[class]+dsc, pairs[class]+1
				}
			}
		}
	}
	mean := map[uint16]float64{}
	for class := 1; class < len(sum); class++ {
		if pairs[class] > 0 {
			mean[p.labels[class]] = sum[class] / pairs[class]
		}
	}
	return mean
}

package prepare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what ct-percentiles goes by, the values of the labelled voxels of all cases together.
// nnU-Net looks at 10,000 of them in each case, this at all.

// A histogram counts voxels by their HU, rounded. What is counted does not depend on the order in
// which scans are read.
type histogram struct {
	mutex  sync.Mutex
	counts [1 << 16]int64
}

// add counts the voxels of a scan that have a label, which lie on its grid.
func (h *histogram) add(v *volume.Volume, labels []uint16, ignored []uint16) {
	counts := make([]int64, 1<<16)
	for n, label := range labels {
		if label == 0 || slices.Contains(ignored, label) {
			continue
		}
		var x float64
		if v.Int16 != nil {
			x = float64(v.Int16[n])
		} else {
			x = math.Floor(float64(v.Float32[n]) + 0.5)
		}
		if x-x == 0 {
			counts[int(min(max(x, math.MinInt16), math.MaxInt16))-math.MinInt16]++
		}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for n, count := range counts {
		h.counts[n] += count
	}
}

// foreground is the 0.5 and 99.5 percentile, as numpy.percentile has them, the mean and the
// standard deviation; to a ten-thousandth of a HU, so that people can write it down.
func (h *histogram) foreground() (f [4]float64, ok bool) {
	var n, sum int64
	for at, count := range h.counts {
		n, sum = n+count, sum+count*int64(at+math.MinInt16)
	}
	if n == 0 {
		return f, false
	}
	ordered := func(rank int64) float64 {
		for at, count := range h.counts {
			if rank < count {
				return float64(at + math.MinInt16)
			}
			rank -= count
		}
		return math.MaxInt16
	}
	for i, percent := range []float64{0.5, 99.5} {
		at := percent / 100 * float64(n-1)
		low := int64(at)
		a, b := ordered(low), ordered(min(low+1, n-1))
		f[i] = a + (at-float64(low))*(b-a)
	}
	f[2] = float64(sum) / float64(n)
	squares := 0.0
	for at, count := range h.counts {
		d := float64(at+math.MinInt16) - f[2]
		squares += float64(count) * d * d
	}
	f[3] = math.Sqrt(squares / float64(n))
	for i, x := range f {
		f[i] = math.Round(x*1e4) / 1e4
	}
	return f, f[0] < f[1] && f[3] > 0
}

// chooseForeground works out what the scheme of intensities goes by, where it goes by the labelled
// voxels of all cases: those that are not held back for testing. A folder that was prepared from
// the same files has it already.
func chooseForeground(ctx context.Context, d *dataset.Dataset, dir string, p volume.Preparation,
	o Options) (volume.Preparation, error) {
	if !p.NeedsForeground() {
		return p, nil
	}
	if o.Merge { // as the parts have it
		p.Foreground = prepared.ForegroundOfParts(dir)
		if p.Foreground == [4]float64{} {
			return p, fmt.Errorf("%s: no part was prepared by %s: prepare the parts first", dir, p.Scheme())
		}
		return p, nil
	}
	var cases []dataset.Case
	for _, c := range d.Cases {
		if c.Labels != "" && c.Group == "" {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return p,
			fmt.Errorf("%s needs labelled voxels, and no case has labels: give those of other scans by "+
				"--foreground, or choose another --intensity", p.Scheme())
	}
	paths, err := pathsOf(cases)
	if err != nil {
		return p, err
	}
	if f, found := prepared.Foreground(dir, p, paths); found {
		p.Foreground = f
		return p, nil
	}
	whole := &histogram{}
	refused := make([]error, len(cases))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Workers)
	budget := memory.NewBudget(o.allowed, o.Memory)
	for n, c := range cases {
		group.Go(func() error {
			need, known := c.Located().Memory(p)
			if !known {
				need = min(need, o.Memory)
			}
			release, err := budget.Take(ctx, need)
			if err != nil {
				return ctx.Err() // a case that needs too much, its preparation names
			}
			defer release()
			err = whole.addCase(d, c, p, o.Read)
			if atomicfile.OfMachine(err) || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			refused[n] = err
			return nil // what is wrong with a case, its preparation says
		})
	}
	if err := group.Wait(); err != nil {
		return p, err
	}
	f, ok := whole.foreground()
	if all := slices.DeleteFunc(refused, func(err error) bool { return err == nil }); !ok && len(all) > 0 {
		return p, fmt.Errorf("%s goes by the labelled voxels, and %s cannot be prepared: %w", p.Scheme(),
			numbers.Count(len(all), "case"), all[0])
	}
	if !ok {
		return p,
			fmt.Errorf("%s goes by the labelled voxels, and those of these cases have one value, or "+
				"there are none: choose another --intensity", p.Scheme())
	}
	p.Foreground = f
	return p, nil
}

// addCase counts the labelled voxels of a case, as they are where the scan is. A case that its
// preparation refuses by its values is refused here, and not counted.
func (h *histogram) addCase(d *dataset.Dataset, c dataset.Case, p volume.Preparation, o dataset.ReadOptions) error {
	v, l, err := c.ReadQuietly(o, d.LabelNames)
	if err != nil {
		return err
	}
	if err := d.CheckModality(c, p, v); err != nil {
		return err
	}
	if s := v.Statistics(); s.Min == s.Max {
		return &volume.BlankError{Value: s.Min}
	}
	for n := range c.More { // ct-percentiles goes by one channel
		if p.Channel(n+1).Scheme() == volume.CTPercentiles {
			more, _, err := c.ReadMore(v.Grid, o)
			if err != nil {
				return err
			}
			v = more[n]
		}
	}
	how := p.Channel(0)
	how.Foreground, how.Window, how.Modality = [4]float64{}, volume.DefaultPreparation().Window, ""
	how.Axcodes, how.Spacing, how.Intensity = v.Axcodes(), [3]float64{}, ""
	if l, err = how.ApplyLabels(l, v.Whole()); err != nil {
		return err
	}
	h.add(v, l.Labels, volume.IgnoredLabels(maps.Clone(l.Names)))
	return nil
}

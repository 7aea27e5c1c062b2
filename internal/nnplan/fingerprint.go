// Package nnplan writes nnU-Net's plans.json for a folder of nnUNet_raw, as
// nnUNetv2_plan_and_preprocess plans it, so that nnU-Net prepares and trains by it.
//
// Start at [Extract], which reads the scans, and at [Fingerprint.Plans]. The rules are package
// planning's; what the plans are held against is in scripts/nnunet-plan-check.py. A plan that
// nnU-Net has made is read by package nnunet.
package nnplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// A Fingerprint is what nnU-Net's planner goes by.
type Fingerprint struct {
	Name      string       // of the data set's folder
	Spacings  [][3]float64 // of the labelled cases along (i, j, k), mm
	Shapes    [][3]int     // of the boxes of what is not zero in every channel
	Relative  float64      // the median share of a scan that its box has
	Channels  []Channel
	Labels    int // background, and the ignored one, too
	Training  int // numTraining
	FileReads string
}

// A Channel is one of the scans'.
type Channel struct {
	Name        string
	Intensities Intensities // of labelled voxels, each case counted alike
}

// Intensities are the statistics that nnU-Net's plans have.
type Intensities struct {
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Low    float64 `json:"percentile_00_5"`
	High   float64 `json:"percentile_99_5"`
	SD     float64 `json:"std"`
}

// described is what is read of dataset.json.
type described struct {
	Channels map[string]string          `json:"channel_names"`
	Labels   map[string]json.RawMessage `json:"labels"`
	Training int                        `json:"numTraining"`
	Ending   string                     `json:"file_ending"`
	Reader   string                     `json:"overwrite_image_reader_writer"`
}

// endings are those that nnU-Net reads by SimpleITK, its first choice for them.
var endings = []string{".nii.gz", ".nii", ".nrrd", ".mha", ".gipl"}

// Extract reads the labelled scans of a folder of nnUNet_raw. told hears of each that is read, of
// so many; it may be nil.
func Extract(ctx context.Context, folder string, o dataset.ReadOptions, told func(done, of int)) (*Fingerprint, error) {
	path := filepath.Join(folder, "dataset.json")
	text, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return nil, hint.Addf(fmt.Errorf("%s is no folder of nnUNet_raw: %w", folder, err),
			"voxsaw export SCANS --out nnUNet_raw/Dataset001_NAME makes one")
	}
	var j described
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	f := &Fingerprint{Name: filepath.Base(absolute), Labels: len(j.Labels), Training: j.Training, FileReads: j.Reader}
	if f.FileReads == "" {
		if !slices.Contains(endings, j.Ending) {
			return nil, fmt.Errorf("%s: file_ending %q is of files that are not read here", path, j.Ending)
		}
		f.FileReads = "SimpleITKIO"
	}
	for n := range len(j.Channels) {
		name, there := j.Channels[strconv.Itoa(n)]
		if !there {
			return nil, fmt.Errorf("%s: channel_names has no channel %d", path, n)
		}
		f.Channels = append(f.Channels, Channel{Name: name})
	}
	if len(f.Channels) == 0 || f.Labels < 2 || f.Training < 1 {
		return nil, fmt.Errorf("%s does not say channel_names, two labels or more, and numTraining", path)
	}
	d, err := dataset.Detect(folder, dataset.Options{})
	if err != nil {
		return nil, err
	}
	return f, f.read(ctx, d, o, told)
}

// read reads the cases.
func (f *Fingerprint) read(ctx context.Context, d *dataset.Dataset, o dataset.ReadOptions,
	told func(done, of int)) error {
	cases := slices.DeleteFunc(slices.Clone(d.Cases), func(c dataset.Case) bool {
		return c.Group != "" || c.Labels == "" && len(c.Masks) == 0
	})
	if len(cases) == 0 {
		return errors.New("none of its scans has labels")
	}
	sums := make([]foreground, len(f.Channels))
	var relative []float64
	for n, c := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, l, _, err := c.Read(o, d.LabelNames)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		more, _, err := c.ReadMore(v.Grid, o)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		channels := append([]*volume.Volume{v}, more...)
		if len(channels) != len(f.Channels) {
			return fmt.Errorf("%s has %d channels, and dataset.json names %d", c.ID, len(channels), len(f.Channels))
		}
		if l == nil || l.Shape != v.Shape {
			return fmt.Errorf("%s: its labels are not on the scan's voxels", c.ID)
		}
		b, err := boxOf(channels)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		f.Spacings, f.Shapes = append(f.Spacings, v.Spacing()), append(f.Shapes, b.extent())
		relative = append(relative, volumeOf(b.extent())/volumeOf(v.Shape))
		for k, channel := range channels {
			sums[k].add(channel, l, b)
		}
		if told != nil {
			told(n+1, len(cases))
		}
	}
	slices.Sort(relative)
	f.Relative = (relative[(len(relative)-1)/2] + relative[len(relative)/2]) / 2
	for k := range sums {
		var err error
		if f.Channels[k].Intensities, err = sums[k].intensities(); err != nil {
			return err
		}
	}
	return nil
}

func volumeOf(shape [3]int) float64 { return float64(shape[0]) * float64(shape[1]) * float64(shape[2]) }

// value is a voxel's.
func value(v *volume.Volume, at int) float64 {
	if v.Float32 != nil {
		return float64(v.Float32[at])
	}
	return float64(v.Int16[at])
}

// A box is the voxels from first to last along each axis, both of them in it.
type box struct{ first, last [3]int }

func (b box) extent() (shape [3]int) {
	for a := range shape {
		shape[a] = b.last[a] - b.first[a] + 1
	}
	return shape
}

// boxOf is the box of what is not zero in any of the channels, which nnU-Net crops scans to.
func boxOf(channels []*volume.Volume) (box, error) {
	shape := channels[0].Shape
	b, at := box{shape, [3]int{-1, -1, -1}}, 0
	for k := range shape[2] {
		for j := range shape[1] {
			for i := range shape[0] {
				if slices.ContainsFunc(channels, func(v *volume.Volume) bool { return value(v, at) != 0 }) {
					for a, x := range [3]int{i, j, k} {
						b.first[a], b.last[a] = min(b.first[a], x), max(b.last[a], x)
					}
				}
				at++
			}
		}
	}
	if b.last[0] < 0 {
		return b, errors.New("all of its voxels are zero")
	}
	return b, nil
}

// foreground is the labelled voxels of a channel, in the boxes of their cases. nnU-Net draws as
// many values of each case, with replacement; here each case counts alike, and nothing is drawn.
type foreground struct {
	cases     float64
	mean, sq  float64 // sums over cases of the mean, and of the mean square
	min, max  float64
	quantiles []float64 // values of all cases
	weights   []float64 // of these
}

// kept is how many values of a case are kept at most, evenly spaced in their order.
const kept = 1 << 19

func (f *foreground) add(v *volume.Volume, l *volume.LabelMap, within box) {
	var values []float64
	for k := within.first[2]; k <= within.last[2]; k++ {
		for j := within.first[1]; j <= within.last[1]; j++ {
			row := (k*v.Shape[1] + j) * v.Shape[0]
			for at := row + within.first[0]; at <= row+within.last[0]; at++ {
				if l.Labels[at] > 0 {
					values = append(values, value(v, at))
				}
			}
		}
	}
	if len(values) == 0 {
		return
	}
	slices.Sort(values)
	mean, square := 0.0, 0.0
	for _, x := range values {
		mean += x
		square += x * x
	}
	n := float64(len(values))
	f.mean, f.sq, f.cases = f.mean+mean/n, f.sq+square/n, f.cases+1
	if first, last := values[0], values[len(values)-1]; f.cases == 1 {
		f.min, f.max = first, last
	} else {
		f.min, f.max = min(f.min, first), max(f.max, last)
	}
	count := min(len(values), kept)
	for k := range count {
		f.quantiles = append(f.quantiles, values[(2*k+1)*len(values)/(2*count)])
		f.weights = append(f.weights, 1/float64(count))
	}
}

// intensities are the statistics of all cases.
func (f *foreground) intensities() (Intensities, error) {
	if f.cases == 0 {
		return Intensities{}, errors.New("no voxel of any scan is labelled")
	}
	order := make([]int, len(f.quantiles))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int {
		switch x, y := f.quantiles[a], f.quantiles[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	percentile := func(p float64) float64 {
		wanted, sum := p/100*f.cases, 0.0
		for _, n := range order {
			if sum += f.weights[n]; sum >= wanted {
				return f.quantiles[n]
			}
		}
		return f.max
	}
	mean := f.mean / f.cases
	return Intensities{Max: f.max, Min: f.min, Mean: mean, SD: math.Sqrt(max(f.sq/f.cases-mean*mean, 0)),
		Median: percentile(50), Low: percentile(0.5), High: percentile(99.5)}, nil
}

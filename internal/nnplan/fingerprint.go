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
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/fingerprint"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// A Fingerprint is what nnU-Net's planner goes by.
type Fingerprint struct {
	Name      string       // of the data set's folder
	Spacings  [][3]float64 // of the labelled cases along (i, j, k), as they are read, mm
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
	Intensities planning.Intensities // of labelled voxels, each case counted alike
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

// readers are those of nnU-Net whose files are read here, and whether they turn the axes to RAS.
var readers = map[string]bool{"SimpleITKIO": false, "NibabelIO": false, "NibabelIOWithReorient": true}

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
	if _, known := readers[f.FileReads]; !known {
		return nil, fmt.Errorf("%s: overwrite_image_reader_writer %s is not known here, only %s", path, f.FileReads,
			strings.Join(slices.Sorted(maps.Keys(readers)), ", "))
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
	sums := make([]fingerprint.Foreground, len(f.Channels))
	var relative []float64
	for n, c := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, l, err := c.ReadQuietly(o, d.LabelNames)
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
		look, err := fingerprint.LookAt(channels, l)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		box := v.Grid
		if box.Shape = look.Nonzero.Size; readers[f.FileReads] {
			if box, err = box.Oriented("RAS"); err != nil {
				return fmt.Errorf("%s: %w", c.ID, err)
			}
		}
		f.Spacings, f.Shapes = append(f.Spacings, box.Spacing()), append(f.Shapes, box.Shape)
		relative = append(relative, look.Nonzero.Share())
		for k, values := range look.Values {
			sums[k].Add(values)
		}
		if told != nil {
			told(n+1, len(cases))
		}
	}
	slices.Sort(relative)
	f.Relative = (relative[(len(relative)-1)/2] + relative[len(relative)/2]) / 2
	for k := range sums {
		var err error
		if f.Channels[k].Intensities, err = sums[k].Intensities(); err != nil {
			return err
		}
	}
	return nil
}

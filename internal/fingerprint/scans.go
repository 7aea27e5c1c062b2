package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// This file: the fingerprint of scans that are not prepared.

// of is what is known of a set of scans without reading any.
func of(d *dataset.Dataset, how volume.Preparation) planning.Fingerprint {
	return planning.Fingerprint{Modality: how.ModalityName(), Intensity: how.Scheme(), Channels: max(how.Inputs(), 1),
		ChannelNames: how.Channels, Names: d.LabelNames, Window: how.Window}
}

// forTraining are the cases that the data set does not hold back for testing.
func forTraining(d *dataset.Dataset) []dataset.Case {
	return slices.DeleteFunc(slices.Clone(d.Cases), func(c dataset.Case) bool { return c.Group != "" })
}

// OfScans reads all scans that may be trained on, which are prepared as said but for what is cut
// out of them. told hears of each, of so many. A scan that cannot be read, or that is too large for
// the memory, is left out, and left says which and why; that none is left is an error.
func OfScans(ctx context.Context, d *dataset.Dataset, how volume.Preparation, o dataset.ReadOptions,
	told func(done, of int)) (f planning.Fingerprint, left []error, err error) {
	f = of(d, how)
	s := summing{of: &f, how: how, channels: make([]Foreground, f.Channels)}
	cases := forTraining(d)
	for n, c := range cases {
		if err := ctx.Err(); err != nil {
			return f, left, err
		}
		if err := s.read(d, c, o); err != nil {
			left = append(left, fmt.Errorf("%s: %w", c.ID, err))
		}
		told(n+1, len(cases))
	}
	if len(f.Scans) == 0 {
		return f, left, errors.Join(append([]error{errors.New("no scan could be read")}, left...)...)
	}
	s.finish("values of the scans")
	return f, left, nil
}

// summing makes a fingerprint of one scan after another.
type summing struct {
	of       *planning.Fingerprint
	how      volume.Preparation
	channels []Foreground
}

// read reads a scan, and adds it.
func (s *summing) read(d *dataset.Dataset, c dataset.Case, o dataset.ReadOptions) error {
	c = c.Located()
	if need, known := c.Memory(s.how); known && need > memory.Allowed() {
		return hint.ShortOfMemory(fmt.Errorf("takes %d MiB of memory, and there are %d", need>>20,
			memory.Allowed()>>20))
	}
	v, l, err := c.ReadQuietly(o, d.LabelNames)
	if err != nil {
		return err
	}
	more, _, err := c.ReadMore(v.Grid, o)
	if err != nil {
		return err
	}
	if err := d.CheckModality(c, s.how, append([]*volume.Volume{v}, more...)...); err != nil {
		return err // as where it is prepared
	}
	if l != nil {
		own := volume.Preparation{Axcodes: v.Axcodes()} // onto the voxels of the scan
		if l, err = own.ApplyLabels(l, v.Whole()); err != nil {
			return err
		}
	}
	channels := append([]*volume.Volume{v}, more...)
	if len(channels) != len(s.channels) {
		return fmt.Errorf("it has %d channels, others have %d", len(channels), len(s.channels))
	}
	look, err := LookAt(channels, l)
	if err != nil {
		return err
	}
	whole, err := v.Grid.Oriented(s.how.Axcodes)
	if err != nil {
		return err
	}
	how := s.how
	if how.Crop != volume.CropNonzero { // of a plan that somebody has brought
		how.Crop = volume.CropBody
	}
	body, err := how.Bounds(v, more...)
	if err != nil {
		return err
	}
	how.Crop = volume.CropAuto
	cut, err := how.Bounds(v, more...)
	if err != nil {
		return err
	}
	box, err := body.Grid().Oriented(s.how.Axcodes)
	if err != nil {
		return err
	}
	s.add(planning.Scan{Spacing: whole.Spacing(), Shape: whole.Shape, Whole: whole.Shape, Labels: l != nil,
		Body: box.Shape, Cut: !cut.IsWhole()}, look.Counts, volumeOf(whole.Spacing()), look.Values)
	if l != nil {
		for label, name := range l.Names {
			s.name(label, name)
		}
	}
	return nil
}

// add adds a scan, whose labels have so many voxels of so many millilitres.
func (s *summing) add(scan planning.Scan, counts map[uint16]int, each float64, values []Values) {
	if len(counts) > 0 {
		scan.Millilitres = map[uint16]float64{}
	}
	for label, n := range counts {
		scan.Millilitres[label] = float64(n) * each
	}
	s.of.Scans = append(s.of.Scans, scan)
	for n, v := range values {
		s.channels[n].Add(v)
	}
}

// name names a label that has no name yet.
func (s *summing) name(label uint16, name string) {
	if s.of.Names[label] == "" && name != "" {
		names := map[uint16]string{label: name}
		maps.Copy(names, s.of.Names)
		names[label] = name
		s.of.Names = names
	}
}

// finish counts the classes, and sums the intensities up.
func (s *summing) finish(values string) {
	s.of.Classes = 1 + len(learnt(*s.of))
	s.of.Values = "none: no voxel is labelled"
	names := s.how.ChannelNames()
	for n := range s.channels {
		i, err := s.channels[n].Intensities()
		if err != nil {
			return
		}
		s.of.Under = append(s.of.Under, planning.Channel{Name: names[min(n, len(names)-1)], Intensities: i})
	}
	s.of.Values = values
	s.of.Within = s.channels[0].Share(s.of.Window[0], s.of.Window[1])
}

// learnt are the labels that a training learns where nobody chooses some: those that have a name,
// and those that a scan has, but for the ones that are left out of it.
func learnt(f planning.Fingerprint) map[uint16]bool {
	labels := map[uint16]bool{}
	for label := range f.Names {
		labels[label] = true
	}
	for _, scan := range f.Scans {
		for label := range scan.Millilitres {
			labels[label] = true
		}
	}
	delete(labels, 0)
	for _, label := range volume.IgnoredLabels(f.Names) {
		delete(labels, label)
	}
	return labels
}

// volumeOf is the volume of a voxel in millilitres.
func volumeOf(spacing [3]float64) float64 { return spacing[0] * spacing[1] * spacing[2] / 1000 }

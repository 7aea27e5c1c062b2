package dataset

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: files of voxels that hold labels, in one volume or in several.

// readLabelFile reads the labels that a file of voxels holds, by the one rule of all that reads
// labels: one volume of whole numbers (see [volume.ToLabel]), or several, each a label or a layer
// of segments. Labels of several volumes that have no name in the file take those given. Notes say
// what was made of the volumes; what is odd about the file goes to note, which may be nil.
func readLabelFile(path string, o ReadOptions, names map[uint16]string, note func(string)) (
	l *volume.LabelMap, notes []string, err error) {
	h, err := format.ReadHeader(path)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(h.Segments) > 0:
		return readSegments(path, h, o, note)
	case h.Volumes > 1:
		return readOneHot(path, o, names, note)
	}
	l, err = format.ReadLabels(path, o.format(0, note))
	return l, nil, err
}

// firstVolume is the label of the first of several volumes of one label each, by the names of the
// labels, which are the same for all cases of a set: 0, the background, where there is one volume
// more than labels, 1 where there are as many. Other names, or none, do not tell.
func firstVolume(volumes int, names map[uint16]string) (label uint16, told bool) {
	last := 0
	for label := range names {
		last = max(last, int(label))
	}
	switch {
	case last > 0 && volumes == last+1:
		return 0, true
	case last > 0 && volumes == last:
		return 1, true
	}
	return 0, false
}

// A firstVolumeError is that of a file whose first volume may be the background, or a label.
type firstVolumeError struct{ volume.UnsupportedError }

func (e *firstVolumeError) Unwrap() error { return &e.UnsupportedError }

// firstOf is [firstVolume] by the voxels: the background where each voxel belongs to exactly one
// volume (whole), of which sum is how many it belongs to; otherwise label 1, unless it has most of
// the voxels, as a background has.
func firstOf(path string, masks []*volume.LabelMap, sum []uint16, whole bool) (uint16, error) {
	if whole {
		return 0, nil
	}
	if most := masks[0].Counts()[1]; 2*most > masks[0].Len() {
		outside := 0
		for _, n := range sum {
			if n != 1 {
				outside++
			}
		}
		return 0, &firstVolumeError{volume.UnsupportedError{Path: path,
			Problem: fmt.Sprintf("holds %d volumes, the first of them with most of the voxels, as the "+
				"background, but %s in none of them or in several: name the labels in dataset.json, which tells "+
				"by their number, or write one volume of numbers", len(masks), numbers.Count(outside, "voxel"))}}
	}
	return 1, nil
}

// readOneHot reads a file with a volume for each label. Which label the first is, the names tell
// ([firstVolume]), or else the voxels ([firstOf]).
func readOneHot(path string, o ReadOptions, names map[uint16]string, note func(string)) (
	*volume.LabelMap, []string, error) {
	volumes, err := format.ReadAll(path, o.format(0, note))
	if err != nil {
		return nil, nil, err
	}
	sum := make([]uint16, volumes[0].Len())
	masks := make([]*volume.LabelMap, len(volumes))
	for n, v := range volumes {
		l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
		for i := range l.Labels {
			x := v.At(i%v.Shape[0], i/v.Shape[0]%v.Shape[1], i/v.Shape[0]/v.Shape[1])
			inside, ok := volume.ToLabel(float64(x))
			if !ok || inside > 1 {
				return nil, nil, &volume.UnsupportedError{Path: path,
					Problem: fmt.Sprintf("holds %d volumes, and %g: labels are one volume of "+
						"numbers, or a volume of 0 and 1 for each label", len(volumes), x)}
			}
			l.Labels[i] = inside
			sum[i] += inside
		}
		masks[n] = l
	}
	first, told := firstVolume(len(volumes), names)
	if whole := !slices.ContainsFunc(sum, func(n uint16) bool { return n != 1 }); !told {
		if first, err = firstOf(path, masks, sum, whole); err != nil {
			return nil, nil, err
		}
	} else if whole && first == 1 && 2*masks[0].Counts()[1] > masks[0].Len() {
		return nil, nil, &firstVolumeError{volume.UnsupportedError{Path: path, Problem: fmt.Sprintf(
			"holds %d volumes that share out all voxels, the first of them with most, as the background, and there "+
				"are as many names of labels: name those alone that have a volume", len(masks))}}
	}
	background := ""
	if first == 0 {
		background = ", the first of them the background"
	}
	all := layers{rule: o.Overlap}
	for n, l := range masks {
		label := first + uint16(n)
		name := names[label]
		if name == "" {
			name = fmt.Sprintf("volume %d", n+1)
		}
		if err := all.add(Mask{Path: path, Name: name, Label: label}, l); err != nil {
			return nil, nil, err
		}
	}
	l, notes, err := all.done(o)
	if err != nil {
		return nil, nil, err
	}
	l.Names = maps.Clone(names)
	return l, append(notes, fmt.Sprintf("%s: %s of one label each%s",
		filepath.Base(path), numbers.Count(len(volumes), "volume"), background)), nil
}

// readSegments reads a segmentation of 3D Slicer whose segments lie in several layers. Every value
// of a layer must be a segment's.
func readSegments(path string, h *format.Header, o ReadOptions, note func(string)) (*volume.LabelMap, []string, error) {
	all := layers{rule: o.Overlap}
	for layer := range h.Volumes {
		l, err := format.ReadLabels(path, o.format(layer+1, note))
		if err != nil {
			return nil, nil, err
		}
		counts := l.Counts()
		delete(counts, 0)
		for _, s := range h.Segments {
			if s.Layer != layer {
				continue
			}
			mask := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
			for n, value := range l.Labels {
				if value == s.Value {
					mask.Labels[n] = 1
				}
			}
			delete(counts, s.Value)
			name := s.Name
			if name == "" {
				name = fmt.Sprintf("label %d", s.Label)
			}
			if err := all.add(Mask{Path: path, Name: name, Label: s.Label}, mask); err != nil {
				return nil, nil, err
			}
		}
		if strange := slices.Sorted(maps.Keys(counts)); len(strange) > 0 {
			return nil, nil, &volume.FormatError{Path: path, Problem: fmt.Sprintf("holds %d in its layer %d (%s), "+
				"which is the LabelValue of no segment there: save it again with 3D Slicer",
				strange[0], layer, numbers.Count(counts[strange[0]], "voxel"))}
		}
	}
	l, notes, err := all.done(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	l.Names = maps.Clone(h.Names)
	return l, append(notes, fmt.Sprintf("%s: %s in %d layers",
		filepath.Base(path), numbers.Count(len(h.Segments), "segment"), h.Volumes)), nil
}

// isMask reports whether a file holds one label beside the background.
func isMask(path string) bool {
	if labels, err := format.MayBeLabels(path, format.Options{}); err != nil || !labels {
		return false
	}
	l, err := format.ReadLabels(path, format.Options{})
	return err == nil && len(l.Counts()) <= 2
}

// holdsSeveral reports whether a file holds several labels beside the background.
func holdsSeveral(path string) bool {
	l, _, err := readLabelFile(path, ReadOptions{Overlap: dicom.OverlapLast}, nil, nil)
	_, untold := errors.AsType[*firstVolumeError](err)
	return untold || err == nil && len(l.Counts()) > 2
}

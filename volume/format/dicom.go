package format

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file: DICOM, whose files are known by what is in them. A scan is a series of many files, of
// which any, or their folder, is the path. Objects are labels: see object.go.

// registerDICOM adds the three. Folders are series, so these come last.
func registerDICOM() {
	Register(Format{
		Name: "DICOM " + dicom.WhatSEG, Match: dicom.IsSegmentation, Header: segmentationHeader,
		Read: valuesOfLabels, Labels: labelsOfObject, MayBeLabels: areLabels,
	})
	Register(Format{
		Name: "DICOM " + dicom.WhatRTSTRUCT, Match: dicom.IsStructureSet, Header: structuresHeader,
		Read: valuesOfLabels, Labels: labelsOfObject, MayBeLabels: areLabels,
	})
	Register(Format{
		Name: "DICOM", Match: mayBeSeries, Header: seriesHeader,
		Read: readSeries, Labels: labelsOfSeries,
	})
}

// mayBeSeries says whether a path is a folder, or a file that is DICOM.
func mayBeSeries(path string) bool {
	stat, err := os.Stat(path)
	if err != nil || stat.IsDir() {
		return err == nil
	}
	series, passed, err := dicom.Scan(path)
	return err == nil && (len(series) > 0 || len(passed) > 0 && passed[0].What != dicom.NotDICOM)
}

// OfSeries is the header of a series that somebody has chosen.
func OfSeries(s *dicom.Series) *Header {
	return &Header{Grid: s.Grid, Path: s.Files[0], Volumes: 1, VoxelBytes: 4, Dims: s.Grid.Shape[:], Kind: "DICOM",
		Datatype: "int16 or float32", Problems: s.Problems, Own: s, format: &Format{Name: "DICOM", Read: readSeries}}
}

// chosen is the series below a path that [dicom.Choose] takes, and why; "" where it is the only
// one.
func chosen(path string) (s *dicom.Series, why string, err error) {
	all, passed, err := dicom.Scan(path)
	if err != nil {
		return nil, "", err
	}
	if len(all) == 0 {
		for _, p := range passed {
			if p.Err != nil {
				return nil, "", p.Err
			}
		}
		return nil, "", &volume.UnsupportedError{Path: path, Problem: "holds no DICOM images"}
	}
	s, why, err = dicom.Choose(all, "")
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 1 {
		why = ""
	}
	return s, why, nil
}

func seriesHeader(path string) (*Header, error) {
	s, why, err := chosen(path)
	if err == nil {
		err = s.Err
	}
	if err != nil {
		return nil, err
	}
	h := OfSeries(s)
	if why != "" {
		h.Problems = append(slices.Clone(h.Problems), fmt.Sprintf("%s: %s", s, why))
	}
	return h, nil
}

func readSeries(h *Header, o Options) (*volume.Volume, error) {
	if o.Volume > 1 {
		return nil, fmt.Errorf("%s: a series has one volume, and no number %d", h.Path, o.Volume)
	}
	s := h.Own.(*dicom.Series)
	for _, problem := range h.Problems { // ReadWith tells those of the series itself
		if o.Note != nil && !slices.Contains(s.Problems, problem) {
			o.Note(problem)
		}
	}
	return dicom.ReadWith(s, o.dicom())
}

// labelsOfSeries reads images whose values are labels.
func labelsOfSeries(path string, o Options) (*volume.LabelMap, error) {
	v, err := Read(path, o)
	if err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
	for n := range l.Labels {
		x := v.At(n%v.Shape[0], n/v.Shape[0]%v.Shape[1], n/v.Shape[0]/v.Shape[1])
		label, ok := volume.ToLabel(float64(x))
		if !ok {
			return nil, &volume.UnsupportedError{Path: path, Problem: fmt.Sprintf("holds no labels, but %g", x)}
		}
		l.Labels[n] = label
	}
	return l, nil
}

func areLabels(path string, _ Options) (bool, error) {
	_, err := OpenObject(path)
	return err == nil, err
}

func segmentationHeader(path string) (*Header, error) {
	g, err := OpenObject(path)
	if err != nil {
		return nil, err
	}
	grid, err := g.Segmentation.Grid()
	if err != nil {
		return nil, err
	}
	return g.header(grid, strings.ToLower(g.Segmentation.Kind), g.Names()), nil
}

// structuresHeader has the grid of the series that contours lie on.
func structuresHeader(path string) (*Header, error) {
	g, err := OpenObject(path)
	if err != nil {
		return nil, err
	}
	s, err := g.beside()
	if err == nil {
		err = s.Err
	}
	if err != nil {
		return nil, err
	}
	return g.header(s.Grid, "contours", g.Names()), nil
}

func (g Object) header(grid volume.Grid, datatype string, names map[uint16]string) *Header {
	return &Header{Grid: grid, Path: g.Path, Volumes: 1, VoxelBytes: 4, Dims: grid.Shape[:], Kind: g.Kind(),
		Datatype: datatype, Names: names, Own: g}
}

// places are the folders in which the series of a file is looked for: its own, and the one around
// that, unless it is the root, which is all that the machine has.
func places(path string) ([]string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	around := filepath.Dir(folder)
	if filepath.Dir(around) == around {
		return []string{folder}, nil
	}
	return []string{folder, around}, nil
}

// beside is the series that an object was drawn on, where that lies in one of its [places].
func (g Object) beside() (*dicom.Series, error) {
	folders, err := places(g.Path)
	if err != nil {
		return nil, err
	}
	var several error // what the folder around has may decide
	for _, folder := range folders {
		all, _, err := dicom.Scan(folder)
		if err != nil {
			return nil, err
		}
		if s := g.Find(all); s != nil {
			return s, nil
		}
		if len(g.Candidates(all)) > 1 {
			several = fmt.Errorf("%s: %s", g.Path, g.NotFound(all))
		}
	}
	if several != nil {
		return nil, several
	}
	if len(folders) == 1 {
		return nil, fmt.Errorf("%s: the series that it refers to is not in its folder%s", g.Path, g.DrawnOn())
	}
	return nil, fmt.Errorf("%s: the series that it refers to is neither in its folder nor in the one around%s", g.Path,
		g.DrawnOn())
}

// labelsOfObject reads a SEG object on the smallest grid that holds its frames, and contours on
// their series.
func labelsOfObject(path string, o Options) (*volume.LabelMap, error) {
	if o.Volume > 1 {
		return nil, fmt.Errorf("%s: it has one volume, and no number %d", path, o.Volume)
	}
	g, err := OpenObject(path)
	if err != nil {
		return nil, err
	}
	if g.Structures == nil {
		return g.Segmentation.Read(o.dicom())
	}
	s, err := g.beside()
	if err != nil {
		return nil, err
	}
	return g.ReadOn(s, o.dicom())
}

// valuesOfLabels is the labels of an object as the values of a volume.
func valuesOfLabels(h *Header, o Options) (*volume.Volume, error) {
	l, err := labelsOfObject(h.Path, o)
	if err != nil {
		return nil, err
	}
	v := &volume.Volume{Grid: l.Grid, Float32: make([]float32, len(l.Labels))}
	for n, label := range l.Labels {
		v.Float32[n] = float32(label)
	}
	return v, nil
}

// dicom are the options that concern DICOM.
func (o Options) dicom() dicom.Options {
	return dicom.Options{Tilt: o.Tilt, Gaps: o.Gaps, Overlap: o.Overlap, SUV: o.SUV, Note: o.Note}
}

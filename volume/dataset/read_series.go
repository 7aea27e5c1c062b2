package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: the DICOM series that a case is.

// seriesUID names a series, also where one SeriesInstanceUID holds several volumes: UID#1, UID#2.
func seriesUID(s *dicom.Series) string {
	if s.Part > 0 {
		return fmt.Sprintf("%s#%d", s.UID, s.Part)
	}
	return s.UID
}

// nameOf is what --series takes for a series and for no other of its study.
func nameOf(s *dicom.Series, all []*dicom.Series) string {
	switch {
	case s.UID != "" && slices.ContainsFunc(all, s.SharesNumber):
		return seriesUID(s)
	case s.Part > 0:
		return fmt.Sprintf("%s.%d", s.Number, s.Part)
	}
	return s.Number
}

// elsewhere reports whether two series lie in different folders and different frames of reference.
// If their studies have one UID, they are of different patients who were given the same UID.
func elsewhere(a, b *dicom.Series) bool {
	return !a.SameSpace(b) && commonFolder(a.Files) != commonFolder(b.Files)
}

// mayBeSlice matches names that images have: .dcm, a number without an extension, or a UID. A file
// with such a name that is not DICOM, perhaps because it is empty, may be a slice that is missing.
var mayBeSlice = regexp.MustCompile(`(?i)^([^.]*[0-9][^.]*|.*\.dcm|[0-9.]+)$`)

// passedOver describes DICOM files that are no images, those of one kind in one folder together:
// the first is named.
func passedOver(passed []dicom.Passed) (lines []string) {
	type kind struct{ folder, what string }
	counts, first := map[kind]int{}, map[kind]string{}
	var kinds []kind
	for _, p := range passed {
		if p.What == dicom.NotDICOM && !mayBeSlice.MatchString(filepath.Base(p.Path)) {
			continue // anything may lie in a folder of scans
		}
		if p.Archive && archiveKinds[strings.TrimPrefix(strings.ToLower(filepath.Ext(p.Path)), ".")] {
			continue // counted by its extension
		}
		k := kind{filepath.Dir(p.Path), describe(p)}
		if counts[k]++; counts[k] == 1 {
			kinds, first[k] = append(kinds, k), p.Path
		}
	}
	for _, k := range kinds {
		if counts[k] == 1 {
			lines = append(lines, fmt.Sprintf("%s: passed over: %s", first[k], k.what))
		} else {
			lines = append(lines, fmt.Sprintf("%s: passed over %d files, %s and more: %s", k.folder, counts[k],
				filepath.Base(first[k]), k.what))
		}
	}
	return lines
}

// listed is the folder whose files a DICOMDIR lists, and any other path itself.
func listed(path string) string {
	if strings.EqualFold(filepath.Base(path), "DICOMDIR") && isFile(path) {
		return filepath.Dir(path)
	}
	return path
}

// scanDICOM looks at a file, or at the files of a folder but for those that are NIfTI, NRRD or
// MetaImage by their names, and at further ones. A DICOMDIR stands for the folder that it lists.
func scanDICOM(path string, more ...string) ([]*dicom.Series, []dicom.Passed, error) {
	path = listed(path)
	return dicom.ScanOnly(func(file string) bool { return file == path || !format.IsName(file) },
		append([]string{path}, more...)...)
}

func describe(p dicom.Passed) string {
	if errors.Is(p.Err, fs.ErrNotExist) {
		return standin.Link(p.Path)
	}
	if p.Err != nil {
		return withoutPath(p.Err.Error(), p.Path)
	}
	return cmp.Or(p.StandsIn, p.What)
}

// chooseSeries scans a file or folder, and further ones, for the wanted series, or takes what
// package dicom's Choose takes.
func chooseSeries(wanted, path string, more ...string) (*dicom.Series, string, error) {
	all, passed, err := scanDICOM(path, more...)
	if err != nil {
		return nil, "", err
	}
	if len(all) == 0 {
		for _, p := range passed {
			if p.Err != nil {
				return nil, "", p.Err
			}
		}
		problem := "holds no scan: a NIfTI file or DICOM images are looked for"
		if len(passed) == 1 && passed[0].Path == path {
			if p := passed[0]; p.StandsIn != "" {
				problem = p.StandsIn
			} else if p.What != dicom.NotDICOM {
				problem = "is no scan, but " + p.What
			}
		}
		return nil, "", &volume.UnsupportedError{Path: path, Problem: problem}
	}
	s, why, err := dicom.Choose(all, wanted)
	if err != nil {
		return nil, "", named(path, err)
	}
	if len(all) == 1 {
		why = ""
	}
	return s, why, nil
}

// DICOM returns the series that the case's image is. It fails where it is something else.
func (c Case) DICOM() (*dicom.Series, error) {
	s, _, err := c.findSeries()
	return s, err
}

// findSeries also says why it was chosen, "" where there was no choice.
func (c Case) findSeries() (s *dicom.Series, why string, err error) {
	switch {
	case c.refused != nil:
		return nil, "", c.refused
	case c.series != nil:
		return c.series, c.why, nil
	case !c.IsDICOM():
		return nil, "", fmt.Errorf("%s is not DICOM", c.Image)
	}
	s, why, err = chooseSeries(c.Series, c.Image)
	if c.Series != "" {
		why = ""
	}
	return s, why, err
}

// IsDICOM says whether the case's image is a DICOM series, and no NIfTI file.
func (c Case) IsDICOM() bool {
	stat, err := os.Stat(c.Image)
	return err == nil && (stat.IsDir() || !format.IsName(c.Image))
}

// byInstance puts the slices of an array, which count by InstanceNumber, in the order of the
// series. It fails where the numbers do not say which slice is meant.
func byInstance(s *dicom.Series, labels []uint16) ([]uint16, error) {
	area := s.Shape[0] * s.Shape[1]
	if len(s.Instances) != s.Shape[2] {
		return nil, fmt.Errorf("%s holds several images: labels that count slices by "+
			"instance number cannot be told where they belong", s.Files[0])
	}
	order := make([]int, len(s.Instances)) // the slices, by number
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return s.Instances[a] - s.Instances[b] })
	for z := 1; z < len(order); z++ {
		a, b := order[z-1], order[z]
		switch x, y := s.Instances[a], s.Instances[b]; {
		case x == y && x == 0:
			return nil, fmt.Errorf("%s and %s have no instance number, by which the labels count the slices",
				s.Files[a], s.Files[b])
		case x == y:
			return nil, fmt.Errorf("%s and %s have the instance number %d both, by which the labels count the slices",
				s.Files[a], s.Files[b], x)
		case s.Instances[order[0]] == 0 && y != z: // 0 is a number only where all follow it
			return nil, fmt.Errorf("%s has no instance number, by which the labels count the slices", s.Files[order[0]])
		}
	}
	stack := make([]uint16, len(labels))
	for z, k := range order {
		copy(stack[k*area:][:area], labels[z*area:])
	}
	return stack, nil
}

// Modality is what the case is, as far as that is known without reading its voxels.
func (c Case) Modality() Modality {
	if c.modality.Name != "" || c.refused != nil || !c.IsDICOM() && c.series == nil {
		return c.modality
	}
	s := c.series
	if s == nil {
		var err error
		if s, err = c.DICOM(); err != nil {
			return Modality{}
		}
	}
	if len(s.Modality) != 2 || s.Modality == "OT" { // there is none, or another
		return Modality{}
	}
	return Modality{s.Modality, "DICOM header", true}
}

// AsStored is the case for models that take voxels as nnU-Net does: of channels of one shape and
// spacing whose headers lie less than a quarter of a voxel apart, those of one index are of one
// place, and nothing stands for voxels that are no numbers.
func (c Case) AsStored() Case {
	c.asStored = true
	return c
}

// TakenFor is the case as one of a modality, where nobody says what it is.
func (c Case) TakenFor(modality string) Case {
	if c.Modality().Name == "" {
		c.modality = Modality{Name: modality, By: "others"}
	}
	return c
}

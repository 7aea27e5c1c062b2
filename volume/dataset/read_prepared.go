package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: from a prepared case back to the DICOM series that it was read from.

// originRead is how an origin says what was done about slices that are no regular stack.
var originRead = regexp.MustCompile(`\{Tilt:(\S*) Gaps:(\S*) `)

// SeriesOf finds the DICOM series that a prepared case was read from, of several channels the
// first, with the options of its reading, for label maps on the voxels of the scan that refer to
// it. It is nil where the scan was no DICOM. It is read, and an error where it is gone or holds
// other voxels now.
func SeriesOf(r prepared.Record) (s *dicom.Series, how dicom.Options, err error) {
	c, err := madeFrom(r)
	if err != nil || c.series == nil {
		return nil, how, err
	}
	if parts := originRead.FindStringSubmatch(r.Origin); parts != nil {
		how.Tilt, how.Gaps = dicom.Tilt(parts[1]), dicom.Gaps(parts[2])
	}
	if err := c.series.Referable(); err != nil {
		return nil, how, err
	}
	for _, c.suv = range []bool{false, true} {
		if c.suv && c.series.Modality != volume.ModalityPT {
			break
		}
		v, _, err := c.ReadImage(ReadOptions{Tilt: how.Tilt, Gaps: how.Gaps})
		if err != nil {
			return nil, how, err
		}
		digest, err := v.Digest()
		if err != nil {
			return nil, how, err
		}
		if digest == r.Scan || r.Scan == "" && v.Shape == r.Original.Shape {
			return c.series, how, nil
		}
	}
	return nil, how, fmt.Errorf("%s holds other voxels than were prepared: run voxsaw prepare again", c.Image)
}

// madeFrom is the case that a prepared one was read from, of several channels the first, with its
// series where it was DICOM.
func madeFrom(r prepared.Record) (c Case, err error) {
	if len(r.Sources) == 0 {
		return c, nil
	}
	c.Image = r.Sources[0].Path
	stat, err := os.Stat(c.Image)
	if err != nil && !format.IsName(c.Image) {
		return c, err
	} else if err != nil || !c.IsDICOM() {
		return c, nil
	}
	if _, err := fmt.Sscanf(r.Origin, originOfImage, &c.Series, &c.Volume); err != nil {
		return c, fmt.Errorf("it is not recorded which series of %s was read: run voxsaw prepare again", c.Image)
	}
	paths := []string{c.Image}
	if !stat.IsDir() && c.Series != "" { // one of the files of a series
		paths = foldersOf(r.Sources)
	}
	c.series, _, err = chooseSeries(c.Series, paths[0], paths[1:]...)
	return c, err
}

// foldersOf are the folders that files lie in, the first one's first, but for those of voxels.
func foldersOf(files []prepared.Source) (paths []string) {
	for _, s := range files {
		folder := filepath.Dir(s.Path)
		if _, err := os.Stat(folder); err == nil && !format.IsName(s.Path) && !slices.Contains(paths, folder) {
			paths = append(paths, folder)
		}
	}
	return paths
}

package dataset

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what a case that was prepared would lose, were it prepared again.

// LostStructures lists the structures that a case was prepared with and that it has no mask of now,
// or that are merged into others now: the numbers that Relabel names are given to other masks
// where some are missing. Of labels that are numbers in one file nothing is known before they are
// read.
func (c Case) LostStructures(r prepared.Record, p volume.Preparation) (names []string) {
	if c.Masks == nil {
		return nil
	}
	there, left := map[string]bool{}, map[string]bool{}
	numbers := map[uint16]string{}
	for _, m := range c.Masks {
		there[safetext.Fold(m.Name)], numbers[m.Label] = true, m.Name
	}
	kept, err := p.RelabelNames(numbers)
	if err != nil {
		return nil // who prepares says so
	}
	for _, name := range kept {
		left[safetext.Fold(name)] = true
	}
	for _, name := range structuresIn(r.Origin) { // those merged into others, too
		if !there[safetext.Fold(name)] {
			names = append(names, name)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(r.LabelNames)) {
		name := r.LabelNames[label]
		if !left[safetext.Fold(name)] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// LostImage says by which other image of the same file or study that of a case would be replaced,
// though it is still there; "" where it would not be.
func (c Case) LostImage(r prepared.Record, paths []string) string {
	if len(r.Sources) == 0 {
		return ""
	}
	// another series may lie in the same folder
	if before := r.Sources[0]; !before.Among(append(slices.Clone(paths), absoluteOf(c.Image))) {
		if thereStill(before.Path) {
			return "the image (from another file now)"
		}
		return ""
	}
	var before Case
	if _, err := fmt.Sscanf(r.Origin, originOfImage, &before.Series, &before.Volume); err != nil {
		return "" // not known
	}
	switch was, now := max(before.Volume, 1), max(c.Volume, 1); {
	case before.Series == c.Series && was == now:
	case !c.IsDICOM():
		if was != now {
			return fmt.Sprintf("the image (volume %d there, %d now)", was, now)
		}
	case before.Series != c.Series && c.isOtherSeries(before.Series):
		return "the image (from another series of the study now)"
	}
	return ""
}

// isOtherSeries says whether a series that is still there is another one than the case's.
func (c Case) isOtherSeries(before string) bool {
	was, _, err := chooseSeries(before, c.Image)
	if err != nil {
		return false // its files have changed
	}
	now, err := c.DICOM()
	return err != nil || seriesUID(was) != seriesUID(now)
}

func thereStill(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Package grouping finds out which DICOM images together are one volume.
//
// Start at [Group]. Geometry goes first: the slices that look alike (matrix, orientation, pixel
// spacing) are one set, whatever their UIDs say. A set that stacks up as one series does is one
// volume (evidence.go). Only a set that does not is divided, by the series and then by what else
// names its slices, and what was divided and stacks up after all is put together again (divide.go).
// What lies in one place is divided by what tells volumes apart: acquisition, time, echo and so on
// (split.go). Images that are there twice count once (copies.go).
//
// The reason is that UIDs of studies, series and frames of reference are often replaced or dropped,
// file by file. So no UID can tear apart what stacks up. If images with different UIDs are taken
// for one volume, [Volume] says which UIDs differ.
package grouping

import (
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// Volume is the slices of one volume, sorted along their normal.
type Volume struct {
	Slices []stack.Slice
	// Merged names the UIDs in which the images of the volume differ, in words; "" if in none.
	Merged string
}

// look is what all slices of one volume must have in common, besides the orientation and spacing
// that [stack.Alike] compares.
type look struct {
	rows, columns               int
	located, localizer, colours bool
}

// stacks says whether slices of this look can be compared by where they lie.
func (l look) stacks() bool { return l.located && !l.localizer && !l.colours }

// alike is slices of one look, orientation and spacing.
type alike struct {
	look   look
	slices []stack.Slice
}

// Group makes volumes of images, which are in the order of their paths. Copies are files whose
// images are held by others as well.
func Group(images []*stack.Image) (volumes []Volume, copies []string) {
	for _, same := range looks(images) {
		sets := parted(same.slices, seriesOf)
		if same.look.stacks() {
			sortSlices(same.slices)
			sets = reunite(divide(same.slices))
		}
		for _, set := range sets {
			parts, twice := split(set)
			copies = append(copies, twice...)
			for _, part := range parts {
				volumes = append(volumes, Volume{Slices: part, Merged: merged(part)})
			}
		}
	}
	return volumes, copies
}

// looks divides the slices of images by what they look like.
func looks(images []*stack.Image) (all []*alike) {
	known := map[look][]*alike{}
	for _, im := range images {
		for _, s := range im.Slices() {
			l := look{rows: im.Rows, columns: im.Columns, located: s.Located(), localizer: s.Localizer(),
				colours: im.Samples != 1}
			if l.located {
				if _, _, normal, err := s.Axes(); err == nil {
					s.At = stack.Vector(s.Info.Position).Dot(normal)
				}
			}
			at := slices.IndexFunc(known[l], func(a *alike) bool { return stack.Alike(&a.slices[0], &s) })
			if at < 0 {
				at = len(known[l])
				a := &alike{look: l}
				known[l] = append(known[l], a)
				all = append(all, a)
			}
			a := known[l][at]
			a.slices = append(a.slices, s)
		}
	}
	return all
}

// Package grouping finds out which DICOM images together are one volume.
//
// Start at [Group]. Images that lie in parallel planes and have the same pixels go together if one
// series holds them, or if only together they stack up (join.go). What lies in one place is divided
// by what tells volumes apart: acquisition, time, echo and so on (split.go). Images that are there
// twice count once (copies.go).
//
// Geometry goes first, because UIDs of studies, series and frames of reference are often replaced
// or dropped, file by file. UIDs divide images only where these do not stack up. If images with
// different UIDs are taken for one volume, [Volume] says which UIDs differ.
package grouping

import (
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// Volume is the slices of one volume, sorted along their normal.
type Volume struct {
	Slices []stack.Slice
	// Merged names the UIDs in which the images of the volume differ, in words; "" if in none.
	Merged string
}

// class is what all slices of one volume must have in common, besides the orientation and spacing
// that [stack.Alike] compares.
type class struct {
	rows, columns               int
	located, localizer, colours bool
}

// series is what slices of one series have in common: its UID or, where there is none, the folder.
// Images that are anonymised too well have nothing else in common.
type series struct{ uid, folder string }

// piece is slices of one series that lie in parallel planes and have pixels of one kind.
type piece struct {
	class  class
	series series
	slices []stack.Slice
}

// Group makes volumes of images, which are in the order of their paths. Copies are files whose
// images are held by others as well.
func Group(images []*stack.Image) (volumes []Volume, copies []string) {
	for _, p := range join(pieces(images)) {
		parts, twice := split(p.slices)
		copies = append(copies, twice...)
		for _, part := range parts {
			volumes = append(volumes, Volume{Slices: part, Merged: merged(part)})
		}
	}
	return volumes, copies
}

// pieces divides the slices of images by series and by what they look like.
func pieces(images []*stack.Image) (all []*piece) {
	type key struct {
		class
		series
	}
	known := map[key][]*piece{}
	for _, im := range images {
		for _, s := range im.Slices() {
			k := key{
				class{rows: im.Rows, columns: im.Columns, located: s.Located(), localizer: s.Localizer(), colours: im.Samples != 1},
				series{uid: im.Series},
			}
			if im.Series == "" {
				k.folder = filepath.Dir(im.Path)
			}
			if k.located {
				if _, _, normal, err := s.Axes(); err == nil {
					s.At = stack.Vector(s.Info.Position).Dot(normal)
				}
			}
			at := slices.IndexFunc(known[k], func(p *piece) bool { return stack.Alike(&p.slices[0], &s) })
			if at < 0 {
				at = len(known[k])
				p := &piece{class: k.class, series: k.series}
				known[k] = append(known[k], p)
				all = append(all, p)
			}
			p := known[k][at]
			p.slices = append(p.slices, s)
		}
	}
	return all
}

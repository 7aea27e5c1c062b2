package dataset

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: one voxel size for a set of scans. It is chosen before the first of them is prepared,
// from the headers of all, so that every part of the set and every process choose the same; once
// cases are prepared in a folder, it is theirs.

// ChooseSpacing is the preparation with a number, or the scan's own, in the place of each
// [volume.Median]: that of the cases which dir holds already, unless force says that they may be
// replaced; else the median of the data set's scans along that axis, test cases among them, the
// mean of the middle two where their number is even. Scans whose headers cannot be read do not
// count. The note says what was chosen, and why; it is empty where there was nothing to choose.
func (d *Dataset) ChooseSpacing(dir string, p volume.Preparation, force bool) (_ volume.Preparation, note string,
	err error) {
	if !p.Choosing() {
		return p, "", nil
	}
	if before, found, err := prepared.Earlier(dir); err != nil {
		return p, "", err
	} else if found && !force {
		p = p.Choose(before.Spacing)
		return p,
			fmt.Sprintf("spacing: %s, as the cases that %s holds were prepared (--spacing median "+
				"with --force chooses one for all scans anew)", volume.SpacingText(p.Spacing), dir), nil
	}
	grids, err := d.grids(p.Axcodes)
	if err != nil || len(grids) == 0 { // who prepares the scans says what is wrong with them
		return p.Choose([3]float64{}), "", err
	}
	spacings := make([][3]float64, len(grids))
	for n, g := range grids {
		spacings[n] = g.Spacing()
	}
	p = p.Choose(volume.MedianSpacing(spacings))
	resampled := 0
	for _, g := range grids {
		to, err := g.Resampled(p.Spacing)
		if err != nil {
			return p, "", fmt.Errorf("the spacing of all scans: %w", err)
		}
		if to != g {
			resampled++
		}
	}
	of := strconv.Itoa(len(grids))
	if unread := len(d.Cases) - len(grids); unread > 0 {
		of += fmt.Sprintf(", but for %d whose header cannot be read", unread)
	}
	text := volume.SpacingText(p.Spacing)
	if resampled == 0 {
		return p, fmt.Sprintf("spacing: %s, the one of all scans (%s): none is resampled", text, of), nil
	}
	r := volume.RangeOf(slices.Values(spacings))
	return p,
		fmt.Sprintf("spacing: %s, the median of all scans (%s), which have %v; resampled to it: "+
			"%d (--spacing own keeps each scan's own)", text, of, r, resampled), nil
}

// grids are those of the scans, their axes turned as said, of all whose headers can be read.
func (d *Dataset) grids(axcodes string) ([]volume.Grid, error) {
	all, known := make([]volume.Grid, len(d.Cases)), make([]bool, len(d.Cases))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, c := range d.Cases {
		group.Go(func() (err error) {
			g, read := c.grid()
			if !read {
				return nil
			}
			all[n], err = g.Oriented(axcodes)
			known[n] = err == nil
			return nil // an affine that is no affine is an error of its case
		})
	}
	err := group.Wait()
	var grids []volume.Grid
	for n, g := range all {
		if known[n] {
			grids = append(grids, g)
		}
	}
	return grids, err
}

// grid is [Case.Extent] of a series whose files have to be looked at, too.
func (c Case) grid() (volume.Grid, bool) {
	if g, _, known := c.Extent(); known || c.series != nil || c.refused != nil || !c.IsDICOM() {
		return g, known
	}
	s, err := c.DICOM()
	if err != nil || s.Err != nil {
		return volume.Grid{}, false
	}
	return s.Grid, true
}

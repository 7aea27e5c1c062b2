package dataset

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: files that are no scans: masks, and fragments of scans.

// leaveOutMasks removes files from the scans that have no labels and look like labels themselves: a
// folder of predictions, or masks that are called by the organ alone.
func (d *Dataset) leaveOutMasks(p *pairing, volume int) {
	var unlabelled []string
	for key, scans := range p.scans {
		for _, c := range scans {
			if c.series == nil && p.labels[key] == nil {
				unlabelled = append(unlabelled, c.path)
			}
		}
	}
	slices.SortFunc(unlabelled, numbers.CompareNatural)
	masks := make([]bool, len(unlabelled))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, path := range unlabelled {
		group.Go(func() error {
			// What is wrong with a file is said where it is read.
			masks[n], _ = format.MayBeLabels(path, format.Options{Volume: volume})
			return nil
		})
	}
	_ = group.Wait() // no error is returned above
	isMask := map[string]bool{}
	for n, path := range unlabelled {
		if masks[n] {
			isMask[path] = true
			d.masks = append(d.masks, path)
			d.leaveOut(path, "%s: passed over: %s", path, maskNote)
		}
	}
	p.dropScans(func(c candidate) bool { return isMask[c.path] })
}

// leaveOutFragments removes files without labels that have one or two slices, where there are
// scans: a slice for trying out, a scout view. Those of DICOM were left out before.
func (d *Dataset) leaveOutFragments(p *pairing) {
	const least = 3 // voxels along each axis
	scans, fragments := 0, map[string]string{}
	for key := range p.scans {
		for _, c := range p.scans[key] {
			scans++
			if c.series != nil || p.labels[key] != nil || p.parts[key] != nil {
				continue
			}
			if h, err := format.ReadHeader(c.path); err == nil && slices.Min(h.Shape[:]) < least {
				fragments[c.path] = numbers.Extents(h.Shape[:])
			}
		}
	}
	if len(fragments) == scans {
		return
	}
	for _, path := range slices.SortedFunc(maps.Keys(fragments), numbers.CompareNatural) {
		d.PassedOver = append(d.PassedOver, fmt.Sprintf("%s: passed over: %s voxels are too few slices for a scan; "+
			"who gives the path of this file takes it", path, fragments[path]))
	}
	p.dropScans(func(c candidate) bool { return fragments[c.path] != "" })
}

const maskNote = "holds labels by its values, but its name says neither that nor of which scan; --pairs says of " +
	"which, --labels-as-scans takes it for a scan"

// dropPredicted removes predictions from what is to be paired.
func (p *pairing) dropPredicted(d *Dataset, o Options) {
	var paths []string
	for _, list := range p.labels {
		paths = append(paths, list...)
	}
	for _, list := range p.scans {
		for _, c := range list {
			if c.series == nil {
				paths = append(paths, c.path)
			}
		}
	}
	slices.SortFunc(paths, numbers.CompareNatural)
	dropped := d.dropPredicted(paths, o)
	p.dropLabels(func(path string) bool { return dropped[path] })
	p.dropScans(func(c candidate) bool { return dropped[c.path] })
}

package dataset

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: scans and labels whose names have something in common become cases.

// pair makes a case of each scan, with the labels of the same key.
func (d *Dataset) pair(p *pairing) {
	for _, key := range slices.Sorted(maps.Keys(p.parts)) {
		if masks := p.parts[key]; p.labels[key] != nil {
			d.Unused = append(d.Unused, maskPaths(masks)...)
			d.note("%s: passed over %s such as %s, because it has labels in one file, %s", p.scans[key][0].path,
				numbers.Count(len(masks), "mask"), masks[0].Path, p.labels[key][0])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		if len(p.scans[key]) > 1 {
			d.Unused = append(d.Unused, p.labels[key]...)
		}
		for _, scan := range p.scans[key] {
			c := scan.toCase(d.Channels)
			if scan.series != nil && scan.series.labels.Path != "" {
				if note := c.setObject(scan.series.labels, &p.structures); note != "" {
					d.note("%s", note)
				}
			}
			if scan.series != nil && scan.series.joined != nil {
				if note := c.setObjects(scan.series.joined, &p.structures); note != "" {
					d.note("%s", note)
				}
			}
			switch found := p.labels[key]; {
			case len(found) == 0 && p.parts[key] != nil:
				c.setMasks(p.parts[key])
			case len(p.scans[key]) > 1 && len(found) > 0:
				d.note("%s: used without labels, because %d scans could belong to %s: say with --pairs which does",
					c.Image, len(p.scans[key]), found[0])
			case len(found) == 1:
				if c.Labels != "" {
					d.note("%s: its labels are %s, not %s", c.Image, found[0], c.Labels)
				}
				c.withoutLabels()
				c.Labels = found[0]
			case len(found) > 1:
				d.Unused = append(d.Unused, found...)
				d.note("%s: used without labels, because it has %d files of them, %s, which may be of several "+
					"people: say with --pairs which to take (%s); where each is of one structure, call it after that",
					c.Image, len(found), safetext.List(found), p.pattern(c.Image, found[0]))
			}
			d.Cases = append(d.Cases, c)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		if p.scans[key] != nil {
			continue
		}
		for _, path := range p.labels[key] {
			d.withoutScan(path)
		}
	}
}

// pattern says how --pairs takes a file of labels for a scan: a pattern that serves for scans of
// other names, too, where the name of the scan, or of its folder, is in both paths.
func (p *pairing) pattern(scan, labels string) string {
	sides := [2]string{scan, labels}
	for n, file := range sides {
		if relative, err := filepath.Rel(p.root, file); err == nil {
			sides[n] = filepath.ToSlash(relative)
		}
	}
	if subject := bidsSubject.FindString(sides[0]); subject != "" &&
		strings.Count(sides[0], subject) == strings.Count(sides[1], subject) {
		return fmt.Sprintf("'%s=%s'", strings.ReplaceAll(sides[0], subject, "sub-*"),
			strings.ReplaceAll(sides[1], subject, "sub-*"))
	}
	stem, _ := format.Stem(path.Base(sides[0]))
	for _, name := range []string{stem, path.Base(sides[0]), path.Base(path.Dir(sides[0]))} {
		if name != "" && name != "." && strings.Contains(sides[1], name) {
			return fmt.Sprintf("'%s=%s'", strings.Replace(sides[0], name, "*", 1),
				strings.Replace(sides[1], name, "*", 1))
		}
	}
	return "a CSV file with the columns scan and labels"
}

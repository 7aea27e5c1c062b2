package dataset

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/volume/format"
)

// This file gives scans the labels that somebody names.

// applyPairs gives scans the labels that the pairs say, whatever their names are. It takes these
// files out of what is paired by name; what is left to do once there are cases is returned.
func (p *pairing) applyPairs(pairs []pair) (finish func(*Dataset) error) {
	named := map[string]bool{}
	for _, one := range pairs {
		named[absoluteOf(one.labels)] = true
	}
	p.dropLabels(func(path string) bool { return named[absoluteOf(path)] })
	p.dropScans(func(c candidate) bool { return named[absoluteOf(c.path)] })
	return func(d *Dataset) error {
		masks := map[int][]Mask{}
		for _, one := range pairs {
			at := slices.IndexFunc(d.Cases, func(c Case) bool { return absoluteOf(c.Image) == absoluteOf(one.scan) })
			if at < 0 && !isBelow(absoluteOf(one.scan), []string{absoluteOf(p.root)}) {
				continue // a scan of another folder
			}
			if at < 0 {
				return fmt.Errorf("pairs: %s is no scan that was found", one.scan)
			}
			c := &d.Cases[at]
			switch files, err := filesIn(one.labels); {
			case err != nil:
				return err
			case files != nil: // a folder of masks
				for _, path := range files {
					stem, _ := format.Stem(filepath.Base(path))
					masks[at] = append(masks[at], Mask{Path: path, Name: stem})
				}
			case one.name != "":
				masks[at] = append(masks[at], Mask{Path: one.labels, Name: one.name})
			case c.Labels != "" && slices.ContainsFunc(pairs,
				func(o pair) bool { return o != one && o.scan == one.scan }):
				return fmt.Errorf("pairs: %s has several files of labels: a "+
					"column name says of which structure each is", one.scan)
			case format.IsName(one.labels):
				c.withoutLabels()
				c.Labels = one.labels
			default:
				o, err := format.OpenObject(one.labels)
				if err != nil {
					return err
				}
				if note := c.setObject(o, &p.structures); note != "" {
					d.note("%s", note)
				}
			}
		}
		for at, list := range masks {
			if list = p.structures.choose(list); len(list) > 0 {
				d.Cases[at].setMasks(list)
			}
		}
		return nil
	}
}

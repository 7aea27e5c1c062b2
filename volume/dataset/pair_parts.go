package dataset

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/format"
)

// This file pairs scans with labels that lie in a file for each structure.

// prefixOf finds the scan whose key a longer key begins with: a/liver and a_liver begin with a. It
// returns the longest, and what is left.
func (p *pairing) prefixOf(key string) (scan, rest string, found bool) {
	for at := len(key) - 1; at > 0; at-- {
		if !strings.ContainsRune("/_-. ", rune(key[at])) {
			continue
		}
		if len(p.scans[key[:at]]) == 1 {
			return key[:at], key[at+1:], at+1 < len(key)
		}
	}
	// the folder itself is that of one scan
	return "", key, len(p.scans[""]) == 1 && key != ""
}

// findParts looks for labels of a scan that lie in a file for each structure: they belong to no
// scan by their whole names, but begin with the name or folder of one. A file whose name does not
// say that it is a mask must have the values of one.
func (p *pairing) findParts(values bool) {
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		if p.scans[key] != nil {
			continue
		}
		scan, rest, found := p.prefixOf(key)
		if !found {
			continue
		}
		var others []string
		for _, path := range p.labels[key] {
			if p.maybeOthers(key, scan, path) {
				others = append(others, path)
				continue
			}
			p.parts[scan] = append(p.parts[scan], Mask{Path: path, Name: rest})
		}
		if p.labels[key] = others; others == nil {
			delete(p.labels, key)
		}
	}
	if !values {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		scan, rest, found := p.prefixOf(key)
		if c := p.scans[key]; !found || len(c) != 1 || c[0].series != nil || c[0].name.bids != nil ||
			outputs.MatchString(rest) || p.labels[scan] != nil {
			continue
		}
		if path := p.scans[key][0].path; isMask(path) && !isMask(p.scans[scan][0].path) &&
			!p.maybeOthers(key, scan, path) {
			p.parts[scan] = append(p.parts[scan], Mask{Path: path, Name: rest})
			delete(p.scans, key)
		}
	}
}

// maybeOthers says whether a file that only its folder gives to a scan may be another scan's: there
// are others in that folder, and the file does not fill the box of this one.
func (p *pairing) maybeOthers(key, scan, path string) bool {
	if scan != "" && key[len(scan)] != '/' {
		return false // it is named after the scan
	}
	g, _, known := p.scans[scan][0].toCase(nil).Extent()
	h, err := format.ReadHeader(path)
	if !known || err != nil {
		return false // who reads them says what is wrong
	}
	if _, err := g.Match(h.Grid); err == nil {
		return false
	}
	for other, list := range p.scans {
		for _, c := range list {
			if other != scan && c.path != path && filepath.Dir(c.path) == filepath.Dir(path) && (c.series != nil ||
				!isMask(c.path)) {
				return true
			}
		}
	}
	return false
}

// besideMasks says whether a part of a scan lies beside a folder with other parts.
func besideMasks(m Mask, parts []Mask) bool {
	beside := filepath.Dir(m.Path) + string(filepath.Separator)
	return slices.ContainsFunc(parts, func(other Mask) bool {
		return strings.HasPrefix(filepath.Dir(other.Path), beside)
	})
}

// useParts turns the parts of a scan into its masks, or into its one file of labels. Files that
// name no structure could be of several people as well as of several structures: with more than
// one, the scan has too many files of labels. A file that puts the masks of a folder together is
// passed over.
func (d *Dataset) useParts(p *pairing) {
	for _, scan := range slices.Sorted(maps.Keys(p.parts)) {
		all := p.parts[scan]
		parts := slices.DeleteFunc(slices.Clone(all), func(m Mask) bool {
			together := besideMasks(m, all) && holdsSeveral(m.Path)
			if together {
				d.leaveOut(m.Path,
					"%s: passed over: it holds more than one structure, and lies beside a folder with a mask for each",
					m.Path)
			}
			return together
		})
		if slices.ContainsFunc(parts, func(m Mask) bool { return maybePeople(m.Name) }) ||
			len(parts) == 1 && !isMask(parts[0].Path) {
			delete(p.parts, scan)
			for _, m := range parts {
				p.labels[scan] = append(p.labels[scan], m.Path)
			}
			continue
		}
		if p.parts[scan] = p.structures.choose(parts); len(p.parts[scan]) == 0 {
			delete(p.parts, scan)
		}
	}
}

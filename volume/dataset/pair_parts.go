package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file pairs scans with labels that lie in several files.

// numberedWord is a word at the end of a name that has a number: c_seg1, p_img0001.
var numberedWord = regexp.MustCompile(`^(.*)[_\-. ]([\pL\p{Mn}]+)(\d+)$`)

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

// outputs are words in the names of files that a program has made: they are no reference.
var outputs = regexp.MustCompile(`(?i)(^|[_\-. /])(pred|preds|prediction|predictions|predicted|output|outputs|result|results|prob|probs)($|[_\-. /\d])`)

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
		if c := p.scans[key]; !found || len(c) != 1 || c[0].series != nil || c[0].name.bids != nil || outputs.MatchString(rest) || p.labels[scan] != nil {
			continue
		}
		if path := p.scans[key][0].path; isMask(path) && !isMask(p.scans[scan][0].path) && !p.maybeOthers(key, scan, path) {
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
	g, _, known := p.scans[scan][0].toCase().Extent()
	h, err := readFileHeader(path)
	if !known || err != nil {
		return false // who reads them says what is wrong
	}
	if _, err := g.Match(h.Grid); err == nil {
		return false
	}
	for other, list := range p.scans {
		for _, c := range list {
			if other != scan && c.path != path && filepath.Dir(c.path) == filepath.Dir(path) && (c.series != nil || !isMask(c.path)) {
				return true
			}
		}
	}
	return false
}

// isMask reports whether a file holds one label beside the background.
func isMask(path string) bool {
	if labels, err := mayBeLabels(path, nifti.Options{}); err != nil || !labels {
		return false
	}
	l, err := readFileLabels(path, nifti.Options{})
	return err == nil && len(l.Counts()) <= 2
}

// people are words for somebody who draws labels, with the number or letter that tells one from
// another.
var people = regexp.MustCompile(`(?i)^(rater|reader|observer|obs|annotator|expert|reviewer|radiologist)[_\-. ]?(\d+|[a-z])$`)

// maybePeople says whether what is left of the name of a file of labels names no structure: a
// number alone, as in c_seg1 and c_seg_1, or a person, as in c_rater1.
func maybePeople(rest string) bool {
	bare, _ := stripWords(rest)
	_, err := strconv.Atoi(bare)
	return err == nil || people.MatchString(bare)
}

// holdsSeveral reports whether a file holds several labels beside the background.
func holdsSeveral(path string) bool {
	l, _, err := readLabelFile(path, ReadOptions{Overlap: dicom.OverlapLast}, nil, nil)
	return err == nil && len(l.Counts()) > 2
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
				d.leaveOut(m.Path, "%s: passed over: it holds more than one structure, and lies beside a folder with a mask for each", m.Path)
			}
			return together
		})
		if slices.ContainsFunc(parts, func(m Mask) bool { return maybePeople(m.Name) }) || len(parts) == 1 && !isMask(parts[0].Path) {
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

// readLookup takes the names of labels from a table of BIDS, *_dseg.tsv, with the columns index and
// name. One number of two names is noted.
func (d *Dataset) readLookup(path string) error {
	text, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return err
	}
	rows, _, err := table(text, '\t')
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, row := range rows {
		label, err := strconv.ParseUint(row["index"], 10, 16)
		if name := row["name"]; err == nil && label > 0 && name != "" {
			if other := d.LabelNames[uint16(label)]; other != "" && safetext.Fold(other) != safetext.Fold(name) {
				return fmt.Errorf("%s: label %d is %q here and %q elsewhere: such cases must not be used together", path, label, name, other)
			}
			d.nameLabel(uint16(label), name)
		}
	}
	return nil
}

// separators are what may stand between the columns of a table that a person makes. Excel writes a
// semicolon where the comma is that of decimals.
var separators = []rune{',', ';', '\t'}

// table reads a file of columns with names, and the names. Of the separators that may stand between
// columns it takes the one that most often does so in the first line.
func table(text []byte, separators ...rune) (rows []map[string]string, header []string, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	first, _, _ := bytes.Cut(text, []byte("\n"))
	c := csv.NewReader(bytes.NewReader(text))
	c.Comma = slices.MaxFunc(separators, func(a, b rune) int {
		return bytes.Count(first, []byte(string(a))) - bytes.Count(first, []byte(string(b)))
	})
	c.LazyQuotes, c.TrimLeadingSpace, c.FieldsPerRecord = true, true, -1
	all, err := c.ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errors.New("is empty")
	}
	for _, name := range all[0] {
		header = append(header, strings.ToLower(strings.TrimSpace(name)))
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for n, cell := range cells[:min(len(cells), len(header))] {
			row[header[n]] = strings.TrimSpace(cell)
		}
		rows = append(rows, row)
	}
	return rows, header, nil
}

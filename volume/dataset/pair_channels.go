package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: files that are channels of one scan, where somebody has named the channels. The rules:
//
//   - A name of BIDS is of the channel whose words its contrast has: sub-01_T1w of T1w.
//   - Another name is of the channel that its last or first word is, or else a folder above it:
//     p1_CT, SUV/p1, p1/PET. What is left of the path says of which scan.
//   - nnU-Net's number at the end counts the channels: p1_0000, p1_0001, and so do those of a subject of
//     BIDS all of whose files end so: sub-01_0000.
//   - A file of as many volumes as there are channels is a scan by itself.
//   - A scan that has some channels and not all is refused by name; the others go on.

// channelFile is a file with the channel that it is, and the path that is left without it.
type channelFile struct {
	candidate
	channel int
}

// numberedBIDS takes the names of subjects all of whose files end in nnU-Net's number of a channel
// for other names than those of BIDS, where the number would be that of a run.
func (p *pairing) numberedBIDS() {
	runs := map[string]bool{} // subjects with a file that does not
	each := func(do func(c *candidate)) {
		for _, scans := range p.scans {
			for n := range scans {
				if scans[n].name.bids != nil {
					do(&scans[n])
				}
			}
		}
	}
	each(func(c *candidate) {
		stem, _ := format.Stem(c.path)
		if !channelSuffix.MatchString(stem) || c.name.bids.derivative {
			runs[c.name.bids.subject] = true
		}
	})
	each(func(c *candidate) {
		if !runs[c.name.bids.subject] {
			c.name.bids = nil
		}
	})
}

// joinChannels makes one scan of the files that are its channels. Files that are no channel, by
// their names and numbers of volumes, stay as they are.
func (p *pairing) joinChannels(names []string) error {
	groups := map[string][]channelFile{}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		for _, c := range p.scans[key] {
			if c.series != nil || c.channels != nil || c.refused != nil {
				continue
			}
			relative, err := filepath.Rel(p.root, c.path)
			if err != nil {
				return err
			}
			if n, rest, found := channelOf(filepath.ToSlash(relative), names); found && c.name.bids == nil {
				c.rest = rest
				groups[strings.ToLower(rest)] = append(groups[strings.ToLower(rest)], channelFile{c, n})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		group := groups[key]
		p.dropScans(func(c candidate) bool {
			return slices.ContainsFunc(group, func(f channelFile) bool { return f.path == c.path })
		})
		p.addJoined(joined(group, names, p.nameOf(group[0].rest)))
	}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		for n := range p.scans[key] {
			c := &p.scans[key][n]
			if c.series == nil && c.channels == nil && c.refused == nil {
				if own := (Case{Image: c.path}).withVolumes(names); own.refused != nil || own.More != nil {
					c.refused, c.volumes = own.refused, own.More != nil
				}
			}
		}
	}
	return nil
}

// nameOf is the name in what is left of a scan's path without its channel; the root's own name
// where nothing is left.
func (p *pairing) nameOf(rest string) scanName {
	rest = cmp.Or(rest, filepath.Base(absoluteOf(p.root)))
	name := parseName(rest)
	name.bids = nil
	return name
}

// addJoined adds a scan under its own key.
func (p *pairing) addJoined(c candidate) {
	p.scans[c.name.key] = append(p.scans[c.name.key], c)
}

// joined is the scan of some channels. One that lacks, or is there twice, is why it is refused.
func joined(files []channelFile, names []string, name scanName) candidate {
	slices.SortStableFunc(files, func(a, b channelFile) int { return a.channel - b.channel })
	of := make([][]candidate, len(names))
	for _, f := range files {
		if f.channel >= len(names) {
			c := files[0].candidate
			c.name = name
			c.refused = fmt.Errorf("%s is a channel beyond the %d that are wanted, %s", f.path, len(names),
				safetext.List(names))
			return c
		}
		of[f.channel] = append(of[f.channel], f.candidate)
	}
	return joinedOf(of, names, name)
}

// joinedOf is the scan whose channels these are; each should be one file.
func joinedOf(of [][]candidate, names []string, name scanName) candidate {
	first := slices.Concat(of...)[0]
	c := first
	c.name = name
	for n, found := range of {
		switch {
		case len(found) == 0:
			c.refused = fmt.Errorf("%s has no channel %s: there is none with %s, and %d channels are wanted, %s: add "+
				"it, leave the scan out, or leave the channel out for all",
				name.id, names[n], first.path, len(names), safetext.List(names))
			return c
		case len(found) > 1:
			c.refused = fmt.Errorf("%s and %s would both be channel %s of %s: name the "+
				"channel by more words, or leave one file out",
				found[0].path, found[1].path, names[n], name.id)
			return c
		}
		c.channels = append(c.channels, found[0])
	}
	return c
}

// dropNoChannels leaves out the scans that have no channel by their names.
func (p *pairing) dropNoChannels(d *Dataset, names []string) error {
	var left []string
	p.dropScans(func(c candidate) bool {
		no := !c.isJoined() && c.series == nil
		if no {
			left = append(left, c.path)
		}
		return no
	})
	slices.Sort(left)
	if len(left) > 0 && len(p.scans) == 0 {
		return noChannel(left[0], names)
	}
	for _, path := range left {
		d.note("WARNING: %s: passed over: it is no channel of a scan by its name (%s)", path, strings.Join(names, ", "))
	}
	return nil
}

// noChannel says of a file that it is no channel, and how channels are told.
func noChannel(path string, names []string) error {
	return fmt.Errorf("%s is no channel of a scan: %d channels are wanted (%s), in files CASE_0000, CASE_0001 and so "+
		"on, in files that the channels' names end or begin, in folders of these names, or in one file of %d volumes",
		path, len(names), safetext.List(names), len(names))
}

// channelOf is the channel that a path below a root names, and what is left of it without.
func channelOf(relative string, names []string) (channel int, rest string, found bool) {
	const between = "_-. "
	parts := strings.Split(relative, "/")
	last := len(parts) - 1
	stem, _ := format.Stem(parts[last])
	stem = cmp.Or(stem, parts[last])
	folders := parts[:last]
	path := func(stem string) string {
		if stem == "" {
			return strings.Join(folders, "/")
		}
		return strings.Join(append(slices.Clone(folders), stem), "/")
	}
	for n, name := range names {
		if before, ok := cutSuffixFold(stem, name); ok &&
			(before == "" || strings.ContainsAny(before[len(before)-1:], between)) {
			return n, path(strings.TrimRight(before, between)), true
		}
	}
	if m := channelSuffix.FindStringSubmatch(stem); m != nil {
		channel, _ = strconv.Atoi(m[1]) // four digits
		return channel, path(strings.TrimSuffix(stem, m[0])), true
	}
	for n, name := range names {
		if len(stem) > len(name) && strings.EqualFold(stem[:len(name)], name) &&
			strings.ContainsAny(stem[len(name):len(name)+1], between) {
			return n, path(strings.TrimLeft(stem[len(name):], between)), true
		}
	}
	for at, folder := range slices.Backward(folders) {
		if n := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, folder) }); n >= 0 {
			folders = slices.Delete(slices.Clone(folders), at, at+1)
			return n, path(stem), true
		}
	}
	return 0, "", false
}

// cutSuffixFold is [strings.CutSuffix] whatever the letters' case.
func cutSuffixFold(s, suffix string) (before string, found bool) {
	if at := len(s) - len(suffix); at >= 0 && strings.EqualFold(s[at:], suffix) {
		return s[:at], true
	}
	return s, false
}

// joinFiles makes one case of the files that are its channels, of those cases that are files given
// by themselves. A file that is no channel is an error.
func joinFiles(cases []Case, names []string) (all []Case, err error) {
	p := &pairing{root: string(filepath.Separator), scans: map[string][]candidate{}}
	for _, c := range cases {
		if c.channel || c.refused != nil || c.More != nil {
			all = append(all, c)
			continue
		}
		if c.IsDICOM() {
			return nil, noChannel(c.Image, names)
		}
		p.root = filepath.VolumeName(absoluteOf(c.Image)) + string(filepath.Separator)
		p.scans[c.Image] = append(p.scans[c.Image], candidate{name: parseName(filepath.Base(c.Image)),
			path: absoluteOf(c.Image), rest: filepath.ToSlash(c.Image)})
	}
	p.numberedBIDS()
	if err := p.joinChannels(names); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		for _, scan := range p.scans[key] {
			if !scan.isJoined() {
				return nil, noChannel(scan.path, names)
			}
			c := scan.toCase(names)
			stem, ok := format.Stem(filepath.Base(scan.rest))
			if !ok {
				stem = filepath.Base(scan.rest)
			}
			c.ID = FileName(stem)
			c.name, c.nameWithFolder = c.ID, c.ID
			all = append(all, c)
		}
	}
	return all, nil
}

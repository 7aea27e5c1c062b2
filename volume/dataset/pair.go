package dataset

import (
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: what may become a case, the scans and the labels of a tree by what their names share.

// candidate is what may become a case: a NIfTI file, or a DICOM series and its folder.
type candidate struct {
	name    scanName
	path    string
	series  *seriesCase // nil for a NIfTI file
	volumes bool        // of the file are its channels
	// channels of the scan, this file or series the first; nil where it has one
	channels []candidate
	refused  error  // why it is no scan of the channels that are wanted
	rest     string // the path below the root without the channel and the ending
}

// pairing is the scans and the files of labels of a tree, by what their names have in common.
type pairing struct {
	root       string
	scans      map[string][]candidate
	labels     map[string][]string
	parts      map[string][]Mask // labels of a scan that lie in a file for each structure
	structures chosenStructures
	lookups    []string             // tables of BIDS with the names of labels
	bidsOf     map[string]*bidsName // what the names of files of labels say
	bidsFound  []bidsFile           // labels by their values
	objects    []format.Object      // SEG objects and structure sets
}

// isJoined says whether a scan has its channels, or is refused because it has not.
func (s candidate) isJoined() bool { return s.channels != nil || s.volumes || s.refused != nil }

// toCase makes a case without labels. Names are those of its channels where these are volumes of
// its file.
func (s candidate) toCase(names []string) Case {
	c := Case{ID: FileName(s.name.id), Image: s.path, folders: s.name.folders}
	if s.name.bids != nil {
		c.scan = FileName(s.name.bids.scan())
	}
	if s.name.test {
		c.Group = GroupTest
	}
	if s.series != nil {
		c.series, c.refused = s.series.series, s.series.refused
		if c.series != nil {
			c.Series, c.beside = seriesUID(c.series), s.series.suffix != ""
		}
		for _, more := range s.series.more {
			c.channel, c.suv = true, c.series.Modality == volume.ModalityPT
			c.More = append(c.More, Case{Image: commonFolder(more.Files), Series: seriesUID(more), series: more,
				suv: more.Modality == volume.ModalityPT})
		}
	}
	if s.refused != nil {
		c.refused, c.channel = s.refused, true
	}
	if s.volumes {
		c = c.withVolumes(names)
	}
	if len(s.channels) > 0 {
		c.channel = true
		for _, more := range s.channels[1:] {
			c.More = append(c.More, Case{Image: more.path})
		}
	}
	return c
}

// foldCase gives labels the key of the scan whose key differs only in capital letters or in
// Unicode's form of its accents, if there is one such scan and it has no labels.
func (p *pairing) foldCase() {
	byFolded := map[string][]string{}
	for key := range p.scans {
		folded := safetext.FoldCase(key)
		byFolded[folded] = append(byFolded[folded], key)
	}
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		scans := byFolded[safetext.FoldCase(key)]
		if p.scans[key] == nil && len(scans) == 1 && p.labels[scans[0]] == nil {
			p.rename(key, scans[0])
		}
	}
}

// dropChannel gives labels the key of the scan whose name is theirs and nnU-Net's first channel, if
// that is the only channel and has no labels: images/a_0000 and labels/a.
func (p *pairing) dropChannel() {
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		first, second := key+"_0000", key+"_0001"
		if p.scans[key] == nil && p.scans[first] != nil && p.labels[first] == nil && p.scans[second] == nil {
			p.rename(key, first)
		}
	}
}

// rename gives labels another key.
func (p *pairing) rename(from, to string) {
	p.labels[to] = p.labels[from]
	delete(p.labels, from)
}

// dropLabels removes files of labels.
func (p *pairing) dropLabels(unwanted func(path string) bool) {
	for key := range p.labels {
		left := slices.DeleteFunc(p.labels[key], unwanted)
		if p.labels[key] = left; len(left) == 0 {
			delete(p.labels, key)
		}
	}
}

// dropScans removes scans.
func (p *pairing) dropScans(unwanted func(candidate) bool) {
	for key := range p.scans {
		left := slices.DeleteFunc(p.scans[key], unwanted)
		if p.scans[key] = left; len(left) == 0 {
			delete(p.scans, key)
		}
	}
}

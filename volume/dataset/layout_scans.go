package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/format"
)

// This file reads folders that follow no published layout. The rules:
//
//   - Every NIfTI file in the tree is a scan, or labels where its name or a folder above it says
//     so: label0001, case_seg, masks/case, labelsTr/case.
//   - Labels belong to the scan whose path is the same once those words are taken away: img0001 and
//     label0001, images/a and labels/a, s1/ct and s1/seg.
//   - The first channel of nnU-Net's names may be missing in the labels' name: images/a_0000 and
//     labels/a.
//   - Of every DICOM study in the tree one series is a scan (see listSeries), named after its
//     folder; labels beside the folder that have its name belong to it.
//   - A DICOM SEG object or RT structure set in the tree is the labels of the series that it refers
//     to; of several the one that is asked for. A NIfTI file goes before it.
//   - Labels whose path begins with that of a scan and goes on are the mask of one structure, which
//     the rest names: s1/ct and s1/segmentations/liver, a and a_liver. A file whose name does not
//     say that it is labels must have the values of a mask. Where the folder alone says whose it
//     is, and holds other scans, it must lie on the scan's voxels.
//   - Names of BIDS go by their entities: see pair_bids.go.
//   - A scan with more than one file of labels is used without; a file of labels without a scan is
//     passed over. Both are noted.
//   - What this program predicted is passed over, and noted: it is no scan, and no labels unless
//     that is asked for.
//   - So is a NIfTI file without labels whose values are those of labels, whatever its name: see
//     [nifti.MayBeLabels].

var (
	// Images of kinds that are not read, and what scans may be packed in.
	otherKinds   = words("mgz mgh mnc npy npz h5 hdf5 mat")
	archiveKinds = words("zip tar tgz 7z rar gz bz2 xz zst")
)

// readScans reads a tree, or a single file, by the rules above.
func (s source) readScans(o Options) (*Dataset, error) {
	if stat, err := os.Stat(s.root); err == nil && !stat.IsDir() {
		return readSingle(s.root, o), nil
	}
	d, nothing, err := readTree(s.root, s, o)
	if err == nil && len(d.Cases) == 0 && len(s.without) == 0 {
		err = nothing
	}
	if err != nil {
		return nil, err
	}
	d.nameByRoot(s.root)
	return d, d.readNames(s.root)
}

// nameByRoot names the only scan of a folder after that, where its own name says no more than that
// it is a scan: s0011/ct.nii.gz is the case s0011, whether s0011 is looked at or what it lies in.
func (d *Dataset) nameByRoot(root string) {
	if len(d.Cases) != 1 || d.Cases[0].series != nil || filepath.Dir(d.Cases[0].Image) != filepath.Clean(root) {
		return
	}
	stem, _ := format.Stem(filepath.Base(d.Cases[0].Image))
	if bare, _ := stripWords(stem); bare == "" && filepath.Dir(absoluteOf(root)) != absoluteOf(root) {
		d.Cases[0].ID = FileName(filepath.Base(absoluteOf(root)))
	}
}

// readTree reads a folder of a source. Where it has no case, nothing says why, if anything explains
// it.
func readTree(folder string, from source, o Options) (d *Dataset, nothing, err error) {
	d = &Dataset{}
	p := &pairing{root: from.root, scans: map[string][]candidate{}, labels: map[string][]string{},
		parts: map[string][]Mask{}, bidsOf: map[string]*bidsName{}, structures: chosenStructures{wanted: o.Structures}}
	others, err := p.addFiles(folder, from.without)
	if err != nil {
		return nil, nil, err
	}
	if err := d.addSeriesBelow(p, folder, from, o); err != nil {
		return nil, nil, err
	}
	for _, kind := range slices.Sorted(maps.Keys(others)) {
		advice := "NIfTI, NRRD, MetaImage and DICOM are read"
		if archiveKinds[kind] {
			advice = "unpack them first, if scans are in them"
		}
		d.note("%s: passed over %d .%s: %s", folder, others[kind], kind, advice)
	}
	p.dropPredicted(d, o)
	finish := func(*Dataset) error { return nil }
	if from.pairs != nil {
		finish = p.applyPairs(d.withoutPredicted(from.pairs, p.root, o))
	}
	if o.Channels != nil {
		p.numberedBIDS()
	}
	if err := p.readBIDS(d, from.pairs, o); err != nil {
		return nil, nil, err
	}
	if o.Channels != nil {
		d.Channels = o.Channels
		if err := p.joinChannels(o.Channels); err != nil {
			return nil, nil, err
		}
	}
	p.foldCase()
	p.dropChannel()
	p.findParts(!o.LabelsAsScans)
	d.useParts(p)
	if o.Channels != nil {
		if err := p.dropNoChannels(d, o.Channels); err != nil {
			return nil, nil, err
		}
	}
	if !o.LabelsAsScans {
		d.leaveOutMasks(p, o.Volume)
	}
	d.leaveOutFragments(p)
	d.pair(p)
	for _, path := range p.lookups {
		if err := d.readLookup(path); err != nil {
			return nil, nil, err
		}
	}
	err = finish(d)
	d.leaveOutObjects(p.objects)
	d.addStructures(p.structures.seen)
	return d, d.explainNone(p, len(others) > 0 || len(d.PassedOver) > 0), err
}

// addSeriesBelow adds the DICOM series of a folder of a source, and notes what else is DICOM there.
func (d *Dataset) addSeriesBelow(p *pairing, folder string, from source, o Options) error {
	if from.noSeries {
		return nil
	}
	o.given = map[string]bool{}
	for _, one := range from.pairs {
		o.given[absoluteOf(one.labels)] = true
	}
	series, notes, passed, err := listSeries(folder, o, func(all []format.Object) []format.Object {
		p.objects = d.dropPredictedObjects(all, o)
		return p.objects
	})
	if err != nil {
		return err
	}
	elsewhere := func(text string) bool { return isBelow(text, from.without) }
	p.objects = slices.DeleteFunc(slices.Clone(p.objects), func(one format.Object) bool { return elsewhere(one.Path) })
	series = slices.DeleteFunc(series, func(s seriesCase) bool { return elsewhere(s.folder) })
	d.Notes, d.PassedOver = slices.DeleteFunc(notes, elsewhere), slices.DeleteFunc(passed, elsewhere)
	return p.addSeries(series)
}

// leaveOutObjects counts the SEG objects and structure sets that no case has as labels: notes have
// said why.
func (d *Dataset) leaveOutObjects(objects []format.Object) {
	used := map[string]bool{}
	for _, c := range d.Cases {
		used[absoluteOf(c.Labels)] = true
		for _, m := range c.Masks {
			used[absoluteOf(m.Path)] = true
		}
	}
	for _, o := range objects {
		if !used[absoluteOf(o.Path)] {
			d.Unused = append(d.Unused, o.Path)
		}
	}
}

// readSingle makes a data set of one file.
func readSingle(path string, o Options) *Dataset {
	id, ok := format.Stem(filepath.Base(path))
	if !ok {
		id = strings.TrimSuffix(filepath.Base(path), ".dcm")
	}
	c := Case{ID: FileName(id), Image: path}
	if o.Series != SeriesAll {
		c.Series = o.Series
	}
	return &Dataset{Cases: []Case{c}, Channels: o.Channels}
}

// addFiles finds the NIfTI files below a folder of the tree, without some folders below it. It
// counts files of other kinds of images, and archives, by their extension.
func (p *pairing) addFiles(folder string, without []string) (others map[string]int, err error) {
	others = map[string]int{}
	err = walk(folder, func(path string, entry fs.FileInfo, err error) error {
		if slices.Contains(without, path) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() { // the search for DICOM lists what cannot be looked at
			return nil
		}
		if !format.IsName(path) {
			lower := strings.ToLower(path)
			kind := strings.TrimPrefix(filepath.Ext(lower), ".")
			if strings.HasSuffix(lower, "dseg.tsv") {
				p.lookups = append(p.lookups, path)
			}
			// of a NIfTI pair
			if half := strings.HasSuffix(lower, ".img.gz") || strings.HasSuffix(lower, ".raw.gz"); (otherKinds[kind] ||
				archiveKinds[kind]) && !half {
				others[kind]++
			}
			return nil
		}
		relative, err := filepath.Rel(p.root, path)
		if err != nil {
			return err
		}
		if name := parseName(relative); name.labels {
			if name.bids != nil {
				p.bidsOf[path] = name.bids
			}
			p.labels[name.key] = append(p.labels[name.key], path)
		} else {
			p.scans[name.key] = append(p.scans[name.key], candidate{name: name, path: path})
		}
		return nil
	})
	return others, err
}

// addSeries adds DICOM series under the names of their folders.
func (p *pairing) addSeries(series []seriesCase) error {
	for n := range series {
		s := &series[n]
		relative, err := filepath.Rel(p.root, s.folder)
		if err != nil {
			return err
		}
		if relative == "." { // the root itself is the case, whatever path it was given by
			if relative, err = filepath.Abs(p.root); err != nil {
				return err
			}
			relative = filepath.Base(relative)
		}
		name := parseName(relative)
		name.id += s.suffix
		// a series is a folder itself
		name.folders = strings.Split(strings.TrimPrefix(name.key, "test:"), "/")
		key := name.key + s.suffix
		p.scans[key] = append(p.scans[key], candidate{name: name, path: s.folder, series: s})
	}
	return nil
}

// explainNone says why there is no case, if there is none and anything explains it.
func (d *Dataset) explainNone(p *pairing, others bool) error {
	switch {
	case len(d.Cases) > 0:
		return nil
	case len(d.predicted) > 0:
		return d.onlyPredicted()
	case len(d.masks) > 0 && calledLabels(p.root):
		return onlyLabels(p.root)
	case len(d.masks) > 0:
		return fmt.Errorf("no scan is left: %s %s", d.masks[0], maskNote)
	case others:
		notes := slices.Concat(d.Notes, d.PassedOver)
		const most = 5
		if more := len(notes) - most; more > 1 {
			notes = append(notes[:most], fmt.Sprintf("and %d more", more))
		}
		return errors.New("no scan: " + strings.Join(notes, "; "))
	case len(p.labels) > 0:
		if calledLabels(p.root) {
			return onlyLabels(p.root)
		}
		files := slices.Concat(slices.Collect(maps.Values(p.labels))...)
		return fmt.Errorf("all %d NIfTI files look like labels by their names, such as %s", len(files),
			slices.Min(files))
	}
	return nil
}

package dataset

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/nifti"
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
//   - Names of BIDS go by their entities: see bids.go.
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

// scanName is what a path below the root says: its name without the words that mean image or
// labels, and whether one meant labels.
type scanName struct {
	key    string // what an image and its labels have in common
	id     string // the case's name
	labels bool
	bids   *bidsName // nil: no name of BIDS
	test   bool
	// below which it lies, those for images or labels alone left out
	folders []string
}

func parseName(relative string) scanName {
	var name scanName
	parts := strings.Split(filepath.ToSlash(relative), "/")
	stem, _ := stemOf(parts[len(parts)-1])
	if stem == "" {
		stem = parts[len(parts)-1]
	}
	var key, id []string
	for _, folder := range parts[:len(parts)-1] {
		lower, word := strings.ToLower(folder), foldWord(folder)
		switch {
		case labelWords[word]:
			name.labels = true
		case !imageWords[word]:
			key, id = append(key, folder), append(id, folder)
		}
		name.test = name.test || lower == "imagests" || lower == "labelsts"
	}
	name.folders = slices.Clone(key)
	bare, labels := stripWords(stem)
	name.labels = name.labels || labels
	if b, labels, ok := parseBIDS(stem, key, name.labels); ok {
		name.bids, name.labels = b, labels
		bare, key = b.key(), nil
	}
	if bare != "" || len(key) == 0 {
		key = append(key, bare)
	}
	if bare != "" {
		id = append(id, stem)
	}
	if len(id) == 0 {
		id = []string{stem}
	}
	name.key, name.id = strings.Join(key, "/"), strings.Join(id, "_")
	if name.test {
		name.key = "test:" + name.key
	}
	return name
}

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
	stem, _ := stemOf(filepath.Base(d.Cases[0].Image))
	if bare, _ := stripWords(stem); bare == "" && filepath.Dir(absoluteOf(root)) != absoluteOf(root) {
		d.Cases[0].ID = FileName(filepath.Base(absoluteOf(root)))
	}
}

// readNames reads the names of labels from the dataset.json that may lie in a tree of scans.
func (d *Dataset) readNames(root string) error {
	var file struct {
		Labels json.RawMessage `json:"labels"` // of other programs, it may be something else
	}
	path := filepath.Join(root, "dataset.json")
	if _, err := readJSON(path, &file); err != nil {
		return err
	}
	var keys labelKeys
	if json.Unmarshal(file.Labels, &keys.labels) != nil || !slices.ContainsFunc(keys.labels, labelEntry.isLabel) {
		return nil
	}
	return d.nameLabels(path, keys)
}

// readTree reads a folder of a source. Where it has no case, nothing says why, if anything explains
// it.
func readTree(folder string, from source, o Options) (d *Dataset, nothing, err error) {
	d = &Dataset{}
	p := &pairing{root: from.root, scans: map[string][]candidate{}, labels: map[string][]string{}, parts: map[string][]Mask{}, bidsOf: map[string]*bidsName{}, structures: chosenStructures{wanted: o.Structures}}
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
	if err := p.readBIDS(d, from.pairs, o); err != nil {
		return nil, nil, err
	}
	p.foldCase()
	p.dropChannel()
	p.findParts(!o.LabelsAsScans)
	d.useParts(p)
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
	d.addStructures(p.structures.seen)
	return d, d.explainNone(p, len(others) > 0 || len(d.PassedOver) > 0), err
}

// addSeriesBelow adds the DICOM series of a folder of a source, and notes what else is DICOM there.
func (d *Dataset) addSeriesBelow(p *pairing, folder string, from source, o Options) error {
	if from.noSeries {
		return nil
	}
	series, notes, passed, err := listSeries(folder, o, func(all []object) []object { return d.dropPredictedObjects(all, o) })
	if err != nil {
		return err
	}
	elsewhere := func(text string) bool { return isBelow(text, from.without) }
	series = slices.DeleteFunc(series, func(s seriesCase) bool { return elsewhere(s.folder) })
	d.Notes, d.PassedOver = slices.DeleteFunc(notes, elsewhere), slices.DeleteFunc(passed, elsewhere)
	return p.addSeries(series)
}

// readSingle makes a data set of one file.
func readSingle(path string, o Options) *Dataset {
	id, ok := stemOf(filepath.Base(path))
	if !ok {
		id = strings.TrimSuffix(filepath.Base(path), ".dcm")
	}
	c := Case{ID: FileName(id), Image: path}
	if o.Series != SeriesAll {
		c.Series = o.Series
	}
	return &Dataset{Cases: []Case{c}}
}

// candidate is what may become a case: a NIfTI file, or a DICOM series and its folder.
type candidate struct {
	name   scanName
	path   string
	series *seriesCase // nil for a NIfTI file
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
		if !isVoxels(path) {
			lower := strings.ToLower(path)
			kind := strings.TrimPrefix(filepath.Ext(lower), ".")
			if strings.HasSuffix(lower, "dseg.tsv") {
				p.lookups = append(p.lookups, path)
			}
			// of a NIfTI pair
			if half := strings.HasSuffix(lower, ".img.gz") || strings.HasSuffix(lower, ".raw.gz"); (otherKinds[kind] || archiveKinds[kind]) && !half {
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
		p.scans[key] = append(p.scans[key], candidate{name, s.folder, s})
	}
	return nil
}

// foldCase gives labels the key of the scan whose key differs in capital letters only, if there is
// one such scan and it has no labels.
func (p *pairing) foldCase() {
	byLower := map[string][]string{}
	for key := range p.scans {
		byLower[strings.ToLower(key)] = append(byLower[strings.ToLower(key)], key)
	}
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		scans := byLower[strings.ToLower(key)]
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
	slices.SortFunc(unlabelled, compareNatural)
	masks := make([]bool, len(unlabelled))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, path := range unlabelled {
		group.Go(func() error {
			// What is wrong with a file is said where it is read.
			masks[n], _ = mayBeLabels(path, nifti.Options{Volume: volume})
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
			if h, err := readFileHeader(c.path); err == nil && slices.Min(h.Shape[:]) < least {
				fragments[c.path] = numbers.Extents(h.Shape[:])
			}
		}
	}
	if len(fragments) == scans {
		return
	}
	for _, path := range slices.SortedFunc(maps.Keys(fragments), compareNatural) {
		d.PassedOver = append(d.PassedOver, fmt.Sprintf("%s: passed over: %s voxels are too few slices for a scan; "+
			"who gives the path of this file takes it", path, fragments[path]))
	}
	p.dropScans(func(c candidate) bool { return fragments[c.path] != "" })
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

const maskNote = "holds labels by its values, but its name says neither that nor of which scan; --pairs says of which, --labels-as-scans takes it for a scan"

// pair makes a case of each scan, with the labels of the same key.
func (d *Dataset) pair(p *pairing) {
	for _, key := range slices.Sorted(maps.Keys(p.parts)) {
		if masks := p.parts[key]; p.labels[key] != nil {
			d.Unused = append(d.Unused, maskPaths(masks)...)
			d.note("%s: passed over %d masks such as %s, because it has labels in one file, %s", p.scans[key][0].path, len(masks), masks[0].Path, p.labels[key][0])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		if len(p.scans[key]) > 1 {
			d.Unused = append(d.Unused, p.labels[key]...)
		}
		for _, scan := range p.scans[key] {
			c := scan.toCase()
			if scan.series != nil && scan.series.labels.path != "" {
				if note := c.setObject(scan.series.labels, &p.structures); note != "" {
					d.note("%s", note)
				}
			}
			switch found := p.labels[key]; {
			case len(found) == 0 && p.parts[key] != nil:
				c.setMasks(p.parts[key])
			case len(p.scans[key]) > 1 && len(found) > 0:
				d.note("%s: used without labels, because %d scans could belong to %s: say with --pairs which does", c.Image, len(p.scans[key]), found[0])
			case len(found) == 1:
				if c.Labels != "" {
					d.note("%s: its labels are %s, not %s", c.Image, found[0], c.Labels)
				}
				c.withoutLabels()
				c.Labels = found[0]
			case len(found) > 1:
				d.Unused = append(d.Unused, found...)
				d.note("%s: used without labels, because it has %d files of them, %s, which may be of several people: say with --pairs which to take (%s); where each is of one structure, call it after that", c.Image, len(found), safetext.List(found), p.pattern(c.Image, found[0]))
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
	if subject := bidsSubject.FindString(sides[0]); subject != "" && strings.Count(sides[0], subject) == strings.Count(sides[1], subject) {
		return fmt.Sprintf("'%s=%s'", strings.ReplaceAll(sides[0], subject, "sub-*"), strings.ReplaceAll(sides[1], subject, "sub-*"))
	}
	stem, _ := stemOf(path.Base(sides[0]))
	for _, name := range []string{stem, path.Base(sides[0]), path.Base(path.Dir(sides[0]))} {
		if name != "" && name != "." && strings.Contains(sides[1], name) {
			return fmt.Sprintf("'%s=%s'", strings.Replace(sides[0], name, "*", 1), strings.Replace(sides[1], name, "*", 1))
		}
	}
	return "a CSV file with the columns scan and labels"
}

// toCase makes a case without labels.
func (s candidate) toCase() Case {
	c := Case{ID: FileName(s.name.id), Image: s.path, folders: s.name.folders}
	if s.name.test {
		c.Group = GroupTest
	}
	if s.series == nil {
		return c
	}
	c.series, c.refused = s.series.series, s.series.refused
	if c.series != nil {
		c.Series = seriesUID(c.series)
	}
	return c
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
		return fmt.Errorf("all %d NIfTI files look like labels by their names, such as %s", len(files), slices.Min(files))
	}
	return nil
}

// calledLabels says whether a folder has a name such as labels or masks.
func calledLabels(folder string) bool { return labelWords[foldWord(baseName(folder))] }

// onlyLabels is the error of a folder of labels that was given as if it held scans.
func onlyLabels(folder string) error {
	return fmt.Errorf("%s is a folder of labels by its name: give the folder that holds both the scans and the labels, such as %s, where they are paired by their names; where names do not tell, say with --pairs which labels belong to which scan", folder, filepath.Join(folder, ".."))
}

// FileName makes a case's name one that does as a file name everywhere, and is UTF-8.
func FileName(id string) string {
	id = safetext.Name(id)
	id = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, id)
	id = strings.TrimFunc(id, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	if id == "" {
		return "scan"
	}
	const most = 200
	if len(id) > most { // file systems take 255 bytes, endings included
		sum := sha256.Sum256([]byte(id))
		id = fmt.Sprintf("%s_%x", strings.ToValidUTF8(id[:most-9], ""), sum[:4])
	}
	return id
}

package dataset

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

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
//   - A DICOM SEG object in the tree is the labels of the series that it refers to; of several the
//     one that is asked for. A NIfTI file goes before it.
//   - A scan with more than one file of labels is used without; a file of labels without a scan is
//     passed over. Both are noted.
//   - So is a NIfTI file without labels whose values are those of labels, whatever its name: see
//     [nifti.MayBeLabels].

var (
	imageWords = words("image images imagestr imagests imaging img imgs ct cts scan scans volume volumes")
	labelWords = words("label labels labelstr labelsts lbl lbls mask masks seg segs segmentation segmentations gt truth groundtruth roi rois annotation annotations manual")

	// Images of kinds that are not read, and what they may be packed in.
	otherKinds = words("nrrd nhdr mha mhd mgz mgh mnc npy npz h5 hdf5 mat zip tar tgz 7z rar gz bz2 xz zst")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// scanName is what a path below the root says: its name without the words that mean image or
// labels, and whether one meant labels.
type scanName struct {
	key    string // what an image and its labels have in common
	id     string // the case's name
	labels bool
	test   bool
	// below which it lies, those for images or labels alone left out
	folders []string
}

func parseName(relative string) scanName {
	var name scanName
	parts := strings.Split(filepath.ToSlash(relative), "/")
	stem, _ := nifti.Stem(parts[len(parts)-1])
	if stem == "" {
		stem = parts[len(parts)-1]
	}
	var key, id []string
	for _, folder := range parts[:len(parts)-1] {
		lower := strings.ToLower(folder)
		switch {
		case labelWords[lower]:
			name.labels = true
		case !imageWords[lower]:
			key, id = append(key, folder), append(id, folder)
		}
		name.test = name.test || lower == "imagests" || lower == "labelsts"
	}
	name.folders = slices.Clone(key)
	bare, labels := stripWords(stem)
	name.labels = name.labels || labels
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

// stripWords takes the first and last word off a name where they mean image or labels: case_seg,
// label0001, s0011-ct.
func stripWords(stem string) (bare string, labels bool) {
	lower := strings.ToLower(stem)
	start, end := 0, len(lower)
	for end > 0 && isLetter(lower[end-1]) {
		end--
	}
	last := lower[end:]
	separated := end == 0 || strings.ContainsRune("_-. ", rune(lower[end-1]))
	if separated && (imageWords[last] || labelWords[last]) {
		labels = labelWords[last]
		stem = strings.TrimRight(stem[:end], "_-. ")
		lower = strings.ToLower(stem)
	}
	for start < len(lower) && isLetter(lower[start]) {
		start++
	}
	if first := lower[:start]; imageWords[first] || labelWords[first] {
		labels = labels || labelWords[first]
		stem = strings.TrimLeft(stem[start:], "_-. ")
	}
	return stem, labels
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' }

// readScans reads a tree, or a single file, by the rules above.
func readScans(root string, o Options) (*Dataset, error) {
	d := &Dataset{}
	if stat, err := os.Stat(root); err == nil && !stat.IsDir() {
		id, ok := nifti.Stem(filepath.Base(root))
		if !ok {
			id = strings.TrimSuffix(filepath.Base(root), ".dcm")
		}
		d.Cases = []Case{{ID: fileName(id), Image: root}}
		if o.Series != SeriesAll {
			d.Cases[0].Series = o.Series
		}
		return d, nil
	}
	images, labels := map[string][]string{}, map[string][]string{}
	names := map[string]scanName{}
	add := func(path string) error {
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := parseName(relative)
		names[path] = name
		if name.labels {
			labels[name.key] = append(labels[name.key], path)
		} else {
			images[name.key] = append(images[name.key], path)
		}
		return nil
	}
	others := map[string]int{}
	err := walk(root, func(path string, entry fs.FileInfo, err error) error {
		switch {
		case err != nil || entry.IsDir(): // what cannot be looked at, the search for DICOM lists
		case nifti.IsName(entry.Name()):
			return add(path)
		default:
			lower := strings.ToLower(path)
			// half of a NIfTI pair
			if kind := strings.TrimPrefix(filepath.Ext(lower), "."); otherKinds[kind] && !strings.HasSuffix(lower, ".img.gz") {
				others[kind]++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	series, notes, passed, err := listSeries(root, o.Series, o.Segmentation)
	if err != nil {
		return nil, err
	}
	d.Notes, d.PassedOver = notes, passed
	for _, kind := range slices.Sorted(maps.Keys(others)) {
		d.note("%s: passed over %d .%s: NIfTI and DICOM are read", root, others[kind], kind)
	}
	bySeries := map[string]seriesCase{}
	for n, s := range series {
		path := fmt.Sprintf("%s\x00%d", s.folder, n)
		bySeries[path] = s
		relative, err := filepath.Rel(root, s.folder)
		if err != nil {
			return nil, err
		}
		if relative == "." { // the folder itself is the case, whatever it was called by
			if relative, err = filepath.Abs(root); err != nil {
				return nil, err
			}
			relative = filepath.Base(relative)
		}
		name := parseName(relative)
		name.id += s.suffix
		// a series is a folder itself
		name.folders = strings.Split(strings.TrimPrefix(name.key, "test:"), "/")
		names[path] = name
		images[name.key+s.suffix] = append(images[name.key+s.suffix], path)
	}
	foldCase(images, labels)
	dropChannel(images, labels)
	if !o.LabelsAsScans {
		d.leaveOutMasks(images, labels, o.Volume)
	}
	for _, key := range slices.Sorted(maps.Keys(images)) {
		for _, path := range images[key] {
			name := names[path]
			c := Case{ID: fileName(name.id), Image: path, folders: name.folders}
			if s, ok := bySeries[path]; ok {
				c.Image, c.series, c.refused = s.folder, s.series, s.refused
				if s.series != nil {
					c.Series = seriesUID(s.series)
				}
				if c.segmentation = s.labels; s.labels != nil {
					c.Labels = s.labels.Path
				}
			}
			if name.test {
				c.Group = GroupTest
			}
			switch found := labels[key]; {
			case len(images[key]) > 1 && len(found) > 0:
				d.note("%s: used without labels, because %d scans could belong to %s", c.Image, len(images[key]), found[0])
			case len(found) == 1:
				if c.segmentation != nil {
					d.note("%s: its labels are %s, not %s", c.Image, found[0], c.Labels)
				}
				c.Labels, c.segmentation = found[0], nil
			case len(found) > 1:
				d.note("%s: used without labels, because it has %d files of them, such as %s: put all labels into one file", c.Image, len(found), found[0])
			}
			d.Cases = append(d.Cases, c)
		}
		delete(labels, key)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, path := range labels[key] {
			d.note("%s looks like labels, but belongs to no scan", path)
		}
	}
	d.nameSegments()
	if len(d.Cases) == 0 && len(d.masks) > 0 {
		return nil, fmt.Errorf("no scan is left: %s %s", d.masks[0], isMask)
	}
	if len(d.Cases) == 0 && len(others) > 0 {
		return nil, errors.New(strings.Join(slices.Concat(d.Notes, d.PassedOver), "; "))
	}
	if len(d.Cases) == 0 && len(labels) > 0 {
		return nil, fmt.Errorf("all %d NIfTI files look like labels by their names, such as %s", len(labels), labels[slices.Sorted(maps.Keys(labels))[0]][0])
	}
	return d, nil
}

// leaveOutMasks takes the files from the scans that have no labels and look like labels themselves:
// a folder of predictions, masks whose names tell an organ alone.
func (d *Dataset) leaveOutMasks(images, labels map[string][]string, volume int) {
	var candidates []string
	for key, paths := range images {
		if labels[key] == nil {
			candidates = append(candidates, slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !nifti.IsName(path) })...)
		}
	}
	slices.SortFunc(candidates, compareNatural)
	masks := make([]bool, len(candidates))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, path := range candidates {
		group.Go(func() error {
			// what is wrong with a file is said where it is read
			masks[n], _ = nifti.MayBeLabels(path, nifti.Options{Volume: volume})
			return nil
		})
	}
	_ = group.Wait()
	for n, path := range candidates {
		if masks[n] {
			d.masks = append(d.masks, path)
			d.note("%s: passed over: %s", path, isMask)
		}
	}
	for key := range images {
		if images[key] = slices.DeleteFunc(images[key], func(path string) bool { return slices.Contains(d.masks, path) }); len(images[key]) == 0 {
			delete(images, key)
		}
	}
}

const isMask = "holds labels by its values, but its name says neither that nor of which scan; --labels-as-scans takes it for a scan"

// foldCase gives labels the key of the scan that differs from theirs in capital letters only, if
// that is the only one and has no labels.
func foldCase(images, labels map[string][]string) {
	byLower := map[string][]string{}
	for key := range images {
		byLower[strings.ToLower(key)] = append(byLower[strings.ToLower(key)], key)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		scans := byLower[strings.ToLower(key)]
		if images[key] == nil && len(scans) == 1 && labels[scans[0]] == nil {
			labels[scans[0]] = labels[key]
			delete(labels, key)
		}
	}
}

// dropChannel gives labels the key of the scan whose name is theirs and nnU-Net's first channel, if
// it is the only channel and has no labels: images/a_0000 and labels/a.
func dropChannel(images, labels map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if first := key + "_0000"; images[key] == nil && images[first] != nil && labels[first] == nil && images[key+"_0001"] == nil {
			labels[first] = labels[key]
			delete(labels, key)
		}
	}
}

// fileName makes a case's name one that does as a file name everywhere.
func fileName(id string) string {
	id = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, id)
	if id = strings.Trim(id, ". "); id == "" {
		return "scan"
	}
	const most = 200
	if len(id) > most { // file systems take 255 bytes, endings included
		sum := sha256.Sum256([]byte(id))
		id = fmt.Sprintf("%s_%x", strings.ToValidUTF8(id[:most-9], ""), sum[:4])
	}
	return id
}

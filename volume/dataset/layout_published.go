package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: what the published layouts have in common. What is on disk counts; a dataset.json adds
// names, and what it says otherwise is noted.

// A folderPair is a folder of images of a published data set and one of their labels: files by
// their stems.
type folderPair struct {
	name           string // the group of its cases
	images, labels map[string]string
}

// heldBack are the endings of folders of images that a data set keeps for testing.
var heldBack = []string{"Ts", "Te", "Test", "Va", "Val"}

// folderPairs lists what imagesTr and labelsTr hold, and the folders beside these: imagesTs and the
// like are for testing, and so is any other pair of imagesXx and labelsXx. Scans elsewhere, in
// other folders or in none, are added as cases without labels.
func (d *Dataset) folderPairs(root string, o Options) ([]folderPair, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var pairs []folderPair
	var beside []string
	loose, folders := false, []string{}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		stat, err := os.Stat(path)
		if e.Name()[0] == '.' || e.Name() == "__MACOSX" || err != nil {
			continue
		}
		if !stat.IsDir() {
			loose = loose || format.IsName(path)
			continue
		}
		folders = append(folders, path)
		ending, images := strings.CutPrefix(e.Name(), "images")
		if _, labels := strings.CutPrefix(e.Name(), "labels"); labels {
			continue
		}
		labels := filepath.Join(root, "labels"+ending)
		_, noLabels := os.Stat(labels)
		if !images || ending != "Tr" && noLabels != nil && !slices.Contains(heldBack, ending) {
			beside = append(beside, path)
			continue
		}
		p := folderPair{}
		if ending != "Tr" {
			p.name = GroupTest
		}
		if p.images, err = d.listNIfTI(path); err != nil {
			return nil, err
		}
		if p.labels, err = d.listNIfTI(labels); err != nil {
			return nil, err
		}
		dropPredictedLabels(d, p.labels, o)
		if p.name != "" && ending != "Ts" && len(p.images) > 0 {
			d.note("%s: %s, held back for testing", path, numbers.Count(len(p.images), "scan"))
		}
		pairs = append(pairs, p)
	}
	// imagesTr first, as its cases are named first
	slices.SortStableFunc(pairs, func(a, b folderPair) int { return strings.Compare(a.name, b.name) })
	for _, path := range beside {
		if err := d.addBeside(path, source{root: root}, o); err != nil {
			return nil, err
		}
	}
	if loose {
		if err := d.addBeside(root, source{root: root, without: folders, noSeries: true}, o); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// addBeside adds scans that lie beside imagesTr, in a folder of the source or in the source itself:
// as cases without labels, because nobody says that labels there mean the same.
func (d *Dataset) addBeside(folder string, from source, o Options) error {
	more, _, err := readTree(folder, from, o)
	if err != nil {
		return err
	}
	var unused []string
	for n := range more.Cases {
		c := &more.Cases[n]
		if m := channelSuffix.FindStringSubmatch(c.ID); m != nil {
			if m[1] != "0000" {
				return fmt.Errorf("%s has another channel than the first, _0000: only scans "+
					"of one channel can be used beside imagesTr", c.Image)
			}
			c.ID = strings.TrimSuffix(c.ID, m[0])
		}
		if c.Labels != "" {
			unused = append(unused, c.Labels)
			c.withoutLabels()
		}
		if c.Group == "" {
			c.Volume = o.Volume
		}
	}
	if len(more.Cases) > 0 {
		d.note("%s: %s without labels beside imagesTr: used where no labels are needed", folder,
			numbers.Count(len(more.Cases), "scan"))
	}
	d.Cases, d.Notes = append(d.Cases, more.Cases...), append(d.Notes, more.Notes...)
	d.PassedOver, d.Unused, d.masks = append(d.PassedOver, more.PassedOver...), slices.Concat(d.Unused, more.Unused,
		unused), append(d.masks, more.masks...)
	d.predicted = append(d.predicted, more.predicted...)
	return nil
}

// listNIfTI maps the stems of a folder's NIfTI files to their paths; a folder that is not there has
// none. What else lies there is noted.
func (d *Dataset) listNIfTI(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := map[string]string{}
	var others []string
	var passed []dicom.Passed // files of scans by their names
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		stem, ok := format.Stem(e.Name())
		stat, err := os.Stat(path)
		if err == nil && !stat.Mode().IsRegular() && !stat.IsDir() {
			err = folders.ErrNotFile
		}
		if ok && err != nil {
			passed = append(passed, dicom.Passed{Path: path, Err: err})
			continue
		}
		if !ok || err != nil || stat.IsDir() {
			half := slices.ContainsFunc([]string{".img", ".img.gz", ".raw", ".raw.gz", ".zraw"},
				func(ext string) bool { return strings.HasSuffix(strings.ToLower(e.Name()), ext) })
			if !strings.HasPrefix(e.Name(), ".") && !half {
				others = append(others, e.Name())
			}
			continue
		}
		if other := files[stem]; other != "" {
			return nil, fmt.Errorf("%s and %s have the same name but for the extension", other, path)
		}
		files[stem] = path
	}
	d.PassedOver = append(d.PassedOver, passedOver(passed)...)
	if len(others) > 0 {
		d.note("%s: passed over %d that are no files of scans, such as %s", dir, len(others), others[0])
	}
	return files, nil
}

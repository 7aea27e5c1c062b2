package dataset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file finds the data sets below a folder, such as those of nnUNet_raw.

// A source is a folder that is read in one layout.
type source struct {
	root, layout string
	without      []string // folders below it that are sources of their own
	pairs        []pair   // of all sources together
	noSeries     bool     // files of voxels alone are read, not DICOM
}

// sourcesOf lists what is to be read of the folders. Below a folder of no published layout, each
// folder with imagesTr is a source of its own. Where a layout or pairs are given, folders are read
// as that says.
func sourcesOf(roots []string, o Options) (sources []source, notes []string, err error) {
	for n, root := range roots {
		root = listed(root)
		if slices.Contains(absolutesOf(roots[:n]), absoluteOf(root)) {
			return nil, nil, fmt.Errorf("%s is given twice: its scans would count twice", root)
		}
		layout, err := layoutOf(root, o)
		if err != nil {
			return nil, nil, err
		}
		own := source{root: root, layout: layout}
		if layout == LayoutScans && o.Layout == "" && o.Pairs == "" {
			var below []source
			if below, err = publishedBelow(root); err != nil {
				return nil, nil, err
			}
			for _, s := range below {
				own.without = append(own.without, s.root)
			}
			if len(below) > 0 {
				notes = append(notes, fmt.Sprintf("%s holds %s, each read with its own dataset.json: %s", root,
					numbers.Count(len(below), "data set"), strings.Join(own.without, ", ")))
			}
			sources = append(sources, below...)
		}
		sources = append(sources, own)
	}
	if o.Pairs != "" {
		pairs, err := readPairs(o.Pairs, roots)
		if err != nil {
			return nil, nil, err
		}
		for n := range sources {
			sources[n].pairs = pairs
		}
	}
	return sources, notes, nil
}

// publishedBelow finds the folders below one that have imagesTr, and a published layout.
func publishedBelow(root string) (found []source, err error) {
	err = walk(root, func(path string, entry fs.FileInfo, err error) error {
		if err != nil || !entry.IsDir() { // the search for scans says what cannot be looked at
			return nil
		}
		if stat, err := os.Stat(filepath.Join(path, "imagesTr")); err != nil || !stat.IsDir() {
			return nil
		}
		layout, err := detectLayout(path)
		if err != nil {
			return fmt.Errorf("looking for a data set in %s: %w", path, err)
		}
		if layout == LayoutScans {
			return nil
		}
		found = append(found, source{root: path, layout: layout})
		return fs.SkipDir
	})
	return found, err
}

// layoutOf is the layout that is asked for, or that a folder seems to have.
func layoutOf(root string, o Options) (string, error) {
	stat, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("looking for a data set: %w", err)
	}
	layout := o.Layout
	if o.Pairs != "" && (layout == "" || layout == LayoutScans) {
		return LayoutScans, nil
	}
	if o.Pairs != "" {
		return "", fmt.Errorf("layout %s pairs scans and labels by its own names: --pairs is for layout scans", layout)
	}
	if layout == "" {
		layout = LayoutScans
		if stat.IsDir() {
			if layout, err = detectLayout(root); err != nil {
				return "", fmt.Errorf("looking for a data set in %s: %w", root, err)
			}
		}
	}
	if readers[layout] == nil && layout != LayoutScans {
		return "", fmt.Errorf("layout %q: must be nih, msd, nnunet or scans", layout)
	}
	if o.Contrast != "" && layout != LayoutScans {
		return "",
			fmt.Errorf("--contrast is for names of BIDS, and %s has the layout %s: --volume chooses among channels",
				root, layout)
	}
	if o.Labels != "" && layout != LayoutNIH {
		return "", fmt.Errorf("--labels is for layout nih, and %s has the layout %s: %s", root, layout,
			placeOfLabels(root, layout, o.Labels))
	}
	return layout, nil
}

// placeOfLabels says what to do about a folder of labels that the layout of the scans has no flag
// for.
func placeOfLabels(root, layout, labels string) string {
	both := filepath.Join(root, "..")
	switch {
	case layout != LayoutScans:
		return fmt.Sprintf("put the labels of %s into %s", labels, filepath.Join(root, "labelsTr"))
	case absoluteOf(both) == absoluteOf(filepath.Join(labels, "..")):
		return fmt.Sprintf("give %s alone, which holds both folders: scans and labels are paired by their "+
			"names, or by --pairs where names do not tell", both)
	}
	return "say with --pairs which labels belong to which scan"
}

// detectLayout looks at names only.
func detectLayout(root string) (string, error) {
	if folder, err := os.ReadDir(filepath.Join(root, "imagesTr")); err == nil {
		images, numbered, channels, paired := 0, 0, 0, 0
		for _, e := range folder {
			if stem, ok := format.Stem(e.Name()); ok {
				images++
				if channelSuffix.MatchString(stem) {
					numbered++
				}
				// A label map of the whole name says that the digits are the case's, as in
				// amos_0001, not a channel's.
				if m := channelSuffix.FindString(stem); m != "" && !isFile(filepath.Join(root, "labelsTr", e.Name())) {
					channels++
					if isFile(filepath.Join(root, "labelsTr",
						strings.Replace(e.Name(), stem, strings.TrimSuffix(stem, m), 1))) {
						paired++
					}
				}
			}
		}
		var keys nnUNetKeys
		if _, err := readJSON(filepath.Join(root, "dataset.json"), &keys); err != nil {
			return "", err
		}
		switch {
		case images > 0 && (images == channels || paired > 0 || numbered > 0 && keys.given()):
			// some names may be wrong
			return LayoutNNUNet, nil
		case images > 0 && isFile(filepath.Join(root, "dataset.json")):
			return LayoutMSD, nil
		}
		return LayoutScans, nil
	}
	layout := LayoutScans
	err := walk(root, func(path string, entry fs.FileInfo, err error) error {
		if err == nil && nihImage.MatchString(entry.Name()) && (entry.IsDir() || format.IsName(entry.Name())) {
			layout = LayoutNIH
			return fs.SkipAll
		}
		return nil
	})
	return layout, err
}

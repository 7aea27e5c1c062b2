package dataset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
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
				notes = append(notes, fmt.Sprintf("%s holds %s, each read with its own dataset.json: %s", root, numbers.Count(len(below), "data set"), strings.Join(own.without, ", ")))
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

// read reads the source in its layout.
func (s source) read(o Options) (*Dataset, error) {
	if s.layout == LayoutScans {
		return s.readScans(o)
	}
	d, err := readers[s.layout](s.root, o)
	if err != nil {
		return nil, err
	}
	for n := range d.Cases {
		d.Cases[n].ID = FileName(d.Cases[n].ID)
	}
	return d, nil
}

// isBelow says whether a path, or a text that begins with one, lies in any of the folders.
func isBelow(text string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		rest, inside := strings.CutPrefix(text, folder)
		return inside && (rest == "" || strings.HasPrefix(rest, string(filepath.Separator)) || strings.HasPrefix(rest, ":"))
	})
}

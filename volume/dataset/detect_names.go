package dataset

import (
	"errors"
	"fmt"
	"path/filepath"
)

// This file gives a scan one name, whoever looks for it: predict, which takes each scan of a folder
// whatever its layout, and evaluate, which looks for the predictions of a data set's cases.

// A clashError says that two cases would have one name.
type clashError struct{ error }

func (e clashError) Unwrap() error { return e.error }

// detectNamed is [Detect], but where two data sets in the folder have cases of one name, the name
// of each data set's folder comes before those of its cases.
func detectNamed(folder string, o Options) (*Dataset, error) {
	d, err := Detect(folder, o)
	if clash := (clashError{}); errors.As(err, &clash) {
		o.NameByFolder = true
		d, err = Detect(folder, o)
	}
	return d, err
}

// NameAsCases gives scans of a folder that [Detect] has found with layout scans the names that they
// have as cases of the published data sets there: what [References] calls them. Where two data sets
// have cases of one name, the folder's name comes before those of all scans, and a note says so.
func NameAsCases(scans []Case, folder string, o Options) (note string) {
	sources, _, err := sourcesOf([]string{folder}, Options{})
	if err != nil {
		return ""
	}
	below := scansBelow(scans)
	own := make([]string, len(scans)) // names of the scans' data sets
	for n := range scans {
		own[n] = baseName(folder)
	}
	for _, s := range sources {
		if s.layout == LayoutScans {
			continue
		}
		d, err := s.read(Options{Volume: o.Volume})
		if err != nil {
			continue // names that do not follow the layout are as good as any
		}
		for _, c := range d.Cases {
			// of several series in the folder of one case, none is the case
			if found := below[filepath.Clean(c.Image)]; len(found) == 1 {
				scans[found[0]].ID, own[found[0]] = c.ID, baseName(s.root)
			}
		}
	}
	if len(sources) < 2 || allDiffer(scans) {
		return ""
	}
	for n := range scans {
		scans[n].ID = FileName(own[n] + "_" + scans[n].ID)
	}
	return fmt.Sprintf("data sets in %s have cases of one name: each label map is called after its "+
		"data set's folder and its case, such as %s", folder, scans[0].ID)
}

// scansBelow are the numbers of the scans that are a file, or lie below a folder, by its path.
func scansBelow(scans []Case) map[string][]int {
	below := map[string][]int{}
	for n, c := range scans {
		path, parent := "", filepath.Clean(c.Image)
		for path != parent {
			path, parent = parent, filepath.Dir(parent)
			below[path] = append(below[path], n)
		}
	}
	return below
}

func allDiffer(scans []Case) bool {
	known := map[string]bool{}
	for _, c := range scans {
		known[c.ID] = true
	}
	return len(known) == len(scans)
}

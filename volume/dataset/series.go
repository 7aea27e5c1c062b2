package dataset

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file puts package dicom's series where files are expected.

// seriesCase is a DICOM series found in a tree.
type seriesCase struct {
	folder string // the deepest one that holds all its files
	uid    string // see seriesUID
	suffix string // tells the series of one folder apart: "", or "_s3" for series number 3
}

// seriesUID names a series, also where one SeriesInstanceUID holds several volumes: UID#1, UID#2.
func seriesUID(s *dicom.Series) string {
	if s.Part > 0 {
		return fmt.Sprintf("%s#%d", s.UID, s.Part)
	}
	return s.UID
}

// listSeries finds the series of a tree that are scans: tomographic images with more than one slice. Those that cannot be read are among them, so that
// whoever prepares them is told why. Others are described.
func listSeries(root string) (found []seriesCase, others []string, err error) {
	all, passed, err := scanDICOM(root)
	if err != nil {
		return nil, nil, err
	}
	others = passedOver(passed)
	inFolder := map[string][]*dicom.Series{}
	var folders []string
	for _, s := range all {
		folder := commonFolder(s.Files)
		if s.Localizer || len(s.Files) < 2 && s.Err != nil {
			others = append(others, fmt.Sprintf("%s: passed over %s", folder, s))
			continue
		}
		if inFolder[folder] == nil {
			folders = append(folders, folder)
		}
		inFolder[folder] = append(inFolder[folder], s)
	}
	for _, folder := range folders {
		// File names are arbitrary: the cases' names must not depend on them.
		slices.SortFunc(inFolder[folder], func(a, b *dicom.Series) int {
			return cmp.Or(compareNatural(a.Number, b.Number), compareNatural(a.UID, b.UID), a.Part-b.Part)
		})
		suffixes := map[string]int{}
		for _, s := range inFolder[folder] {
			c := seriesCase{folder: folder, uid: seriesUID(s)}
			if len(inFolder[folder]) > 1 {
				c.suffix = "_s" + s.Number
				if s.Part > 0 {
					c.suffix += fmt.Sprintf("_%d", s.Part)
				}
				if suffixes[c.suffix]++; suffixes[c.suffix] > 1 { // two series of the same number
					c.suffix += fmt.Sprintf("_%c", 'a'+suffixes[c.suffix]-1)
				}
			}
			found = append(found, c)
		}
	}
	return found, others, nil
}

// passedOver describes DICOM files that are no images, those of one kind in one folder together: the first is named.
func passedOver(passed []dicom.Passed) (lines []string) {
	type kind struct{ folder, what string }
	counts, first := map[kind]int{}, map[kind]string{}
	var kinds []kind
	for _, p := range passed {
		if p.What == notDICOM && !strings.EqualFold(filepath.Ext(p.Path), ".dcm") {
			continue // anything may lie in a folder of scans; but a .dcm that is none, such as an empty one, may be a slice that is missing
		}
		k := kind{filepath.Dir(p.Path), describe(p)}
		if counts[k]++; counts[k] == 1 {
			kinds, first[k] = append(kinds, k), p.Path
		}
	}
	for _, k := range kinds {
		if counts[k] == 1 {
			lines = append(lines, fmt.Sprintf("%s: passed over: %s", first[k], k.what))
		} else {
			lines = append(lines, fmt.Sprintf("%s: passed over %d files, %s and more: %s", k.folder, counts[k], filepath.Base(first[k]), k.what))
		}
	}
	return lines
}

const notDICOM = "not DICOM" // what package dicom calls files that are something else

// scanDICOM looks at a file or at all files of a folder, which may be a link.
func scanDICOM(path string) ([]*dicom.Series, []dicom.Passed, error) {
	if stat, err := os.Stat(path); err == nil && stat.IsDir() {
		path += string(filepath.Separator)
	}
	return dicom.Scan(path)
}

func describe(p dicom.Passed) string {
	if p.Err != nil {
		return (&Entry{Path: p.Path}).about(p.Err.Error())
	}
	return p.What
}

// commonFolder is the deepest folder that holds all files.
func commonFolder(files []string) string {
	folder := filepath.Dir(files[0])
	for _, file := range files[1:] {
		for !strings.HasPrefix(file, folder+string(filepath.Separator)) && folder != filepath.Dir(folder) {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

// chooseSeries scans a file or folder for the wanted series: one of seriesUID's names, or whatever package dicom's Choose takes.
func chooseSeries(path, wanted string) (*dicom.Series, string, error) {
	all, passed, err := scanDICOM(path)
	if err != nil {
		return nil, "", err
	}
	if at := slices.IndexFunc(all, func(s *dicom.Series) bool { return seriesUID(s) == wanted }); wanted != "" && at >= 0 {
		return all[at], "as asked for", nil
	}
	if len(all) == 0 {
		for _, p := range passed {
			if p.Err != nil {
				return nil, "", p.Err
			}
		}
		return nil, "", &volume.UnsupportedError{Path: path, Problem: "holds no scan: a NIfTI file or DICOM images are looked for"}
	}
	s, why, err := dicom.Choose(all, wanted)
	if err != nil {
		return nil, "", named(path, err)
	}
	if len(all) == 1 {
		why = ""
	}
	return s, why, nil
}

// named puts the path before an error that does not have it.
func named(path string, err error) error {
	if strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// readSeries reads a series of a folder. Notes say what was chosen and repaired; descending, that instance numbers fall from the first slice to the last.
func readSeries(path, wanted string, o ReadOptions) (v *volume.Volume, descending bool, notes []string, err error) {
	s, why, err := chooseSeries(path, wanted)
	if err != nil {
		return nil, false, nil, err
	}
	if why != "" && wanted == "" {
		notes = append(notes, fmt.Sprintf("%s: %s", s, why))
	}
	v, err = dicom.ReadWith(s, dicom.Options{Tilt: o.Tilt, Gaps: o.Gaps, Note: func(note string) { notes = append(notes, note) }})
	if err != nil {
		return nil, false, nil, named(path, err)
	}
	return v, s.Instances[0] > s.Instances[len(s.Instances)-1], notes, nil
}

// inspectSeries lists the series below a path, each to be read when its turn comes, and describes what else was found there.
func inspectSeries(path string) (look []func() Entry, others []string, err error) {
	all, passed, err := scanDICOM(path)
	if err != nil {
		return nil, nil, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	var rest []dicom.Passed
	for _, p := range passed {
		if p.Err == nil && stat.IsDir() {
			rest = append(rest, p)
			continue
		}
		e := Entry{Path: p.Path, Kind: "DICOM"}
		if p.What == notDICOM {
			e.Kind = "unknown"
		}
		e.problem("%s", describe(p))
		look = append(look, func() Entry { return e })
	}
	for _, s := range all {
		look = append(look, func() Entry { return inspectOne(path, stat.IsDir(), s) })
	}
	return look, passedOver(rest), nil
}

func inspectOne(path string, folder bool, s *dicom.Series) Entry {
	e := Entry{Path: path, Kind: "DICOM", Series: s.UID}
	if folder {
		e.Path = commonFolder(s.Files)
	}
	for _, p := range s.Problems {
		e.Problems = append(e.Problems, e.about(p))
	}
	if s.Localizer {
		e.problem("a localizer, no scan")
	}
	if s.Grid != (volume.Grid{}) {
		e.setGrid(s.Grid)
	}
	v, err := dicom.Read(s)
	if err != nil {
		if text := e.about(err.Error()); !slices.Contains(e.Problems, text) {
			e.problem("%s", text)
		}
		return e
	}
	e.setGrid(v.Grid)
	e.Dtype = "int16"
	if v.Int16 == nil {
		e.Dtype = "float32"
	}
	e.setValues(v)
	return e
}

package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file finds DICOM series in trees of scans, and reads them as cases.

// SeriesAll asks for every series of a study.
const SeriesAll = "all"

// seriesCase is a DICOM series found in a tree, or a study of which none can be chosen.
type seriesCase struct {
	folder string // the deepest one that holds all its files
	series *dicom.Series
	labels object // of the series; no path for none
	// suffix tells the series of one folder apart: "", or "_s3" for series number 3
	suffix  string
	refused error // why there is no series
}

// seriesUID names a series, also where one SeriesInstanceUID holds several volumes: UID#1, UID#2.
func seriesUID(s *dicom.Series) string {
	if s.Part > 0 {
		return fmt.Sprintf("%s#%d", s.UID, s.Part)
	}
	return s.UID
}

// listSeries finds the scans of a tree: of each study the series that is wanted, all of them, or
// where none is named the one that package dicom's Choose takes. Series that cannot be read are
// among them: preparing them says why. Notes say what was chosen of several; others, what was
// passed over. The SEG object or structure set of each, or the one of several that is wanted, is
// its labels; those that keep leaves out are not looked at.
func listSeries(root string, o Options, keep func([]object) []object) (found []seriesCase, notes, others []string, err error) {
	wanted, segmentation := o.Series, o.Segmentation
	all, passed, err := o.seen.scanDICOM(root)
	if err != nil {
		return nil, nil, nil, err
	}
	objects, passed := openObjects(passed)
	objects = keep(objects)
	others = passedOver(passed)
	for _, study := range studies(all) {
		var chosen []*dicom.Series
		for _, s := range study {
			switch folder := commonFolder(s.Files); {
			case wanted != "" && wanted != SeriesAll:
				if s.Is(wanted) {
					chosen = append(chosen, s)
				}
			case s.Localizer || s.Shape[2] < 2 && s.Err != nil:
				others = append(others, fmt.Sprintf("%s: passed over %s", folder, s))
			case s.Fragment() && s.Shape[2] > 1:
				others = append(others, fragment(folder, s, all))
			default:
				chosen = append(chosen, s)
			}
		}
		folder := commonFolder(studyFiles(study))
		switch {
		case len(chosen) == 0 && wanted != "" && wanted != SeriesAll:
			notes = append(notes, fmt.Sprintf("%s: passed over, because there is no series %s", folder, wanted))
		case len(chosen) > 1 && wanted != SeriesAll:
			s, why, err := dicom.Choose(chosen, wanted)
			if err != nil {
				if wanted == "" {
					notes = append(notes, fmt.Sprintf("%s: none of %d series is an axial CT: --series chooses one, --series all takes each", folder, len(chosen)))
				}
				found = append(found, seriesCase{folder: folder, refused: named(folder, err)})
				continue
			}
			if wanted == "" {
				why += "; --series chooses another, --series all takes each"
				if n := countElsewhere(chosen, s); n > 0 {
					why += fmt.Sprintf(". %d of them lie in other folders and frames of reference: if those are other patients whose studies were given one UID, take each", n)
				}
			}
			notes = append(notes, fmt.Sprintf("%s: %s: %s", folder, s, why))
			chosen = []*dicom.Series{s}
		}
		for _, s := range chosen {
			found = append(found, seriesCase{folder: commonFolder(s.Files), series: s})
		}
	}
	if len(found) == 0 && len(all) > 0 && wanted != "" && wanted != SeriesAll {
		_, _, err := dicom.Choose(all, wanted)
		return nil, nil, nil, err
	}
	if wanted == "" {
		var fragments []*dicom.Series
		found, fragments = refuseSingles(found)
		for _, s := range fragments {
			others = append(others, fragment(commonFolder(s.Files), s, all))
		}
	}
	nameSuffixes(found)
	notes = append(notes, pairObjects(found, objects, all, segmentation)...)
	return found, notes, others, nil
}

// fragment says that a series is passed over for its few slices, and what takes it.
func fragment(folder string, s *dicom.Series, all []*dicom.Series) string {
	return fmt.Sprintf("%s: passed over %s: too few slices for a scan; --series %s takes it", folder, s, nameOf(s, all))
}

// nameOf is what --series takes for a series and for no other of its study.
func nameOf(s *dicom.Series, all []*dicom.Series) string {
	switch {
	case s.UID != "" && slices.ContainsFunc(all, s.SharesNumber):
		return seriesUID(s)
	case s.Part > 0:
		return fmt.Sprintf("%s.%d", s.Number, s.Part)
	}
	return s.Number
}

// refuseSingles refuses the single slices of a folder that look alike. They are of different
// studies, by their UIDs, and do not stack up: they may be what is left of a scan whose UIDs were
// replaced file by file. Other single slices are fragments.
func refuseSingles(found []seriesCase) (kept []seriesCase, fragments []*dicom.Series) {
	singles := map[string][]*dicom.Series{} // by folder
	for _, c := range found {
		if c.series != nil && c.series.Shape[2] == 1 {
			singles[c.folder] = append(singles[c.folder], c.series)
		}
	}
	refused := map[string]bool{}
	for _, c := range found {
		if c.series == nil || c.series.Shape[2] > 1 {
			kept = append(kept, c)
			continue
		}
		count := 0
		for _, s := range singles[c.folder] {
			if c.series.LooksLike(s) {
				count++
			}
		}
		switch {
		case count < 2:
			fragments = append(fragments, c.series)
		case !refused[c.folder]:
			refused[c.folder] = true
			err := fmt.Errorf("%s: %d single slices that look alike have UIDs of their own and do not stack up evenly: slices of one scan may be missing or have wrong UIDs; --series all takes each as a case", c.folder, count)
			kept = append(kept, seriesCase{folder: c.folder, refused: err})
		}
	}
	return kept, fragments
}

// countElsewhere counts the scans in other folders and frames of reference than one.
func countElsewhere(series []*dicom.Series, one *dicom.Series) int {
	n := 0
	for _, s := range series {
		if !s.Projection() && elsewhere(s, one) {
			n++
		}
	}
	return n
}

// elsewhere reports whether two series lie in different folders and different frames of reference.
// If their studies have one UID, they are of different patients who were given the same UID.
func elsewhere(a, b *dicom.Series) bool {
	return !a.SameSpace(b) && commonFolder(a.Files) != commonFolder(b.Files)
}

// studies puts the series of one study together, in the order of their first files. Without a
// StudyInstanceUID, a folder is a study.
func studies(all []*dicom.Series) (grouped [][]*dicom.Series) {
	at := map[string]int{}
	for _, s := range all {
		key := s.Study
		if key == "" {
			key = filepath.Dir(s.Files[0])
		}
		if _, known := at[key]; !known {
			at[key] = len(grouped)
			grouped = append(grouped, nil)
		}
		grouped[at[key]] = append(grouped[at[key]], s)
	}
	return grouped
}

func studyFiles(study []*dicom.Series) (files []string) {
	for _, s := range study {
		files = append(files, s.Files...)
	}
	return files
}

// nameSuffixes tells the series of one folder apart, by number. File names are arbitrary: the
// cases' names must not depend on them.
func nameSuffixes(found []seriesCase) {
	inFolder := map[string][]*seriesCase{}
	for n := range found {
		inFolder[found[n].folder] = append(inFolder[found[n].folder], &found[n])
	}
	for _, cases := range inFolder {
		if len(cases) == 1 {
			continue
		}
		refused := 0
		for _, c := range cases {
			if c.series == nil { // studies whose folders lie among each other
				refused++
				c.suffix = fmt.Sprintf("_study%d", refused)
			}
		}
		cases = slices.DeleteFunc(cases, func(c *seriesCase) bool { return c.series == nil })
		slices.SortFunc(cases, func(a, b *seriesCase) int {
			return cmp.Or(compareNatural(a.series.Number, b.series.Number), compareNatural(a.series.UID, b.series.UID), a.series.Part-b.series.Part)
		})
		suffixes := map[string]int{}
		for _, c := range cases {
			c.suffix = "_s" + c.series.Number
			if c.series.Part > 0 {
				c.suffix += fmt.Sprintf("_%d", c.series.Part)
			}
			if suffixes[c.suffix]++; suffixes[c.suffix] > 1 { // two series of the same number
				c.suffix += "_" + letters(suffixes[c.suffix])
			}
		}
	}
}

// letters counts as the columns of a table are named: a to z, aa, ab, ...
func letters(n int) (name string) {
	for ; n > 0; n = (n - 1) / 26 {
		name = string(rune('a'+(n-1)%26)) + name
	}
	return name
}

// mayBeSlice matches names that images have: .dcm, a number without an extension, or a UID. A file
// with such a name that is not DICOM, perhaps because it is empty, may be a slice that is missing.
var mayBeSlice = regexp.MustCompile(`(?i)^([^.]*[0-9][^.]*|.*\.dcm|[0-9.]+)$`)

// passedOver describes DICOM files that are no images, those of one kind in one folder together:
// the first is named.
func passedOver(passed []dicom.Passed) (lines []string) {
	type kind struct{ folder, what string }
	counts, first := map[kind]int{}, map[kind]string{}
	var kinds []kind
	for _, p := range passed {
		if p.What == dicom.NotDICOM && !mayBeSlice.MatchString(filepath.Base(p.Path)) {
			continue // anything may lie in a folder of scans
		}
		if p.Archive && archiveKinds[strings.TrimPrefix(strings.ToLower(filepath.Ext(p.Path)), ".")] {
			continue // counted by its extension
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

// listed is the folder whose files a DICOMDIR lists, and any other path itself.
func listed(path string) string {
	if strings.EqualFold(filepath.Base(path), "DICOMDIR") && isFile(path) {
		return filepath.Dir(path)
	}
	return path
}

// scanDICOM looks at a file, or at the files of a folder but for those that are NIfTI, NRRD or
// MetaImage by their names. A DICOMDIR stands for the folder that it lists.
func scanDICOM(path string) ([]*dicom.Series, []dicom.Passed, error) {
	path = listed(path)
	return dicom.ScanOnly(func(file string) bool { return file == path || !isVoxels(file) }, path)
}

func describe(p dicom.Passed) string {
	if errors.Is(p.Err, fs.ErrNotExist) {
		return standin.Link(p.Path)
	}
	if p.Err != nil {
		return (&Entry{Path: p.Path}).about(p.Err.Error())
	}
	return cmp.Or(p.StandsIn, p.What)
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

// chooseSeries scans a file or folder for the wanted series, or takes what package dicom's Choose
// takes.
func chooseSeries(path, wanted string) (*dicom.Series, string, error) {
	all, passed, err := scanDICOM(path)
	if err != nil {
		return nil, "", err
	}
	if len(all) == 0 {
		for _, p := range passed {
			if p.Err != nil {
				return nil, "", p.Err
			}
		}
		problem := "holds no scan: a NIfTI file or DICOM images are looked for"
		if len(passed) == 1 && passed[0].Path == path {
			if p := passed[0]; p.StandsIn != "" {
				problem = p.StandsIn
			} else if p.What != dicom.NotDICOM {
				problem = "is no scan, but " + p.What
			}
		}
		return nil, "", &volume.UnsupportedError{Path: path, Problem: problem}
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

// DICOM returns the series that the case's image is. It fails where it is something else.
func (c Case) DICOM() (*dicom.Series, error) {
	s, _, err := c.findSeries()
	return s, err
}

// findSeries also says why it was chosen, "" where there was no choice.
func (c Case) findSeries() (s *dicom.Series, why string, err error) {
	switch {
	case c.refused != nil:
		return nil, "", c.refused
	case c.series != nil:
		return c.series, c.why, nil
	case !c.IsDICOM():
		return nil, "", fmt.Errorf("%s is not DICOM", c.Image)
	}
	s, why, err = chooseSeries(c.Image, c.Series)
	if c.Series != "" {
		why = ""
	}
	return s, why, err
}

// IsDICOM says whether the case's image is a DICOM series, and no NIfTI file.
func (c Case) IsDICOM() bool {
	stat, err := os.Stat(c.Image)
	return err == nil && (stat.IsDir() || !isVoxels(c.Image))
}

// readSeries reads the case's series. Notes say what was chosen and repaired.
func (c Case) readSeries(o ReadOptions) (v *volume.Volume, s *dicom.Series, notes []string, err error) {
	s, why, err := c.findSeries()
	if err != nil {
		return nil, nil, nil, err
	}
	if why != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", s, why))
	}
	v, err = dicom.ReadWith(s, o.dicom(func(note string) { notes = append(notes, note) }))
	if err != nil {
		return nil, nil, nil, named(c.Image, err)
	}
	notes = append(notes, doubtsAboutGrid(v.Grid)...)
	if mayBeCT(s) {
		notes = append(notes, doubtsAbout(v)...)
	}
	return v, s, notes, nil
}

// byInstance puts the slices of an array, which count by InstanceNumber, in the order of the
// series. It fails where the numbers do not say which slice is meant.
func byInstance(s *dicom.Series, labels []uint16) ([]uint16, error) {
	area := s.Shape[0] * s.Shape[1]
	if len(s.Instances) != s.Shape[2] {
		return nil, fmt.Errorf("%s holds several images: labels that count slices by instance number cannot be told where they belong", s.Files[0])
	}
	order := make([]int, len(s.Instances)) // the slices, by number
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return s.Instances[a] - s.Instances[b] })
	for z := 1; z < len(order); z++ {
		a, b := order[z-1], order[z]
		switch x, y := s.Instances[a], s.Instances[b]; {
		case x == y && x == 0:
			return nil, fmt.Errorf("%s and %s have no instance number, by which the labels count the slices", s.Files[a], s.Files[b])
		case x == y:
			return nil, fmt.Errorf("%s and %s have the instance number %d both, by which the labels count the slices", s.Files[a], s.Files[b], x)
		case s.Instances[order[0]] == 0 && y != z: // 0 is a number only where all follow it
			return nil, fmt.Errorf("%s has no instance number, by which the labels count the slices", s.Files[order[0]])
		}
	}
	stack := make([]uint16, len(labels))
	for z, k := range order {
		copy(stack[k*area:][:area], labels[z*area:])
	}
	return stack, nil
}

// inspectSeries lists the series below a path, or those that are wanted, each to be read when its
// turn comes, and describes what else was found there.
func inspectSeries(path, wanted string, seen *seen) (look []sight, others []string, err error) {
	all, passed, err := seen.scanDICOM(path)
	if err != nil {
		return nil, nil, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	var rest []dicom.Passed
	for _, p := range passed {
		if p.What == dicom.WhatSEG {
			look = append(look, sight{p.Path, func() Entry { return inspectSegmentation(p.Path) }})
			continue
		}
		if p.What == dicom.WhatRTSTRUCT {
			look = append(look, sight{p.Path, func() Entry { return inspectStructures(p.Path) }})
			continue
		}
		if p.Err == nil && stat.IsDir() {
			rest = append(rest, p)
			continue
		}
		e := Entry{Path: p.Path, Kind: KindDICOM}
		if _, unread := errors.AsType[*fs.PathError](p.Err); p.What == dicom.NotDICOM || unread {
			e.Kind = KindUnknown
		}
		if p.What == dicom.NotDICOM && p.StandsIn == "" {
			e.problem("neither NIfTI nor DICOM")
		} else {
			e.problem("%s", describe(p))
		}
		look = append(look, sight{p.Path, func() Entry { return e }})
	}
	slices.SortStableFunc(all, func(a, b *dicom.Series) int {
		return cmp.Or(cmp.Compare(commonFolder(a.Files), commonFolder(b.Files)), compareNatural(a.Number, b.Number), a.Part-b.Part)
	})
	for _, s := range all {
		if wanted == "" || wanted == SeriesAll || s.Is(wanted) {
			look = append(look, sight{commonFolder(s.Files), func() Entry {
				e := inspectOne(path, stat.IsDir(), s)
				switch shared := slices.ContainsFunc(all, s.SharesNumber); {
				case shared && s.UID == "":
					e.problem("another series of its study has the same number, and this one has no UID to choose it by")
				case shared:
					e.problem("another series of its study has the same number: --series %s takes this one", s.UID)
				}
				return e
			}})
		}
	}
	return look, passedOver(rest), nil
}

func inspectOne(path string, folder bool, s *dicom.Series) Entry {
	e := Entry{
		Path: path, Kind: KindDICOM, Series: s.UID, Number: s.Number, Modality: s.Modality, Shape: s.Shape[:], Axcodes: s.Axcodes,
		Description: s.Description, Protocol: s.Protocol, Kernel: s.Kernel, Phase: s.Phase, ImageType: s.ImageType, Unit: s.Unit,
	}
	if s.Part > 0 {
		e.Number += fmt.Sprintf(".%d", s.Part)
	}
	if folder {
		e.Path = commonFolder(s.Files)
	}
	about := func(message string) string {
		if _, text, found := strings.Cut(message, "series "+s.Number+": "); found {
			return text // of the whole series, which the entry names
		}
		return e.about(message)
	}
	if s.Localizer {
		e.Kind = KindLocalizer // which is no problem, nor that it is a single slice
	} else {
		for _, p := range s.Problems {
			e.Problems = append(e.Problems, about(p))
		}
	}
	if s.Fragment() && !s.Localizer && s.Err == nil {
		e.problem("too few slices for a scan")
	}
	if s.Grid != (volume.Grid{}) {
		e.setGrid(s.Grid)
	}
	v, err := dicom.ReadWith(s, dicom.Options{Note: func(note string) {
		if !slices.Contains(s.Problems, note) { // found in the pixels
			e.problem("%s", note)
		}
	}})
	if err != nil {
		e.Unreadable = true
		if text := about(err.Error()); !slices.Contains(e.Problems, text) {
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
	if !s.Localizer {
		e.Problems = append(e.Problems, doubtsAboutGrid(v.Grid)...)
		if mayBeCT(s) {
			e.Problems = append(e.Problems, doubtsAbout(v)...)
		}
	}
	return e
}

package dataset

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: the DICOM series of a tree, and which of them are cases.

// SeriesAll asks for every series of a study.
const SeriesAll = "all"

// seriesCase is a DICOM series found in a tree, or a study of which none can be chosen.
type seriesCase struct {
	folder string // the deepest one that holds all its files
	series *dicom.Series
	labels format.Object   // of the series; no path for none
	joined []format.Object // SEG objects that are its labels together
	// suffix tells the series of one folder apart: "", or "_s3_35316aabfc" for series number 3 and
	// a digest of its UID
	suffix  string
	refused error           // why there is no series
	study   []*dicom.Series // where there is none
	more    []*dicom.Series // further channels
}

// isScan says whether a series is more than a localizer or a single image that cannot be read.
func isScan(s *dicom.Series) bool { return !s.Localizer && (s.Shape[2] >= 2 || s.Err == nil) }

// listSeries finds the scans of a tree: of each study the series that is wanted, all of them, or
// where none is named the one that package dicom's Choose takes, of those that labels refer to if
// there are any and labels are wanted. Series that cannot be read are
// among them: preparing them says why. Notes say what was chosen of several; others, what was
// passed over. The SEG object or structure set of each, or the one of several that is wanted, is
// its labels; those that keep leaves out are not looked at.
func listSeries(root string, o Options, keep func([]format.Object) []format.Object) (found []seriesCase, notes,
	others []string,
	err error) {
	wanted := o.Series
	all, passed, err := o.seen.scanDICOM(root)
	if err != nil {
		return nil, nil, nil, err
	}
	objects, passed := openObjects(passed)
	objects = keep(objects)
	drawn, notes := objectsOn(all, objects)
	preferred := drawn
	if o.Unlabelled {
		preferred = nil
	}
	others = passedOver(passed)
	for _, study := range studies(all) {
		var chosen []*dicom.Series
		if o.Channels != nil {
			channels, why, err := channelSeries(study, o.Channels, preferred)
			folder := commonFolder(studyFiles(study))
			switch {
			case err != nil:
				found = append(found, seriesCase{folder: folder, refused: named(folder, err), study: study})
			case channels == nil:
				notes = append(notes, fmt.Sprintf("%s: passed over, because no series is a channel (%s)", folder,
					strings.Join(o.Channels, ", ")))
			default:
				notes = append(notes, fmt.Sprintf("%s: %s", folder, why))
				found = append(found, seriesCase{folder: folder, series: channels[0], more: channels[1:]})
			}
			continue
		}
		for _, s := range study {
			switch folder := commonFolder(s.Files); {
			case wanted != "" && wanted != SeriesAll:
				if s.Is(wanted) {
					chosen = append(chosen, s)
				}
			case !isScan(s):
				others = append(others, fmt.Sprintf("%s: passed over %s", folder, s))
			case s.Fragment() && s.Shape[2] > 1:
				others = append(others, fragment(folder, s, all))
			default:
				chosen = append(chosen, s)
			}
		}
		folder := commonFolder(studyFiles(study))
		switch {
		case len(chosen) == 0 && o.everyStudy && slices.ContainsFunc(study, isScan):
			found = append(found, seriesCase{folder: folder, study: study, refused: named(folder, fmt.Errorf(
				"it has no series %s, by which the network's training chose: --series chooses another, --series all "+
					"takes each", safetext.Quote(wanted)))})
		case len(chosen) == 0 && wanted != "" && wanted != SeriesAll:
			notes = append(notes, fmt.Sprintf("%s: passed over, because there is no series %s", folder, wanted))
		case len(chosen) > 1 && wanted != SeriesAll:
			s, why, err := chooseDrawn(chosen, wanted, preferred)
			if err != nil {
				if wanted == "" {
					notes = append(notes,
						fmt.Sprintf("%s: none of %d series is an axial CT: "+
							"--series chooses one, --series all takes each", folder, len(chosen)))
				}
				found = append(found, seriesCase{folder: folder, refused: named(folder, err), study: study})
				continue
			}
			if wanted == "" {
				why += "; --series chooses another, --series all takes each"
				if n := countElsewhere(chosen, s); n > 0 {
					why += fmt.Sprintf(". %d of them lie in other folders and frames of reference: if those are "+
						"other patients whose studies were given one UID, take each", n)
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
	notes = append(notes, pairObjects(found, drawn, all, o)...)
	return found, notes, others, nil
}

// fragment says that a series is passed over for its few slices, and what takes it.
func fragment(folder string, s *dicom.Series, all []*dicom.Series) string {
	return fmt.Sprintf("%s: passed over %s: too few slices for a scan; --series %s takes it", folder, s, nameOf(s, all))
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
			err := fmt.Errorf("%s: %d single slices that look alike have UIDs of their own and do not stack up "+
				"evenly: slices of one scan may be missing or have wrong UIDs; --series all takes each as a case",
				c.folder, count)
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

// nameSuffixes tells the series of one folder apart, by number and UID. Neither file names nor what
// else lies in the folder count: a name that went to another scan when a file comes or goes would
// pair that scan with the labels of this one.
func nameSuffixes(found []seriesCase) {
	inFolder := map[string][]*seriesCase{}
	for n := range found {
		inFolder[found[n].folder] = append(inFolder[found[n].folder], &found[n])
	}
	for _, cases := range inFolder {
		if len(cases) == 1 {
			continue
		}
		slices.SortStableFunc(cases, func(a, b *seriesCase) int {
			if a.series == nil || b.series == nil {
				return 0
			}
			return a.series.Part - b.series.Part
		})
		suffixes := map[string]int{}
		for _, c := range cases {
			c.suffix = c.ownSuffix()
			if suffixes[c.suffix]++; suffixes[c.suffix] > 1 { // without UIDs, or both with one
				c.suffix += "_" + letters(suffixes[c.suffix])
			}
		}
	}
}

// ownSuffix is what the UIDs of a series, or of a study of which none was chosen, say.
func (c *seriesCase) ownSuffix() string {
	if c.series != nil {
		uid := cmp.Or(c.series.UID, strings.TrimPrefix(c.series.Files[0], c.folder))
		suffix := "_s" + c.series.Number + "_" + shortDigest(uid)
		if c.series.Part > 0 {
			suffix += fmt.Sprintf("_%d", c.series.Part)
		}
		return suffix
	}
	if len(c.study) == 0 { // single slices, with UIDs of their own
		return "_slices"
	}
	// studies whose folders lie among each other; without a UID they are told apart by the series'
	uids := []string{c.study[0].Study}
	if uids[0] == "" {
		uids = nil
		for _, s := range c.study {
			uids = append(uids, s.UID)
		}
		slices.Sort(uids)
	}
	return "_study_" + shortDigest(strings.Join(uids, "\n"))
}

// shortDigest tells texts apart in a name, without saying them.
func shortDigest(text string) string { return fmt.Sprintf("%.5x", sha256.Sum256([]byte(text))) }

// openObjects opens the SEG objects and structure sets among files that were passed over. Those
// that cannot be opened stay there, with the reason, and so do copies.
func openObjects(passed []dicom.Passed) (objects []format.Object, others []dicom.Passed) {
	for _, p := range passed {
		if p.What == dicom.WhatSEG || p.What == dicom.WhatRTSTRUCT {
			o, err := format.OpenObject(p.Path)
			switch {
			case err != nil:
				p.Err = err
			case slices.ContainsFunc(objects, o.Same):
				p.What = "copy"
			default:
				objects = append(objects, o)
				continue
			}
		}
		others = append(others, p)
	}
	return objects, others
}

// chooseDrawn is package dicom's Choose. Where nobody asks for a series, those that labels refer to
// go before the others.
func chooseDrawn(series []*dicom.Series, wanted string, drawn map[*dicom.Series][]format.Object) (
	*dicom.Series, string, error) {
	labelled := drawnOf(series, drawn)
	if wanted != "" || len(labelled) == len(series) {
		return dicom.Choose(series, wanted)
	}
	if len(labelled) == 1 {
		return labelled[0], fmt.Sprintf("the one of %d series that labels refer to", len(series)), nil
	}
	s, why, err := dicom.Choose(labelled, "")
	return s, fmt.Sprintf("%s that labels refer to, of %d", why, len(series)), err
}

// pairObjects gives series their labels: the SEG object or structure set that was drawn on it, or
// the one of several that is wanted. Notes say which was not taken, and why.
func pairObjects(found []seriesCase, drawn map[*dicom.Series][]format.Object, all []*dicom.Series, o Options) (
	notes []string) {
	drawn, wanted := maps.Clone(drawn), o.Segmentation
	for s := range drawn { // what --pairs names has its scan from there
		drawn[s] = slices.DeleteFunc(slices.Clone(drawn[s]),
			func(one format.Object) bool { return o.given[absoluteOf(one.Path)] })
	}
	for n := range found {
		c := &found[n]
		candidates := drawn[c.series]
		delete(drawn, c.series)
		if wanted != "" && len(candidates) > 0 {
			asked := slices.DeleteFunc(slices.Clone(candidates), func(o format.Object) bool { return !o.Is(wanted) })
			if len(asked) == 0 {
				notes = append(notes, fmt.Sprintf("%s: used without labels, because none of its %s is %s:%s", c.folder,
					kindsOf(candidates), wanted, listObjects(candidates)))
			}
			candidates = asked
		}
		switch {
		case len(candidates) == 1:
			c.labels = candidates[0]
		case len(candidates) > 1:
			names, competing := structuresOf(candidates)
			if competing == "" {
				c.joined = candidates
				notes = append(notes, fmt.Sprintf("%s: its labels are %s with other structures each, put together: %s",
					c.folder, countKinds(candidates), safetext.List(names)))
				continue
			}
			notes = append(notes,
				fmt.Sprintf("%s: used without labels, because it has %s, and %s: --segmentation "+
					"chooses one by number, UID or file name; --pairs with the columns scan, labels and name takes "+
					"structures of several:%s",
					c.folder, countKinds(candidates), competing, listObjects(candidates)))
		}
	}
	for _, s := range all { // in their order
		for _, o := range drawn[s] {
			notes = append(notes,
				fmt.Sprintf("%s: passed over %s: it belongs to %s, which is not taken; --series %s takes it", o.Path, o,
					s, nameOf(s, all)))
		}
	}
	return notes
}

// kindsOf names what objects are, in the plural.
func kindsOf(objects []format.Object) string {
	segmentations, structures := divideKinds(objects)
	switch {
	case structures == 0:
		return "SEG objects"
	case segmentations == 0:
		return "RT structure sets"
	}
	return "SEG objects and RT structure sets"
}

// countKinds counts what objects are.
func countKinds(objects []format.Object) string {
	segmentations, structures := divideKinds(objects)
	switch {
	case structures == 0:
		return numbers.Count(segmentations, "SEG object")
	case segmentations == 0:
		return numbers.Count(structures, "RT structure set")
	}
	return numbers.Count(segmentations, "SEG object") + " and " + numbers.Count(structures, "RT structure set")
}

func divideKinds(objects []format.Object) (segmentations, structures int) {
	for _, o := range objects {
		if o.Structures != nil {
			structures++
		}
	}
	return len(objects) - structures, structures
}

func listObjects(objects []format.Object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "\n  %s: %s", filepath.Base(o.Path), o)
	}
	return b.String()
}

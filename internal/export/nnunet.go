// Package export hands data sets over to other programs.
//
// Start at [NNUNet], which writes nnU-Net's raw data.
package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// What cases are called.
const (
	NamesNumbered = "numbered" // case_0001 and so on: nothing of a patient is in the name of a file
	NamesKeep     = "keep"     // as they are called where they lie
)

// Options say how a data set is exported.
type Options struct {
	Names string // NamesNumbered or NamesKeep
	Read  dataset.ReadOptions
	// Channels are what dataset.json calls the channels. nnU-Net takes one that is called CT for
	// Hounsfield units, and normalises any other by itself. Of one channel it is the modality in
	// the words of DICOM, and a scan whose header or values are another's is refused.
	Channels []string
	Folds    int    // of splits_final.json
	Seed     uint64 // of the division into folds
	// Regions are what nnU-Net is to learn instead of labels, each a name and labels that it
	// takes together: "whole=edema+tumour". A later one lies within those before it, or beside
	// them. nil: labels.
	Regions []string
}

// The names in nnU-Net's folder of a data set, and what is written beside them.
const (
	datasetFile = "dataset.json"
	splitsFile  = "splits_final.json"
	namesFile   = "names.csv"
	images      = "imagesTr"
	labels      = "labelsTr"
	testImages  = "imagesTs" // scans without labels, too
	testLabels  = "labelsTs"
	ending      = ".nii.gz"
)

// folders are those of the data set.
var folders = []string{images, labels, testImages, testLabels}

// beside are the files beside the folders.
var beside = []string{datasetFile, splitsFile, namesFile}

func owner(files []string) outdir.Owner { return outdir.Owner{Name: "voxsaw export", Files: files} }

// Summary is what was exported.
type Summary struct {
	Labelled   int               `json:"labelled"` // to learn from
	Unlabelled int               `json:"unlabelled"`
	HeldBack   int               `json:"held_back"` // of those with labels, apart for testing
	Channels   []string          `json:"channels"`
	Labels     map[uint16]string `json:"labels"` // by the numbers that nnU-Net has them under
	Folds      int               `json:"folds"`
	Notes      []string          `json:"notes"`
}

// A CaseError says what is wrong with a case, without which nothing is exported.
type CaseError struct {
	ID  string
	err error
}

func (e *CaseError) Error() string { return e.ID + ": " + e.err.Error() }

// Unwrap gives what is wrong.
func (e *CaseError) Unwrap() error { return e.err }

// NNUNet writes a data set into a folder as nnU-Net v2 wants raw data: imagesTr, labelsTr and
// dataset.json; scans without labels in imagesTs, and so those that the data set holds back for
// testing, with their labels in labelsTs; splits_final.json, whose folds divide patients; and
// names.csv, which says which case was which scan, and is not for nnU-Net. Scans keep their voxels
// and values, labels get the numbers 1, 2, ... without gaps, one that is called ignore the highest.
//
// dataset.json is written last: a folder without it was interrupted, and is written anew. One
// process has the folder at a time. A case that cannot be read is an error: nothing is left out.
// tell is told each case and what was noticed in it; it may be nil.
//
// Source: documentation/dataset_format.md, region_based_training.md and ignore_label.md of
// nnU-Net 2.8.
func NNUNet(ctx context.Context, d *dataset.Dataset, dir string, o Options,
	tell func(id string, notes []string)) (*Summary, error) {
	if err := unwritten(dir); err != nil {
		return nil, err
	}
	regions, err := regionsOf(o.Regions)
	if err != nil {
		return nil, err
	}
	e := &exporter{dataset: d, dir: dir, options: o, regions: regions, numbers: map[uint16]bool{},
		names: map[uint16]string{}, undrawn: map[uint16][]string{}}
	if err := e.name(); err != nil {
		return nil, err
	}
	if err := e.checkRegions(); err != nil {
		return nil, err
	}
	release, err := e.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := unwritten(dir); err != nil { // another process may have been at work
		return nil, err
	}
	if err := removeInterrupted(dir); err != nil {
		return nil, err
	}
	for n, c := range d.Cases {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("stopped after %d of %s: %w", n, numbers.Count(len(d.Cases), "case"), err)
		}
		notes, err := e.write(c)
		if err != nil {
			return nil, &CaseError{c.ID, err}
		}
		if tell != nil {
			tell(c.ID, notes)
		}
	}
	return e.finish(ctx)
}

// unwritten makes sure that no data set is in a folder.
func unwritten(dir string) error {
	_, err := os.Stat(filepath.Join(dir, datasetFile))
	if err == nil {
		return fmt.Errorf("%s has a data set already: remove it, or choose another folder", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hold takes the folder and the names of all files that are going to be written.
func (e *exporter) hold() (release func(), err error) {
	files := slices.Clone(beside)
	for _, c := range e.dataset.Cases {
		for n := range e.options.Channels {
			files = append(files, e.imageOf(c, n))
		}
		if labelled(c) {
			files = append(files, e.labelsOf(c))
		}
	}
	return owner(files).Hold(e.dir)
}

// removeInterrupted removes the scans and labels of an export that was interrupted. Where there are
// others, which it did not write, it removes nothing.
func removeInterrupted(dir string) error {
	listed, err := outdir.Names(dir)
	if err != nil {
		return err
	}
	var own []string
	for _, folder := range folders {
		has := func(name string) bool { return slices.Contains(listed, path.Join(folder, name)) }
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = atomicfile.Clean(filepath.Join(dir, folder), has)
		}
		if err != nil {
			return err
		}
		for _, f := range entries {
			switch {
			case has(f.Name()):
				own = append(own, filepath.Join(dir, folder, f.Name()))
			case strings.HasSuffix(f.Name(), ending) && !strings.HasPrefix(f.Name(), "."):
				return fmt.Errorf("%s is not of voxsaw export, and would lie in the data set: move it away, "+
					"or choose another folder", filepath.Join(dir, folder, f.Name()))
			}
		}
	}
	for _, file := range own {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, folder := range folders {
		_ = os.Remove(filepath.Join(dir, folder)) // where nothing is left in it
	}
	return nil
}

type exporter struct {
	dataset *dataset.Dataset
	dir     string
	options Options
	regions []region
	called  map[string]string // by what a case is called in the data set
	numbers map[uint16]bool   // labels that were met; true: in a case to learn from
	names   map[uint16]string
	undrawn map[uint16][]string // cases in which nobody drew a label
	order   []string            // of the labelled cases to learn from
	tested  []string            // labelled cases that are held back for testing
}

func labelled(c dataset.Case) bool { return c.Labels != "" || len(c.Masks) > 0 }

// learnt says whether nnU-Net is to learn from a case.
func learnt(c dataset.Case) bool { return labelled(c) && c.Group != dataset.GroupTest }

// name gives each case the name of its files.
func (e *exporter) name() error {
	e.called = map[string]string{}
	taken := map[string]string{}
	for n, c := range e.dataset.Cases {
		name := fmt.Sprintf("case_%04d", n+1)
		if e.options.Names == NamesKeep {
			name = dataset.FileName(c.ID)
		}
		if other, ok := taken[strings.ToLower(name)]; ok {
			return fmt.Errorf("%s and %s would have the same file name %s", other, c.ID, name)
		}
		taken[strings.ToLower(name)], e.called[c.ID] = c.ID, name
		switch {
		case learnt(c):
			e.order = append(e.order, c.ID)
		case labelled(c):
			e.tested = append(e.tested, c.ID)
		}
	}
	if n := len(e.tested); len(e.order) == 0 && n > 0 {
		return fmt.Errorf("nnU-Net would have nothing to learn: the data set holds back all of the %s for testing",
			numbers.Count(n, "scan")+" with labels")
	}
	if len(e.order) == 0 {
		return errors.New("no scan has labels, without which nnU-Net has nothing to learn")
	}
	return nil
}

// write writes the files of a case; its labels have the numbers of the data set still.
func (e *exporter) write(c dataset.Case) (notes []string, err error) {
	var v *volume.Volume
	var l *volume.LabelMap
	if labelled(c) {
		v, l, notes, err = c.Read(e.options.Read, e.dataset.LabelNames)
	} else {
		v, notes, err = c.ReadImage(e.options.Read)
	}
	if err != nil {
		return nil, err
	}
	more, others, err := c.ReadMore(v.Grid, e.options.Read)
	if err != nil {
		return nil, err
	}
	notes = append(notes, others...)
	if len(more) == 0 && len(e.options.Channels) == 1 && !e.dataset.SaysModality() {
		if err := c.CheckModality(v, e.options.Channels[0], false); err != nil {
			return nil, hint.Addf(err, "--modality %s takes all scans as they are", e.options.Channels[0])
		}
	}
	if len(more)+1 != len(e.options.Channels) {
		return nil, fmt.Errorf("has %d channels, where %s are wanted", len(more)+1,
			strings.Join(e.options.Channels, ", "))
	}
	for n, channel := range append([]*volume.Volume{v}, more...) {
		if dataset.ModalityOfChannel(e.options.Channels[n]) == volume.ModalityCT {
			if why := dataset.ShiftedCT(channel); why != "" {
				notes = append(notes, "WARNING: "+why+", and is written as it is")
			}
		}
		path := filepath.Join(e.dir, e.imageOf(c, n))
		if err := atomicfile.MakeFolder(filepath.Dir(path)); err != nil {
			return nil, err
		}
		if err := nifti.Write(path, channel); err != nil {
			return nil, err
		}
	}
	if l == nil {
		return notes, nil
	}
	for number := range l.Counts() {
		if number > 0 {
			e.numbers[number] = e.numbers[number] || learnt(c)
		}
	}
	for number, name := range l.Names {
		e.names[number] = cmp.Or(e.names[number], name)
	}
	if learnt(c) {
		for _, number := range l.Undrawn {
			e.undrawn[number] = append(e.undrawn[number], c.ID)
		}
	}
	own := volume.Preparation{Axcodes: v.Axcodes()} // nnU-Net takes them by index
	if l, err = own.ApplyLabels(l, v.Whole()); err != nil {
		return nil, err
	}
	path := filepath.Join(e.dir, e.labelsOf(c))
	if err := atomicfile.MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return notes, nifti.WriteLabels(path, &volume.LabelMap{Grid: l.Grid, Labels: l.Labels})
}

// imageOf is the file of channel n of a case, in the folder of the data set.
func (e *exporter) imageOf(c dataset.Case, n int) string {
	folder := testImages
	if learnt(c) {
		folder = images
	}
	return path.Join(folder, fmt.Sprintf("%s_%04d"+ending, e.called[c.ID], n))
}

// labelsOf is the file of a case's labels there.
func (e *exporter) labelsOf(c dataset.Case) string {
	folder := testLabels
	if learnt(c) {
		folder = labels
	}
	return path.Join(folder, e.called[c.ID]+ending)
}

// ignored says whether a label is nnU-Net's ignore label.
func ignored(name string) bool { return strings.EqualFold(name, "ignore") }

// finish numbers the labels without gaps and writes what is about all cases.
func (e *exporter) finish(ctx context.Context) (*Summary, error) {
	maps.Copy(e.names, e.dataset.LabelNames)
	all := slices.SortedFunc(maps.Keys(e.numbers), func(a, b uint16) int {
		if x, y := ignored(e.names[a]), ignored(e.names[b]); x != y {
			return map[bool]int{true: 1, false: -1}[x]
		}
		return cmp.Compare(a, b)
	})
	if len(all) == 0 {
		return nil, errors.New("the labels are empty in every case: nnU-Net would have nothing to learn")
	}
	number := map[uint16]uint16{}
	s := &Summary{Labelled: len(e.order), HeldBack: len(e.tested), Labels: map[uint16]string{}}
	s.Unlabelled = len(e.dataset.Cases) - s.Labelled - s.HeldBack
	used := map[string]uint16{"background": 0}
	for n, old := range all {
		number[old] = uint16(n + 1)
		name := cmp.Or(e.names[old], fmt.Sprintf("label_%d", old))
		if ignored(name) {
			name = "ignore"
		}
		if _, ok := used[name]; ok {
			name = fmt.Sprintf("%s_%d", name, old)
		}
		used[name], s.Labels[uint16(n+1)] = uint16(n+1), name
		if !e.numbers[old] && !ignored(name) {
			s.Notes = append(s.Notes,
				fmt.Sprintf("WARNING: %s is in no case to learn from: nnU-Net cannot learn it", name))
		}
	}
	s.Channels = e.options.Channels
	description, err := e.describe(s, used)
	if err != nil {
		return nil, err
	}
	for _, c := range e.dataset.Cases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !labelled(c) {
			continue
		}
		if err := renumber(filepath.Join(e.dir, e.labelsOf(c)), number); err != nil {
			return nil, err
		}
	}
	if n := len(e.tested); n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s with labels that the data set holds back for testing: in %s and %s, "+
			"where nnU-Net does not learn from them", numbers.Count(n, "case"), testImages, testLabels))
	}
	for _, old := range slices.Sorted(maps.Keys(e.undrawn)) {
		if number[old] > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("WARNING: %s was not drawn in %d of %d cases, "+
				"where nnU-Net will take it for background: %s",
				s.Labels[number[old]], len(e.undrawn[old]), len(e.order), strings.Join(e.undrawn[old], ", ")))
		}
	}
	if err := e.split(s); err != nil {
		return nil, err
	}
	if err := e.list(); err != nil {
		return nil, err
	}
	if err := atomicfile.WriteBytes(filepath.Join(e.dir, datasetFile), description); err != nil {
		return nil, err
	}
	return s, owner(beside).Seal(e.dir)
}

// renumber changes the labels of a file, if they have other numbers.
func renumber(path string, number map[uint16]uint16) error {
	l, err := nifti.ReadLabels(path)
	if err != nil {
		return err
	}
	changed := false
	for i, old := range l.Labels {
		if now := number[old]; now != old {
			l.Labels[i], changed = now, true
		}
	}
	if !changed {
		return nil
	}
	return nifti.WriteLabels(path, &volume.LabelMap{Grid: l.Grid, Labels: l.Labels})
}

// describe makes dataset.json.
func (e *exporter) describe(s *Summary, used map[string]uint16) ([]byte, error) {
	var channels object
	for n, name := range s.Channels {
		channels = append(channels, member{strconv.Itoa(n), name})
	}
	classes, order := object{{"background", 0}}, []int{}
	var sets [][]int
	for _, r := range e.regions {
		var set []int
		for _, word := range r.labels {
			n, known := used[word]
			if !known || n == 0 || ignored(word) {
				return nil, noLabel(r, word, slices.Sorted(maps.Values(s.Labels)))
			}
			set = append(set, int(n))
		}
		order = append(order, int(used[r.own[0]]))
		if len(r.own) > 1 {
			s.Notes = append(s.Notes, fmt.Sprintf("WARNING: nnU-Net has one number for the voxels of region %s that "+
				"are in no other: those of %s become %s", r.name, strings.Join(r.own[1:], ", "), r.own[0]))
		}
		slices.Sort(set)
		classes, sets = append(classes, member{r.name, set}), append(sets, set)
	}
	for _, number := range slices.Sorted(maps.Keys(s.Labels)) {
		name := s.Labels[number]
		switch {
		case ignored(name) || len(sets) == 0:
			classes = append(classes, member{name, number})
		case !slices.ContainsFunc(sets, func(set []int) bool { return slices.Contains(set, int(number)) }):
			return nil, fmt.Errorf("no region has the label %s: name all, or none", name)
		}
	}
	about := map[string]any{"channel_names": channels, "labels": classes, "numTraining": s.Labelled,
		"file_ending": ending, "name": filepath.Base(e.dir)}
	if len(order) > 0 {
		about["regions_class_order"] = order
	}
	text, err := json.MarshalIndent(about, "", "  ")
	return append(text, '\n'), err
}

// numbered is a name that the program gives a label: one without a name, or a second one of a name.
var numbered = regexp.MustCompile(`_\d+$`)

// checkRegions refuses, before any scan is read, labels of regions that there are not, where the
// data set names its labels. Where it does not, files may.
func (e *exporter) checkRegions() error {
	known := slices.Concat(slices.Sorted(maps.Values(e.dataset.LabelNames)), e.dataset.Structures)
	if len(known) == 0 {
		return nil
	}
	for _, r := range e.regions {
		for _, word := range r.labels {
			if !slices.Contains(known, word) && !numbered.MatchString(word) {
				return noLabel(r, word, known)
			}
		}
	}
	return nil
}

func noLabel(r region, word string, labels []string) error {
	return fmt.Errorf("region %s: there is no label %q: they are %s", r.name, word, strings.Join(labels, ", "))
}

// A region is what nnU-Net learns instead of labels.
type region struct {
	name   string
	labels []string
	own    []string // those that no later region takes: its other voxels get the first
}

// regionsOf reads them, as Options has them.
func regionsOf(texts []string) ([]region, error) {
	var all []region
	for _, text := range texts {
		name, list, ok := strings.Cut(text, "=")
		same := func(r region) bool { return r.name == name }
		if !ok || name == "" || name == "background" || ignored(name) || slices.ContainsFunc(all, same) {
			return nil, fmt.Errorf("region %q: want a new name, and labels, as in whole=edema+tumour", text)
		}
		all = append(all, region{name: name, labels: strings.Split(list, "+")})
	}
	for n, r := range all {
		own := slices.DeleteFunc(slices.Clone(r.labels), func(label string) bool {
			has := func(later region) bool { return slices.Contains(later.labels, label) }
			return slices.ContainsFunc(all[n+1:], has)
		})
		if len(own) == 0 {
			return nil, fmt.Errorf("region %q: later regions take all of its labels: name the larger regions first",
				texts[n])
		}
		all[n].own = own
		for m, later := range all[n+1:] {
			outside := func(label string) bool { return !slices.Contains(r.labels, label) }
			if slices.ContainsFunc(later.labels, outside) &&
				slices.ContainsFunc(later.labels, func(label string) bool { return !outside(label) }) {
				return nil, fmt.Errorf("regions %q and %q share labels, and the second does not lie in the first: "+
					"nnU-Net writes one label for all of a region, and would not tell its parts apart", texts[n],
					texts[n+1+m])
			}
		}
	}
	return all, nil
}

// An object is a JSON object whose members keep their order. nnU-Net goes by it: that of the
// regions is that of the network's outputs, to which regions_class_order belongs, and that of the
// channels decides which of them is normalised how.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (l object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for n, one := range l {
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		b.WriteByte("{,"[min(n, 1)])
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// split writes the folds, whose cases are whole patients.
func (e *exporter) split(s *Summary) error {
	patients := dataset.Patients{}
	people := map[string]bool{}
	var predicted []string
	for _, c := range e.dataset.Cases {
		if learnt(c) {
			if c.Patient != "" {
				patients[c.ID] = c.Patient
			}
			if c.Predicted {
				predicted = append(predicted, c.ID)
				continue
			}
			people[cmp.Or(c.Patient, "case "+c.ID)] = true
		}
	}
	if s.Folds = min(e.options.Folds, len(people)); s.Folds < 2 {
		s.Folds = 0
		note := "no splits_final.json: folds want two patients with labels at least"
		if len(predicted) > 0 {
			note += fmt.Sprintf(", and none validates on predictions, which are the labels of %s",
				numbers.Count(len(predicted), "case"))
		}
		s.Notes = append(s.Notes, note)
		return nil
	}
	if s.Folds < e.options.Folds {
		s.Notes = append(s.Notes, fmt.Sprintf("splits_final.json has %d folds, not %d: a patient with labels in each",
			s.Folds, e.options.Folds))
	}
	folds, err := dataset.Selection{Folds: s.Folds, FoldScheme: dataset.FoldsShuffled, SubsetSeed: e.options.Seed,
		Patients: patients, Predicted: predicted}.AllFolds(e.order)
	if err != nil {
		return err
	}
	for n := range folds {
		for _, list := range [][]string{folds[n].Train, folds[n].Val} {
			for i, id := range list {
				list[i] = e.called[id]
			}
		}
	}
	return dataset.WriteSplits(filepath.Join(e.dir, splitsFile), folds)
}

// list writes which case was which scan: of a DICOM series, also its UID and the first of its
// files, as several may lie in one folder.
func (e *exporter) list() error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"name", "case", "scan", "labels", "series", "first_file"}}
	for _, c := range e.dataset.Cases {
		series, first := c.Series, c.Image
		if c.IsDICOM() {
			if s, err := c.DICOM(); err == nil && len(s.Files) > 0 {
				series, first = s.UID, slices.Min(s.Files)
			}
		}
		rows = append(rows, []string{e.called[c.ID], c.ID, c.Image, c.Labels, series, first})
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(e.dir, namesFile), b.Bytes())
}

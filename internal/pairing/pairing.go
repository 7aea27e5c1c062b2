// Package pairing finds for each reference the prediction that is compared with it, and compares
// the two.
//
// Start at [Find]. [Pair.Read] reads both label maps, [Compare] scores the labels that were asked
// for. The metrics are package eval's, the reading package dataset's.
package pairing

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Pair is a prediction and its reference. A prediction that is missed has no path.
type Pair struct {
	Name                  string
	Prediction, Reference dataset.Labels
	group                 string // of the case
}

// Read reads both label maps, on one grid. Where there is no prediction, its label map is empty.
func (p Pair) Read(scans *dataset.Scans, o dataset.ReadOptions) (prediction, reference *volume.LabelMap,
	notes []string, err error) {
	if p.Prediction.Path != "" {
		return dataset.ReadPair(p.Prediction, p.Reference, scans, o)
	}
	_, reference, notes, err = dataset.ReadPair(p.Reference, p.Reference, scans, o)
	if err != nil {
		return nil, nil, nil, err
	}
	return &volume.LabelMap{Grid: reference.Grid, Labels: make([]uint16, len(reference.Labels))}, reference,
		slices.Compact(notes), nil
}

// Pairs are the label maps of two folders by their names.
type Pairs struct {
	Both         []Pair   // sorted by name
	unpredicted  []Pair   // references without a prediction
	Unreferenced []string // predictions without a reference
	missed       []string // cases that are counted without a prediction
	leftOut      int      // references that are not, because somebody says so
	Failed       int      // pairs that could not be compared
	Nowhere      []string // what to say of labels that no prediction has
	Notes        []string
}

// CompareDigests compares the files with the digests that were written with them, where the program
// has written them.
func (f *Pairs) CompareDigests() error {
	var paths []string
	for _, pair := range f.Both {
		for _, file := range []string{pair.Prediction.Path, pair.Reference.Path} {
			if file != "" {
				paths = append(paths, file)
			}
		}
	}
	return atomicfile.CompareFiles(paths...)
}

// What becomes of references that have no prediction.
const (
	MissingIsError  = "error"
	MissingIsMissed = "missed"
	MissingLeftOut  = "left-out"
)

// Settle decides what becomes of references without a prediction: an error, or one more pair each,
// or nothing where somebody says so. Otherwise a mean over the other cases would be better than the
// network is.
func (f *Pairs) Settle(missing, predictions string) (note string, err error) {
	if len(f.unpredicted) == 0 {
		return "", nil
	}
	var names []string
	for _, p := range f.unpredicted {
		names = append(names, p.Name)
	}
	switch missing {
	case MissingIsMissed:
		note = "counted as missed, without a prediction: " + table.List(names, 0)
		f.Both, f.missed = append(f.Both, f.unpredicted...), names
		slices.SortFunc(f.Both, func(a, b Pair) int { return strings.Compare(a.Name, b.Name) })
	case MissingLeftOut:
		note = fmt.Sprintf("left out, without a prediction: %s: %s", numbers.Count(len(names), "reference"),
			safetext.List(names))
		f.leftOut = len(names)
	default:
		have := "have"
		if len(names) == 1 {
			have = "has"
		}
		return "", hint.Addf(fmt.Errorf("%s %s no prediction in %s: %s", numbers.Count(len(names), "reference"), have,
			predictions, table.List(names, 10)),
			"a prediction is called after its case, such as %s.nii.gz; --pairs pairs predictions with other names; "+
				"with --missing missed references count as if nothing had been found, with --missing left-out they do "+
				"not count: right where only these cases were to be predicted", f.unpredicted[0].Name)
	}
	return note, nil
}

// CheckScans refuses pairs whose label maps are of different scans, as far as they tell: names that
// go by other files of a folder, or by the place in a list, may have passed to another scan.
func (f *Pairs) CheckScans() error {
	var names []string
	first := ""
	for _, p := range f.Both {
		if p.Prediction.Path == "" {
			continue
		}
		if why := p.Prediction.OfOtherScan(p.Reference); why != "" {
			names, first = append(names, p.Name), cmp.Or(first, why)
		}
	}
	if len(names) == 0 {
		return nil
	}
	which := names[0] + " is a pair of different scans"
	if len(names) > 1 {
		which = fmt.Sprintf("%s of different scans: %s; of %s", numbers.Count(len(names), "pair"), safetext.List(names),
			names[0])
	}
	return hint.Addf(fmt.Errorf("%s: %s", which, first),
		"predict the scans of the references, or pair what belongs together by --pairs; --any-scan compares them all "+
			"the same, where the files of a scan were written anew")
}

// PredictedReferences lists references that this program wrote.
func (f *Pairs) PredictedReferences() []string {
	var paths []string
	for _, p := range f.Both {
		paths = append(paths, p.Reference.Path)
	}
	return provenance.Among(paths)
}

// Remarks say of which label maps the scores are, and which are not in them.
func (f *Pairs) Remarks() []string {
	all := []string{numbers.Count(len(f.Both)-f.Failed, "reference") + " compared."}
	if len(f.missed) > 0 {
		all = append(all, fmt.Sprintf("Counted as missed, without a prediction: %s.", table.List(f.missed, 20)))
	}
	if f.leftOut > 0 {
		all = append(all, fmt.Sprintf("Left out, without a prediction: %s.", numbers.Count(f.leftOut, "reference")))
	}
	if n := len(f.Unreferenced); n > 0 {
		all = append(all, numbers.Count(n, "prediction")+" without a reference left out.")
	}
	if predicted := f.PredictedReferences(); len(predicted) > 0 {
		all = append(all, fmt.Sprintf("References that nobody drew, but a program predicted: %s.",
			table.List(predicted, 20)))
	}
	for _, note := range f.Learnt() {
		all = append(all, note+".")
	}
	return append(all, f.Nowhere...)
}

// NoteUnpredicted notes labels of the references that no prediction has. Where the predictions say
// for which labels their network has a class, those that it has none for are not scored: their
// scores become [eval.Unlearnt]. It says nothing about scores of merged labels.
func (f *Pairs) NoteUnpredicted(scores []eval.Score, merged bool) {
	found, seen := map[string]bool{}, map[string]bool{}
	var drawn []string
	for _, s := range scores {
		name := nameOf(s)
		found[name] = found[name] || s.Predicted > 0
		if s.Reference > 0 && !seen[name] {
			drawn, seen[name] = append(drawn, name), true
		}
	}
	var classes classNames
	if !merged {
		classes = f.classes()
	}
	// a class that no structure of the references answers to may be one of them under another name
	strange := classes.without(scores)
	var unknown, unseen []string
	for _, name := range drawn {
		switch {
		case found[name]:
		case classes != nil && strange == "" && classes[safetext.Fold(name)] == "":
			unknown = append(unknown, name)
		default:
			unseen = append(unseen, name)
		}
	}
	if len(unknown) > 0 {
		f.Nowhere = append(f.Nowhere, fmt.Sprintf("the network of the predictions has no class for %s: not scored "+
			"(unlearnt), and in no mean", safetext.List(unknown)))
	}
	for n, s := range scores {
		scores[n].Unlearnt = s.Unlearnt || slices.Contains(unknown, nameOf(s))
	}
	if len(unseen) > 0 {
		text := fmt.Sprintf("in no prediction: %s: counted as missed wherever a reference has them; where the network "+
			"has no class for them, --labels compares the others alone", safetext.List(unseen))
		if strange != "" {
			text += fmt.Sprintf(" (its class %s is in no reference by that name)", strange)
		}
		f.Nowhere = append(f.Nowhere, text)
	}
}

// nameOf is what a score's label is called, for a person.
func nameOf(s eval.Score) string { return cmp.Or(s.Name, fmt.Sprintf("label %d", s.Label)) }

// classNames are those of the network of the predictions, by the folded name.
type classNames map[string]string

// without is a class that no score has the name of; "" where there is none.
func (c classNames) without(scores []eval.Score) string {
	scored := map[string]bool{}
	for _, s := range scores {
		scored[safetext.Fold(nameOf(s))] = true
	}
	for _, folded := range slices.Sorted(maps.Keys(c)) {
		if !scored[folded] {
			return c[folded]
		}
	}
	return ""
}

// classes are those that the predictions name; nil where not all of them say it.
func (f *Pairs) classes() classNames {
	all := classNames{}
	for _, p := range f.Both {
		if p.Prediction.Path == "" {
			continue
		}
		_, stamped := provenance.Read(p.Prediction.Path)
		names := format.NamesIn(p.Prediction.Path)
		if !stamped || names == nil {
			return nil
		}
		for _, name := range names {
			all[safetext.Fold(name)] = name
		}
	}
	return all
}

// Find finds for each reference its prediction: as a table or a pattern says
// ([dataset.PairLabels]), or, where by is empty, by name. allDrawn is that of [dataset.Options].
func Find(predictions, references, by string, allDrawn bool) (pairs Pairs, err error) {
	for _, path := range []string{predictions, references} {
		if _, err := os.Stat(path); err != nil {
			return pairs, err
		}
	}
	if by != "" {
		return pairsOf(by, predictions, references)
	}
	wanted, err := referencesIn(references, dataset.Options{AllDrawn: allDrawn})
	if err != nil {
		return pairs, err
	}
	found, err := predictionsIn(predictions)
	if err != nil {
		return pairs, err
	}
	if isFile(predictions) && isFile(references) {
		for name, prediction := range found {
			pairs.Both = []Pair{{Name: name, Prediction: prediction, Reference: wanted[0].Labels}}
		}
		return pairs, nil
	}
	if pairs.match(found, wanted); len(pairs.Both) == 0 {
		if one, ok := oneCase(predictions, references, found, wanted); ok {
			return one, nil
		}
		return pairs, hint.Addf(fmt.Errorf("no label map of %s has a partner in %s", predictions, references),
			"a prediction is called after its case, such as %s.nii.gz; --pairs pairs those with other names",
			wanted[0].Calls[0])
	}
	pairs.dropGroup()
	return pairs, nil
}

// oneCase pairs the label maps of one case, whatever they are called: at least one of the two is a
// file, or a folder with a mask for each structure, and the other is that too, or the only one.
func oneCase(predictions, references string, found map[string]dataset.Labels,
	wanted []dataset.Reference) (pairs Pairs, ok bool) {
	name := ""
	var prediction, reference dataset.Labels
	for only, l := range found {
		name, prediction = only, l
	}
	prediction, known := single(predictions, prediction, len(found), &pairs)
	reference, sure := single(references, wanted[0].Labels, len(wanted), &pairs)
	if prediction.Path == "" || reference.Path == "" || !known && !sure {
		return Pairs{}, false
	}
	if len(found) > 1 {
		name = filepath.Base(filepath.Clean(predictions))
	}
	pairs.Both = []Pair{{Name: name, Prediction: prediction, Reference: reference}}
	return pairs, true
}

// single is the label map of a path that holds those of one case: known to be one, or the only one
// there. Its path is empty where there may be several cases.
func single(path string, only dataset.Labels, count int, pairs *Pairs) (l dataset.Labels, known bool) {
	if masks, ok := dataset.MasksIn(path); ok {
		pairs.Notes = append(pairs.Notes, fmt.Sprintf("%s: a mask for each structure: taken for one case", path))
		return masks, true
	}
	if count != 1 {
		return dataset.Labels{}, false
	}
	return only, isFile(path)
}

// match pairs label maps by the names that they may have.
func (f *Pairs) match(found map[string]dataset.Labels, wanted []dataset.Reference) {
	calls, used := map[string]int{}, map[string]bool{}
	for _, r := range wanted {
		for _, call := range r.Calls[1:] {
			calls[call]++
		}
	}
	for _, r := range wanted {
		pair := Pair{Name: r.Calls[0], Reference: r.Labels, group: r.Group}
		for n, call := range r.Calls {
			if prediction, ok := found[call]; ok && pair.Prediction.Path == "" && (n == 0 || calls[call] == 1) {
				pair.Prediction, used[call] = prediction, true
			}
		}
		if pair.Prediction.Path == "" {
			f.unpredicted = append(f.unpredicted, pair)
		} else {
			f.Both = append(f.Both, pair)
		}
	}
	f.unpredicted = slices.DeleteFunc(f.unpredicted, func(p Pair) bool { // of another contrast
		return slices.ContainsFunc(f.Both, func(o Pair) bool { return o.Reference.Path == p.Reference.Path })
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !used[name] {
			f.Unreferenced = append(f.Unreferenced, found[name].Path)
		}
	}
}

// dropGroup leaves out the references for training, or those held back for testing, where all
// predictions are of the others.
func (f *Pairs) dropGroup() {
	group := f.Both[0].group
	other := func(p Pair) bool { return p.group != group }
	n := len(f.unpredicted)
	if slices.ContainsFunc(f.Both, other) {
		return
	}
	if f.unpredicted = slices.DeleteFunc(f.unpredicted, other); len(f.unpredicted) == n {
		return
	}
	which := "that are not held back for testing"
	if group == "" {
		which = "held back for testing"
	}
	f.Notes = append(f.Notes, fmt.Sprintf("%s %s left out: no prediction is of them",
		numbers.Count(n-len(f.unpredicted), "reference"), which))
}

// referencesIn lists the references of a data set, of a folder of label maps, or the one file.
func referencesIn(path string, o dataset.Options) ([]dataset.Reference, error) {
	if !isFile(path) {
		if found := dataset.References(path, o); found != nil {
			return found, nil
		}
	}
	files, err := labelsIn(path)
	var found []dataset.Reference
	for _, name := range slices.Sorted(maps.Keys(files)) {
		found = append(found, dataset.Reference{Labels: files[name], Calls: []string{name}})
	}
	return found, err
}

// predictionsIn lists label maps by name: the files of a folder, or the labels of a data set, which
// may have files of one name.
func predictionsIn(path string) (map[string]dataset.Labels, error) {
	files, err := labelsIn(path)
	if err == nil || isFile(path) {
		return files, err
	}
	found := map[string]dataset.Labels{}
	for _, r := range dataset.References(path, dataset.Options{LabelsPredicted: true}) {
		found[r.Calls[0]] = r.Labels
	}
	if len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// labelsIn lists the label maps of a folder by name, or the one file.
func labelsIn(path string) (map[string]dataset.Labels, error) {
	files, err := Files(path)
	if clash := (sameNameError{}); errors.As(err, &clash) {
		if areLabels(clash) {
			return nil, hint.Addf(fmt.Errorf("%s and %s are two label maps of one case", clash[0], clash[1]),
				"compare the folders of one prediction or reader at a time, such as %s; or --pairs says which to take",
				filepath.Dir(clash[1]))
		}
		// scans and labels of a data set have the same names: what keeps it from being read as one
		if _, why := dataset.Detect(path, dataset.Options{NameByFolder: true}); why != nil {
			return nil, why
		}
	}
	if err != nil {
		return nil, err
	}
	names, err := dataset.NamesBeside(path)
	if err != nil {
		return nil, err
	}
	found := map[string]dataset.Labels{}
	for name, path := range files {
		found[name] = dataset.Labels{Path: path, Names: names}
	}
	return found, nil
}

// pairsOf pairs label maps as a table or a pattern says.
func pairsOf(text, predictions, references string) (pairs Pairs, err error) {
	files, err := dataset.PairLabels(text, predictions, references)
	if err != nil {
		return pairs, err
	}
	predicted, err := dataset.NamesBeside(predictions)
	if err != nil {
		return pairs, err
	}
	names, err := dataset.NamesBeside(references)
	if err != nil {
		return pairs, err
	}
	paths := slices.Sorted(maps.Keys(files))
	called := caseNames(paths)
	for n, path := range paths {
		pair := Pair{Name: called[n], Reference: dataset.Labels{Path: path, Names: names}}
		if pair.Prediction.Path = files[path]; pair.Prediction.Path == "" {
			pairs.unpredicted = append(pairs.unpredicted, pair)
			continue
		}
		pair.Prediction.Names = predicted
		pairs.Both = append(pairs.Both, pair)
	}
	return pairs, nil
}

// caseNames names cases by the files of their references, or, where files of several cases have one
// name, by what differs between their paths.
func caseNames(paths []string) []string {
	names, parts, files := make([]string, len(paths)), make([][]string, len(paths)), map[string]bool{}
	for n, path := range paths {
		for _, ext := range labelEndings {
			path = strings.TrimSuffix(path, ext)
		}
		parts[n] = strings.Split(filepath.ToSlash(filepath.Clean(path)), "/")
		for m, part := range parts[n] {
			parts[n][m] = dataset.FileName(part)
		}
		names[n] = parts[n][len(parts[n])-1]
		files[names[n]] = true
	}
	if len(files) == len(paths) {
		return names
	}
	shortest := len(slices.MinFunc(parts, func(a, b []string) int { return len(a) - len(b) }))
	differ := func(k func(own []string) int) bool {
		return slices.ContainsFunc(parts, func(p []string) bool { return p[k(p)] != parts[0][k(parts[0])] })
	}
	from, left := 0, 0 // parts that all have at the beginning, and at the end
	for from < shortest-1 && !differ(func([]string) int { return from }) {
		from++
	}
	for left < shortest-1-from && !differ(func(p []string) int { return len(p) - 1 - left }) {
		left++
	}
	for n, own := range parts {
		names[n] = strings.Join(own[from:len(own)-left], "_")
	}
	return names
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}

// isMap reports whether a file, by its name without extension, is one of the maps that predict
// writes beside its label maps.
func isMap(base string) bool {
	return strings.HasSuffix(base, "_probabilities") || strings.HasSuffix(base, "_logits")
}

// labelEndings are those of the files that hold label maps.
var labelEndings = []string{".nii.gz", ".nii", ".dcm"}

// A sameNameError says that two files of a folder have one name, by which they are paired.
type sameNameError [2]string

func (e sameNameError) Error() string {
	return fmt.Sprintf("%s and %s have the same name: keep one", e[0], e[1])
}

// isObject says whether a file is labels in DICOM.
func isObject(path string) bool { return dicom.IsSegmentation(path) || dicom.IsStructureSet(path) }

// areLabels says whether both files hold labels, by their kind or their values.
func areLabels(files sameNameError) bool {
	for _, file := range files {
		if isObject(file) {
			continue
		}
		if labels, err := nifti.MayBeLabels(file, nifti.Options{}); err != nil || !labels {
			return false
		}
	}
	return true
}

// Files lists the NIfTI files, DICOM SEG objects and RT structure sets of a folder, or the one
// file, by name without extension.
func Files(path string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() || strings.HasPrefix(name, ".") {
			return nil
		}
		for _, ext := range labelEndings {
			base, ok := strings.CutSuffix(name, ext)
			if ok && isMap(base) {
				break
			}
			if ok && (ext != ".dcm" || isObject(p)) {
				base = dataset.FileName(base) // as predict calls it
				if other, twice := files[base]; twice {
					return sameNameError{other, p}
				}
				files[base] = p
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no NIfTI file (.nii, .nii.gz), DICOM SEG object or RT structure set (.dcm) here%s",
			path, outdir.Remark(path))
	}
	return files, nil
}

// Learnt says which predictions are of scans that their model has learnt from, as they say
// themselves.
func (f *Pairs) Learnt() (notes []string) {
	learnt := map[provenance.Learnt][]string{}
	for _, pair := range f.Both {
		if how := provenance.LearntFrom(pair.Prediction.Path); how != "" {
			learnt[how] = append(learnt[how], pair.Name)
		}
	}
	for _, how := range []provenance.Learnt{provenance.WithLabels, provenance.WithoutLabels} {
		if names := learnt[how]; len(names) > 0 {
			notes = append(notes, fmt.Sprintf("%s of scans that the model has learnt from, %s: %s: "+
				"their scores say nothing about other scans",
				numbers.Count(len(names), "prediction"), how, safetext.List(names)))
		}
	}
	return notes
}

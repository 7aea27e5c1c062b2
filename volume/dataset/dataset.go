// Package dataset finds the cases of a data set as it lies on disk, divides them into folds and
// subsets, and prepares them for training.
//
// Start at [Detect], which knows the layouts of NIH Pancreas-CT, of the Medical Segmentation
// Decathlon and of nnU-Net, and otherwise takes any tree of NIfTI, NRRD and MetaImage files and
// DICOM series. [Prepare]
// turns the cases into a store of package prepared. [Folds], [Nested] and [ReadSplits] say which
// cases a run trains on and which it tests on. [Inspect] looks without preparing anything.
//
// It leaves out other formats, and scans with several channels: one is chosen.
package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/itk"
)

// The layouts that [Detect] knows.
const (
	LayoutNIH    = "nih"    // PANCREAS_00XX folders of DICOM (or files) and label00XX.nii.gz
	LayoutMSD    = "msd"    // imagesTr, labelsTr, imagesTs, dataset.json
	LayoutNNUNet = "nnunet" // the same, with files named CASE_0000.nii.gz
	// anything else: a tree of NIfTI files and DICOM series, labels paired by name
	LayoutScans = "scans"
)

// GroupTest marks cases that the data set itself holds back, such as MSD's imagesTs.
const GroupTest = "test"

// A Dataset is a folder of cases.
type Dataset struct {
	Root       string
	Layout     string
	Cases      []Case // in the order of their numbers
	LabelNames map[uint16]string
	Notes      []string // what disagrees, what is missing
	// what else lies there: DICOM files that are no images, localizers, damaged files
	PassedOver []string
	// files of labels that were seen and that no case has
	Unused []string
	// names of structures that labels have a file or a contour for, whether they are taken or not
	Structures []string
	// labels that files of cases give different names
	contradictions []string
	// files that look like scans by their names and like labels by their values: no cases
	masks []string
	// predictions of this program, which are not used
	predicted []string
	said      bool // somebody says of what modality its cases are
	chosen    bool // they are of one
	// labels that dataset.json makes part of a region, which has the name
	regions map[uint16]bool
}

// A Case is a scan and, where there are any, its labels.
type Case struct {
	ID    string
	Group string // "" or GroupTest
	Image string // a NIfTI file, or a folder that holds a DICOM series
	// More are the files of its further channels, on the same voxels; see [AllChannels].
	More []string
	// which series of that folder, as [dicom.Series.Is] takes it; "" for a file, or for the largest
	// axial CT
	Series string
	// a NIfTI file, a DICOM SEG object or an RT structure set; "" for none. Where there is a file
	// for each structure, their folder, or the only one.
	Labels string
	Masks  []Mask // the files of such labels, or the structures of the set
	// Volume of a file that holds several, 1 for the first; 0 where there must be only one.
	Volume int
	// Patient names the patient of a case, if other cases are of the same patient as far as folders
	// and studies tell; "" otherwise. See [Patients].
	Patient string
	// ByIndex says that labels lie on the image's voxels in the order of its rows, columns and
	// slices, whatever their headers say.
	ByIndex bool
	// its name without and with that of its data set's folder
	name, nameWithFolder string
	folders              []string            // that it lies in, without those that only say images
	series               *dicom.Series       // where Detect found it
	why                  string              // it was chosen, where that was put off
	segmentation         *dicom.Segmentation // the labels, where Detect found them to be one
	structures           *dicom.StructureSet // likewise
	channel              bool                // Volume has chosen the file
	modality             Modality            // of a file, as far as it was found
	unnamed              bool                // its labels are numbers that nothing names
	site                 string              // its folder below the data set's, or the data set's
	own                  map[uint16]string   // names of labels in the file of its labels
	// labels that somebody drew in it, or found absent; nil: not known. Masks say it themselves
	drawn []uint16
	// all labels that cases of the data set have, and those that nobody drew in this one
	labels, undrawn []uint16
	// where the evidence of flips goes, if it is wanted; zero where none was looked for
	seenFlips *flipEvidence
	refused   error // why no scan of the folder could be chosen
}

// Options say how [Detect] reads a folder.
type Options struct {
	Layout         string   `yaml:"layout" help:"layout of the data set: nih, msd, nnunet or scans; empty: look"`
	Labels         string   `yaml:"labels" help:"folder of labels that lies outside the data set (nih)"`
	Pairs          string   `yaml:"pairs" help:"which labels belong to which scan, where names do not tell: a CSV file with the columns scan and labels (and name, where each file is the mask of a structure), or a pattern of paths as they are below the data set's folder, such as images/*.nii.gz=masks/*_organs.nii.gz"`
	Structures     []string `yaml:"structures,flow" help:"structures to take where labels have a file, or a contour, for each: their names, * for anything; empty: all"`
	WithoutRepeats bool     `yaml:"without_repeats" help:"leave out NIH Pancreas-CT's cases 25 and 70, which repeat the scan of case 2: 80 cases, not 82"`
	Volume         int      `yaml:"volume" help:"which volume of 4D files, which channel of nnU-Net cases, 1 for the first; 0: there must be only one"`
	Series         string   `yaml:"series" help:"which DICOM series to take of each study: its number, number.part or UID, words such as description~portal or modality~MR,plane=axial, or all; empty: the largest axial CT"`
	Contrast       string   `yaml:"contrast" help:"which contrast to take of each subject of BIDS: T1w, ce-gad_T1w or other words of the scan's name, or all; empty: there must be only one"`
	Segmentation   string   `yaml:"segmentation" help:"which DICOM SEG object or RT structure set to take where a series has several: its series number or UID, or its file's name"`
	LabelsAsScans  bool     `yaml:"labels_as_scans" help:"take NIfTI files for scans that hold labels by their values, and belong to no scan by their names"`
	// LabelsPredicted takes label maps that voxsaw predict wrote for labels.
	LabelsPredicted bool `yaml:"labels_predicted" help:"take label maps that voxsaw predict wrote for labels, as after correcting them by hand; otherwise they are passed over"`
	PatientPerCase  bool `yaml:"patient_per_case" help:"take each case for another patient; otherwise those of one DICOM study, or of one folder of several, are kept in one fold"`
	Unlabelled      bool `yaml:"unlabelled" help:"take the images only"`
	SameLabels      bool `yaml:"same_labels" help:"where labels of some cases are only numbers, or have other names than those of others: a number means the same in all cases"`
	AllDrawn        bool `yaml:"all_drawn" help:"where a case's labels do not name a structure that others have, it is not in the patient; otherwise nobody drew it, which training cannot tell and scores leave out"`
	NameByFolder    bool `yaml:"name_by_folder" help:"put the name of the folder before those of its cases, where several folders have cases of one name"`

	seen *seen // nil: nothing was looked at before
	// labels of a subject of BIDS count for each of its contrasts, whose predictions they may be
	// compared with
	everyContrast bool
}

// Detect finds the cases in a folder; a single file is a data set of one case. An error says what
// was looked for.
func Detect(root string, o Options) (*Dataset, error) { return DetectAll([]string{root}, o) }

// DetectAll finds the cases of several folders and makes one data set of them, such as labelled
// scans and unlabelled ones. A folder of published data sets, such as nnUNet_raw, counts as all of
// them. No two cases may have one name, and no label two.
func DetectAll(roots []string, o Options) (*Dataset, error) {
	if o.seen == nil {
		o.seen = newSeen()
	}
	all := &Dataset{}
	sources, notes, err := sourcesOf(roots, o)
	if err != nil {
		return nil, err
	}
	all.Notes = notes
	var layouts, patients []string
	for _, source := range sources {
		d, err := source.detect(o)
		if err != nil {
			return nil, err
		}
		if len(d.Cases) == 0 { // beside data sets below the folder
			all.addNotes(d)
			continue
		}
		prefix := ""
		if len(sources) > 1 {
			prefix = baseName(d.Root) + "/"
		}
		patients = append(patients, d.patients(prefix, o)...)
		if err := all.add(d, o.NameByFolder); err != nil {
			return nil, err
		}
		if !slices.Contains(layouts, d.Layout) {
			layouts = append(layouts, d.Layout)
		}
	}
	all.Layout = strings.Join(layouts, " and ")
	if !o.PatientPerCase {
		all.addStudies(patients)
		all.setPatients(patients)
	}
	if o.SameLabels {
		all.shareNames()
	}
	if err := all.numberMasks(); err != nil {
		return nil, err
	}
	if !o.AllDrawn {
		all.setUndrawn()
	}
	slices.SortFunc(all.Cases, func(a, b Case) int { return compareNatural(a.ID, b.ID) })
	for n, c := range all.Cases {
		if n > 0 && c.ID == all.Cases[n-1].ID {
			return nil, all.clash(all.Cases[n-1], c, len(sources) > 1, o.NameByFolder)
		}
	}
	return all, nil
}

// clash is the error of two cases of one name, in one folder or in several, whose names they may
// have already.
func (d *Dataset) clash(a, b Case, folders, byFolder bool) error {
	err := fmt.Errorf("reading %s as a data set (layout %s): %s and %s would both be case %s", d.Root, d.Layout, a.Image, b.Image, a.ID)
	for _, c := range []Case{a, b} {
		if folder := filepath.Dir(c.Image); folders && calledLabels(folder) {
			return clashError{fmt.Errorf("%w: %w", err, onlyLabels(folder))}
		}
	}
	switch {
	case folders && byFolder:
		err = fmt.Errorf("%w: if they are one scan, leave one of them out; if not, give one of the folders another name", err)
	case folders:
		err = fmt.Errorf("%w: if they are one scan, leave one of them out; if not, --name-by-folder puts the folder's name before it", err)
	}
	return clashError{err}
}

// add takes over the cases of another data set, and the names of its labels, if it has labels.
func (d *Dataset) add(o *Dataset, byFolder bool) error {
	names := o.LabelNames
	if d.Root != "" && !o.hasLabels() { // it takes part in nothing that the names are about
		names = nil
	}
	if !d.hasLabels() {
		d.LabelNames = nil
	}
	for _, label := range slices.Sorted(maps.Keys(names)) {
		name := names[label]
		if other, known := d.LabelNames[label]; known && safetext.Fold(other) != safetext.Fold(name) {
			return fmt.Errorf("label %d is %q in %s and %q in %s: prepare them one by one, or make the numbers agree", label, other, d.Root, name, o.Root)
		} else if !known {
			d.nameLabel(label, name)
		}
	}
	for _, c := range o.Cases {
		c.name, c.nameWithFolder = c.ID, FileName(baseName(o.Root)+"_"+c.ID)
		if byFolder {
			c.ID = c.nameWithFolder
		}
		d.Cases = append(d.Cases, c)
	}
	if d.Root != "" {
		d.Root += ", "
	}
	d.Root += o.Root
	d.addNotes(o)
	return nil
}

// addNotes takes over what is to be said of another data set.
func (d *Dataset) addNotes(o *Dataset) {
	d.Notes, d.PassedOver = append(d.Notes, o.Notes...), append(d.PassedOver, o.PassedOver...)
	d.addStructures(o.Structures)
	d.contradictions = append(d.contradictions, o.contradictions...)
	d.masks, d.Unused = append(d.masks, o.masks...), append(d.Unused, o.Unused...)
	for label := range o.regions {
		d.addRegion(label)
	}
}

func (d *Dataset) hasLabels() bool {
	return slices.ContainsFunc(d.Cases, func(c Case) bool { return c.Labels != "" })
}

// baseName is the name of a folder, whatever path it is given by.
func baseName(folder string) string {
	if full, err := filepath.Abs(folder); err == nil {
		folder = full
	}
	return filepath.Base(folder)
}

// readers read the published layouts.
var readers = map[string]func(string, Options) (*Dataset, error){LayoutNIH: readNIH, LayoutMSD: readMSD, LayoutNNUNet: readNNUNet}

// detect finds the cases of one source. None is an error, but for what lies beside other data sets.
func (s source) detect(o Options) (*Dataset, error) {
	root, layout := s.root, s.layout
	d, err := s.read(o)
	if err != nil {
		return nil, fmt.Errorf("reading %s as a data set (layout %s): %w", root, layout, err)
	}
	d.Root, d.Layout = root, layout
	d.notePredicted(o)
	if len(d.Cases) == 0 && len(s.without) > 0 {
		return d, nil
	}
	if layout == LayoutScans && o.Layout == "" { // nobody has said that numbers are those of cases
		if d.Cases, err = OneChannel(d.Cases, o.Volume); err != nil {
			return nil, fmt.Errorf("%w; --layout scans takes each file for a case", err)
		}
	}
	if len(d.Cases) == 0 {
		return nil, fmt.Errorf("no scan in %s (layout %s): NIfTI files or folders of DICOM files are looked for", root, layout)
	}
	for n := range d.Cases {
		c := &d.Cases[n]
		if layout != LayoutNNUNet && !c.channel { // where it has chosen the file
			c.Volume = o.Volume
		}
		if o.Unlabelled && c.Labels != "" {
			d.Unused = append(d.Unused, c.Labels)
			c.withoutLabels()
		}
		if layout == LayoutNIH {
			if o.Series == SeriesAll {
				return nil, errors.New("a case of NIH Pancreas-CT is one series: all of them cannot be taken")
			}
			c.Series = o.Series
		}
	}
	d.setModalities(root, o.Volume)
	named := maps.Clone(d.LabelNames)
	d.nameLabelsOfFiles(o.seen)
	d.setDrawn(named)
	if !o.SameLabels { // somebody says that numbers mean the same everywhere
		d.setSites()
	}
	return d, nil
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
		return "", fmt.Errorf("--contrast is for names of BIDS, and %s has the layout %s: --volume chooses among channels", root, layout)
	}
	if o.Labels != "" && layout != LayoutNIH {
		return "", fmt.Errorf("--labels is for layout nih, and %s has the layout %s: %s", root, layout, placeOfLabels(root, layout, o.Labels))
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
		return fmt.Sprintf("give %s alone, which holds both folders: scans and labels are paired by their names, or by --pairs where names do not tell", both)
	}
	return "say with --pairs which labels belong to which scan"
}

// String says in a line what was found.
func (d *Dataset) String() string {
	labelled, test := 0, 0
	for _, c := range d.Cases {
		if c.Labels != "" {
			labelled++
		}
		if c.Group == GroupTest {
			test++
		}
	}
	return fmt.Sprintf("%s: layout %s, %s, %d with labels, %d held back for testing", d.Root, d.Layout, numbers.Count(len(d.Cases), "case"), labelled, test)
}

// Case returns the case of that name.
func (d *Dataset) Case(id string) (Case, bool) {
	for _, c := range d.Cases {
		if c.ID == id {
			return c, true
		}
	}
	return Case{}, false
}

// IDs lists the cases of a group that have labels, or those that have none.
func (d *Dataset) IDs(group string, labelled bool) []string {
	var ids []string
	for _, c := range d.Cases {
		if c.Group == group && (c.Labels != "") == labelled {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (d *Dataset) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// leaveOut notes a file of labels that no case has, and why.
func (d *Dataset) leaveOut(labels, format string, args ...any) {
	d.Unused = append(d.Unused, labels)
	d.note(format, args...)
}

// withoutScan notes a file of labels whose name is that of no scan.
func (d *Dataset) withoutScan(labels string) {
	d.leaveOut(labels, "%s looks like labels, but belongs to no scan by its name: give both one name, or say with --pairs which scan it belongs to", labels)
}

// detectLayout looks at names only.
func detectLayout(root string) (string, error) {
	if folder, err := os.ReadDir(filepath.Join(root, "imagesTr")); err == nil {
		images, numbered, channels, paired := 0, 0, 0, 0
		for _, e := range folder {
			if stem, ok := stemOf(e.Name()); ok {
				images++
				if channelSuffix.MatchString(stem) {
					numbered++
				}
				// A label map of the whole name says that the digits are the case's, as in
				// amos_0001, not a channel's.
				if m := channelSuffix.FindString(stem); m != "" && !isFile(filepath.Join(root, "labelsTr", e.Name())) {
					channels++
					if isFile(filepath.Join(root, "labelsTr", strings.Replace(e.Name(), stem, strings.TrimSuffix(stem, m), 1))) {
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
		if err == nil && nihImage.MatchString(entry.Name()) && (entry.IsDir() || isVoxels(entry.Name())) {
			layout = LayoutNIH
			return fs.SkipAll
		}
		return nil
	})
	return layout, err
}

// walk visits files and folders in the order of their names, through links, and passes over hidden
// ones, among them the ._ files that macOS leaves in archives. What cannot be looked at is visited
// with the error.
func walk(root string, visit func(path string, entry fs.FileInfo, err error) error) error {
	return folders.Walk(root, func(path string, entry fs.FileInfo, err error) error {
		if path == filepath.Clean(root) {
			return err
		}
		if name := filepath.Base(path); strings.HasPrefix(name, ".") || name == "__MACOSX" {
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return visit(path, entry, err)
	})
}

func isFile(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.Mode().IsRegular()
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
		stem, ok := stemOf(e.Name())
		stat, err := os.Stat(path)
		if err == nil && !stat.Mode().IsRegular() && !stat.IsDir() {
			err = folders.ErrNotFile
		}
		if ok && err != nil {
			passed = append(passed, dicom.Passed{Path: path, Err: err})
			continue
		}
		if !ok || err != nil || stat.IsDir() {
			half := slices.ContainsFunc([]string{".img", ".img.gz", ".raw", ".raw.gz", ".zraw"}, func(ext string) bool { return strings.HasSuffix(strings.ToLower(e.Name()), ext) })
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

var digits = regexp.MustCompile(`\d+`)

// compareNatural orders names with the numbers in them as numbers: case2 before case10.
func compareNatural(a, b string) int {
	whole := [2]string{a, b}
	for a != "" && b != "" {
		if a[0] == b[0] && (a[0] < '0' || a[0] > '9') {
			a, b = a[1:], b[1:]
			continue
		}
		m, n := leadingDigits(a), leadingDigits(b)
		if m == 0 || n == 0 {
			return strings.Compare(a, b)
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if x != y {
			return strings.Compare(x, y)
		}
		a, b = a[m:], b[n:]
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(whole[0], whole[1]) // 07 and 7
}

func leadingDigits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Number returns the last number in a case's name, which the published folds go by; false where
// there is none.
func Number(id string) (int, bool) {
	all := digits.FindAllString(id, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1])
	return n, err == nil
}

// sourcePaths are the files and folders that a case is read from.
func (c Case) sourcePaths() []string {
	var paths []string
	files := append([]string{c.Image}, c.More...)
	if c.Masks != nil {
		files = append(files, maskPaths(c.Masks)...)
	} else {
		files = append(files, c.Labels)
	}
	for _, path := range files {
		if path == "" {
			continue
		}
		paths = append(paths, path)
		if itk.IsName(path) {
			if h, err := itk.ReadHeader(path); err == nil {
				paths = append(paths, h.Files()[1:]...)
			}
		}
		// The other half of a pair.
		for _, ext := range [][2]string{{".hdr", ".img"}, {".hdr.gz", ".img.gz"}} {
			if base, found := strings.CutSuffix(path, ext[0]); found && isFile(base+ext[1]) {
				paths = append(paths, base+ext[1])
			}
		}
	}
	return paths
}

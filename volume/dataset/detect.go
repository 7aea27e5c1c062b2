package dataset

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file: from folders to cases. Each is read in its layout, then passes go over the cases.

// Options say how [Detect] reads a folder.
type Options struct {
	// layout of the data set: nih, msd, nnunet or scans; empty: look
	Layout string `yaml:"layout"`
	// folder of labels that lies outside the data set (nih)
	Labels string `yaml:"labels"`
	// which labels belong to which scan, where names do not tell: a CSV file with the columns scan
	// and labels (and name, where each file is the mask of a structure), or a pattern of paths as
	// they are below the data set's folder, such as images/*.nii.gz=masks/*_organs.nii.gz
	Pairs string `yaml:"pairs"`
	// structures to take where labels have a file, or a contour, for each: their names, * for
	// anything; empty: all
	Structures []string `yaml:"structures,flow"`
	// leave out NIH Pancreas-CT's cases 25 and 70, which repeat the scan of case 2: 80 cases, not
	// 82
	WithoutRepeats bool `yaml:"without_repeats"`
	// which volume of 4D files, which channel of nnU-Net cases, 1 for the first; 0: there must be
	// only one
	Volume int `yaml:"volume"`
	// which DICOM series to take of each study: its number, number.part or UID, words such as
	// description~portal or modality~MR,plane=axial, or all; empty: the largest axial CT
	Series     string `yaml:"series"`
	everyStudy bool   // has such a series, or is refused: see [Options.OfEveryStudy]
	// which contrast to take of each subject of BIDS: T1w, ce-gad_T1w or other words of the scan's
	// name, or all; empty: there must be only one
	Contrast string `yaml:"contrast"`
	// which DICOM SEG object or RT structure set to take where a series has several: its series
	// number or UID, or its file's name
	Segmentation string `yaml:"segmentation"`
	// take NIfTI files for scans that hold labels by their values, and belong to no scan by their
	// names
	LabelsAsScans bool `yaml:"labels_as_scans"`
	// take label maps that voxsaw predicted, and that somebody has corrected since, for labels like
	// any others; otherwise they are passed over
	LabelsCorrected bool `yaml:"labels_corrected"`
	// take label maps that voxsaw predicted as they are: networks learn from them, and none of
	// their cases is held out or scored; otherwise they are passed over
	LabelsPredicted bool `yaml:"labels_predicted"`
	// take each case for another patient; otherwise those of one PatientID (DICOM), of one sub-
	// (BIDS), of one folder of several or of one DICOM study are kept in one fold
	PatientPerCase bool `yaml:"patient_per_case"`
	// which cases are of one patient, whatever else tells: a CSV file with the columns case and
	// patient, a line for each case; of the patients' names only digests are kept
	Patients string `yaml:"patients"`
	// take the images only
	Unlabelled bool `yaml:"unlabelled"`
	// where labels of some cases are only numbers, or have other names than those of others: a
	// number means the same in all cases
	SameLabels bool `yaml:"same_labels"`
	// where a case's labels do not name a structure that others have, it is not in the patient;
	// otherwise nobody drew it, which training makes one with the background there and scores leave
	// out
	AllDrawn bool `yaml:"all_drawn"`
	// put the name of the folder before those of its cases, where several folders have cases of one
	// name
	NameByFolder bool `yaml:"name_by_folder"`

	// Channels names the channels that each scan has, two or more: contrasts of BIDS, words of the
	// files' names or of DICOM series, volumes of 4D files. nil: what the layout says, or one.
	Channels []string `yaml:"-"`

	seen *seen // nil: nothing was looked at before
	// absolute paths of labels that pairs name
	given map[string]bool
	// labels of a subject of BIDS count for each of its contrasts, whose predictions they may be
	// compared with
	everyContrast bool
}

// Check refuses options that contradict each other.
func (o Options) Check() error {
	if o.LabelsCorrected && o.LabelsPredicted {
		return errors.New("--labels-corrected and --labels-predicted contradict each other: somebody has corrected " +
			"the label maps that voxsaw predicted, or they are taken as they are. Leave one of the two out")
	}
	return nil
}

// OfEveryStudy wants the series of some words from every DICOM study: one that has scans and none
// of these is a case that cannot be read. Series that somebody asks for leave such studies out.
func (o Options) OfEveryStudy(words string) Options {
	o.Series, o.everyStudy = words, true
	return o
}

// Detect finds the cases in a folder; a single file is a data set of one case. An error says what
// was looked for.
func Detect(root string, o Options) (*Dataset, error) { return DetectAll([]string{root}, o) }

// DetectAll finds the cases of several folders and makes one data set of them, such as labelled
// scans and unlabelled ones. A folder of published data sets, such as nnUNet_raw, counts as all of
// them. No two cases may have one name, and no label two.
func DetectAll(roots []string, o Options) (*Dataset, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.seen == nil {
		o.seen = newSeen()
	}
	all := &Dataset{}
	sources, notes, err := sourcesOf(roots, o)
	if err != nil {
		return nil, err
	}
	all.Notes = notes
	var layouts []string
	for _, source := range sources {
		d, err := source.detect(o, len(sources) > 1)
		if err != nil {
			return nil, err
		}
		if len(d.Cases) == 0 { // beside data sets below the folder
			all.addNotes(d)
			continue
		}
		if err := all.add(d, o.NameByFolder); err != nil {
			return nil, err
		}
		if !slices.Contains(layouts, d.Layout) {
			layouts = append(layouts, d.Layout)
		}
	}
	all.Layout, all.several = strings.Join(layouts, " and "), len(sources) > 1
	if dicom.ByWords(o.Series) && o.Channels == nil && slices.ContainsFunc(all.Cases, Case.IsDICOM) {
		all.Series = o.Series
	}
	return all.through(passesOfAll, o)
}

// A pass is one look at the cases of a data set. It changes nothing that it is given: what it found
// out is in the data set that it returns.
type pass func(Dataset, Options) (Dataset, error)

// passesOfOne follow the reading of a layout, for each folder by itself.
var passesOfOne = []pass{
	Dataset.chooseChannels,    // files on the same voxels are one case
	Dataset.chooseFiles,       // which volume and which series; whether labels are used
	Dataset.stateModalities,   // what names and dataset.json say of it
	Dataset.nameLabelsOfFiles, // what files of labels call them, and what was drawn
	Dataset.stateSites,        // the folder below the data set's
	Dataset.findPatients,      // by names of BIDS, by folders, and by what is published
}

// passesOfAll follow once the folders are put together.
var passesOfAll = []pass{
	Dataset.joinLoose,     // files that are channels of one scan and were given by themselves
	Dataset.joinPatients,  // by a table, PatientID or DICOM studies, and how many there are
	Dataset.agreeNumbers,  // of labels, where all have names
	Dataset.shareNames,    // of labels, where somebody says that numbers mean the same
	Dataset.numberMasks,   // a number for each structure that has a file of its own
	Dataset.findUndrawn,   // what others have and a case lacks
	Dataset.findPredicted, // whose labels nobody drew
	Dataset.order,         // by name; no two of one
}

// through is the data set after some passes.
func (d *Dataset) through(passes []pass, o Options) (*Dataset, error) {
	after := *d
	for _, pass := range passes {
		var err error
		if after, err = pass(after, o); err != nil {
			return nil, err
		}
	}
	return &after, nil
}

// order sorts the cases by their names.
func (d Dataset) order(o Options) (Dataset, error) {
	d.Cases = slices.SortedFunc(slices.Values(d.Cases), func(a,
		b Case) int {
		return numbers.CompareNatural(a.ID, b.ID)
	})
	for n, c := range d.Cases {
		if n > 0 && c.ID == d.Cases[n-1].ID {
			return d, d.clash(d.Cases[n-1], c, d.several, o.NameByFolder)
		}
	}
	return d, nil
}

// clash is the error of two cases of one name, in one folder or in several, whose names they may
// have already.
func (d *Dataset) clash(a, b Case, folders, byFolder bool) error {
	err := fmt.Errorf("reading %s as a data set (layout %s): %s and %s would both be case %s", d.Root, d.Layout,
		a.Image, b.Image, a.ID)
	for _, c := range []Case{a, b} {
		if folder := filepath.Dir(c.Image); folders && calledLabels(folder) {
			return clashError{fmt.Errorf("%w: %w", err, onlyLabels(folder))}
		}
	}
	switch {
	case folders && byFolder:
		err = fmt.Errorf("%w: if they are one scan, leave one of them out; if "+
			"not, give one of the folders another name", err)
	case folders:
		err = fmt.Errorf("%w: if they are one scan, leave one of them out; if not, "+
			"--name-by-folder puts the folder's name before it", err)
	default:
		err = fmt.Errorf("%w: if they are one scan, leave one of them out; if not, give one of them another name", err)
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
		d.LabelNames, d.listed = nil, nil
	}
	for _, label := range slices.Sorted(maps.Keys(names)) {
		name := names[label]
		if other, known := d.LabelNames[label]; known && safetext.Fold(other) != safetext.Fold(name) {
			d.clashes = append(d.clashes, fmt.Sprintf(
				"label %d is %q in %s and %q in %s: prepare them one by one, or make the numbers agree",
				label, other, d.Root, name, o.Root))
		} else if !known {
			d.nameLabel(label, name)
		}
	}
	if len(names) > 0 {
		d.list(o.listed)
	}
	if d.Root != "" && !slices.Equal(d.Channels, o.Channels) {
		return fmt.Errorf("cases of %s have channels %s and those of %s %s: prepare them one by one", d.Root,
			channelText(d.Channels), o.Root, channelText(o.Channels))
	}
	d.Channels = o.Channels
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

// list takes over names of labels that are listed, but for those that are there or whose numbers
// are taken.
func (d *Dataset) list(names map[uint16]string) {
	all, known := map[uint16]string{}, map[string]bool{}
	maps.Copy(all, d.listed)
	for _, name := range d.listed {
		known[safetext.Fold(name)] = true
	}
	for label, name := range names {
		if all[label] == "" && !known[safetext.Fold(name)] {
			all[label] = name
		}
	}
	d.listed = all
}

func channelText(names []string) string {
	if names == nil {
		return "of one kind"
	}
	return strings.Join(names, ", ")
}

// addNotes takes over what is to be said of another data set.
func (d *Dataset) addNotes(o *Dataset) {
	d.Notes, d.PassedOver = append(d.Notes, o.Notes...), append(d.PassedOver, o.PassedOver...)
	d.addStructures(o.Structures)
	d.contradictions = append(d.contradictions, o.contradictions...)
	d.masks, d.Unused = append(d.masks, o.masks...), append(d.Unused, o.Unused...)
	d.predicted = append(d.predicted, o.predicted...)
	for label := range o.regions {
		d.addRegion(label)
	}
}

func (d *Dataset) hasLabels() bool {
	return slices.ContainsFunc(d.Cases, func(c Case) bool { return c.Labels != "" })
}

// AllLost reports whether there are labels, and no case has any of them.
func (d *Dataset) AllLost() bool { return !d.hasLabels() && len(d.NotTaken()) > 0 }

// readers read the published layouts.
var readers = map[string]func(string, Options) (*Dataset, error){LayoutNIH: readNIH, LayoutMSD: readMSD,
	LayoutNNUNet: readNNUNet}

// detect finds the cases of one source, or of one of several. None is an error, but for what lies
// beside other data sets.
func (s source) detect(o Options, several bool) (*Dataset, error) {
	d, err := s.read(o)
	if err != nil {
		return nil, fmt.Errorf("reading %s as a data set (layout %s): %w", s.root, s.layout, err)
	}
	d.Root, d.Layout, d.several = s.root, s.layout, several
	d.notePredicted()
	switch {
	case len(d.Cases) > 0:
		return d.through(passesOfOne, o)
	case len(s.without) > 0:
		return d, nil
	}
	return nil, fmt.Errorf("no scan in %s%s (layout %s): NIfTI files or folders of DICOM files are looked for", s.root,
		outdir.Remark(s.root), s.layout)
}

// chooseChannels joins the channels of a scan, unless somebody has said that numbers are those of
// cases.
func (d Dataset) chooseChannels(o Options) (_ Dataset, err error) {
	if d.Layout == LayoutScans && o.Layout == "" && o.Channels == nil {
		if d.Cases, err = OneChannel(d.Cases, o.Volume); err != nil {
			err = fmt.Errorf("%w; --layout scans takes each file for a case", err)
		}
	}
	return d, err
}

// joinLoose joins the channels of scans whose files were given one by one.
func (d Dataset) joinLoose(o Options) (Dataset, error) {
	if o.Channels == nil || d.Channels == nil {
		return d, nil
	}
	var err error
	d.Cases, err = joinFiles(d.Cases, d.Channels)
	return d, err
}

// chooseFiles says which volume and which series of its files a case is, and takes labels away that
// are not wanted.
func (d Dataset) chooseFiles(o Options) (Dataset, error) {
	if d.Layout == LayoutNIH && o.Channels != nil {
		return d, errors.New("a case of NIH Pancreas-CT has one channel: leave --channels out")
	}
	if d.Layout == LayoutNIH && o.Series == SeriesAll {
		return d, errors.New("a case of NIH Pancreas-CT is one series: all of them cannot be taken")
	}
	return d.each(func(c *Case) {
		if d.Layout != LayoutNNUNet && !c.channel { // where it has chosen the file
			c.Volume = o.Volume
		}
		if o.Unlabelled && c.Labels != "" {
			d.Unused = append(d.Unused, c.Labels)
			c.withoutLabels()
		}
		if d.Layout == LayoutNIH {
			c.Series = o.Series
		}
	}), nil
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

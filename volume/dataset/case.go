package dataset

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// A Mask is the voxels of one structure: those of a file that are not 0.
type Mask struct {
	Path string
	Name string // of the structure
	// Label is its number in the label map. [Detect] gives one number to a name in all cases.
	Label uint16
	at    int // place among the structures of a set, or the label in its SEG object
}

// A Case is a scan and, where there are any, its labels.
type Case struct {
	ID    string
	Group string // "" or GroupTest
	Image string // a NIfTI file, or a folder that holds a DICOM series
	// More are its further channels, as files, volumes of the same file or series: of each, Image,
	// Volume and Series count. They are read onto the voxels of the first.
	More []Case
	// which series of that folder, as [dicom.Series.Is] takes it; "" for a file, or for the largest
	// axial CT
	Series string
	// a NIfTI file, a DICOM SEG object or an RT structure set; "" for none. Where there is a file
	// for each structure, their folder, or the only one.
	Labels string
	Masks  []Mask // the files of such labels, or the structures of the set
	// Predicted says that the labels are what voxsaw predicted, as they are.
	Predicted bool
	// Volume of a file that holds several, 1 for the first; 0 where there must be only one.
	Volume int
	// Patient is what the cases of one patient have in common, a word and a digest or a name of
	// folders; "" where the patient has one case, or is not known. See [Patients].
	Patient string
	// ByIndex says that labels lie on the image's voxels in the order of its rows, columns and
	// slices, whatever their headers say.
	ByIndex bool
	subject string // of BIDS, by its path
	scan    string // of BIDS, of which it is one contrast: its subject, session and run
	// its name without and with that of its data set's folder
	name, nameWithFolder string
	folders              []string            // that it lies in, without those that only say images
	series               *dicom.Series       // where Detect found it
	beside               bool                // other cases' series lie in its folder, too
	why                  string              // it was chosen, where that was put off
	segmentation         *dicom.Segmentation // the labels, where Detect found them to be one
	structures           *dicom.StructureSet // likewise
	channel              bool                // Volume has chosen the file, or it is one of several
	suv                  bool                // its values, those of a PET's series, become SUV
	modality             Modality            // of a file, as far as it was found
	asStored             bool                // [Case.AsStored]
	unnamed              bool                // its labels are numbers that nothing names
	ownNamed             bool                // its file of labels names them itself
	labelVolumes         int                 // of one label each in its labels; 0: none
	site                 string              // its folder below the data set's, or the data set's
	// of its labels, as its files number them: nil for masks, and where nothing names them
	names map[uint16]string
	// what these numbers become, where names decide; nil: they stay
	renumber map[uint16]uint16
	// labels that somebody drew in it, or found absent; nil: not known. Masks say it themselves
	drawn []uint16
	// all labels that cases of the data set have, and those that nobody drew in this one
	labels, undrawn []uint16
	// where the evidence of flips goes, if it is wanted; zero where none was looked for
	seenFlips *FlipEvidence
	// the SEG objects whose segments are its masks, where they are several
	objects []*dicom.Segmentation
	refused error // why no scan of the folder could be chosen
}

// withoutLabels takes a case's labels away.
func (c *Case) withoutLabels() {
	c.Labels, c.Masks, c.segmentation, c.structures, c.objects = "", nil, nil, nil, nil
	c.Predicted = false
}

// setMasks gives a case its masks, in the order of their names.
func (c *Case) setMasks(masks []Mask) {
	c.Masks = slices.SortedStableFunc(slices.Values(masks),
		func(a, b Mask) int { return numbers.CompareNatural(a.Name, b.Name) })
	c.Labels, c.segmentation, c.structures, c.objects = c.Masks[0].Path, nil, nil, nil
	if folder := commonFolder(maskPaths(c.Masks)); len(masks) > 1 {
		c.Labels = folder
	}
}

// maskPaths lists the files, each once.
func maskPaths(masks []Mask) (paths []string) {
	for _, m := range masks {
		if !slices.Contains(paths, m.Path) {
			paths = append(paths, m.Path)
		}
	}
	return paths
}

// NumbersOnly is the folder that a case with labels comes from whose labels are numbers that
// nothing names; "" for any other case.
func (c Case) NumbersOnly() (site string) {
	if c.unnamed {
		return c.site
	}
	return ""
}

// sourcePaths are the files and folders that a case is read from, each once.
func (c Case) sourcePaths() []string {
	var paths, files []string
	for _, channel := range append([]Case{c}, c.More...) {
		for _, file := range channel.ownFiles() { // several volumes of one file are channels, too
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	if c.Masks != nil {
		files = append(files, maskPaths(c.Masks)...)
	} else {
		files = append(files, c.Labels)
	}
	for _, path := range files {
		if path == "" {
			continue
		}
		paths = append(paths, format.Files(path)...)
	}
	return paths
}

// ownFiles are the folder of a series, if nothing else lies in it, or else the files of the series;
// of any other scan, its file.
func (c Case) ownFiles() []string {
	if c.series == nil || len(c.series.Files) == 0 {
		return []string{c.Image}
	}
	if !c.beside && holdsNothingBut(c.Image, c.series.Files) {
		return []string{c.Image}
	}
	return slices.Sorted(slices.Values(c.series.Files))
}

// holdsNothingBut says whether no other files lie in a folder and below.
func holdsNothingBut(folder string, files []string) bool {
	own := map[string]bool{}
	for _, file := range files {
		own[file] = true
	}
	alone := true
	err := folders.Walk(folder, func(file string, entry fs.FileInfo, err error) error {
		if err == nil && (entry.IsDir() || own[file]) {
			return nil
		}
		alone = false
		return fs.SkipAll
	})
	return err == nil && alone
}

// Sources are the absolute paths of the files and folders that a case is read from, the scan's
// first.
func (c Case) Sources() ([]string, error) {
	paths := c.sourcePaths()
	for n, path := range paths {
		full, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		paths[n] = full
	}
	return paths, nil
}

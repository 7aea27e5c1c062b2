package dataset

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Flips says what to do about labels whose axes run against their scan's.
type Flips string

// What can be done about labels that fit their scan better when they are flipped.
const (
	FlipsCheck Flips = "check" // refuse the case, and say which flip fits
	FlipsFix   Flips = "fix"   // flip them, and say so
	FlipsOff   Flips = "off"   // do not look
)

// ReadOptions say what is done about scans and labels that are not as they should be.
type ReadOptions struct {
	Tilt     dicom.Tilt    `yaml:"tilt" help:"slices of a tilted gantry: resample onto an orthogonal grid, keep them sheared, or error" oneof:"resample keep error"`
	Gaps     dicom.Gaps    `yaml:"gaps" help:"uneven slice distances: error, or resample between the known positions" oneof:"error resample"`
	Shear    nifti.Shear   `yaml:"shear" help:"NIfTI files whose axes are not at right angles: keep them so, resample onto the nearest grid without shear, or error" oneof:"keep resample error"`
	Overlap  dicom.Overlap `yaml:"segment_overlap" help:"structures that share voxels: error; last: the one with the highest number has them; or order: and names, such as order:tumour,pancreas: the first that is named has them"`
	LabelsBy LabelsBy      `yaml:"labels_by" help:"where labels lie on their scan: where their header says, or by index, voxel by voxel in the order of the files, for labels whose header is wrong or missing" oneof:"header index"`
	Flips    Flips         `yaml:"flips" help:"labels that fit their scan clearly better when flipped (nih): check refuses the case, fix flips them, off does not look" oneof:"check fix off"`
}

// DefaultReadOptions repairs what can be repaired exactly.
func DefaultReadOptions() ReadOptions {
	return ReadOptions{Tilt: dicom.TiltResample, Gaps: dicom.GapsError, Shear: nifti.ShearKeep, Overlap: dicom.OverlapError, Flips: FlipsCheck, LabelsBy: LabelsByHeader}
}

// origin is how files are read, for the record of a case. It keeps the form of older versions,
// whose cases are kept where nothing has changed.
func (o ReadOptions) origin() string {
	text := fmt.Sprintf("{Tilt:%s Gaps:%s Shear:%s Overlap:%s Flips:%s}", o.Tilt, o.Gaps, o.Shear, o.Overlap, o.Flips)
	if o.LabelsBy == LabelsByIndex {
		text += " labels by index"
	}
	return text
}

// check says what is wrong with the options; empty ones are the defaults.
func (o ReadOptions) check() error {
	if err := o.Overlap.Check(); err != nil {
		return fmt.Errorf("segment overlap %w", err)
	}
	for _, option := range []struct {
		name, value string
		known       []string
	}{
		{"tilt", string(o.Tilt), []string{"", string(dicom.TiltResample), string(dicom.TiltKeep), string(dicom.TiltError)}},
		{"gaps", string(o.Gaps), []string{"", string(dicom.GapsError), string(dicom.GapsResample)}},
		{"labels by", string(o.LabelsBy), []string{"", string(LabelsByHeader), string(LabelsByIndex)}},
		{"flips", string(o.Flips), []string{"", string(FlipsCheck), string(FlipsFix), string(FlipsOff)}},
	} {
		if !slices.Contains(option.known, option.value) {
			return fmt.Errorf("%s %q: must be one of %s", option.name, option.value, strings.Join(option.known[1:], ", "))
		}
	}
	return nil
}

// ReadImage reads a scan: a NIfTI file, or of DICOM files (one, or a folder with all below it) the
// only series, or the largest axial CT. Notes say what was chosen and repaired.
func ReadImage(path string, o ReadOptions) (v *volume.Volume, notes []string, err error) {
	return Case{Image: path}.ReadImage(o)
}

// dicom are the options that concern DICOM.
func (o ReadOptions) dicom(note func(string)) dicom.Options {
	return dicom.Options{Tilt: o.Tilt, Gaps: o.Gaps, Overlap: o.Overlap, Note: note}
}

// nifti are the options that concern NIfTI, for one of a file's volumes.
func (o ReadOptions) nifti(volume int, note func(string)) nifti.Options {
	return nifti.Options{Volume: volume, Shear: o.Shear, Note: note}
}

// ReadImage reads the case's scan. Notes say what was chosen and repaired.
func (c Case) ReadImage(o ReadOptions) (v *volume.Volume, notes []string, err error) {
	v, _, notes, err = c.readImage(o)
	return v, notes, err
}

// Extent is the grid of the case's scan and the bytes that a voxel of it takes in memory, from
// headers alone. It is not known of what cannot be read, or only as it is read: a series whose
// files were not looked at. Where slices are straightened or resampled, the grid read may be
// larger.
func (c Case) Extent() (g volume.Grid, voxelBytes int, known bool) {
	if c.series != nil {
		return c.series.Grid, 2, c.series.Err == nil
	}
	if c.refused != nil || c.IsDICOM() {
		return g, 0, false
	}
	h, err := readFileHeader(c.Image)
	if err != nil {
		return g, 0, false
	}
	return h.Grid, h.voxelBytes, true
}

// readImage also returns the scan's DICOM series, nil for a NIfTI file.
func (c Case) readImage(o ReadOptions) (v *volume.Volume, s *dicom.Series, notes []string, err error) {
	if _, err := os.Stat(c.Image); err != nil && c.refused == nil {
		return nil, nil, nil, err
	}
	if c.refused != nil || c.IsDICOM() {
		return c.readSeries(o)
	}
	if v, err = readFile(c.Image, o.nifti(c.Volume, func(note string) { notes = append(notes, note) })); err != nil {
		return nil, nil, nil, err
	}
	if nifti.VolumeMayBeLabels(v) {
		notes = append(notes, notLabels)
	}
	notes = append(notes, doubtsAboutGrid(v.Grid)...)
	if m := c.Modality().Name; m == "" || m == volume.ModalityCT {
		notes = append(notes, doubtsAbout(v)...)
	}
	if err := v.CheckFinite(); err != nil { // what a volume.Preparation does about them
		notes = append(notes, err.Error()+": NaN is taken for air, infinite values for the ends of the window")
	}
	return v, nil, notes, nil
}

// doubtsAboutGrid says what no scan of a patient is like: voxels of an impossible size.
func doubtsAboutGrid(g volume.Grid) (doubts []string) {
	const least, most = 0.01, 100 // mm
	if s := g.Spacing(); min(s[0], s[1], s[2]) < least || max(s[0], s[1], s[2]) > most {
		doubts = append(doubts, fmt.Sprintf("voxels of %.4g x %.4g x %.4g mm are none of a patient: is the unit of length another?", s[0], s[1], s[2]))
	}
	return doubts
}

// doubtsAbout says what no CT of a patient is like: values that are no Hounsfield units: all alike,
// hardly different, or none of air and fat.
func doubtsAbout(v *volume.Volume) (doubts []string) {
	const (
		leastRange  = 20   // HU
		leastVoxels = 1000 // of which anything is to be said
	)
	switch low, high := valuesOf(v); {
	case low > high: // none is a number
	case low == high:
		doubts = append(doubts, fmt.Sprintf("all voxels are %g: there is nothing to see", low))
	case (low >= 0 || high-low <= leastRange) && v.Len() >= leastVoxels && !nifti.VolumeMayBeLabels(v):
		doubts = append(doubts, fmt.Sprintf("values go from %.4g to %.4g, and Hounsfield units from -1000 (air) over 0 (water) to 1000 and more (bone): give the scan as it was before it was scaled or shifted; --modality says what it is if it is no CT", low, high))
	}
	return doubts
}

// valuesOf is the range of the values that are numbers; upside down where none is.
func valuesOf(v *volume.Volume) (low, high float32) {
	if v.Int16 != nil {
		return float32(slices.Min(v.Int16)), float32(slices.Max(v.Int16))
	}
	low, high = float32(math.Inf(1)), float32(math.Inf(-1))
	for _, x := range v.Float32 { // a NaN is neither below nor above
		if x < low {
			low = x
		}
		if x > high {
			high = x
		}
	}
	return low, high
}

const notLabels = "is taken for a scan, though it holds labels by its values: few whole numbers, 0 among them and none below"

// Read reads the case's scan and labels (nil where it has none), and brings the labels onto the
// scan's voxels where they go by index. Labels are called by the given names, unless their file has
// names itself. Labels that [Detect] found no names for, though others have some, get none.
func (c Case) Read(o ReadOptions, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	if c.unnamed {
		names = nil
	}
	if c.structures != nil {
		return c.readStructures(o)
	}
	if c.Labels != "" && c.Masks == nil && !isVoxels(c.Labels) {
		return c.readSegmentation(o)
	}
	v, s, notes, err := c.readImage(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if c.Labels == "" {
		return v, nil, notes, nil
	}
	if c.ByIndex {
		if v, l, err = c.readByIndex(v, s, o); err != nil {
			return nil, nil, nil, err
		}
		l.Names = maps.Clone(names)
		l, note, err := c.checkFlips(v, l, o.Flips)
		if err != nil {
			return nil, nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		return v, l, notes, nil
	}
	if err := c.checkVolumes(v.Grid, o); err != nil {
		return nil, nil, nil, err
	}
	l, more, err := c.readLabels(o, names, &v.Grid)
	if err != nil {
		return nil, nil, nil, err
	}
	notes = append(notes, more...)
	var note string
	if o.LabelsBy == LabelsByIndex {
		if l, err = byIndex(c.Labels, l, v, s, o); err == nil {
			l, note, err = c.checkFlips(v, l, o.Flips)
		}
	} else {
		l, note, err = onScan(c.Labels, l, v.Grid)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	return v, l, notes, nil
}

// readLabels reads labels that lie in files of voxels, on the grid that they have there. What is
// done about the scan is done about them. The grid of the scan is nil where it is not known.
func (c Case) readLabels(o ReadOptions, names map[uint16]string, scan *volume.Grid) (l *volume.LabelMap, notes []string, err error) {
	if c.Masks != nil {
		return c.readMasks(o, scan)
	}
	if l, notes, err = readLabelFile(c.Labels, o, names, nil); err != nil {
		return nil, nil, err
	}
	if l.Names == nil { // the file has none itself
		l.Names = maps.Clone(names)
	}
	return l, notes, nil
}

// readByIndex reads labels that lie on the voxels of a scan in the order of its columns, rows and
// slices, whatever their header says, and turns both to the axes that an axial CT has on disk: to
// the patient's left, to the back, to the head. Of a DICOM series, slices are counted by instance
// number; a NIfTI file is taken for one that was scanned like that.
func (c Case) readByIndex(v *volume.Volume, s *dicom.Series, o ReadOptions) (*volume.Volume, *volume.LabelMap, error) {
	l, err := readFileLabels(c.Labels, nifti.Options{})
	if err != nil {
		return nil, nil, err
	}
	if v, err = v.Orient("LPS"); err != nil {
		return nil, nil, err
	}
	scan := v.Shape
	if s != nil {
		scan = s.Shape
	}
	if l.Shape != scan {
		return nil, nil, fmt.Errorf("%s: has %v voxels, its scan has %v", c.Labels, numbers.Extents(l.Shape[:]), numbers.Extents(scan[:]))
	}
	if s == nil {
		return v, &volume.LabelMap{Grid: v.Grid, Labels: l.Labels}, nil
	}
	stack, err := byInstance(s, l.Labels)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.Labels, err)
	}
	if l, err = s.Labels(stack, o.dicom(nil)); err != nil {
		return nil, nil, err
	}
	l, err = l.Orient("LPS")
	return v, l, err
}

// checkFlips compares the labels with the image, as they lie and flipped.
func (c Case) checkFlips(v *volume.Volume, l *volume.LabelMap, f Flips) (flipped *volume.LabelMap, note string, err error) {
	if f == FlipsOff {
		return l, "", nil
	}
	e := lookAtFlips(v, l)
	better, _ := e.verdict()
	if f == FlipsFix {
		e = e.flipped(better)
	}
	if c.seenFlips != nil {
		*c.seenFlips = e
	}
	switch {
	case better == "":
		return l, "", nil
	case f == FlipsFix:
		return flipLabels(l, better), fmt.Sprintf("labels flipped along %s, where they fit the scan better", better), nil
	}
	return nil, "", fmt.Errorf("%s: fits its scan better when flipped along %s, by the HU inside and around it: --flips fix flips it, --flips off takes it as it is", c.Labels, better)
}

// besideRounding is how far (voxels) labels may lie beside the scan's voxels unsaid: what rounding
// in headers does.
const besideRounding = 0.05

// onOtherVoxels says where labels lie that match a scan's grid, and what is done about it; "" where
// they lie on the scan's voxels, but for rounding.
func onOtherVoxels(scan, labels volume.Grid, exact bool) string {
	if !exact {
		return prepared.NoteOtherVoxels
	}
	if beside := scan.Misalignment(labels); beside > besideRounding {
		return fmt.Sprintf("labels lie %.2f voxels beside those of the scan, by their header: taken voxel by voxel", beside)
	}
	return ""
}

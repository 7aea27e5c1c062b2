// Package dicom reads scans from DICOM files: it finds the series among any files and makes a
// volume of one.
//
// Start at [Scan], which lists the series under some folders, [Choose], which picks one, and
// [Read]. The axes are dcm2niix's: i runs along the rows of the image, j against its columns (from
// the last row to the first), k along the normal of the image plane, so an axial CT has the axes
// LAS and lies on the same grid as the NIfTI file that dcm2niix makes of it. DICOM's pixel (row,
// column) is voxel (column, Rows-1-row).
//
// ImagePositionPatient, ImageOrientationPatient and PixelSpacing alone say where slices lie: file
// names, instance numbers and SliceThickness do not count. What can be repaired exactly is repaired
// and noted ([Options]); the rest is refused by name.
//
// Label maps are SEG objects: [OpenSegmentation] reads one, [Segmentation.ReadOn] puts it onto the
// series that it refers to, [WriteSegmentation] writes one.
//
// Nothing about the patient (name, identifier, birth date) can reach a log or a record: only
// elements that matter for the image are ever looked at, and PatientID, of which a digest alone is
// kept ([Series]: Patient). What says whose a SEG object is goes from file to file as bytes. Free
// text is read where nothing else says what a series is ([Series]: Description, Protocol, Kernel).
//
// It leaves out colour images, the network, and writing images. Below it lie internal/element (the
// encoding of files), pixels (stored values, codecs), stack (where slices lie), grouping (which
// images belong together) and segmentation (SEG objects).
package dicom

import (
	"cmp"
	"fmt"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// Series is a set of images that together are one volume.
type Series struct {
	// SeriesInstanceUID; the most frequent one, where images of several were taken for one volume;
	// a digest of what stands there, where that is no UID
	UID string
	// StudyInstanceUID; "" where the images name several
	Study string
	// Patient is a digest of PatientID and IssuerOfPatientID, 16 hexadecimal digits; "" where the
	// images name several, none, or a dummy such as ANON or 0
	Patient string
	Number  string // SeriesNumber, as it stands
	// 1, 2, ... where one SeriesInstanceUID holds several volumes; 0 otherwise
	Part     int
	Modality string // CT, MR, ...; of images that do not say it, that of their SOP class
	// SeriesDescription, ProtocolName and ConvolutionKernel, as people wrote them
	Description, Protocol, Kernel string
	// Phase is what tells the volume from others of the same place: contrast, breathing, heart,
	// b-value, echo, time; "" where the images do not say
	Phase       string
	ImageType   []string
	RescaleType string // as it stands; "" where there is none
	// Unit is what the values are, by RescaleType, Units, RealWorldValueMappingSequence and
	// ImageType: HU, mg/ml, Bq/ml, effective atomic number, ...; "" where nothing says it. See
	// [Series.InHU]
	Unit string
	// a scout view, by its ImageType, or by its description where it has few slices
	Localizer bool
	Shape     [3]int // columns, rows and slices as they lie in the files
	// where columns, rows (upwards) and slices grow to, nearest; "" where the images do not say
	Axcodes string
	Syntax  string   // the name of the (first) transfer syntax
	Files   []string // in the order of the slices
	// InstanceNumber of each file, 0 where it has none. It says nothing about where slices lie, but
	// some labels count slices by it
	Instances []int
	// of the volume that [Read] makes with the default options; the zero Grid where it makes none
	Grid     volume.Grid
	Problems []string // what is odd, repaired or in the way, in words
	Err      error    // why [Read] will refuse it with the default options, nil if it will not
	// degrees between the way from slice to slice and the normal of the slices
	Tilt   float64
	uids   []string // all SeriesInstanceUIDs
	doubts []string // problems that [ReadWith] notes as well
	noCT   string   // the one of them that says so of a PET
	stack  *stack.Stack
}

// String describes the series in a line, without anything that is the patient's.
func (s *Series) String() string {
	part := ""
	if s.Part > 0 {
		part = fmt.Sprintf(" part %d", s.Part)
	}
	plane := s.plane()
	if plane != "" {
		plane += " "
	}
	what := "slice"
	if s.Localizer {
		what = "localizer"
	}
	if s.Shape[2] != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s series %s%s: %d %s%s of %dx%d, %s%s",
		s.Modality, s.Number, part, s.Shape[2], plane, what, s.Shape[0], s.Shape[1], s.Syntax, s.said())
}

// Tilt says what becomes of a series whose slices are stacked askew, so that the way from one to
// the next is not along their normal. A tilted gantry makes such series.
type Tilt string

const (
	// shift each slice in its plane onto an orthogonal grid (linear), which grows by the shift
	TiltResample Tilt = "resample"
	TiltKeep     Tilt = "keep"  // keep the voxels; the affine is sheared
	TiltError    Tilt = "error" // refuse
)

// Gaps says what becomes of a series whose slices are not evenly spaced.
type Gaps string

const (
	GapsError Gaps = "error" // refuse, naming the gap
	// interpolate linearly between the known positions, at the median distance
	GapsResample Gaps = "resample"
)

// Options say what [ReadWith] does about slices that are no regular stack. The zero value is
// TiltResample and GapsError.
type Options struct {
	Tilt    Tilt
	Gaps    Gaps
	Overlap Overlap // of the segments of a [Segmentation]; empty: OverlapError
	SUV     bool    // make SUV of the values of a PET: see [Series.SUV]
	// Note is called with each repair, in words. It may be nil.
	Note func(string)
}

func (o *Options) defaults() error {
	o.Tilt = cmp.Or(o.Tilt, TiltResample)
	o.Gaps = cmp.Or(o.Gaps, GapsError)
	switch o.Tilt {
	case TiltResample, TiltKeep, TiltError:
	default:
		return fmt.Errorf("tilt %q: want resample, keep or error", o.Tilt)
	}
	switch o.Gaps {
	case GapsError, GapsResample:
	default:
		return fmt.Errorf("gaps %q: want error or resample", o.Gaps)
	}
	if err := o.Overlap.Check(); err != nil {
		return fmt.Errorf("overlap %w", err)
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return nil
}

// stack returns what the options say about slices.
func (o Options) stack() stack.Options {
	return stack.Options{Tilt: string(o.Tilt), Gaps: string(o.Gaps), Fractions: o.SUV}
}

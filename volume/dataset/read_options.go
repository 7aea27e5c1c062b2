package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: how scans and labels are read that are not as they should be.

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
	// slices of a tilted gantry: resample onto an orthogonal grid, keep them sheared, or error
	Tilt dicom.Tilt `yaml:"tilt" oneof:"resample keep error"`
	// uneven slice distances: error, or resample between the known positions
	Gaps dicom.Gaps `yaml:"gaps" oneof:"error resample"`
	// NIfTI files whose axes are not at right angles: keep them so, resample onto the nearest grid
	// without shear, or error
	Shear nifti.Shear `yaml:"shear" oneof:"keep resample error"`
	// structures that share voxels: error; last: the one with the highest number has them; or
	// order: and names, such as order:tumour,pancreas: the first that is named has them
	Overlap dicom.Overlap `yaml:"segment_overlap"`
	// where labels lie on their scan: where their header says, or by index, voxel by voxel in the
	// order of the files, for labels whose header is wrong or missing
	LabelsBy LabelsBy `yaml:"labels_by" oneof:"header index"`
	// labels that fit their scan clearly better when flipped (nih): check refuses the case, fix
	// flips them, off does not look
	Flips Flips `yaml:"flips" oneof:"check fix off"`
}

// DefaultReadOptions repairs what can be repaired exactly.
func DefaultReadOptions() ReadOptions {
	return ReadOptions{Tilt: dicom.TiltResample, Gaps: dicom.GapsError, Shear: nifti.ShearKeep,
		Overlap: dicom.OverlapError, Flips: FlipsCheck, LabelsBy: LabelsByHeader}
}

// origin is how files are read, for the record of a case: where it is another one, the case is
// prepared again.
func (o ReadOptions) origin() string {
	text := fmt.Sprintf("{Tilt:%s Gaps:%s Shear:%s Overlap:%s Flips:%s}", o.Tilt, o.Gaps, o.Shear, o.Overlap, o.Flips)
	if o.LabelsBy == LabelsByIndex {
		text += " labels by index"
	}
	return text
}

// Complete is the options with the defaults in the place of those that are empty, so that a default
// that is given and one that is left out are the same way of reading. What no option can be is an
// error.
func (o ReadOptions) Complete() (ReadOptions, error) {
	usual := DefaultReadOptions()
	return ReadOptions{cmp.Or(o.Tilt, usual.Tilt), cmp.Or(o.Gaps, usual.Gaps), cmp.Or(o.Shear, usual.Shear),
		cmp.Or(o.Overlap, usual.Overlap), cmp.Or(o.LabelsBy, usual.LabelsBy), cmp.Or(o.Flips, usual.Flips)}, o.check()
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
		{"tilt", string(o.Tilt), []string{"", string(dicom.TiltResample), string(dicom.TiltKeep),
			string(dicom.TiltError)}},
		{"gaps", string(o.Gaps), []string{"", string(dicom.GapsError), string(dicom.GapsResample)}},
		{"labels by", string(o.LabelsBy), []string{"", string(LabelsByHeader), string(LabelsByIndex)}},
		{"flips", string(o.Flips), []string{"", string(FlipsCheck), string(FlipsFix), string(FlipsOff)}},
	} {
		if !slices.Contains(option.known, option.value) {
			return fmt.Errorf("%s %q: must be one of %s", option.name, option.value,
				strings.Join(option.known[1:], ", "))
		}
	}
	return nil
}

// dicom are the options for labels on a series.
func (o ReadOptions) dicom(note func(string)) dicom.Options {
	return dicom.Options{Tilt: o.Tilt, Gaps: o.Gaps, Overlap: o.Overlap, Note: note}
}

// format are the options for one of a file's volumes.
func (o ReadOptions) format(volume int, note func(string)) format.Options {
	return format.Options{Volume: volume, Shear: o.Shear, Tilt: o.Tilt, Gaps: o.Gaps, Overlap: o.Overlap, Note: note}
}

// LabelsBy says where labels lie on their scan.
type LabelsBy string

// How labels are brought onto their scan.
const (
	LabelsByHeader LabelsBy = "header" // where their header says
	LabelsByIndex  LabelsBy = "index"  // voxel by voxel, in the order of the files
)

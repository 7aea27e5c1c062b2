package dicom

import (
	"slices"

	"github.com/voxsaw/voxsaw/volume"
)

// Read makes a volume of a series, with the default options. The values are those after
// RescaleSlope and RescaleIntercept (HU for CT): int16 where all of them are whole numbers that
// fit, float32 otherwise. Errors are [volume.FormatError] for damaged files,
// [volume.UnsupportedError] for what is not read or not repaired, and file system errors.
func Read(s *Series) (*volume.Volume, error) { return ReadWith(s, Options{}) }

// ReadWith is [Read] with options.
func ReadWith(s *Series, o Options) (*volume.Volume, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	doubts := s.doubts
	if o.SUV { // who asks for that knows that it is no CT
		doubts = slices.DeleteFunc(slices.Clone(doubts), func(text string) bool { return text == s.noCT })
	}
	v, err := s.stack.Read(o.stack(), doubts, o.Note)
	if err == nil && o.SUV {
		v, err = s.toSUV(v, o.Note)
	}
	return v, err
}

// Labels makes a label map of labels that count pixels: columns first, then rows (from the first)
// and slices (in the order of the series). It lies on the grid that [ReadWith] gives the series
// with the same options. Where the options move or resample slices, voxels take the label with the
// largest share. It may change stack.
func (s *Series) Labels(stack []uint16, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return s.stack.Labels(stack, o.stack())
}

// VoxelBytes is the bytes of a voxel that [Read] makes, at most, as headers say: 2, or 4 of a
// series whose rescaling makes fractions, as of many PET, or whose bits may hold what is beyond
// int16. A CT with values beyond it takes 4, too, which its headers do not say. SUV take 4.
func (s *Series) VoxelBytes() int { return s.stack.VoxelBytes() }

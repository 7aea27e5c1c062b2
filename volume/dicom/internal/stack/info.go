package stack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Info is what can differ from frame to frame, or from slice to slice.
type Info struct {
	Position         []float64 // ImagePositionPatient, 3 numbers
	Orientation      []float64 // ImageOrientationPatient, 6 numbers
	Spacing          []float64 // PixelSpacing, 2 numbers: between rows, between columns
	slope, Intercept *float64
	ImageType        []string
	Thickness        float64 // SliceThickness: of use for a single slice only
	Between          float64 // SpacingBetweenSlices: likewise
	// values of VolumeTags
	VolumeKeys [len(VolumeTags)]string
	// codes of the units of RealWorldValueMappingSequence, such as [hnsf'U], divided by backslashes
	RealWorld string
}

// VolumeTags are the attributes that tell volumes at the same positions apart, the most telling
// first.
var VolumeTags = [...]tag.Tag{
	tag.AcquisitionNumber,
	tag.StackID,
	tag.TemporalPositionIndex,
	tag.TemporalPositionIdentifier,
	tag.TemporalPositionTimeOffset,
	tag.NominalPercentageOfCardiacPhase,
	tag.CardiacCyclePosition,
	tag.NominalPercentageOfRespiratoryPhase,
	tag.RespiratoryCyclePosition,
	tag.StartingRespiratoryPhase,
	tag.EndingRespiratoryPhase,
	tag.StartingRespiratoryAmplitude,
	tag.EndingRespiratoryAmplitude,
	tag.ContrastBolusAgentPhase,
	tag.TriggerTime,
	tag.NominalCardiacTriggerDelayTime,
	tag.NominalRespiratoryTriggerDelayTime,
	tag.EchoTime,
	tag.EffectiveEchoTime,
	tag.EchoNumbers,
	tag.InversionTime,
	tag.FlipAngle,
	tag.DiffusionBValue,
	tag.SequenceName, // ep_b800t: of diffusion images, often all that tells b-values apart
	tag.KVP,
	tag.RescaleType,
	tag.Units,
	tag.ImageType,
	tag.ConvolutionKernel,
	tag.SeriesDescription,
	tag.ProtocolName,
	tag.FrameReferenceTime,
	tag.AcquisitionTime,
	tag.ContentTime,
}

// Key is the value of one of VolumeTags.
func (f *Info) Key(t tag.Tag) string { return f.VolumeKeys[slices.Index(VolumeTags[:], t)] }

// KernelTag is the place of ConvolutionKernel in VolumeTags.
var KernelTag = slices.Index(VolumeTags[:], tag.ConvolutionKernel)

// TimeTags are those of VolumeTags that may differ from slice to slice of one volume, and grow.
var TimeTags = []tag.Tag{tag.FrameReferenceTime, tag.AcquisitionTime, tag.ContentTime}

// readFrame reads the values of one frame.
func readFrame(b *element.Collector, f *Info) error {
	v, err := b.Parse()
	if err != nil {
		return err
	}
	return f.fill(v)
}

// fill takes the values of a data set.
func (f *Info) fill(v element.Values) (err error) {
	for _, n := range []struct {
		to    *[]float64
		tag   tag.Tag
		count int
	}{{&f.Position, tag.ImagePositionPatient, 3}, {&f.Orientation, tag.ImageOrientationPatient, 6},
		{&f.Spacing, tag.PixelSpacing, 2}} {
		if *n.to, err = v.Floats(n.tag); err != nil {
			return err
		}
		if len(*n.to) != 0 && len(*n.to) != n.count {
			return fmt.Errorf("%s has %d numbers, not %d", n.tag, len(*n.to), n.count)
		}
	}
	for _, n := range []struct {
		to  **float64
		tag tag.Tag
	}{{&f.Intercept, tag.RescaleIntercept}, {&f.slope, tag.RescaleSlope}} {
		x, err := v.Floats(n.tag)
		if err != nil {
			return err
		}
		if len(x) > 1 {
			return fmt.Errorf("%s has %d numbers, not one", n.tag, len(x))
		}
		if len(x) > 0 {
			*n.to = &x[0]
		}
	}
	for _, n := range []struct {
		to  *float64
		tag tag.Tag
	}{{&f.Thickness, tag.SliceThickness}, {&f.Between, tag.SpacingBetweenSlices}} {
		// of no importance: no error
		if x, err := v.Floats(n.tag); err == nil && len(x) > 0 && math.Abs(x[0]) <= maxPlace {
			*n.to = math.Abs(x[0])
		}
	}
	f.ImageType = v.Strings(tag.ImageType)
	if f.ImageType == nil {
		f.ImageType = v.Strings(tag.FrameType)
	}
	for n, t := range VolumeTags {
		f.VolumeKeys[n] = strings.Join(v.Strings(t), "\\")
		if t == tag.ImageType {
			f.VolumeKeys[n] = strings.Join(f.ImageType, "\\") // FrameType, where it is a frame's
		}
	}
	return nil
}

// under takes from o what f does not say.
func (f *Info) under(o Info) {
	if f.Position == nil {
		f.Position = o.Position
	}
	if f.Orientation == nil {
		f.Orientation = o.Orientation
	}
	if f.Spacing == nil {
		f.Spacing = o.Spacing
	}
	if f.slope == nil {
		f.slope = o.slope
	}
	if f.Intercept == nil {
		f.Intercept = o.Intercept
	}
	if f.ImageType == nil {
		f.ImageType = o.ImageType
	}
	f.Thickness = cmp.Or(f.Thickness, o.Thickness)
	f.Between = cmp.Or(f.Between, o.Between)
	f.RealWorld = cmp.Or(f.RealWorld, o.RealWorld)
	for n := range f.VolumeKeys {
		if f.VolumeKeys[n] == "" {
			f.VolumeKeys[n] = o.VolumeKeys[n]
		}
	}
}

// Rescale returns the line from stored values to real ones (HU for CT), and whether all of these
// are whole numbers.
func (f *Info) Rescale() (slope, intercept float64, whole bool) {
	slope, intercept = 1, 0
	if f.slope != nil {
		slope = *f.slope
	}
	if f.Intercept != nil {
		intercept = *f.Intercept
	}
	return slope, intercept, slope == math.Trunc(slope) && intercept == math.Trunc(intercept)
}

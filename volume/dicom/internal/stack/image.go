// Package stack puts DICOM images where they lie in the patient, and makes a volume of those that
// stack up.
//
// Start at [ReadImage], which reads what a file says about its images, [Image.Slices], and
// [Stack.Read]. Where slices lie is told by ImagePositionPatient, ImageOrientationPatient and
// PixelSpacing alone. [Stack.Arrange] plans the regular grid, with what is repaired on the way.
//
// It leaves out which images belong together: package grouping says that.
package stack

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Image is what one file says about its images.
type Image struct {
	pixels.Image
	Class       string // SOPClassUID
	SOP, Series string
	Study       string
	Patient     string // digest of PatientID, see patientDigest; "" where that says nothing
	FrameOfRef  string // FrameOfReferenceUID
	Instance    int    // InstanceNumber, 0 where there is none
	Modality    string
	Number      string // SeriesNumber
	Description string // SeriesDescription, decoded and made harmless
	Protocol    string // ProtocolName, likewise
	SUV         string // SUVType
	Texts       string // what is odd about its texts
	Odd         string // what the header says of its pixels that cannot be, and what was made of it
	Shared      Info
	perFrame    []Info
}

// This file: what one file says about its images.
//
//   - Only wanted elements are looked at: no name of a patient is among them. Of PatientID a digest
//     is made at once.
//   - What the functional groups of an enhanced image say about a frame is laid side by side, as if
//     it were a data set of its own.

// wanted are the elements whose values are read, besides those of VolumeTags.
var wanted = map[tag.Tag]bool{
	tag.ImageType: true, tag.SOPClassUID: true, tag.SOPInstanceUID: true, tag.Modality: true, tag.SliceThickness: true,
	tag.SpacingBetweenSlices: true,
	tag.StudyInstanceUID:     true, tag.SeriesInstanceUID: true, tag.SeriesNumber: true, tag.InstanceNumber: true,
	tag.ImagePositionPatient: true, tag.ImageOrientationPatient: true, tag.FrameOfReferenceUID: true,
	tag.SamplesPerPixel: true, tag.PhotometricInterpretation: true, tag.NumberOfFrames: true, tag.Rows: true,
	tag.Columns: true, tag.PixelSpacing: true,
	tag.BitsAllocated: true, tag.BitsStored: true, tag.HighBit: true, tag.PixelRepresentation: true,
	tag.PixelPaddingValue: true, tag.RescaleIntercept: true, tag.RescaleSlope: true,
	tag.FrameType: true, tag.SUVType: true,
}

func init() {
	for _, t := range VolumeTags {
		wanted[t] = true
	}
}

// ReadImage reads what a file says about its image. Errors are [element.ErrNotDICOM],
// [volume.FormatError], or of the file system.
func ReadImage(path string) (*Image, error) {
	file, err := element.Open(path)
	if err != nil {
		return nil, element.InFile(path, err)
	}
	defer file.Close()
	im := &Image{Image: pixels.Image{Path: path, Syntax: file.Syntax, Size: file.Size}, Class: file.Class}
	w := file.Walker()
	top := element.NewCollector(w, wanted)
	seen, units := 0, []string(nil)
	doubt := func(text string) { im.Texts = text }
	decode := element.Undeclared(doubt)
	id, issuer := "", ""
	_, err = w.Elements(file.Start, file.Size, false, 0, func(e element.Element) error {
		seen++
		if IsSEG(file.Class) && e.Tag >= tag.SharedFunctionalGroupsSequence {
			return element.ErrStop // package segmentation reads its frames
		}
		switch e.Tag {
		case tag.PixelData, tag.FloatPixelData, tag.DoubleFloatPixelData:
			im.Pixels = e
			return element.ErrStop
		case tag.SpecificCharacterSet:
			if d, err := w.Charset(e, doubt); err == nil { // of no importance to voxels: no error
				decode = d
			}
			return nil
		case tag.SeriesDescription:
			im.Description = label(w, e, decode)
		case tag.ProtocolName:
			im.Protocol = label(w, e, decode)
		case tag.PatientID:
			id = label(w, e, decode)
			return nil
		case tag.IssuerOfPatientID:
			issuer = label(w, e, decode)
			return nil
		case tag.RealWorldValueMappingSequence:
			units = unitCodes(w, e, 0)
			return nil
		case tag.ModalityLUTSequence:
			im.Table = e.Length != 0
			return nil
		case tag.SharedFunctionalGroupsSequence:
			return groups(w, e, func(b *element.Collector, units string) error {
				im.Shared.RealWorld = units
				return readFrame(b, &im.Shared)
			})
		case tag.PerFrameFunctionalGroupsSequence:
			return groups(w, e, func(b *element.Collector, units string) error {
				if len(im.perFrame) == pixels.MaxFrames {
					return fmt.Errorf("has more than %d frames", pixels.MaxFrames)
				}
				im.perFrame = append(im.perFrame, Info{RealWorld: units})
				return readFrame(b, &im.perFrame[len(im.perFrame)-1])
			})
		}
		return top.Add(w, e)
	})
	if err != nil && !errors.Is(err, element.ErrStop) {
		if seen == 0 && file.Class == "" && !file.Magic {
			err = element.ErrNotDICOM
		}
		return nil, element.InFile(path, err)
	}
	im.Patient = patientDigest(id, issuer)
	im.Shared.RealWorld = cmp.Or(im.Shared.RealWorld, strings.Join(units, `\`))
	return im, element.InFile(path, im.fill(top))
}

// label returns a text that is about to be shown, "" where it cannot be read.
func label(w *element.Walker, e element.Element, decode func(string) string) string {
	text, err := w.Text(e)
	if err != nil {
		return ""
	}
	return element.Printable(decode(text))
}

// unitCodes lists the codes of the units in a RealWorldValueMappingSequence. What is wrong with it
// matters to no voxel: it is no error.
func unitCodes(w *element.Walker, e element.Element, depth int) (codes []string) {
	const most = 16 // real ones have one or two
	code := func(in *element.Walker, e element.Element) error {
		if e.Tag == tag.CodeValue && len(codes) < most {
			if text, err := in.Text(e); err == nil && text != "" {
				codes = append(codes, element.Printable(text))
			}
		}
		return nil
	}
	_ = w.Items(e, depth, nil, func(in *element.Walker, e element.Element) error {
		if e.Tag == tag.MeasurementUnitsCodeSequence {
			return in.Items(e, depth+1, nil, code)
		}
		return nil
	})
	return codes
}

// groups calls f for each item of a functional groups sequence, with the elements of all groups in
// it and the codes of its units.
func groups(w *element.Walker, e element.Element, f func(b *element.Collector, units string) error) error {
	_, err := w.Sequence(e, 0, func(in *element.Walker, offset, limit int64, delimited bool) (int64, error) {
		b, units := element.NewCollector(in, wanted), []string(nil)
		end, err := in.Elements(offset, limit, delimited, 1, func(group element.Element) error {
			if group.VR != "SQ" && !in.Implicit && group.Length != element.Undefined {
				return nil
			}
			if group.Tag == tag.RealWorldValueMappingSequence {
				units = unitCodes(in, group, 1)
				return nil
			}
			if !groupTags[group.Tag] {
				return nil
			}
			_, err := in.Sequence(group, 1, func(in *element.Walker, offset, limit int64, delimited bool) (int64,
				error) {
				return in.Elements(offset, limit, delimited, 2, func(e element.Element) error { return b.Add(in, e) })
			})
			return err
		})
		if err != nil {
			return 0, err
		}
		return end, f(b, strings.Join(units, `\`))
	})
	return err
}

// groupTags are the functional groups that matter.
var groupTags = map[tag.Tag]bool{
	tag.FrameContentSequence:               true,
	tag.PlanePositionSequence:              true,
	tag.PlaneOrientationSequence:           true,
	tag.PixelMeasuresSequence:              true,
	tag.PixelValueTransformationSequence:   true,
	tag.MREchoSequence:                     true,
	tag.CardiacSynchronizationSequence:     true,
	tag.CTXRayDetailsSequence:              true,
	tag.CTReconstructionSequence:           true,
	tag.RespiratorySynchronizationSequence: true,
	tag.ContrastBolusUsageSequence:         true,
	tag.TemporalPositionSequence:           true,
	tag.MRDiffusionSequence:                true,
	tag.MRImageFrameTypeSequence:           true,
	tag.CTImageFrameTypeSequence:           true,
}

// fill reads the values of the top level.
func (im *Image) fill(b *element.Collector) error {
	v, err := b.Parse()
	if err != nil {
		return err
	}
	if class := v.String(tag.SOPClassUID); class != "" {
		im.Class = class
	}
	im.SOP, im.Study, im.Series = v.String(tag.SOPInstanceUID), v.String(tag.StudyInstanceUID),
		v.String(tag.SeriesInstanceUID)
	im.FrameOfRef = v.String(tag.FrameOfReferenceUID)
	im.SUV = v.String(tag.SUVType)
	im.Modality, im.Number, im.Photometric = cmp.Or(v.String(tag.Modality), modalities[im.Class]),
		v.String(tag.SeriesNumber), v.String(tag.PhotometricInterpretation)
	if n, err := strconv.Atoi(v.String(tag.InstanceNumber)); err == nil {
		im.Instance = n
	}
	if im.PassOver() != "" {
		return nil
	}
	for _, n := range []struct {
		to                    *int
		tag                   tag.Tag
		least, most, fallback int
	}{
		{&im.Rows, tag.Rows, 1, math.MaxUint16, 0}, {&im.Columns, tag.Columns, 1, math.MaxUint16, 0},
		{&im.Samples, tag.SamplesPerPixel, 1, 4, 1},
		{&im.Frames, tag.NumberOfFrames, 1, pixels.MaxFrames, 1}, {&im.Allocated, tag.BitsAllocated, 1, 64, 0},
		{&im.Stored, tag.BitsStored, 1, 64, 0}, {&im.High, tag.HighBit, 0, 63, 0},
	} {
		if *n.to, err = v.Integer(n.tag, n.least, n.most, n.fallback); err != nil {
			return err
		}
	}
	if im.Rows == 0 || im.Columns == 0 || im.Allocated == 0 {
		return errors.New("says nothing about the size of its image (Rows, Columns, BitsAllocated)")
	}
	if err := im.checkBits(); err != nil {
		return err
	}
	im.Signed = v.String(tag.PixelRepresentation) == "1"
	if p := v.String(tag.PixelPaddingValue); p != "" {
		if f, err := strconv.ParseFloat(p, 64); err == nil {
			im.Padding = &f
		}
	}
	var own Info
	if err := own.fill(v); err != nil {
		return err
	}
	im.Shared.under(own)
	im.Mosaic = slices.Contains(im.Shared.ImageType, "MOSAIC")
	return nil
}

// checkBits completes what is said about the bits of a sample, and refuses what cannot be.
func (im *Image) checkBits() error {
	im.Stored = cmp.Or(im.Stored, im.Allocated)
	im.High = cmp.Or(im.High, im.Stored-1)
	if right := im.Stored - 1; im.Stored <= im.Allocated && im.High != right && (im.High >= im.Allocated ||
		im.Stored == im.Allocated) {
		// Samples can lie in one place only.
		im.Odd = fmt.Sprintf("HighBit is %d, of %d bits stored in %d: taken for %d", im.High, im.Stored, im.Allocated,
			right)
		im.High = right
	}
	if im.Stored > im.Allocated || im.High >= im.Allocated || im.High < im.Stored-1 {
		return fmt.Errorf("has impossible pixels: %d bits stored up to bit %d, of %d allocated", im.Stored, im.High,
			im.Allocated)
	}
	return nil
}

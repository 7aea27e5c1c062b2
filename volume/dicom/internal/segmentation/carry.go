package segmentation

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// carried are elements of a file that another takes over as they are. Nobody looks at their values,
// but for dates and times, and none of them may be printed.
type carried map[tag.Tag][]byte

// carriedTypes are the elements that say whose the images are and of which study: the Patient,
// General Study, Patient Study and Frame of Reference modules, as far as viewers and archives file
// objects by them, and whether images have been compressed with loss. Those that must be there are
// written empty where the file has none. Comments on the patient, other names and numbers of
// theirs, history, occupation and ethnic group stay where they are: nobody asked for a copy.
var carriedTypes = map[tag.Tag]struct {
	vr   string
	must bool
}{
	// SpecificCharacterSet, TimezoneOffsetFromUTC
	tag.SpecificCharacterSet: {"CS", false}, tag.TimezoneOffsetFromUTC: {"SH", false},
	tag.PatientName: {"PN", true}, tag.PatientID: {"LO", true}, tag.IssuerOfPatientID: {"LO", false},
	tag.PatientBirthDate: {"DA", true}, tag.PatientBirthTime: {"TM", false}, tag.PatientSex: {"CS", true},
	tag.PatientIdentityRemoved: {"CS", false}, tag.DeidentificationMethod: {"LO", false},
	tag.StudyInstanceUID: {"UI", true}, tag.StudyDate: {"DA", true}, tag.StudyTime: {"TM", true},
	tag.AccessionNumber: {"SH", true}, tag.ReferringPhysicianName: {"PN", true}, tag.StudyID: {"SH", true},
	tag.StudyDescription: {"LO", false},
	tag.PatientAge:       {"AS", false}, tag.PatientSize: {"DS", false}, tag.PatientWeight: {"DS", false},
	tag.FrameOfReferenceUID: {"UI", false}, tag.PositionReferenceIndicator: {"LO", true},
	tag.LossyImageCompression: {"CS", false}, tag.LossyImageCompressionRatio: {"DS", false},
	tag.LossyImageCompressionMethod: {"CS", false},
	// of acquisition and series: not written, but asked for a date
	tag.AcquisitionDate: {"DA", false}, tag.AcquisitionTime: {"TM", false}, tag.SeriesDate: {"DA", false},
	tag.SeriesTime: {"TM", false},
}

// carry takes the elements of carriedTypes from a file.
func carry(path string) (carried, error) {
	file, err := element.Open(path)
	if err != nil {
		return nil, element.InFile(path, err)
	}
	defer file.Close()
	c := carried{}
	w := file.Walker()
	_, err = w.Elements(file.Start, file.Size, false, 0, func(e element.Element) error {
		if e.Tag >= tag.FloatPixelData {
			return element.ErrStop
		}
		if _, wanted := carriedTypes[e.Tag]; !wanted || e.Length == element.Undefined || e.Length >= math.MaxUint16-1 {
			return nil
		}
		b, err := w.At(e.Value, int(e.Length))
		c[e.Tag] = slices.Clone(b)
		return err
	})
	if err != nil && !errors.Is(err, element.ErrStop) {
		return nil, element.InFile(path, err)
	}
	return c, nil
}

func (c carried) has(t tag.Tag) bool { return len(strings.Trim(string(c[t]), " \x00")) > 0 }

// moment is when the images were made, as near as they tell: the labels have no other time of their
// own, or the same labels would not make the same file.
func (c carried) moment() (date, time string) {
	for _, tags := range [][2]tag.Tag{{tag.AcquisitionDate, tag.AcquisitionTime}, {tag.SeriesDate, tag.SeriesTime},
		{tag.StudyDate, tag.StudyTime}} {
		if c.has(tags[0]) {
			time = "000000"
			if c.has(tags[1]) {
				time = strings.Trim(string(c[tags[1]]), " \x00")
			}
			return strings.Trim(string(c[tags[0]]), " \x00"), time
		}
	}
	return "19700101", "000000"
}

// add writes what was taken from another file.
func (c carried) add(e *element.Encoder) {
	for _, t := range slices.Sorted(maps.Keys(carriedTypes)) {
		kind := carriedTypes[t]
		switch t {
		case tag.SeriesDate, tag.SeriesTime, tag.AcquisitionDate, tag.AcquisitionTime:
			continue
		}
		if c.has(t) || kind.must {
			e.Bytes(t, kind.vr, c[t])
		}
	}
}

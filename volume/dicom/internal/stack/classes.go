package stack

import (
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
)

// passedOver are objects that are no scans, by what their SOP class UID begins with (PS3.4 B.5).
var passedOver = []struct{ prefix, what string }{
	{"1.2.840.10008.1.3.10", "DICOMDIR"},
	{"1.2.840.10008.5.1.4.1.1.481.2", "RTDOSE"},
	{"1.2.840.10008.5.1.4.1.1.481.3", "RTSTRUCT"},
	{"1.2.840.10008.5.1.4.1.1.481.", "RT object"},
	{"1.2.840.10008.5.1.4.1.1.66.4", "SEG"},
	{"1.2.840.10008.5.1.4.1.1.66.7", "SEG"},
	{"1.2.840.10008.5.1.4.1.1.66", "registration or fiducials"},
	{"1.2.840.10008.5.1.4.1.1.88.", "SR"},
	{"1.2.840.10008.5.1.4.1.1.104.", "encapsulated document"},
	{"1.2.840.10008.5.1.4.1.1.9.", "waveform"},
	{"1.2.840.10008.5.1.4.1.1.11.", "presentation state"},
	{"1.2.840.10008.5.1.4.1.1.30", "parametric map"},
}

// PassOver says what a file is that holds no image of a scan, or "" for one that does.
func (im *Image) PassOver() string {
	for _, p := range passedOver {
		if strings.HasPrefix(im.Class, p.prefix) {
			return p.what
		}
	}
	switch im.Modality {
	case "RTDOSE", "RTSTRUCT", "RTPLAN", "SEG", "SR", "PR", "KO", "REG", "DOC":
		return im.Modality
	}
	if im.Pixels.Tag == 0 {
		return "no image"
	}
	return ""
}

// oneFrame are the SOP classes of scans that hold one image a file, by UID (PS3.4 B.5). The
// enhanced ones hold more, and say of each where it lies.
var oneFrame = map[string]string{
	"1.2.840.10008.5.1.4.1.1.2":   "CT Image Storage",
	"1.2.840.10008.5.1.4.1.1.4":   "MR Image Storage",
	"1.2.840.10008.5.1.4.1.1.128": "Positron Emission Tomography Image Storage",
}

// modalities are what the SOP classes of scans say of their modality, by UID (PS3.4 B.5).
var modalities = map[string]string{
	"1.2.840.10008.5.1.4.1.1.2":     "CT",
	"1.2.840.10008.5.1.4.1.1.2.1":   "CT",
	"1.2.840.10008.5.1.4.1.1.2.2":   "CT",
	"1.2.840.10008.5.1.4.1.1.4":     "MR",
	"1.2.840.10008.5.1.4.1.1.4.1":   "MR",
	"1.2.840.10008.5.1.4.1.1.4.3":   "MR",
	"1.2.840.10008.5.1.4.1.1.4.4":   "MR",
	"1.2.840.10008.5.1.4.1.1.20":    "NM",
	"1.2.840.10008.5.1.4.1.1.128":   "PT",
	"1.2.840.10008.5.1.4.1.1.128.1": "PT",
	"1.2.840.10008.5.1.4.1.1.130":   "PT",
}

// checkFrames refuses a file that holds more or fewer frames than it describes.
func (im *Image) checkFrames() error {
	problem := ""
	switch class, single := oneFrame[im.Class]; {
	case single && im.Frames > 1 && len(im.perFrame) == 0:
		problem = fmt.Sprintf("claims %d frames (NumberOfFrames), but is of %s, which "+
			"holds one: where the others lie is not said", im.Frames, class)
	case len(im.perFrame) > 0 && len(im.perFrame) != im.Frames:
		problem = fmt.Sprintf("claims %d frames (NumberOfFrames), but describes %d", im.Frames, len(im.perFrame))
	default:
		return nil
	}
	return &volume.FormatError{Path: im.Path, Problem: problem}
}

// IsSEG reports whether objects of a SOP class are SEG: Segmentation Storage or Label Map
// Segmentation Storage.
func IsSEG(class string) bool { return class == ClassSEG || class == classLabelMapSEG }

const (
	ClassSEG         = "1.2.840.10008.5.1.4.1.1.66.4"
	classLabelMapSEG = "1.2.840.10008.5.1.4.1.1.66.7"
)

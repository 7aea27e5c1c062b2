// Package provenance is the note by which a label map says that this program made it: JSON with
// the key "program", a comment in the header of a NIfTI file, the AlgorithmParameters of a DICOM
// SEG object, or the StructureSetDescription of an RT structure set. Start at [Read] and
// [Extension]. What else the JSON says is the business of who writes it.
package provenance

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// What makes label maps, as their stamps name it.
const (
	Predict  = "voxsaw predict"
	Crossval = "voxsaw crossval"
)

// Learnt says how the weights that made a label map had learnt from its scan.
type Learnt string

// The ways of learning from a scan.
const (
	WithLabels    Learnt = "with its labels"
	WithoutLabels Learnt = "without labels"
)

// LearntFrom is how the weights that made a label map had learnt from its scan; "" where they had
// not, or the file does not say so.
func LearntFrom(path string) Learnt {
	text, _ := Read(path)
	var stamp struct {
		Learnt Learnt `json:"learnt_from_scan"`
	}
	if json.Unmarshal(text, &stamp) != nil || stamp.Learnt != WithLabels && stamp.Learnt != WithoutLabels {
		return ""
	}
	return stamp.Learnt
}

// ScanOf is the digest of the files of the scan that a label map says it is of,
// [dataset.Case.Digest]; "" where it does not say so.
func ScanOf(path string) string {
	text, _ := Read(path)
	var stamp struct {
		Digest string `json:"scan_sha256"`
	}
	if json.Unmarshal(text, &stamp) != nil {
		return ""
	}
	return stamp.Digest
}

// commentCode is NIFTI_ECODE_COMMENT: plain text.
const commentCode = 6

// Extension is a stamp as an extension of a NIfTI header.
func Extension(text string) nifti.Extension {
	return nifti.Extension{Code: commentCode, Data: []byte(text)}
}

// Read returns the stamp of a NIfTI file, a DICOM SEG object or an RT structure set; false where
// there is none, or where the file cannot be read.
func Read(path string) (text []byte, ok bool) { return first(texts(path)) }

// In is [Read] of a NIfTI file whose header has been read.
func In(h *nifti.Header) (text []byte, ok bool) { return first(comments(h)) }

func first(texts [][]byte) (text []byte, ok bool) {
	for _, text := range texts {
		if Is(text) {
			return text, true
		}
	}
	return nil, false
}

// Is says whether a text is a stamp.
func Is(text []byte) bool {
	var stamp struct {
		Program string `json:"program"`
	}
	return json.Unmarshal(text, &stamp) == nil && (stamp.Program == Predict || stamp.Program == Crossval)
}

// Among lists those of the files that have a stamp.
func Among(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		_, stamped := Read(path)
		return !stamped
	})
}

// texts are what a file says where a stamp may stand.
func texts(path string) (found [][]byte) {
	if !nifti.IsName(path) {
		if s, err := dicom.OpenSegmentation(path); err == nil {
			found = append(found, []byte(s.Parameters))
		} else if s, err := dicom.OpenStructureSet(path); err == nil {
			found = append(found, []byte(s.Description))
		}
		return found
	}
	h, err := nifti.ReadHeader(path)
	if err != nil {
		return nil
	}
	return comments(h)
}

func comments(h *nifti.Header) (found [][]byte) {
	for _, e := range h.Extensions {
		if e.Code == commentCode {
			found = append(found, bytes.TrimRight(e.Data, "\x00 "))
		}
	}
	return found
}

package predict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A provenance is what a label map says about how it was made: a comment in the header of a NIfTI
// file, the AlgorithmParameters of a SEG object. It is JSON.
type provenance struct {
	Program string `json:"program"`
	Version string `json:"version"`
	segment.Provenance
	Scan reading `json:"scan"`

	names map[uint16]string // of labels, for messages
}

// A reading is how scans were chosen and read.
type reading struct {
	Series string      `json:"series,omitempty"`
	Volume int         `json:"volume,omitempty"`
	Tilt   dicom.Tilt  `json:"tilt"`
	Gaps   dicom.Gaps  `json:"gaps"`
	Shear  nifti.Shear `json:"shear"`
}

// String is for a person.
func (r reading) String() string {
	text := fmt.Sprintf("tilt %v, gaps %v, shear %v", r.Tilt, r.Gaps, r.Shear)
	if r.Volume > 0 {
		text = fmt.Sprintf("volume %d, %s", r.Volume, text)
	}
	if r.Series != "" {
		text = fmt.Sprintf("series %s, %s", r.Series, text)
	}
	return text
}

const (
	programName = "voxsaw predict"
	// NIFTI_ECODE_COMMENT: plain text
	commentCode = 6
	// a SEG object's reader takes no longer texts
	mostParameters = 1000
)

func (b *Batch) provenance(p *segment.Predictor) provenance {
	o := b.options
	return provenance{
		Program: programName, Version: voxsaw.Version(), Provenance: p.Provenance(),
		Scan:  reading{Series: o.Find.Series, Volume: o.Find.Volume, Tilt: o.Read.Tilt, Gaps: o.Read.Gaps, Shear: o.Read.Shear},
		names: p.LabelNames(),
	}
}

// text is the provenance as files have it.
func (p provenance) text(most int) (string, error) {
	data, err := json.Marshal(p)
	if err == nil && len(data) > most {
		p.Checkpoints = nil // Model says the same, if not to people
		data, err = json.Marshal(p)
	}
	return string(data), err
}

// extension is the provenance as an extension of a NIfTI header.
func (p provenance) extension() ([]nifti.Extension, error) {
	text, err := p.text(1 << 20)
	return []nifti.Extension{{Code: commentCode, Data: []byte(text)}}, err
}

// readProvenance reads what a label map says about how it was made; false where it says nothing.
func readProvenance(path string) (p provenance, ok bool) {
	if isDICOM(path) {
		s, err := dicom.OpenSegmentation(path)
		return p, err == nil && json.Unmarshal([]byte(s.Parameters), &p) == nil && p.Program == programName
	}
	h, err := nifti.ReadHeader(path)
	if err != nil {
		return p, false
	}
	for _, e := range h.Extensions {
		var one provenance
		if e.Code == commentCode && json.Unmarshal(bytes.TrimRight(e.Data, "\x00 "), &one) == nil && one.Program == programName {
			return one, true
		}
	}
	return p, false
}

// differs says what is not alike in how two label maps were made; "" if nothing is.
func (p provenance) differs(o provenance) string {
	switch {
	case p.Model != o.Model:
		return fmt.Sprintf("was made by another model (%s, not %s)", p.model(), o.model())
	case p.Window != o.Window || p.Overlap != o.Overlap || p.Largest != o.Largest:
		return fmt.Sprintf("was made with other settings (window %s, overlap %v, largest component %v, not %s, %v, %v)", numbers.Extents(p.Window[:]), p.Overlap, p.Largest, numbers.Extents(o.Window[:]), o.Overlap, o.Largest)
	case !slices.Equal(p.LargestOf, o.LargestOf):
		return fmt.Sprintf("was made with other settings (largest component of %s, not of %s)", o.labels(p.LargestOf), o.labels(o.LargestOf))
	case p.Mirror != o.Mirror:
		return fmt.Sprintf("was made with other settings (mirror %q, not %q)", p.Mirror, o.Mirror)
	case p.Scan != o.Scan:
		return fmt.Sprintf("was made of a scan that was read in another way (%v, not %v)", p.Scan, o.Scan)
	}
	return ""
}

// labels names labels, or says that there are none.
func (p provenance) labels(list []string) string {
	if len(list) == 0 {
		return "no label"
	}
	var names []string
	for _, label := range list {
		first, _, _ := strings.Cut(label, "+") // merged labels have one name
		name := label
		if number, err := strconv.ParseUint(first, 10, 16); err == nil && p.names[uint16(number)] != "" {
			name = p.names[uint16(number)]
		}
		if name == label {
			name = "label " + label
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// model names a model for a person.
func (p provenance) model() string {
	if len(p.Checkpoints) == 1 {
		return fmt.Sprintf("weights %s of step %d", p.Checkpoints[0].Weights, p.Checkpoints[0].Step)
	}
	return "model " + p.Model
}

// checkOthers refuses to take label maps that are there for those of this predictor, unless they
// say that they are.
func (b *Batch) checkOthers(own provenance) error {
	for _, target := range b.targets {
		if err := b.checkOther(target, own); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) checkOther(target string, own provenance) error {
	if _, err := os.Stat(target); err != nil || b.options.Force {
		return nil
	}
	const hint = "choose another --out, or --force writes it again"
	made, ok := readProvenance(target)
	if !ok {
		return refuse(hint, "%s is there already, and does not say what made it", target)
	}
	if difference := made.differs(own); difference != "" {
		return refuse(hint, "%s is there already, and %s", target, difference)
	}
	return nil
}

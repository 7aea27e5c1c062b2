package predict

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// An origin is what a label map says about how it was made: a comment in the header of a NIfTI
// file, the AlgorithmParameters of a SEG object, the StructureSetDescription of an RT structure
// set. It is JSON.
type origin struct {
	Program string `json:"program"`
	Version string `json:"version"`
	segment.Provenance
	Scan reading `json:"scan"`
	// Digest is that of the scan's files, [dataset.Case.Digest]; "" in files of versions that did
	// not note it.
	Digest string `json:"scan_sha256,omitempty"`
	// Learnt says that the weights have learnt from this scan, and how; "" where they have not, as
	// far as the checkpoints tell.
	Learnt provenance.Learnt `json:"learnt_from_scan,omitempty"`
	// MapsOn are the voxels of probabilities and logits, where these are not the scan's.
	MapsOn string `json:"maps_on,omitempty"`
	// Agreement is [segment.Predictor.Agreement], where it was asked for: empty without structures.
	Agreement map[uint16]float64 `json:"agreement,omitzero"`
	// Elsewhere says that Agreement was measured and did not fit: the table has it.
	Elsewhere bool `json:"agreement_in_table,omitempty"`
	// Escaped says that Scan.Series has %XX and + as in the query of a URL: see [origin.inDICOM].
	Escaped bool `json:"escaped,omitempty"`

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
	// neither a SEG object's reader nor the description of a structure set takes longer texts
	mostParameters = 1000
	// what MapsOn says of maps on the prepared voxels
	mapsOnPrepared = "prepared"
)

// origin is what the label maps of this batch say, but for the digest of the scan.
func (b *Batch) origin(p Model) origin {
	o := b.options
	return origin{
		Program: provenance.Predict, Version: voxsaw.Version(), Provenance: p.Provenance(),
		Scan: reading{Series: o.Find.Series, Volume: o.Find.Volume, Tilt: o.Read.Tilt, Gaps: o.Read.Gaps,
			Shear: o.Read.Shear},
		names: p.LabelNames(),
	}
}

// text is the provenance as files have it. What does not fit is left out, because a text that is
// cut off is no JSON, and would no longer say that this program made the labels.
func (p origin) text(most int) (string, error) {
	data, err := json.Marshal(p)
	if err == nil && len(data) > most {
		p.Checkpoints = nil // Model says the same, if not to people
		data, err = json.Marshal(p)
	}
	if err == nil && len(data) > most {
		p.Elsewhere, p.Agreement = p.Agreement != nil, nil
		data, err = json.Marshal(p)
	}
	if err == nil && len(data) > most {
		// a second run is then asked to write the file again
		data, err = json.Marshal(origin{Program: p.Program, Version: p.Version, Digest: p.Digest, Learnt: p.Learnt,
			Elsewhere: p.Elsewhere, Provenance: segment.Provenance{Model: p.Model}})
	}
	return string(data), err
}

// inDICOM is [origin.text] for a DICOM object, whose texts have no backslashes, and here no
// character beyond ASCII: JSON would be none without its escapes.
func (p origin) inDICOM() (string, error) {
	if p.Escaped = strings.ContainsFunc(p.Scan.Series, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`\"&<>`, r)
	}); p.Escaped {
		p.Scan.Series = url.QueryEscape(p.Scan.Series)
	}
	return p.text(mostParameters)
}

// ofMaps is the provenance of the probabilities and logits beside a label map.
func (p origin) ofMaps(o segment.MapOptions) origin {
	if o.Prepared {
		p.MapsOn = mapsOnPrepared
	}
	return p
}

// extension is the provenance as an extension of a NIfTI header.
func (p origin) extension() ([]nifti.Extension, error) {
	text, err := p.text(1 << 20)
	return []nifti.Extension{provenance.Extension(text)}, err
}

// Extension is what a label map of a model says of how it was made, where its scan is a prepared
// case and was not read anew.
func Extension(p Model) ([]nifti.Extension, error) { return (&Batch{}).origin(p).extension() }

// Parameters is what [Extension] says, for a DICOM object.
func Parameters(p Model) (string, error) { return (&Batch{}).origin(p).inDICOM() }

// readProvenance reads what a file says about how it was made; false where it says nothing.
func readProvenance(path string) (p origin, ok bool) {
	text, ok := provenance.Read(path)
	if !ok || json.Unmarshal(text, &p) != nil || p.Program != provenance.Predict {
		return p, false
	}
	if p.Escaped {
		var err error
		p.Scan.Series, err = url.QueryUnescape(p.Scan.Series)
		p.Escaped, ok = false, err == nil
	}
	return p, ok
}

// differs says what is not alike in how two label maps were made; "" if nothing is.
func (p origin) differs(o origin) string {
	switch {
	case p.Model != o.Model:
		return fmt.Sprintf("was made by another model (%s, not %s)", p.model(), o.model())
	case p.Window != o.Window || p.Overlap != o.Overlap || p.Largest != o.Largest:
		return fmt.Sprintf("was made with other settings (window %s, overlap %v, largest component %v, not %s, %v, %v)",
			numbers.Extents(p.Window[:]), p.Overlap, p.Largest, numbers.Extents(o.Window[:]), o.Overlap, o.Largest)
	case !slices.Equal(p.LargestOf, o.LargestOf):
		return fmt.Sprintf("was made with other settings (largest component of %s, not of %s)", o.labels(p.LargestOf),
			o.labels(o.LargestOf))
	case p.Mirror != o.Mirror:
		return fmt.Sprintf("was made with other settings (mirror %q, not %q)", p.Mirror, o.Mirror)
	case p.Scan != o.Scan:
		return fmt.Sprintf("was made of a scan that was read in another way (%v, not %v)", p.Scan, o.Scan)
	case p.MapsOn != o.MapsOn:
		return fmt.Sprintf("lies on other voxels (%s, not %s)", p.mapVoxels(), o.mapVoxels())
	}
	return ""
}

func (p origin) mapVoxels() string { return cmp.Or(p.MapsOn, "the scan's own") }

// labels names labels, or says that there are none.
func (p origin) labels(list []string) string {
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
func (p origin) model() string {
	if len(p.Checkpoints) == 1 {
		return fmt.Sprintf("weights %s of step %d", p.Checkpoints[0].Weights, p.Checkpoints[0].Step)
	}
	return "model " + p.Model
}

// checkOthers refuses to take files that are there for those of this predictor and these scans,
// unless they say that they are.
func (b *Batch) checkOthers(ctx context.Context, own origin, watch Observer) error {
	for n := range b.targets {
		if !b.mine(n) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return &StoppedError{0, b.total(), err}
		}
		if err := b.checkOther(n, own, watch); err != nil {
			return err
		}
	}
	return nil
}

// checkOther looks at the files of scan n.
func (b *Batch) checkOther(n int, own origin, watch Observer) error {
	const hint = "choose another --out, or --force writes it again"
	if b.options.Force {
		return nil
	}
	target := b.targets[n]
	for _, path := range b.files(target) {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if filepath.Ext(path) == ".dcm" && dicom.IsSegmentation(path) != (b.options.Format == DICOMSEG) {
			return refuse(hint, "%s is there already, and is no %s", path, b.options.Format)
		}
		made, ok := readProvenance(path)
		if !ok {
			return refuse(hint, "%s is there already, and does not say what made it", path)
		}
		expected := own
		if path != target {
			expected = own.ofMaps(b.options.Maps)
		}
		difference := made.differs(expected)
		if difference == "" && device.Unlike(made.Device, own.Device) {
			difference = fmt.Sprintf("was computed with other precision (%s, not %s)", made.Device, own.Device)
		}
		if difference == "" {
			watch.Comparing(b.scans[n].ID)
			difference = b.ofAnotherScan(made, n)
		}
		if difference != "" {
			return refuse(hint, "%s is there already, and %s", path, difference)
		}
	}
	return nil
}

// ofAnotherScan says why a file that is there is not known to be of scan n; "" if it is. A scan
// that cannot be read is no reason: segmenting it says what is wrong.
func (b *Batch) ofAnotherScan(made origin, n int) string {
	if made.Digest == "" {
		return "does not say of which scan it is"
	}
	if digest, err := b.digest(n); err != nil || made.Digest == digest {
		return ""
	}
	return fmt.Sprintf("was made of another scan than %s", b.scans[n].Image)
}

// digest is that of scan n, which is read once.
func (b *Batch) digest(n int) (string, error) {
	if b.digests[n] == "" {
		digest, err := b.scans[n].Digest()
		if err != nil {
			return "", err
		}
		b.digests[n] = digest
	}
	return b.digests[n], nil
}

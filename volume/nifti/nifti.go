// Package nifti reads and writes NIfTI-1 and NIfTI-2 images: one file or a pair of header and
// image, compressed or not, in either byte order.
//
// Start at [Read], [ReadLabels], [Write] and [WriteLabels]. [ReadHeader] says what a file holds
// without reading its voxels. The structure of the headers is gonii's; the voxels are read from the
// bytes here, in pieces, because gonii keeps several copies of them as float64 and trusts what
// headers say. A compressed file is decompressed by one core, while others convert its voxels.
//
// What it leaves out: colours, complex numbers, 128-bit floats, and the older Analyze format. They
// are refused by name.
package nifti

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// Options choose what [ReadWith] reads. The zero value is right for a file with one volume.
type Options struct {
	// Volume chooses one of several volumes of a file (time points, echoes), 1 for the first. 0
	// refuses files that hold more than one.
	Volume int
	Shear  Shear // "" is ShearKeep
	// MaxBytes bounds the memory for the voxels. 0 means DefaultMaxBytes.
	MaxBytes int64
	// Into is memory for the voxels of a volume, which is used where they are int16 and fit.
	Into []int16
	// Note is told what is odd about the header ([Header.Problems]), and what is done about it. It
	// may be nil.
	Note func(string)
}

// Shear says what becomes of axes that are not at right angles.
type Shear string

// What can be done about shear.
const (
	ShearKeep Shear = "keep" // the voxels and the affine stay as they are
	// resample onto the nearest grid without shear: images linearly, with the smallest value
	// around them, labels to the nearest
	ShearResample Shear = "resample"
	ShearError    Shear = "error" // the file is refused
)

// DefaultMaxBytes of voxels is a scan of 512 x 512 x 16384 voxels in int16: larger ones are taken
// for damaged headers or gzip bombs.
const DefaultMaxBytes = 8 << 30

// Read reads the volume that a file holds. Path is the .nii or .nii.gz file, or either half of a
// .hdr/.img pair.
//
// Voxels are int16 where the file holds whole numbers (after scaling) that fit, and float32
// everywhere else. The affine is the sform's if it has a code, else the qform's, else voxel sizes
// about the centre with x flipped, as nibabel's. Errors are [volume.FormatError] for damaged files,
// [volume.UnsupportedError] for those that hold something else than a volume, and file system
// errors.
func Read(path string) (*volume.Volume, error) { return ReadWith(path, Options{}) }

// ReadWith is [Read] with options.
func ReadWith(path string, o Options) (*volume.Volume, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	return h.Read(o)
}

// Read reads a volume of the file whose header this is, as [ReadWith] does.
func (h *Header) Read(o Options) (*volume.Volume, error) {
	index, err := h.prepare(o)
	if err != nil {
		return nil, err
	}
	v, err := h.read(index, o.MaxBytes, o.Into)
	if err != nil {
		return nil, err
	}
	o.noteBehind(h)
	return h.straightened(v, o.Shear)
}

// noteBehind tells what lies behind the voxels of a file that has been read.
func (o Options) noteBehind(h *Header) {
	if problem := h.Behind(); problem != "" && o.Note != nil {
		o.Note(problem)
	}
}

// ReadAll reads all volumes of a file, however many there are, as [ReadWith] reads each of them:
// voxels are int16 if those of all volumes can be. MaxBytes bounds them together.
func ReadAll(path string, o Options) ([]*volume.Volume, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	return h.ReadAll(o)
}

// ReadAll reads all volumes of the file whose header this is, as [ReadAll] does.
func (h *Header) ReadAll(o Options) ([]*volume.Volume, error) {
	o.Volume = 1
	if _, err := h.prepare(o); err != nil {
		return nil, err
	}
	tall := *h // all volumes stacked up, to be read in one go
	tall.Shape[2], tall.Volumes = h.Shape[2]*h.Volumes, 1
	all, err := tall.read(0, o.MaxBytes, nil)
	if err != nil {
		return nil, err
	}
	o.noteBehind(h)
	volumes := make([]*volume.Volume, h.Volumes)
	for n := range volumes {
		v := &volume.Volume{Grid: h.Grid, Pixdim: h.pixdim}
		if from, to := n*h.Len(), (n+1)*h.Len(); all.Int16 != nil {
			v.Int16 = all.Int16[from:to:to]
		} else {
			v.Float32 = all.Float32[from:to:to]
		}
		if volumes[n], err = h.straightened(v, o.Shear); err != nil {
			return nil, err
		}
	}
	return volumes, nil
}

// read reads volume number index.
func (h *Header) read(index int, most int64, into []int16) (v *volume.Volume, err error) {
	v = &volume.Volume{Grid: h.Grid, Pixdim: h.pixdim}
	err = errRange
	if h.wholeNumbers() {
		v.Int16, err = readVoxels(h, index, most, into)
	}
	if errors.Is(err, errRange) {
		v.Int16 = nil
		if h.Len() > 16<<20 {
			debug.FreeOSMemory() // otherwise both would be in memory
		}
		v.Float32, err = readVoxels[float32](h, index, most, nil)
	}
	return v, err
}

// straightened returns a volume of the file without shear, if that is asked for.
func (h *Header) straightened(v *volume.Volume, o Shear) (*volume.Volume, error) {
	if o != ShearResample || !h.sheared() {
		return v, nil
	}
	g, err := h.Grid.Straightened()
	if err != nil {
		return nil, &volume.FormatError{Path: h.Path, Problem: "cannot be straightened", Err: err}
	}
	return v.ResampleTo(g, volume.Linear, v.Statistics().Min)
}

// prepare reads the header and checks what the options say about it. Index is the volume to read.
func prepare(path string, o Options) (h *Header, index int, err error) {
	if h, err = ReadHeader(path); err != nil {
		return nil, 0, err
	}
	index, err = h.prepare(o)
	return h, index, err
}

// prepare checks what the options say about the file. Index is the volume to read.
func (h *Header) prepare(o Options) (index int, err error) {
	if !slices.Contains([]Shear{"", ShearKeep, ShearResample, ShearError}, o.Shear) {
		return 0, fmt.Errorf("shear %q: want keep, resample or error", o.Shear)
	}
	if index, err = h.choose(o.Volume); err != nil {
		return 0, err
	}
	note := o.Note
	if note == nil {
		note = func(string) {}
	}
	for _, problem := range h.Problems {
		if problem != h.shear() {
			note(problem)
		}
	}
	switch {
	case !h.sheared():
	case o.Shear == ShearError:
		return 0, &volume.UnsupportedError{Path: h.Path, Problem: h.shear() +
			": --shear resample straightens it, --shear keep takes it as it is"}
	case o.Shear == ShearResample:
		note(h.shear() + ": resampled onto a grid without shear")
	default:
		note(h.shear() + ": taken as it is, --shear resample straightens it")
	}
	return index, nil
}

// ReadLabels reads a file of labels: whole numbers from 0 to 65535, whatever the type they are
// stored in. A file with other values is refused, and the error shows some of them.
func ReadLabels(path string) (*volume.LabelMap, error) { return ReadLabelsWith(path, Options{}) }

// ReadLabelsWith is [ReadLabels] with options.
func ReadLabelsWith(path string, o Options) (*volume.LabelMap, error) {
	h, index, err := prepare(path, o)
	if err != nil {
		if h, other := ReadHeader(path); other == nil && h.Volumes > 1 && o.Volume == 0 {
			return nil, &volume.UnsupportedError{Path: path,
				Problem: fmt.Sprintf("holds %d volumes (shape %v), labels must be one: --volume chooses a scan's "+
					"alone; volumes of one label each are to be put together, numbered 1, 2, ...", h.Volumes,
					numbers.Extents(h.Dims))}
		}
		return nil, err
	}
	l := &volume.LabelMap{Grid: h.Grid, Names: h.LabelNames()}
	l.Labels, err = readVoxels[uint16](h, index, o.MaxBytes, nil)
	if err == nil {
		o.noteBehind(h)
	}
	switch {
	case err == nil && o.Shear == ShearResample && h.sheared():
		g, err := h.Grid.Straightened()
		if err != nil {
			return nil, &volume.FormatError{Path: path, Problem: "cannot be straightened", Err: err}
		}
		return l.ResampleTo(g)
	case err == nil:
		return l, nil
	case !errors.Is(err, errRange):
		return nil, err
	}
	// Rare: read again, to show what was found.
	values, err := readVoxels[float32](h, index, o.MaxBytes, nil)
	if err != nil {
		return nil, err
	}
	return nil, &volume.FormatError{Path: path, Problem: "is not a label map: it holds " + oddValues(values) +
		"; labels are whole numbers from 0 to 65535"}
}

// oddValues lists the first few different values that are no labels.
func oddValues(values []float32) string {
	var seen []float32
	var text []string
	for _, x := range values {
		if _, ok := volume.ToLabel(float64(x)); ok || slices.Contains(seen, x) ||
			(x != x && slices.Contains(text, "NaN")) {
			continue
		}
		if len(text) == 5 {
			text = append(text, "...")
			break
		}
		seen = append(seen, x)
		text = append(text, fmt.Sprint(x))
	}
	return strings.Join(text, ", ")
}

// Package format is the list of the formats in which files hold scans and labels: NIfTI, NRRD,
// MetaImage, DICOM with its SEG objects and RT structure sets, and what other modules add.
//
// Start at [Format], which is all that a format has to say, and at [Register]. [ReadHeader],
// [Read], [ReadLabels] and the rest read a file of whatever format it is: by its name, or where no
// format has that name, by what is in it. Package formattest holds a format to what the rest of the
// program relies on. [Object] is labels in DICOM, which lie on a series.
//
// It leaves out which of the files and series of a folder are scans: see package dataset.
package format

import (
	"fmt"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/itk"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A Format reads the files of one format.
type Format struct {
	Name string // in an error or a table: NIfTI
	// Stem is the path without the extension that files of the format have; false for others. It
	// looks at the name alone. It is nil where files have no names of their own; then Match is
	// there.
	Stem func(path string) (stem string, ok bool)
	// Match says whether a file or folder whose name is that of no format is one of this format. It
	// may look into it.
	Match func(path string) bool
	// Header reads what a file says about itself, without its voxels.
	Header func(path string) (*Header, error)
	// Files lists all files that the image lies in, the given one first, whether they can be read
	// or not. It may be nil: there is no other.
	Files func(path string) []string
	// Read reads a volume of the file whose header this is.
	Read func(h *Header, o Options) (*volume.Volume, error)
	// Labels reads a volume of labels, which must be whole numbers: see [volume.ToLabel].
	Labels func(path string, o Options) (*volume.LabelMap, error)
	// ReadAll reads all volumes of a file at once. It may be nil: they are read one by one.
	ReadAll func(h *Header, o Options) ([]*volume.Volume, error)
	// MayBeLabels says whether a file holds labels by its values, as [nifti.VolumeMayBeLabels]
	// does, without reading more of it than that needs. It may be nil: the volume is read.
	MayBeLabels func(path string, o Options) (bool, error)
}

// Options say how a file is read. All but Volume and Note are hints, which a format may pass over.
type Options struct {
	// Volume chooses one of several volumes of a file (time points, echoes), 1 for the first. 0
	// refuses files that hold more than one.
	Volume  int
	Shear   nifti.Shear   // of NIfTI files whose axes are not at right angles
	Tilt    dicom.Tilt    // of DICOM slices that a tilted gantry took
	Gaps    dicom.Gaps    // of DICOM slices at uneven distances
	Overlap dicom.Overlap // of structures that share voxels
	SUV     bool          // make SUV of the values of a PET in DICOM
	// Into is memory for the voxels of a volume, which is used where they are int16 and fit.
	Into []int16
	// Note is told what is odd about the file, and what is done about it. It may be nil.
	Note func(string)
}

func (o Options) nifti() nifti.Options {
	return nifti.Options{Volume: o.Volume, Shear: o.Shear, Into: o.Into, Note: o.Note}
}

// A Header is what a file says about itself.
type Header struct {
	volume.Grid // of one volume
	Path        string
	Volumes     int               // how many the file holds
	VoxelBytes  int               // that a voxel takes in memory: 2 or 4
	Dims        []int             // all extents, those of time and the like included
	Kind        string            // the format and its version
	Datatype    string            // as stored: int16, float32, ...
	Problems    []string          // what is odd, and what is made of it
	Names       map[uint16]string // of labels, where the file has them
	Segments    []itk.Segment     // of 3D Slicer, where they lie in several layers
	Own         any               // the header as the package of the format has it

	format *Format
}

var (
	mutex   sync.RWMutex
	formats []*Format
)

// Register adds a format to the list. A format whose names are those of an earlier one does not
// replace it: the first that knows a name reads the file. It panics where a function is missing
// that must be there.
func Register(f Format) {
	if f.Name == "" || f.Stem == nil && f.Match == nil || f.Header == nil || f.Read == nil || f.Labels == nil {
		panic(fmt.Sprintf("format %q: Name, Stem or Match, Header, Read and Labels must be there", f.Name))
	}
	mutex.Lock()
	defer mutex.Unlock()
	formats = append(formats, &f)
}

// All lists the formats.
func All() []Format {
	mutex.RLock()
	defer mutex.RUnlock()
	list := make([]Format, len(formats))
	for n, f := range formats {
		list[n] = *f
	}
	return list
}

// of is the format that a path has by its name; nil for none.
func of(path string) (f *Format, stem string) {
	mutex.RLock()
	defer mutex.RUnlock()
	for _, f := range formats {
		if f.Stem != nil {
			if stem, ok := f.Stem(path); ok {
				return f, stem
			}
		}
	}
	return nil, ""
}

// at is the format that reads a path: the one that it has by its name, else the one that it is
// by what is in it, else NIfTI, as those are that have a name of their own.
func at(path string) *Format {
	if f, _ := of(path); f != nil {
		return f
	}
	mutex.RLock()
	defer mutex.RUnlock()
	for _, f := range formats {
		if f.Match != nil && f.Match(path) {
			return f
		}
	}
	return &niftiFormat
}

// Stem is the path of a file without its extension; false where it has the name of no format.
func Stem(path string) (stem string, ok bool) {
	f, stem := of(path)
	return stem, f != nil
}

// IsName says whether a file has the name of a format.
func IsName(path string) bool {
	_, ok := Stem(path)
	return ok
}

// Name is the name of the format that a file has by its name; "" for none.
func Name(path string) string {
	if f, _ := of(path); f != nil {
		return f.Name
	}
	return ""
}

// ReadHeader reads what a file says about itself. What is of no format is read as NIfTI.
func ReadHeader(path string) (*Header, error) {
	f := at(path)
	h, err := f.Header(path)
	if err != nil {
		return nil, err
	}
	h.Path, h.format = path, f
	return h, nil
}

// Files lists all files that an image lies in whose format has names of its own, the given one
// first; of any other, the path.
func Files(path string) []string {
	if f, _ := of(path); f != nil && f.Files != nil {
		return f.Files(path)
	}
	return []string{path}
}

// Format is the name of the format that the file is read by.
func (h *Header) Format() string { return h.format.Name }

// Read reads a volume of the file whose header this is.
func (h *Header) Read(o Options) (*volume.Volume, error) { return h.format.Read(h, o) }

// ReadAll reads all volumes of the file whose header this is.
func (h *Header) ReadAll(o Options) ([]*volume.Volume, error) {
	if h.format.ReadAll != nil {
		return h.format.ReadAll(h, o)
	}
	volumes := make([]*volume.Volume, h.Volumes)
	for n := range volumes {
		one := o
		one.Volume, one.Into = n+1, nil
		var err error
		if volumes[n], err = h.Read(one); err != nil {
			return nil, err
		}
	}
	return volumes, nil
}

// Read reads a volume of a file.
func Read(path string, o Options) (*volume.Volume, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	return h.Read(o)
}

// ReadAll reads all volumes of a file.
func ReadAll(path string, o Options) ([]*volume.Volume, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	return h.ReadAll(o)
}

// ReadLabels reads a volume of labels.
func ReadLabels(path string, o Options) (*volume.LabelMap, error) {
	return at(path).Labels(path, o)
}

// MayBeLabels says whether a file holds labels by its values; see [nifti.MayBeLabels].
func MayBeLabels(path string, o Options) (bool, error) {
	if f := at(path); f.MayBeLabels != nil {
		return f.MayBeLabels(path, o)
	}
	v, err := Read(path, o)
	if err != nil {
		return false, err
	}
	return nifti.VolumeMayBeLabels(v), nil
}

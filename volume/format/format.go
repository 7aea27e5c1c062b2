// Package format is the list of the formats in which files hold scans and labels: NIfTI, NRRD and
// MetaImage, and what other modules add.
//
// Start at [Format], which is all that a format has to say, and at [Register]. [ReadHeader],
// [Read], [ReadLabels] and the rest read a file of whatever format its name has. Package
// formattest holds a format to what the rest of the program relies on.
//
// It leaves out DICOM, where a scan is many files: see package dicom.
package format

import (
	"fmt"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/itk"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A Format reads the files of one format.
type Format struct {
	Name string // in an error or a table: NIfTI
	// Stem is the path without the extension that files of the format have; false for others. It
	// looks at the name alone.
	Stem func(path string) (stem string, ok bool)
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

// Options say how a file is read. Shear and Into are hints, which a format may pass over.
type Options = nifti.Options

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
	if f.Name == "" || f.Stem == nil || f.Header == nil || f.Read == nil || f.Labels == nil {
		panic(fmt.Sprintf("format %q: Name, Stem, Header, Read and Labels must be there", f.Name))
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
		if stem, ok := f.Stem(path); ok {
			return f, stem
		}
	}
	return nil, ""
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

// ReadHeader reads what a file says about itself. A file whose name is that of no format is read
// as NIfTI, as those are that have a name of their own.
func ReadHeader(path string) (*Header, error) {
	f, _ := of(path)
	if f == nil {
		f = &niftiFormat
	}
	h, err := f.Header(path)
	if err != nil {
		return nil, err
	}
	h.Path, h.format = path, f
	return h, nil
}

// Files lists all files that an image lies in, the given one first.
func Files(path string) []string {
	if f, _ := of(path); f != nil && f.Files != nil {
		return f.Files(path)
	}
	return []string{path}
}

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
	f, _ := of(path)
	if f == nil {
		f = &niftiFormat
	}
	return f.Labels(path, o)
}

// MayBeLabels says whether a file holds labels by its values; see [nifti.MayBeLabels].
func MayBeLabels(path string, o Options) (bool, error) {
	f, _ := of(path)
	if f == nil {
		f = &niftiFormat
	}
	if f.MayBeLabels != nil {
		return f.MayBeLabels(path, o)
	}
	v, err := Read(path, o)
	if err != nil {
		return false, err
	}
	return nifti.VolumeMayBeLabels(v), nil
}

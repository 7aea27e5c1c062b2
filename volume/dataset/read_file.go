package dataset

import (
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/itk"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file reads files of voxels by their format: NIfTI, NRRD and MetaImage.

// isVoxels says whether a file has the name of one of the formats.
func isVoxels(path string) bool { return nifti.IsName(path) || itk.IsName(path) }

// stemOf removes the extension of such a file; false for others.
func stemOf(path string) (stem string, ok bool) {
	if stem, ok = nifti.Stem(path); ok {
		return stem, true
	}
	return itk.Stem(path)
}

// fileHeader is what a file says about itself.
type fileHeader struct {
	volume.Grid
	volumes, voxelBytes int
	dims                []int
	kind, datatype      string
	problems            []string
	names               map[uint16]string // of labels, where the file has them
	segments            []itk.Segment     // of 3D Slicer, where they lie in several layers
	nifti               *nifti.Header     // nil: of another format
}

func readFileHeader(path string) (fileHeader, error) {
	if itk.IsName(path) {
		h, err := itk.ReadHeader(path)
		if err != nil {
			return fileHeader{}, err
		}
		head := fileHeader{
			Grid: h.Grid, volumes: h.Volumes, voxelBytes: h.VoxelBytes(), dims: h.Dims,
			kind: h.Format, datatype: h.Datatype, problems: h.Problems, names: h.Names,
		}
		if h.Volumes > 1 {
			head.segments = h.Segments
		}
		return head, nil
	}
	h, err := nifti.ReadHeader(path)
	if err != nil {
		return fileHeader{}, err
	}
	return fileHeader{
		Grid: h.Grid, volumes: h.Volumes, voxelBytes: h.VoxelBytes(), dims: h.Dims,
		kind: map[int]string{1: "NIfTI-1", 2: "NIfTI-2"}[h.Version], datatype: h.Datatype, problems: h.Problems,
		names: h.LabelNames(), nifti: h,
	}, nil
}

// read reads a volume of the file at the path, whose header this is.
func (h fileHeader) read(path string, o nifti.Options) (*volume.Volume, error) {
	if h.nifti != nil {
		return h.nifti.Read(o)
	}
	return readFile(path, o)
}

// readAll reads all volumes of the file at the path, whose header this is.
func (h fileHeader) readAll(path string, o nifti.Options) ([]*volume.Volume, error) {
	if h.nifti != nil {
		return h.nifti.ReadAll(o)
	}
	return readFileAll(path, o)
}

// readFile reads a volume. What the options say about shear is NIfTI's alone.
func readFile(path string, o nifti.Options) (*volume.Volume, error) {
	if itk.IsName(path) {
		if h, err := itk.ReadHeader(path); err == nil && o.Note != nil {
			for _, problem := range h.Problems {
				o.Note(problem)
			}
		}
		return itk.Read(path, o.Volume)
	}
	return nifti.ReadWith(path, o)
}

// readLabelFile reads the labels that a file of voxels holds, by the one rule of all that reads
// labels: one volume of whole numbers (see [volume.ToLabel]), or several, each a label or a layer
// of segments. Labels of several volumes that have no name in the file take those given. Notes say
// what was made of the volumes; what is odd about the file goes to note, which may be nil.
func readLabelFile(path string, o ReadOptions, names map[uint16]string, note func(string)) (
	l *volume.LabelMap, notes []string, err error) {
	h, err := readFileHeader(path)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(h.segments) > 0:
		return readSegments(path, h, o, note)
	case h.volumes > 1:
		return readOneHot(path, o, names, note)
	}
	l, err = readFileLabels(path, o.nifti(0, note))
	return l, nil, err
}

// readFileLabels reads one volume of labels.
func readFileLabels(path string, o nifti.Options) (*volume.LabelMap, error) {
	if itk.IsName(path) {
		return itk.ReadLabels(path, o.Volume)
	}
	return nifti.ReadLabelsWith(path, o)
}

// readFileAll reads all volumes of a file.
func readFileAll(path string, o nifti.Options) ([]*volume.Volume, error) {
	if !itk.IsName(path) {
		return nifti.ReadAll(path, o)
	}
	h, err := itk.ReadHeader(path)
	if err != nil {
		return nil, err
	}
	volumes := make([]*volume.Volume, h.Volumes)
	for n := range volumes {
		if volumes[n], err = itk.Read(path, n+1); err != nil {
			return nil, err
		}
	}
	return volumes, nil
}

// mayBeLabels says whether a file holds labels by its values; see [nifti.MayBeLabels].
func mayBeLabels(path string, o nifti.Options) (bool, error) {
	if !itk.IsName(path) {
		return nifti.MayBeLabels(path, o)
	}
	v, err := itk.Read(path, o.Volume)
	if err != nil {
		return false, err
	}
	return nifti.VolumeMayBeLabels(v), nil
}

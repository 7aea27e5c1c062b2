package dataset

import (
	"fmt"
	"os"
	"path/filepath"

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

// filesIn lists the files of voxels in a folder; nil for a file.
func filesIn(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if stat, wrong := os.Stat(folder); wrong == nil && !stat.IsDir() {
		return nil, nil
	}
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); isVoxels(path) {
			files = append(files, path)
		}
	}
	if err == nil && files == nil {
		err = fmt.Errorf("pairs: %s holds no masks", folder)
	}
	return files, err
}

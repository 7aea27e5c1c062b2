package format

import (
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/itk"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: the formats that are read here.

var niftiFormat = Format{
	Name: "NIfTI",
	Stem: nifti.Stem,
	Header: func(path string) (*Header, error) {
		h, err := nifti.ReadHeader(path)
		if err != nil {
			return nil, err
		}
		return &Header{
			Grid: h.Grid, Volumes: h.Volumes, VoxelBytes: h.VoxelBytes(), Dims: h.Dims,
			Kind: map[int]string{1: "NIfTI-1", 2: "NIfTI-2"}[h.Version], Datatype: h.Datatype, Problems: h.Problems,
			Names: h.LabelNames(), Own: h,
		}, nil
	},
	Read:    func(h *Header, o Options) (*volume.Volume, error) { return h.Own.(*nifti.Header).Read(o.nifti()) },
	ReadAll: func(h *Header, o Options) ([]*volume.Volume, error) { return h.Own.(*nifti.Header).ReadAll(o.nifti()) },
	Files:   nifti.Files,
	Labels: func(path string, o Options) (*volume.LabelMap, error) {
		return nifti.ReadLabelsWith(path, o.nifti())
	},
	MayBeLabels: func(path string, o Options) (bool, error) { return nifti.MayBeLabels(path, o.nifti()) },
}

func init() {
	Register(niftiFormat)
	Register(itkFormat("NRRD", ".nrrd", ".nhdr"))
	Register(itkFormat("MetaImage", ".mha", ".mhd"))
	registerDICOM()
}

func itkFormat(name string, extensions ...string) Format {
	return Format{
		Name: name,
		Stem: func(path string) (string, bool) {
			stem, ok := itk.Stem(path)
			return stem, ok && slices.Contains(extensions, strings.ToLower(path[len(stem):]))
		},
		Header: itkHeader,
		Files: func(path string) []string {
			if h, err := itk.ReadHeader(path); err == nil {
				return h.Files()
			}
			return []string{path}
		},
		Read:   readITK,
		Labels: func(path string, o Options) (*volume.LabelMap, error) { return itk.ReadLabels(path, o.Volume) },
	}
}

func itkHeader(path string) (*Header, error) {
	h, err := itk.ReadHeader(path)
	if err != nil {
		return nil, err
	}
	head := &Header{
		Grid: h.Grid, Volumes: h.Volumes, VoxelBytes: h.VoxelBytes(), Dims: h.Dims,
		Kind: h.Format, Datatype: h.Datatype, Problems: h.Problems, Names: h.Names, Own: h,
	}
	if h.Volumes > 1 {
		head.Segments = h.Segments
	}
	return head, nil
}

// readITK reads a volume. What the options say about shear is NIfTI's alone.
func readITK(h *Header, o Options) (*volume.Volume, error) {
	if o.Note != nil {
		for _, problem := range h.Problems {
			o.Note(problem)
		}
	}
	return itk.Read(h.Path, o.Volume)
}

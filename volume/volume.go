// Package volume holds what a scan is to the rest of the program: voxels on a grid, and where that grid lies in the patient.
//
// Start at [Volume] and [LabelMap]. Decoders (volume/nifti, volume/dicom) make them, [Preparation] turns them into what a network sees and
// back, and a [Cache] keeps prepared cases on disk so that crops can be read without loading whole scans. The package knows no file format but
// the cache's own, and nothing about networks.
package volume

// A Grid is a lattice of voxels in the patient: Shape voxels along the axes i, j, k, and the affine that takes voxel indices to millimetres.
type Grid struct {
	Shape  [3]int
	Affine Affine
}

// Volume is a scan. Exactly one of Int16 and Float32 holds the voxels; i runs fastest: voxel (i, j, k) is element i + Shape[0]*(j + Shape[1]*k).
type Volume struct {
	Grid
	Int16   []int16
	Float32 []float32
}

// LabelMap holds one label a voxel, 0 for background, in the same order as [Volume].
type LabelMap struct {
	Grid
	Labels []uint16
	Names  map[uint16]string // of the labels, where known
}

// Affine takes voxel indices (i, j, k, 1) to world coordinates in millimetres, RAS+: x grows to the right of the patient, y to the front, z to the head.
type Affine [4][4]float64

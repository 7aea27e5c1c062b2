package sliding

import (
	"fmt"
	"slices"
	"strings"
)

// mirrorings lists every set of the axes that are named, such as "ij": the empty one first, then
// those along which an image is mirrored.
func mirrorings(names string) [][]int {
	sets := [][]int{nil}
	for axis, name := range "ijk" {
		if strings.ContainsRune(names, name) {
			for _, s := range slices.Clone(sets) {
				sets = append(sets, append(slices.Clone(s), axis))
			}
		}
	}
	return sets
}

// CheckMirror says whether axes to mirror along are named as they should be: out of i, j and k.
func CheckMirror(names string) error {
	if strings.Trim(names, "ijk") != "" {
		return fmt.Errorf("mirror is %q, must be axes out of i, j and k", names)
	}
	return nil
}

// Mirror turns images of a size along (i, j, k), one after the other, round along an axis.
func Mirror(x []float32, size [3]int, axis int) {
	stride := [3]int{1, size[0], size[0] * size[1]}
	n, step := size[axis], stride[axis]
	for first := range x {
		if first/step%n != 0 {
			continue
		}
		for a, b := 0, n-1; a < b; a, b = a+1, b-1 {
			x[first+a*step], x[first+b*step] = x[first+b*step], x[first+a*step]
		}
	}
}

// mirrored is the memory for a batch of windows that the network sees several times, mirrored.
type mirrored struct {
	voxels []float32
	values map[string][]float32 // what the network says of one mirror image
}

// runMirrored is [Inferer.run] on the mirror images of a batch: its outputs are turned back, and
// their means are read. voxels stay as they are.
func (s *Inferer) runMirrored(voxels []float32, outputs map[string][]float32) error {
	if s.mirrored.voxels == nil {
		s.mirrored = mirrored{make([]float32, len(voxels)), map[string][]float32{}}
	}
	one := map[string][]float32{} // what is asked for now, which may be more than before, or less
	for name, values := range outputs {
		if len(s.mirrored.values[name]) != len(values) {
			s.mirrored.values[name] = make([]float32, len(values))
		}
		one[name] = s.mirrored.values[name]
	}
	sets := mirrorings(s.Mirror)
	share := 1 / float32(len(sets))
	for name := range outputs {
		clear(outputs[name])
	}
	for _, axes := range sets {
		copy(s.mirrored.voxels, voxels)
		for _, axis := range axes {
			Mirror(s.mirrored.voxels, s.Size, axis)
		}
		if err := s.run(s.mirrored.voxels, one); err != nil {
			return err
		}
		for name, mean := range outputs {
			values := one[name]
			for _, axis := range axes {
				Mirror(values, s.Size, axis)
			}
			for i, v := range values {
				mean[i] += share * v
			}
		}
	}
	return nil
}

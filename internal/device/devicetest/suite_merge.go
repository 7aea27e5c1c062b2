package devicetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

func (reference) MergeClasses(t device.Tensor) (device.Kernel, error) {
	return eachVoxel(t, func(y, x, merged, _ values) {
		sum := math.Exp(x[0])
		for c := 1; c < len(x); c++ {
			if y[c] = x[c]; merged[c] != 0 {
				y[c] = device.MergedAway
				sum += math.Exp(x[c])
			}
		}
		y[0] = math.Log(sum)
	})
}

func (reference) MergeClassesGrad(t device.Tensor) (device.Kernel, error) {
	return eachVoxel(t, func(dx, x, merged, dy values) {
		sum := math.Exp(x[0])
		for c := 1; c < len(x); c++ {
			if merged[c] != 0 {
				sum += math.Exp(x[c])
			}
		}
		for c := range x {
			if dx[c] = dy[c]; c == 0 || merged[c] != 0 {
				dx[c] = dy[0] * math.Exp(x[c]) / sum
			}
		}
	})
}

// eachVoxel is a kernel that computes the classes of a voxel from those of x, which of them are
// merged in its image, and those of a third operand, if there is one.
func eachVoxel(t device.Tensor, f func(y, x, merged, dy values)) (device.Kernel, error) {
	s := t.Shape
	return kernel(func(out, in []values) {
		y, x, dy := make(values, s[1]), make(values, s[1]), make(values, s[1])
		for n := range s[0] {
			for v := range s.Voxels() {
				for c := range s[1] {
					if x[c] = in[0][(n*s[1]+c)*s.Voxels()+v]; len(in) > 2 {
						dy[c] = in[2][(n*s[1]+c)*s.Voxels()+v]
					}
				}
				f(y, x, in[1][n*s[1]:][:s[1]], dy)
				for c := range s[1] {
					out[0][(n*s[1]+c)*s.Voxels()+v] = y[c]
				}
			}
		}
	}), t.Check()
}

// Merge checks classes that are merged into the background: none, some and all of them, of images
// of one batch. A device may lack the kernels, if it says what to do instead.
func Merge(t *testing.T, dev device.Device) {
	if _, err := device.MergeKernelsOf(dev); err != nil {
		if !strings.Contains(err.Error(), "use the CPU") {
			t.Errorf("without the kernels: %v", err)
		}
		return
	}
	merging := func(d device.Device) device.MergeKernels {
		k, err := device.MergeKernelsOf(d)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, s := range []device.Shape{{1, 2, 1, 1, 1}, {3, 5, 2, 3, 5}, {3, 16, 1, 2, 3}, {2, 40, 11, 12, 13}} {
		t.Run(fmt.Sprint([]int(s)), func(t *testing.T) {
			r := newRand(1)
			x, merged := random(r, s...), whole(r, 0, 2, s[0], s[1])
			if s[0] == 3 {
				clear(merged.data[:s[1]])
				for c := range s[1] {
					merged.data[s[1]+c] = 1
				}
			}
			compare(t, dev, tight, func(d device.Device) (device.Kernel, error) {
				return merging(d).MergeClasses(tensorOf(dev, s))
			}, []operand{output(s...)}, []operand{x, merged})
			compare(t, dev, tight, func(d device.Device) (device.Kernel, error) {
				return merging(d).MergeClassesGrad(tensorOf(dev, s))
			}, []operand{output(s...)}, []operand{x, merged, random(r, s...)})
		})
	}
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return merging(d).MergeClasses(device.Tensor{Shape: device.Shape{2, 3, 4}})
	})
}

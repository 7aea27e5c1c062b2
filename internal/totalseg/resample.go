package totalseg

import (
	"math"
	"runtime"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
)

// TotalSegmentator resamples by scipy's ndimage.zoom with mode="nearest": the centres of the first
// and the last voxel of both grids coincide along each axis.

// shapeAt is how many voxels a grid has at another spacing, 0 its own. Spacings of files are
// float32.
func shapeAt(g volume.Grid, spacing [3]float64) (shape [3]int, ratio [3]float64) {
	if spacing == ([3]float64{}) {
		return g.Shape, [3]float64{1, 1, 1}
	}
	for a, s := range g.Spacing() {
		ratio[a] = float64(float32(s)) / spacing[a]
		shape[a] = int(math.RoundToEven(float64(g.Shape[a]) * ratio[a]))
	}
	return shape, ratio
}

// places are where m samples lie among n, as scipy computes it.
func places(n, m int) []float64 {
	zoom := 1.0
	if m > 1 {
		zoom = float64(n-1) / float64(m-1)
	}
	x := make([]float64, m)
	for i := range x {
		x[i] = min(float64(i)*zoom, float64(n-1))
	}
	return x
}

// linear is the scan at a spacing, interpolated linearly and cut off to whole numbers, as
// TotalSegmentator stores it.
func linear(v *volume.Volume, spacing [3]float64) *volume.Volume {
	shape, ratio := shapeAt(v.Grid, spacing)
	same, own := true, spacing == [3]float64{}
	out := &volume.Volume{Grid: v.Grid}
	for a, s := range v.Spacing() {
		same = same && float64(float32(s)) == spacing[a]
		for row := range 3 {
			out.Affine[row][a] /= ratio[a]
		}
	}
	if same || own {
		out.Grid = v.Grid
		out.Float32 = make([]float32, v.Len())
		for n := range out.Float32 {
			out.Float32[n] = at(v, n)
		}
		return out
	}
	out.Shape = shape
	out.Float32 = make([]float32, out.Len())
	var ends [3][2][]int   // the samples on both sides
	var first [3][]float64 // weight of the lower one
	for a := range 3 {
		for _, x := range places(v.Shape[a], shape[a]) {
			i := int(math.Floor(x))
			ends[a][0], ends[a][1] = append(ends[a][0], i), append(ends[a][1], min(i+1, v.Shape[a]-1))
			first[a] = append(first[a], 1-(x-float64(i)))
		}
	}
	rows, plane := v.Shape[0], v.Shape[0]*v.Shape[1]
	parallel(shape[2], func(k int) {
		n := k * shape[0] * shape[1]
		for j := range shape[1] {
			for i := range shape[0] {
				// scipy's arrays are (i, j, k): the last axis turns fastest in its sum of eight
				var sum float64
				for x, wx := range [2]float64{first[0][i], 1 - first[0][i]} {
					for y, wy := range [2]float64{first[1][j], 1 - first[1][j]} {
						for z, wz := range [2]float64{first[2][k], 1 - first[2][k]} {
							from := ends[0][x][i] + rows*ends[1][y][j] + plane*ends[2][z][k]
							sum += float64(float64(at(v, from)) * wx * wy * wz)
						}
					}
				}
				out.Float32[n] = float32(math.Trunc(sum))
				n++
			}
		}
	})
	return out
}

// at is the value of a voxel.
func at(v *volume.Volume, n int) float32 {
	if v.Float32 != nil {
		return v.Float32[n]
	}
	return float32(v.Int16[n])
}

// nearest brings labels to a grid of the same extent, each voxel the nearest one's.
func nearest(l *volume.LabelMap, g volume.Grid) *volume.LabelMap {
	out := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len()), Names: l.Names}
	var from [3][]int
	for a := range 3 {
		for _, x := range places(l.Shape[a], g.Shape[a]) {
			from[a] = append(from[a], int(math.Floor(x+0.5)))
		}
	}
	parallel(g.Shape[2], func(k int) {
		n := k * g.Shape[0] * g.Shape[1]
		for j := range g.Shape[1] {
			row := l.Labels[l.Index(0, from[1][j], from[2][k]):]
			for _, i := range from[0] {
				out.Labels[n] = row[i]
				n++
			}
		}
	})
	return out
}

// parallel calls do(0) ... do(n-1) on all cores.
func parallel(n int, do func(item int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	var all sync.WaitGroup
	for p := range parts {
		all.Go(func() {
			for item := p; item < n; item += parts {
				do(item)
			}
		})
	}
	all.Wait()
}

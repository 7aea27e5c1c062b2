package volume

import "testing"

// What is 0 in the first channel and not in another belongs to the part, as in nnU-Net's
// create_nonzero_mask, which joins the channels by "or".
func TestPartOfSeveralChannels(t *testing.T) {
	grid := Grid{Shape: [3]int{10, 10, 10}, Affine: Scaling([3]float64{1, 1, 1})}
	box := func(from, to [3]int) *Volume {
		v := &Volume{Grid: grid, Int16: make([]int16, grid.Len())}
		for k := from[2]; k < to[2]; k++ {
			for j := from[1]; j < to[1]; j++ {
				for i := from[0]; i < to[0]; i++ {
					v.Int16[v.Index(i, j, k)] = 7
				}
			}
		}
		return v
	}
	p := DefaultPreparation()
	p.Modality, p.Crop = ModalityMR, CropBody
	first, second := box([3]int{1, 2, 0}, [3]int{4, 5, 4}), box([3]int{2, 1, 3}, [3]int{6, 4, 8})
	part, err := p.Bounds(first, second)
	if want := (Box{Origin: [3]int{1, 1, 0}, Size: [3]int{5, 4, 8}}); err != nil || part.Box != want {
		t.Errorf("%+v, %v, want %+v", part.Box, err, want)
	}
	if part, err = p.Bounds(box([3]int{}, [3]int{}), second); err != nil || part.Box != second.Nonzero().Box {
		t.Errorf("an empty first channel: %+v, %v", part.Box, err)
	}
}

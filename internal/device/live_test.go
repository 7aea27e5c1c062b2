package device_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// TestLive compares with the definition, along one axis: a tap is alive where some voxel of y has
// one of x under it.
func TestLive(t *testing.T) {
	cropped := 0
	for size := 1; size <= 8; size++ {
		for kernel := 1; kernel <= 7; kernel++ {
			for stride := 1; stride <= 3; stride++ {
				for pad := range kernel {
					s := device.ConvSpec{N: 1, In: 1, Out: 1, Size: [3]int{1, size, 9}, Kernel: [3]int{1, kernel, 5},
						Stride: [3]int{1, stride, 1}, Pad: [3]int{0, pad, 2}}
					if s.Check() != nil {
						continue
					}
					live, first := s.Live()
					if err := live.Check(); err != nil || live.OutSize() != s.OutSize() || live.Size != s.Size {
						t.Fatalf("%+v: %+v: %v", s, live, err)
					}
					if again, none := live.Live(); again != live || none != [3]int{} {
						t.Errorf("%+v: its live taps are not all alive: %+v", s, again)
					}
					alive := 0
					for tap := range kernel {
						reaches := false
						for o := range s.OutSize()[1] {
							at := o*stride - pad + tap
							reaches = reaches || at >= 0 && at < size
						}
						if reaches {
							alive++
						}
						if kept := tap >= first[1] && tap < first[1]+live.Kernel[1]; reaches && !kept {
							t.Errorf("%+v: tap %d is left out", s, tap)
						}
					}
					if symmetric := kernel == 2*pad+1 && stride == 1; symmetric && live.Kernel[1] != alive {
						t.Errorf("%+v: %d taps are kept, %d are alive", s, live.Kernel[1], alive)
					}
					if live.Kernel[1] < kernel {
						cropped++
					}
				}
			}
		}
	}
	if cropped == 0 {
		t.Error("nothing was ever left out")
	}
}

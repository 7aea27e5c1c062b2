package photos

import (
	"fmt"
	"runtime"

	"github.com/voxsaw/voxsaw/internal/photo"
)

// Options say how photographs are prepared.
type Options struct {
	// width and height of the prepared photographs, in pixels
	Size [2]int `yaml:"size" range:"[1,)"`
	// how photographs of another shape come to that: stretched (warp), or scaled until they cover
	// it and cut to the middle (crop)
	Fit string `yaml:"fit" oneof:"warp crop"`
	// keep JPEGs of this quality, such as 95, in a tenth of the room; 0: keep pixels
	JPEG int `yaml:"jpeg,omitempty" range:"[0,100]"`
	// share of each class that is held out where the data set has no split of its own
	HoldOut float64 `yaml:"hold_out" range:"[0,1)"`
	// decides which photographs are held out
	Seed uint64 `yaml:"seed"`
	// replace photographs that were prepared otherwise, or others, in the folder
	Force bool `yaml:"force"`
	// photographs decoded at once; 0: one a core
	Workers int `yaml:"workers" most:"4096"`
}

// DefaultOptions are the paper's 255 x 255 pixels, and a tenth held out.
func DefaultOptions() Options {
	return Options{Size: [2]int{255, 255}, Fit: string(photo.Warp), HoldOut: 0.1}
}

// maxSide bounds prepared photographs.
const maxSide = 4096

// Check says what cannot be.
func (o Options) Check() error {
	for _, side := range o.Size {
		if side < photo.MinSide || side > maxSide {
			return fmt.Errorf("size %dx%d: each side must be from %d to %d pixels", o.Size[0], o.Size[1], photo.MinSide,
				maxSide)
		}
	}
	if _, err := photo.ParseFit(o.Fit); err != nil {
		return err
	}
	if o.JPEG < 0 || o.JPEG > 100 {
		return fmt.Errorf("jpeg is %d, must be a quality from 1 to 100, or 0", o.JPEG)
	}
	if !(o.HoldOut >= 0 && o.HoldOut < 1) {
		return fmt.Errorf("a share of %g cannot be held out: at least 0 and less than 1", o.HoldOut)
	}
	if o.Workers < 0 {
		return fmt.Errorf("%d workers: at least 0", o.Workers)
	}
	return nil
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// bytes of a prepared photograph.
func (o Options) bytes() int { return 3 * o.Size[0] * o.Size[1] }

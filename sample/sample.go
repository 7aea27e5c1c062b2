// Package sample says what a network learns from: something with a name, a size and channels, out
// of which crops are cut.
//
// Start at [Sample]. Prepared scans (volume/prepared) and photographs (puzzle2d/photos) are
// samples; a photograph has three channels and a depth of 1. What is learnt from samples knows them
// by this interface. Labels are not here: fine-tuning reads them from prepared scans.
package sample

import (
	"math"
	"math/rand/v2"
)

// A Sample is one scan or photograph. Sizes and origins are in voxels along the axes (i, j, k):
// width, height and depth. Its methods may be called from any number of goroutines.
type Sample interface {
	Name() string
	Size() [3]int
	Channels() int
	// Crop reads the crop of size voxels whose first voxel is origin into (Channels, D, H, W) with
	// D = size[2], i fastest. What lies outside the sample is air.
	Crop(dst []float32, origin, size [3]int) error
	// AirFraction is the share of a crop that is air, from 0 to 1. What lies outside the sample is.
	AirFraction(origin, size [3]int) (float64, error)
	// Range is where the usual values of a channel lie.
	Range(channel int) [2]float32
}

// ByChannel is a sample that reads a crop (D, H, W) of one channel alone.
type ByChannel interface {
	CropChannel(dst []float32, channel int, origin, size [3]int) error
}

// CropChannel reads a crop (D, H, W) of one of a sample's channels; the caller says how many the
// sample has.
func CropChannel(dst []float32, s Sample, channel, channels int, origin, size [3]int) error {
	if one, ok := s.(ByChannel); ok && s.Channels() == channels {
		return one.CropChannel(dst, channel, origin, size)
	}
	all := make([]float32, channels*len(dst))
	err := s.Crop(all, origin, size)
	copy(dst, all[channel*len(dst):])
	return err
}

// A Loader is a sample whose crops cost a lot each, such as a photograph that is kept as a JPEG:
// Load gives one whose crops are cut out of memory.
type Loader interface{ Load() (Sample, error) }

// Load gives a sample to take several crops of.
func Load(s Sample) (Sample, error) {
	if l, ok := s.(Loader); ok {
		return l.Load()
	}
	return s, nil
}

// A Store is samples by their names.
type Store interface {
	// Sample gives the sample of a name. It is valid until the store is closed.
	Sample(name string) (Sample, error)
	// Fingerprint identifies all samples: it changes with any voxel and name.
	Fingerprint() string
}

// Local is a folder on the machine's own disk that keeps copies of prepared samples: of a folder
// that many machines share, each then reads a file once.
type Local struct {
	Dir string
	// Bytes bounds all copies in the folder, those of other data included. 0: nine tenths of what
	// the disk has free, and what the copies that are there already take.
	Bytes int64
}

// Data is samples by their role.
type Data struct {
	Store    Store
	Train    []string // names
	Validate []string // of those held out; may be empty
	// Unlabelled are those that a fine-tuning learns from without their labels, if its settings say
	// so; none of them is in the other lists
	Unlabelled []string
	// Test are those that a fine-tuning on photographs is scored on at the end; nothing else reads
	// them
	Test []string
}

// Open opens samples.
func Open(s Store, names []string) ([]Sample, error) {
	samples := make([]Sample, len(names))
	for n, name := range names {
		var err error
		if samples[n], err = s.Sample(name); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// Padded reports whether a crop of this size is larger than the sample along any axis, so that air
// is added wherever it is taken.
func Padded(s Sample, size [3]int) bool {
	extent := s.Size()
	return size[0] > extent[0] || size[1] > extent[1] || size[2] > extent[2]
}

// RandomOrigin draws where to take a crop of the given size, wholly inside the sample; along an
// axis where the sample is smaller than the crop, the sample is centred in it. Crops with at most
// the share maxAir of air are preferred: it draws up to eight times and otherwise takes the one
// with the least. maxAir 1 takes the first.
func RandomOrigin(s Sample, r *rand.Rand, size [3]int, maxAir float64) ([3]int, error) {
	const attempts = 8
	var best [3]int
	least := math.Inf(1)
	for range attempts {
		var origin [3]int
		for axis, extent := range s.Size() {
			if room := extent - size[axis]; room >= 0 {
				origin[axis] = r.IntN(room + 1)
			} else {
				origin[axis] = -(-room / 2)
			}
		}
		if maxAir >= 1 {
			return origin, nil
		}
		air, err := s.AirFraction(origin, size)
		if err != nil {
			return origin, err
		}
		if air < least {
			best, least = origin, air
		}
		if least <= maxAir {
			break
		}
	}
	return best, nil
}

// OriginAround gives the origin of a crop with the voxel at its centre, moved as little as needed
// for the crop to lie inside the sample.
func OriginAround(s Sample, voxel, size [3]int) [3]int {
	var origin [3]int
	for axis, extent := range s.Size() {
		room := extent - size[axis]
		if room < 0 {
			origin[axis] = -(-room / 2)
			continue
		}
		origin[axis] = min(max(voxel[axis]-size[axis]/2, 0), room)
	}
	return origin
}

// Middle is the origin of the crop in the middle of a sample.
func Middle(s Sample, size [3]int) [3]int {
	extent := s.Size()
	return OriginAround(s, [3]int{extent[0] / 2, extent[1] / 2, extent[2] / 2}, size)
}

package photos

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/sample"
)

// A Photo is a prepared photograph as a sample of three channels and depth 1. Its values are the
// bytes of its pixels.
type Photo struct {
	store  *Store
	number int
}

var (
	_ sample.Sample = Photo{}
	_ sample.Loader = Photo{}
	_ sample.Store  = (*Store)(nil)
)

// Photo gives photograph n.
func (s *Store) Photo(n int) Photo { return Photo{s, n} }

// Sample implements [sample.Store]: the name is the photograph's path.
func (s *Store) Sample(name string) (sample.Sample, error) {
	n, found := s.Number(name)
	if !found {
		return nil, fmt.Errorf("no photograph %q among the %d prepared in %s", name, s.Len(), s.dir)
	}
	return s.Photo(n), nil
}

// Number is the number of the photograph of a name.
func (s *Store) Number(name string) (n int, found bool) {
	n, found = s.numbers()[name]
	return n, found
}

// numberByName numbers the photographs by their names.
func (s *Store) numberByName() map[string]int {
	numbers := make(map[string]int, s.Len())
	for n := range s.Len() {
		numbers[s.Name(n)] = n
	}
	return numbers
}

// Summarize counts photographs by their split. With the fingerprint this says as much as their
// names.
func (s *Store) Summarize(names []string) []string {
	var splits []string
	counts := map[string]int{}
	for _, name := range names {
		split := s.Split(s.numbers()[name])
		if counts[split] == 0 {
			splits = append(splits, split)
		}
		counts[split]++
	}
	for i, split := range splits {
		splits[i] = fmt.Sprintf("%s: %s", split, numbers.Count(counts[split], "photograph"))
	}
	return splits
}

// Store is where the photograph lies.
func (p Photo) Store() *Store { return p.store }

// Label is the class of the photograph, or [Unlabelled].
func (p Photo) Label() int { return p.store.Label(p.number) }

// Name implements [sample.Sample].
func (p Photo) Name() string { return p.store.Name(p.number) }

// Size implements [sample.Sample].
func (p Photo) Size() [3]int { return [3]int{p.store.index.Size[0], p.store.index.Size[1], 1} }

// Channels implements [sample.Sample]: red, green and blue.
func (p Photo) Channels() int { return 3 }

// Range implements [sample.Sample].
func (p Photo) Range(int) [2]float32 { return [2]float32{0, 255} }

// AirFraction implements [sample.Sample]: on a photograph nothing is air.
func (p Photo) AirFraction(_, _ [3]int) (float64, error) { return 0, nil }

// Load implements [sample.Loader].
func (p Photo) Load() (sample.Sample, error) {
	pixels, err := p.store.At(p.number)
	return loaded{p, pixels}, err
}

// loaded is a photograph with its pixels.
type loaded struct {
	Photo
	pixels []byte
}

// Crop implements [sample.Sample]. The crop must lie on the photograph.
func (p Photo) Crop(dst []float32, origin, size [3]int) error {
	all, err := p.Load()
	if err != nil {
		return err
	}
	return all.Crop(dst, origin, size)
}

// Crop implements [sample.Sample], as that of a Photo does.
func (p loaded) Crop(dst []float32, origin, size [3]int) error {
	for axis, extent := range p.Size() {
		if origin[axis] < 0 || size[axis] < 1 || origin[axis]+size[axis] > extent {
			return fmt.Errorf("%s: a crop of %s pixels at %s is not on the photograph of %s", p.Name(),
				numbers.Extents(size[:]), numbers.List(origin[:]), numbers.Extents(p.store.index.Size[:]))
		}
	}
	n := size[0] * size[1]
	if len(dst) != 3*n {
		return fmt.Errorf("%s: a crop of %s pixels does not go into %d values", p.Name(), numbers.Extents(size[:]),
			len(dst))
	}
	for y := range size[1] {
		row := p.pixels[3*((origin[1]+y)*p.store.index.Size[0]+origin[0]):][:3*size[0]]
		red, green, blue := dst[y*size[0]:][:size[0]], dst[n+y*size[0]:][:size[0]], dst[2*n+y*size[0]:][:size[0]]
		for x := range red {
			red[x], green[x], blue[x] = float32(row[3*x]), float32(row[3*x+1]), float32(row[3*x+2])
		}
	}
	return nil
}

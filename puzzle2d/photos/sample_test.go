package photos

import (
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/sample"
)

// A crop of a photograph has its reds, greens and blues one after another, and those of its place
// alone.
func TestPhotographsAreSamples(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	prepare(t, find(t, tree(t, pictures(map[string][]byte{}, "cat", 3))), out, small(t))
	store := open(t, out)
	name := store.Name(1)
	photo, err := store.Sample(name)
	if err != nil {
		t.Fatal(err)
	}
	width, height := store.Size()
	if photo.Name() != name || photo.Channels() != 3 || photo.Size() != [3]int{width, height, 1} {
		t.Fatalf("%s has %d channels of %v", photo.Name(), photo.Channels(), photo.Size())
	}
	pixels, err := store.At(1)
	if err != nil {
		t.Fatal(err)
	}
	origin, size := [3]int{2, 3, 0}, [3]int{5, 4, 1}
	crop := make([]float32, 3*5*4)
	if err := photo.Crop(crop, origin, size); err != nil {
		t.Fatal(err)
	}
	for at, got := range crop {
		channel, y, x := at/20, at/5%4, at%5
		if want := pixels[3*((3+y)*width+2+x)+channel]; got != float32(want) {
			t.Errorf("channel %d of pixel %d, %d is %v, not %d", channel, x, y, got, want)
		}
	}
	if photo.Crop(crop, [3]int{width - 4, 0, 0}, size) == nil || photo.Crop(crop[1:], origin, size) == nil {
		t.Error("a crop beside the photograph, or of another size, was read")
	}
	if _, err := sample.Open(store, []string{name, "dog"}); err == nil {
		t.Error("a photograph that is not there was opened")
	}
}

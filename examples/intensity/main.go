// Command intensity adds a scheme of intensities, what a network sees of a scan's values, and
// prepares a made-up scan by it.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

const scheme = "zero-to-one"

// The range of most of a scan's values becomes 0 to 1, and others are clipped to it.
func init() {
	volume.RegisterScheme(scheme, true, func(m volume.Measured) (volume.Levels, error) {
		return volume.Levels{Centre: m.Low, Width: m.High - m.Low, Low: m.Low, High: m.High}, nil
	})
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	folder, err := os.MkdirTemp("", "intensity")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	scan, _, err := phantom.New(1, phantom.Options{Shape: [3]int{28, 24, 20}})
	if err != nil {
		return err
	}
	how := volume.DefaultPreparation()
	how.Intensity = scheme
	w, err := prepared.NewWriter(folder, how)
	if err != nil {
		return err
	}
	if _, err := w.Add(prepared.Input{ID: "patient", Image: scan}); err != nil {
		return err
	}
	if err := w.Finish(); err != nil {
		return err
	}
	store, err := prepared.Open(folder)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := store.Sample("patient")
	if err != nil {
		return err
	}
	size := c.Size()
	seen := make([]float32, size[0]*size[1]*size[2])
	if err := c.Crop(seen, [3]int{}, size); err != nil {
		return err
	}
	low, high := seen[0], seen[0]
	for _, x := range seen {
		low, high = min(low, x), max(high, x)
	}
	fmt.Printf("a network sees values from %.2f to %.2f\n", low, high)
	return nil
}

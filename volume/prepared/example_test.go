package prepared_test

import (
	"fmt"
	"log"
	"os"

	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Prepare a scan into a store, and read a crop of it.
func Example() {
	folder, err := os.MkdirTemp("", "voxsaw")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	scan, organs, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 32}})
	if err != nil {
		log.Fatal(err)
	}
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Add(prepared.Input{ID: "patient_1", Image: scan, Labels: organs}); err != nil {
		log.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		log.Fatal(err)
	}

	store, err := prepared.Open(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	c, err := store.Open("patient_1")
	if err != nil {
		log.Fatal(err)
	}
	size := [3]int{16, 16, 16}
	crop := make([]float32, size[0]*size[1]*size[2])
	if err := c.Crop(crop, sample.OriginAround(c, [3]int{24, 20, 16}, size), size); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.ID, c.Shape, "with", len(c.LabelCounts), "labels")
	// Output: patient_1 [48 40 32] with 8 labels
}

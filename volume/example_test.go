package volume_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// Read a scan, resample it to 4 mm, and write it. Volumes are values: the scan stays as it is.
func Example() {
	folder, err := os.MkdirTemp("", "voxsaw")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "scan.nii.gz")
	made, _, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 30}, Spacing: [3]float64{2, 2, 5}})
	if err != nil {
		log.Fatal(err)
	}
	if err := nifti.Write(path, made); err != nil {
		log.Fatal(err)
	}

	scan, err := nifti.Read(path)
	if err != nil {
		log.Fatal(err)
	}
	small, err := scan.Resample([3]float64{4, 4, 4}, volume.Linear)
	if err != nil {
		log.Fatal(err)
	}
	if err := nifti.Write(filepath.Join(folder, "small.nii.gz"), small); err != nil {
		log.Fatal(err)
	}
	fmt.Println(scan.Shape, "voxels of", scan.Spacing(), "mm become", small.Shape, "of", small.Spacing())
	// Output: [48 40 30] voxels of [2 2 5] mm become [24 20 38] of [4 4 4]
}

// Prepare a scan as a network sees it, and put what it predicts back onto the voxels of the scan.
func ExamplePreparation() {
	scan, organs, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 30}, Spacing: [3]float64{2, 2, 5}})
	if err != nil {
		log.Fatal(err)
	}
	how := volume.DefaultPreparation()
	how.Spacing = [3]float64{2, 2, 2}
	part, err := how.Bounds(scan)
	if err != nil {
		log.Fatal(err)
	}
	image, err := how.Apply(scan, part)
	if err != nil {
		log.Fatal(err)
	}
	labels, err := how.ApplyLabels(organs, part)
	if err != nil {
		log.Fatal(err)
	}
	restored, err := how.Restore(labels, part)
	if err != nil {
		log.Fatal(err)
	}
	s := image.Statistics()
	fmt.Printf("%v voxels from %g to %g HU, labels restored to %v\n", image.Shape, s.Min, s.Max, restored.Shape)
	// Output: [48 40 75] voxels from -125 to 275 HU, labels restored to [48 40 30]
}

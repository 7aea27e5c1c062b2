package vnet_test

import (
	"fmt"
	"log"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/vnet"
)

// Run a VNet on an array, and look at its numbers: the features of every stage and the logits.
func Example() {
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	settings := vnet.Default()
	settings.Channels, settings.Levels, settings.Classes = 4, 2, 3
	size := [3]int{16, 12, 8}
	m, err := vnet.New(dev, settings, size, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	image := make([]float32, size[0]*size[1]*size[2])
	logits, err := m.Logits(image)
	if err != nil {
		log.Fatal(err)
	}
	features, err := m.Features(image)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(logits)/len(image), "logits a voxel;", len(features), "stages")
	first := m.Names()[0]
	fmt.Println(len(m.Names()), "parameters, the first", first, "of shape", m.Shape(first))
	// Output:
	// 3 logits a voxel; 3 stages
	// 41 parameters, the first encoder.0.conv0.weight of shape [4 1 5 5 5]
}

// Command network adds a network to those that voxsaw has, and fine-tunes it on made-up patients.
//
// Start at [unet]: a small U-Net, an encoder and a decoder of plain convolutions.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/network"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

const kind = "unet-example"

func init() {
	network.Register(kind, func(n voxsaw.Network) (network.Network, error) {
		if n.Channels == 0 {
			n.Channels = 8
		}
		if n.Levels == 0 {
			n.Levels = 2
		}
		if n.Norm == "" {
			n.Norm = "instance"
		}
		if n.Activation == "" {
			n.Activation = "relu"
		}
		if n.Channels < 1 || n.Levels < 1 || n.Levels > 6 {
			return nil, fmt.Errorf("channels is %d and levels %d: want at least 1, and 1 to 6", n.Channels, n.Levels)
		}
		n.Dropout = 0 // there is none
		return unet{n}, nil
	})
}

// unet is a U-Net whose settings are complete.
type unet struct{ voxsaw.Network }

func (u unet) Settings() voxsaw.Network { return u.Network }

// Multiple is of a size that is halved at each level.
func (u unet) Multiple() [3]int { return [3]int{1 << u.Levels, 1 << u.Levels, 1 << u.Levels} }

// block is a convolution, a norm and an activation.
func (u unet) block(g network.Graph, name string, x network.Node, width, stride int) network.Node {
	y := g.Conv(name, x, width, network.Cube(3, stride, 1), true)
	return g.Activate(name, y, network.Activation{Norm: u.Norm, Groups: u.Groups, Act: u.Activation})
}

// Encoder has a stage a level, each of half the size and twice the channels.
func (u unet) Encoder(g network.Graph, x network.Node) (stages []network.Node) {
	for level := range u.Levels + 1 {
		x = u.block(g, fmt.Sprintf("encoder.%d", level), x, u.Channels<<level, min(level+1, 2))
		stages = append(stages, x)
	}
	return stages
}

// Decoder goes back up, with the encoder's stages beside its own.
func (u unet) Decoder(g network.Graph, stages []network.Node) []network.Node {
	x := stages[u.Levels]
	for level := u.Levels - 1; level >= 0; level-- {
		name := fmt.Sprintf("decoder.%d", level)
		x = g.ConvTranspose(name+".up", x, u.Channels<<level, network.Cube(2, 2, 0), true)
		x = u.block(g, name, g.Concat(x, stages[level]), u.Channels<<level, 1)
	}
	return []network.Node{g.Conv("head", x, u.Classes, network.Cube(1, 1, 0), true)}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run fine-tunes two steps, and makes a label map.
func run() error {
	folder, err := os.MkdirTemp("", "network")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	store, err := patients(filepath.Join(folder, "prepared"))
	if err != nil {
		return err
	}
	defer store.Close()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		return err
	}
	defer dev.Close()

	c := segment.DefaultConfig()
	c.Network = voxsaw.Network{Kind: kind, Channels: 4}
	c.Crop, c.Train.Steps = [3]int{16, 16, 16}, 2
	trained := filepath.Join(folder, "run")
	summary, _, err := segment.Finetune(context.Background(), dev, c,
		sample.Data{Store: store, Train: []string{"patient_1", "patient_2"}}, "", voxsaw.RunOptions{Folder: trained})
	if err != nil {
		return err
	}

	p, err := segment.NewPredictor(dev, []string{trained}, segment.DefaultInference(), 0)
	if err != nil {
		return err
	}
	defer p.Close()
	scan, _, err := phantom.New(3, phantom.Options{Shape: [3]int{28, 24, 24}})
	if err != nil {
		return err
	}
	labels, err := p.Predict(context.Background(), scan)
	if err != nil {
		return err
	}
	fmt.Println(summary.Step, "steps; a label map of", labels.Shape)
	return nil
}

// patients prepares scans of made-up patients, with their organs.
func patients(folder string) (*prepared.Store, error) {
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		scan, organs, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			return nil, err
		}
		in := prepared.Input{ID: fmt.Sprintf("patient_%d", i+1), Image: scan, Labels: organs}
		if _, err := w.Add(in); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}

// Command graph solves puzzles of graphs, which the paper's last sentence leaves for later: the
// nodes of a grid graph are shuffled, and the heads and the solver of puzzles put them back.
//
// Start at [heated]. To the library a graph is a [sample.Sample] whose voxels are its nodes, with a
// channel for each number that is known of a node, and a patch is one node.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/network"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/sample"
)

const (
	side  = 4
	nodes = side * side
)

// A graph has two numbers a node, (2, 1, side, side).
type graph []float32

// heated is a graph whose edges conduct heat from two corners, each edge at a rate of its own. A
// node knows how warm it gets from either corner; nothing else tells where it belongs.
func heated(number uint64) graph {
	r, g := rand.New(rand.NewPCG(number, 1)), make(graph, 2*nodes)
	var rate [nodes][2]float32 // of a node's edges to the right and down
	for i := range rate {
		rate[i] = [2]float32{0.05 + 0.2*r.Float32(), 0.05 + 0.2*r.Float32()}
	}
	for corner, heat := range []graph{g[:nodes], g[nodes:]} {
		for range 40 {
			heat[corner*(side-1)] = 1
			for i := range nodes {
				for edge, other := range [2]int{i + 1, i + side} {
					if edge == 0 && other%side == 0 || other >= nodes {
						continue
					}
					flow := rate[i][edge] * (heat[i] - heat[other])
					heat[i], heat[other] = heat[i]-flow, heat[other]+flow
				}
			}
		}
	}
	return g
}

func (g graph) Name() string                             { return "graph" }
func (g graph) Size() [3]int                             { return [3]int{side, side, 1} }
func (g graph) Channels() int                            { return 2 }
func (g graph) Range(int) [2]float32                     { return [2]float32{0, 1} }
func (g graph) AirFraction(_, _ [3]int) (float64, error) { return 0, nil }

// Crop reads a part of a graph, such as one node.
func (g graph) Crop(dst []float32, at, size [3]int) error {
	for n := range dst {
		x, y, channel := n%size[0], n/size[0]%size[1], n/size[0]/size[1]
		dst[n] = g[channel*nodes+(at[1]+y)*side+at[0]+x]
	}
	return nil
}

// graphs is a store of all that there are; their names are their numbers.
type graphs struct{}

func (graphs) Fingerprint() string { return "heated graphs" }

func (graphs) Sample(name string) (sample.Sample, error) {
	number, err := strconv.ParseUint(name, 10, 64)
	return heated(number), err
}

// perceptron is the network of a node.
type perceptron struct{ voxsaw.Network }

func (p perceptron) Settings() voxsaw.Network { return p.Network }
func (p perceptron) Multiple() [3]int         { return [3]int{1, 1, 1} }

func (p perceptron) Encoder(g network.Graph, x network.Node) []network.Node {
	y := g.Conv("encoder.hidden", x, p.Channels, network.Cube(1, 1, 0), true)
	return []network.Node{g.Activate("encoder.hidden", y, network.Activation{Act: "relu"})}
}

// Decoder is what would tell something of each node; puzzles need none.
func (p perceptron) Decoder(g network.Graph, stages []network.Node) []network.Node {
	return []network.Node{g.Conv("head", stages[0], p.Classes, network.Cube(1, 1, 0), true)}
}

func main() {
	network.Register("perceptron", func(n voxsaw.Network) (network.Network, error) { return perceptron{n}, nil })
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run learns to order the nodes of some graphs, and orders those of others.
func run() error {
	folder, err := os.MkdirTemp("", "graph")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		return err
	}
	defer dev.Close()

	c := puzzle3d.DefaultConfig()
	c.Network = voxsaw.Network{Kind: "perceptron", Channels: 64}
	c.Preparation.Channels = "from one corner,from the other"
	c.Grid, c.Crop, c.Patch = [4]int{side, side, 1}, [3]int{side, side, 1}, [3]int{1, 1, 1}
	c.Head, c.Binary, c.BinaryWeight, c.Features, c.Hidden = puzzle3d.Symmetric, true, 1, 64, 64
	c.Batch, c.Train.Steps, c.Train.LR = 16, 200, 0.05
	data := sample.Data{Store: graphs{}}
	for number := range 64 {
		data.Train = append(data.Train, strconv.Itoa(number))
	}
	ctx := context.Background()
	if _, err := puzzle3d.Pretrain(ctx, dev, c, data, voxsaw.RunOptions{Folder: folder}); err != nil {
		return err
	}

	player, err := puzzle3d.Open(ctx, dev, filepath.Join(folder, "last.safetensors"), puzzle3d.PlayOptions{})
	if err != nil {
		return err
	}
	defer player.Close()
	var unseen []sample.Sample
	for number := range uint64(50) {
		unseen = append(unseen, heated(1000+number))
	}
	e, err := player.Evaluate(ctx, unseen)
	if err != nil {
		return err
	}
	fmt.Printf("nodes in place: %.0f %%, by guessing %.0f %%\n", 100*e.Final().Patches, 100*e.Chance.Patches)
	fmt.Println("more than half of the graphs in order:", e.Final().Correct > 0.5)
	return nil
}

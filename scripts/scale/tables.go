package main

import (
	"fmt"
	"io"
)

// The tables for machines that are not here.

// cluster is a machine with what it trains on.
type cluster struct {
	title   string
	work    work
	machine machine
	batch   int
}

var (
	ranksShown = []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	linksShown = []struct {
		name string
		link
	}{{"10 Gbit/s", link{10e9 / 8, 30e-6}}, {"25 Gbit/s", link{25e9 / 8, 20e-6}}, {"100 Gbit/s", link{100e9 / 8, 5e-6}},
		{"400 Gbit/s", link{400e9 / 8, 3e-6}}}
)

// nodeCores are the cores of the processor that the tables are for.
const nodeCores = 64

// h200 is NVIDIA's data sheet: 989 TFLOP/s dense in bf16, 4.8 TB/s of memory, of which an
// optimiser's step of SGD takes 20 bytes for each weight. Gradients go from GPU to GPU.
var h200 = machine{name: "H200 at its peak", rate: 989e12, update: 5 / 4.8e12, cores: 1}

// tables are what docs/scale.md shows.
func tables(c constants) (all []cluster) {
	works := []struct {
		task      string
		work      work
		cpu, h200 int // items of a rank
	}{
		{"finetune", work{"fine-tuning", "crops of 96^3", segmentation(96)}, 2, 8},
		{"pretrain", trained["pretrain"], 4, 64},
	}
	for _, x := range works {
		node := c.core(x.task)
		node.name, node.cores, node.overlap = fmt.Sprintf("processor of %d cores", nodeCores), nodeCores, true
		node.rate, node.weights, node.update = nodeCores*node.rate, node.weights/nodeCores, node.update/nodeCores
		for _, m := range []struct {
			machine
			batch int
		}{{node, x.cpu}, {h200, x.h200}} {
			all = append(all, cluster{fmt.Sprintf("%s, %d %s on each %s", x.work.name, m.batch, x.work.items, m.name),
				x.work, m.machine, m.batch})
		}
	}
	return all
}

// print writes the efficiency of a cluster for each link and number of ranks, and of what helps at
// the slowest link.
func (t cluster) print(w io.Writer) {
	step := t.work.step(t.machine, link{}, options{ranks: 1, batch: t.batch}).total()
	fmt.Fprintf(w, "\n### %s\n\nA step of one takes %.3g s; gradients are %.0f MB.\n\n| |", upper(t.title), step,
		t.work.bytes()/1e6)
	for _, n := range ranksShown {
		fmt.Fprintf(w, " %d |", n)
	}
	fmt.Fprint(w, "\n|---")
	for range ranksShown {
		fmt.Fprint(w, "|---")
	}
	fmt.Fprintln(w, "|")
	for _, l := range linksShown {
		t.row(w, l.name, l.link, options{batch: t.batch})
	}
	slow := linksShown[0]
	t.row(w, slow.name+", `--reduce bf16`", slow.link, options{batch: t.batch, bf16: true})
	// so much larger a batch of each rank, in as many micro-batches
	t.row(w, slow.name+", 8 times the batch, `--accumulate 8`", slow.link, options{batch: 8 * t.batch, accumulate: 8})
}

func (t cluster) row(w io.Writer, name string, l link, o options) {
	fmt.Fprintf(w, "| %s |", name)
	for _, n := range ranksShown {
		o.ranks = n
		fmt.Fprintf(w, " %.0f %% |", 100*t.work.efficiency(t.machine, l, o))
	}
	fmt.Fprintln(w)
}

func upper(s string) string { return string(s[0]-'a'+'A') + s[1:] }

package main

import "math"

// A layer is a part of a network that has weights, for one item of a batch: one crop, one puzzle.
type layer struct {
	flops  float64 // of its forward pass: those of direct convolution
	values float64 // weights
}

// A work is a training: the layers in the order of the forward pass.
type work struct {
	name, items string
	layers      []layer
}

func (w work) forward() (flops float64) {
	for _, l := range w.layers {
		flops += l.flops
	}
	return flops
}

// bytes of the gradient, in float32.
func (w work) bytes() (sum float64) {
	for _, l := range w.layers {
		sum += 4 * l.values
	}
	return sum
}

// conv is a convolution between channels, of so many voxels of output and taps of a kernel.
func conv(in, out, taps, voxels float64) layer {
	return layer{flops: 2 * in * out * taps * voxels, values: in * out * taps}
}

// encoder is that of the paper's VNet (Milletari 2016) for crops of a side: 5^3 kernels, 1, 2, 3, 3
// and 3 convolutions in stages of 16 to 256 channels. Biases, norms and slopes are left out.
func encoder(side float64) []layer {
	layers := []layer{conv(1, 16, 125, side*side*side)}
	channels := 16.0
	for _, n := range []int{2, 3, 3, 3} {
		side /= 2
		voxels := side * side * side
		layers = append(layers, conv(channels, 2*channels, 8, voxels))
		channels *= 2
		for range n {
			layers = append(layers, conv(channels, channels, 125, voxels))
		}
	}
	return layers
}

// segmentation is the whole VNet for two classes.
func segmentation(side float64) []layer {
	layers := encoder(side)
	width, at := 256.0, side/16
	for n, convolutions := range []int{3, 3, 2, 1} {
		// channels of the encoder's stage that it is joined with
		skip := 128 / math.Pow(2, float64(n))
		layers = append(layers, conv(width, skip, 8, at*at*at))
		at *= 2
		width = 2 * skip
		for range convolutions {
			layers = append(layers, conv(width, width, 125, at*at*at))
		}
	}
	return append(layers, conv(width, 2, 1, side*side*side))
}

// puzzles is the encoder with the paper's head: 3^3 patches of a side, 1024 features of each, and
// one linear map to the 27x27 scores.
func puzzles(side float64) []layer {
	var layers []layer
	for _, l := range encoder(side) {
		layers = append(layers, layer{27 * l.flops, l.values})
	}
	end := side / 16
	embed := conv(256*end*end*end, 1024, 1, 1)
	return append(layers, layer{27 * embed.flops, embed.values}, conv(27*1024, 27*27, 1, 1))
}

// A machine is what a rank computes with.
type machine struct {
	name string
	rate float64 // FLOP/s of direct convolution
	// seconds for each byte of weights, of each pass: fast convolutions transform them
	weights float64
	update  float64 // seconds of an optimiser's step for each byte of weights
	sum     float64 // seconds that a core spends for each byte that a rank sends or receives
	cores   float64 // that a rank has; one of them sums
	// bytes a second between a device and the host's memory, where sums are formed; 0: none
	copies  float64
	overlap bool // whether sums are formed during the backward pass
}

// A link is what joins the machines, a rank's own share of it.
type link struct {
	rate    float64 // bytes a second, each way
	latency float64 // seconds of a message
}

// options are how a training is divided. The batch of a rank stays the same, however many there
// are.
type options struct {
	ranks, batch, accumulate int
	bf16                     bool
}

// cost is the seconds of a step.
type cost struct {
	compute float64 // forward, backward and the optimiser's step
	cores   float64 // what summing takes from the cores that compute
	waiting float64 // for sums that the backward pass has not hidden
}

func (c cost) total() float64 { return c.compute + c.cores + c.waiting }

// bucketBytes is how much is summed at a time, at least; see package train.
const bucketBytes = 1 << 20

// moved is how many bytes a rank sends, and as many it receives, to sum so many: each rank adds up
// one part of all ranks' values, and hands it to the others. No way needs fewer.
func moved(bytes float64, ranks int) float64 {
	return 2 * bytes * float64(ranks-1) / float64(ranks)
}

// sum is how long the link takes for a bucket: as many messages as recursive halving and doubling
// has (Thakur, Rabenseifner and Gropp 2005).
func (l link) sum(bytes float64, ranks int) float64 {
	return 2*math.Ceil(math.Log2(float64(ranks)))*l.latency + moved(bytes, ranks)/l.rate
}

// step is the time of a training step.
func (w work) step(m machine, l link, o options) (c cost) {
	accumulate := max(o.accumulate, 1)
	passes := 3.0 // forward, and backward for inputs and weights
	if accumulate > 1 {
		passes = 4 // forward twice
	}
	batch := float64(o.batch)
	c.compute = passes*w.forward()*batch/m.rate + float64(accumulate)*passes*m.weights*w.bytes() + m.update*w.bytes()
	if o.ranks < 2 {
		return c
	}
	size := 4.0
	if o.bf16 {
		size = 2
	}
	c.cores = m.sum * moved(w.bytes()*size/4, o.ranks) / m.cores
	ready, free, bucket := 0.0, 0.0, 0.0 // times since the backward pass began; bytes that wait
	send := func() {
		took := l.sum(bucket, o.ranks)
		if m.copies > 0 {
			took += 2 * bucket / m.copies
		}
		free, bucket = max(free, ready)+took, 0
	}
	backward := 2*w.forward()*batch/m.rate + 2*m.weights*w.bytes()
	if accumulate > 1 || !m.overlap {
		ready = backward
	}
	for n := len(w.layers) - 1; n >= 0; n-- {
		if ready < backward {
			ready += 2*w.layers[n].flops*batch/m.rate + 2*m.weights*4*w.layers[n].values
		}
		if bucket += size * w.layers[n].values; bucket >= bucketBytes*size/4 {
			send()
		}
	}
	if bucket > 0 {
		send()
	}
	c.waiting = max(0, free-backward)
	return c
}

// efficiency is how fast ranks are together, beside as many machines that do not wait for each
// other and have the batch at once.
func (w work) efficiency(m machine, l link, o options) float64 {
	return w.step(m, l, options{ranks: 1, batch: o.batch}).total() / w.step(m, l, o).total()
}

package devicetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Elementwise checks Add, Scale, ScaleChannels and SumChannels.
func Elementwise(t *testing.T, dev device.Device) {
	for _, s := range append(shapes, matrices...) {
		t.Run(fmt.Sprint([]int(s)), func(t *testing.T) {
			r := newRand(uint64(s.Elements()))
			x := random(r, s...)
			compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Add(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{x, random(r, s...)})
			compare(t, dev, tight,
				func(d device.Device) (device.Kernel, error) { return d.Scale(tensorOf(dev, s), -0.3) },
				[]operand{output(s...)}, []operand{x})
			compare(t, dev, tight,
				func(d device.Device) (device.Kernel, error) { return d.ScaleChannels(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{x, random(r, s[0], s[1])})
			compare(t, dev, lossyTolerance,
				func(d device.Device) (device.Kernel, error) { return d.SumChannels(tensorOf(dev, s)) },
				[]operand{output(s[1])}, []operand{x})
		})
	}
	for _, s := range []device.Shape{{}, {5}, {2, 3, 4}} {
		r := newRand(1)
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Add(tensorOf(dev, s)) },
			[]operand{output(s...)}, []operand{random(r, s...), random(r, s...)})
		compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Scale(tensorOf(dev, s), 3) },
			[]operand{output(s...)}, []operand{random(r, s...)})
	}
	t.Run("in place", func(t *testing.T) {
		r := newRand(2)
		for _, s := range shapes {
			inPlace(t, dev, func(d device.Device) (device.Kernel, error) { return d.Add(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{random(r, s...), random(r, s...)}, [2]int{0, 0})
		}
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.SumChannels(device.Tensor{Shape: device.Shape{0, 1}})
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.ScaleChannels(device.Tensor{Shape: device.Shape{1, 2, 3}})
	})
}

// Concat checks Concat and Split.
func Concat(t *testing.T, dev device.Device) {
	for _, channels := range [][]int{{1}, {5}, {16, 16}, {32, 16}, {16, 3}, {8, 8}, {1, 1}, {3, 1, 17}, {4, 16, 12},
		{17, 16}, {1, 16}, {48, 1}, {2, 2, 2, 2}} {
		for _, size := range [][3]int{{3, 2, 5}, {11, 13, 9}} {
			s := device.ConcatSpec{N: 2, Channels: channels, Size: size, Type: dev.Activations()}
			t.Run(fmt.Sprint(channels, size), func(t *testing.T) {
				r := newRand(uint64(len(channels)))
				var parts, gaps []operand
				for i := range channels {
					parts, gaps = append(parts, random(r, s.Operand(i)...)), append(gaps, output(s.Operand(i)...))
				}
				compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.Concat(s) },
					[]operand{output(s.Whole()...)}, parts)
				compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.Split(s) }, gaps,
					[]operand{random(r, s.Whole()...)})
			})
		}
	}
	for _, channels := range [][]int{{16, 16}, {32, 16, 3}, {16, 1}, {5, 16}, {1, 1}, {3}} {
		for n := 1; n <= 2; n++ {
			adjacent(t, dev, device.ConcatSpec{N: n, Channels: channels, Size: [3]int{3, 2, 5},
				Type: dev.Activations()})
		}
	}
	refuses(t, dev, func(d device.Device) (device.Kernel, error) { return d.Concat(device.ConcatSpec{N: 1}) })
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.Split(device.ConcatSpec{N: 1, Channels: []int{0}, Size: [3]int{1, 1, 1}})
	})
}

// adjacent checks that parts that lie one after the other are the whole, where a device says so.
func adjacent(t *testing.T, dev device.Device, s device.ConcatSpec) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	join, err := dev.Concat(s)
	fail(err)
	if j, ok := join.(device.Joiner); !ok || !j.Adjacent() {
		return
	}
	all, err := dev.Alloc(dev.Size(tensorOf(dev, s.Whole())))
	fail(err)
	apart, err := dev.Alloc(dev.Size(tensorOf(dev, s.Whole())))
	fail(err)
	scratch, err := dev.Alloc(join.Scratch())
	fail(err)
	r, offset := newRand(3), int64(0)
	var parts []device.Buffer
	for i := range s.Channels {
		n := dev.Size(tensorOf(dev, s.Operand(i)))
		part, err := dev.Alloc(n)
		fail(err)
		values := random(r, s.Operand(i)...).data
		fail(dev.Upload(part, tensorOf(dev, s.Operand(i)), values))
		fail(dev.Upload(dev.View(all, offset, n), tensorOf(dev, s.Operand(i)), values))
		parts, offset = append(parts, part), offset+n
	}
	join.Run([]device.Buffer{apart}, parts, scratch)
	got, want := make([]float32, s.Whole().Elements()), make([]float32, s.Whole().Elements())
	fail(dev.Download(got, all, tensorOf(dev, s.Whole())))
	fail(dev.Download(want, apart, tensorOf(dev, s.Whole())))
	if offset != dev.Size(tensorOf(dev, s.Whole())) || !slices.Equal(got, want) {
		t.Errorf("%+v: the parts one after the other are not the whole", s)
	}
}

// Reshape checks Flatten and Unflatten.
func Reshape(t *testing.T, dev device.Device) {
	for _, s := range append(shapes, matrices...) {
		t.Run(fmt.Sprint([]int(s)), func(t *testing.T) {
			r := newRand(1)
			flat := device.Shape{s[0], s[1:].Elements()}
			compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.Flatten(tensorOf(dev, s)) },
				[]operand{output(flat...)}, []operand{random(r, s...)})
			// copies to activations are exact if they can be
			y := rounded(dev, []operand{random(r, s...)})[0]
			y.shape = flat
			compare(t, dev, 0, func(d device.Device) (device.Kernel, error) { return d.Unflatten(tensorOf(dev, s)) },
				[]operand{output(s...)}, []operand{y})
		})
	}
	refuses(t, dev,
		func(d device.Device) (device.Kernel, error) { return d.Flatten(device.Tensor{Shape: device.Shape{3}}) })
}

// Pool checks maxima, among them ties, and averages.
func Pool(t *testing.T, dev device.Device) {
	specs := []device.PoolSpec{
		{Shape: device.Shape{2, 3, 4, 6, 4}, Kernel: [3]int{2, 2, 2}, Stride: [3]int{2, 2, 2}},
		{Shape: device.Shape{1, 17, 5, 7, 3}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{2, 2, 2}, Pad: [3]int{1, 1, 1}},
		{Shape: device.Shape{2, 1, 5, 7, 6}, Kernel: [3]int{3, 2, 1}, Stride: [3]int{1, 1, 2}, Pad: [3]int{2, 0, 0}},
		{Shape: device.Shape{1, 32, 1, 8, 9}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2}},
	}
	for _, s := range specs {
		for _, average := range []bool{false, true} {
			s.Average, s.Type = average, dev.Activations()
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				r := newRand(1)
				// whole numbers tie
				for _, x := range []operand{random(r, s.Shape...), whole(r, 0, 3, s.Shape...)} {
					compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.Pool(s) },
						[]operand{output(s.OutShape()...)}, []operand{x})
					compare(t, dev, tight, func(d device.Device) (device.Kernel, error) { return d.PoolGrad(s) },
						[]operand{output(s.Shape...)},
						[]operand{x, random(r, s.OutShape()...), random(r, s.OutShape()...)})
				}
			})
		}
	}
	t.Run("gradients", func(t *testing.T) {
		for _, average := range []bool{false, true} {
			s := device.PoolSpec{Shape: device.Shape{1, 2, 4, 3, 5}, Kernel: [3]int{3, 2, 3}, Stride: [3]int{1, 2, 2},
				Pad: [3]int{1, 1, 0}, Average: average}
			differentiable{
				forward:  func(d device.Device) (device.Kernel, error) { return d.Pool(s) },
				backward: func(d device.Device) (device.Kernel, error) { return d.PoolGrad(s) },
				out:      []operand{output(s.OutShape()...)}, in: []operand{random(newRand(4), s.Shape...)},
				wrt: []int{0},
				gradients: func(out, in []values, dy values) (grads, operands []values) {
					return []values{like(in[0])}, []values{in[0], out[0], dy}
				},
			}.check(t)
		}
	})
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.Pool(device.PoolSpec{Shape: device.Shape{1, 1, 2, 2, 2}, Kernel: [3]int{3, 3, 3},
			Stride: [3]int{1, 1, 1}})
	})
}

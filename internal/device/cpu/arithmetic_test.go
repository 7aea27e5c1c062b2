package cpu

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The arithmetic of each algorithm, by hand.
func TestWork(t *testing.T) {
	c, err := New(Options{Threads: 1, Choices: map[string]string{ChoiceKey(cube(1, 32, 32, 8, 5, 1, 2),
		Forward): "Winograd F(4,5) by tiles"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	direct, err := New(Options{Threads: 1, Conv: "direct"})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for _, test := range []struct {
		c                *CPU
		s                device.ConvSpec
		kind             ConvKind
		algorithm        string
		products, points float64
	}{
		{direct, cube(1, 32, 32, 8, 5, 1, 2), Forward, "direct", 2 * 512 * 125 * 32 * 32, 0},
		// whole vectors
		{direct, cube(2, 20, 2, 8, 1, 1, 0), Forward, "direct", 2 * 2 * 512 * 32 * 16, 0},
		{direct, cube(1, 1, 16, 8, 5, 1, 2), Forward, "direct", 2 * 512 * 125 * 16, 0},
		{c, cube(1, 32, 32, 8, 5, 1, 2), Forward, "Winograd F(4,5) by tiles", 2 * 512 * 8 * 32 * 32,
			4 * 512 * (3.5*8*64 + 2*32*32)},
		// tiles of 4 outputs, and of 8 gradients of inputs; of 9 points 6 have weights of their own
		{c, cube(1, 32, 64, 16, 3, 2, 1), Forward, "Winograd F(4,3)/2 by channels", 2 * 8 * 729 * 32 * 64,
			4 * (729*3.5*8*96 + 216*2*32*64)},
		{c, cube(1, 32, 64, 16, 3, 2, 1), Transposed, "Winograd F(8,3)*2 by channels", 2 * 8 * 729 * 32 * 64,
			4 * (729*3.5*8*96 + 216*2*32*64)},
		{c, cube(1, 1, 16, 8, 5, 1, 2), Forward, "one channel", 2 * 8 * 2 * 64 * 25 * 16, 4 * 2 * 8 * 2 * 64 * 16},
		// along an axis each output sees both inputs
		{c, cube(3, 16, 16, 2, 5, 1, 2), Forward, "live taps", 2 * 3 * 4 * 4 * 4 * 16 * 16, 0},
		// of one image a row is multiplied by the three taps that one of its outputs needs
		{c, cube(1, 16, 16, 2, 5, 1, 2), Forward, "live taps", 2 * 4 * 4 * 6 * 16 * 16, 0},
		{c, cube(1, 16, 16, 2, 5, 1, 2), Transposed, "live taps", 2 * 4 * 4 * 6 * 16 * 16, 0},
		{c, cube(1, 16, 16, 2, 5, 1, 2), Weights, "live taps", 2 * 4 * 4 * 4 * 16 * 16, 0},
	} {
		w, err := test.c.Work(test.s, test.kind)
		if err != nil || w.Algorithm != test.algorithm || w.Products != test.products || w.Points != test.points ||
			w.Operands <= 0 {
			t.Errorf("%+v: %+v, %v; want %+v", test.s, w, err, test)
		}
	}
}

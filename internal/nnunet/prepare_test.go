package nnunet

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// summed is numpy's sum of values that lie in one piece.
func summed(x []float32) float32 {
	n := len(x)
	if n <= 128 {
		var r [8]float32
		var sum float32
		whole := n - n%8
		for i, v := range x[:whole] {
			r[i%8] += v
		}
		if n >= 8 {
			sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		}
		for _, v := range x[whole:] {
			sum += v
		}
		return sum
	}
	middle := n / 2
	middle -= middle % 8
	return summed(x[:middle]) + summed(x[middle:])
}

// Mean and standard deviation of a view are those of a copy of what is chosen of it, to the bit,
// and so are the voxels that are normalised by them.
func TestMoments(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][3]int{{1, 2, 3}, {1, 3, 5}, {4, 5, 7}, {13, 17, 19}} {
		whole := newArray[float32]([3]int{shape[1] + 1, shape[2] + 2, shape[0] + 3})
		for n := range whole.values {
			whole.values[n] = float32(random.NormFloat64()*300 - 100)
		}
		b := box{from: [3]int{2, 1, 1}}
		for a, n := range shape {
			b.to[a] = b.from[a] + n
		}
		turned := whole.view().transposed([3]int{2, 0, 1})
		inside := newArray[bool](turned.shape)
		for n := range inside.values {
			inside.values[n] = random.IntN(3) > 0
		}
		for _, masked := range []bool{false, true} {
			x := array[float32]{whole.shape, slices.Clone(whole.values)}.view().transposed([3]int{2, 0, 1}).part(b)
			values, in := x.copied().values, inside.view().part(b).copied().values
			var chosen, squares []float32
			for n, v := range values {
				if !masked || in[n] {
					chosen = append(chosen, v)
				}
			}
			n := float32(len(chosen))
			mean := summed(chosen) / n
			for _, v := range chosen {
				squares = append(squares, (v-mean)*(v-mean))
			}
			sd := float32(math.Sqrt(float64(summed(squares) / n)))
			want := slices.Clone(values)
			for n, v := range values {
				if !masked || in[n] {
					want[n] = (v - mean) / sd
				}
			}
			c := channel{scheme: schemeZScore, masked: masked}
			if err := c.normalise(x, inside, b); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x.copied().values, want) {
				t.Errorf("%v, masked %v: other voxels", shape, masked)
			}
		}
	}
}

// What nnU-Net would not go on with is refused: voxels that are no numbers, and colours that are
// none.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct {
		scheme string
		value  float32
		want   string
	}{
		{schemeZScore, float32(math.NaN()), "it has voxels that are not finite: put numbers in their place"},
		{schemeRGB, 256, "its values go from 0 to 256, and the model was trained on colours of 0 to 255"},
		{schemeRGB, -1, "its values go from -1 to 0"},
		{schemeRGB, 255, ""},
	} {
		x := newArray[float32]([3]int{2, 2, 2})
		x.values[3] = c.value
		err := channel{scheme: c.scheme}.normalise(x.view(), array[bool]{}, box{to: x.shape})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.scheme, c.value, err, c.want)
		}
	}
}

// A scan that is not resampled is prepared in the memory that is said, whatever normalises it.
func TestMemoryOfPreparing(t *testing.T) {
	const side = 64
	for _, c := range []channel{{scheme: schemeCT}, {scheme: schemeZScore}, {scheme: schemeZScore, masked: true},
		{scheme: schemeRescale}, {scheme: schemeNone}} {
		for _, channels := range []int{1, 2} {
			m := &Model{Plan: &Plan{}}
			m.Forward, m.Spacing = [3]int{0, 1, 2}, [3]float64{1, 1, 1}
			p := &Predictor{Model: m}
			var scans []*volume.Volume
			for range channels {
				m.Plan.Channels = append(m.Plan.Channels, c)
				g := volume.Grid{Shape: [3]int{side, side, side}}
				for a := range 3 {
					g.Affine[a][a] = 1
				}
				v := &volume.Volume{Grid: g, Int16: make([]int16, side*side*side)}
				for n := range v.Int16 {
					v.Int16[n] = int16(n%200 + 1)
				}
				scans = append(scans, v)
			}
			e, err := p.scanned(scans[0].Grid, 2)
			if err != nil {
				t.Fatal(err)
			}
			turn, err := p.turn(scans[0].Grid, scans[0].Pixdim)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := p.prepare(scans, turn); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			took := int64(after.TotalAlloc - before.TotalAlloc)
			took -= e.scan                         // of what is outside, which is let go of at once
			took -= 4 * e.scan * int64(channels-1) // and the channels that are copied
			const slack = 64 << 10                 // of small things
			if took > e.preparing+slack {
				t.Errorf("%s, masked %v, %d channels: %d bytes a voxel, said are %d", c.scheme, c.masked, channels,
					took/e.scan, e.preparing/e.scan)
			}
		}
	}
}

// What nnU-Net's own classes of normalisation and its function of resampling make of small arrays,
// with the arguments that plans give them. testdata/nnunet_prepared.py says how it was made.
func TestArraysOfNNUNet(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "nnunet_prepared", "arrays.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Shape      [3]int
		Values     []float32
		Inside     []int
		Statistics intensities
		Normalised []struct {
			Scheme     string
			Masked     bool
			From, Want []float32
		}
		Resampled []struct {
			Kwargs       json.RawMessage
			Spacing, New [3]float64
			Shape        [3]int
			Want         []float32
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Normalised) != 28 || len(golden.Resampled) != 16 {
		t.Fatal("the golden file is not whole", err)
	}
	inside := newArray[bool](golden.Shape)
	for n, in := range golden.Inside {
		inside.values[n] = in > 0
	}
	differ := func(got, want []float32) (most float64) {
		if len(got) != len(want) {
			t.Fatalf("%d values, want %d", len(got), len(want))
		}
		for n, v := range want {
			most = max(most, math.Abs(float64(got[n]-v))/max(1, math.Abs(float64(v))))
		}
		return most
	}
	for n, c := range golden.Normalised {
		x := array[float32]{golden.Shape, slices.Clone(c.From)}
		how := channel{scheme: c.Scheme, masked: c.Masked, intensities: golden.Statistics}
		if err := how.normalise(x.view(), inside, box{to: golden.Shape}); err != nil {
			t.Fatal(err)
		}
		if d := differ(x.values, c.Want); d > 1e-6 {
			t.Errorf("%d: %s, masked %v: up to %g off", n, c.Scheme, c.Masked, d)
		}
	}
	x := array[float32]{golden.Shape, golden.Values}
	for _, c := range golden.Resampled {
		var how resampling
		if err := json.Unmarshal(c.Kwargs, &how); err != nil || how.unknown != nil {
			t.Fatal(err, how.unknown)
		}
		got := how.resampled(x.view(), c.Shape, c.Spacing, c.New)
		if d := differ(got.values, c.Want); d > 1e-6 {
			t.Errorf("%s from %v to %v: up to %g off", c.Kwargs, c.Spacing, c.New, d)
		}
	}
}

// The spacing is what SimpleITK 2.5 reads of the same headers, which is pixdim whatever sform and
// qform say; of axes that are turned, what nibabel says: the affine's, as it writes a header anew.
// testdata/nnunet_spacing.py says how it was made.
func TestSpacingIsThatOfSimpleITK(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "nnunet_spacing.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Name    string
		File    []byte
		Spacing [3]float64
		Turned  *[3]float64
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) != 14 {
		t.Fatal("the golden file is not whole", err)
	}
	for _, c := range golden {
		path := filepath.Join(t.TempDir(), "a.nii")
		if err := os.WriteFile(path, c.File, 0o666); err != nil {
			t.Fatal(err)
		}
		v, err := nifti.Read(path)
		if err != nil {
			t.Fatal(c.Name, err)
		}
		for turned, want := range map[bool]*[3]float64{false: &c.Spacing, true: c.Turned} {
			if want == nil {
				continue
			}
			again := copies([]*volume.Volume{v})[0]
			own, err := (&Plan{Turned: turned}).turn(again.Grid, again.Pixdim)
			if err != nil || own.spacing != [3]float64{want[2], want[1], want[0]} {
				t.Errorf("%s, turned %v: %v, want %v reversed; %v", c.Name, turned, own.spacing, *want, err)
			}
		}
	}
}

package puzzle2d

import (
	"compress/gzip"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// By hand: a region of 10x20 pixels and an object of twice its width, whose centre lies 5 to the
// right and 2 above.
func TestOffsets(t *testing.T) {
	region, object := voc.Box{11, 21, 20, 40}, voc.Box{11, 19, 30, 38}
	want := [4]float64{0.5, -0.1, math.Log(2), 0}
	for i, v := range offsets(region, object) {
		if math.Abs(v-want[i]) > 1e-12 {
			t.Errorf("offset %d is %v, want %v", i, v, want[i])
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	box := func() voc.Box {
		x, y := 1+r.Float64()*60, 1+r.Float64()*60
		return voc.Box{x, y, x + r.Float64()*30, y + r.Float64()*30}
	}
	for range 100 {
		a, b := box(), box()
		back := moved(a, offsets(a, b), 100, 100)
		for i := range back {
			if math.Abs(back[i]-b[i]) > 1e-9 {
				t.Fatalf("from %v to %v and back: %v", a, b, back)
			}
		}
	}
	if got := moved(voc.Box{1, 1, 10, 10}, [4]float64{0, 0, 99, -99}, 50, 40); got[0] != 1 || got[2] != 50 ||
		!(got[3] >= got[1]) {
		t.Errorf("a box that runs away becomes %v", got)
	}
	if got := mirrored(voc.Box{1, 5, 10, 6}, 50); got != (voc.Box{41, 5, 50, 6}) {
		t.Errorf("mirrored: %v", got)
	}
}

// What a step shows leads back to the objects: moved by its target, each foreground region lies on
// an object of its class, mirrored or not, and background overlaps with none by half.
func TestRegionsOfAStep(t *testing.T) {
	store, root := vocOf(t, nil)
	_, data := roles(t, store, OnTrain)
	c := smallDetect(root)
	c.Images, c.Regions = 3, 24
	c = resolvedFor(t, c, store, OnTrain)
	l := newDetectionLearner(c, data)
	width, height := store.Size()
	front, back, flips := 0, 0, map[bool]bool{}
	for step := range 20 {
		b, err := l.Batch(context.Background(), step)
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Batch(context.Background(), step)
		if err != nil || !slices.Equal(b.photographs, again.photographs) || !slices.Equal(b.regions, again.regions) {
			t.Fatalf("step %d is not the same twice: %v", step, err)
		}
		for image, name := range b.names {
			photo := slices.IndexFunc(data.train, func(n int) bool { return store.Name(n) == name })
			objects := data.objects(data.train[photo])
			w, h := store.Original(data.train[photo])
			size := 3 * width * height
			plain := make([]float32, size)
			if err := c.Input.write(plain, view{of: store.Photo(data.train[photo]), height: height,
				width: width}); err != nil {
				t.Fatal(err)
			}
			flipped := !slices.Equal(plain, b.photographs[image*size:(image+1)*size])
			flips[flipped] = true
			count := 0
			for row := image * c.Regions; row < (image+1)*c.Regions; row++ {
				if b.truth[row] < 0 {
					continue
				}
				region := b.regions[5*row : 5*row+5]
				if int(region[0]) != image {
					t.Fatalf("a region of photograph %d has number %v", image, region[0])
				}
				box := voc.Box{}
				for i := range box {
					box[i] = float64(region[1+i])*[]float64{float64(w) / float64(width),
						float64(h) / float64(height)}[i%2] + 1
				}
				if flipped {
					box = mirrored(box, w)
				}
				which, overlap := nearest(box, objects)
				if b.truth[row] == 0 {
					if back++; overlap >= 0.5+1e-5 || overlap < 0.1-1e-5 {
						t.Errorf("background overlaps by %v", overlap)
					}
					continue
				}
				front++
				count++
				class := int(b.truth[row]) - 1
				var move [4]float64
				for i := range move {
					at := row*4*4 + 4*(class+1) + i
					move[i] = float64(b.moves[at])*c.BoxDeviation[4*class+i] + c.BoxMean[4*class+i]
					if !(b.weights[at] >= 1) {
						t.Errorf("a move of weight %v", b.weights[at])
					}
				}
				if flipped {
					move[0] = -move[0]
				}
				if got := moved(box, move, w, h); objects[which].class != class ||
					got.Overlap(objects[which].box) < 0.999 {
					t.Errorf("%s: %v of class %d is moved to %v, the object is %v", name, box, class, got,
						objects[which])
				}
			}
			if count > 6 { // a quarter of 24
				t.Errorf("%d regions of 24 are foreground", count)
			}
		}
	}
	if front < 100 || back < 100 || len(flips) != 2 {
		t.Errorf("%d of foreground, %d of background, mirrored: %v", front, back, flips)
	}
}

// The mean and the deviation of the moves make them of mean 0 and deviation 1 in each class.
func TestMovesAreNormalised(t *testing.T) {
	store, root := vocOf(t, nil)
	_, data := roles(t, store, OnTrain)
	c := smallDetect(root)
	c = resolvedFor(t, c, store, OnTrain)
	moves := make([][]float64, 12)
	for _, photo := range data.train {
		objects := data.objects(photo)
		for _, box := range c.candidates(photo, objects) {
			if which, overlap := nearest(box, objects); overlap >= 0.5 {
				for i, v := range offsets(box, objects[which].box) {
					k := 4*objects[which].class + i
					moves[k] = append(moves[k], (v-c.BoxMean[k])/c.BoxDeviation[k])
				}
			}
		}
	}
	for k, list := range moves {
		var sum, squares float64
		for _, v := range list {
			sum, squares = sum+v, squares+v*v
		}
		n := float64(len(list))
		if n < 20 || math.Abs(sum/n) > 1e-9 || math.Abs(squares/n-1) > 1e-6 {
			t.Errorf("move %d: %v values, mean %v, mean square %v", k, n, sum/n, squares/n)
		}
	}
}

// The gradient of both losses through the heads, the pooled regions and the convolutions is the
// slope of the loss.
func TestDetectionGradient(t *testing.T) {
	store, root := vocOf(t, nil)
	_, data := roles(t, store, OnTrain)
	c := smallDetect(root)
	c = resolvedFor(t, c, store, OnTrain)
	dev, err := device.From(open(t))
	if err != nil {
		t.Fatal(err)
	}
	l := newDetectionLearner(c, data)
	b, err := l.Batch(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	width, height := store.Size()
	g := nn.NewGraph(nn.Train, device.Float32)
	out, err := c.network(g, height, width)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 1)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	program, err := nn.Compile(dev, g, params, nn.Options{Loss: out["loss"]})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	loss := func() float64 {
		v, err := forward(program, map[string][]float32{"photographs": b.photographs, "regions": b.regions,
			"truth": b.truth, "moves": b.moves, "weights": b.weights})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	loss()
	if err := program.Backward(); err != nil {
		t.Fatal(err)
	}
	gradients := map[string][]float32{} // a further run spoils them
	for _, name := range []string{"cls_score.weight", "cls_score.bias", "bbox_pred.weight", "bbox_pred.bias",
		"encoder.layer4.1.conv2.weight", "encoder.layer3.1.bn2.weight", "encoder.layer1.0.conv1.weight"} {
		if gradients[name], err = params.Grad(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, gradient := range gradients {
		values, err := params.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		// along the gradient itself, the loss rises by its squared length
		squares := 0.0
		for _, v := range gradient {
			squares += float64(v) * float64(v)
		}
		if squares == 0 {
			t.Errorf("%s has no gradient", name)
			continue
		}
		at := func(step float64) float64 {
			shifted := slices.Clone(values)
			for i := range shifted {
				shifted[i] += float32(step / math.Sqrt(squares) * float64(gradient[i]))
			}
			if err := params.Write(name, shifted); err != nil {
				t.Fatal(err)
			}
			return loss()
		}
		const step = 5e-4
		slope := (at(step) - at(-step)) / (2 * step)
		if err := params.Write(name, values); err != nil {
			t.Fatal(err)
		}
		if want := math.Sqrt(squares); math.Abs(slope-want) > 0.03*want {
			t.Errorf("%s: the loss rises by %v, its gradient says %v", name, slope, want)
		}
	}
}

// Proposals in gzip, behind a byte-order mark and with Windows' line ends, are the same; of more
// than are wanted, the first ones are taken.
func TestReadProposals(t *testing.T) {
	store, root := vocOf(t, nil)
	path := filepath.Join(root, voctest.Proposals)
	plain, err := ReadProposals(path, store, 3)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadProposals(path, store, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	windows := append([]byte("\ufeff"), text...)
	windows = []byte(string(windows[:len(windows)-1]))
	packed := filepath.Join(t.TempDir(), "proposals.csv.gz")
	f, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	for _, b := range windows {
		if b == '\n' {
			z.Write([]byte{'\r'})
		}
		if _, err := z.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	again, err := ReadProposals(packed, store, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range store.Len() {
		if !slices.Equal(again.boxes[n], all.boxes[n]) || !slices.Equal(plain.boxes[n], all.boxes[n][:3]) ||
			len(all.of(n)) < 12 {
			t.Fatalf("photograph %d has %v, %v and %v", n, plain.boxes[n], all.boxes[n], again.boxes[n])
		}
	}
	if again.digest == all.digest || plain.digest != all.digest || len(all.digest) != 64 {
		t.Errorf("digests %s, %s, %s", plain.digest, all.digest, again.digest)
	}
}

// Of a class, boxes that overlap with more confident ones go; of all, the least confident.
func TestKeep(t *testing.T) {
	c := DefaultDetection()
	c.MostDetections = 2
	at := func(class int, x, confidence float64) found {
		return found{class, voc.Detection{Box: voc.Box{x, 1, x + 9, 10}, Confidence: confidence}}
	}
	kept, err := c.keep([][]found{{at(0, 1, 0.9), at(0, 2, 0.95), at(0, 50, 0.2)}, {at(1, 1, 0.5)}})
	if err != nil || !slices.Equal(kept, []found{at(0, 2, 0.95), at(1, 1, 0.5)}) {
		t.Errorf("%v, %v", kept, err)
	}
}

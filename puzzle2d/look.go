package puzzle2d

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/tiles"
)

// Look draws how the weights of a checkpoint of [Pretrain] or [TrainClassifier] do what they
// learnt, on the first of the photographs that are held out; where none is, on the first to train
// on. The caption says what is drawn, and how much of it is right. Errors name the checkpoint, or
// the photograph.
//
// Of a puzzle this is [Play.Picture]. Of rotations it is the photograph, turned in all ways; of
// positions, its patches around that in the middle; of labels, up to eight photographs, spread
// evenly. What is told wrong has a red frame.
func Look(ctx context.Context, dev voxsaw.Device, path string, data Data) (picture image.Image, caption string,
	err error) {
	chosen := slices.Concat(data.Validate, data.Train)
	if len(chosen) == 0 {
		return nil, "", fmt.Errorf("there are no photographs to show what %s has learnt", path)
	}
	kinds := []string{kind}
	for _, task := range []string{Labels, Rotation, Position} {
		kinds = append(kinds, photoTask(task))
	}
	d, err := checkpoint.ReadKind(path, "what is learnt by voxsaw 2d pretrain is drawn", kinds...)
	if err != nil {
		return nil, "", err
	}
	if d.Kind != kind {
		return lookAtClasses(dev, path, strings.TrimPrefix(d.Kind, photoTask("")), data)
	}
	player, err := Open(ctx, dev, path, PlayOptions{})
	if err != nil {
		return nil, "", err
	}
	defer player.Close()
	play, err := player.Play(data.Photos, chosen[0])
	if err != nil {
		return nil, "", err
	}
	return play.Picture(), fmt.Sprintf("A puzzle of %s, shuffled and after each round: %d of %d patches are "+
		"misplaced at the end, and have a red frame.",
		play.Photo, play.Misplaced(len(play.Arrangements)-1), len(play.Arrangements[0])), nil
}

// lookAtClasses is [Look] with a [Classification] of a task.
func lookAtClasses(dev voxsaw.Device, path, task string, data Data) (image.Image, string, error) {
	c := DefaultClassification(task)
	d, params, err := pretext.Restore(dev, path, photoTask(task), &c, func(params *nn.Params) error {
		g := nn.NewGraph(nn.Eval, params.Device().Activations())
		if c.logits(g, 1); g.Err() != nil {
			return g.Err()
		}
		return params.Declare(g)
	})
	if err != nil {
		return nil, "", err
	}
	defer params.Close()
	if task == Labels {
		if known := data.Photos.Classes(); !slices.Equal(known, c.Classes) {
			return nil, "", fmt.Errorf("%s tells %d classes apart, and the photographs are of %d others", path,
				len(c.Classes), len(known))
		}
		if data, _, err = data.labelled(); err != nil {
			return nil, "", err
		}
	}
	g := nn.NewGraph(nn.Eval, d.Activations())
	program, err := nn.Compile(d, g, params, nn.Options{Outputs: map[string]*nn.Node{"answer": c.logits(g, 1)[0]}})
	if err != nil {
		return nil, "", fmt.Errorf("preparing the network of %s: %w", path, err)
	}
	defer program.Close()
	return drawClasses(work{Classification: c, data: data}, func(images []float32) (int, error) {
		logits := make([]float32, len(c.Classes))
		err := program.Set("image", images)
		if err == nil {
			err = program.Forward()
		}
		if err == nil {
			err = program.Read("answer", logits)
		}
		return classify.Best(logits), err
	})
}

// photoTask is what checkpoints of a [Classification] are called.
func photoTask(task string) string { return checkpoint.OnPhotographs + task }

// drawClasses draws items of a classification, and which of them answer, which is given what the
// network looks at, tells right.
func drawClasses(w work, answer func(images []float32) (int, error)) (image.Image, string, error) {
	photographs := slices.Concat(w.data.Validate, w.data.Train)
	items, columns := len(w.Classes), classify.Columns
	switch w.Task {
	case Labels:
		if len(w.data.Validate) > 0 {
			photographs = w.data.Validate
		}
		photographs = Spread(photographs, classify.Columns)
		items = len(photographs)
	case Position:
		columns = 3
	}
	// the same pixels, as they are
	plain := w
	plain.Input = Input{Mean: MeanDataset}
	images, side := w.images()
	values, pixels := make([]float32, images*3*side*side), make([]float32, images*3*side*side)

	page, place := tiles.Sheet(items+images-1, columns)
	right := 0
	for k := range items {
		photo, class, at := photographs[0], k, place(k)
		switch w.Task {
		case Labels:
			photo, class = photographs[k], w.data.Photos.Label(photographs[k])
		case Position:
			at = place(around(k))
		}
		into := func(dst []float32) func(string, []int) []float32 {
			return func(string, []int) []float32 { return dst }
		}
		if err := w.cut(photo, class, nil, into(values)); err != nil {
			return nil, "", err
		}
		if err := plain.cut(photo, class, nil, into(pixels)); err != nil {
			return nil, "", err
		}
		told, err := answer(values)
		if err != nil {
			return nil, "", err
		}
		if w.Task == Position {
			page.Tile(place(middle), square(pixels, side))
		}
		page.Tile(at, square(pixels[(images-1)*3*side*side:], side))
		if told == class {
			right++
		} else {
			page.Frame(at, 3, tiles.Wrong)
		}
	}
	name := w.data.Photos.Name(photographs[0])
	switch w.Task {
	case Rotation:
		return page.RGBA, fmt.Sprintf("%s, turned by 0, 90, 180 and 270 degrees: %d are told right. "+
			"A red frame marks the others.",
			name, right), nil
	case Position:
		page.Frame(place(middle), 3, tiles.Right)
		return page.RGBA, fmt.Sprintf("The 8 neighbours of the patch in the middle (green frame) of %s: "+
			"of %d the network says where they lie. A red frame marks the others.",
			name, right), nil
	}
	return page.RGBA, fmt.Sprintf("%d photographs, of which the class of %d is told right. "+
		"A red frame marks the others.",
		items, right), nil
}

// square is pixels (3, side, side), divided by pixelScale, as an image.
func square(pixels []float32, side int) image.Image {
	m, n := image.NewRGBA(image.Rect(0, 0, side, side)), side*side
	level := func(v float32) uint8 { return uint8(v*pixelScale + 0.5) }
	for i := range n {
		m.SetRGBA(i%side, i/side, color.RGBA{level(pixels[i]), level(pixels[n+i]), level(pixels[2*n+i]), 255})
	}
	return m
}

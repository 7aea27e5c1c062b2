package puzzle2d

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// A teller tells classes with trained weights: a [Classification] on the list of pretext tasks.
type teller struct {
	*classify.Evaluator
	Classification
	path  string
	notes []string
}

// openTeller prepares a teller with the weights of a checkpoint.
func openTeller(dev voxsaw.Device, path, task string, o pretext.OpenOptions) (*teller, error) {
	e := &teller{Classification: DefaultClassification(task), path: path}
	d, params, err := pretext.Restore(dev, path, photoTask(task), &e.Classification, func(params *nn.Params) error {
		g := nn.NewGraph(nn.Eval, params.Device().Activations())
		if e.logits(g, 1); g.Err() != nil {
			return g.Err()
		}
		return params.Declare(g)
	})
	if err != nil {
		return nil, err
	}
	if o.Rounds > 1 || o.Items > 0 {
		e.notes = []string{"each photograph is looked at once: there are neither rounds nor shuffles"}
	}
	e.Evaluator, err = classify.NewEvaluator(d, e.work(), params, o, nil, nil)
	return e, err
}

// Notes implements [pretext.Evaluator].
func (e *teller) Notes() []string { return e.notes }

// choose leaves out the photographs of no class where classes are told.
func (e *teller) choose(of []sample.Sample) ([]sample.Sample, error) {
	if e.Task != Labels {
		return of, nil
	}
	if photo, ok := of[0].(photos.Photo); ok && !slices.Equal(photo.Store().Classes(), e.Classification.Classes) {
		return nil, fmt.Errorf("%s tells %d classes apart, and the photographs are of %d others", e.path,
			len(e.Classification.Classes), len(photo.Store().Classes()))
	}
	with := slices.DeleteFunc(slices.Clone(of), func(s sample.Sample) bool { return labelOf(s) < 0 })
	if len(with) == 0 {
		return nil, fmt.Errorf("none of the %s has a class: each class is a folder of its own",
			numbers.Count(len(of), "photograph"))
	}
	return with, nil
}

// Evaluate tells photographs as the validation does.
func (e *teller) Evaluate(ctx context.Context, photographs []sample.Sample) (pretext.Evaluation, error) {
	all := len(photographs)
	photographs, err := e.choose(photographs)
	if err != nil {
		return pretext.Evaluation{}, err
	}
	told, err := e.Evaluator.Evaluate(ctx, photographs)
	if err == nil {
		told.Record = map[string]any{"photos": told.Cases, "right": told.Final()[0], "chance": told.Chance[0]}
	}
	if left := all - len(photographs); left > 0 {
		told.Notes = append(told.Notes, fmt.Sprintf("Not looked at, having no class: %d of %s.", left,
			numbers.Count(all, "photograph")))
	}
	return told, err
}

// Picture shows how the task is done. Of rotations it is the photograph, turned in all ways; of
// positions, its patches around that in the middle; of labels, up to eight of the photographs that
// are held out, spread evenly. What is told wrong has a red frame.
func (e *teller) Picture(of sample.Sample) (pretext.Picture, error) {
	photographs := []sample.Sample{of}
	if photo, ok := of.(photos.Photo); ok && e.Task == Labels {
		data, _, err := labelled(Split(photo.Store()))
		if err != nil {
			return pretext.Picture{}, err
		}
		if len(data.Validate) == 0 {
			data.Validate = data.Train
		}
		if photographs, err = sample.Open(data.Store, data.Validate); err != nil {
			return pretext.Picture{}, err
		}
	}
	photographs, err := e.choose(photographs)
	if err != nil {
		return pretext.Picture{}, err
	}
	image, caption, err := drawClasses(e.Classification, photographs, e.Answer)
	return pretext.Picture{Image: image, Caption: caption}, err
}

// photoTask is what checkpoints of a [Classification] are called.
func photoTask(task string) string { return checkpoint.OnPhotographs + task }

// drawClasses draws items of a classification, and which of them answer, which is given what the
// network looks at, tells right.
func drawClasses(c Classification, photographs []sample.Sample,
	answer func(images []float32) (int, error)) (image.Image, string, error) {
	items, columns := len(c.Classes), classify.Columns
	switch c.Task {
	case Labels:
		photographs = Spread(photographs, classify.Columns)
		items = len(photographs)
	case Position:
		columns = 3
	}
	asTheyAre := c
	asTheyAre.Input = plain
	images, side := c.images()
	values, pixels := make([]float32, images*3*side*side), make([]float32, images*3*side*side)

	page, place := tiles.Sheet(items+images-1, columns)
	right := 0
	for k := range items {
		photo, class, at := photographs[0], k, place(k)
		switch c.Task {
		case Labels:
			photo, class = photographs[k], labelOf(photographs[k])
		case Position:
			at = place(classify.Neighbour(k, around.Cells()))
		}
		if err := c.cut(values, photo, class, nil); err != nil {
			return nil, "", err
		}
		if err := asTheyAre.cut(pixels, photo, class, nil); err != nil {
			return nil, "", err
		}
		told, err := answer(values)
		if err != nil {
			return nil, "", err
		}
		if c.Task == Position {
			page.Tile(place(middle), square(pixels, side))
		}
		page.Tile(at, square(pixels[(images-1)*3*side*side:], side))
		if told == class {
			right++
		} else {
			page.Frame(at, 3, tiles.Wrong)
		}
	}
	name := photographs[0].Name()
	switch c.Task {
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

// square is pixels (3, side, side), as they are, as an image.
func square(pixels []float32, side int) image.Image {
	m, n := image.NewRGBA(image.Rect(0, 0, side, side)), side*side
	for i := range n {
		m.SetRGBA(i%side, i/side, color.RGBA{uint8(pixels[i]), uint8(pixels[n+i]), uint8(pixels[2*n+i]), 255})
	}
	return m
}

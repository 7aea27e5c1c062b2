package restoration

import (
	"context"
	"errors"
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// crops that are made of each case to see how well it is restored.
const cropsOfCase = 2

// A restorer does the task with trained weights. The examples are of the crop in the middle of each
// case, and depend on its place among the cases alone; what they are mixed with is a crop of the
// next case.
type restorer struct {
	task
	program *nn.Program
	repeats int       // examples of each case
	told    []float32 // outputs of the network for the last example
}

// newRestorer compiles the program. It lies in the memory of another, if there is one.
func newRestorer(dev device.Device, t task, params *nn.Params, share *nn.Program, memory int64) (*restorer, error) {
	r := &restorer{task: t, repeats: cropsOfCase, told: make([]float32, toldOf(t, t.Network)*t.voxels())}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	outputs := t.network(g, "image", 1)
	if g.Err() != nil {
		return nil, fmt.Errorf("building the network: %w", g.Err())
	}
	var err error
	r.program, err = nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"outputs": outputs[0]},
		Share: share, MemoryLimit: memory})
	if err != nil {
		return nil, fmt.Errorf("preparing the network for crops of %s: %w", numbers.Extents(t.Crop[:]), err)
	}
	return r, nil
}

// restore calls f for every example of a case.
func (r *restorer) restore(cases []sample.Sample, at int, f func(example)) error {
	c := cases[at]
	for n := range r.repeats {
		draw := seed.Rand(0, r.name+"/evaluation", uint64(at), uint64(n))
		b := r.newBatch(1)
		err := r.make(draw, b, 0, func(crop int) (sample.Sample, [3]int, error) {
			if crop == 0 {
				return c, sample.Middle(c, r.Crop), nil
			}
			next := cases[(at+crop)%len(cases)]
			origin, err := sample.RandomOrigin(next, draw, r.Crop, r.MaxAir)
			return next, origin, err
		})
		if err == nil {
			err = r.program.Set("image", b.images)
		}
		if err == nil {
			err = r.program.Forward()
		}
		if err == nil {
			err = r.program.Read("outputs", r.told)
		}
		if err != nil {
			return fmt.Errorf("case %s: %w", c.Name(), err)
		}
		f(r.example(b, 0))
	}
	return nil
}

// evaluate counts how well cases are restored, which the ranks of a group share out.
func (r *restorer) evaluate(ctx context.Context, group train.Group, cases []sample.Sample) (e pretext.Evaluation,
	err error) {
	if len(cases) == 0 {
		return e, errors.New("there are no cases to restore")
	}
	each, err := train.Divide(ctx, group, len(cases), func(ctx context.Context, n int) (tallies, error) {
		t := r.newTallies()
		err := ctx.Err()
		if err == nil {
			err = r.restore(cases, n, func(e example) {
				t.which().add(e, r.told)
				t.Crops++
			})
		}
		return *t, err
	})
	if err != nil {
		return e, err
	}
	all := r.newTallies()
	for _, t := range each {
		all.join(t)
	}
	return all.which().evaluation(all.Crops, len(cases)), nil
}

// evaluator is a restorer on the list of pretext tasks.
type evaluator struct {
	*restorer
	params *nn.Params
	group  train.Group // that share the cases out
	notes  []string
}

// declared are settings that declare the parameters of the whole model.
type declared interface {
	pretext.Model
	Declare(*nn.Params) error
}

// open brings a checkpoint back, whose settings m are read into those of the task.
func open(dev voxsaw.Device, path string, m declared, t func() task, o pretext.OpenOptions) (*evaluator, error) {
	d, params, err := pretext.Restore(dev, path, t().name, m, m.Declare)
	if err != nil {
		return nil, err
	}
	e := &evaluator{params: params, group: o.Group()}
	if o.Rounds > 1 {
		e.notes = append(e.notes, "a crop is restored at once, there are no rounds")
	}
	if e.restorer, err = newRestorer(d, t(), params, nil, o.Memory); err != nil {
		params.Close()
		return nil, err
	}
	if o.Items > 0 {
		e.repeats = o.Items
	}
	return e, nil
}

// Close implements [pretext.Evaluator].
func (e *evaluator) Close() {
	e.program.Close()
	e.params.Close()
}

// Notes implements [pretext.Evaluator].
func (e *evaluator) Notes() []string { return e.notes }

// Evaluate implements [pretext.Evaluator].
func (e *evaluator) Evaluate(ctx context.Context, cases []sample.Sample) (pretext.Evaluation, error) {
	return e.evaluate(ctx, e.group, cases)
}

// Sizes of the picture, in pixels.
const (
	tileSize  = 192
	tileGap   = 6
	margin    = 24
	titleRoom = 26
	mostRows  = 4
)

// Picture implements [pretext.Evaluator]: a row for each example, the middle slice of what the
// network is shown, of what it makes of it, and of what was to be found.
func (e *evaluator) Picture(of sample.Sample) (pretext.Picture, error) {
	titles, what := [3]string{"input", "restored", "original"}, "restored"
	if e.outputs() > 1 {
		titles, what = [3]string{"mixed", "shares told", "shares"},
			"mixed with another crop of it, and each voxel's share of the first told, black for none and white for all"
	}
	rows := min(e.repeats, mostRows)
	page := tiles.NewPage(2*margin+3*(tileSize+tileGap)-tileGap, 2*margin+titleRoom+rows*(tileSize+tileGap)-tileGap)
	face := tiles.NewFace(17)
	for x, title := range titles {
		page.Write(face, tiles.Ink, image.Pt(margin+x*(tileSize+tileGap), margin+16), title)
	}
	row := 0
	err := e.restore([]sample.Sample{of}, 0, func(x example) {
		if row < rows {
			for column, voxels := range [][]float32{x.input, e.shown(e.told, of.Range(0)),
				e.shown(x.target, of.Range(0))} {
				corner := image.Pt(margin+column*(tileSize+tileGap), margin+titleRoom+row*(tileSize+tileGap))
				page.Tile(image.Rectangle{Max: image.Pt(tileSize, tileSize)}.Add(corner),
					tiles.Slice(voxels, e.Crop, of.Range(0)))
			}
		}
		row++
	})
	return pretext.Picture{Image: page.RGBA, Caption: fmt.Sprintf("The crop in the middle of case %s, %s.", of.Name(),
		what)}, err
}

// shown are intensities of a range for a picture: of outputs of the network or of targets.
func (t task) shown(values []float32, span [2]float32) []float32 {
	classes := t.outputs()
	if classes == 1 {
		return values
	}
	if len(values) > t.voxels() {
		values = tell(values, classes)
	}
	shown := make([]float32, len(values))
	for i, class := range values {
		shown[i] = (span[1]-span[0])*class/float32(classes-1) + span[0]
	}
	return shown
}

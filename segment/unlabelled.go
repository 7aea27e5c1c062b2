package segment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
)

// This file: scans without labels in the training, by a mean teacher (Tarvainen and Valpola
// 2017). The teacher is the moving average of the weights. It sees a crop of an unlabelled scan
// as it is; the network that learns sees it deformed and varied, as labelled crops are, and is
// to give each voxel the class that the teacher gives it, where the teacher is sure (Sohn et al.
// 2020, FixMatch). The loss is that of labelled crops, at the whole resolution, and its weight
// rises as exp(-5 (1 - t)^2), t from 0 to 1 (Laine and Aila 2017).

// Names of a step's program.
const (
	unlabelledLoss   = "unlabelled_loss"   // an output
	unlabelledWeight = "unlabelled_weight" // its gradient: an input
	unlabelledImage  = "unlabelled_image"
	unlabelledTarget = "unlabelled_target"
)

// An unlabelledBatch is crops of unlabelled scans, as many as of labelled ones: as they are, and as
// they are to be learnt from (crops, Channels, D, H, W). from (crops, D, H, W) says which voxel of
// its crop as it is each voxel of the latter shows, -1: one outside it.
type unlabelledBatch struct{ plain, varied, from []float32 }

// checkUnlabelled says what is wrong with the unlabelled cases of a run.
func (c Config) checkUnlabelled(data labelled) error {
	if !c.Unlabelled && c.Targets == "" {
		if c.Predicted != "" {
			return errors.New("predicted: the run learns from label maps of teachers, " +
				"and no folder of them is given (targets)")
		}
		return nil
	}
	if len(data.Unlabelled) == 0 && c.Targets != "" {
		return c.noTargets()
	}
	if len(data.Unlabelled) == 0 {
		return errors.New("there are no scans without labels to learn from")
	}
	for _, id := range data.Unlabelled {
		if slices.Contains(data.Train, id) || slices.Contains(data.Validate, id) {
			return fmt.Errorf("without labels: case %s is among the labelled or held-out ones, too", safetext.Text(id))
		}
		if _, found := data.Store.Record(id); !found {
			_, err := data.Store.Open(id) // says so
			return err
		}
	}
	return nil
}

// drawUnlabelled draws the unlabelled crops of a step.
func (s *sampler) drawUnlabelled(b *batch, step int) error {
	size, n := s.config.Crop, s.config.Crop[0]*s.config.Crop[1]*s.config.Crop[2]
	values := s.config.Network.InputChannels() * n
	u := unlabelledBatch{make([]float32, s.n*values), make([]float32, s.n*values), make([]float32, s.n*n)}
	for item := range s.n {
		r := seed.Rand(s.config.Train.Seed, "unlabelled crop", uint64(step), uint64(item))
		c, err := s.store.Open(s.more[r.IntN(len(s.more))])
		if err != nil {
			return err
		}
		origin, err := sample.RandomOrigin(c, r, size, s.config.MaxAir)
		if err != nil {
			return err
		}
		if err := c.Crop(u.plain[item*values:(item+1)*values], origin, size); err != nil {
			return err
		}
		numbered := func(to []float32, first, extent [3]int) error {
			numberVoxels(to, [3]int{first[0] - origin[0], first[1] - origin[1], first[2] - origin[2]}, extent, size)
			return nil
		}
		if err := s.config.Augment.marked(u.varied[item*values:(item+1)*values], u.from[item*n:(item+1)*n], c, numbered,
			origin, size, seed.Rand(s.config.Train.Seed, "unlabelled augment", uint64(step),
				uint64(item))); err != nil {
			return err
		}
		b.cases = append(b.cases, c.ID)
	}
	b.unlabelled = u
	return nil
}

// numberVoxels gives each voxel of a box, which begins first voxels from a crop's origin, its
// number in the crop, -1 outside it.
func numberVoxels(to []float32, first, extent, size [3]int) {
	at := 0
	for k := range extent[2] {
		for j := range extent[1] {
			for i := range extent[0] {
				p := [3]int{first[0] + i, first[1] + j, first[2] + k}
				to[at] = -1
				if p[0] >= 0 && p[1] >= 0 && p[2] >= 0 && p[0] < size[0] && p[1] < size[1] && p[2] < size[2] {
					to[at] = float32(p[0] + size[0]*(p[1]+size[1]*p[2]))
				}
				at++
			}
		}
	}
}

// A teacher is the network with the moving average of the weights, and the part of a step's graph
// that learns from it.
type teacher struct {
	loss    *nn.Node
	program *nn.Program
	swapped func(func() error) error
	share   float64 // of the voxels that counted in the last step
}

// Taught implements [train.Pupil].
func (l *learner) Taught(swapped func(func() error) error) {
	if l.teacher != nil {
		l.teacher.swapped = swapped
	}
}

// declare adds the loss of unlabelled crops to the graph of a step.
func (t *teacher) declare(l *learner, o nn.LossOptions) {
	size := l.config.Crop
	stages := l.network.Encoder(l.graph, backbone.Input(l.graph, unlabelledImage, l.network, l.pass, size))
	if l.graph.Err() != nil {
		return
	}
	logits := l.network.Decoder(l.graph, stages)
	t.loss, _ = l.graph.Loss(logits[0], l.graph.Input(unlabelledTarget, l.pass, size[2], size[1], size[0]), o)
	l.graph.Input(unlabelledWeight)
}

// compile makes the teacher's program.
func (t *teacher) compile(l *learner) (err error) {
	g := nn.NewGraph(nn.Eval, l.bench.Device.Activations())
	stages := l.network.Encoder(g, backbone.Input(g, "image", l.network, l.pass, l.config.Crop))
	if g.Err() != nil {
		return fmt.Errorf("building the teacher: %w", g.Err())
	}
	t.program, err = nn.Compile(l.bench.Device, g, l.bench.Params, nn.Options{MemoryLimit: l.bench.Memory,
		Outputs: map[string]*nn.Node{"p": g.Softmax(l.network.Decoder(g, stages)[0])}})
	if err != nil {
		err = fmt.Errorf("preparing the teacher for %s: %w", numbers.Count(l.pass, "crop"), err)
	}
	return err
}

// teach asks the teacher, and sets what a step learns from the unlabelled crops.
func (t *teacher) teach(l *learner, step int, u unlabelledBatch) error {
	targets := make([]float32, len(u.from))
	for i := range targets {
		targets[i] = -1
	}
	weight := l.config.unlabelledRamp(step)
	t.share = 0
	if step > 0 && weight > 0 { // before the first step there is no average
		classes, err := t.classes(u.plain, l.config)
		if err != nil {
			return err
		}
		n, counted := len(u.from)/l.pass, 0
		for i, from := range u.from {
			if from >= 0 {
				targets[i] = classes[i/n*n+int(from)]
			}
			if targets[i] >= 0 {
				counted++
			}
		}
		t.share = float64(counted) / float64(len(targets))
	}
	return errors.Join(l.program.Set(unlabelledImage, u.varied), l.program.Set(unlabelledTarget, targets),
		l.program.Set(unlabelledWeight, []float32{float32(weight)}))
}

// classes are what the teacher says of the voxels of crops, -1 where it is not sure.
func (t *teacher) classes(images []float32, c Config) ([]float32, error) {
	p := make([]float32, t.program.Shape("p").Elements())
	err := t.swapped(func() error {
		return errors.Join(t.program.Set("image", images), t.program.Forward(), t.program.Read("p", p))
	})
	return confident(p, c.Network.Classes, c.Crop[0]*c.Crop[1]*c.Crop[2], c.confidence()), err
}

// confident are the classes of the greatest probability of each voxel of crops (crops, classes,
// voxels), -1 where that is below a threshold.
func confident(p []float32, classes, voxels int, threshold float32) []float32 {
	out := make([]float32, len(p)/classes)
	for i := range out {
		crop, voxel := i/voxels, i%voxels
		best, top := -1, threshold
		for class := range classes {
			if x := p[(crop*classes+class)*voxels+voxel]; x >= top && (best < 0 || x > top) {
				best, top = class, x
			}
		}
		out[i] = float32(best)
	}
	return out
}

// unlabelledRamp is the weight of the loss of unlabelled crops in a step.
func (c Config) unlabelledRamp(step int) float64 {
	weight, ramp := c.UnlabelledWeight, c.UnlabelledRamp
	weight = cmp.Or(weight, 1)
	ramp = cmp.Or(ramp, max(c.Train.Steps/3, 1))
	below := 1 - min(1, float64(step)/float64(ramp))
	return weight * math.Exp(-5*below*below)
}

func (c Config) confidence() float32 {
	if c.UnlabelledConfidence == 0 {
		return 0.9
	}
	return float32(c.UnlabelledConfidence)
}

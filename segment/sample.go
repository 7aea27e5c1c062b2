package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A sampler makes batches of crops of prepared cases. Every crop is a function of the seed, the
// step and its number in the batch.
type sampler struct {
	config   Config
	classes  [][]uint16 // labels of each class
	table    []uint16   // class of each label; eval.Ignored: its voxels do not count
	store    *prepared.Store
	more     []string // unlabelled cases, if a mean teacher learns from them
	soft     []*soft  // label maps of teachers, if they are learnt from
	train    []string // of very many cases few are opened before the first step
	held     []*prepared.Case
	notes    []string
	partial  bool   // some training case has classes that nobody drew, which are merged there
	unlearnt []bool // classes that no training case shows; the background is none
	first, n int    // the crops of a batch that are made here: this rank's
}

// newSampler opens the cases and looks at what they have.
func newSampler(c Config, data labelled, first, n int) (sampler, error) {
	s := sampler{config: c, store: data.Store, train: data.Train, first: first, n: n}
	if c.Unlabelled {
		s.more = data.Unlabelled
	}
	for _, id := range slices.Sorted(maps.Keys(data.soft)) {
		s.soft = append(s.soft, data.soft[id])
		s.partial = s.partial || len(data.soft[id].Classes) > 0
	}
	if len(data.doubted) > 0 {
		s.notes = append(s.notes, "left out, for structures are ignored in them, and undrawn is background: "+
			safetext.List(data.doubted))
	}
	var err error
	if s.classes, err = parseClasses(c.Labels); err != nil {
		return s, err
	}
	s.table = classTable(s.classes)
	for _, label := range volume.IgnoredLabels(data.Store.LabelNames()) {
		s.table[label] = eval.Ignored
		s.notes = append(s.notes, fmt.Sprintf("voxels of label %d, %s, are left out of the loss and of scores", label,
			volume.IgnoreName))
	}
	// a study has said so once, of all its trials
	if note := c.UnlearntNote(data.Store, data.Train); note != "" && !c.MeasureOnly {
		s.notes = append(s.notes, "WARNING: "+note)
	}
	s.unlearnt = make([]bool, 1+len(s.classes))
	for n, cases := range c.ShownIn(data.Store, data.Train) {
		s.unlearnt[n+1] = cases == 0
	}
	return s, s.open(data)
}

func (s *sampler) open(data labelled) error {
	if len(data.Train) == 0 {
		return errors.New("there are no cases to train on")
	}
	training := make(map[string]bool, len(data.Train))
	for _, id := range data.Train {
		training[id] = true
	}
	if shared := slices.DeleteFunc(slices.Clone(data.Validate),
		func(id string) bool { return !training[id] }); len(shared) > 0 {
		return fmt.Errorf("cases both to train and to validate on: %s", safetext.List(shared))
	}
	validate := data.Validate
	if n := s.config.ValidateCases; n > 0 && n < len(validate) {
		validate = validate[:n]
	}
	var bare, padded []string
	called := map[uint16]calledBy{}
	look := func(r prepared.Record) error {
		if !r.HasLabels {
			return fmt.Errorf("case %s has no labels: it cannot be learnt from", r.ID)
		}
		if r.Padded(s.config.Crop) {
			padded = append(padded, r.ID)
		}
		return s.checkNames(called, r)
	}
	for _, id := range s.train {
		r, found := data.Store.Record(id)
		if !found {
			_, err := data.Store.Open(id) // says so
			return err
		}
		if err := look(r); err != nil {
			return err
		}
		s.partial = s.partial || s.config.mergesUndrawn() && len(undrawnClasses(s.classes, r.Undrawn)) > 0
		if !s.shows(r) {
			bare = append(bare, id)
		}
	}
	for _, id := range validate {
		c, err := data.Store.Open(id)
		if err != nil {
			return err
		}
		if c.Predicted {
			return fmt.Errorf("case %s is to be validated on, and its labels are predicted: leave it to training, or "+
				"hold no case out; once somebody has corrected them, voxsaw prepare --labels-corrected", id)
		}
		if err := look(c.Record); err != nil {
			return err
		}
		s.held = append(s.held, c)
	}
	if len(bare) == len(s.train) {
		return fmt.Errorf("none of the %d training cases has a voxel of %s", len(bare),
			s.config.DescribeLabels(strings.Join(s.config.Labels, ",")))
	}
	if len(bare) > 0 {
		s.notes = append(s.notes, "cases without a voxel of the labels, learnt from as background: "+
			safetext.List(bare))
	}
	if len(padded) > 0 {
		s.notes = append(s.notes,
			fmt.Sprintf("smaller than the crop of %[2]dx%[3]dx%[4]d, and padded with air: %[1]s: %[5]s",
				numbers.Count(len(padded), "case"), s.config.Crop[0], s.config.Crop[1], s.config.Crop[2],
				safetext.List(padded)))
	}
	return nil
}

// calledBy is what a label is called, and by which case.
type calledBy struct{ name, id string }

// checkNames refuses a case whose files call a label by another name than those before: they would
// be learnt as one organ.
func (s *sampler) checkNames(called map[uint16]calledBy, r prepared.Record) error {
	for _, class := range s.classes {
		for _, label := range class {
			name := r.LabelNames[label]
			if name == "" || r.LabelCounts[label] == 0 {
				continue
			}
			if other, known := called[label]; !known {
				called[label] = calledBy{name, r.ID}
			} else if safetext.Fold(name) != safetext.Fold(other.name) {
				return fmt.Errorf("label %d is %q in case %s and %q in case %s: they cannot be learnt as one; "+
					"prepare the cases without those that mean another", label, other.name, other.id, name, r.ID)
			}
		}
	}
	return nil
}

// shows says whether a case has a voxel that is learnt as one of any class.
func (s *sampler) shows(r prepared.Record) bool { return len(s.shown(r)) > 0 }

// shown are the labels that a case has voxels of, for each learnt class that it has any of. What is
// drawn of a class that is one with the background of the case is not.
func (s *sampler) shown(r prepared.Record) (all [][]uint16) {
	var undrawn []int
	if s.config.mergesUndrawn() {
		undrawn = undrawnClasses(s.classes, r.Undrawn)
	}
	for n, class := range s.classes {
		present := slices.DeleteFunc(slices.Clone(class), func(label uint16) bool { return r.LabelCounts[label] == 0 })
		if len(present) > 0 && !slices.Contains(undrawn, n+1) {
			all = append(all, present)
		}
	}
	return all
}

// A batch is the crops of a step: images (crops, Channels, D, H, W) and the class of each voxel
// (crops, D, H, W), -1 where it does not count. Where training cases lack classes, merged
// (crops, Classes) is 1 for those that nobody drew in the crop's case.
type batch struct {
	images, targets, merged []float32
	cases                   []string
	unlabelled              unlabelledBatch
}

// Batch implements [train.Task].
func (s *sampler) Batch(_ context.Context, step int) (*batch, error) {
	size, n := s.config.Crop, s.config.Crop[0]*s.config.Crop[1]*s.config.Crop[2]
	values := s.config.Network.InputChannels() * n
	b := &batch{images: make([]float32, s.n*values), targets: make([]float32, s.n*n)}
	for item := range s.n {
		number := uint64(s.first + item)
		image, target := b.images[item*values:(item+1)*values], b.targets[item*n:(item+1)*n]
		r := seed.Rand(s.config.Train.Seed, "crop", uint64(step), number)
		draw := s.labelledCrop
		if s.isSoft(step, s.first+item) {
			draw = s.softCrop
		}
		id, merged, err := draw(image, target, size, r, step, number)
		if err != nil {
			return b, err
		}
		if s.partial {
			b.merged = append(b.merged, merged...)
		}
		b.cases = append(b.cases, id)
	}
	if len(s.more) > 0 {
		return b, s.drawUnlabelled(b, step)
	}
	return b, nil
}

// isSoft says whether a crop of a batch is one of a scan that teachers have labelled: every second
// of a training is, up to its last steps.
func (s *sampler) isSoft(step, number int) bool {
	last := s.config.LabelledLast
	last = cmp.Or(last, s.config.Train.Steps/10)
	return len(s.soft) > 0 && step < s.config.Train.Steps-last && (step*s.config.Batch+number)%2 == 1
}

// labelledCrop draws a crop of a labelled case, and says of which, and which classes are merged
// into its background.
func (s *sampler) labelledCrop(image, target []float32, size [3]int, r *rand.Rand, step int, number uint64) (id string,
	merged []float32, err error) {
	c, err := s.store.Open(s.train[r.IntN(len(s.train))])
	if err != nil {
		return "", nil, err
	}
	origin, err := s.origin(c, size, r)
	if err != nil {
		return "", nil, err
	}
	if err := s.config.Augment.sample(image, target, c, origin, size, s.augmenting(step, number)); err != nil {
		return "", nil, err
	}
	for i, label := range target {
		if class := s.table[int(label)]; class == eval.Ignored {
			target[i] = -1 // does not count, see device.LossSpec
		} else {
			target[i] = float32(class)
		}
	}
	merged = make([]float32, 1+len(s.classes))
	if s.config.mergesUndrawn() {
		for _, class := range undrawnClasses(s.classes, c.Undrawn) {
			merged[class] = 1
		}
	}
	for i, class := range target { // what was drawn of a class that was not drawn whole
		if class > 0 && merged[int(class)] > 0 {
			target[i] = 0
		}
	}
	return c.ID, merged, nil
}

// softCrop draws a crop of a scan that teachers have labelled, likewise.
func (s *sampler) softCrop(image, target []float32, size [3]int, r *rand.Rand, step int, number uint64) (id string,
	merged []float32, err error) {
	of := s.soft[r.IntN(len(s.soft))]
	c, err := s.store.Open(of.ID)
	if err != nil {
		return "", nil, err
	}
	var origin [3]int
	if voxel, found := of.foreground(r); found && r.Float64() < s.config.Foreground {
		origin = around(c, voxel, size, r)
	} else if origin, err = sample.RandomOrigin(c, r, size, s.config.MaxAir); err != nil {
		return "", nil, err
	}
	classes := of.draw(seed.Rand(s.config.Train.Seed, "soft target", uint64(step), number))
	err = s.config.Augment.marked(image, target, c, classes, origin, size, s.augmenting(step, number))
	merged = make([]float32, 1+len(s.classes))
	for class, ignored := range of.ignored {
		if ignored {
			merged[class] = 1
		}
	}
	return c.ID, merged, err
}

func (s *sampler) augmenting(step int, number uint64) *rand.Rand {
	return seed.Rand(s.config.Train.Seed, "augment", uint64(step), number)
}

// around is the origin of a crop that shows a voxel at a random place.
func around(c *prepared.Case, voxel, size [3]int, r *rand.Rand) [3]int {
	// a voxel that has the chosen one at a random place around it becomes the centre
	for axis, n := range size {
		voxel[axis] += n/2 - r.IntN(n)
	}
	return sample.OriginAround(c, voxel, size)
}

// origin chooses where to take a crop: for the share Foreground of them, around a voxel of a class,
// which then may lie anywhere in the crop. Classes are chosen with equal probability, whatever
// their size.
func (s *sampler) origin(c *prepared.Case, size [3]int, r *rand.Rand) ([3]int, error) {
	if r.Float64() < s.config.Foreground {
		var there []uint16 // a label of each class that the case shows
		for _, present := range s.shown(c.Record) {
			there = append(there, present[r.IntN(len(present))])
		}
		if len(there) > 0 {
			voxel, found, err := c.Foreground(int(there[r.IntN(len(there))]), r)
			if err != nil {
				return voxel, err
			}
			if found {
				return around(c, voxel, size, r), nil
			}
		}
	}
	return sample.RandomOrigin(c, r, size, s.config.MaxAir)
}

package puzzle2d

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// The tasks of Pascal VOC that a network is fine-tuned for.
const (
	Classify = "classify" // which classes are on a photograph: see [Multilabel]
	Detect   = "detect"   // where they are: see [Detection]
)

// A Finetuning trains a whole network, nothing of it frozen, for a task of Pascal VOC: [Multilabel]
// or [Detection].
type Finetuning interface {
	// Resolve completes a copy of the settings with what follows from the photographs, as
	// [SplitVOC] gives them their roles, and says what is wrong with it.
	Resolve(sample.Store) (Finetuning, error)
	// Settings points to the settings that both tasks have.
	Settings() *FinetuneSettings
	// Items points to how many photographs a step learns from.
	Items() *int
	// Run trains. What [Pretrain] says of runs holds here, too. The score of a validation is the
	// mean average precision at eleven points.
	Run(context.Context, voxsaw.Device, sample.Data, voxsaw.RunOptions) (voxsaw.Summary, error)
	// Score scores a checkpoint of that training on the photographs to test on. Progress, which may
	// be nil, is told how many photographs of how many are done. memory limits the bytes of the
	// network; 0: not.
	Score(ctx context.Context, dev voxsaw.Device, checkpoint string, data sample.Data, memory int64,
		progress func(done, total int)) (Precision, error)
}

// EstimateFinetuneMemory is the memory that [Finetuning.Run] would need, and trains nothing.
func EstimateFinetuneMemory(ctx context.Context, dev voxsaw.Device, task Finetuning, data sample.Data,
	o voxsaw.RunOptions) (need voxsaw.MemoryNeed, err error) {
	o.Need = &need
	_, err = task.Run(ctx, dev, data, o)
	return need, err
}

// FinetuneSettings is what the two tasks of fine-tuning have in common.
type FinetuneSettings struct {
	TrainOn string `yaml:"-"` // OnTrainval or OnTrain

	Network Network         `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`
	Input   Input           `yaml:",inline"`
	// weights to start from: a checkpoint of 2d pretrain, the folder of its run (its best one),
	// PyTorch's safetensors of this backbone, or random
	Checkpoint string `yaml:"checkpoint"`
	// start from weights that fit less than nine tenths of the backbone's tensors, too; the rest
	// begins with random values
	//
	// InitPartial is that of segment.Config.
	InitPartial bool `yaml:"init_partial,omitempty"`
	// half of the photographs are mirrored
	Mirror bool `yaml:"mirror"`
	// names of the classes, from the data
	//
	// Classes are the names of the classes, from the data.
	Classes []string `yaml:"names" flag:"-"`
	// held-out photographs to validate on during training; 0: all
	ValidatePhotos int `yaml:"validate_photos"`
}

// Settings implements [Finetuning].
func (s *FinetuneSettings) Settings() *FinetuneSettings { return s }

// Start takes over what a file of weights says about its network, and how that sees pixels.
func (s *FinetuneSettings) Start(from Source) {
	s.Checkpoint = from.Path
	if from.Path == "" {
		s.Checkpoint = Random
		return
	}
	dropout := s.Network.Dropout
	s.Network, s.Input = from.Network, from.Input
	s.Network.Dropout, s.Input.Gray = dropout, 0
}

// resolve looks up what is trained on, for a task to complete its settings with.
func (s *FinetuneSettings) resolve(of sample.Store, complete func(marked) error) error {
	data, err := SplitVOC(of, s.TrainOn)
	if err != nil {
		return err
	}
	m, err := markedOf(data)
	if err == nil {
		err = complete(m)
	}
	return err
}

func (s *FinetuneSettings) complete(data marked) error {
	if s.Input.PixelMean == [3]float64{} { // that of a checkpoint stays
		var err error
		if s.Input, err = s.Input.Of(data.Store); err != nil {
			return err
		}
	}
	s.Classes = data.Classes()
	if err := data.check(); err != nil {
		return err
	}
	if s.ValidatePhotos <= 0 || len(data.validate) == 0 {
		return nil
	}
	if held := Spread(data.validate, s.ValidatePhotos); !data.marked(held) {
		return fmt.Errorf("validate_photos is %d, and nothing is marked on that many of the %d "+
			"photographs of the side %s, spread evenly (difficult objects do not count): they cannot be "+
			"scored; raise it, or set 0 for all of them",
			s.ValidatePhotos, len(data.validate), data.Split(held[0]))
	}
	return nil
}

func (s *FinetuneSettings) check() error {
	if err := s.Train.Check(); err != nil {
		return err
	}
	if s.ValidatePhotos < 0 {
		return fmt.Errorf("validate_photos is %d, must be 0 or more", s.ValidatePhotos)
	}
	return s.Input.check()
}

// groups are the parameters with a rate of their own: the biases of AlexNet, as Caffe's networks
// have it, Fast R-CNN's among them.
func (s *FinetuneSettings) groups() []train.ParamGroup {
	if s.Network.Backbone != photonet.AlexNet {
		return nil
	}
	return []train.ParamGroup{photonet.BiasGroup()}
}

// marked is photographs with the objects that are marked on them, by their role: their numbers.
type marked struct {
	*photos.Store
	train, validate, test []int
}

// markedOf looks photographs up.
func markedOf(data sample.Data) (m marked, err error) {
	if m.Store, err = folder(data.Store); err != nil {
		return m, err
	}
	numbers := func(names []string) []int {
		list := make([]int, len(names))
		for i, name := range names {
			var known bool
			if list[i], known = m.Number(name); !known {
				err = fmt.Errorf("there is no photograph %q in the data set", name)
			}
		}
		return list
	}
	m.train, m.validate, m.test = numbers(data.Train), numbers(data.Validate), numbers(data.Test)
	return m, err
}

// What is trained on.
const (
	OnTrainval = "trainval" // the sides train and val; nothing is validated on, test is for the end
	OnTrain    = "train"    // the side train; val is validated on
)

// SplitVOC gives prepared photographs of Pascal VOC their roles. Where they have no side test,
// val takes its place, which then is not trained on.
func SplitVOC(of sample.Store, on string) (sample.Data, error) {
	data := sample.Data{Store: of}
	store, err := folder(of)
	if err != nil {
		return data, err
	}
	sides := map[string][]string{}
	for n := range store.Len() {
		sides[store.Split(n)] = append(sides[store.Split(n)], store.Name(n))
	}
	data.Train, data.Test = sides[photos.Train], sides[photos.Test]
	switch {
	case store.Layout() != photos.LayoutVOC:
		return data,
			fmt.Errorf("the photographs have the layout %s: fine-tuning takes Pascal VOC's, "+
				"JPEGImages beside Annotations and ImageSets/Main", store.Layout())
	case on != OnTrain && on != OnTrainval:
		return data, fmt.Errorf("train_on %q: want %s or %s", on, OnTrainval, OnTrain)
	case len(data.Train) == 0:
		return data,
			errors.New("no photograph is on the side train: complete " +
				"ImageSets/Main/train.txt or trainval.txt, and prepare again")
	case on == OnTrainval && len(data.Test) == 0:
		return data,
			errors.New("no photograph is on the side test: complete ImageSets/Main/test.txt and prepare again, or " +
				"keep the side val for the test with --train-on train")
	case on == OnTrain && len(sides[photos.Val]) == 0:
		return data,
			errors.New("no photograph is on the side val: complete ImageSets/Main/val.txt and " +
				"prepare again, or take --train-on trainval")
	case on == OnTrainval:
		data.Train = slices.Concat(data.Train, sides[photos.Val])
	default:
		if data.Validate = sides[photos.Val]; len(data.Test) == 0 {
			data.Test = data.Validate
		}
	}
	return data, nil
}

// check looks for what an average precision needs.
func (m marked) check() error {
	classes := m.Classes()
	if len(classes) == 0 {
		return errors.New("nothing is marked on the photographs: complete Annotations, and prepare again")
	}
	for class, positives := range m.positives(m.train) {
		if positives == 0 {
			return fmt.Errorf("no object of class %s is to be trained on (those marked as difficult do "+
				"not count): mark some in Annotations, or take its lists out of ImageSets/Main and its "+
				"objects out of Annotations, and prepare again", classes[class])
		}
	}
	for _, numbers := range [][]int{m.validate, m.test} {
		if len(numbers) > 0 && !m.marked(numbers) {
			return fmt.Errorf("nothing is marked on the %d photographs of the side %s: it cannot be "+
				"scored; complete Annotations, and prepare again", len(numbers), m.Split(numbers[0]))
		}
	}
	return nil
}

// marked says whether an object is marked on photographs that is not difficult.
func (m marked) marked(numbers []int) bool {
	return slices.ContainsFunc(m.positives(numbers), func(n int) bool { return n > 0 })
}

// positives counts the objects of each class that are not difficult.
func (m marked) positives(numbers []int) []int {
	counts := make([]int, len(m.Classes()))
	for _, n := range numbers {
		for _, o := range m.Record(n).Objects {
			if !o.Difficult {
				counts[o.Class]++
			}
		}
	}
	return counts
}

// stem is what Pascal VOC calls a photograph: its file's name without folder and ending.
func stem(name string) string {
	base := path.Base(name)
	return strings.TrimSuffix(base, path.Ext(base))
}

// Precision is how well the classes were found on the photographs of a side.
type Precision struct {
	Task    string           `json:"task"`
	Side    string           `json:"side"`
	Photos  int              `json:"photos"`
	Classes []ClassPrecision `json:"classes"`
	// the means over the classes that are there
	ElevenPoints float64 `json:"map_11_points"`
	Area         float64 `json:"map_area"`
}

// ClassPrecision is the average precision of a class by two rules: VOC2007's, which the paper has,
// and that of VOC2010 and later. Both are NaN, and null in JSON, where the class is not there.
type ClassPrecision struct {
	Class        string
	Positives    int // photographs that have the class, or objects to detect; none is difficult
	ElevenPoints float64
	Area         float64
}

// classJSON is a ClassPrecision as JSON has it, null for NaN.
type classJSON struct {
	Class        string   `json:"class"`
	Positives    int      `json:"positives"`
	ElevenPoints *float64 `json:"ap_11_points"`
	Area         *float64 `json:"ap_area"`
}

// MarshalJSON implements [json.Marshaler].
func (c ClassPrecision) MarshalJSON() ([]byte, error) {
	j := classJSON{c.Class, c.Positives, &c.ElevenPoints, &c.Area}
	if math.IsNaN(c.ElevenPoints) {
		j.ElevenPoints = nil
	}
	if math.IsNaN(c.Area) {
		j.Area = nil
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *ClassPrecision) UnmarshalJSON(data []byte) error {
	c.ElevenPoints, c.Area = math.NaN(), math.NaN()
	j := classJSON{ElevenPoints: &c.ElevenPoints, Area: &c.Area}
	err := json.Unmarshal(data, &j)
	c.Class, c.Positives = j.Class, j.Positives
	return err
}

// precision gathers the classes' precisions; of gives that of one by a rule.
func (m marked) precision(task string, numbers, positives []int, of func(class int, rule voc.Rule) (float64,
	error)) (Precision, error) {
	if len(numbers) == 0 {
		return Precision{}, errors.New("there are no photographs to score on")
	}
	p := Precision{Task: task, Side: m.Split(numbers[0]), Photos: len(numbers)}
	var points, areas []float64
	for class, name := range m.Classes() {
		c := ClassPrecision{Class: name, Positives: positives[class]}
		var err error
		if c.ElevenPoints, err = of(class, voc.ElevenPoints); err == nil {
			c.Area, err = of(class, voc.Area)
		}
		if err != nil {
			return p, fmt.Errorf("class %s: %w", name, err)
		}
		p.Classes, points, areas = append(p.Classes, c), append(points, c.ElevenPoints), append(areas, c.Area)
	}
	p.ElevenPoints, p.Area = voc.Mean(points), voc.Mean(areas)
	return p, nil
}

// validation is a precision as the loop logs it.
func (p Precision) validation() voxsaw.Validation {
	return voxsaw.Validation{Score: p.ElevenPoints,
		Metrics: []voxsaw.Metric{{Name: "map_11_points", Value: p.ElevenPoints}, {Name: "map_area", Value: p.Area}}}
}

// restore is the parameters of a network, with the values of a checkpoint of its fine-tuning.
func restore(d device.Device, g *nn.Graph, path string) (*nn.Params, error) {
	params := nn.NewParams(d, 0)
	err := params.Declare(g)
	if err == nil {
		_, err = checkpoint.LoadAll(path, params,
			func(string) string { return "it is not a checkpoint of this network" })
	}
	if err != nil {
		params.Close()
		return nil, err
	}
	return params, nil
}

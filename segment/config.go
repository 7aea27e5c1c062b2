// Package segment teaches a network to segment, from scratch or from a pretrained encoder, and
// makes label maps with it.
//
// Start at [DefaultConfig] and [Finetune], and at [NewPredictor]. Checkpoints of fine-tuning hold
// all that a prediction needs: the network's settings, the preparation of the scans, and which
// label each class stands for. Cases to learn from come from a store of prepared ones
// ([prepared.Open]).
//
// The loss is soft Dice, summed over the voxels of the whole batch, averaged over the classes but
// the background, and cross-entropy over all classes: MONAI's DiceCELoss(include_background=False,
// to_onehot_y=True, softmax=True, batch=True, smooth_nr=1e-5, smooth_dr=1e-5). nnU-Net's Dice loss
// is the same less 1 where its plans say batch_dice.
//
// Where a structure was not drawn in a training case, its class is one with the background of that
// case's crops: the loss is then the marginal one of Shi et al. 2021 ("Marginal loss and exclusion
// loss for partially supervised multi-organ segmentation") and Fang and Yan 2020, of which each
// class's soft Dice is taken over the crops whose case shows what it is.
//
// The package reads no scans from files, and measures no more than the Dice coefficient that
// training needs; package eval has the metrics.
package segment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all" // the networks to choose from
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// The words of Config.Undrawn, beside the empty one, which means UndrawnMerged.
const (
	UndrawnMerged     = "merge"      // one with the background of the case, by the marginal loss
	UndrawnBackground = "background" // learnt as background
)

// The words of Config.Load, beside the empty one, which means LoadAll: what a fine-tuning takes
// over from the checkpoint that it starts from.
const (
	LoadAll     = "all"     // every tensor that fits, but a head of another task or other classes
	LoadEncoder = "encoder" // the encoder's; the decoder starts from random weights
)

// Config is all there is to say about a fine-tuning run but its data.
type Config struct {
	Network voxsaw.Network  `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`
	// size of training crops, and of the window of inference, in voxels
	Crop [3]int `yaml:"crop,flow" range:"[1,)"`
	// crops in a step; auto: as many as fit into memory
	Batch int `yaml:"batch" words:"auto=0" most:"4096"`
	// labels to segment by number or name, a class each; 1+2 merges two into one class; empty: all
	// labels of the data
	Labels []string `yaml:"labels,flow"`
	// what is taken over from the checkpoint to start from: encoder (it alone, the decoder starts
	// fresh), or all that fits; left out: all
	Load string `yaml:"load,omitempty" oneof:"all encoder"`
	// start from weights that fit less than nine tenths of the encoder's tensors, too; the rest
	// begins with random values
	InitPartial bool `yaml:"init_partial,omitempty"`
	// what is minimised: soft Dice of the labels over the batch, cross-entropy of all classes, or
	// their sum; MONAI's DiceLoss(include_background=False, batch=True), CrossEntropyLoss and
	// DiceCELoss
	Loss string `yaml:"loss" oneof:"dice ce dice+ce"`
	// structures that nobody drew in a training case: merge makes them one with its background, so
	// that the case says nothing of where they end; background learns them as background; left out:
	// merge
	Undrawn string `yaml:"undrawn,omitempty" oneof:"merge background"`
	// share of crops that are sure to show one of the labels
	Foreground float64 `yaml:"foreground" range:"[0,1]"`
	// of the other crops, those with at most this share of air are preferred; 1: any crop
	MaxAir float64 `yaml:"max_air" range:"[0,1]"`
	// learning rate of the encoder, as a factor of the others'
	EncoderLR float64 `yaml:"encoder_lr"`
	// steps at the start that leave the encoder as it is; schedule sawtooth: at least the first
	// tooth
	FreezeEncoder int `yaml:"freeze_encoder" most:"1000000000"`
	// held-out cases to validate on during training; 0: all
	ValidateCases int `yaml:"validate_cases"`
	// overlap of the windows in validation
	ValidateOverlap float64 `yaml:"validate_overlap" range:"[0,0.95]"`
	// axes along which windows are mirrored in validation, such as ijk, as prediction can mirror
	// them; empty: none
	ValidateMirror string       `yaml:"validate_mirror,omitempty"`
	Augment        Augmentation `yaml:"augment" flag:"augment"`
	// learn from the scans without labels, too: as many of their crops as of labelled ones are to
	// be told as the moving average of the weights tells them
	//
	// Learning from unlabelled scans, by a mean teacher: see unlabelled.go.
	Unlabelled bool `yaml:"unlabelled,omitempty"`
	// what the loss of unlabelled crops counts beside that of the labelled ones at the end of its
	// rise; left out: 1
	UnlabelledWeight float64 `yaml:"unlabelled_weight,omitempty" range:"[0,)"`
	// steps in which that weight rises from 0; left out: a third of the steps
	UnlabelledRamp int `yaml:"unlabelled_ramp,omitempty" range:"[0,)" most:"1000000000"`
	// voxels of unlabelled scans count where the moving average gives a class at least this
	// probability; left out: 0.9
	UnlabelledConfidence float64 `yaml:"unlabelled_confidence,omitempty" range:"[0,1]"`

	// steps at the end that learn from labelled cases alone, where others learn from label maps of
	// teachers, too; left out: a tenth of the steps
	//
	// Learning from label maps that teachers predicted: see targets.go.
	LabelledLast int `yaml:"labelled_last,omitempty" range:"[0,)" most:"1000000000"`
	// digest of the label maps that teachers predicted, which half of the crops have instead of
	// labels
	Predicted string `yaml:"predicted,omitempty" flag:"-"`

	// names of the labels, from the data
	Names []string `yaml:"names,flow" flag:"-"`
	// labels of voxels that nobody decided about, by their name, from the data: they are left out
	Ignored []uint16 `yaml:"ignored,flow,omitempty" flag:"-"`
	// how the cases were prepared, from the data
	Preparation volume.Preparation `yaml:"preparation" flag:"-"`

	// MeasureOnly keeps validations from deciding which components predictions keep: the
	// checkpoint says nothing of it then. It is for cases that a learning curve is measured on.
	MeasureOnly bool `yaml:"-"`
	// Targets is the folder of these label maps, which [Predictor.MakeTargets] has written; empty:
	// none are learnt from.
	Targets string `yaml:"-"`
}

// DefaultConfig is a sensible start: 64^3 crops, cross-entropy and Dice, mild augmentation.
func DefaultConfig() Config {
	o := voxsaw.DefaultTraining()
	// gradients of a normalised VNet under these losses are small: their norm is well below 1
	o.LR = 0.05
	return Config{
		Network: voxsaw.DefaultNetwork(), Train: o, Crop: [3]int{64, 64, 64}, Batch: 1, Loss: "dice+ce",
		Foreground: 0.67, MaxAir: 0.8,
		EncoderLR: 1, ValidateOverlap: 0.25, Augment: DefaultAugmentation(),
	}
}

// Resolve is what [Finetune] does first, for who wants to see it: it completes the configuration
// from the data: the labels if none were chosen, or their
// numbers where names were, their names, the number of classes, the preparation.
func (c Config) Resolve(of sample.Store) (Config, error) {
	c, err := c.resolve(of)
	return c, config.Mistaken(err)
}

func (c Config) resolve(of sample.Store) (Config, error) {
	store, ok := of.(*prepared.Store)
	if !ok {
		return c, errors.New("a segmentation is learnt from prepared cases with labels, and these are others")
	}
	names := store.LabelNames()
	ignored := volume.IgnoredLabels(names)
	c.Ignored = ignored
	chosen := len(c.Labels) > 0
	if !chosen {
		for _, label := range slices.Sorted(maps.Keys(names)) {
			if !slices.Contains(ignored, label) {
				c.Labels = append(c.Labels, strconv.Itoa(int(label)))
			}
		}
	}
	var err error
	if chosen && !c.numbered(names) {
		if c.Labels, err = numbered(c.Labels, names); err != nil {
			return c, err
		}
	}
	classes, err := parseClasses(c.Labels)
	if err != nil {
		return c, err
	}
	c.Names = nil
	for _, class := range classes {
		for _, label := range class {
			name, ok := names[label]
			if slices.Contains(ignored, label) {
				return c,
					fmt.Errorf("label %d of the data is called %s: its voxels are left out of the loss and "+
						"of scores, and are no structure to learn", label, name)
			}
			if !ok {
				return c, fmt.Errorf("no case of the data has label %d: it has %s", label, describeLabels(names))
			}
		}
		c.Names = append(c.Names, called(class, names))
	}
	c.Preparation = store.Preparation()
	c.Network.Classes, c.Network.Inputs = 1+len(classes), c.Preparation.Inputs()
	if c.Network, err = backbone.Resolve(c.Network); err != nil {
		return c, err
	}
	return c, c.Check()
}

// called is the name of a class of labels.
func called(class []uint16, names map[uint16]string) string {
	var parts []string
	for _, label := range class {
		parts = append(parts, cmp.Or(names[label], strconv.Itoa(int(label))))
	}
	return strings.Join(parts, "+")
}

// numbered says whether the labels are numbers that the program itself has written, whose names it
// has written, too: those are no names that somebody chose, whatever labels are called.
func (c Config) numbered(names map[uint16]string) bool {
	classes, err := parseClasses(c.Labels)
	return err == nil && slices.EqualFunc(classes, c.Names, func(class []uint16, name string) bool {
		return called(class, names) == name
	})
}

// numbered writes the labels of each entry as numbers: names stand for the label that is called so,
// whatever the case of their letters and whatever signs join their words.
func numbered(entries []string, names map[uint16]string) ([]string, error) {
	known := map[string][]uint16{}
	for _, label := range slices.Sorted(maps.Keys(names)) {
		if name := safetext.Fold(names[label]); name != "" {
			known[name] = append(known[name], label)
		}
	}
	written := make([]string, len(entries))
	for n, entry := range entries {
		if labels := known[safetext.Fold(entry)]; len(labels) == 1 { // it may hold a +
			if err := otherNumbers(entry, labels[0], names); err != nil {
				return nil, err
			}
			written[n] = strconv.Itoa(int(labels[0]))
			continue
		}
		var parts []string
		for part := range strings.SplitSeq(entry, "+") {
			part = strings.TrimSpace(part)
			labels := known[safetext.Fold(part)]
			switch _, err := strconv.ParseUint(part, 10, 16); {
			case err == nil:
				if len(labels) == 1 {
					if err := otherNumbers(part, labels[0], names); err != nil {
						return nil, err
					}
				}
				parts = append(parts, part)
			case len(labels) == 1:
				parts = append(parts, strconv.Itoa(int(labels[0])))
			case len(labels) > 1:
				return nil, fmt.Errorf("labels %v of the data are all called %q: choose by number",
					numbers.List(labels), part)
			default:
				return nil, fmt.Errorf("no label of the data is called %q: it has %s", part, describeLabels(names))
			}
		}
		written[n] = strings.Join(parts, "+")
	}
	return written, nil
}

// otherNumbers says of an entry that is a label's name, whether it means other labels of the data
// by their numbers, too: nobody knows which it is.
func otherNumbers(entry string, named uint16, names map[uint16]string) error {
	classes, err := parseClasses([]string{entry})
	if err != nil {
		return nil
	}
	for _, label := range classes[0] {
		if _, there := names[label]; !there {
			return nil
		}
	}
	if slices.Equal(classes[0], []uint16{named}) {
		return nil
	}
	return fmt.Errorf("label %q may be label %d of the data, which is called so, or label %d by its number: give the "+
		"labels other names where the data set is described, and prepare it again", entry, named, classes[0][0])
}

// plainName is a label's name in small letters, its words joined by _, without other signs.
func plainName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && r != '+' && r != '.'
	}), "_")
}

// metricName is what the metrics of a class are called: after its name, if that is no other's, else
// after its labels.
func (c Config) metricName(class int) string {
	own := func(n int) string {
		if n < len(c.Names) {
			return plainName(c.Names[n])
		}
		return ""
	}
	name := own(class)
	for n := range c.Names {
		if n != class && own(n) == name {
			name = ""
		}
	}
	if name == "" {
		return strings.ReplaceAll(c.Labels[class], ",", "")
	}
	return name
}

// DescribeLabels names some of the labels that are learnt, as a checkpoint lists them ("2,3"), for
// people: "liver, spleen", or "label 2, label 3" where they have no names.
func (c Config) DescribeLabels(labels string) string {
	var names []string
	for label := range strings.SplitSeq(labels, ",") {
		name := "label " + label
		if n := slices.Index(c.Labels, label); n >= 0 && n < len(c.Names) && c.Names[n] != label {
			name = c.Names[n]
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func describeLabels(names map[uint16]string) string {
	var list []string
	for _, label := range slices.Sorted(maps.Keys(names)) {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d %s", label, names[label])))
	}
	if len(list) == 0 {
		return "none at all"
	}
	return strings.Join(list, ", ")
}

// Reference is a label map with the labels that are learnt with these settings, which are resolved:
// merged into the first of each class, all others but ignored ones background. A class is undrawn
// where one of its labels was not drawn.
func (c Config) Reference(l *volume.LabelMap) *volume.LabelMap {
	classes, _ := parseClasses(c.Labels) // checked when they were resolved
	table, first, names := classTable(classes), []uint16{0}, map[uint16]string{}
	for i, class := range classes {
		first = append(first, class[0])
		if i < len(c.Names) {
			names[class[0]] = c.Names[i]
		}
	}
	become := make([]uint16, len(table))
	for label, class := range table {
		become[label] = first[class]
	}
	for _, label := range volume.IgnoredLabels(l.Names) {
		if table[label] == 0 { // where it was learnt, it had another name
			become[label], names[label] = label, l.Names[label]
		}
	}
	out := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels), Names: names}
	for i, label := range out.Labels {
		out.Labels[i] = become[label]
	}
	for _, class := range undrawnClasses(classes, l.Undrawn) {
		out.Undrawn = append(out.Undrawn, first[class])
	}
	slices.Sort(out.Undrawn)
	// a class is emptied where a label of it is, and none has voxels
	drawn := map[uint16]bool{}
	for _, label := range l.Emptied {
		if become[label] > 0 {
			drawn[become[label]] = true
		}
	}
	out.Emptied = volume.EmptiedOf(drawn, out.Labels)
	return out
}

// Check says what is wrong with the configuration.
func (c Config) Check() error {
	if err := c.Train.Check(); err != nil {
		return err
	}
	b, err := backbone.Of(c.Network)
	if err != nil {
		return err
	}
	if err := backbone.Fits(b, c.Crop); err != nil {
		return fmt.Errorf("crop: %w", err)
	}
	// what a tensor may hold is a matter of all of these together
	if n := c.Network; float64(c.Batch)*float64(c.Crop[0])*float64(c.Crop[1])*float64(c.Crop[2])*
		float64(max(n.Channels, n.Classes, 1)) > 1<<40 {
		return fmt.Errorf("a batch of %d crops of %dx%dx%d with %s is too large: make batch or crop smaller", c.Batch,
			c.Crop[0], c.Crop[1], c.Crop[2], numbers.Count(n.Channels, "channel"))
	}
	if _, err := c.loss(); err != nil {
		return err
	}
	if err := c.Augment.check(); err != nil {
		return err
	}
	if err := c.windows().Check(); err != nil {
		return err
	}
	switch {
	case c.Load != "" && c.Load != LoadAll && c.Load != LoadEncoder:
		return fmt.Errorf("load is %q, must be %s or %s", c.Load, LoadAll, LoadEncoder)
	case c.Undrawn != "" && c.Undrawn != UndrawnMerged && c.Undrawn != UndrawnBackground:
		return fmt.Errorf("undrawn is %q, must be %s or %s", c.Undrawn, UndrawnMerged, UndrawnBackground)
	case c.Unlabelled && !(c.Train.Average > 0):
		return errors.New("unlabelled: the teacher is the moving average of the weights, and there is " +
			"none: average must be above 0, such as 0.99")
	case c.Unlabelled && (c.Network.Norm == backbone.NormBatch || c.Train.Accumulate > 1):
		return errors.New("unlabelled: learning from unlabelled scans with batch norm or accumulate cannot be done yet")
	case c.Unlabelled && c.Crop[0]*c.Crop[1]*c.Crop[2] > 1<<24:
		return fmt.Errorf("unlabelled: crops of %s are of more than 2^24 voxels", numbers.Extents(c.Crop[:]))
	case !(c.UnlabelledWeight >= 0 && c.UnlabelledWeight <= 1000) || c.UnlabelledRamp < 0 ||
		!(c.UnlabelledConfidence >= 0 && c.UnlabelledConfidence <= 1):
		return errors.New("unlabelled_weight and unlabelled_ramp must be from 0, unlabelled_confidence from 0 to 1")
	case c.LabelledLast < 0:
		return fmt.Errorf("labelled_last is %d, must be a number of steps from 0", c.LabelledLast)
	case c.Targets != "" && c.checkLast() != nil:
		return c.checkLast()
	case c.Unlabelled && (c.Targets != "" || c.Predicted != ""):
		return errors.New("unlabelled and targets are two ways to learn from scans without labels: choose one")
	case c.Batch < 1 || c.Batch > 1<<16:
		return fmt.Errorf("batch is %d, must be at least 1", c.Batch)
	case !(c.Foreground >= 0 && c.Foreground <= 1):
		return fmt.Errorf("foreground is %v, must be a share from 0 to 1", c.Foreground)
	case !(c.MaxAir >= 0 && c.MaxAir <= 1):
		return fmt.Errorf("max_air is %v, must be a share from 0 to 1", c.MaxAir)
	case !(c.EncoderLR >= 0 && c.EncoderLR <= 1000):
		return fmt.Errorf("encoder_lr is %v, must be a factor from 0 up", c.EncoderLR)
	case c.FreezeEncoder < 0 || c.ValidateCases < 0:
		return errors.New("freeze_encoder and validate_cases must not be negative")
	}
	classes, err := parseClasses(c.Labels)
	if want := 1 + len(classes); err == nil && c.Network.Classes != want {
		return fmt.Errorf("the network has %d classes, the labels make %d with the background", c.Network.Classes, want)
	}
	return err
}

// checkLast says whether there are steps for label maps of teachers.
func (c Config) checkLast() error {
	if c.Train.Steps > 0 && c.LabelledLast >= c.Train.Steps {
		return fmt.Errorf("labelled_last is %d of %d steps: nothing would be learnt from the label maps of teachers",
			c.LabelledLast, c.Train.Steps)
	}
	return nil
}

// Idle says which settings do nothing beside the others, so that a new run is refused with them;
// nil: none. They are no matter of Check: a run that has begun may go on with them.
func (c Config) Idle() error {
	var keys []string
	for key, set := range map[string]bool{"unlabelled_weight": c.UnlabelledWeight != 0,
		"unlabelled_ramp": c.UnlabelledRamp != 0, "unlabelled_confidence": c.UnlabelledConfidence != 0} {
		if set && !c.Unlabelled {
			keys = append(keys, key)
		}
	}
	var idle error
	if keys != nil {
		idle = &config.IdleError{Keys: keys, Advice: "unlabelled_weight, unlabelled_ramp and " +
			"unlabelled_confidence are for unlabelled: set that to true, or these to 0"}
	}
	return errors.Join(idle, backbone.Idle(c.Network))
}

// notes warn of settings that have a value by default, where another one does nothing, and of those
// that go by what a run starts from and learns from: scratch, or weights.
func (c Config) notes(scratch bool) (notes []string) {
	usual := DefaultConfig()
	without := func(why, name string, values ...any) {
		notes = append(notes, fmt.Sprintf("WARNING: "+name+" does nothing: "+why, values...))
	}
	a, b := c.Augment, usual.Augment
	switch deformed := a.Rotation > 0 || a.Scale > 0 || a.Elastic > 0; {
	case a.Spatial == 0 && deformed && (a.Rotation != b.Rotation || a.Scale != b.Scale || a.Elastic != b.Elastic):
		without("the share of crops that are rotated, scaled and deformed, augment.spatial, is 0",
			"augment: rotation %v, scale %v, elastic %v", a.Rotation, a.Scale, a.Elastic)
	case a.Spatial > 0 && !deformed:
		without("augment.rotation, augment.scale and augment.elastic are 0", "augment: spatial %v", a.Spatial)
	}
	if c.InitPartial && scratch {
		without("it is of weights to start from, and there are none", "init_partial")
	}
	if c.Targets == "" && c.LabelledLast != 0 {
		without("no label maps of teachers are learnt from", "labelled_last %d", c.LabelledLast)
	}
	return notes
}

// windows are those that held-out cases are segmented in.
func (c Config) windows() sliding.Options {
	return sliding.Options{Size: c.Crop, Batch: 1, Overlap: c.ValidateOverlap, Mirror: c.ValidateMirror,
		Inputs: c.Network.InputChannels()}
}

// loss is the loss by its name.
func (c Config) loss() (nn.LossOptions, error) {
	switch c.Loss {
	case "ce":
		return nn.LossOptions{CE: 1}, nil
	case "dice":
		return nn.LossOptions{Dice: 1}, nil
	case "dice+ce":
		return nn.LossOptions{CE: 1, Dice: 1}, nil
	}
	return nn.LossOptions{}, fmt.Errorf("there is no loss %q: choose dice, ce or dice+ce", c.Loss)
}

// parseClasses reads the labels of each class: class 1 of the first entry's labels, and so on.
func parseClasses(entries []string) ([][]uint16, error) {
	if len(entries) == 0 {
		return nil, errors.New("there are no labels to segment: has the data been prepared with labels?")
	}
	var classes [][]uint16
	seen := map[uint16]bool{}
	for _, entry := range entries {
		var class []uint16
		for part := range strings.SplitSeq(entry, "+") {
			label, err := strconv.ParseUint(strings.TrimSpace(part), 10, 16)
			if err != nil || label == 0 {
				return nil, fmt.Errorf("labels: %q is not a label, or several joined by +", entry)
			}
			if seen[uint16(label)] {
				return nil, fmt.Errorf("labels: %d is there twice", label)
			}
			seen[uint16(label)] = true
			class = append(class, uint16(label))
		}
		classes = append(classes, class)
	}
	return classes, nil
}

// CountClasses is how many classes a network has, the background among them, that learns labels as
// [Config].Labels has them, of data in which labels have such names.
func CountClasses(labels []string, names map[uint16]string) (int, error) {
	written, err := numbered(labels, names)
	if err != nil {
		return 0, config.Mistaken(err)
	}
	classes, err := parseClasses(written)
	return 1 + len(classes), config.Mistaken(err)
}

// classTable gives each label's class, 0 for those that are not segmented.
func classTable(classes [][]uint16) []uint16 {
	table := make([]uint16, 1<<16)
	for i, class := range classes {
		for _, label := range class {
			table[label] = uint16(i + 1)
		}
	}
	return table
}

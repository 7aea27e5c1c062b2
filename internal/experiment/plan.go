// Package experiment runs what a paper's table needs: folds x fractions of the training cases x
// initialisations x seeds, each a fine-tuning run with predictions and scores of its own, and the
// report on all of them.
//
// Start at [Plan] and [Run]. [Demo] is a small experiment on made-up patients, through the same
// code. A run that is finished is not repeated; one that was interrupted is resumed. Nothing is
// learnt here: pretraining is done by the tasks of package pretext, fine-tuning by package segment,
// scoring by package eval.
package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// Scratch is the initialisation that the others are compared with: random weights.
const Scratch = "scratch"

// The voxels that predictions are scored on.
const (
	scoreOnScan     = "scan"
	scoreOnPrepared = "prepared"
)

// Which training cases the seeds of a fraction have.
const (
	subsetsShared = "shared"
	subsetsOwn    = "own"
)

// Plan is an experiment. One YAML file holds it.
type Plan struct {
	Data       string           `yaml:"data" help:"folder of prepared, labelled cases"`
	Unlabelled float64          `yaml:"unlabelled" help:"share of the patients that is set aside for pretraining, without labels and once for all folds; 0: pretrain on the training cases of each fold" range:"[0,1)"`
	Folds      int              `yaml:"folds" help:"number of folds" range:"[2,)"`
	FoldScheme string           `yaml:"fold_scheme" help:"how cases are divided into folds" oneof:"consecutive shuffled nih"`
	Splits     string           `yaml:"splits" help:"file of folds in nnU-Net's format (splits_final.json) instead"`
	RunFolds   []int            `yaml:"run_folds,flow" help:"folds to run, 1 for the first; empty: all"`
	Fractions  []float64        `yaml:"fractions,flow" help:"shares of each fold's training cases; smaller ones are parts of larger ones" range:"(0,1]"`
	Seeds      []uint64         `yaml:"seeds,flow" help:"seeds of the fine-tuning runs"`
	SubsetSeed uint64           `yaml:"subset_seed" help:"seed of shuffled folds, subsets and cases set aside"`
	Subsets    string           `yaml:"subsets" help:"the training cases of a fraction: shared by all seeds, or each seed's own" oneof:"shared own"`
	Draws      int              `yaml:"draws" help:"with subsets: own, draws of the labelled cases for each fold and fraction; seeds take them by turns, so that the training seed and the draw vary apart; 0: a draw for each seed" range:"[0,)"`
	Encoders   int              `yaml:"encoders" help:"encoders that are pretrained for each initialisation and fold, from seeds of their own; runs of different seeds take them by turns" range:"[1,)"`
	Curve      int              `yaml:"curve" help:"points of the learning curves: so often in a run, the network is validated on training cases of the fold that the run does not learn from; 0: no curves"`
	CurveCases int              `yaml:"curve_cases" help:"cases that a point of a learning curve is measured on, at most" range:"[1,)"`
	Inits      []Initialisation `yaml:"initialisations" help:"what fine-tuning starts from"`
	// Published and Sources change no result.
	Published string   `yaml:"published,omitempty" help:"whose table the published scores of the initialisations are from"`
	Sources   []Source `yaml:"sources,omitempty" help:"the data sets that the prepared cases are made of, which --data-root looks for"`
	Baseline  string   `yaml:"baseline,omitempty" help:"initialisation that the others are compared with; left out: scratch, or the first where there is no scratch"`

	Pretrain  Pretrain          `yaml:"pretrain" flag:"pretrain"`
	Finetune  segment.Config    `yaml:"finetune" flag:"finetune"`
	Inference segment.Inference `yaml:"inference" flag:"inference"`
	ScoreOn   string            `yaml:"score_on" help:"voxels that predictions are scored on: the scan's own, with its labels as they were read, or the prepared ones" oneof:"scan prepared"`
	Metrics   eval.Options      `yaml:"metrics" flag:"metrics"`
}

// Pretrain is a pretext task with its settings.
type Pretrain struct {
	config.OneOf `yaml:",inline"`
}

// Settings are those of the task.
func (p Pretrain) Settings() pretext.Config { return p.Value().(pretext.Config) }

// For is what an arm is pretrained with, whose own section replaces settings.
func (p Pretrain) For(arm string, own config.Section) (Pretrain, error) {
	chosen, err := pretext.Override(&p.OneOf, arm+": pretrain", own)
	return Pretrain{chosen}, err
}

// An Initialisation is what fine-tuning starts from: random weights if it only has a name, a
// checkpoint, or an encoder that is pretrained as part of the experiment, for it or for another.
type Initialisation struct {
	Name       string         `yaml:"name" help:"as it is called in the tables"`
	Checkpoint string         `yaml:"checkpoint,omitempty" help:"a checkpoint to start from"`
	Pretrain   config.Section `yaml:"pretrain,omitempty" help:"pretrain an encoder: settings that differ from those of the plan's section pretrain, {} for none"`
	Data       string         `yaml:"data,omitempty" help:"folder of prepared cases to pretrain on instead, but for those that a fold tests on"`
	Encoder    string         `yaml:"encoder,omitempty" help:"name of another initialisation, whose encoders this one starts from, to compare settings of fine-tuning"`
	Teachers   int            `yaml:"teachers,omitempty" help:"networks that are trained first, from the labels of each run alone, and label the scans that it has no labels of; the run learns from these label maps, too, as voxsaw selftrain does; 0: none"`
	Networks   int            `yaml:"networks,omitempty" help:"networks that each run trains, from seeds of their own, and whose probabilities are averaged in its predictions; left out: 1" range:"[1,)" most:"100"`
	Agreement  float64        `yaml:"agreement,omitempty" help:"with teachers: a structure is ignored in a scan where pairs of them agree less (DSC); left out: 0.5"`
	Finetune   config.Section `yaml:"finetune,omitempty" help:"settings of fine-tuning that differ from those of the plan's section finetune, such as a learning rate or more steps"`
	// Published changes no result.
	Published map[float64]float64 `yaml:"published,omitempty" help:"mean DSC in percent that others published, by the share of the training cases: shown in grey beside ours"`
}

// networks are those that a run tests.
func (i Initialisation) networks() int { return max(i.Networks, 1) }

// trainings are the fine-tunings of a run.
func (i Initialisation) trainings() int { return i.networks() + i.Teachers }

func (i Initialisation) pretrains() bool { return !i.Pretrain.IsZero() }

// random says whether fine-tuning starts from random weights.
func (i Initialisation) random() bool { return i.Checkpoint == "" && !i.pretrains() && i.Encoder == "" }

// DefaultPlan is the protocol of the paper's Table 3, from scratch and with 3x3x3 puzzles.
func DefaultPlan() Plan {
	p := Plan{
		Folds: 4, FoldScheme: dataset.FoldsConsecutive, Fractions: []float64{0.1, 0.2, 1}, Seeds: []uint64{1, 2, 3},
		SubsetSeed: 1, Subsets: subsetsShared, Encoders: 1, CurveCases: 8,
		Pretrain: Pretrain{
			pretext.Scans.Choice(),
		}, Finetune: segment.DefaultConfig(), Inference: segment.DefaultInference(),
		ScoreOn: scoreOnScan, Metrics: eval.DefaultOptions(),
	}
	p.Finetune.Network.Norm = p.Pretrain.Settings().Common().Network.Norm
	p.Inits = p.defaultInits()
	return p
}

// defaultInits are scratch and an encoder that is pretrained as the plan says.
func (p *Plan) defaultInits() []Initialisation {
	name := p.Pretrain.Chosen
	if name == pretext.Default {
		name = "3x3x3" // as the paper's table has it
	}
	return []Initialisation{{Name: Scratch}, {Name: name, Pretrain: config.NewSection("{}\n")}}
}

// Follow takes the choice of another task than [DefaultPlan]'s over to the initialisations, if
// these still are the default ones.
func (p *Plan) Follow() {
	before := DefaultPlan()
	if reflect.DeepEqual(p.Inits, before.Inits) {
		p.Inits = p.defaultInits()
	}
}

// Check says what is wrong with the plan itself. Mistakes in its parts are found when these are
// resolved.
func (p Plan) Check() error {
	switch {
	case p.Data == "":
		return errors.New("data: name the folder of prepared cases")
	case len(p.Fractions) == 0:
		return errors.New("fractions is empty: a plan needs at least one fraction")
	case len(p.Seeds) == 0:
		return errors.New("seeds is empty: a plan needs at least one seed")
	case len(p.Inits) == 0:
		return errors.New("initialisations is empty: a plan needs at least one initialisation")
	case slices.Contains(p.RunFolds, 0):
		return errors.New("run_folds has a fold 0: folds are counted from 1 here, nnU-Net's fold 0 is 1")
	case p.ScoreOn != scoreOnScan && p.ScoreOn != scoreOnPrepared:
		return fmt.Errorf("score_on is %q, must be %s or %s", p.ScoreOn, scoreOnScan, scoreOnPrepared)
	case p.Subsets != subsetsShared && p.Subsets != subsetsOwn:
		return fmt.Errorf("subsets is %q, must be %s or %s", p.Subsets, subsetsShared, subsetsOwn)
	case p.Draws < 0:
		return fmt.Errorf("draws is %d, must be at least 0", p.Draws)
	case p.Draws > 0 && p.Subsets == subsetsShared:
		return errors.New("draws: with subsets: shared all seeds have one draw of the labelled cases: " +
			"leave draws out, or say subsets: own")
	case p.Encoders < 1:
		return fmt.Errorf("encoders is %d, must be at least 1", p.Encoders)
	case p.Curve < 0 || p.Curve > 0 && p.CurveCases < 1:
		return fmt.Errorf("curve is %d points of %d cases: must be 0, or both at least 1", p.Curve, p.CurveCases)
	case !(p.Unlabelled >= 0 && p.Unlabelled < 1):
		return fmt.Errorf("unlabelled is %v, must be a share from 0 to less than 1", p.Unlabelled)
	}
	if err := cmp.Or(Once("seeds", p.Seeds), Once("fractions", p.Fractions),
		Once("run_folds", p.RunFolds)); err != nil {
		return err
	}
	seen := Names{}
	for _, i := range p.Inits {
		if err := seen.Add("initialisation", "initialisations", i.Name); err != nil {
			return err
		}
		switch {
		case i.Checkpoint != "" && i.pretrains():
			return fmt.Errorf("initialisation %s has both a checkpoint and settings to pretrain with: choose one",
				i.Name)
		case i.Encoder != "" && (i.Checkpoint != "" || i.pretrains()):
			return fmt.Errorf("initialisation %s has the encoders of %s, and a checkpoint or "+
				"settings to pretrain with as well: choose one", i.Name, i.Encoder)
		case i.Name == Scratch && !i.random():
			return fmt.Errorf("initialisation %s means random weights: give another name to one with a "+
				"checkpoint or with settings to pretrain with", Scratch)
		case i.Teachers < 0 || i.Teachers > 100 || !(i.Agreement >= 0 && i.Agreement <= 1):
			return fmt.Errorf("initialisation %s: teachers is %d and agreement %v: "+
				"must be from 0 to 100, and from 0 to 1", i.Name, i.Teachers, i.Agreement)
		case i.Agreement > 0 && i.Teachers < 2:
			return fmt.Errorf("initialisation %s: agreement is that of several teachers, and there are %d", i.Name,
				i.Teachers)
		case i.Networks < 0 || i.Networks > 100:
			return fmt.Errorf("initialisation %s: %d networks: must be from 1 to 100", i.Name, i.Networks)
		case i.Networks > 1 && i.Teachers > 0:
			return fmt.Errorf("initialisation %s: teachers and several networks "+
				"cannot be had in one arm yet: choose one",
				i.Name)
		case i.Name == Scratch && i.Networks > 1:
			return fmt.Errorf("initialisation %s is one network: give another name to one of several", Scratch)
		case i.Name == Scratch && i.Teachers > 0:
			return fmt.Errorf("initialisation %s has no teachers: give another name to one with some", Scratch)
		case i.Data != "" && !i.pretrains():
			return fmt.Errorf("initialisation %s has data to pretrain on, but no section "+
				"pretrain: pretrain: {} takes the plan's settings", i.Name)
		}
	}
	if err := p.Paths().CheckSources(p.Sources, false); err != nil {
		return err
	}
	if p.Baseline != "" && !seen[p.Baseline] {
		return fmt.Errorf("baseline is %q, which is no initialisation of the plan", p.Baseline)
	}
	for _, i := range p.Inits {
		if i.Encoder != "" && (!seen[i.Encoder] || !p.initialisation(i.Encoder).pretrains()) {
			return fmt.Errorf("initialisation %s: encoder is %q, which is no "+
				"initialisation of the plan that is pretrained", i.Name, i.Encoder)
		}
		if err := p.checkNetwork(i); err != nil {
			return err
		}
		if err := p.checkBatches(i); err != nil {
			return err
		}
	}
	return nil
}

// Names are those of a plan's initialisations, arms or whatever else has a folder of its own.
type Names map[string]bool

// Add adds a name, or says what is wrong with it. what is what has it, and several are its plural.
func (n Names) Add(what, several, name string) error {
	if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%s %q: its name becomes a folder's, and must not be empty, contain a slash "+
			"or begin with a dot", what, name)
	}
	if n[name] {
		return fmt.Errorf("there are two %s %q", several, name)
	}
	n[name] = true
	return nil
}

// Once is an error where a setting has a value twice: its runs would be counted twice.
func Once[T comparable](setting string, values []T) error {
	for n, v := range values {
		if slices.Contains(values[:n], v) {
			return fmt.Errorf("%s has %v twice: each gives runs of its own", setting, v)
		}
	}
	return nil
}

// checkBatches says that an initialisation leaves a batch to the program. Each machine would take
// another, and runs could not be compared.
func (p Plan) checkBatches(i Initialisation) error {
	const advice = "auto takes what fits into a machine's memory, and the runs of an experiment must be comparable " +
		"on all: give a number; voxsaw %s --batch auto says how many fit"
	c, err := p.finetune(i)
	if err != nil {
		return err
	}
	if c.Batch == 0 {
		return fmt.Errorf("initialisation %s: finetune.batch: "+advice, i.Name, "finetune")
	}
	if !i.pretrains() {
		return nil
	}
	chosen, err := p.pretext(i)
	if err != nil {
		return err
	}
	if *chosen.Settings().Common().Batch == 0 {
		return fmt.Errorf("initialisation %s: pretrain.batch: "+advice, i.Name, "pretrain")
	}
	return nil
}

// finetune is the settings that runs of an initialisation are fine-tuned with. What makes runs
// comparable is the same for all: the network, what it segments, and the seeds.
func (p Plan) finetune(i Initialisation) (segment.Config, error) {
	c := p.Finetune
	if i.Finetune.IsZero() {
		return c, nil
	}
	name := "initialisation " + i.Name + ": finetune"
	if _, ok := i.Finetune.Lookup("load"); ok && i.random() {
		return c, fmt.Errorf("%s: load is of a checkpoint, and this one starts from random weights", name)
	}
	err := i.Finetune.Apply(name, &c)
	if a := p.Finetune.Augment; c.Augment.Preset != a.Preset { // most of a is for another preset
		c.Augment = segment.DefaultAugmentation()
		c.Augment.Mirror = a.Mirror
		err = cmp.Or(err, i.Finetune.Apply(name, &c))
	}
	if err != nil {
		return c, err
	}
	if !c.Network.Equal(p.Finetune.Network) || !slices.Equal(c.Labels, p.Finetune.Labels) ||
		c.Train.Seed != p.Finetune.Train.Seed {
		return c, fmt.Errorf("%s: network, labels and train.seed are the same for all initialisations", name)
	}
	if err := c.Train.Check(); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// checkNetwork says whether the weights that an initialisation is pretrained to fit the network
// that is fine-tuned.
func (p Plan) checkNetwork(i Initialisation) error {
	if !i.pretrains() {
		return nil
	}
	chosen, err := p.pretext(i)
	if err != nil {
		return err
	}
	a, err := backbone.Resolve(*chosen.Settings().Common().Network)
	if err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	b, err := backbone.Resolve(p.Finetune.Network)
	if err != nil {
		return fmt.Errorf("finetune: %w", err)
	}
	if a.Classes = b.Classes; !a.Equal(b) {
		return fmt.Errorf("initialisation %s: pretrain.network and "+
			"finetune.network differ: the weights would not fit: %s", i.Name, config.Unlike(&a, &b))
	}
	return nil
}

// pretext is the task that an initialisation is pretrained with, and its settings.
func (p Plan) pretext(i Initialisation) (Pretrain, error) {
	return p.Pretrain.For(i.called(), i.Pretrain)
}

// changes lists the settings that differ from those that the experiment began with. More or fewer
// folds, fractions, seeds and initialisations are no change, nor is another baseline. Nor is
// another place of the data: their fingerprint tells whether they are the same.
func (p Plan) changes(before Plan) ([]string, error) {
	var texts [2]string
	for n, plan := range []Plan{before, p} {
		if plan.Splits != "" { // how folds would be made without the file changes nothing
			plan.Folds, plan.FoldScheme = 0, ""
		}
		plan.Data, plan.RunFolds, plan.Fractions, plan.Seeds, plan.Inits, plan.Baseline = "", nil, nil, nil, nil, ""
		plan.Published, plan.Sources = "", nil
		text, err := config.Marshal(&plan)
		if err != nil {
			return nil, err
		}
		texts[n] = string(text)
	}
	changes := train.Differences(texts[0], texts[1])
	for _, i := range p.Inits {
		for _, was := range before.Inits {
			if i.Name != was.Name {
				continue
			}
			more, err := i.changes(was)
			if err != nil {
				return nil, err
			}
			changes = append(changes, more...)
		}
	}
	return changes, nil
}

// changes lists the settings that differ from those of before.
func (i Initialisation) changes(before Initialisation) ([]string, error) {
	i.Published, before.Published = nil, nil
	old, err := config.Marshal(&before)
	if err != nil {
		return nil, err
	}
	now, err := config.Marshal(&i)
	if err != nil {
		return nil, err
	}
	changes := train.Differences(string(old), string(now))
	for n := range changes {
		changes[n] = "initialisation " + i.Name + ": " + changes[n]
	}
	return changes, nil
}

// A Trial is one fine-tuning run of the experiment.
type Trial struct {
	Init     string   `json:"initialisation"`
	Fold     int      `json:"fold"` // from 1
	Fraction float64  `json:"fraction"`
	Seed     uint64   `json:"seed"`
	Train    []string `json:"train"`
	Test     []string `json:"test"`
	// Curve is the cases that the learning curve is measured on: training cases of the fold that
	// the run does not learn from.
	Curve []string `json:"curve,omitempty"`
	// Unlabelled is the cases that the run learns from without their labels.
	Unlabelled []string `json:"unlabelled,omitempty"`
}

// Name tells one trial from the others, and is its folder below the experiment's.
func (t Trial) Name() string {
	return fmt.Sprintf("%s/fold-%d/fraction-%g/seed-%d", t.Init, t.Fold, t.Fraction, t.Seed)
}

// studyFormat is the version of what this program writes into the folder of an experiment.
const studyFormat = 1

// Cases are the roles of the cases in an experiment, as subsets.json records them.
type Cases struct {
	Format     int             `json:"format"`
	Unlabelled []string        `json:"unlabelled,omitempty"` // set aside for pretraining
	Folds      []Subsets       `json:"folds"`
	splits     []dataset.Split // all folds, those that are not run too
	doubts     []string        // what people should know about the folds
	plain      []string        // cases that have no labels
	patients   dataset.Patients
	predicted  []string // cases whose labels are
}

// Subsets are the cases of a fold.
type Subsets struct {
	Fold  int      `json:"fold"`
	Test  []string `json:"test"`
	Train []string `json:"train"`
	// training cases of each fraction, or of each fraction and seed
	Fractions map[string][]string `json:"fractions"`
}

// with adds folds and fractions that an experiment had before, and lists, after the changes found
// already, what was divided in another way.
func (c Cases) with(before Cases, changes []string) (Cases, []string) {
	c.Folds = slices.Clone(c.Folds)
	compare := func(what string, was, is []string) {
		if !slices.Equal(was, is) {
			changes = append(changes, fmt.Sprintf("%s: %d in the run, %d now, not the same (see subsets.json)", what,
				len(was), len(is)))
		}
	}
	compare("cases to pretrain on", before.Unlabelled, c.Unlabelled)
	for _, was := range before.Folds {
		at := slices.IndexFunc(c.Folds, func(f Subsets) bool { return f.Fold == was.Fold })
		if at < 0 {
			c.Folds = append(c.Folds, was)
			continue
		}
		is := c.Folds[at]
		is.Fractions = maps.Clone(is.Fractions)
		compare(fmt.Sprintf("test cases of fold %d", is.Fold), was.Test, is.Test)
		compare(fmt.Sprintf("training cases of fold %d", is.Fold), was.Train, is.Train)
		for _, fraction := range slices.Sorted(maps.Keys(was.Fractions)) {
			if _, ok := is.Fractions[fraction]; !ok {
				is.Fractions[fraction] = was.Fractions[fraction]
			}
			compare(fmt.Sprintf("fraction %s of fold %d", fraction, is.Fold), was.Fractions[fraction],
				is.Fractions[fraction])
		}
		c.Folds[at] = is
	}
	slices.SortFunc(c.Folds, func(a, b Subsets) int { return a.Fold - b.Fold })
	return c, changes
}

// cases divides the labelled cases, and keeps those without labels; the result depends on names,
// patients and plan alone.
func (p Plan) cases(ids, plain []string, patients dataset.Patients, predicted ...string) (Cases, error) {
	c := Cases{Format: studyFormat, plain: plain, patients: patients, predicted: predicted}
	var err error
	if p.Unlabelled > 0 {
		if ids, c.Unlabelled, err = dataset.HoldOut(ids, patients, p.Unlabelled, p.SubsetSeed); err != nil {
			return c, fmt.Errorf("setting cases aside for pretraining: %w", err)
		}
	}
	s := dataset.Selection{Folds: p.Folds, FoldScheme: p.FoldScheme, Splits: p.Splits, SubsetSeed: p.SubsetSeed,
		Patients: patients, Predicted: predicted}
	splits, err := s.AllFolds(ids)
	if err != nil && p.Splits != "" && len(c.Unlabelled) > 0 {
		err = fmt.Errorf("%w: unlabelled: %v sets %s aside for pretraining before folds are made, and folds must not "+
			"name them: %s. Take them out of the file, or leave unlabelled out", err, p.Unlabelled,
			numbers.Count(len(c.Unlabelled), "labelled case"), safetext.List(c.Unlabelled))
	}
	if err != nil {
		return c, err
	}
	c.splits, c.doubts = splits, append(p.leftOut(splits, ids), s.Doubts(splits)...)
	if note := s.NotePredicted(ids); note != "" {
		c.doubts = append(c.doubts, note)
	}
	for _, k := range p.RunFolds {
		if k < 1 || k > len(splits) {
			return c, fmt.Errorf("run_folds: there is no fold %d, they are 1 to %d", k, len(splits))
		}
	}
	for k, split := range splits {
		if len(p.RunFolds) > 0 && !slices.Contains(p.RunFolds, k+1) {
			continue
		}
		f := Subsets{Fold: k + 1, Test: split.Val, Train: split.Train, Fractions: map[string][]string{}}
		for _, number := range p.Seeds {
			subsets, err := dataset.Nested(split.Train, p.Fractions, p.subsetSeed(number))
			if err != nil {
				return c, err
			}
			for n, fraction := range p.Fractions {
				f.Fractions[p.subset(fraction, number)] = subsets[n]
			}
		}
		c.Folds = append(c.Folds, f)
	}
	c.doubts = append(c.doubts, p.repeated(c)...)
	return c, nil
}

// leftOut says which labelled cases the file of folds names in no fold, or not in one that is run.
func (p Plan) leftOut(splits []dataset.Split, ids []string) (doubts []string) {
	if p.Splits == "" {
		return nil
	}
	nowhere := ids
	for _, s := range splits {
		nowhere = s.LeftOut(nowhere)
	}
	if len(nowhere) > 0 {
		doubts = append(doubts, fmt.Sprintf("%s leaves %s out of every fold: %s", p.Splits,
			numbers.Count(len(nowhere), "labelled case"), safetext.List(nowhere)))
	}
	for n, s := range splits {
		left := slices.DeleteFunc(s.LeftOut(ids), func(id string) bool { return slices.Contains(nowhere, id) })
		if len(left) > 0 && (len(p.RunFolds) == 0 || slices.Contains(p.RunFolds, n+1)) {
			doubts = append(doubts,
				fmt.Sprintf("%s leaves %s out of fold %d, which neither trains nor tests on them: %s", p.Splits,
					numbers.Count(len(left), "labelled case"), n+1, safetext.List(left)))
		}
	}
	return doubts
}

// subset names the training cases of a fraction and a seed.
func (p Plan) subset(fraction float64, number uint64) string {
	if p.Subsets == subsetsShared {
		return fmt.Sprint(fraction)
	}
	return fmt.Sprintf("%g, seed %d", fraction, p.draw(number))
}

// draw is the seed whose own labelled cases a seed has.
func (p Plan) draw(number uint64) uint64 {
	if p.Draws == 0 || number == 0 {
		return number
	}
	return (number-1)%uint64(p.Draws) + 1
}

// drawShared is the same where seeds share a draw, as [eval.Trial] has it: 0 where each has its
// own. All seeds have one where a share is drawn once for all, and where it is all training cases.
func (p Plan) drawShared(number uint64, fraction float64) uint64 {
	switch {
	case p.Subsets == subsetsShared || fraction == 1: // other parts may have other seeds
		return 1
	case p.Draws == 0:
		return 0
	}
	return p.draw(number)
}

// subsetSeed is what draws the training cases of a seed.
func (p Plan) subsetSeed(number uint64) uint64 {
	if p.Subsets == subsetsShared {
		return p.SubsetSeed
	}
	return seed.Rand(p.SubsetSeed, "subset", p.draw(number)).Uint64()
}

// curveCases are the cases that a run's learning curve is measured on: the first, in an order of
// the seed's own, of the fold's training cases that the run does not learn from, nor from others of
// their patients. Those whose labels are predicted are none.
func (p Plan) curveCases(c Cases, fold, train []string, number uint64) []string {
	if p.Curve == 0 {
		return nil
	}
	used := slices.Concat(train, c.patients.Torn(train, fold), c.predicted)
	rest := slices.DeleteFunc(slices.Clone(fold), func(id string) bool { return slices.Contains(used, id) })
	slices.Sort(rest)
	seed.Rand(p.SubsetSeed, "curve", p.draw(number)).Shuffle(len(rest), func(a, b int) {
		rest[a], rest[b] = rest[b], rest[a]
	})
	rest = rest[:min(len(rest), p.CurveCases)]
	slices.Sort(rest)
	return rest
}

// trials lists the fine-tuning runs, all initialisations of a setting next to each other, so that
// an unfinished experiment compares as much as it can.
func (p Plan) trials(c Cases) []Trial {
	var all []Trial
	for _, number := range p.Seeds {
		for _, f := range c.Folds {
			for _, fraction := range p.Fractions {
				train := f.Fractions[p.subset(fraction, number)]
				curve := p.curveCases(c, f.Train, train, number)
				for _, i := range p.Inits {
					t := Trial{Init: i.Name, Fold: f.Fold, Fraction: fraction, Seed: number, Train: train, Test: f.Test,
						Curve: curve}
					if p.unlabelled(i.Name) {
						t.Unlabelled = c.unlabelled(f, t)
					}
					all = append(all, t)
				}
			}
		}
	}
	return all
}

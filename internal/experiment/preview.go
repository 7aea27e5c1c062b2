package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Preview is what a plan would run on the cases that are there now.
type Preview struct {
	Trials   []Trial   `json:"trials"`
	Cases    Cases     `json:"cases"`
	Encoders []Encoder `json:"encoders"`
	// Labels are in how many cases each label is shown.
	Labels []ShownLabel `json:"labels"`
	// Components is the post-processing of all arms: which connected components predictions keep.
	Components string `json:"components"`
	// Unlabelled says which arms learn from scans without labels, and from which; "" where none
	// does. Trials list them.
	Unlabelled string `json:"unlabelled,omitempty"`
	// what makes the result better than it is, or another than it seems
	Doubts []string `json:"doubts,omitempty"`
	// CanRun says that nothing was found that keeps a trial from being run.
	CanRun bool `json:"-"`
}

// Look tells what a plan would run, without running any of it, in a folder that may hold a part of
// it; "" for a new one.
func Look(plan Plan, out string) (Preview, error) {
	var p Preview
	stores := NewStores(Setting{}, prepared.Open)
	defer stores.Close()
	store, err := stores.Of(plan.Data)
	if err != nil {
		return p, err
	}
	begun, err := plan.begun(out)
	if err != nil {
		return p, err
	}
	plan, err = plan.settled(begun)
	if err != nil {
		return p, err
	}
	p.Components = plan.Inference.Components
	if p.Cases, err = plan.casesOf(store); err != nil {
		return p, err
	}
	p.Trials, p.Doubts = plan.trials(p.Cases), p.Cases.doubts
	p.Unlabelled, p.CanRun = unlabelledNote(p.Trials), true
	p.Doubts = append(p.Doubts, plan.ofStore(store)...)
	if settings, err := plan.Finetune.Resolve(store); err != nil {
		p.Doubts, p.CanRun = append(p.Doubts, fmt.Sprintf("WARNING: no trial can be run so: finetune: %v", err)), false
	} else {
		resolved := plan
		resolved.Finetune = settings
		p.Labels = resolved.shown(p.Cases, store)
		p.Doubts = append(p.Doubts, unlearntDoubts(p.Labels)...)
		if err := errors.Join(resolved.checkArms(store), resolved.checkUnlabelled(p.Trials, 1),
			resolved.checkTeachers(store, p.Trials)); err != nil {
			p.Doubts, p.CanRun = append(p.Doubts, fmt.Sprintf("WARNING: not all trials can be run so: %v", err)), false
		}
	}
	for _, i := range plan.Inits {
		if !i.pretrains() {
			continue
		}
		numbers := plan.encoderNumbers()
		for _, f := range p.Cases.Folds {
			e, err := plan.encoder(i, f.Fold, numbers[0], p.Cases, stores)
			if err != nil {
				return p, err
			}
			for _, e.Number = range numbers {
				p.Encoders = append(p.Encoders, e)
			}
			if e.Fold == 0 { // the other folds take this one
				break
			}
		}
	}
	return p, nil
}

// An Encoder is one that the experiment pretrains.
type Encoder struct {
	Init string `json:"initialisation"`
	Fold int    `json:"fold,omitempty"` // 0: one for all folds
	// from 0, where several are pretrained for a fold
	Number int    `json:"encoder,omitempty"`
	Data   string `json:"data"` // where its cases are
	// what it is pretrained and validated on, without labels
	Cases []string `json:"cases"`
	Left  []string `json:"left,omitempty"` // cases that are there too, but that folds test on
}

// initialisation is the one of a name.
func (p Plan) initialisation(name string) Initialisation {
	at := slices.IndexFunc(p.Inits, func(i Initialisation) bool { return i.Name == name })
	return p.Inits[at]
}

// pretrained is the initialisation whose encoders one starts from: itself, or another that it
// names.
func (p Plan) pretrained(i Initialisation) Initialisation {
	if i.Encoder != "" {
		return p.initialisation(i.Encoder)
	}
	return i
}

// pretrainedOn is the folder of the cases that an initialisation is pretrained on.
func (p Plan) pretrainedOn(i Initialisation) string { return cmp.Or(i.Data, p.Data) }

// encoderOf says which of several encoders runs of a seed start from. It depends on the seed alone,
// so that an experiment may grow by seeds.
func (p Plan) encoderOf(number uint64) int { return int(number % uint64(p.Encoders)) }

// encoderNumbers are the encoders that the plan's seeds start from.
func (p Plan) encoderNumbers() []int {
	var all []int
	for _, number := range p.Seeds {
		all = append(all, p.encoderOf(number))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// encoder says on what an initialisation is pretrained for a fold: never on a case that the fold
// tests on.
func (p Plan) encoder(i Initialisation, fold, number int, c Cases, stores *Stores[*prepared.Store]) (Encoder, error) {
	e := Encoder{Init: i.Name, Fold: fold, Number: number, Data: p.pretrainedOn(i)}
	store, err := stores.Of(p.Data)
	if err != nil {
		return e, err
	}
	switch {
	case i.Data != "":
		e.Fold = 0
		tested, err := p.tested(store)
		if err != nil {
			return e, err
		}
		other, err := stores.Of(i.Data)
		if err != nil {
			return e, fmt.Errorf("initialisation %s: %w", i.Name, err)
		}
		if e.Cases, e.Left = apart(other.Records(), tested); len(e.Cases) == 0 {
			return e,
				fmt.Errorf("initialisation %s: folds test on all %d cases of %s: "+
					"pretraining on them would give the test cases away", i.Name, len(e.Left), i.Data)
		}
		return e, nil
	case len(c.Unlabelled) > 0:
		e.Fold, e.Cases = 0, slices.Clone(c.Unlabelled)
	default:
		e.Cases = slices.Clone(c.splits[fold-1].Train)
	}
	var tested []string
	for n, s := range c.splits {
		if e.Fold == 0 || n+1 == fold {
			tested = append(tested, s.Val...)
		}
	}
	patients := dataset.PatientsOf(store.Records())
	// scans that never had labels serve every fold that does not test on their patients
	for c := range store.Records() {
		switch {
		case c.HasLabels || c.Group != "":
		case len(patients.Torn(tested, []string{c.ID})) > 0:
			e.Left = append(e.Left, c.ID)
		default:
			e.Cases = append(e.Cases, c.ID)
		}
	}
	return e, nil
}

// tested lists the cases of all patients that any fold tests on, those of folds that are not run
// included: an experiment may grow by them, and keeps its encoders.
func (p Plan) tested(store *prepared.Store) ([]prepared.Record, error) {
	p.RunFolds = nil
	all, err := p.casesOf(store)
	if err != nil {
		return nil, err
	}
	patients := dataset.PatientsOf(store.Records())
	test, ofPatient := map[string]bool{}, map[string]bool{}
	for _, f := range all.Folds {
		for _, id := range f.Test {
			test[id], ofPatient[patients[id]] = true, true
		}
	}
	delete(ofPatient, "") // of these nobody is known
	return slices.DeleteFunc(slices.Collect(store.Records()), func(c prepared.Record) bool {
		return !test[c.ID] && !ofPatient[patients[c.ID]]
	}), nil
}

// apart divides the cases of another folder: those that may be looked at, and those of patients
// who are tested, known by their patient, or by the name, the voxels or the files of one of their
// cases.
// Another patient of the same name is left out too: nothing tells the two apart for certain, and a
// case fewer costs less than a result that is wrong. Those that the data set holds back for testing
// are neither.
func apart(cases iter.Seq[prepared.Record], tested []prepared.Record) (free, left []string) {
	names, paths, hashes, patients := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range tested {
		names[c.ID], hashes[c.Scan], patients[c.Patient] = true, true, true
		for _, s := range c.Sources {
			paths[s.Path], hashes[s.Hash] = true, true
		}
	}
	delete(hashes, "") // of sources that nobody has read
	delete(patients, "")
	there := dataset.PatientsOf(cases)
	ofTested := map[string]bool{} // patients there
	known := func(c prepared.Record) bool {
		return names[c.ID] || hashes[c.Scan] || patients[c.Patient] ||
			slices.ContainsFunc(c.Sources, func(s prepared.Source) bool { return paths[s.Path] || hashes[s.Hash] })
	}
	for c := range cases {
		if known(c) {
			ofTested[there[c.ID]] = true
		}
	}
	delete(ofTested, "")
	for c := range cases {
		switch {
		case c.Group != "": // the data set holds it back
		case known(c) || ofTested[there[c.ID]]:
			left = append(left, c.ID)
		default:
			free = append(free, c.ID)
		}
	}
	return free, left
}

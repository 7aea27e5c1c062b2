package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: arms that learn from scans without labels, too: by a mean teacher
// (finetune.unlabelled), or by what other networks predict for them (teachers).
//
// What a trial of such an arm has without labels: the training cases of its fold whose labels its
// share leaves out, the cases set aside for pretraining, and the scans that never had labels. Never
// a case that the fold tests on or that the learning curve is measured on, nor another scan of
// their patients.

// unlabelledRule says it, for people.
const unlabelledRule = "Without labels a run learns from the training cases of its fold " +
	"that it has no labels of, those set aside for pretraining, and scans that never had labels; " +
	"never from a patient who is tested on or measured by the learning curve"

// casesOf divides the cases of a store.
func (p Plan) casesOf(store *prepared.Store) (Cases, error) {
	labelled, plain := store.ForTraining()
	return p.cases(labelled, plain, dataset.PatientsOf(store.Records()), store.Predicted()...)
}

// unlabelled says whether an arm learns from scans without labels.
func (p Plan) unlabelled(name string) bool {
	i := p.initialisation(name)
	c, err := p.finetune(i) // which Check has looked at
	return err == nil && (c.Unlabelled || i.Teachers > 0)
}

// unlabelled are the scans that a trial learns from without their labels.
func (c Cases) unlabelled(f Subsets, t Trial) []string {
	scans := slices.Concat(f.Train, c.Unlabelled, c.plain)
	return c.patients.WithoutLabels(scans, t.Train, slices.Concat(t.Test, t.Curve))
}

// checkUnlabelled says which trials would have no scan without labels to learn from, though they
// are to, and that several ranks cannot do it.
func (p Plan) checkUnlabelled(trials []Trial, ranks int) error {
	var empty []string
	for _, t := range trials {
		switch {
		case !p.unlabelled(t.Init):
		case ranks > 1:
			return fmt.Errorf("initialisation %s: learning from scans without labels (finetune.unlabelled, teachers) "+
				"in %d ranks cannot be done yet: leave the ranks out, trials can run beside one another",
				t.Init, ranks)
		case len(t.Unlabelled) == 0:
			empty = append(empty, t.Name())
		}
	}
	if len(empty) > 0 {
		return fmt.Errorf("finetune.unlabelled, teachers: %s would have no scan without labels to learn from: %s: "+
			"leave the share out in which all training cases have labels, "+
			"or prepare scans without labels into the same folder",
			numbers.Count(len(empty), "trial"), safetext.List(empty))
	}
	return nil
}

// checkTeachers says, before any training, which trials' teachers would be refused once they are
// trained.
func (p Plan) checkTeachers(store *prepared.Store, trials []Trial) error {
	for _, t := range trials {
		i := p.initialisation(t.Init)
		if i.Teachers == 0 {
			continue
		}
		c, err := p.finetune(i)
		if err == nil {
			c, err = c.Resolve(store)
		}
		if err == nil {
			err = segment.CheckTeachers(c, i.Checkpoint, store, t.asked())
		}
		if err != nil {
			return fmt.Errorf("trial %s: %w", t.Name(), err)
		}
	}
	return nil
}

// asked says which label maps a trial's teachers make, and by which labels.
func (t Trial) asked() segment.TargetOptions {
	return segment.TargetOptions{Scans: t.Unlabelled, Drawn: t.Train, Held: slices.Concat(t.Test, t.Curve)}
}

// unlabelledNote says which arms of some trials learn from scans without labels, from how many, and
// from which; "" where none does.
func unlabelledNote(trials []Trial) string {
	var arms []string
	least, most := map[string]int{}, map[string]int{}
	for _, t := range trials {
		n := len(t.Unlabelled)
		if n == 0 {
			continue
		}
		if !slices.Contains(arms, t.Init) {
			arms, least[t.Init] = append(arms, t.Init), n
		}
		least[t.Init], most[t.Init] = min(least[t.Init], n), max(most[t.Init], n)
	}
	if arms == nil {
		return ""
	}
	for n, name := range arms {
		of := numbers.Count(most[name], "scan")
		if least[name] != most[name] {
			of = fmt.Sprintf("%d to %s", least[name], of)
		}
		arms[n] = fmt.Sprintf("%s, from %s", name, of)
	}
	return "learns from scans without labels, too: " + safetext.List(arms) + ". " + unlabelledRule
}

// withoutLabels is the same for the report.
func (r *Result) withoutLabels() report.Facts {
	text := unlabelledNote(r.trials)
	if text == "" {
		return nil
	}
	return report.Facts{{Name: "Without labels", Value: text}}
}

// checkArms says what is wrong with the settings of an arm that only the data tells, or only all of
// its settings together, before any other arm is trained.
func (p Plan) checkArms(store *prepared.Store) error {
	var failed []error
	for _, i := range p.Inits {
		c, err := p.finetune(i)
		if err == nil && i.Teachers > 0 && c.Unlabelled {
			err = errors.New("unlabelled and teachers are two ways to learn from scans without labels: choose one")
		}
		if err == nil {
			_, err = c.Resolve(store)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("initialisation %s: finetune: %w", i.Name, err))
		}
	}
	return errors.Join(failed...)
}

// Idle implements [Study].
func (p Plan) Idle() error {
	var tuned, pretrained []ArmSettings
	for _, i := range p.Inits {
		if c, err := p.finetune(i); err == nil {
			tuned = append(tuned, ArmSettings{i.called() + ": finetune", i.Finetune, true, c.Idle()})
		}
		if i.pretrains() {
			pretrained = append(pretrained, p.Pretrain.Arm(i.called(), i.Pretrain))
		}
	}
	return errors.Join(IdleIn(tuned), IdleIn(pretrained))
}

// An ArmSettings is the settings by which an arm is fine-tuned or pretrained.
type ArmSettings struct {
	Name   string
	Own    config.Section // what it does not share with the other arms
	Shares bool           // that the rest is the plan's; else it is of a task of its own
	Idle   error
}

// Arm is how an arm is pretrained.
func (p Pretrain) Arm(name string, own config.Section) ArmSettings {
	a := ArmSettings{Name: name + ": pretrain", Own: own}
	if chosen, err := p.For(name, own); err == nil { // else the plan's check has said so
		a.Shares, a.Idle = chosen.Chosen == p.Chosen, chosen.Settings().Idle()
	}
	return a
}

// goesBy says whether a setting that the plan gives all arms does something in this one.
func (a ArmSettings) goesBy(key string) bool {
	return a.Shares && !a.Own.Has(key) && !slices.ContainsFunc(config.Separate(a.Idle), func(err error) bool {
		return slices.Contains(config.IdleKeys(err), key)
	})
}

// IdleIn says which settings do nothing in an arm that gives them itself, or in any.
func IdleIn(arms []ArmSettings) error {
	var failed []error
	for _, a := range arms {
		for _, err := range config.Separate(a.Idle) {
			keys := config.IdleKeys(err)
			mistaken := func(key string) bool {
				return a.Own.Has(key) || !slices.ContainsFunc(arms, func(b ArmSettings) bool { return b.goesBy(key) })
			}
			if len(keys) == 0 || slices.ContainsFunc(keys, mistaken) {
				failed = append(failed, fmt.Errorf("%s: %w", a.Name, err))
			}
		}
	}
	return errors.Join(failed...)
}

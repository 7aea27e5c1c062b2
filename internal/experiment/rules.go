package experiment

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/segment"
)

// This file: trials of a version that learnt and scored what was drawn of classes in part are not
// put beside trials that do otherwise.

// oneRule refuses to go on with an experiment of which an earlier version finished trials whose
// cases have classes that were drawn in part: the others would learn or score these in another way.
// Where nothing is left to do, it is told.
func (r *runner) oneRule() error {
	var earlier, scored, left []string
	now := 0
	for _, t := range r.plan.trials(r.result.Cases) {
		folder := t.Folder(r.Out)
		if !finished(folder) {
			left = append(left, t.Name())
		}
		c, err := r.plan.finetune(r.plan.initialisation(t.Init))
		if err != nil {
			return err
		}
		learns, _ := c.DrawnInPart(r.cache, t.Train)
		scores, _ := c.DrawnInPart(r.cache, t.Test)
		measured, _ := c.DrawnInPart(r.cache, t.Curve)
		if c.Undrawn == segment.UndrawnBackground {
			learns = nil // so they were learnt, too
		}
		if len(learns)+len(scores)+len(measured) == 0 {
			continue
		}
		whole, begun, err := segment.BegunByWhole(folder)
		switch {
		case err != nil: // the trial says what is wrong with its run
		case begun && !whole && (finished(folder) || len(learns)+len(measured) > 0):
			earlier, scored = append(earlier, t.Name()), slices.Concat(scored, scores, measured)
		case begun:
			now++
		}
	}
	switch {
	case len(earlier) == 0:
	case len(left) == 0 || r.Finished:
		if text := "an earlier version carried out " + safetext.List(earlier) + ": it learnt and scored what was " +
			"drawn of classes of which a label was not drawn in a case"; now > 0 {
			r.Console.Note("WARNING: " + text + ", and other trials leave that out: they cannot be compared")
		} else {
			r.Console.Note(text + ". This version leaves that out")
		}
	default:
		advice := "carry out the plan in another folder"
		if len(scored) == 0 && r.onlyInPart() {
			advice = "finetune.undrawn: background in the plan goes on as it was begun; or " + advice
		}
		return &voxsaw.ChangedError{Path: r.Out, Changes: []string{fmt.Sprintf("classes of which a "+
			"label was not drawn in a case: an earlier version learnt and scored what was drawn "+
			"of them, in %s; that is left out now: %s",
			safetext.List(earlier), advice)}}
	}
	return nil
}

// onlyInPart says whether an earlier version learnt from the cases of all trials as
// [segment.UndrawnBackground] does.
func (r *runner) onlyInPart() bool {
	for _, t := range r.plan.trials(r.result.Cases) {
		i := r.plan.initialisation(t.Init)
		c, err := r.plan.finetune(i)
		if err != nil || i.Teachers > 0 {
			return false
		}
		if _, wholly := c.DrawnInPart(r.cache, t.Train); len(wholly) > 0 {
			return false
		}
	}
	return true
}

// goesOnAsBackground says whether undrawn: background changes nothing about how the trials that
// have begun have learnt.
func (r *runner) goesOnAsBackground() bool {
	if r.plan.Finetune.Undrawn != segment.UndrawnBackground || !r.onlyInPart() {
		return false
	}
	for _, t := range r.plan.trials(r.result.Cases) {
		if whole, ok, err := segment.BegunByWhole(t.Folder(r.Out)); err != nil || ok && whole {
			c, errConfig := r.plan.finetune(r.plan.initialisation(t.Init))
			if partly, _ := c.DrawnInPart(r.cache, t.Train); err != nil || errConfig != nil || len(partly) > 0 {
				return false
			}
		}
	}
	return true
}

// Package triage ranks prepared cases by what is doubtful about their label maps: which unlabelled
// scan to label next, and which of the labels that people drew to look at again.
//
// Start at [Rank]. What is unusual about a label map, package quality says; how label maps are
// made, package segment.
package triage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/predict"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Options say what is ranked.
type Options struct {
	Drawn   bool               // the labels that people drew; otherwise the cases without labels
	Network *segment.Predictor // nil, with Drawn: no network is asked
	// Begin is told of each case that a network is about to look at, of so many; may be nil.
	Begin func(id string, of int)
}

// A Ranking is cases with what is doubtful about them, the most doubtful first.
type Ranking struct {
	Cases []Ranked
	Notes []string // by what they were ranked

	options  Options
	store    *prepared.Store
	set      *quality.Set
	estimate *quality.Estimator
	known    []quality.Case // whose DSC is known, and which the network has not learnt from
}

// Ranked is a case with its place in the order.
type Ranked struct {
	quality.Case
	Findings  []quality.Finding
	Unusual   float64 // the largest of the z-scores and of the findings
	Agreement float64 // the mean over structures, a missing one counts as 0; NaN: not known
	DSC       float64 // the same of the estimates

	files files // where its picture and label map are written
}

// Rank looks at all cases of a store but those that the data set holds back for testing. Cases
// without labels are ordered by the DSC that is estimated; where it is not known, by the agreement
// of networks; where that is not known either, as labels that people drew, by how unusual they are.
func Rank(ctx context.Context, store *prepared.Store, o Options) (*Ranking, error) {
	r := &Ranking{options: o, store: store}
	if o.Network == nil && !o.Drawn {
		return nil, errors.New("cases without labels are ranked by the label maps of a network, and there is none")
	}
	if o.Network != nil && o.Network.Preparation() != store.Preparation() {
		var differ []string
		for _, d := range o.Network.Preparation().Differences(store.Preparation()) {
			differ = append(differ, fmt.Sprintf("%s: %s here, %s there", d.Key, d.Old, d.New))
		}
		return nil, fmt.Errorf("the cases were prepared in another way than those that the network was trained on "+
			"(%s): prepare the scans as these were, or take another checkpoint", strings.Join(differ, "; "))
	}
	var labelled, wanted []string
	for c := range store.Records() {
		switch {
		case c.Group != "":
		case c.HasLabels:
			labelled = append(labelled, c.ID)
		case !o.Drawn:
			wanted = append(wanted, c.ID)
		}
	}
	drawn := make([]quality.Case, len(labelled))
	for n, id := range labelled {
		var err error
		if _, drawn[n], err = r.drawn(id); err != nil {
			return nil, err
		}
	}
	var known []string          // labelled cases that a network says something of
	learnt := map[string]bool{} // those that it has learnt from
	lost := ""
	if o.Network != nil {
		lost = o.Network.Lost()
		for _, id := range labelled {
			record, _ := store.Record(id)
			if lesson, found := o.Network.LearntFrom(id, record.Scan); found && lesson.Labels {
				learnt[id] = true
			}
		}
	}
	switch {
	case o.Drawn && len(labelled) == 0:
		return nil, errors.New("none of the prepared cases has labels")
	case !o.Drawn && len(wanted) == 0:
		return nil, errors.New("all prepared cases have labels: there is none to label next " +
			"(--drawn looks at the labels that there are)")
	case lost != "":
		r.Notes = append(r.Notes, "which labelled cases the network has learnt from nobody can say ("+lost+"), so "+
			"that its DSC there tells nothing and is left out: copy that file back beside the checkpoint")
	case o.Drawn && o.Network != nil:
		known = labelled
	case !o.Drawn:
		known = slices.DeleteFunc(slices.Clone(labelled), func(id string) bool { return learnt[id] })
	}
	if guessed := store.Predicted(); len(guessed) > 0 && len(known) > 0 {
		known = slices.DeleteFunc(slices.Clone(known), func(id string) bool { return slices.Contains(guessed, id) })
		r.Notes = append(r.Notes, fmt.Sprintf("the labels of %s are predictions, which nobody drew: no DSC is "+
			"measured against them: %s", numbers.Count(len(guessed), "case"), safetext.List(guessed)))
	}
	predicted := map[string]quality.Case{}
	for n, id := range slices.Concat(known, wanted) {
		if o.Begin != nil {
			o.Begin(id, len(known)+len(wanted))
		}
		c, err := r.predicted(ctx, id)
		if stopped := ctx.Err(); stopped != nil {
			return nil, fmt.Errorf("stopped after %d of %s: %w", n, numbers.Count(len(known)+len(wanted), "case"),
				stopped)
		}
		if err != nil {
			return nil, err
		}
		predicted[id] = c
	}
	pick := func(ids []string) (cases []quality.Case) {
		for _, id := range ids {
			cases = append(cases, predicted[id])
		}
		return cases
	}
	candidates := pick(wanted)
	if o.Drawn {
		for n, id := range labelled {
			drawn[n].DSC, drawn[n].Learnt = predicted[id].DSC, learnt[id]
		}
		candidates = drawn
	}
	held := "the labels of " + numbers.Count(len(drawn), "case")
	if r.set = quality.NewSetFor(candidates, drawn); len(drawn) < quality.Fewest {
		held = "each other, for fewer than " + fmt.Sprint(quality.Fewest) + " have labels"
	}
	r.Notes = append(r.Notes, "volumes and heights are held against "+held)
	if o.Drawn && len(known) > 0 && len(learnt) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the DSC of what the network draws is held against that of cases of the "+
			"same kind: %d whose labels it has learnt from, which it may draw again with their mistakes, and %d "+
			"others; fewer than %d tell nothing", len(learnt), len(known)-len(learnt), quality.Fewest))
	}
	if !o.Drawn && len(r.set.SeldomDrawn) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("those of %s against each other, for fewer than %d cases have it drawn",
			safetext.List(r.set.SeldomDrawn), quality.Fewest))
	}
	if !o.Drawn {
		r.known = pick(known)
		r.estimate = quality.NewEstimator(r.known)
		if note := r.estimate.Note(); note != "" {
			r.Notes = append(r.Notes, note)
		}
		if r.estimate != nil && o.Network.Chosen() {
			r.Notes = append(r.Notes, "the cases that were held out in training chose the checkpoint, or what is done "+
				"after prediction: where they are among those that the DSC is estimated by, it is a little too good")
		}
	}
	for _, c := range candidates {
		r.Cases = append(r.Cases, r.ranked(c))
	}
	r.order(len(known))
	return r, nil
}

// Count is how many cases get a picture and a label map, where nobody says.
const Count = 10

// Passes is how often each of some networks looks at a whole scan for a ranking of scans, labelled
// ones that it is estimated by among them, and to write pictures and label maps of the first ones:
// all of them together for a label map, and where there are several each alone, for how little they
// agree; then for a label map on the voxels of the scan, and for the picture.
func Passes(scans, written, networks int) int { return min(networks, 2)*scans + 2*written }

// drawn measures the labels of a case that somebody drew, merged as the network has learnt them.
func (r *Ranking) drawn(id string) (*volume.LabelMap, quality.Case, error) {
	c, err := r.store.Open(id)
	if err != nil {
		return nil, quality.Case{}, err
	}
	l, err := c.LabelMap()
	if err != nil {
		return nil, quality.Case{}, err
	}
	if r.options.Network != nil {
		l = r.options.Network.Reference(l)
	}
	return l, quality.MeasurePrepared(c.Record, l), nil
}

// predicted measures what the network makes of a case, and compares it with labels where it has
// any.
func (r *Ranking) predicted(ctx context.Context, id string) (q quality.Case, err error) {
	c, err := r.store.Open(id)
	if err != nil {
		return q, err
	}
	network := r.options.Network
	l, err := network.PredictCase(ctx, c)
	if err != nil {
		return q, err
	}
	q = quality.MeasurePrepared(c.Record, l)
	q.Absent = quality.Absent(q.Structures, network.Labels(), network.LabelNames())
	if !r.options.Drawn && network.CanAgree() == nil {
		if q.Agreement, err = network.Agreement(ctx, c); err != nil {
			return q, fmt.Errorf("case %s: %w", id, err)
		}
	}
	if !c.HasLabels {
		return q, nil
	}
	reference, _, err := r.drawn(id)
	if err != nil {
		return q, err
	}
	scores, err := eval.Compare(id, l, reference, eval.Options{Overlap: true})
	if err != nil {
		return q, fmt.Errorf("case %s: %w", id, err)
	}
	q.DSC = map[uint16]float64{}
	for _, s := range scores {
		if !math.IsNaN(s.DSC) {
			q.DSC[s.Label] = s.DSC
		}
	}
	return q, nil
}

// ranked judges a case.
func (r *Ranking) ranked(c quality.Case) Ranked {
	k := Ranked{Case: c, Findings: r.set.Judge(c)}
	for _, f := range k.Findings {
		k.Unusual = max(k.Unusual, f.Unusual)
	}
	lacks := r.set.Missing(c)
	missing := len(lacks) // their agreement and their DSC are 0
	estimated, compared := missing, len(c.Structures)+missing
	for _, one := range c.Structures {
		k.Unusual = max(k.Unusual, math.Abs(r.set.VolumeZ(one)), math.Abs(r.set.HeightZ(one)))
		k.Agreement += c.Agreement[one.Label]
		if e, known := r.estimate.Of(c, one); known {
			k.DSC += e.DSC
			estimated++
		}
	}
	for _, one := range c.Absent { // of the mean of the networks, but one of them draws it
		if x, known := c.Agreement[one.Label]; known && !slices.Contains(lacks, one.Key()) {
			k.Agreement += x
			compared++
		}
	}
	n := len(c.Structures) + missing
	k.Agreement /= float64(max(compared, 1))
	k.DSC /= float64(max(estimated, 1))
	if c.Agreement == nil {
		k.Agreement = math.NaN()
	}
	if r.estimate == nil || n > 0 && estimated == 0 {
		k.DSC = math.NaN()
	}
	return k
}

// withoutEstimate are the names of structures whose DSC is estimated in no case, though that of
// others is, and which no mean has.
func (r *Ranking) withoutEstimate() (names []string) {
	if r.estimate == nil {
		return nil
	}
	estimated := map[string]bool{}
	for _, k := range r.Cases {
		for _, one := range k.Structures {
			_, known := r.estimate.Of(k.Case, one)
			estimated[one.Key()] = estimated[one.Key()] || known
		}
	}
	for name, known := range estimated {
		if !known {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, numbers.CompareNatural)
	return names
}

// order sorts the cases, and says by what.
func (r *Ranking) order(calibrated int) {
	number := func(of func(Ranked) float64) bool {
		return !slices.ContainsFunc(r.Cases, func(k Ranked) bool { return math.IsNaN(of(k)) })
	}
	key, by := func(k Ranked) float64 { return -k.Unusual }, "how unusual they are"
	if agreement := func(k Ranked) float64 { return k.Agreement }; number(agreement) {
		key, by = agreement, "how little label maps agree"
	}
	known := slices.ContainsFunc(r.Cases, func(k Ranked) bool { return !math.IsNaN(k.DSC) })
	if dsc := func(k Ranked) float64 { return k.DSC }; known { // those without it are first
		key, by = dsc, fmt.Sprintf("the DSC that is estimated by %s that the network has not learnt from",
			numbers.Count(calibrated, "labelled case"))
		if names := r.withoutEstimate(); len(names) > 0 {
			by += fmt.Sprintf(", in the mean over structures; too few of them show %s, whose DSC is not estimated",
				safetext.List(names))
		}
	}
	r.Notes = append(r.Notes, "ordered by "+by)
	slices.SortStableFunc(r.Cases, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(b.Unusual, a.Unusual), strings.Compare(a.ID, b.ID))
	})
}

// Reason is what is doubtful about a case, for a person.
func (k Ranked) Reason() string {
	var all []string
	for _, f := range k.Findings {
		all = append(all, f.String())
	}
	if len(all) == 0 {
		return "nothing unusual"
	}
	return strings.Join(all, "; ")
}

// Warning says which of the labels that people drew are unusual; "" where none are.
func (r *Ranking) Warning() string {
	var odd []string
	for _, k := range r.Cases {
		if len(k.Findings) > 0 {
			odd = append(odd, fmt.Sprintf("%s (%s)", k.ID, k.Findings[0]))
		}
	}
	if len(odd) == 0 {
		return ""
	}
	return fmt.Sprintf("WARNING: labels unlike those of the other cases: %d of %s: %s; voxsaw next --drawn "+
		"shows them all, with pictures",
		len(odd), numbers.Count(len(r.Cases), "case"), safetext.List(odd))
}

// Table lists the cases in their order.
func (r *Ranking) Table() table.Table {
	t := table.Table{Title: "to label next, the most doubtful first", Notes: r.Notes, Columns: []table.Column{
		{Key: "rank", Title: "rank"}, {Key: "case", Title: "case"},
		{Key: "dsc_estimate", Title: "DSC, estimated", Digits: 2}, {Key: "agreement", Title: "agreement", Digits: 2},
		{Key: "unusual_z", Title: "most unusual (z)", Digits: 1}, {Key: "reason", Title: "reason"},
		{Key: "picture"}, {Key: "label_map"}}}
	if r.options.Drawn {
		t.Title = "drawn labels, the most doubtful first"
	}
	named := func(file string) any {
		if file == "" {
			return nil
		}
		return file
	}
	optional := func(x float64) any {
		if math.IsNaN(x) {
			return nil
		}
		return x
	}
	for n, k := range r.Cases {
		dsc := k.DSC * 100
		t.Rows = append(t.Rows, []any{n + 1, k.ID, optional(dsc), optional(k.Agreement), k.Unusual, k.Reason(),
			named(k.files.picture), named(k.files.labels)})
	}
	for n, key := range []string{"dsc_estimate", "agreement"} {
		if !slices.ContainsFunc(t.Rows, func(row []any) bool { return row[2+n] != nil }) {
			t = t.Hide(key)
		}
	}
	return t
}

// Quality lists the structures of the cases, as beside label maps.
func (r *Ranking) Quality() table.Table {
	cases := make([]quality.Case, len(r.Cases))
	for n, k := range r.Cases {
		cases[n] = k.Case
	}
	return quality.Table(cases, r.set, r.estimate)
}

// Calibration lists what the network makes of labelled cases that it has not learnt from, with
// their DSC, and with what says which network that was.
func (r *Ranking) Calibration() (table.Table, error) {
	return predict.Calibration(r.known, r.set, predict.Own(r.options.Network))
}

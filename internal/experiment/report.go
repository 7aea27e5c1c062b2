package experiment

import (
	"context"
	"errors"
	"fmt"
	"image"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// baseline is what the plan says, else scratch, or the first initialisation where there is no
// scratch.
func (r *Result) baseline() string {
	if r.Plan.Baseline != "" {
		return r.Plan.Baseline
	}
	var names []string
	for _, i := range r.Plan.Inits {
		names = append(names, i.Name)
	}
	return DefaultBaseline(names)
}

// DefaultBaseline is what initialisations are compared with where nobody says it: scratch, or the
// first of them.
func DefaultBaseline(names []string) string {
	if slices.Contains(names, Scratch) {
		return Scratch
	}
	return names[0]
}

// Report is the page on an experiment, finished or not. It draws pictures with the networks of the
// first fold and seed. A section that cannot be made is left out, and the error says so: the page
// has all others.
func (r *Result) Report(ctx context.Context, title string, s Setting) (report.Report, error) {
	page := report.Report{Title: title}
	var failed []error
	without := func(what string, err error) bool {
		if err != nil {
			failed = append(failed, fmt.Errorf("without %s: %w", what, err))
		}
		return err == nil
	}
	curves, err := r.LearningCurves(s.Out)
	without("learning curves", err)
	scored := r.Scored()
	scored.Curves = curves
	page.Subtitle = fmt.Sprintf("%d of %s: %s, %s, %s, %s", len(r.Runs), numbers.Count(len(r.trials), "trial"),
		numbers.Count(len(r.Cases.Folds), "fold"),
		numbers.Count(len(r.Plan.Fractions), "fraction"), numbers.Count(len(r.Plan.Inits), "initialisation"),
		numbers.Count(len(r.Plan.Seeds), "seed"))
	of, err := scored.sections()
	if err != nil {
		return page, err
	}
	page.Sections = append(page.Sections, of.means)
	page.Sections = append(page.Sections, of.differences...)

	if compute, err := r.Compute(s); without("the table of compute", err) {
		page.Sections = append(page.Sections,
			report.Section{Title: "Compute", Blocks: []report.Block{report.Table{Table: compute}}})
	}
	page.Sections = append(page.Sections, of.learning...)

	store, err := prepared.Open(r.Plan.Data)
	if err != nil {
		return page, err
	}
	defer store.Close()
	pretexts, err := r.pretexts(ctx, s)
	if stopped := ctx.Err(); stopped != nil {
		return page, stopped
	}
	if without("what encoders do", err) {
		page.Sections = append(page.Sections, pretexts...)
	}
	pictures, err := r.slices(ctx, s, store)
	if stopped := ctx.Err(); stopped != nil {
		return page, stopped
	}
	if without("slices", err) && len(pictures) > 0 {
		page.Sections = append(page.Sections, report.Section{Title: "Slices", Blocks: []report.Block{
			report.Text("Filled: the network's labels. Outline: the reference."), pictures,
		}})
	}
	if trainings, err := r.curves(s); without("the curves of trainings", err) {
		page.Sections = append(page.Sections, trainings)
	}
	page.Sections = append(page.Sections, of.structures, r.perCase())
	plan, err := smallfile.Read(filepath.Join(s.Out, planFile), smallfile.Settings)
	if err != nil {
		return page, err
	}
	subsets, err := smallfile.Read(filepath.Join(s.Out, subsetsFile), smallfile.List)
	if err != nil {
		return page, err
	}
	page.Sections = append(page.Sections, report.Section{Title: "How it was made", Blocks: []report.Block{
		append(report.Facts{
			{Name: "Program", Value: "voxsaw " + voxsaw.Version()}, {Name: "Device", Value: s.Device.Describe()},
			{Name: "Prepared cases", Value: fmt.Sprint(store.Len())},
			{Name: "Fingerprint of the data", Value: store.Fingerprint()},
			{Name: "Labels", Value: table.List(r.Plan.Finetune.Names, 0)},
			{Name: "Compared on", Value: comparedOn(r.Plan.ScoreOn, store.Preparation())},
			{Name: "Taken over by fine-tuning", Value: r.Plan.takenOver()},
		}, r.withoutLabels()...),
		report.Code{Title: "plan.yaml", Text: string(plan)},
		report.Code{Title: "subsets.json: who trains and who tests", Text: string(subsets)},
	}})
	return page, errors.Join(failed...)
}

// takenOver says of each initialisation what fine-tuning loads.
func (p Plan) takenOver() string {
	var all []string
	for _, i := range p.Inits {
		what := "nothing"
		if c, err := p.finetune(i); err == nil && !i.random() {
			if what = "all weights that fit"; c.Load == segment.LoadEncoder {
				what = "the encoder"
			}
		}
		all = append(all, i.Name+": "+what)
	}
	return strings.Join(all, "; ")
}

// comparedOn says which voxels predictions and references were compared on.
func comparedOn(where string, how volume.Preparation) string {
	if where == scoreOnPrepared {
		return "the prepared grid: " + preparation(how)
	}
	return "the scans' own voxels; prepared: " + preparation(how)
}

func preparation(p volume.Preparation) string {
	spacing := "the scan's own spacing"
	if p.Spacing != [3]float64{} {
		spacing = fmt.Sprintf("%g x %g x %g mm (0: the scan's own)", p.Spacing[0], p.Spacing[1], p.Spacing[2])
	}
	return fmt.Sprintf("axes %s, %s, %s", p.Axcodes, spacing, p.DescribeIntensities())
}

// pretexts tells how well the pretrained encoders do their tasks on cases that they were not
// trained on: a section for each task.
func (r *Result) pretexts(ctx context.Context, s Setting) ([]report.Section, error) {
	var sections []report.Section
	for _, task := range r.tasks() {
		section, err := r.pretext(ctx, s, task)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// tasks lists the tasks of the encoders, in the order of the encoders.
func (r *Result) tasks() []pretext.Task {
	var list []pretext.Task
	for _, e := range r.Encoders {
		if !slices.ContainsFunc(list, func(t pretext.Task) bool { return t.Name == e.Task.Name }) {
			list = append(list, e.Task)
		}
	}
	return list
}

// pretext is the section on the encoders of one task, with a picture of each. Encoders may be
// measured by other things, as puzzles of one grid and of several are: a column is empty for those
// that do not have it.
func (r *Result) pretext(ctx context.Context, s Setting, task pretext.Task) (report.Section, error) {
	section := report.Section{Title: task.Title}
	t := table.Table{Title: "After pretraining, on cases that were not trained on, in percent", Columns: []table.Column{
		{Key: "initialisation", Title: "initialisation"}, {Key: "fold", Title: "fold"}, {Key: "steps", Title: "steps"},
		{Key: "cases", Title: "held-out cases"},
	}}
	first := len(t.Columns)
	var scores []string
	var pictures report.Pictures
	var cells []map[string]any // of each encoder, by the column's key
	var notes remarks
	for _, p := range r.Encoders {
		if p.Task.Name != task.Name {
			continue
		}
		e, picture, err := r.evaluate(ctx, s, p)
		if err != nil {
			return section, err
		}
		fold := any("all")
		if p.Fold > 0 {
			fold = p.Fold
		}
		name := p.Init
		if r.Plan.Encoders > 1 {
			name = fmt.Sprintf("%s, encoder %d", p.Init, p.Number)
		}
		t.Rows = append(t.Rows, []any{name, fold, p.Steps, e.Cases})
		own := map[string]any{"chance": 100 * e.Chance[e.Score], "ceiling": 100.0}
		if e.Ceiling != nil {
			own["ceiling"] = 100 * e.Ceiling[e.Score]
		}
		for n, share := range e.Final() {
			m := e.Measures[n]
			own[m.Key] = 100 * share
			if !slices.ContainsFunc(t.Columns, func(c table.Column) bool { return c.Key == m.Key }) {
				t.Columns = append(t.Columns, table.Column{Key: m.Key, Title: m.Title, Digits: 1})
			}
		}
		cells = append(cells, own)
		if score := e.Measures[e.Score].Title; !slices.Contains(scores, score) {
			scores = append(scores, score)
		}
		notes.add(p.Init, fmt.Sprintf("%s, fold %v", name, fold), e.Notes)
		pictures = append(pictures, report.Picture{Image: picture.Image, Caption: name + ": " + picture.Caption})
	}
	t.Notes = notes.notes()
	score := strings.Join(scores, " or ")
	t.Columns = append(t.Columns, table.Column{Key: "chance", Title: score + ", by chance", Digits: 1},
		table.Column{Key: "ceiling", Title: score + ", at most", Digits: 1})
	for n, own := range cells {
		for _, c := range t.Columns[first:] {
			t.Rows[n] = append(t.Rows[n], own[c.Key])
		}
	}
	section.Blocks = []report.Block{report.Table{Table: t}, pictures}
	return section, nil
}

// remarks are what is noted about encoders, in the order in which it first was.
type remarks struct {
	encoders map[string]int // of each initialisation
	all      []remark
}

type remark struct {
	text  string
	about map[string][]string // of each initialisation, the encoders' names
}

// add adds what is noted about an encoder of an initialisation, which its name begins with.
func (r *remarks) add(init, name string, notes []string) {
	if r.encoders == nil {
		r.encoders = map[string]int{}
	}
	r.encoders[init]++
	for _, text := range notes {
		i := slices.IndexFunc(r.all, func(m remark) bool { return m.text == text })
		if i < 0 {
			i = len(r.all)
			r.all = append(r.all, remark{text, map[string][]string{}})
		}
		r.all[i].about[init] = append(r.all[i].about[init], name)
	}
}

// notes are those below a table of all encoders: one that is not about all of them says whom it is
// about.
func (r remarks) notes() []string {
	var notes []string
	for _, m := range r.all {
		var whom []string
		every := len(m.about) == len(r.encoders)
		for _, init := range slices.Sorted(maps.Keys(m.about)) {
			if names := m.about[init]; len(names) == r.encoders[init] {
				whom = append(whom, init)
			} else {
				whom, every = append(whom, names...), false
			}
		}
		if !every {
			m.text = strings.Join(whom, "; ") + ": " + m.text
		}
		notes = append(notes, m.text)
	}
	return notes
}

// evaluate does an encoder's task on its held-out cases, and draws the first.
func (r *Result) evaluate(ctx context.Context, s Setting, p Pretraining) (e pretext.Evaluation, picture pretext.Picture,
	err error) {
	store, err := prepared.Open(p.Data)
	if err != nil {
		return e, picture, err
	}
	defer store.Close()
	held, err := sample.Open(store, p.Held)
	if err != nil {
		return e, picture, err
	}
	evaluator, err := p.Task.Open(ctx, s.Device, train.Last(p.Folder), pretext.OpenOptions{Memory: s.Memory})
	if err != nil {
		return e, picture, err
	}
	defer evaluator.Close()
	if e, err = evaluator.Evaluate(ctx, held); err == nil {
		picture, err = evaluator.Picture(held[0])
	}
	return e, picture, err
}

// slices shows what each initialisation makes of one test case, with the smallest fraction, where
// they differ most; and the test cases that they do worst on.
func (r *Result) slices(ctx context.Context, s Setting, store *prepared.Store) (report.Pictures, error) {
	if len(r.Runs) == 0 {
		return nil, nil
	}
	first := r.Runs[0]
	id := median(first.Scores)
	picture, err := r.drawn(ctx, s, store, first, id, report.OverlayOptions{})
	if err != nil {
		return nil, err
	}
	pictures := report.Pictures{{Image: picture,
		Caption: fmt.Sprintf("Test case %s (the median one from %s), %s of the training cases, seed %d.", id,
			first.Initialisation, table.Percent(first.Fraction), first.Seed)}}
	worst := report.Sheet{Most: 8}
	for _, run := range r.Runs { // of each fold, beside the other initialisations
		if run.Initialisation != first.Initialisation || run.Seed != first.Seed || run.Fraction != first.Fraction {
			continue
		}
		ids, means := report.WorstFirst(run.Scores)
		for _, id := range ids {
			dsc := means[id]
			text := fmt.Sprintf("%s from %s, fold %d, %s of the training cases, seed %d; the slices with the "+
				"largest errors",
				report.MeanDSC(dsc), run.Initialisation, run.Fold, table.Percent(run.Fraction), run.Seed)
			err := worst.Add("Test case "+id, dsc, text, func() (image.Image, error) {
				return r.drawn(ctx, s, store, run, id, report.OverlayOptions{Errors: true, AxialOnly: true})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return append(pictures, worst.Pictures()...), nil
}

// drawn draws what each initialisation makes of a test case, in the runs that are else as one is.
func (r *Result) drawn(ctx context.Context, s Setting, store *prepared.Store, like eval.Trial, id string,
	o report.OverlayOptions) (image.Image, error) {
	c, err := store.Open(id)
	if err != nil {
		return nil, err
	}
	learnt, err := r.Plan.Finetune.Resolve(store)
	if err != nil {
		return nil, err
	}
	reference, err := c.LabelMap()
	if err != nil {
		return nil, err
	}
	var rows []report.Segmented
	for _, t := range r.done() {
		if t.Fold != like.Fold || t.Seed != like.Seed || t.Fraction != like.Fraction {
			continue
		}
		labels, err := r.prediction(ctx, s, t, c)
		if err != nil {
			return nil, err
		}
		rows = append(rows, report.Segmented{Title: t.Init, Labels: labels})
	}
	scan, err := c.Volume()
	if err != nil {
		return nil, err
	}
	how := store.Preparation()
	o.Window = report.Shown(how.Channel(0), c.Intensities(0))
	return report.Overlay(scan, learnt.Reference(reference), rows, o)
}

func (t Trial) is(r eval.Trial) bool {
	return t.Init == r.Initialisation && t.Fold == r.Fold && t.Fraction == r.Fraction && t.Seed == r.Seed
}

// median is the case whose mean DSC is in the middle of those that have one.
func median(scores []eval.Score) string {
	ids, means := report.WorstFirst(scores)
	if n := slices.IndexFunc(ids, func(id string) bool { return math.IsNaN(means[id]) }); n > 0 {
		ids = ids[:n]
	}
	return ids[len(ids)/2]
}

// curves draws how the encoders were pretrained and how the networks of the first fold and seed
// were fine-tuned.
func (r *Result) curves(s Setting) (report.Section, error) {
	section := report.Section{Title: "Curves"}
	var trainings []report.Training
	for _, p := range r.Encoders {
		name := p.Init
		if p.Fold > 0 {
			name = fmt.Sprintf("%s, fold %d", p.Init, p.Fold)
		}
		if r.Plan.Encoders > 1 {
			name += fmt.Sprintf(", encoder %d", p.Number)
		}
		trainings = append(trainings, report.Training{Name: name, Folder: p.Folder})
	}
	if len(trainings) > 0 {
		charts, err := report.Curves(trainings...)
		if err != nil {
			return section, err
		}
		section.Blocks = append(section.Blocks, report.Text("Pretraining."), charts)
	}
	trainings = nil
	for _, t := range r.done() {
		if t.Fold == r.Runs[0].Fold && t.Seed == r.Runs[0].Seed {
			trainings = append(trainings,
				report.Training{Name: fmt.Sprintf("%s, %s", t.Init, table.Percent(t.Fraction)),
					Folder: t.Folder(s.Out)})
		}
	}
	charts, err := report.Curves(trainings...)
	if err != nil {
		return section, err
	}
	section.Blocks = append(section.Blocks,
		report.Text(fmt.Sprintf("Fine-tuning, fold %d, seed %d.", r.Runs[0].Fold, r.Runs[0].Seed)), charts)
	return section, nil
}

// perCase is every score of every run.
func (r *Result) perCase() report.Section {
	section := report.Section{Title: "Cases"}
	for _, run := range r.Runs {
		t := table.PerCase(run.Scores)
		t.Title = fmt.Sprintf("%s, fold %d, %s, seed %d", run.Initialisation, run.Fold, table.Percent(run.Fraction),
			run.Seed)
		section.Blocks = append(section.Blocks, report.Table{Table: t, Folded: true})
	}
	return section
}

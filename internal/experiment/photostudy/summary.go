package photostudy

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// The keys of published scores that are no task's name.
const (
	publishedCorrect = "correct"
	publishedNear    = "near"
	publishedOnly    = "only"
)

// A score is a column of the summary.
type score struct {
	key, title string
	of         number
}

// scores are the columns of the summary: puzzles after the last round, by binary terms where there
// are any, then what features and fine-tuned networks are worth.
func (p Plan) scores() []score {
	correct := func(m puzzle2d.Metrics) float64 { return m.Correct }
	all := []score{
		{publishedCorrect, "Correct", solved(correct, "binary", "unary")},
		{publishedNear, "D<=2", solved(func(m puzzle2d.Metrics) float64 { return m.Near }, "binary", "unary")},
	}
	if p.Only > 0 {
		all = append(all, score{publishedOnly, fmt.Sprintf("Correct of %d orders", p.Only), solved(correct, "only")})
	}
	for k, f := range p.Finetune {
		all = append(all, score{f.Name, f.Name + ", mAP", func(r Result) (float64, bool) {
			if k >= len(r.Finetuned) {
				return 0, false
			}
			return 100 * r.Finetuned[k].ElevenPoints, true
		}})
	}
	for k, t := range p.Transfer {
		all = append(all, score{t.Name, t.Name + ", SVM",
			told(k, func(d puzzle2d.Draw) float64 { return d.Accuracy })})
	}
	return all
}

// checkPublished says which published score is of nothing that is measured.
func (p Plan) checkPublished() error {
	var keys []string
	for _, s := range p.scores() {
		keys = append(keys, s.key)
	}
	for _, a := range p.Arms {
		for key := range a.Published {
			if !slices.Contains(keys, key) {
				return fmt.Errorf("arm %s: published: there is no score %q: the plan has %s", a.Name, key,
					table.List(keys, 0))
			}
		}
	}
	return nil
}

// summaryTable is a row for each arm, the mean over seeds, with what others have published beside
// it: the paper's Table 1, for a plan of its rows.
func summaryTable(plan Plan, results []Result) table.Table {
	t := table.Table{Title: "Arms, in percent, mean over seeds", Columns: []table.Column{{Key: "arm", Title: "arm"},
		{Key: "seeds", Title: "seeds"}}}
	var shown []score
	published := map[string]bool{}
	for _, s := range plan.scores() {
		there := slices.ContainsFunc(results, func(r Result) bool { _, ok := s.of(r); return ok })
		for _, a := range plan.Arms {
			if _, ok := a.Published[s.key]; ok && there {
				published[s.key] = true
			}
		}
		if !there {
			continue
		}
		shown = append(shown, s)
		t.Columns = append(t.Columns, table.Column{Key: s.key, Title: s.title, Digits: 1})
		if published[s.key] {
			t.Columns = append(t.Columns, table.Column{Key: s.key + table.PublishedKey, Title: "published", Digits: 1})
		}
	}
	for _, arm := range plan.Arms {
		of := ofArm(results, arm.Name)
		if len(of) == 0 {
			continue
		}
		row := []any{arm.Name, len(of)}
		for _, s := range shown {
			sum, n := 0.0, 0
			for _, r := range of {
				if v, ok := s.of(r); ok {
					sum, n = sum+v, n+1
				}
			}
			var cell any
			if n > 0 {
				cell = sum / float64(n)
			}
			if row = append(row, cell); !published[s.key] {
				continue
			}
			cell = nil
			if v, ok := arm.Published[s.key]; ok {
				cell = v
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	if len(published) > 0 {
		t.Notes = append(t.Notes,
			"Published: "+plan.Published+". Other data, other code or other settings make other scores.")
	}
	if len(plan.Finetune) > 0 {
		t.Notes = append(t.Notes, "mAP: mean average precision by VOC2007's rule, eleven points, on the side test")
	}
	return t
}

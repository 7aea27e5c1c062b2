package table

import (
	"fmt"

	"github.com/voxsaw/voxsaw/eval"
)

// PublishedKey ends the keys of columns of published scores.
const PublishedKey = "_published"

// Published are scores that others have published, in the unit of the table that they stand in.
type Published struct {
	By string // whose they are: "Wei et al., CVPR 2019, Table 3"
	// Scores are those of an initialisation, by the share of the training cases.
	Scores map[string]map[float64]float64
}

// Of is the score of a cell, if there is one.
func (p Published) Of(initialisation string, fraction float64) (score float64, ok bool) {
	score, ok = p.Scores[initialisation][fraction]
	return score, ok
}

// Beside is the table of an experiment with the published scores beside its own.
func (p Published) Beside(f eval.FoldTable) Table {
	metric := MetricColumn(f.Metric, true)
	t := Table{Title: "Mean " + metric.Title + " beside what was published", Columns: []Column{{"data", "data", 0}},
		Notes: []string{"Published: " + p.By + ". Other data, other code or other settings make other " +
			"scores: nothing is tested between the two."}}
	var shown []int
	for n, i := range f.Initialisations {
		if p.Scores[i] == nil {
			continue
		}
		shown = append(shown, n)
		t.Columns = append(t.Columns, Column{i + "_" + metric.Key, i, metric.Digits},
			Column{i + PublishedKey, fmt.Sprintf("%s, published", i), metric.Digits})
	}
	for row, fraction := range f.Fractions {
		cells := []any{Percent(fraction)}
		for _, n := range shown {
			cells = append(cells, f.Cells[row][n].Spread)
			if score, ok := p.Of(f.Initialisations[n], fraction); ok {
				cells = append(cells, score)
			} else {
				cells = append(cells, nil)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

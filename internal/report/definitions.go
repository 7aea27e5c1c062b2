package report

import "strings"

// definitions say what the metrics are, for readers who do not read code, by the beginnings of
// their keys.
var definitions = []struct{ key, name, text string }{
	{"dsc", "DSC",
		"Dice similarity coefficient: twice the voxels that prediction and reference share, divided by the voxels of " +
			"both together. 1 (100 %) is perfect, 0 is no overlap."},
	{"hd95", "HD95",
		"95th percentile of the Hausdorff distance, in millimetres: 95 % of each surface lies within " +
			"this distance of the other. 0 is perfect."},
	{"hd_mm", "HD",
		"Hausdorff distance, in millimetres: the largest distance from a point of one surface to the other. 0 is " +
			"perfect; a single stray voxel can make it large."},
	{"assd", "ASSD",
		"Average symmetric surface distance, in millimetres: the mean distance between the two " +
			"surfaces, measured from both. 0 is perfect."},
	{"nsd", "NSD",
		"Normalised surface Dice: the share of both surfaces that lies within the " +
			"tolerance of the other. 1 (100 %) is perfect."},
}

const emptiness = "A label that only the reference shows was missed, one that only the prediction shows " +
	"was invented: DSC and NSD are 0, and distances are infinite (∞), counted and left out of means. A " +
	"label that neither shows is not counted (–)."

// complete adds to the sections what the metrics of their tables mean.
func (r Report) complete() []Section {
	var facts Facts
	for _, d := range definitions {
		if r.shows(d.key) {
			facts = append(facts, Fact{d.name, d.text})
		}
	}
	if len(facts) == 0 {
		return r.Sections
	}
	return append(r.Sections[:len(r.Sections):len(r.Sections)],
		Section{"What the numbers mean",
			[]Block{glossary(append(facts, Fact{"Missed and invented labels", emptiness}))}})
}

// shows tells whether a table has a column of a metric.
func (r Report) shows(key string) bool {
	for _, t := range r.tables() {
		for _, c := range t.Columns {
			if strings.Contains("_"+c.Key, "_"+key) {
				return true
			}
		}
	}
	return false
}

// glossary is terms with a sentence each.
type glossary []Fact

func (g glossary) html(b *strings.Builder) error {
	b.WriteString("<dl class=\"glossary\">\n")
	for _, term := range g {
		b.WriteString("<dt>" + escape(term.Name) + "</dt><dd>" + escape(term.Value) + "</dd>\n")
	}
	b.WriteString("</dl>\n")
	return nil
}

func (g glossary) markdown(m *markdown) error {
	for n, term := range g {
		if n > 0 {
			m.WriteString("\n")
		}
		m.WriteString("**" + term.Name + "**: " + paragraph(term.Value) + "\n")
	}
	return nil
}

package segment

import (
	"slices"

	"github.com/voxsaw/voxsaw/volume"
)

// Reference is a label map with the labels that the network was taught: merged as its classes are,
// all others background. A perfect prediction of the case equals it.
func (p *Predictor) Reference(l *volume.LabelMap) *volume.LabelMap {
	classes, _ := parseClasses(p.config.Labels) // checked when the checkpoint was read
	table := classTable(classes)
	out := &volume.LabelMap{Grid: l.Grid, Labels: slices.Clone(l.Labels), Names: p.LabelNames()}
	for i, label := range out.Labels {
		out.Labels[i] = p.labels[table[label]]
	}
	return out
}

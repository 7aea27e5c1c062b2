// Package eval says how good a segmentation is: overlap, surface distances and volumes of label
// maps against references, and the statistics that compare one experiment with another. It returns
// numbers; package internal/table writes them and internal/report draws them.
//
// Start at [Compare], which scores one case, then [ByLabel], which sums up many, and [Folds], the
// result of an experiment.
//
// # What is measured
//
// For one label, P is the set of voxels that carry it in the prediction and R the set that carry it
// in the reference. The surface of a set is its voxels that touch the outside, or the edge of the
// image, with one of their six faces: the set minus its erosion. Distances run between the centres
// of surface voxels, in millimetres, with the spacing of the grid. d(P,R) are the distances from
// every surface voxel of P to the nearest one of R.
//
//	DSC    2 |P and R| / (|P| + |R|), the Dice similarity coefficient
//	HD     max(max d(P,R), max d(R,P)), the Hausdorff distance
//	HD95   max(p95 d(P,R), p95 d(R,P)), percentiles interpolated linearly
//	ASSD   mean of d(P,R) and d(R,P) together, the average symmetric surface distance
//	NSD    share of d(P,R) and d(R,P) together that is within a tolerance, the normalised
//	       surface Dice
//
// Sources: Heimann et al., IEEE TMI 28(8), 2009, for ASSD; Nikolov et al., arXiv 1809.04430, for
// NSD, which here counts surface voxels (Seidlitz et al., arXiv 2111.05408) instead of weighing
// pieces of surface by their area.
//
// # When one is empty
//
// Where both P and R are empty there is nothing to measure: every ratio and distance is NaN and is
// left out of means. So it is where nobody drew the label in the reference
// ([volume.LabelMap].Undrawn), or where it was drawn and other structures have all its voxels
// (Emptied), whatever P is. Where only one of them is empty, the label was missed
// or invented ([Score.Outcome]): DSC and NSD are 0, and the distances are +Inf. [Summarise] leaves
// infinite values out of the mean and counts them. With [Options].Penalise the distances are the
// longest one in the image instead.
//
// # What is ignored
//
// Voxels with the label that the reference's names call "ignore" ([volume.IgnoreName]) are in
// neither set, as in nnU-Net, whose metrics count only the others. A surface that is cut off there
// ends at the cut.
//
// # Beside other tools
//
// A test holds these sentences against values that the tools gave.
//
// MONAI 1.6 gives the same DSC, HD, HD95, ASSD and NSD wherever P and R hold a voxel. A missed
// label has HD95 NaN there, an invented one HD95 and DSC NaN, and NaN is left out of its means: so
// what was missed does not count in its mean HD95, and what was invented counts neither there nor
// in its mean DSC. Infinite values of HD and ASSD are not left out.
//
// medpy 0.5 gives the same DSC, HD and ASSD. Its HD95 is one percentile of d(P,R) and d(R,P)
// together. It refuses to measure distances where one side is empty.
//
// DeepMind's surface-distance gives the same DSC. Its surface elements lie between the voxels, and
// its HD95 and NSD weigh each by its area, so both differ from the ones here.
package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
)

// Options say what [Compare] measures.
type Options struct {
	// labels to score, by number or name; all that occur when empty
	//
	// Labels are numbers or names; see [Find].
	Labels []string `yaml:"labels"`
	// score all labels above 0 as one, or those that labels lists
	Merge bool `yaml:"merge"`
	// NSD: how far a surface may be off, in mm
	Tolerance float64 `yaml:"tolerance"`
	// distances of a label that was missed or invented: the image's diagonal instead of infinite
	Penalise bool `yaml:"penalise"`
	// DSC and volumes only, no surface distances
	Overlap bool `yaml:"overlap_only"`
}

// DefaultOptions score every label, NSD at 2 mm.
func DefaultOptions() Options { return Options{Tolerance: 2} }

// Check reports the first option that makes no sense.
func (o Options) Check() error {
	if !(o.Tolerance >= 0) || math.IsInf(o.Tolerance, 1) {
		return fmt.Errorf("tolerance %v: want a distance of 0 mm or more", o.Tolerance)
	}
	for _, label := range o.Labels {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	return nil
}

// Score is how one label of one case was segmented. Ratios are between 0 and 1, distances in
// millimetres, volumes in millilitres.
type Score struct {
	Case      string
	Label     uint16
	Name      string // of the label, where known
	DSC       float64
	HD95      float64
	HD        float64
	ASSD      float64
	NSD       float64
	Tolerance float64 // of NSD
	Predicted float64 // volume
	Reference float64 // volume; NaN where the reference does not tell
	// Emptied says why it does not: the label was drawn, and other structures have all its voxels.
	// Otherwise nobody drew it.
	Emptied bool
	// Unlearnt says that no training case of the network shows the label: it cannot have learnt it,
	// and the score is in no mean.
	Unlearnt bool
}

// Outcome says what became of a label in one case.
type Outcome string

// The outcomes. A label was scored where both prediction and reference hold it, missed where only
// the reference does, invented where only the prediction does, and absent where neither does. It is
// undrawn where the reference says nothing about it, and emptied where it was drawn there and has
// lost all its voxels to other structures: then nothing is measured. It is unlearnt where the
// network was never shown it: what was measured is in no mean.
const (
	Scored   Outcome = "scored"
	Missed   Outcome = "missed"
	Invented Outcome = "invented"
	Absent   Outcome = "absent"
	Undrawn  Outcome = "undrawn"
	Emptied  Outcome = "emptied"
	Unlearnt Outcome = "unlearnt"
)

// Outcome tells a label that was missed or invented from one that is not there.
func (s Score) Outcome() Outcome {
	switch {
	case math.IsNaN(s.Predicted) && math.IsNaN(s.Reference) && s.DSC > 0 && !s.Unlearnt:
		return Scored // by a program that tells no volumes
	case math.IsNaN(s.Reference) && math.IsNaN(s.DSC) && !math.IsNaN(s.Predicted):
		if s.Emptied {
			return Emptied
		}
		return Undrawn
	case s.Unlearnt:
		return Unlearnt
	case s.Predicted > 0 && s.Reference > 0:
		return Scored
	case s.Reference > 0:
		return Missed
	case s.Predicted > 0:
		return Invented
	}
	return Absent
}

// Counts says whether the score is in means over labels and cases: unless the reference does not
// tell of the label, or the network was never shown it.
func (s Score) Counts() bool {
	outcome := s.Outcome()
	return outcome != Undrawn && outcome != Emptied && outcome != Unlearnt
}

// VolumeDifference is predicted minus reference volume, in millilitres.
func (s Score) VolumeDifference() float64 { return s.Predicted - s.Reference }

// GeometryError is returned where prediction and reference do not lie on the same grid, so that
// their voxels cannot be compared.
type GeometryError struct {
	Case                  string
	Prediction, Reference volume.Grid
}

func (e *GeometryError) Error() string {
	describe := func(g volume.Grid) string {
		return fmt.Sprintf("%dx%dx%d voxels of %s mm, axes %s", g.Shape[0], g.Shape[1], g.Shape[2],
			spacingText(g.Spacing()), g.Axcodes())
	}
	p, r := describe(e.Prediction), describe(e.Reference)
	what := "prediction has " + p + ", reference has " + r
	if p == r {
		what = fmt.Sprintf("both have %s, but the first voxel lies at %s mm in one and at %s mm in the other", p,
			pointText(e.Prediction.World([3]float64{})), pointText(e.Reference.World([3]float64{})))
	}
	return fmt.Sprintf("case %s: prediction and reference are on different grids: %s; predict in the geometry of "+
		"the scan that the reference was drawn on", e.Case, what)
}

func spacingText(s [3]float64) string { return fmt.Sprintf("%.3gx%.3gx%.3g", s[0], s[1], s[2]) }

func pointText(p [3]float64) string { return fmt.Sprintf("(%.1f, %.1f, %.1f)", p[0], p[1], p[2]) }

// sameGrid allows corners to differ by a twentieth of a voxel: headers store affines in single
// precision, or as quaternions.
const sameGrid = 0.05

// Compare scores the labels of a prediction against a reference on the same voxels, whatever the
// order and direction of its axes, in ascending order of the labels. name is the case's name.
func Compare(name string, prediction, reference *volume.LabelMap, o Options) ([]Score, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	for n, l := range []*volume.LabelMap{prediction, reference} {
		if err := l.Check(); err != nil {
			return nil, fmt.Errorf("case %s: %s: %w", name, []string{"prediction", "reference"}[n], err)
		}
	}
	spacing := reference.Spacing()
	tolerance := sameGrid * min(spacing[0], spacing[1], spacing[2])
	if !prediction.Same(reference.Grid, tolerance) {
		turned, err := prediction.Orient(reference.Axcodes())
		if err != nil || !turned.Same(reference.Grid, tolerance) {
			return nil, &GeometryError{name, prediction.Grid, reference.Grid}
		}
		prediction = turned
	}
	p, r := prediction.Labels, reference.Labels
	if ignored := volume.IgnoredLabels(reference.Names); len(ignored) > 0 {
		p, r = leaveOut(p, r, ignored)
	}
	labels, err := o.find(prediction, reference)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	parts := labels // of the one that is scored, with Merge; nil: all
	if o.Merge {
		p, r = merged(p, parts), merged(r, parts)
		if len(parts) > 0 {
			labels = []int{1}
		}
	}
	found, err := tally(p, r, reference.Shape, labels)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", name, err)
	}
	for n, g := range found {
		if !o.Merge {
			found[n].undrawn = slices.Contains(reference.Undrawn, g.label)
			found[n].emptied = slices.Contains(reference.Emptied, g.label)
			continue
		}
		among := func(l uint16) bool { return len(parts) == 0 || slices.Contains(parts, int(l)) }
		found[n].undrawn = slices.ContainsFunc(reference.Undrawn, among)
		// some labels together have lost nothing but to others; all have nobody to lose to
		found[n].emptied = len(parts) > 0 && g.reference == 0 && slices.ContainsFunc(reference.Emptied, among)
	}
	// the label maps are held; what is left, labels that are measured at the same time share
	room := max(memory.Allowed()-2*int64(len(prediction.Labels)+len(reference.Labels)), 0)
	budget := memory.NewBudget(room, room)
	scores, failed := make([]Score, len(found)), make([]error, len(found))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(len(found), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for n := range work {
				release, err := budget.Take(context.Background(), found[n].bytes(o))
				if err != nil {
					failed[n] = fmt.Errorf("case %s: measuring the distances of "+
						"label %d (--overlap-only leaves them out): %w", name, found[n].label, err)
					continue
				}
				scores[n] = found[n].score(p, r, reference.Grid, o)
				release()
			}
		})
	}
	for n := range found {
		work <- n
	}
	close(work)
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	for n := range scores {
		scores[n].Case = name
		scores[n].Name = cmp.Or(reference.Names[scores[n].Label], prediction.Names[scores[n].Label])
		if o.Merge {
			scores[n].Name = cmp.Or(strings.Join(o.Labels, "+"), "all labels")
		}
	}
	return scores, nil
}

// merged is 1 where a label is one of parts, or, where there are none, any but 0.
func merged(labels []uint16, parts []int) []uint16 {
	var part [math.MaxUint16 + 1]bool
	for _, l := range parts {
		part[l] = true
	}
	m := make([]uint16, len(labels))
	for n, l := range labels {
		if part[l] || len(parts) == 0 && l > 0 {
			m[n] = 1
		}
	}
	return m
}

// bytes is the memory that measuring the label takes, at most: of its box two surfaces and twice
// the distance to one, and the distances of all surface voxels.
func (g region) bytes(o Options) int64 {
	if o.Overlap || g.undrawn || g.emptied || g.predicted == 0 || g.reference == 0 {
		return 0
	}
	box := int64(1)
	for a := range 3 {
		box *= int64(g.hi[a] - g.lo[a])
	}
	return 10*box + 8*min(int64(g.predicted+g.reference), 2*box)
}

func (g region) score(p, r []uint16, grid volume.Grid, o Options) Score {
	s := grid.Spacing()
	millilitres := math.Abs(grid.Affine.Det()) / 1000
	score := Score{
		Label:     g.label,
		DSC:       coefficient(g.both, g.predicted, g.reference),
		Tolerance: o.Tolerance,
		Predicted: float64(g.predicted) * millilitres,
		Reference: float64(g.reference) * millilitres,
	}
	score.HD95, score.HD, score.ASSD, score.NSD = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	switch {
	case g.undrawn || g.emptied:
		score.DSC, score.Reference, score.Emptied = math.NaN(), math.NaN(), g.emptied && !g.undrawn
		return score
	case o.Overlap || g.predicted+g.reference == 0:
		return score
	case g.predicted == 0 || g.reference == 0:
		far := math.Inf(1)
		if o.Penalise {
			far = math.Sqrt(sq(float64(grid.Shape[0])*s[0]) + sq(float64(grid.Shape[1])*s[1]) +
				sq(float64(grid.Shape[2])*s[2]))
		}
		score.HD95, score.HD, score.ASSD, score.NSD = far, far, far, 0
		return score
	}
	size := [3]int{g.hi[0] - g.lo[0], g.hi[1] - g.lo[1], g.hi[2] - g.lo[2]}
	ps := surface(p, grid.Shape, g.lo, size, g.label)
	rs := surface(r, grid.Shape, g.lo, size, g.label)
	from := distances(ps, rs, size, s) // d(P,R)
	to := distances(rs, ps, size, s)   // d(R,P)
	slices.Sort(from)
	slices.Sort(to)
	score.HD = max(from[len(from)-1], to[len(to)-1])
	score.HD95 = max(Quantile(from, 0.95), Quantile(to, 0.95))
	n := float64(len(from) + len(to))
	score.ASSD = (sum(from) + sum(to)) / n
	score.NSD = float64(within(from, o.Tolerance)+within(to, o.Tolerance)) / n
	return score
}

// within counts the sorted distances up to the tolerance. Distances are computed in single
// precision, so that one that equals the tolerance on paper may come out a few parts in ten million
// larger: the count forgives one in a million.
func within(sorted []float64, tolerance float64) int {
	n, _ := slices.BinarySearch(sorted, math.Nextafter(tolerance*(1+1e-6), math.Inf(1)))
	return n
}

func sum(values []float64) float64 {
	var s float64
	for _, v := range values {
		s += v
	}
	return s
}

func sq(x float64) float64 { return x * x }

package nnunet

import (
	"errors"
	"slices"

	"github.com/voxsaw/voxsaw/internal/half"
)

// This file: how alike the label maps are that each fold makes alone or, where there is one fold,
// those with and without mirror images. Their logits are there while windows are averaged: so it
// takes no more of the network's time. They are compared on the network's grid.

// canAgree says what is missing for label maps to be compared with one another.
func (p *Predictor) canAgree() error {
	if len(p.checkpoints) < 2 && len(p.mirror) < 2 {
		return errors.New("agreement is that of several folds, or of windows with their mirror images: there is one " +
			"fold, and nothing is mirrored")
	}
	return nil
}

// aside says whether windows without their mirror images are summed beside the others.
func (p *Predictor) aside() bool { return p.options.Agreement && len(p.checkpoints) == 1 }

// votes are the labels that each opinion has of the voxels of a scan, counted.
type votes struct {
	*Labels
	plane [][]uint16 // of each opinion, the present one
	own   []counts   // of each opinion
	both  []counts   // of each pair of opinions
	done  int        // rows before it are counted: bands may share some
	best  []half.Float
}

// counts are numbers of voxels by their label.
type counts []int64

func newVotes(l *Labels, opinions int) *votes {
	v := &votes{Labels: l, plane: make([][]uint16, opinions)}
	values := 1 + int(slices.Max(append(l.Values(), 0)))
	for n := range opinions {
		v.own = append(v.own, make(counts, values))
		for range n {
			v.both = append(v.both, make(counts, values))
		}
	}
	return v
}

// say takes the logits of the heads in a plane, by one of the opinions.
func (v *votes) say(opinion int, logits [][]half.Float) {
	n := len(logits[0])
	if len(v.plane[opinion]) != n {
		v.plane[opinion], v.best = make([]uint16, n), make([]half.Float, n)
	}
	labels := v.plane[opinion]
	clear(labels)
	for head, values := range logits {
		label := v.Structures[head].Label
		for i, x := range values {
			switch {
			case v.Regions:
				if sigmoid(x.Float32()) > 0.5 {
					labels[i] = label
				}
			case head == 0 || x.Float32() > v.best[i].Float32():
				v.best[i], labels[i] = x, label
			}
		}
	}
}

// count counts the plane of which all opinions are there, whose rows of a width begin with the
// given one.
func (v *votes) count(row, width int) {
	from := max(v.done-row, 0) * width
	pair := 0
	for n, a := range v.plane {
		for _, label := range a[min(from, len(a)):] {
			v.own[n][label]++
		}
		for _, b := range v.plane[:n] {
			for i := from; i < len(a); i++ {
				if a[i] == b[i] {
					v.both[pair][a[i]]++
				}
			}
			pair++
		}
	}
}

// agreement is the DSC of each label, averaged over the pairs of opinions where at least one has
// it. Labels that none has are left out.
func (v *votes) agreement() map[uint16]float64 {
	mean := map[uint16]float64{}
	for _, label := range v.Values() {
		sum, pairs, pair := 0.0, 0, 0
		for n := range v.own {
			for m := range n {
				if all := v.own[n][label] + v.own[m][label]; all > 0 {
					sum, pairs = sum+2*float64(v.both[pair][label])/float64(all), pairs+1
				}
				pair++
			}
		}
		if pairs > 0 {
			mean[label] = sum / float64(pairs)
		}
	}
	return mean
}

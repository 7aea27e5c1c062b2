package segment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: how many cases show each class. One that no training case shows cannot be learnt.

// ShownIn counts the cases that show each class of these settings, which are resolved: the entry of
// class 1, the first of the labels, comes first.
func (c Config) ShownIn(store *prepared.Store, cases []string) []int {
	classes, err := parseClasses(c.Labels)
	if err != nil {
		return nil // settings that are not resolved
	}
	shown := make([]int, len(classes))
	for _, id := range cases {
		r, _ := store.Record(id)
		var undrawn []int
		if c.mergesUndrawn() { // then what is drawn of them is not learnt
			undrawn = undrawnClasses(classes, r.Undrawn)
		}
		for n, class := range classes {
			if !slices.Contains(undrawn, n+1) &&
				slices.ContainsFunc(class, func(label uint16) bool { return r.LabelCounts[label] > 0 }) {
				shown[n]++
			}
		}
	}
	return shown
}

// Unlearnt are the labels, as predictions and references have them, of the classes that none of the
// training cases shows: a network cannot learn these.
func (c Config) Unlearnt(store *prepared.Store, training []string) (labels []uint16) {
	classes, err := parseClasses(c.Labels)
	if err != nil {
		return nil
	}
	for n, cases := range c.ShownIn(store, training) {
		if cases == 0 {
			labels = append(labels, classes[n][0])
		}
	}
	return labels
}

// UnlearntNote warns of classes that none of the training cases shows; "" where each is shown.
func (c Config) UnlearntNote(store *prepared.Store, training []string) string {
	var names []string
	for n, cases := range c.ShownIn(store, training) {
		if cases == 0 {
			names = append(names, safetext.Text(c.DescribeLabels(c.Labels[n])))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("no training case shows %s: the network cannot learn it, and it is in no mean of validation. "+
		"Train on cases that show it, or leave it out (--labels)", strings.Join(names, ", "))
}

package segment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: structures that nobody drew in some cases. In training they are one with the
// background there ([UndrawnMerged]); scores leave them out, as they do those that were drawn and
// have lost all their voxels to others.

// mergesUndrawn says whether undrawn classes are one with the background of a case.
func (c Config) mergesUndrawn() bool { return c.Undrawn != UndrawnBackground }

// CheckTargets says, before teachers are asked, whether a training of these settings learns from
// their label maps, and whether a device can: what is ignored in them is merged into the
// background, as what is undrawn.
func CheckTargets(dev voxsaw.Device, c Config) error {
	if err := c.checkLast(); err != nil {
		return config.Mistaken(err)
	}
	if !c.mergesUndrawn() {
		return nil
	}
	return CheckMerging(dev)
}

// CheckMerging says what a device lacks that cannot merge classes into the background of a case.
func CheckMerging(dev voxsaw.Device) error {
	d, err := device.From(dev)
	if err == nil {
		_, err = device.MergeKernelsOf(d)
	}
	return err
}

// DrawnInPart lists the cases in which some labels of a class were drawn and others were not;
// wholly lists those in which no label of a class was. The settings are resolved.
func (c Config) DrawnInPart(store *prepared.Store, cases []string) (partly, wholly []string) {
	classes, err := parseClasses(c.Labels)
	if err != nil {
		return nil, nil // settings that are not resolved
	}
	for _, id := range cases {
		r, _ := store.Record(id)
		var part, whole bool
		for _, number := range undrawnClasses(classes, r.Undrawn) {
			drawn := slices.ContainsFunc(classes[number-1],
				func(label uint16) bool { return !slices.Contains(r.Undrawn, label) })
			part, whole = part || drawn, whole || !drawn
		}
		if part {
			partly = append(partly, id)
		}
		if whole {
			wholly = append(wholly, id)
		}
	}
	return partly, wholly
}

// NeedsMerging says whether learning from the cases takes a device that merges classes into the
// background, and what such a device lacks: see [CheckMerging].
func (c Config) NeedsMerging(store *prepared.Store, cases []string) bool {
	partly, wholly := c.DrawnInPart(store, cases)
	return c.mergesUndrawn() && len(partly)+len(wholly) > 0
}

// UndrawnLearnt says for a person what becomes of structures in training cases where nobody drew
// them.
func (c Config) UndrawnLearnt() string {
	if c.mergesUndrawn() {
		return "There it is one with the background, and other cases say where it ends"
	}
	return "There its voxels are learnt as background"
}

// undrawnClasses are the numbers, from 1, of the classes that have a label which was not drawn.
// Where a class is both kidneys and one of them was drawn, nobody knows where the other is: the
// whole class counts as undrawn, for its voxels would be background otherwise.
func undrawnClasses(classes [][]uint16, undrawn []uint16) (numbers []int) {
	for n, class := range classes {
		if slices.ContainsFunc(class, func(label uint16) bool { return slices.Contains(undrawn, label) }) {
			numbers = append(numbers, n+1)
		}
	}
	return numbers
}

// incomparable are the numbers of the classes for which a case has no reference, so that
// [Config.Reference] leaves them out of scores: a label was not drawn, or it was and other
// structures have all voxels of the class.
func incomparable(classes [][]uint16, r prepared.Record) []int {
	numbers := undrawnClasses(classes, r.Undrawn)
	for n, class := range classes {
		there := func(label uint16) bool { return r.LabelCounts[label] > 0 }
		emptied := func(label uint16) bool { return slices.Contains(r.Emptied, label) }
		if slices.ContainsFunc(class, emptied) && !slices.ContainsFunc(class, there) && !slices.Contains(numbers, n+1) {
			numbers = append(numbers, n+1)
		}
	}
	return numbers
}

// UndrawnIn says for a person which of the labels of these settings, which are resolved, nobody
// drew in how many of the cases: "spleen in 2 of 9 (b_1, b_2)". It is "" where none is missing.
func (c Config) UndrawnIn(store *prepared.Store, cases []string) string {
	classes, err := parseClasses(c.Labels)
	if err != nil {
		return "" // settings that are not resolved
	}
	lacking := make([][]string, 1+len(classes))
	for _, id := range cases {
		r, _ := store.Record(id)
		for _, class := range undrawnClasses(classes, r.Undrawn) {
			lacking[class] = append(lacking[class], id)
		}
	}
	var parts []string
	for class, ids := range lacking {
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d of %d (%s)", safetext.Text(c.DescribeLabels(c.Labels[class-1])),
				len(ids), len(cases), safetext.List(ids)))
		}
	}
	return strings.Join(parts, "; ")
}

package dataset

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file keeps what a network predicted apart from what somebody drew. Label maps, probabilities
// and logits that this program wrote say so. None of them is a scan, and label maps are labels only
// where that is asked for: otherwise a network would be trained on its own mistakes, or scored
// against them, and predictions among the scans would hide the labels there.

// takesPredicted says whether label maps that voxsaw predicted are labels.
func (o Options) takesPredicted() bool { return o.LabelsCorrected || o.LabelsPredicted }

// dropPredicted says which of the files of voxels are predictions that are not to be used, and
// remembers them. What cannot be read is none.
func (d *Dataset) dropPredicted(paths []string, o Options) map[string]bool {
	stamped := make([]bool, len(paths))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, path := range paths {
		group.Go(func() error {
			stamped[n] = o.seen.stamped(path)
			return nil
		})
	}
	_ = group.Wait() // no error is returned above
	dropped := map[string]bool{}
	for n, path := range paths {
		if stamped[n] && !(o.takesPredicted() && isLabelMap(path)) {
			dropped[path] = true
			d.predicted = append(d.predicted, path)
		}
	}
	return dropped
}

// isLabelMap tells a label map from the network's numbers, which have a volume for each class.
func isLabelMap(path string) bool {
	if !format.IsName(path) { // a SEG object is one
		return true
	}
	h, err := format.ReadHeader(path)
	return err != nil || h.Volumes == 1
}

// dropPredictedLabels removes predictions from files of labels by their cases.
func dropPredictedLabels[K comparable](d *Dataset, labels map[K]string, o Options) {
	dropped := d.dropPredicted(slices.Sorted(maps.Values(labels)), o)
	maps.DeleteFunc(labels, func(_ K, path string) bool { return dropped[path] })
}

// withoutPredicted removes the pairs of the scans below a folder whose labels are predictions.
func (d *Dataset) withoutPredicted(pairs []pair, root string, o Options) []pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool {
		if o.takesPredicted() || !isBelow(absoluteOf(p.scan), []string{absoluteOf(root)}) {
			return false
		}
		stamped := o.seen.stamped(p.labels)
		if stamped && !slices.Contains(absolutesOf(d.predicted), absoluteOf(p.labels)) {
			d.predicted = append(d.predicted, p.labels)
		}
		return stamped
	})
}

// dropPredictedObjects removes DICOM SEG objects and RT structure sets that are predictions.
func (d *Dataset) dropPredictedObjects(objects []format.Object, o Options) []format.Object {
	return slices.DeleteFunc(objects, func(one format.Object) bool {
		if o.takesPredicted() || !provenance.Is([]byte(one.Stamp())) {
			return false
		}
		d.predicted = append(d.predicted, one.Path)
		return true
	})
}

// notePredicted says which predictions were left out.
func (d *Dataset) notePredicted() {
	if len(d.predicted) > 0 {
		d.Unused = append(d.Unused, d.predicted...)
		d.note("%s of voxsaw in %s passed over, which nobody drew: %s. If somebody has corrected them: voxsaw prepare "+
			"--labels-corrected; to learn from them as they are: voxsaw prepare --labels-predicted",
			numbers.Count(len(d.predicted), "prediction"), d.Root, safetext.List(baseNames(d.predicted)))
	}
}

// findPredicted tells the cases whose labels are predictions as they are.
func (d Dataset) findPredicted(o Options) (Dataset, error) {
	if !o.LabelsPredicted {
		return d, nil
	}
	d.Cases = slices.Clone(d.Cases)
	var found []string
	for n, c := range d.Cases {
		files := []string{c.Labels}
		for _, m := range c.Masks {
			files = append(files, m.Path)
		}
		if c.Labels != "" && slices.ContainsFunc(files, o.seen.stamped) {
			d.Cases[n].Predicted, found = true, append(found, c.ID)
		}
	}
	if len(found) > 0 {
		slices.SortFunc(found, numbers.CompareNatural)
		d.Notes = append(slices.Clone(d.Notes), fmt.Sprintf("the labels of %s are predictions of voxsaw, which nobody "+
			"drew: networks learn from them, and none of these cases is held out: %s",
			numbers.Count(len(found), "case"), safetext.List(found)))
	}
	return d, nil
}

// onlyPredicted explains why a folder of predictions alone has no case.
func (d *Dataset) onlyPredicted() error {
	return fmt.Errorf("no scan is left: %s is a prediction of voxsaw", d.predicted[0])
}

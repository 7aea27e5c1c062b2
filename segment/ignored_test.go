package segment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Voxels that the data set says are to be ignored are no class, do not count in the loss, and make
// no difference to validation: where all that a network gets wrong is ignored, it is perfect.
func TestIgnoredVoxelsCountNowhere(t *testing.T) {
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range labels.Labels {
		if labels.Labels[n] > 4 {
			labels.Labels[n] = 0
		}
	}
	const ignore = 9
	partly := &volume.LabelMap{Grid: labels.Grid, Labels: slices.Clone(labels.Labels),
		Names: map[uint16]string{ignore: "ignore"}}
	for n := range partly.Labels {
		if n%5 == 0 {
			partly.Labels[n] = ignore
		}
	}
	store := func(trained, held *volume.LabelMap) *prepared.Store {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "prepared")
		w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []prepared.Input{{ID: "trained", Image: scan, Labels: trained},
			{ID: "held", Image: scan, Labels: held}} {
			if _, err := w.Add(in); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		s, err := prepared.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	c := tiny()
	c.Labels, c.ValidateCases, c.Augment = nil, 0, Augmentation{}
	open := func(trained, held *volume.LabelMap) (*learner, Config) {
		t.Helper()
		s := store(trained, held)
		c := resolved(t, c, s)
		learning, err := compiled(t, testDevice(t), c, sample.Data{Store: s, Train: []string{"trained"},
			Validate: []string{"held"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(learning.Close)
		return learning, c
	}
	l, whole := open(labels, labels)
	predicted, err := l.windows.Classify(t.Context(), sliding.Case{Case: l.held[0]}, sliding.Ensemble{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := l.held[0].LabelMap()
	if err != nil {
		t.Fatal(err)
	}
	before, err := l.validateCase(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	wrong := &volume.LabelMap{Grid: reference.Grid, Labels: slices.Clone(reference.Labels),
		Names: map[uint16]string{ignore: "ignore"}}
	agreed := map[uint16]bool{}
	for n, class := range predicted {
		if agree := l.table[reference.Labels[n]] == class; !agree {
			wrong.Labels[n] = ignore
		} else {
			agreed[class] = true
		}
	}
	if len(agreed) < 2 {
		t.Fatal("the network agrees on the background alone: the test proves nothing")
	}
	turned, err := wrong.Orient(labels.Axcodes())
	if err != nil {
		t.Fatal(err)
	}
	l, ignoring := open(partly, turned)
	if !slices.Equal(ignoring.Labels, whole.Labels) { // so it is the same network
		t.Fatalf("labels %q, with some voxels ignored %q", whole.Labels, ignoring.Labels)
	}
	v, err := l.validateCase(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for class := range agreed {
		if v.Whole[class] != 1 || before.Whole[class] == 1 {
			t.Errorf("class %d: DSC %v, and %v where nothing is ignored", class, v.Whole[class], before.Whole[class])
		}
	}
	b, err := l.Batch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(b.targets, -1) || slices.Max(b.targets) > float32(len(whole.Labels)) {
		t.Errorf("targets from %v to %v", slices.Min(b.targets), slices.Max(b.targets))
	}
	r := ignoring.Reference(turned)
	if !slices.Contains(r.Labels, ignore) || r.Names[ignore] != volume.IgnoreName {
		t.Errorf("the reference forgets what is to be ignored: %v", r.Names)
	}
	bad := c
	bad.Labels = []string{"2", "ignore"}
	if _, err := bad.Resolve(store(partly, turned)); err == nil ||
		!strings.Contains(err.Error(), "label 9 of the data is called ignore") {
		t.Errorf("it may be learnt: %v", err)
	}
}

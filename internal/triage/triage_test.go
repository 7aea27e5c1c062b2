package triage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/predict"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// patients are made-up cases with labels; change may spoil those of number n, or take them away.
func patients(t *testing.T, n int, change func(n int, l *volume.LabelMap) *volume.LabelMap) *prepared.Store {
	t.Helper()
	var cases []prepared.Input
	for i := range n {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{40, 36, 32}})
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: v, Labels: change(i, l)})
	}
	return traintest.Store(t, volume.DefaultPreparation(), cases...)
}

// Labels that somebody forgot to finish, or to draw, come first.
func TestDoubtfulLabelsComeFirst(t *testing.T) {
	store := patients(t, 12, func(n int, l *volume.LabelMap) *volume.LabelMap {
		for i, label := range l.Labels {
			switch name := l.Names[label]; {
			case n == 7 && name == "liver" && i%3 > 0: // two planes of three
				l.Labels[i] = 0
			case n == 4 && name == "spleen":
				l.Labels[i] = 0
			}
		}
		return l
	})
	r, err := Rank(t.Context(), store, Options{Drawn: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 12 {
		t.Fatalf("%d cases", len(r.Cases))
	}
	reasons := map[string]string{}
	for _, k := range r.Cases[:2] {
		reasons[k.ID] = k.Reason()
	}
	if !strings.Contains(reasons["case07"], "liver: ") || !strings.Contains(reasons["case04"], "spleen: missing") {
		t.Errorf("the first two: %q", reasons)
	}
	if w := r.Warning(); !strings.HasPrefix(w, "WARNING: labels unlike those of the other cases: ") ||
		!strings.Contains(w, "case04 (spleen: missing") {
		t.Errorf("the warning: %q", w)
	}
	if _, err := Rank(t.Context(), store, Options{}); err == nil {
		t.Error("without a network nothing can be ranked but labels")
	}
}

// The label map to correct says of its place what the scan says, whose header has codes of its own.
func TestLabelsToCorrectLieAsTheirScan(t *testing.T) {
	const codes = 252 // qform_code and sform_code in a header of NIfTI-1
	dir := t.TempDir()
	var cases []prepared.Input
	for i := range 3 {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{40, 36, 32}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("case%02d.nii", i))
		if err := nifti.Write(path, v); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[codes], data[codes+2] = 2, 4
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		source, err := prepared.NewSource(path)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: v, Labels: l,
			Sources: []prepared.Source{source}})
	}
	r, err := Rank(t.Context(), traintest.Store(t, volume.DefaultPreparation(), cases...), Options{Drawn: true})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "next")
	if err := r.Write(t.Context(), out, 3, predict.NIfTI, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		h, err := nifti.ReadHeader(filepath.Join(out, c.ID+".nii.gz"))
		if err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(dir, "again.nii")
		if err := nifti.WriteLabelsWith(again, c.Labels, h, nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(again)
		if err != nil || data[codes] != 2 || data[codes+2] != 4 {
			t.Errorf("%s: codes %d and %d, want 2 and 4: %v", c.ID, data[codes], data[codes+2], err)
		}
	}
}

// A ranking by two networks looks at as many windows as is said before: of scans without labels
// twice with each, and twice more of those that it writes.
func TestPasses(t *testing.T) {
	store := patients(t, 7, func(n int, l *volume.LabelMap) *volume.LabelMap {
		if n >= 3 {
			return nil
		}
		return l
	})
	dev := traintest.CPU(t)
	c := segment.DefaultConfig()
	c.Network.Channels, c.Network.Levels, c.Crop, c.Batch = 4, 1, [3]int{16, 16, 16}, 2
	c.Labels = []string{"2"}
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 1, 0, 0
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for seed := range 2 {
		run := filepath.Join(t.TempDir(), "run")
		c.Train.Seed = uint64(seed)
		if _, _, err := segment.Finetune(t.Context(), dev, c,
			sample.Data{Store: store, Train: []string{"case00", "case01"}},
			"", voxsaw.RunOptions{Folder: run, Loaders: 1}); err != nil {
			t.Fatal(err)
		}
		members = append(members, filepath.Join(run, "last.safetensors"))
	}
	inference := segment.DefaultInference()
	each := (&sliding.Options{Size: c.Crop, Overlap: inference.Overlap}).Windows([3]int{40, 36, 32})
	for networks := 1; networks <= 2; networks++ {
		p, err := segment.NewPredictor(dev, members[:networks], inference, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		looked := 0
		p.Progress = func(int, int) { looked++ }
		r, err := Rank(t.Context(), store, Options{Network: p})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(t.Context(), filepath.Join(t.TempDir(), "next"), 3, AsScan, func(string) {}); err != nil {
			t.Fatal(err)
		}
		// four without labels, and the labelled one that was not learnt from
		if want := each * networks * Passes(4+1, 3, networks); looked != want {
			t.Errorf("%d networks: %d windows, want %d", networks, looked, want)
		}
	}
}

// Cases without labels are ordered by the DSC that labelled ones tell which the network has not
// learnt from, where these are enough.
func TestUnlabelledCasesAreRanked(t *testing.T) {
	store := patients(t, 18, func(n int, l *volume.LabelMap) *volume.LabelMap {
		if n >= 14 {
			return nil
		}
		return l
	})
	dev := traintest.CPU(t)
	c := segment.DefaultConfig()
	c.Network.Channels, c.Network.Levels, c.Crop, c.Batch = 4, 1, [3]int{16, 16, 16}, 2
	c.Labels = []string{"2"}
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery, c.Train.LR = 20, 0, 0, 0.03
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(t.TempDir(), "run")
	if _, _, err := segment.Finetune(t.Context(), dev, c,
		sample.Data{Store: store, Train: []string{"case00", "case01"}},
		"", voxsaw.RunOptions{Folder: run, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(run, "last.safetensors")
	p, err := segment.NewPredictor(dev, []string{last}, segment.DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := Rank(t.Context(), store, Options{Network: p})
	if err != nil {
		t.Fatal(err)
	}
	const by = "estimated by 12 labelled cases that the network has not learnt from"
	if len(r.Cases) != 4 || len(r.Notes) != 3 || !strings.Contains(r.Notes[1], "liver (12)") ||
		!strings.Contains(r.Notes[2], by) {
		t.Fatalf("%d cases: %q", len(r.Cases), r.Notes)
	}
	for n, k := range r.Cases {
		if n > 0 && k.DSC < r.Cases[n-1].DSC {
			t.Errorf("%s has the DSC %v, the one before %v", k.ID, k.DSC, r.Cases[n-1].DSC)
		}
	}
	dir := filepath.Join(t.TempDir(), "next")
	if err := r.Write(t.Context(), dir, 1, AsScan, func(text string) { t.Error(text) }); err != nil {
		t.Error(err)
	}
	// What an earlier ranking has left goes, unless nobody knows whether it was changed.
	more := *r
	if err := more.Write(t.Context(), dir, 3, AsScan, func(text string) { t.Error(text) }); err != nil {
		t.Error(err)
	}
	unknown := filepath.Join(dir, r.Cases[2].ID+".nii.gz")
	if err := atomicfile.Unseal(dir, filepath.Base(unknown)); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "mine.nii.gz")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var notes []string
	if err := r.Write(t.Context(), dir, 1, AsScan, func(text string) { notes = append(notes, text) }); err != nil {
		t.Error(err)
	}
	maps, _ := filepath.Glob(filepath.Join(dir, "*.nii.gz"))
	want := []string{filepath.Join(dir, r.Cases[0].ID+".nii.gz"), unknown, own}
	slices.Sort(want)
	if pictures, _ := filepath.Glob(filepath.Join(dir, "*.png")); !slices.Equal(maps, want) || len(pictures) != 1 {
		t.Errorf("label maps %q, want %q; pictures %q", maps, want, pictures)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], unknown+" is of an earlier ranking") {
		t.Errorf("%q", notes)
	}
	if names, err := outdir.Names(dir); err != nil || len(names) != 9 || Untouched(dir) != nil {
		t.Errorf("%q, %v", names, err)
	}
	testCorrected(t, r)
	testWithoutEstimate(t, r)
	testLearnt(t, store, p)
	testLost(t, dev, store, last)
	testChosen(t, dev, store, last)
}

// Of drawn labels it is known which ones the network has learnt.
func testLearnt(t *testing.T, store *prepared.Store, p *segment.Predictor) {
	r, err := Rank(t.Context(), store, Options{Drawn: true, Network: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range r.Cases {
		if want := k.ID == "case00" || k.ID == "case01"; k.Learnt != want || len(k.Case.DSC) == 0 {
			t.Errorf("%s: learnt %v, DSC %v", k.ID, k.Learnt, k.Case.DSC)
		}
	}
	if len(r.Notes) != 3 || !strings.Contains(r.Notes[1], "2 whose labels it has learnt from") ||
		!strings.Contains(r.Notes[1], "12 others") {
		t.Errorf("%q", r.Notes)
	}
}

// fileWeights are those of a checkpoint that is written again.
type fileWeights struct{ *safetensors.File }

func (f fileWeights) Shape(name string) device.Shape { return f.File.Shape(name) }
func (fileWeights) Write(string, []float32) error    { return errors.ErrUnsupported }

// again is the network of a checkpoint of another name and description.
func again(t *testing.T, dev voxsaw.Device, last, name string,
	change func(*checkpoint.Description)) *segment.Predictor {
	t.Helper()
	d, err := checkpoint.Read(last)
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(last)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	change(&d)
	path := filepath.Join(t.TempDir(), name)
	if err := checkpoint.Write(path, d, fileWeights{f}); err != nil {
		t.Fatal(err)
	}
	p, err := segment.NewPredictor(dev, []string{path}, segment.DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Held-out cases that chose the checkpoint make the estimate too good, with a note; the last one of
// a training was chosen by nobody, though it be the best.
func testChosen(t *testing.T, dev voxsaw.Device, store *prepared.Store, last string) {
	for name, want := range map[string]bool{"best.safetensors": true, "last.safetensors": false} {
		p := again(t, dev, last, name, func(d *checkpoint.Description) { d.BestStep, d.Best = d.Step, 0.5 })
		defer p.Close()
		r, err := Rank(t.Context(), store, Options{Network: p})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Notes, func(note string) bool {
			return strings.Contains(note, "held out in training chose the checkpoint")
		}) != want {
			t.Errorf("%s: %q", name, r.Notes)
		}
	}
}

// Of a network whose list of scans is lost nobody knows which labels it has not learnt from: no DSC
// is told by any.
func testLost(t *testing.T, dev voxsaw.Device, store *prepared.Store, last string) {
	gone := checkpoint.Learnt{Lost: "the list is gone"}
	p := again(t, dev, last, "again.safetensors", func(d *checkpoint.Description) { d.Learnt = gone })
	defer p.Close()
	for _, drawn := range []bool{false, true} {
		r, err := Rank(t.Context(), store, Options{Drawn: drawn, Network: p})
		if err != nil {
			t.Fatal(err)
		}
		if r.estimate != nil || len(r.known) > 0 ||
			!strings.Contains(r.Notes[0], "again.safetensors: the list is gone") {
			t.Errorf("drawn %v: %d known, %q", drawn, len(r.known), r.Notes)
		}
		for _, k := range r.Cases {
			if k.Case.DSC != nil {
				t.Errorf("drawn %v: %s has DSC %v", drawn, k.ID, k.Case.DSC)
			}
		}
	}
}

// A label map that somebody has corrected stays, though the run that made it did not end well.
func testCorrected(t *testing.T, r *Ranking) {
	dir := filepath.Join(t.TempDir(), "next")
	broken := *r
	broken.Cases = slices.Clone(r.Cases)
	broken.Cases[1].ID = "not there"
	if err := broken.Write(t.Context(), dir, 2, AsScan, func(string) {}); err == nil {
		t.Fatal("a case that is not there was written")
	}
	first := filepath.Join(dir, r.Cases[0].ID+".nii.gz")
	made, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	correct := func() {
		if err := os.WriteFile(first, []byte("corrected"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	correct()
	if err := r.Write(t.Context(), dir, 2, AsScan, func(string) {}); err == nil ||
		!strings.Contains(err.Error(), first+" is not what was written") {
		t.Errorf("a corrected label map: %v", err)
	}
	// a run that is killed between a file and its entry in the list
	for _, change := range []bool{false, true} {
		if err := os.WriteFile(first, made, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Unseal(dir, filepath.Base(first)); err != nil {
			t.Fatal(err)
		}
		if change {
			correct()
		}
		var notes []string
		if err := r.Write(t.Context(), dir, 2, AsScan, func(text string) { notes = append(notes, text) }); err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(dir+".earlier", filepath.Base(first)))
		if now, _ := os.ReadFile(first); !slices.Equal(now, made) || (err == nil) != change ||
			change && (string(kept) != "corrected" || len(notes) != 1 || !strings.Contains(notes[0], "is kept as")) {
			t.Errorf("changed %v: kept %q, %v; %q", change, kept, err, notes)
		}
	}
}

// A structure whose DSC is not estimated does not turn off the order of all cases.
func testWithoutEstimate(t *testing.T, r *Ranking) {
	more := *r
	more.Notes, more.Cases = nil, nil
	for n, k := range r.Cases {
		c := k.Case
		if n == 0 {
			c.Structures = append(slices.Clone(c.Structures), quality.Structure{Label: 99, Name: "rare", Voxels: 1,
				Volume: 1})
		}
		more.Cases = append(more.Cases, r.ranked(c))
	}
	more.order(12)
	for n, k := range more.Cases {
		if k.ID != r.Cases[n].ID || k.DSC != r.Cases[n].DSC {
			t.Errorf("%s with DSC %v, and %s with %v without the structure", k.ID, k.DSC, r.Cases[n].ID, r.Cases[n].DSC)
		}
	}
	if len(more.Notes) != 1 || !strings.Contains(more.Notes[0], "too few of them show rare,") {
		t.Errorf("%q", more.Notes)
	}
}

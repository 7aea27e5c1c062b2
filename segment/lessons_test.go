package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// encoderAt writes a pretrained encoder that says what it has learnt from.
func encoderAt(t *testing.T, path string, settings voxsaw.Network, seed uint64, scans ...checkpoint.Scan) {
	t.Helper()
	d, err := device.From(testDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	network, err := backbone.Of(settings)
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, d.Activations())
	network.Encoder(g, g.Input("image", 1, 1, 8, 8, 8))
	params := nn.NewParams(d, seed)
	defer params.Close()
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(path, checkpoint.Description{Kind: "jigsaw",
		Learnt: checkpoint.Learnt{Scans: scans}}, params); err != nil {
		t.Fatal(err)
	}
}

func learntNames(t *testing.T, path string) string {
	t.Helper()
	d, err := checkpoint.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range d.Learnt.Scans {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// What a run has learnt from is what the weights had that it began with, whatever the file that
// they were in says by the time that the run is resumed.
func TestResumedRunSaysWhatItBeganWith(t *testing.T) {
	store := phantoms(t, 2, [3]int{24, 20, 16})
	c := tiny()
	c.Crop, c.Train.Schedule = [3]int{8, 8, 8}, "constant"
	init, folder := filepath.Join(t.TempDir(), "init.safetensors"), filepath.Join(t.TempDir(), "run")
	encoderAt(t, init, resolved(t, c, store).Network, 1, checkpoint.Scan{Name: "before", Voxels: "12"})
	data := sample.Data{Store: store, Train: []string{"case00"}}
	for _, steps := range []int{1, 2} {
		c.Train.Steps = steps
		if _, _, err := Finetune(t.Context(), testDevice(t), resolved(t, c, store), data, init,
			voxsaw.RunOptions{Folder: folder, Mode: voxsaw.ModeResume}); err != nil {
			t.Fatal(err)
		}
		if got := learntNames(t, train.Last(folder)); got != "before case00" {
			t.Errorf("after step %d it has learnt from %s", steps, got)
		}
		encoderAt(t, init, resolved(t, c, store).Network, 2, checkpoint.Scan{Name: "after", Voxels: "34"})
	}
}

// A run of several ranks goes on without the file that it began with, as that of one process does;
// where it still needs the file, every rank ends.
func TestRanksGoOnWithoutTheFirstWeights(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	init, folder := filepath.Join(t.TempDir(), "init.safetensors"), filepath.Join(t.TempDir(), "run")
	encoderAt(t, init, resolved(t, microBatched(0), store).Network, 1, checkpoint.Scan{Name: "before", Voxels: "12"})
	run := func(steps int, folder string) (errs [2]error) {
		var all sync.WaitGroup
		for rank, group := range traintest.Ranks(2) {
			dev, o := directDevice(t), voxsaw.RunOptions{}
			if rank == 0 {
				o = voxsaw.RunOptions{Folder: folder, Mode: voxsaw.ModeResume}
			}
			c := microBatched(0)
			c.Train.Steps, c.Train.Schedule = steps, "constant"
			c = resolved(t, c, store)
			all.Go(func() {
				_, _, errs[rank] = finetune(t.Context(), dev, c,
					sample.Data{Store: store, Train: []string{"case00", "case01"}}, init, o, group)
			})
		}
		all.Wait()
		return errs
	}
	if errs := run(1, folder); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	if err := os.Remove(init); err != nil {
		t.Fatal(err)
	}
	if errs := run(2, folder); errs[0] != nil || errs[1] != nil {
		t.Errorf("it does not go on: %v", errs)
	}
	if got := learntNames(t, train.Last(folder)); got != "before case00 case01" {
		t.Errorf("it has learnt from %s", got)
	}
	if errs := run(1, filepath.Join(t.TempDir(), "new")); !errors.Is(errs[0], os.ErrNotExist) || errs[1] == nil {
		t.Errorf("a new run without its first weights: %v", errs)
	}
}

// Where the list of scans is lost that weights have learnt from, networks that begin with them say
// so, and are no teachers where cases are held out.
func TestLostListsAreKnownToBeLost(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	c.Unlabelled, c.Train.Average, c.UnlabelledConfidence, c.UnlabelledRamp = false, 0, 0, 0
	c.Train.Steps = 1
	dir := t.TempDir()
	init, folder := filepath.Join(dir, "init.safetensors"), filepath.Join(t.TempDir(), "run")
	var many []checkpoint.Scan
	for n := range 1001 {
		many = append(many, checkpoint.Scan{Name: fmt.Sprintf("%04d", n), Voxels: fmt.Sprintf("%x", n)})
	}
	encoderAt(t, init, c.Network, 1, many...)
	lists, err := checkpoint.Lists(dir)
	if err != nil || len(lists) != 1 || os.Remove(filepath.Join(dir, lists[0])) != nil {
		t.Fatal(lists, err)
	}
	plain := data
	plain.Unlabelled, plain.Validate = nil, nil
	if _, _, err := Finetune(t.Context(), testDevice(t), c, plain, init,
		voxsaw.RunOptions{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	d, err := checkpoint.Read(train.Last(folder))
	if err != nil || !strings.Contains(d.Lost, init+": the 1001 scans that it has learnt from are named in names-") {
		t.Errorf("the network says %q, %v", d.Lost, err)
	}
	o, targets := optionsOf(data), filepath.Join(t.TempDir(), "targets")
	o.Held = []string{"b"}
	if _, err := predictorOf(t, []string{train.Last(folder)}).MakeTargets(t.Context(), data.Store, targets,
		o); err == nil || !strings.Contains(err.Error(), "nobody can say whether teachers have learnt from cases "+
		"that are held out") {
		t.Errorf("as a teacher: %v", err)
	}
	o.Held = nil
	if _, err := predictorOf(t, []string{train.Last(folder)}).MakeTargets(t.Context(), data.Store, targets,
		o); err != nil {
		t.Fatal(err)
	}
	c.Targets, c.Train.Steps = targets, 5
	student := filepath.Join(t.TempDir(), "student")
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{Folder: student}); err == nil ||
		!strings.Contains(err.Error(), "nobody can say") {
		t.Errorf("a student with held-out cases: %v", err)
	}
	data.Validate = nil
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "",
		voxsaw.RunOptions{Folder: student}); err != nil {
		t.Fatal(err)
	}
	if d, err = checkpoint.Read(train.Last(student)); err != nil || d.Lost == "" {
		t.Errorf("the student says %q, %v", d.Lost, err)
	}
}

// Held-out cases that show nothing of what is learnt score nothing, whatever is predicted there.
func TestNothingToScoreIsNoBest(t *testing.T) {
	store := hiding(t, 3, func(n int) bool { return n == 2 })
	c := tiny()
	c.ValidateCases = 0
	c = resolved(t, c, store)
	l, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"0", "1"},
		Validate: []string{"2"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v, err := l.Validate(t.Context(), 0); err != nil || v.Unscored {
		t.Errorf("other structures are there: %+v, %v", v, err)
	}
	clear(l.held[0].LabelCounts)
	if v, err := l.Validate(t.Context(), 0); err != nil || !v.Unscored ||
		!strings.Contains(strings.Join(v.Notes, "\n"), "nothing says which weights are the best") {
		t.Errorf("nothing is there: %+v, %v", v, err)
	}
}

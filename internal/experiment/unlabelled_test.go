package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// teachers is a plan with a mean teacher beside scratch, on six patients with labels and three
// without: one of these is scanned a second time, one is a copy of a labelled scan, and one is held
// back by its data set.
func teachers(t *testing.T, change string) Plan {
	t.Helper()
	dir := t.TempDir()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, patient, group string, of uint64, labelled bool) {
		v, l, err := phantom.New(of, phantom.Options{Shape: [3]int{20, 20, 20}})
		if err != nil {
			t.Fatal(err)
		}
		if !labelled {
			l = nil
		}
		if _, err := w.Add(prepared.Input{ID: id, Patient: patient, Group: group, Image: v, Labels: l}); err != nil {
			t.Fatal(err)
		}
	}
	for n, id := range caseNames(6) {
		patient := ""
		if n == 0 {
			patient = "twice"
		}
		add(id, patient, "", uint64(n+1), true)
	}
	add("plain_again", "twice", "", 20, false) // of case_01's patient
	add("plain_copy", "", "", 4, false)        // case_04, voxel by voxel
	add("plain_free", "", "", 21, false)
	add("plain_test", "", "test", 22, false)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlan()
	text := "data: " + dir + `
folds: 3
run_folds: [1, 2]
fractions: [0.5]
seeds: [1]
initialisations:
  - {name: scratch}
  - {name: teacher, finetune: {unlabelled: true, unlabelled_confidence: 0.1, train: {average: 0.9}}}
finetune:
  {network: {channels: 2, levels: 1}, crop: 16, batch: 2, labels: [2, 3], train: {steps: 6, checkpoint_every: 2}}
` + change
	if err := config.Parse("plan", []byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A trial learns without labels from what its fold does not hold out, and from all of that.
func TestUnlabelledScansOfATrial(t *testing.T) {
	for _, change := range []string{"", "curve: 1\ncurve_cases: 1\n", "unlabelled: 0.3\n"} {
		v, err := Look(teachers(t, change), "")
		if err != nil {
			t.Fatal(err)
		}
		trials := 0
		for _, trial := range v.Trials {
			if trial.Init == Scratch {
				if trial.Unlabelled != nil {
					t.Errorf("%s learns from %v without labels", trial.Name(), trial.Unlabelled)
				}
				continue
			}
			trials++
			held := slices.Concat(trial.Test, trial.Curve)
			f := v.Cases.Folds[slices.IndexFunc(v.Cases.Folds, func(f Subsets) bool { return f.Fold == trial.Fold })]
			want := slices.DeleteFunc(slices.Concat(f.Train, v.Cases.Unlabelled), func(id string) bool {
				return slices.Contains(trial.Train, id) || slices.Contains(held, id)
			})
			want = append(want, "plain_free")
			for plain, of := range map[string]string{"plain_again": "case_01", "plain_copy": "case_04"} {
				if !slices.Contains(held, of) {
					want = append(want, plain)
				}
			}
			slices.Sort(want)
			if !slices.Equal(trial.Unlabelled, want) {
				t.Errorf("%q: %s, trained on %v, tested on %v, measured on %v, learns from %v, want %v", change,
					trial.Name(), trial.Train, trial.Test, trial.Curve, trial.Unlabelled, want)
			}
		}
		if trials != 2 || !strings.HasPrefix(v.Unlabelled, "learns from scans without labels, too: teacher, from ") {
			t.Errorf("%q: %d trials, %q", change, trials, v.Unlabelled)
		}
	}
}

// watched notes what is said, and stops an experiment at a step of a trial.
type watched struct {
	notes []string
	step  func(trial string, step int)
	trial string
}

func (w *watched) Training(name, _ string) voxsaw.Observer {
	w.trial = name
	return w
}
func (w *watched) Trained()                               {}
func (w *watched) Note(text string)                       { w.notes = append(w.notes, text) }
func (w *watched) Started(int, int)                       {}
func (w *watched) Validated(int, voxsaw.Validation, bool) {}
func (w *watched) Saved(string, int)                      {}
func (w *watched) Stepped(p voxsaw.Progress)              { w.step(w.trial, p.Step) }

// A stop is after a step of a training whose name ends so.
type stop struct {
	name string
	step int
}

// An arm that was stopped within a trial goes on to the bit; no test case has entered it.
func TestTeacherArmResumes(t *testing.T) {
	armResumes(t, teachers(t, ""), stop{"/seed-1", 1}, stop{"/seed-1", 3}, stop{"/seed-1", 5})
}

// So does one whose runs have teachers of their own, in the middle of a teacher and of a student;
// its teachers have learnt from the labelled cases of the trial alone, and their compute counts.
func TestSelfTrainingArmResumes(t *testing.T) {
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("initialisations: [{name: scratch}, {name: teacher, teachers: 2, "+
		"agreement: 0.01}]\n"), &p); err != nil {
		t.Fatal(err)
	}
	r, out := armResumes(t, p, stop{", teacher 1", 3}, stop{", teacher 2", 2}, stop{"/seed-1", 1}, stop{"/seed-1", 4})
	teaching := 0.0
	for _, trial := range p.trials(r.Cases) {
		if trial.Init == Scratch {
			continue
		}
		var weights []string
		for n := range 2 {
			d, err := checkpoint.Read(train.Last(trial.teacher(out, n)))
			if err != nil {
				t.Fatal(err)
			}
			for _, scan := range d.Learnt.Scans {
				if !slices.Contains(trial.Train, scan.Name) {
					t.Errorf("%s: teacher %d has learnt from %s", trial.Name(), n+1, scan.Name)
				}
			}
			status, err := train.ReadStatus(trial.teacher(out, n))
			if err != nil {
				t.Fatal(err)
			}
			teaching += status.FLOPs()
			digest, err := checkpoint.Digest(train.Last(trial.teacher(out, n)))
			if err != nil {
				t.Fatal(err)
			}
			weights = append(weights, digest)
		}
		if weights[0] == weights[1] {
			t.Errorf("%s: its teachers are one", trial.Name())
		}
		targets, err := segment.ReadTargets(trial.targets(out))
		if err != nil || !(targets.FLOPs > 0) || len(targets.Scans) != len(trial.Unlabelled) {
			t.Fatal(targets, err)
		}
		teaching += targets.FLOPs
	}
	table, err := r.Compute(Setting{Out: out, Device: traintest.CPU(t)})
	if err != nil {
		t.Fatal(err)
	}
	tuning := func(row int) float64 { return table.Rows[row][6].(float64) }
	off := math.Abs(tuning(1) - tuning(0) - teaching/2e12)
	if steps := table.Rows[1][5].(float64); steps != 18 || off > 1e-9*tuning(1) {
		t.Errorf("%v steps, TFLOP %v and %v, the teachers' are %v", steps, tuning(0), tuning(1), teaching/2e12)
	}
}

// An arm of several networks goes on to the bit, too. What it predicts is their mean, and the
// compute of all of them counts.
func TestArmOfSeveralNetworks(t *testing.T) {
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("initialisations: [{name: scratch}, {name: teacher, networks: 3, "+
		"finetune: {unlabelled: true, unlabelled_confidence: 0.1, train: {average: 0.9}}}]\n"), &p); err != nil {
		t.Fatal(err)
	}
	r, out := armResumes(t, p, stop{", network 1", 3}, stop{", network 2", 2}, stop{"/seed-1", 4})
	for _, trial := range p.trials(r.Cases) {
		if trial.Init == Scratch {
			continue
		}
		of := append(trial.others(out, p.initialisation(trial.Init)), trial.Folder(out))
		var weights []string
		for _, folder := range of {
			digest, err := checkpoint.Digest(train.Last(folder))
			if err != nil || slices.Contains(weights, digest) {
				t.Errorf("%s has the weights of another network: %v", folder, err)
			}
			weights = append(weights, digest)
		}
		var number uint64
		if _, err := fmt.Sscanf(trial.Test[0], "case_%d", &number); err != nil {
			t.Fatal(err)
		}
		scan, _, err := phantom.New(number, phantom.Options{Shape: [3]int{20, 20, 20}})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := nifti.ReadLabels(predictionPath(trial.Folder(out), trial.Test[0]))
		if err != nil {
			t.Fatal(err)
		}
		probabilities := make([]float64, 3*scan.Len())
		for _, folder := range of { // one after the other
			network, err := segment.NewPredictor(traintest.CPU(t), []string{train.Last(folder)}, r.Plan.Inference, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, maps, err := network.PredictMaps(t.Context(), scan, segment.MapOptions{Probabilities: true})
			if err != nil {
				t.Fatal(err)
			}
			for n, x := range maps.Probabilities {
				probabilities[n] += float64(x)
			}
			network.Close()
		}
		for v, label := range kept.Labels {
			class := map[uint16]int{0: 0, 2: 1, 3: 2}[label]
			for other := range 3 {
				if probabilities[other*scan.Len()+v] > probabilities[class*scan.Len()+v]+1e-5 {
					t.Fatalf("%s, voxel %d is of class %d, and %d is more probable", trial.Name(), v, class, other)
				}
			}
		}
	}
	table, err := r.Compute(Setting{Out: out, Device: traintest.CPU(t)})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := table.Rows[0][5].(float64), table.Rows[1][5].(float64); a != 6 || b != 18 {
		t.Errorf("%v steps, and %v of three networks", a, b)
	}
}

// A student that was stopped does not go on with other label maps than it has begun with.
func TestStudentKeepsItsLabelMaps(t *testing.T) {
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("initialisations: [{name: teacher, teachers: 1}]\nfolds: 2\nrun_folds: [1]\n"+
		"seeds: [1]\n"), &p); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	run := func(last int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &watched{step: func(trial string, step int) {
			if strings.HasSuffix(trial, "/seed-1") && step == last {
				cancel()
			}
		}}
		_, err := Run(ctx, p, Setting{Out: out, Device: traintest.CPU(t), Console: w})
		return err
	}
	var interrupted *voxsaw.InterruptedError
	if err := run(2); !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(out, "teachers", "*", "*", "*", "*", "targets", "scans.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], append(text, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(-1); err == nil || !strings.Contains(err.Error(), "other label maps than the run has begun with") {
		t.Error(err)
	}
	if err := os.WriteFile(found[0], text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(-1); err != nil {
		t.Error(err)
	}
}

// armResumes runs a plan with an arm called teacher, stops it and lets it go on, and gives the
// result and the folder of what ran through.
func armResumes(t *testing.T, p Plan, stops ...stop) (*Result, string) {
	t.Helper()
	dev := traintest.CPU(t)
	run := func(out string, stop func(trial string, step int, cancel func())) (*Result, *watched, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &watched{step: func(trial string, step int) { stop(trial, step, cancel) }}
		r, err := Run(ctx, p, Setting{Out: out, Device: dev, Console: w})
		return r, w, err
	}
	whole, stopped := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "stopped")
	r, w, err := run(whole, func(string, int, func()) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 4 || !slices.ContainsFunc(w.notes,
		func(s string) bool { return strings.HasPrefix(s, "learns from scans without labels") }) {
		t.Errorf("%d runs, notes %q", len(r.Runs), w.notes)
	}
	for _, at := range stops {
		var interrupted *voxsaw.InterruptedError
		_, _, err := run(stopped, func(trial string, step int, cancel func()) {
			if strings.HasPrefix(trial, "teacher/") && strings.HasSuffix(trial, at.name) && step == at.step {
				cancel()
			}
		})
		if !errors.As(err, &interrupted) {
			t.Fatalf("stopped after step %d of %s: %v", at.step, at.name, err)
		}
	}
	for _, how := range []string{"taken up again", "finished"} { // and then run once more
		again, _, err := run(stopped, func(trial string, step int, _ func()) {
			if how == "finished" {
				t.Errorf("%s: step %d of a study that is finished", trial, step)
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if a, b := fmt.Sprint(r.Runs), fmt.Sprint(again.Runs); a != b {
			t.Errorf("%s: scores differ:\n%s\n%s", how, a, b)
		}
	}
	for _, trial := range p.trials(r.Cases) {
		traintest.SameFiles(t, trial.Folder(whole), trial.Folder(stopped), "last.safetensors", ScoresFile)
		d, err := checkpoint.Read(train.Last(trial.Folder(whole)))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range trial.Test {
			if _, found := d.Seen().Find(id, ""); found {
				t.Errorf("%s has learnt from the test case %s", trial.Name(), id)
			}
		}
		for _, id := range trial.Unlabelled {
			if scan, found := d.Seen().Find(id, ""); !found || scan.Labels {
				t.Errorf("%s: %s is not recorded as learnt from without labels", trial.Name(), id)
			}
		}
	}
	// and the arm is another network than the one beside it
	if r.Runs[0].Initialisation == r.Runs[1].Initialisation ||
		fmt.Sprint(r.Runs[0].Scores) == fmt.Sprint(r.Runs[1].Scores) {
		t.Error("scans without labels have changed nothing")
	}
	return r, whole
}

// Teachers that begin with weights that know the labels of test cases are refused before they, or
// anybody else, are trained: in a plan, in a rehearsal and in a run.
func TestTeachersThatKnowTestLabels(t *testing.T) {
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("initialisations: [{name: scratch}]\n"), &p); err != nil {
		t.Fatal(err)
	}
	s := Setting{Out: filepath.Join(t.TempDir(), "first"), Device: traintest.CPU(t),
		Console: &watched{step: func(string, int) {}}, Trial: 2}
	r, err := Run(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	// of fold 2, whose training cases fold 1 tests on
	known := train.Last(p.trials(r.Cases)[1].Folder(s.Out))
	if err := config.Parse("plan", []byte("initialisations: [{name: scratch}, {name: taught, teachers: 1, "+
		"checkpoint: "+known+"}]\n"), &p); err != nil {
		t.Fatal(err)
	}
	const want = "trial taught/fold-1/fraction-0.5/seed-1: teachers that begin with "
	const why = "teachers have learnt from the labels of cases that are held out here"
	refused := func(what string, err error) {
		if err == nil || !strings.Contains(err.Error(), want+known) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	again := Setting{Out: filepath.Join(t.TempDir(), "second"), Device: s.Device,
		Console: &watched{step: func(trial string, _ int) { t.Errorf("%s was trained", trial) }}}
	_, err = Run(t.Context(), p, again)
	refused("run", err)
	_, err = Rehearse(t.Context(), &p, s.Device, true)
	refused("rehearsal", err)
	v, err := Look(p, "")
	if err != nil || v.CanRun || !strings.Contains(strings.Join(v.Doubts, "\n"), why) {
		t.Errorf("plan: %v, %q", err, v.Doubts)
	}
}

// What cannot be run is refused before anything is trained, by name.
func TestUnlabelledArmsThatCannotRun(t *testing.T) {
	for _, c := range []struct {
		change, want string
		ranks        int
	}{
		{"", "initialisation teacher: learning from scans without labels (finetune.unlabelled, teachers) " +
			"in 2 ranks cannot be done yet", 2},
		{"initialisations: [{name: scratch}, {name: teacher, finetune: {unlabelled: true}}]\n",
			"initialisation teacher: finetune: unlabelled: the teacher is the moving average", 1},
		{"initialisations: [{name: teacher, teachers: 2, finetune: {unlabelled: true, train: {average: 0.9}}}]\n",
			"initialisation teacher: finetune: unlabelled and teachers are two ways", 1},
		{"initialisations: [{name: teacher, teachers: 1, agreement: 0.4}]\n",
			"initialisation teacher: agreement is that of several teachers, and there are 1", 1},
		{"initialisations: [{name: scratch, teachers: 2}]\n", "initialisation scratch has no teachers", 1},
		{"finetune: {network: {preset: paper, dropout: 0.3}}\n", "initialisation scratch: finetune: dropout is 0.3", 1},
	} {
		p := teachers(t, "")
		if c.change != "" {
			if err := config.Parse("plan", []byte(c.change), &p); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(t.TempDir(), "out")
		var err error
		if c.ranks > 1 {
			_, err = Needs(t.Context(), &p, traintest.CPU(t), c.ranks)
		} else {
			_, err = Run(t.Context(), p, Setting{Out: out, Device: traintest.CPU(t),
				Console: &watched{step: func(string, int) {}}})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	refused := make(chan error, 2)
	shared, dev := teachers(t, ""), traintest.CPU(t)
	for _, rank := range traintest.Of(2) {
		go func() {
			_, err := Run(t.Context(), shared, Setting{Out: filepath.Join(t.TempDir(), "out"), Device: dev,
				Console: &watched{}, Ranks: rank})
			refused <- err
		}()
	}
	for range 2 {
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "in 2 ranks cannot be done yet") {
			t.Errorf("two ranks: %v", err)
		}
	}
	// with all labels, and no scan that never had any
	p := teachers(t, "")
	p.Fractions = []float64{0.5, 1}
	c := Cases{Folds: []Subsets{{Fold: 1, Train: []string{"a", "b"}, Test: []string{"c"},
		Fractions: map[string][]string{"0.5": {"a"}, "1": {"a", "b"}}}}}
	err := p.checkUnlabelled(p.trials(c), 1)
	if err == nil || !strings.Contains(err.Error(),
		"1 trial would have no scan without labels to learn from: teacher/fold-1/fraction-1/seed-1") {
		t.Errorf("error %v", err)
	}
}

// Trials that are there without the plan they are of have no scores that another plan may take: not
// of fewer steps, and not on other voxels.
func TestScoresOfOtherTrialsAreNotTaken(t *testing.T) {
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("initialisations: [{name: scratch}]\nfolds: 2\nrun_folds: [1]\n"),
		&p); err != nil {
		t.Fatal(err)
	}
	run := func(out string, p Plan) (*Result, error) {
		if err := os.RemoveAll(filepath.Join(out, planFile)); err != nil {
			t.Fatal(err)
		}
		return Run(
			t.Context(),
			p,
			Setting{Out: out, Device: traintest.CPU(t), Console: &watched{step: func(string, int) {}}},
		)
	}
	out := filepath.Join(t.TempDir(), "out")
	first, err := run(out, p)
	if err != nil {
		t.Fatal(err)
	}
	longer := p
	longer.Finetune.Train.Steps += 3
	second, err := run(out, longer)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(first.Runs), fmt.Sprint(second.Runs); a == b {
		t.Errorf("scores after three steps more are those from before: %s", a)
	}
	longer.ScoreOn = scoreOnPrepared
	if _, err := run(out, longer); err == nil || !strings.Contains(err.Error(), "score_on: scan in "+
		"the run, prepared now") {
		t.Errorf("scores on other voxels: %v", err)
	}
}

// A setting that arms share is refused where none of them goes by it, or where the arm gives it
// that has no use for it; an arm beside one that goes by it is told.
func TestArmsShareSettings(t *testing.T) {
	const pretraining = "initialisations: [{name: scratch}, {name: jigsaw, pretrain: {task: jigsaw}}, " +
		"{name: unary, pretrain: {binary: false}}]\n"
	for _, c := range []struct{ change, want string }{
		{"finetune: {unlabelled_weight: 0.5, unlabelled_ramp: 2000}\n", ""},
		{"finetune: {unlabelled_weight: 0.5}\ninitialisations: [{name: scratch}]\n",
			"initialisation scratch: finetune: unlabelled_weight"},
		{"finetune: {unlabelled_weight: 0.5, unlabelled_ramp: 2000}\ninitialisations: [{name: scratch}, " +
			"{name: teacher, finetune: {unlabelled: true, unlabelled_ramp: 3, train: {average: 0.9}}}]\n",
			"initialisation scratch: finetune: unlabelled_weight"}, // of the ramp
		{"finetune: {unlabelled_weight: 0.5}\ninitialisations: [{name: scratch, finetune: {unlabelled_weight: 2}}, " +
			"{name: teacher, finetune: {unlabelled: true, train: {average: 0.9}}}]\n",
			"initialisation scratch: finetune: unlabelled_weight"},
		{pretraining + "pretrain: {binary: true, binary_weight: 1, search_once: true}\n", ""},
		{pretraining + "pretrain: {binary: false, binary_weight: 1}\n",
			"initialisation jigsaw: pretrain: binary_weight"},
		{"initialisations: [{name: a, pretrain: {task: jigsaw}}, " +
			"{name: b, pretrain: {binary: false, binary_weight: 1}}]\n" +
			"pretrain: {binary: true, search_once: true}\n", "initialisation b: pretrain: binary_weight"},
		{"initialisations: [{name: a, pretrain: {task: jigsaw}}, {name: kway, pretrain: {head: kway, classes: 4}}]\n" +
			"pretrain: {skip_air: true}\n", ""},
		{"initialisations: [{name: a, pretrain: {task: rotation}}, {name: kway, pretrain: {head: kway, classes: " +
			"4}}]\n" +
			"pretrain: {skip_air: true}\n", "initialisation kway: pretrain: skip_air"},
		{"initialisations: [{name: a, pretrain: {task: jigsaw}}, {name: restored, pretrain: {task: mae}}]\n" +
			"pretrain: {task: mae, network: {deep_supervision: true}}\n", ""},
		{"initialisations: [{name: a, pretrain: {task: jigsaw, network: {deep_supervision: true}}}, " +
			"{name: restored, pretrain: {task: mae}}]\npretrain: {task: mae, network: {deep_supervision: true}}\n",
			"initialisation a: pretrain: deep_supervision"},
		{"initialisations: [{name: a, pretrain: {task: rotation}}]\npretrain: {network: {deep_supervision: true}}\n",
			"initialisation a: pretrain: deep_supervision"},
		// of two reasons, one is nobody's
		{"initialisations: [{name: a, pretrain: {binary: false}}, " +
			"{name: kway, pretrain: {binary: false, head: kway, classes: 4}}]\n" +
			"pretrain: {binary: true, search_once: true, skip_air: true}\n",
			"initialisation kway: pretrain: binary_weight"},
	} {
		p := DefaultPlan()
		for _, text := range []string{"initialisations: [{name: scratch}, " +
			"{name: teacher, finetune: {unlabelled: true, train: {average: 0.9}}}]\n", c.change} {
			if err := config.Parse("plan", []byte(text), &p); err != nil {
				t.Fatal(c.change, err)
			}
		}
		err := p.Idle()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.change, err, c.want)
		}
	}
	p := teachers(t, "")
	if err := config.Parse("plan", []byte("finetune: {unlabelled_weight: 0.5}\nrun_folds: [1]\n"), &p); err != nil {
		t.Fatal(err)
	}
	told := &watched{step: func(string, int) {}}
	r, err := Run(t.Context(), p,
		Setting{Out: filepath.Join(t.TempDir(), "out"), Device: traintest.CPU(t), Console: told})
	if err != nil || len(r.Runs) != 2 {
		t.Fatalf("the study does not run: %v", err)
	}
	if !slices.ContainsFunc(told.notes, func(note string) bool {
		return strings.HasPrefix(note, "WARNING: unlabelled_weight") && strings.Contains(note, "goes on without")
	}) {
		t.Errorf("the trial without unlabelled scans does not say what it has no use for: %q", told.notes)
	}
}

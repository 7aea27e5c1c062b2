package planning

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/terminal"
)

// aMachine computes so many FLOPs a second, and forgets the time of puzzles.
type aMachine struct {
	speed    float64
	puzzle   time.Duration
	start    time.Duration // of a training, before its steps
	most     float64       // bytes a step may take before its network is refused; 0: any
	measured []Work
	// beside the steps
	program    int64
	voxel      float64       // bytes that a validation takes for a voxel
	validation time.Duration // of a scan, or of a window
	window     int           // size of those; 0: one for each scan
}

func (m *aMachine) flops(w Work) float64 {
	return 1e4 * float64(w.Crop[0]*w.Crop[1]*w.Crop[2]*w.Network.Channels)
}

func (m *aMachine) Needs(w Work) (Cost, error) {
	bytes := 100 * float64(w.Crop[0]*w.Crop[1]*w.Crop[2]*w.Network.Channels)
	if m.most > 0 && bytes > m.most {
		return Cost{}, errors.New("too large")
	}
	return Cost{m.flops(w), int64(bytes)}, nil
}

func (m *aMachine) Finetune(w Work) (Timing, error) {
	m.measured = append(m.measured, w)
	step := time.Duration(m.flops(w) / m.speed * 1e9)
	return Timing{Start: m.start + step, Step: step, Steps: 3}, nil
}

func (m *aMachine) Beside(_ Work, shape [3]int) (program, validation int64) {
	return m.program, int64(m.voxel * float64(shape[0]*shape[1]*shape[2]))
}

func (m *aMachine) Validate(_ Work, shapes [][3]int) (all time.Duration, err error) {
	for _, s := range shapes {
		windows := 1
		for a := 0; a < 3 && m.window > 0; a++ {
			windows *= (s[a] + m.window - 1) / m.window
		}
		all += time.Duration(windows) * m.validation
	}
	return all, nil
}

func (m *aMachine) Pretrain(Puzzle) (Timing, error) {
	return Timing{Start: m.start + m.puzzle, Step: m.puzzle, Steps: 3}, nil
}

// setOf is so many scans, all labelled.
func setOf(n int, spacing [3]float64, shape [3]int) Fingerprint {
	f := Fingerprint{Modality: "CT", Intensity: "ct-window", Channels: 1, Classes: 3, Limit: 1 << 34}
	for range n {
		f.Scans = append(f.Scans, Scan{Spacing: spacing, Shape: shape, Whole: shape, Labels: true})
	}
	return f
}

func plan(t *testing.T, f Fingerprint, m *aMachine, hours float64) *Plan {
	t.Helper()
	p, err := Make(f, m, hours)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range p.Decisions {
		if d.Is == "" || len(strings.Fields(d.Because)) < 3 || strings.Contains(d.Because, "%!") || seen[d.What] {
			t.Errorf("a decision without a reason, or twice: %+v", d)
		}
		seen[d.What] = true
	}
	for _, what := range []string{"spacing", "intensities", "crop", "network", "batch", "memory", "pretraining",
		"steps", "folds", "time"} {
		if !seen[what] {
			t.Errorf("no decision on %s", what)
		}
	}
	for a, size := range p.Finetune.Crop {
		if size%multiple(p.Finetune.Network)[a] != 0 {
			t.Errorf("axis %d of the crop %v cannot be halved %d times", a, p.Finetune.Crop, p.Finetune.Network.Levels)
		}
	}
	return p
}

// A faster machine makes for a larger network and crop, and then for more steps; what is planned
// fits into the time.
func TestTimeDecides(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	before := 0.0
	for _, speed := range []float64{1e9, 1e10, 1e11, 1e12, 1e13} {
		m := &aMachine{speed: speed, puzzle: time.Millisecond}
		p := plan(t, f, m, 1)
		work := m.flops(p.Finetune)
		if work < before {
			t.Errorf("speed %g: a smaller training than on a slower machine: %+v", speed, p.Finetune)
		}
		before = work
		if takes := p.Step*time.Duration(p.Steps) + p.Puzzling*time.Duration(p.Pretrain); takes > time.Hour {
			t.Errorf("speed %g: the plan takes %v", speed, takes)
		}
		if len(m.measured) > 3 {
			t.Errorf("speed %g: %d measurements", speed, len(m.measured))
		}
		t.Logf("%g: %v %d channels, %d steps, %d of puzzles", speed, p.Finetune.Crop, p.Finetune.Network.Channels,
			p.Steps, p.Pretrain)
	}
	slow, fast := plan(t, f, &aMachine{speed: 1e9, puzzle: time.Second}, 1),
		plan(t, f, &aMachine{speed: 1e13, puzzle: time.Millisecond}, 1)
	if slow.Pretrain != 0 || slow.Steps >= enoughSteps || slow.Finetune.Network.Channels != narrowest {
		t.Errorf("a slow machine: %+v", slow)
	}
	if fast.Pretrain != pretrainSteps || fast.Steps != mostSteps || fast.Finetune.Network.Channels != widest ||
		fast.Finetune.Crop != [3]int{128, 128, 128} {
		t.Errorf("a fast machine: %d of puzzles, %d steps, %+v", fast.Pretrain, fast.Steps, fast.Finetune)
	}
}

// What a training takes before its steps counts, too: a plan fits into the time with it, takes what
// it says, and gives its first step the longer time once.
func TestStartCounts(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	f.Puzzles = NoPuzzles
	before := mostSteps + 1
	for _, start := range []time.Duration{0, time.Minute, 20 * time.Minute, 50 * time.Minute} {
		p := plan(t, f, &aMachine{speed: 1e9, start: start, validation: 10 * time.Second}, 1)
		took := start
		for range p.Steps {
			took += p.Step
		}
		for range p.Validations {
			took += p.Validation
		}
		if p.Takes() != took || took > time.Hour || p.Steps >= before {
			t.Errorf("%v to begin: %d steps take %v, said are %v", start, p.Steps, took, p.Takes())
		}
		d, begin := p.Decisions[len(p.Decisions)-1], terminal.Duration(start+p.Step)+" to begin"
		if !strings.Contains(d.Because, begin) {
			t.Errorf("the time's reason: %s", d.Because)
		}
		before = p.Steps
	}
	if _, err := Make(f, &aMachine{speed: 1e9, start: time.Hour}, 1); err == nil ||
		!strings.Contains(err.Error(), "not one step fits") {
		t.Errorf("an hour to begin, of one hour: %v", err)
	}
	f.Puzzles = WherePuzzlesPay
	p := plan(t, f, &aMachine{speed: 1e12, start: 5 * time.Minute, puzzle: 200 * time.Millisecond}, 1)
	if all := p.Takes() + 5*time.Minute + time.Duration(p.Pretrain)*p.Puzzling; p.Pretrain == 0 || all > time.Hour {
		t.Errorf("%d steps of puzzles and %d of fine-tuning take %v", p.Pretrain, p.Steps, all)
	}
}

// Validations take their part of the time, and of the memory; where they would take too much there
// are fewer. What is planned is what the training takes.
func TestValidations(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	f.Puzzles = NoPuzzles
	machine := func(each time.Duration) *aMachine { return &aMachine{speed: 1e9, validation: each} }
	free := plan(t, f, machine(0), 1)
	for _, test := range []struct {
		each  time.Duration // a scan; four are held out
		count int
	}{{15 * time.Second, 4}, {45 * time.Second, 4}, {100 * time.Second, 1}, {300 * time.Second, 1}} {
		p := plan(t, f, machine(test.each), 1)
		if p.Validations != test.count || p.Validation != 4*test.each {
			t.Errorf("%v a scan: %d validations of %v", test.each, p.Validations, p.Validation)
		}
		if p.Takes() > time.Hour || p.Takes() < 50*time.Minute || p.Steps > free.Steps {
			t.Errorf("%v a scan: the training takes %v with %d steps", test.each, p.Takes(), p.Steps)
		}
	}
	// Scans of many windows count with these: here the median scan has 1, the mean one 2.4.
	mixed := setOf(20, [3]float64{1, 1, 1}, [3]int{100, 100, 100})
	for n := range 4 {
		mixed.Scans[n].Shape = [3]int{200, 200, 200}
	}
	notHeldOut := Scan{Spacing: [3]float64{1, 1, 1}, Shape: [3]int{900, 900, 900}}
	mixed.Scans = append(mixed.Scans, notHeldOut)
	m := machine(10 * time.Second)
	m.window = 100
	if p := plan(t, mixed, m, 1); p.Validation != 96*time.Second {
		t.Errorf("four scans of 2.4 windows in the mean: a validation of %v", p.Validation)
	}
	m = machine(0)
	m.program, m.voxel = 1e8, 50
	if p := plan(t, f, m, 1); p.Bytes != free.Bytes+1e8+50*200*200*200 {
		t.Errorf("a training takes %d bytes, its steps alone %d", p.Bytes, free.Bytes)
	}
	f.Limit = 3e8
	if _, err := Make(f, m, 1); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a validation that does not fit: %v", err)
	}
}

// The hours that are said to be needed for enough steps are: with them a plan has as many, and with
// fewer it has not. A plan that takes longer than its hours says so.
func TestHoursThatAreNeeded(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	f.Puzzles = NoPuzzles
	for _, each := range []time.Duration{0, 15 * time.Second, 45 * time.Second, 5 * time.Minute} {
		m := &aMachine{speed: 1e8, start: time.Minute, validation: each}
		p := plan(t, f, m, 1)
		needed := p.enough()
		reason := p.Decisions[slices.IndexFunc(p.Decisions, func(d Decision) bool { return d.What == "steps" })].Because
		said := terminal.Duration(needed) + " are needed for one training"
		if p.Steps >= enoughSteps || !strings.HasSuffix(reason, said) {
			t.Fatalf("%v: %d steps: %s", each, p.Steps, reason)
		}
		of := func(share float64) int {
			later := &Plan{Finetune: p.Finetune, Spacing: p.Spacing, Timed: p.Timed, Step: p.Step}
			if err := later.validate(f, m, share*needed.Hours()); err != nil {
				t.Fatal(err)
			}
			return later.Timed.fits(later.budget)
		}
		if enough, fewer := of(1.0001), of(0.99); enough < enoughSteps || fewer >= enoughSteps {
			t.Errorf("%v a scan: in %v there are %d steps, in less %d", each, needed, enough, fewer)
		}
	}
	for each, warned := range map[time.Duration]bool{5 * time.Minute: false, 14 * time.Minute: true} {
		p := plan(t, f, &aMachine{speed: 1e9, validation: each}, 1)
		reason := p.Decisions[len(p.Decisions)-1].Because
		if strings.Contains(reason, "WARNING: that is more than") != warned || warned != (p.Takes() > time.Hour) {
			t.Errorf("%v a scan: %v: %s", each, p.Takes(), reason)
		}
	}
}

// A training that has too few steps beside its validations is the smallest one.
func TestValidationsCountForTheCrop(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	f.Puzzles = NoPuzzles
	smallest := plan(t, f, &aMachine{speed: 1e9}, 1)
	if smallest.Steps >= enoughSteps {
		t.Fatalf("%d steps of the smallest training", smallest.Steps)
	}
	fewer := 0
	for speed := 1e9; speed < 1e13; speed *= 1.2 {
		p := plan(t, f, &aMachine{speed: speed, validation: 45 * time.Second}, 1)
		if p.Steps < enoughSteps && p.Finetune.Crop != smallest.Finetune.Crop {
			t.Errorf("speed %g: %d steps of crops of %v", speed, p.Steps, p.Finetune.Crop)
		}
		m := &aMachine{speed: speed}
		if m.flops(plan(t, f, m, 1).Finetune) > m.flops(p.Finetune) {
			fewer++
		}
	}
	if fewer == 0 {
		t.Error("validations cost no crop its size")
	}
}

// Scans of one patient stay in one fold.
func TestFoldsOfPatients(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	for patients, want := range map[int]int{0: 5, 3: 3, 12: 5, 1: 0} {
		f.Patients = patients
		if p := plan(t, f, &aMachine{speed: 1e11, puzzle: time.Millisecond}, 1); p.Folds != want {
			t.Errorf("%d patients: %d folds", patients, p.Folds)
		}
	}
}

// A crop is no larger than the scans, and a flat scan is halved less often.
func TestSmallScans(t *testing.T) {
	p := plan(t, setOf(4, [3]float64{1, 1, 1}, [3]int{46, 63, 96}), &aMachine{speed: 1e12, puzzle: time.Millisecond}, 1)
	if p.Finetune.Crop != [3]int{48, 64, 96} || p.Folds != 4 {
		t.Errorf("crop %v, %d folds", p.Finetune.Crop, p.Folds)
	}
	p = plan(t, setOf(9, [3]float64{0.6, 0.6, 3.5}, [3]int{320, 320, 18}),
		&aMachine{speed: 1e12, puzzle: time.Millisecond}, 1)
	if p.Finetune.Network.Levels != 2 || p.Finetune.Crop[2] > 20 {
		t.Errorf("thick slices: %+v", p.Finetune)
	}
	if p.Spacing != [3]float64{0.6, 0.6, 3.5} {
		t.Errorf("spacing %v", p.Spacing)
	}
}

// Memory bounds the plan as time does, and what cannot be is an error.
func TestLimits(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	p := plan(t, f, &aMachine{speed: 1e13, puzzle: time.Second, most: 4e8}, 10)
	crop := p.Finetune.Crop
	if bytes := 100 * float64(crop[0]*crop[1]*crop[2]*p.Finetune.Network.Channels); bytes > 4e8 {
		t.Errorf("%+v takes %g bytes", p.Finetune, bytes)
	}
	if _, err := Make(f, &aMachine{speed: 1e13, most: 1}, 1); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("no memory: %v", err)
	}
	_, err := Make(f, &aMachine{speed: 1e5}, 1)
	var advised interface{ Advice() string }
	if err == nil || !strings.Contains(err.Error(), "not one step") || !errors.As(err, &advised) ||
		!strings.HasPrefix(advised.Advice(), "give it more --hours: 2500 steps") {
		t.Errorf("no time: %v, %v", err, advised)
	}
	if _, err := Make(Fingerprint{}, &aMachine{speed: 1}, 1); err == nil {
		t.Error("a plan for no scan")
	}
	for n := range f.Scans {
		f.Scans[n].Labels = false
	}
	if p := plan(t, f, &aMachine{speed: 1e10, puzzle: time.Second}, 1); p.Pretrain == 0 || p.Folds != 0 {
		t.Errorf("scans without labels are pretrained on: %+v", p)
	}
}

// Who fine-tunes alone has all of the time for that, where a plan for both would give a part to
// puzzles, which nobody would carry out. They are not timed, either.
func TestNoPuzzlesAskedFor(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	machine := func() *aMachine { return &aMachine{speed: 1e12, puzzle: time.Second} }
	both := plan(t, f, machine(), 1)
	f.Puzzles = NoPuzzles
	alone := plan(t, f, machine(), 1)
	if both.Pretrain == 0 || alone.Pretrain != 0 || alone.Steps <= both.Steps || alone.Puzzling != 0 {
		t.Errorf("alone %d steps of puzzles (%s each) and %d of fine-tuning, with both %d and %d", alone.Pretrain,
			alone.Puzzling, alone.Steps, both.Pretrain, both.Steps)
	}
}

// Who asks for pretraining gets it in a time of its own, where a plan for both would have none.
func TestPuzzlesAskedFor(t *testing.T) {
	f := setOf(20, [3]float64{1, 1, 1}, [3]int{200, 200, 200})
	slow := func() *aMachine { return &aMachine{speed: 1e9, puzzle: 10 * time.Second} }
	without := plan(t, f, slow(), 1)
	f.Puzzles = PuzzlesApart
	p := plan(t, f, slow(), 1)
	if without.Pretrain != 0 || p.Pretrain != 324 || p.Steps != without.Steps ||
		!reflect.DeepEqual(p.Finetune, without.Finetune) {
		t.Errorf("%d steps of puzzles, %d unless they are asked for; %d and %d of fine-tuning", p.Pretrain,
			without.Pretrain, p.Steps, without.Steps)
	}
	if _, err := Make(f, &aMachine{speed: 1e9, puzzle: 2 * time.Hour}, 1); err == nil ||
		!strings.Contains(err.Error(), "not one step of puzzles") {
		t.Errorf("a step of puzzles that takes longer: %v", err)
	}
	small := setOf(4, [3]float64{1, 1, 1}, [3]int{20, 20, 20})
	small.Puzzles = PuzzlesApart
	if _, err := Make(small, slow(), 10); err == nil || !strings.Contains(err.Error(), "too small for puzzles") {
		t.Errorf("scans without room for a grid: %v", err)
	}
}

// Whether a name says a side decides what the plan says of mirroring.
func TestMirroringIsTold(t *testing.T) {
	for name, want := range map[string]string{
		"Parotid_L": "the name of Parotid_L says a side", "liver": "--augment-mirror ijk",
	} {
		f := setOf(4, [3]float64{1, 1, 1}, [3]int{60, 60, 60})
		f.Names = map[uint16]string{1: name}
		p := plan(t, f, &aMachine{speed: 1e11, puzzle: time.Millisecond}, 1)
		if d := decision(t, p, "augmentation"); !strings.Contains(d.Because, want) {
			t.Errorf("%s: want %q: %+v", name, want, d)
		}
		if d := decision(t, p, "the rest"); !strings.Contains(d.Because, "deep supervision are decided by no rule") {
			t.Errorf("what is not decided: %+v", d)
		}
	}
}

// What somebody has brought is planned as it is, in as many steps as the time allows, with nothing
// else beside it; what it is not for is an error.
func TestBrought(t *testing.T) {
	thick, _ := NNUNetPlan([][3]float64{{0.6, 0.6, 3.5}}, [][3]int{{320, 320, 18}}, 0, 3, Plain, 1)
	f := setOf(9, [3]float64{0.7, 0.7, 3}, [3]int{300, 300, 20})
	for n := range f.Scans {
		f.Scans[n].Body = [3]int{200, 150, 20}
	}
	f.Brought = &Brought{Name: "plans.json", Crop: "nonzero", Spacing: [3]float64{0.6, 0.6, 3.5}, Intensity: "zscore",
		Foreground: [4]float64{1, 2, 3, 4}, Network: thick.network(baseWidth), Patch: thick.patch(), Batch: 2}
	p := plan(t, f, &aMachine{speed: 1e11, puzzle: time.Millisecond}, 1)
	if p.Crop != "nonzero" || p.Spacing != f.Brought.Spacing || p.Intensity != "zscore" ||
		p.Foreground != f.Brought.Foreground || p.Finetune.Crop != thick.patch() || p.Finetune.Batch != 2 ||
		p.Finetune.Network.Channels != baseWidth || p.Finetune.Network.Classes != 3 || p.Pretrain != 0 {
		t.Errorf("%+v", p)
	}
	if took := p.Takes(); p.Steps < 100 || took < 50*time.Minute || took > time.Hour {
		t.Errorf("%d steps take %v", p.Steps, took)
	}
	for _, what := range []string{"part of a scan", "spacing", "intensities", "crop", "network", "batch"} {
		if d := decision(t, p, what); !strings.Contains(d.Because, "plans.json has it") {
			t.Errorf("%s: %s", what, d.Because)
		}
	}
	// of the scans alone it would be another one, which is told
	if d := decision(t, p, "spacing"); !strings.Contains(d.Because, "from the scans it would be 0.7x0.7x3 mm") {
		t.Errorf("spacing: %s", d.Because)
	}
	silent := *f.Brought
	silent.Batch = 0
	g := f
	g.Brought = &silent
	p = plan(t, g, &aMachine{speed: 1e11, puzzle: time.Millisecond}, 1)
	if d := decision(t, p, "batch"); p.Finetune.Batch != 1 || d.Because != "plans.json has no batch_size" {
		t.Errorf("batch %d: %s", p.Finetune.Batch, d.Because)
	}
	fast := plan(t, f, &aMachine{speed: 1e15}, 1000)
	if fast.Steps != nnunetSteps {
		t.Errorf("%d steps on a fast machine", fast.Steps)
	}
	f.Limit = 1 << 20
	if _, err := Make(f, &aMachine{speed: 1e11}, 1); err == nil ||
		!strings.Contains(err.Error(), "of memory, and there are 1") {
		t.Errorf("plans for a larger machine: %v", err)
	}
}

// The patch of a scan of one slice does not shrink with the memory below a size.
func TestNetworkOfOneSlice(t *testing.T) {
	e := Plain
	f := Fingerprint{Modality: "MR", Intensity: "zscore", Channels: 1, Classes: 2, Limit: 1 << 40, Encoder: &e}
	for range 3 {
		shape := [3]int{1024, 1024, 1}
		f.Scans = append(f.Scans, Scan{Spacing: [3]float64{0.5, 0.5, 5}, Shape: shape, Whole: shape, Labels: true})
	}
	p := plan(t, f, &aMachine{speed: 1e9}, 1)
	if n, is := nnunetOf(p.Finetune.Network); !is || p.Finetune.Crop[2] != 1 || n.Features[0] >= baseWidth {
		t.Errorf("crop %v of %+v", p.Finetune.Crop, n)
	}
}

// Networks of nnU-Net's that are planned are the ones that its own planner has for GPUs of less and
// less memory, axes put back, with fewer channels where that is not enough.
func TestNetworksOfNNUNet(t *testing.T) {
	for _, g := range goldens(t) {
		if g.Gigabytes != 0 {
			continue
		}
		f := Fingerprint{Modality: "MR", Intensity: "zscore", Channels: 1, Classes: g.Outputs, Limit: 1 << 40}
		for n, shape := range turned(g.Shapes) {
			f.Scans = append(f.Scans, Scan{Spacing: turned(g.Spacings)[n], Shape: shape, Whole: shape, Labels: true})
		}
		for key, e := range map[string]Encoder{"plain": Plain, "residual": Residual} {
			f.Encoder = &e
			want := g.Plans[key]
			p := plan(t, f, &aMachine{speed: 1e15}, 1)
			s, is := nnunetOf(p.Finetune.Network)
			var patch [3]int // along (i, j, k)
			var strides, kernels [][3]int
			for a, from := range want.Forward {
				patch[2-from] = want.Full.Patch[a]
			}
			for n := range want.Full.Strides {
				var stride, kernel [3]int
				for a, from := range want.Forward {
					stride[from], kernel[from] = want.Full.Strides[n][a], want.Full.Kernels[n][a]
				}
				strides, kernels = append(strides, stride), append(kernels, kernel)
			}
			if !is || p.Finetune.Crop != patch || !reflect.DeepEqual(s.Strides, strides) ||
				!reflect.DeepEqual(s.Kernels, kernels) || !slices.Equal(s.Features, want.Full.Features) ||
				!slices.Equal(s.Blocks, want.Full.Blocks) || !slices.Equal(s.DecoderConvs, want.Full.Decoder) ||
				s.Residual != e.Residual() {
				t.Errorf("%s, %s: crop %v of %+v, nnU-Net has %v of %+v", g.Name, key, p.Finetune.Crop, s, patch,
					want.Full)
			}
			slow := plan(t, f, &aMachine{speed: 1e9}, 1)
			small, _ := nnunetOf(slow.Finetune.Network)
			if voxels := product(extents(slow.Finetune.Crop)); voxels > smallestCrop ||
				small.Features[0] != baseWidth/4 || small.Features[len(small.Features)-1] > mostWidth/4 {
				t.Errorf("%s, %s, a slow machine: crop %v of %+v", g.Name, key, slow.Finetune.Crop, small)
			}
		}
	}
}

// Cases that are prepared are planned at the spacing that they have, whatever the scans had: the
// crop is nnU-Net's patch there. The reason for the levels tells what they leave of the crop.
func TestPreparedSpacing(t *testing.T) {
	thick := setOf(9, [3]float64{0.6, 0.6, 3.5}, [3]int{320, 320, 18})
	thick.Ready, thick.Prepared = true, [3]float64{1.5, 1.5, 3.5}
	fast := func() *aMachine { return &aMachine{speed: 1e15, puzzle: time.Millisecond} }
	p := plan(t, thick, fast(), 1)
	alike := plan(t, setOf(9, thick.Prepared, [3]int{128, 128, 18}), fast(), 1)
	if p.Finetune.Crop != alike.Finetune.Crop || p.NNUNet.patch() != alike.NNUNet.patch() {
		t.Errorf("crops of %v, patch %v; of scans of this spacing %v, %v", p.Finetune.Crop, p.NNUNet.patch(),
			alike.Finetune.Crop, alike.NNUNet.patch())
	}
	large := setOf(9, [3]float64{1, 1, 1}, [3]int{300, 300, 300})
	for name, p := range map[string]*Plan{"thick": p, "large": plan(t, large, fast(), 1),
		"large, slow": plan(t, large, &aMachine{speed: 1e9, puzzle: time.Second}, 1)} {
		w := p.Finetune
		left := min(w.Crop[0], w.Crop[1], w.Crop[2]) / (1 << w.Network.Levels)
		if d := decision(t, p, "network"); !strings.Contains(d.Because, fmt.Sprintf("that %d voxels are left", left)) {
			t.Errorf("%s: %d of %v are left: %s", name, left, w.Crop, d.Because)
		}
	}
	for _, n := range []*Brought{nil, {Name: "plans.json", Spacing: [3]float64{1, 1, 1}}} {
		thick.Brought = n
		q, _, err := prepared(thick)
		if err != nil || q.Spacing != thick.Prepared {
			t.Errorf("spacing %v, %v", q.Spacing, err)
		}
	}
}

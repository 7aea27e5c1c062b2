//go:build mpi && linux

package devices_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// These tests start trainings of several ranks with the launchers of Debian's packages openmpi-bin
// and mpich; scripts/mpi-check.sh installs and runs them. They fail where a launcher is missing.

// TestMPI has of its parts every fourth where commits have their turns.
func TestMPI(t *testing.T) {
	s := newMPISite(t)
	for n, part := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"ranks equal one", s.ranksEqualOne},
		{"other ways", s.otherWays},
		{"solve", s.solve},
		{"predict", s.predict},
		{"evaluate", s.evaluate},
		{"trials", s.trials},
		{"ensembles", s.ensembles},
		{"interrupt and resume", s.interruptAndResume},
		{"a rank is lost", s.aRankIsLost},
		{"a full disk", s.aFullDisk},
		{"kills", s.kills},
		{"Ctrl-C", s.ctrlC},
		{"two hosts", s.twoHosts},
		{"ranks that differ", s.ranksThatDiffer},
		{"other library", s.otherLibrary},
		{"doctor", s.doctor},
	} {
		if n == 0 || turns.Has(t, n, 4) { // the first has turns of its own
			t.Run(part.name, part.run)
		}
	}
}

// launchers start ranks on this machine.
var launchers = map[string][]string{
	"Open MPI": {"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n"},
	"MPICH":    {"mpiexec.mpich", "-n"},
}

// mpiSite is the program with MPI and what it is tried on.
type mpiSite struct {
	dir, binary, data string
	executable        string // that binary is a link to
}

// newMPISite prepares phantoms. The program is this test's own binary under another name, see
// [TestMain].
func newMPISite(t *testing.T) mpiSite {
	t.Helper()
	s := mpiSite{dir: t.TempDir()}
	s.binary, s.data = s.in("voxsaw"), s.in("prepared")
	var err error
	if s.executable, err = os.Executable(); err == nil {
		err = os.Symlink(s.executable, s.binary)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := miniature.Scans(s.in("scans"), miniature.ScanOptions{Cases: 6, Labelled: 4}); err != nil {
		t.Fatal(err)
	}
	s.must(t, "prepare", s.in("scans"), "--out", s.data)
	if err := os.WriteFile(s.in("study.yaml"), []byte(studyOfRanks), 0o666); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s mpiSite) in(name string) string { return filepath.Join(s.dir, name) }

// must runs the program as one process, in this one.
func (s mpiSite) must(t *testing.T, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	if code := cli.Run(args, io.Discard, &stderr); code != 0 {
		t.Fatalf("voxsaw %v: exit code %d\n%s", args, code, stderr.String())
	}
}

// a rankRun is a job that has ended.
type rankRun struct {
	launcher       string // its program
	code           int
	stdout, stderr string
	took           time.Duration
}

// ended says whether the job has an exit code of its ranks. MPICH's launcher ends the ranks that
// are left once it sees that one has gone, and if it does so before they have ended by themselves,
// its own code has the bits of theirs and of KILL.
func (r rankRun) ended(code int) bool {
	return r.code == code || code != 0 && r.launcher == launchers["MPICH"][0] && r.code == code|9
}

// start begins a job of several ranks. Its standard error is also written to a file.
func (s mpiSite) start(t *testing.T, launcher string, ranks int, env []string, args ...string) (cmd *exec.Cmd,
	wait func() rankRun) {
	t.Helper()
	line := append([]string{}, launchers[launcher]...)
	return s.launch(t, env, append(append(line, strconv.Itoa(ranks), s.binary), args...))
}

// launch begins a job by the whole command line.
func (s mpiSite) launch(t *testing.T, env, line []string) (cmd *exec.Cmd, wait func() rankRun) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	cmd = exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	cmd.Env = append(append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"GOMAXPROCS=1"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: scripts/mpi-check.sh installs what is needed", err)
	}
	return cmd, func() rankRun {
		defer cancel()
		err := cmd.Wait()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return rankRun{line[0], cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(begin)}
	}
}

// ranks runs a job of several ranks to its end.
func (s mpiSite) ranks(t *testing.T, launcher string, n int, args ...string) rankRun {
	t.Helper()
	_, wait := s.start(t, launcher, n, nil, args...)
	return wait()
}

// pair runs a job of two ranks with command lines of their own.
func (s mpiSite) pair(t *testing.T, launcher string, env, first, second []string) rankRun {
	t.Helper()
	line := slices.Concat(launchers[launcher], []string{"1"}, first, []string{":", "-n", "1"}, second)
	_, wait := s.launch(t, env, line)
	r := wait()
	if r.code == -1 && r.launcher == launchers["MPICH"][0] {
		// A signal has ended the launcher itself, as happens to MPICH's where both ranks end at
		// once.
		t.Logf("%s ended by a signal after %v: once more\n%s", r.launcher, r.took, r.stderr)
		_, wait = s.launch(t, env, line)
		r = wait()
	}
	return r
}

func weights(folder string) string { return filepath.Join(folder, "last.safetensors") }

// trainings are the smallest of each kind, with a batch that four ranks can divide.
func (s mpiSite) trainings() map[string][]string {
	all := map[string][]string{
		"finetune": {"finetune", "--data", s.data, "--channels", "2", "--levels", "1", "--crop", "16", "--labels",
			"2,3", "--batch", "4"},
	}
	for _, task := range pretext.Scans.Names() {
		line := []string{"pretrain", "--task", task, "--data", s.data, "--channels", "2", "--levels", "1", "--crop",
			"16", "--batch", "4"}
		switch task {
		case pretext.Default:
			line = append(line, "--grid", "2x2x2", "--features", "8", "--hidden", "8")
		case "mae": // a crop of several blocks, which are of 16
			line = append(line, "--crop", "32")
		}
		all[task] = line
	}
	return all
}

// rates are learning rates at which rounding does not grow: the gradient of a bias in front of a
// norm is zero but for rounding, and AdamW makes whole steps of that.
var rates = map[string]string{"sgd": "1e-3", "adamw": "1e-4"}

// One, two and four ranks see the same work: after 10 steps their weights agree, for each training,
// each optimiser and under each MPI.
func (s mpiSite) ranksEqualOne(t *testing.T) {
	turn := 0
	trainings := s.trainings()
	for i, name := range slices.Sorted(maps.Keys(trainings)) {
		line := trainings[name]
		for k, optimizer := range []string{"sgd", "adamw"} {
			if name != "finetune" && name != pretext.Default && (i+k)%2 == 0 {
				continue // one optimiser each: the tasks share the training loop
			}
			if turn++; !turns.Has(t, turn, 4) {
				continue
			}
			t.Run(name+"/"+optimizer, func(t *testing.T) {
				line := append(line, "--steps", "10", "--optimizer", optimizer, "--lr", rates[optimizer])
				alone := s.in(name + optimizer)
				s.must(t, append(line, "--out", alone)...)
				// each pair of launcher and number has its turn
				launcher, n := []string{"Open MPI", "MPICH"}[turn%2], []int{2, 4}[turn/2%2]
				turn++
				folder := alone + "-ranks"
				r := s.ranks(t, launcher, n, append(line, "--out", folder)...)
				if r.code != 0 {
					t.Fatalf("%d ranks under %s: exit code %d\n%s", n, launcher, r.code, r.stderr)
				}
				traintest.Close(t, weights(alone), weights(folder), 1e-4)
				if lines := strings.Count(r.stderr, "after step 10"); lines != 1 {
					t.Errorf("%d lines tell of the validation, want 1:\n%s", lines, r.stderr)
				}
				if lines := strings.Count(r.stdout, ": 10 steps in"); lines != 1 {
					t.Errorf("%d lines tell of the end, want 1:\n%s", lines, r.stdout)
				}
			})
		}
	}
}

// Micro-batches on ranks are the same training; gradients sent in bfloat16 are close to it.
func (s mpiSite) otherWays(t *testing.T) {
	line := append(s.trainings()["finetune"], "--steps", "20", "--lr", rates["sgd"])
	alone := s.in("ways-alone")
	s.must(t, append(line, "--out", alone)...)
	for launcher, c := range map[string]struct {
		flags     []string
		ranks     int
		tolerance float64
	}{
		"Open MPI": {[]string{"--reduce", "bf16"}, 4, 1e-3},
		"MPICH":    {[]string{"--accumulate", "2"}, 2, 1e-4},
	} {
		folder := s.in("ways" + launcher)
		if r := s.ranks(t, launcher, c.ranks, append(append(line, c.flags...), "--out", folder)...); r.code != 0 {
			t.Fatalf("%v: exit code %d\n%s", c.flags, r.code, r.stderr)
		}
		traintest.Close(t, weights(alone), weights(folder), c.tolerance)
	}
}

// Ranks that share out the cases of solve print and draw what one process does, to the byte.
func (s mpiSite) solve(t *testing.T) {
	trainings := s.trainings()
	for name, launcher := range map[string]string{pretext.Default: "Open MPI", "rotation": "MPICH", "mae": "MPICH"} {
		folder := s.in("to-solve-" + name)
		s.must(t, append(trainings[name], "--steps", "2", "--out", folder)...)
		line := func(picture string) []string {
			return []string{"solve", "--data", s.data, "--checkpoint", folder, "--all", "--json", "--picture", picture}
		}
		var alone bytes.Buffer
		if code := cli.Run(line(s.in("alone.png")), &alone, io.Discard); code != 0 {
			t.Fatalf("%s: exit code %d", name, code)
		}
		r := s.ranks(t, launcher, 3, line(s.in("ranks.png"))...)
		if r.code != 0 || r.stdout != alone.String() {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s\n%s", name, r.code, r.stdout, alone.String(), r.stderr)
		}
		a, errA := os.ReadFile(s.in("alone.png"))
		b, errB := os.ReadFile(s.in("ranks.png"))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: another picture: %v", name, err)
		}
	}
}

// Ranks that share out scans write the files that one process writes, go on where they stopped, and
// name a scan that cannot be read once.
func (s mpiSite) predict(t *testing.T) {
	organs, scans := s.in("to-predict-with"), s.in("to-predict")
	s.must(t, append(s.trainings()["finetune"], "--steps", "2", "--out", organs)...)
	if err := os.CopyFS(scans, os.DirFS(s.in("scans/imagesTr"))); err != nil {
		t.Fatal(err)
	}
	line := func(out string) []string {
		return []string{"predict", scans, "--checkpoint", organs, "--probabilities", "--out", s.in(out)}
	}
	var alone bytes.Buffer
	if code := cli.Run(line("predicted-alone"), io.Discard, &alone); code != 0 {
		t.Fatalf("exit code %d\n%s", code, alone.String())
	}
	r := s.ranks(t, "MPICH", 2, line("predicted")...)
	if r.code != 0 || strings.Count(r.stdout, ".nii.gz") != 6 {
		t.Fatalf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	warned := regexp.MustCompile("the model has learnt from .*").FindString(alone.String())
	if warned == "" || strings.Count(r.stderr, warned) != 1 { // of the scans of all ranks
		t.Errorf("one process warned %q, two ranks\n%s", warned, r.stderr)
	}
	// the digests, quality.csv and the page, too
	want, err := filepath.Glob(s.in("predicted-alone/*"))
	if err != nil || len(want) != 15 {
		t.Fatalf("%d files, %v: %q", len(want), err, want)
	}
	for _, path := range want {
		a, errA := os.ReadFile(path)
		b, errB := os.ReadFile(filepath.Join(s.in("predicted"), filepath.Base(path)))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("another %s: %v", filepath.Base(path), err)
		}
	}
	first, err := filepath.Glob(filepath.Join(scans, "*"))
	if err != nil || len(first) != 6 {
		t.Fatal(first, err)
	}
	if err := os.WriteFile(first[1], []byte("no scan"), 0o666); err != nil {
		t.Fatal(err)
	}
	r = s.ranks(t, "Open MPI", 2, append(line("predicted"), "--force")...)
	if !r.ended(1) || strings.Count(r.stderr, "1 of 6 scans could not be segmented") != 1 ||
		strings.Count(r.stdout, ".nii.gz") != 5 {
		t.Errorf("with a damaged scan: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

// Ranks that share out label maps write the scores of one process, to the byte, and print them
// once. A label map that cannot be read is named once.
func (s mpiSite) evaluate(t *testing.T) {
	references, predictions := s.in("scans/labelsTr"), s.in("to-evaluate")
	if err := os.CopyFS(predictions, os.DirFS(references)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(predictions, "*"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	other, err := os.ReadFile(files[2])
	if err == nil {
		err = os.WriteFile(files[0], other, 0o666) // of another case: scores that are not 1
	}
	if err != nil {
		t.Fatal(err)
	}
	// label 77 is in no case, with a note; 3 ranks do not divide 4 cases
	line := func(out string) []string {
		return []string{"evaluate", predictions, references, "--labels", "2,3,77", "--json", "--out", s.in(out)}
	}
	var alone bytes.Buffer
	if code := cli.Run(line("scores-alone"), &alone, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for launcher, n := range map[string]int{"MPICH": 3, "Open MPI": 2} {
		out := "scores-" + launcher
		r := s.ranks(t, launcher, n, line(out)...)
		if r.code != 0 || r.stdout != alone.String() {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s\n%s", launcher, r.code, r.stdout, alone.String(), r.stderr)
		}
		traintest.SameFiles(t, s.in("scores-alone"), s.in(out), "scores.csv", "scores.json", "scores.md", "scores.html")
	}
	if err := os.WriteFile(files[1], []byte("no label map"), 0o666); err != nil {
		t.Fatal(err)
	}
	// the others are scored all the same; it is named in the warning and in the error
	r := s.ranks(t, "MPICH", 2, line("partly")...)
	if _, err := os.Stat(s.in("partly/scores.csv")); err != nil || !r.ended(1) ||
		strings.Count(r.stderr, filepath.Base(files[1])) != 2 ||
		!strings.Contains(r.stderr, "the scores of the other 3 are complete") {
		t.Errorf("with a damaged label map: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	r = s.ranks(t, "MPICH", 1, append(append(line("never"), ":", "-n", "1", s.binary),
		append(line("never"), "--tolerance", "3")...)...)
	if !r.ended(1) || !strings.Contains(r.stderr, "cannot work together: tolerance: 2 on rank 0, 3 there") {
		t.Errorf("with another tolerance: exit code %d\n%s", r.code, r.stderr)
	}
}

// studyOfRanks is a plan whose batches two ranks can divide.
const studyOfRanks = `
folds: 2
run_folds: [1]
fractions: [1]
seeds: [1]
initialisations:
  - {name: scratch}
  - {name: rotation, pretrain: {}}
  - {name: slower, encoder: rotation, finetune: {train: {lr: 5e-4}}}
pretrain:
  task: rotation
  network: {channels: 2, levels: 1}
  train: {steps: 5, lr: 1e-3}
  batch: 4
  crop: 16
finetune:
  network: {channels: 2, levels: 1}
  train: {steps: 200, checkpoint_every: 5, lr: 1e-3} # long enough to be interrupted
  batch: 4
  crop: 16
  labels: [2, 3]
`

// study is the command of that plan.
func (s mpiSite) study(out string, more ...string) []string {
	return append([]string{"crossval", "--config", s.in("study.yaml"), "--data", s.data, "--out", s.in(out)}, more...)
}

// Ranks that carry out trials together come to the weights and scores of one process: in two jobs
// at once that need the same encoder, in one that is interrupted, and in one that loses a rank.
func (s mpiSite) trials(t *testing.T) {
	alone, shared := s.in("study-alone"), s.in("study-ranks")
	s.must(t, s.study("study-alone")...)
	_, one := s.start(t, "MPICH", 2, nil, s.study("study-ranks", "--ranks", "2", "--trial", "2")...)
	_, other := s.start(t, "Open MPI", 2, nil, s.study("study-ranks", "--ranks", "2", "--trial", "3")...)
	for _, wait := range []func() rankRun{one, other} {
		if r := wait(); r.code != 0 || strings.Count(r.stdout, "DSC") != 1 {
			t.Fatalf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	}

	all := s.study("study-ranks", "--ranks", "2")
	scratch := "trials/scratch/fold-1/fraction-1/seed-1"
	_, wait := s.start(t, "MPICH", 2, nil, all...)
	send(t, "KILL", s.pids(t, filepath.Join(shared, scratch), 2)[1])
	if r := wait(); r.code == 0 {
		t.Errorf("killed: exit code %d\n%s", r.code, r.stderr)
	}
	s.must(t, "verify", filepath.Join(shared, scratch))
	logged := steps(filepath.Join(shared, scratch)) // of the run that was killed
	_, wait = s.start(t, "Open MPI", 2, nil, all...)
	send(t, "TERM", s.pidsAfter(t, max(15, logged+1), filepath.Join(shared, scratch), 2)[1])
	if r := wait(); !r.ended(130) || strings.Count(r.stderr, "and saved") != 1 ||
		!strings.Contains(r.stderr, "hint: the same command goes on from there") {
		t.Errorf("interrupted: exit code %d\n%s", r.code, r.stderr)
	}
	r := s.ranks(t, "MPICH", 2, all...)
	if r.code != 0 || strings.Count(r.stdout, "report: ") != 1 || strings.Count(r.stderr, "trial 2 of 3") != 1 {
		t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	for _, run := range []string{"pretraining/rotation/fold-1", scratch, "trials/rotation/fold-1/fraction-1/seed-1",
		"trials/slower/fold-1/fraction-1/seed-1"} {
		traintest.Close(t, weights(filepath.Join(alone, run)), weights(filepath.Join(shared, run)), 1e-4)
	}
	sameScores(t, filepath.Join(alone, "scores.csv"), filepath.Join(shared, "scores.csv"))

	// A trial that fails ends the job; the table has those before it.
	plan, err := os.ReadFile(s.in("study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(plan), "- {name: slower, encoder: rotation, finetune: {train: {lr: 5e-4}}}",
		"- {name: broken, finetune: {train: {lr: 1e38}}}", 1)
	if broken == string(plan) {
		t.Fatal("the plan has no arm to break")
	}
	if err := os.WriteFile(s.in("broken.yaml"), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	r = s.ranks(t, "MPICH", 2, "crossval", "--config", s.in("broken.yaml"), "--data", s.data, "--out",
		s.in("study-broken"), "--ranks", "2")
	if !r.ended(1) || strings.Count(r.stdout, "report: ") != 1 || !strings.Contains(r.stdout, "scratch") ||
		!strings.Contains(r.stderr, "trial broken/fold-1/fraction-1/seed-1: step ") {
		t.Errorf("a trial that fails: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

// A study whose trials have several networks goes on where it was stopped: all ranks know which of
// them are trained.
func (s mpiSite) ensembles(t *testing.T) {
	const arms = "- {name: scratch}\n  - {name: rotation, pretrain: {}}\n" +
		"  - {name: slower, encoder: rotation, finetune: {train: {lr: 5e-4}}}\n"
	plan := strings.Replace(studyOfRanks, arms, "- {name: scratch, finetune: {train: {steps: 5}}}\n"+
		"  - {name: several, networks: 2, finetune: {train: {steps: 10}}}\n", 1)
	if plan == studyOfRanks {
		t.Fatal("the plan has other arms")
	}
	if err := os.WriteFile(s.in("networks.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	scores := s.in("study-networks/trials/several/fold-1/fraction-1/seed-1/scores.csv")
	var first []byte
	for _, launcher := range []string{"MPICH", "Open MPI"} { // the second makes the scores alone
		r := s.ranks(t, launcher, 2, "crossval", "--config", s.in("networks.yaml"), "--data", s.data, "--out",
			s.in("study-networks"), "--ranks", "2")
		text, err := os.ReadFile(scores)
		if r.code != 0 || err != nil || first != nil && !bytes.Equal(text, first) {
			t.Fatalf("%s: exit code %d, %v\n%s\n%s", launcher, r.code, err, r.stdout, r.stderr)
		}
		if first = text; os.Remove(scores) != nil {
			t.Fatal("the scores are gone already")
		}
	}
}

// sameScores wants the same rows of two tables of scores, whose numbers differ by no more than a
// few voxels that rounding has turned over.
func sameScores(t *testing.T, a, b string) {
	t.Helper()
	var tables [2][][]string
	for n, path := range []string{a, b} {
		text, err := os.ReadFile(path)
		if err == nil {
			tables[n], err = csv.NewReader(bytes.NewReader(text)).ReadAll()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(tables[0]) < 2 || len(tables[0]) != len(tables[1]) {
		t.Fatalf("%d rows of scores, want %d", len(tables[1]), len(tables[0]))
	}
	reference := slices.Index(tables[0][0], "reference_ml")
	for row, want := range tables[0] {
		for column, text := range want {
			got := tables[1][row][column]
			x, notX := strconv.ParseFloat(text, 64)
			y, notY := strconv.ParseFloat(got, 64)
			scale := math.Abs(x)
			if tables[0][0][column] == "difference_ml" && row > 0 { // a voxel may be much of it
				volume, _ := strconv.ParseFloat(want[reference], 64)
				scale = max(scale, volume)
			}
			if close := notX == nil && notY == nil && math.Abs(x-y) <= 0.01*scale; got != text && !close {
				t.Errorf("row %d, %s: %s, want %s", row, tables[0][0][column], got, text)
			}
		}
	}
}

// long is a training that lasts until it is stopped, or so many steps.
func (s mpiSite) long(folder string, steps int) []string {
	return append(s.trainings()["finetune"], "--schedule", "constant", "--checkpoint-every", "5", "--steps",
		strconv.Itoa(steps), "--out", folder)
}

// pids waits until a training has taken some steps, and gives the processes of its ranks, by rank.
func (s mpiSite) pids(t *testing.T, folder string, n int) []int {
	t.Helper()
	return s.pidsAfter(t, 7, folder, n)
}

// pidsAfter is pids after a given number of steps. The processes are found first: what follows is
// then not late, however fast the training is.
func (s mpiSite) pidsAfter(t *testing.T, after int, folder string, n int) []int {
	t.Helper()
	pids := s.processes(t, n)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if steps(folder) >= after {
			break
		}
	}
	return pids
}

// steps counts those in the log of a training; none where there is no log yet.
func steps(folder string) int {
	log, err := os.ReadFile(filepath.Join(folder, "metrics.csv"))
	if err != nil {
		return 0
	}
	return bytes.Count(log, []byte("\n")) - 1 // below a header
}

// processes waits until the processes of n ranks are there, and gives them by rank.
func (s mpiSite) processes(t *testing.T, n int) []int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if there := s.running(t); len(there) == n {
			pids := make([]int, n)
			for rank, pid := range there {
				pids[rank] = pid
			}
			return pids
		}
	}
	t.Fatalf("the processes of %d ranks are not there", n)
	return nil
}

// running are the processes of ranks that are there, by rank.
func (s mpiSite) running(t *testing.T) map[int]int {
	t.Helper()
	pids := map[int]int{}
	processes, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		environ, err := os.ReadFile(path)
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err != nil || exe != s.executable {
			continue
		}
		for _, v := range strings.Split(string(environ), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			rank, err := strconv.Atoi(value)
			if (name == "PMI_RANK" || name == "OMPI_COMM_WORLD_RANK") && err == nil {
				pids[rank], _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			}
		}
	}
	return pids
}

func send(t *testing.T, signal string, pid int) {
	t.Helper()
	if text, err := exec.Command("kill", "-"+signal, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// A signal to a single rank stops all after the same step, once. The run goes on to the bit with as
// many ranks as before; another number is allowed, and said.
func (s mpiSite) interruptAndResume(t *testing.T) {
	const steps = 80
	through := s.in("through")
	if r := s.ranks(t, "MPICH", 2, s.long(through, steps)...); r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	for launcher, signal := range map[string]string{"Open MPI": "USR1", "MPICH": "TERM"} {
		folder := s.in("stopped by " + signal)
		_, wait := s.start(t, launcher, 2, nil, s.long(folder, steps)...)
		send(t, signal, s.pids(t, folder, 2)[1])
		r := wait()
		d, err := checkpoint.Read(weights(folder))
		if err != nil || !r.ended(130) || strings.Count(r.stderr, "and saved") != 1 || d.Step >= steps {
			t.Fatalf("%s: exit code %d, %v, step %d\n%s", launcher, r.code, err, d.Step, r.stderr)
		}
		if launcher == "Open MPI" {
			four := s.in("four")
			if err := os.CopyFS(four, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			if r = s.ranks(t, launcher, 4, "finetune", "--resume", "--out", four); r.code != 0 ||
				!strings.Contains(r.stderr, "by 2 ranks, now there are 4: results may differ") {
				t.Errorf("with four ranks: exit code %d\n%s", r.code, r.stderr)
			}
		}
		if r = s.ranks(t, launcher, 2, "finetune", "--resume", "--out", folder); r.code != 0 {
			t.Fatalf("%s: resuming: exit code %d\n%s", launcher, r.code, r.stderr)
		}
		traintest.Equal(t, weights(through), weights(folder), 0)
	}
}

// A rank that is killed, and one that is stopped for good: the job ends, not with 0, and says which
// rank it was; the last checkpoint is whole, and the run goes on from it.
func (s mpiSite) aRankIsLost(t *testing.T) {
	for _, launcher := range []string{"Open MPI", "MPICH"} {
		for _, c := range []struct {
			signal string
			rank   int
		}{{"KILL", 1}, {"STOP", 1}, {"STOP", 0}} {
			t.Run(fmt.Sprint(launcher, c.signal, c.rank), func(t *testing.T) {
				folder := s.in(fmt.Sprint(launcher, c.signal, c.rank))
				_, wait := s.start(t, launcher, 2, []string{"VOXSAW_MPI_TIMEOUT=3s"}, s.long(folder, 100000)...)
				pids := s.pids(t, folder, 2)
				pid := pids[c.rank]
				defer exec.Command("kill", "-KILL", strconv.Itoa(pid)).Run()
				send(t, c.signal, pid)
				r := wait()
				if r.code == 0 || r.took > time.Minute {
					t.Errorf("exit code %d after %v", r.code, r.took)
				}
				// The launcher may have ended all before rank 0 could say it. MPICH's sometimes
				// names a process that it has ended itself.
				named := fmt.Sprint(pid)
				if launcher == "MPICH" {
					named = fmt.Sprintf("(%d|%d)", pids[0], pids[1])
				}
				theirs := c.signal == "KILL" &&
					strings.Contains(r.stderr, fmt.Sprintf("; %d: process %d on", c.rank, pid)) &&
					regexp.MustCompile(fmt.Sprintf(`(?i)PID %s\b`, named)).MatchString(r.stderr+r.stdout)
				if !theirs && !strings.Contains(r.stderr, fmt.Sprintf("voxsaw: rank %d (", c.rank)) {
					t.Errorf("nothing says which rank it was:\n%s%s", r.stderr, r.stdout)
				}
				s.must(t, "verify", folder)
			})
		}
	}
}

// The disk of rank 0 has room for one checkpoint, and none for a second one beside it: the job ends
// with one line that says so, and the first checkpoint is whole.
func (s mpiSite) aFullDisk(t *testing.T) {
	line := append(s.trainings()["finetune"], "--validate-every", "0", "--hold-out", "0", "--checkpoint-every", "5",
		"--steps", "20", "--out")
	roomy := s.in("a roomy disk")
	s.must(t, append(line, roomy)...)
	checkpointed, err := os.Stat(weights(roomy))
	if err != nil {
		t.Fatal(err)
	}
	disk := s.in("a full disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	size := fmt.Sprint("size=", checkpointed.Size()*8/5)
	if text, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "voxsaw", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount (as root): %v: %s", err, text)
	}
	defer exec.Command("umount", disk).Run()
	folder := filepath.Join(disk, "run")
	r := s.ranks(t, "MPICH", 2, append(line, folder)...)
	ours := regexp.MustCompile(`(?m)^voxsaw: .*`).FindAllString(r.stderr, -1)
	if !r.ended(1) || len(ours) != 1 || !strings.Contains(ours[0], "no space left on device") ||
		r.took > time.Minute {
		t.Errorf("exit code %d after %v, want one line that says why:\n%s", r.code, r.took, r.stderr)
	}
	if d, err := checkpoint.Read(weights(folder)); err != nil || d.Step != 5 {
		t.Errorf("the last checkpoint is of step %d, want 5: %v", d.Step, err)
	}
	s.must(t, "verify", folder)
}

// killsVariable says how many ranks are killed, where three are too few.
const killsVariable = "VOXSAW_TEST_KILLS"

// Ranks that are killed at random moments, from the start of the job on, each time another one: the
// run that goes on from what was saved ends with the bits of one that was never disturbed.
func (s mpiSite) kills(t *testing.T) {
	const steps = 150
	kills := 3
	if text := os.Getenv(killsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	line := func(folder string) []string { return append(s.long(folder, steps), "--resume") }
	through, killed := s.in("undisturbed"), s.in("killed")
	if r := s.ranks(t, "MPICH", 2, line(through)...); r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	r := rand.New(rand.NewPCG(1, uint64(kills)))
	ended := 0
	for n := range kills {
		rank, launcher := r.IntN(2), []string{"MPICH", "Open MPI"}[n%2]
		_, wait := s.start(t, launcher, 2, nil, line(killed)...)
		ranks := s.processes(t, 2)
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		exec.Command("kill", "-KILL", strconv.Itoa(ranks[rank])).Run() // it may have ended
		job := wait()
		if _, err := os.Stat(weights(killed)); err == nil {
			s.must(t, "verify", killed)
		}
		if job.code == 0 {
			ended++
			if err := os.RemoveAll(killed); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills, %d of which came after the end", kills, ended)
	if ended > kills/2 {
		t.Errorf("%d of %d kills came after the end: take more steps", ended, kills)
	}
	if r := s.ranks(t, "MPICH", 2, line(killed)...); r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	traintest.Equal(t, weights(through), weights(killed), 0)
}

// Ctrl-C at the launcher ends all ranks, with a checkpoint from which the run goes on. Open MPI is
// told to leave them the time to write it. With which code a launcher ends that was interrupted
// itself is its own affair: MPICH's has ended with 0 after ranks that ended with 130.
func (s mpiSite) ctrlC(t *testing.T) {
	for _, launcher := range []string{"Open MPI", "MPICH"} {
		folder := s.in("ctrl-c " + launcher)
		cmd, wait := s.start(t, launcher, 2, []string{"OMPI_MCA_odls_base_sigkill_timeout=3"},
			s.long(folder, 100000)...)
		s.pids(t, folder, 2)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		r := wait()
		d, err := checkpoint.Read(weights(folder))
		if err != nil || !strings.Contains(r.stderr, "and saved") {
			t.Errorf("%s: exit code %d, %v, step %d\n%s", launcher, r.code, err, d.Step, r.stderr)
		}
		s.must(t, "verify", folder)
		if left := s.running(t); len(left) > 0 {
			t.Errorf("%s: processes of ranks are still there: %v", launcher, left)
		}
	}
}

// hostsAgent stands in for ssh: hosts are network namespaces with a hostname of their own.
const hostsAgent = `#!/bin/bash
while [[ $1 == -* ]]; do shift; done
case $1 in 10.77.0.1) host=vxa ;; 10.77.0.2) host=vxb ;; esac
shift
exec ip netns exec $host unshare --uts bash -c "hostname $host; $*"
`

// hosts makes two hosts with a link between them, and the launcher "two hosts".
func (s mpiSite) hosts(t *testing.T) {
	agent := s.in("agent.sh")
	if err := os.WriteFile(agent, []byte(hostsAgent), 0o755); err != nil {
		t.Fatal(err)
	}
	remove := func() {
		for _, host := range []string{"vxa", "vxb"} {
			exec.Command("ip", "netns", "del", host).Run() // there may be none
		}
	}
	remove()
	t.Cleanup(remove)
	for _, line := range []string{
		"netns add vxa", "netns add vxb", "link add va netns vxa type veth peer name vb netns vxb",
		"-n vxa addr add 10.77.0.1/24 dev va", "-n vxb addr add 10.77.0.2/24 dev vb",
		"-n vxa link set lo up", "-n vxb link set lo up", "-n vxa link set va up", "-n vxb link set vb up",
	} {
		if text, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s (as root): %v: %s", line, err, text)
		}
	}
	launchers["two hosts"] = []string{"ip", "netns", "exec", "vxa", "mpiexec.mpich", "-launcher", "ssh",
		"-launcher-exec", agent, "-iface", "va", "-hosts", "10.77.0.1,10.77.0.2", "-n"}
}

// Two hosts train as one does. Where the link between them is taken down, the ranks on both end,
// and it is said which one was lost.
func (s mpiSite) twoHosts(t *testing.T) {
	s.hosts(t)
	alone, folder := s.in("one host"), s.in("two hosts")
	s.must(t, s.long(alone, 20)...)
	r := s.ranks(t, "two hosts", 2, s.long(folder, 20)...)
	if r.code != 0 || !strings.Contains(r.stderr, " on vxb") {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	// with the learning rate of a real run
	traintest.Close(t, weights(alone), weights(folder), 1e-3)

	lost := s.in("link down")
	// Both hosts are one machine, on which UCX reads the other process's memory, and aborts where
	// that process has ended a moment before: hosts that are two do not.
	cmd, wait := s.start(t, "two hosts", 2, []string{"VOXSAW_MPI_TIMEOUT=3s", "UCX_TLS=^cma"},
		s.long(lost, 100000)...)
	s.pids(t, lost, 2)
	if text, err := exec.Command("ip", "-n", "vxa", "link", "set", "va", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	began := time.Now()
	for len(s.running(t)) > 0 && time.Since(began) < time.Minute {
		time.Sleep(50 * time.Millisecond)
	}
	if left := s.running(t); len(left) > 0 {
		t.Errorf("ranks are still there after a minute: %v", left)
	}
	cmd.Process.Kill() // Hydra waits for the other host
	if r := wait(); !strings.Contains(r.stderr, "rank 1 (vxb): the job ends: nothing was heard of it for 3s") {
		t.Errorf("nothing says which rank was lost:\n%s", r.stderr)
	}
	s.must(t, "verify", lost)
}

// What goes wrong when a job starts is one line that names the rank, and nothing is written.
func (s mpiSite) ranksThatDiffer(t *testing.T) {
	s.must(t, "prepare", s.in("scans"), "--out", s.in("other"), "--spacing", "2")
	never, line := s.in("never"), s.trainings()["finetune"]
	with := func(flags ...string) []string {
		return slices.Concat([]string{s.binary}, line, []string{"--steps", "2", "--out", never}, flags)
	}
	study := func(flags ...string) []string {
		return append([]string{s.binary}, s.study("never", flags...)...)
	}
	// two folders, in which the same paths are other checkpoints of the same step and data
	for seed, folder := range []string{"here", "there"} {
		last := []string{"--steps", "1", "--seed", strconv.Itoa(seed), "--out"}
		s.must(t, slices.Concat(s.trainings()[pretext.Default], last,
			[]string{filepath.Join(s.in(folder), "puzzles")})...)
		s.must(t, slices.Concat(line, last, []string{filepath.Join(s.in(folder), "organs")})...)
	}
	in := func(folder string, line []string, flags ...string) []string {
		return slices.Concat([]string{"env", "-C", s.in(folder), s.binary}, line, flags)
	}
	initialised := slices.Concat(line, []string{"--steps", "2", "--init", "puzzles/last.safetensors", "--out"})
	solve := []string{"solve", "--data", s.data, "--checkpoint", "puzzles", "--all"}
	predict := []string{"predict", s.in("scans/imagesTr"), "--out", "never", "--checkpoint"}
	for name, c := range map[string]struct {
		launcher      string
		first, second []string
		code          int
		want          string
	}{
		"settings": {"Open MPI", with(), with("--lr", "0.5"), 1,
			"cannot work together: train.lr: 0.05 on rank 0, 0.5 there"},
		"data": {"MPICH", with(), with("--data", s.in("other")), 1,
			"data set: fingerprint "},
		"a missing file": {"Open MPI", with(), with("--data", s.in("nowhere")), 1,
			"voxsaw: rank 1 ("},
		"a number": {"Open MPI", study("--ranks", "4"), study("--ranks", "4"), 2,
			"--ranks 4: the launcher started 2"},
		"a trial": {"MPICH", study("--ranks", "2", "--trial", "1"),
			study("--ranks", "2", "--trial", "2"), 1, "cannot work together: trial: 2 there, 1 on rank 0"},
		"a folder": {"Open MPI", append([]string{s.binary}, s.study("of rank 0", "--ranks", "2")...),
			study("--ranks", "2"), 1, "is not the same folder on all ranks: it must be one that they share"},
		"a folder of label maps": {"MPICH", in("here", predict, s.in("here/organs")),
			in("there", predict, s.in("here/organs")), 1, "never is not the same folder on all ranks"},
		"weights": {"MPICH", in("here", initialised, "never"), in("there", initialised, "never"),
			1, "cannot work together: weights at the start, as --init and the seed give them: digest"},
		"weights of a new run": {"Open MPI", in("here", initialised, "organs", "--force"),
			in("there", initialised, "organs", "--force"), 1, "cannot work together: weights at the start"},
		"a network that solves": {"MPICH", in("here", solve), in("there", solve), 1,
			"cannot work together: checkpoint: jigsaw, step 1, weights "},
		"a network that predicts": {"Open MPI", in("here", predict, "organs"), in("there", predict, "organs"),
			1, "cannot work together: checkpoints"},
		"a batch": {"MPICH", with("--batch", "3"), with("--batch", "3"), 2,
			"take a multiple of 2, such as 2 or 4"},
		"a verb": {"Open MPI", []string{s.binary, "inspect", s.data}, []string{s.binary, "inspect", s.data},
			2, "inspect is not divided over ranks"},
		"a flag": {"MPICH", with("--nothing"), with("--nothing"), 2, "unknown flag: --nothing"},
		"patience": {"MPICH", slices.Concat([]string{"env", "VOXSAW_MPI_TIMEOUT=abc"}, with()),
			slices.Concat([]string{"env", "VOXSAW_MPI_TIMEOUT=abc"}, with()), 2,
			`VOXSAW_MPI_TIMEOUT is "abc": want a time`},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.pair(t, c.launcher, nil, c.first, c.second)
			if lines := complaints(r.stderr); !r.ended(c.code) || len(lines) != 1 ||
				!strings.Contains(lines[0], c.want) {
				t.Errorf("exit code %d, %d lines, want %q:\n%s", r.code, len(lines), c.want, r.stderr)
			}
			for _, folder := range []string{never, s.in("of rank 0"), s.in("here/never"), s.in("there/never")} {
				if _, err := os.Stat(folder); err == nil {
					t.Errorf("there is a folder %s", folder)
				}
			}
			for _, folder := range []string{"here", "there"} {
				s.must(t, "verify", filepath.Join(s.in(folder), "organs"))
			}
		})
	}
}

// complaints are the lines of errors that the program has printed.
func complaints(stderr string) (lines []string) {
	for l := range strings.Lines(stderr) {
		if strings.HasPrefix(l, "voxsaw: ") {
			lines = append(lines, l)
		}
	}
	return lines
}

// A library of another launcher sees one rank: two such would write over each other.
func (s mpiSite) otherLibrary(t *testing.T) {
	line := append(s.trainings()["finetune"], "--steps", "2", "--out", s.in("never"))
	_, wait := s.start(t, "MPICH", 2, []string{"VOXSAW_MPI=libmpi.so.40"}, line...)
	if r := wait(); r.code == 0 || !strings.Contains(r.stderr,
		"the launcher started 2 ranks (PMI_SIZE=2), but Open MPI") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	_, wait = s.start(t, "MPICH", 2, []string{"VOXSAW_MPI=libnone.so"}, line...)
	if r := wait(); r.code == 0 || !strings.Contains(r.stderr, "libnone.so") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	// One rank that has no library ends, and the other does not wait for ever.
	never := append([]string{s.binary}, line...)
	for _, launcher := range []string{"Open MPI", "MPICH"} {
		r := s.pair(t, launcher, []string{"VOXSAW_MPI_TIMEOUT=1s"}, never,
			append([]string{"env", "VOXSAW_MPI=libnone.so"}, never...))
		if r.code == 0 || r.took > time.Minute ||
			!strings.Contains(r.stderr,
				"voxsaw: rank 1: no MPI library that fits the launcher can be opened (libnone.so") {
			t.Errorf("%s: exit code %d after %v\n%s", launcher, r.code, r.took, r.stderr)
		}
	}
	if _, err := os.Stat(s.in("never")); err == nil {
		t.Error("there is a folder")
	}
}

// doctor tells of every rank, once.
func (s mpiSite) doctor(t *testing.T) {
	r := s.ranks(t, "MPICH", 2, "doctor", "--crop", "16", "--channels", "2", "--levels", "1", "--json")
	var d struct {
		MPI struct {
			Library string
			Latency float64 `json:"latency_seconds"`
			Rate    float64 `json:"bytes_per_second"`
			Ranks   []struct{ Process, Cores int }
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	if len(d.MPI.Ranks) != 2 || d.MPI.Ranks[0].Process == d.MPI.Ranks[1].Process || d.MPI.Ranks[1].Cores < 1 ||
		d.MPI.Rate <= 0 || d.MPI.Latency <= 0 || !strings.Contains(d.MPI.Library, "MPICH") {
		t.Errorf("%+v", d.MPI)
	}
}

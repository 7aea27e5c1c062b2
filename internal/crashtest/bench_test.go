//go:build unix

package crashtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/jpeg"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"time"
)

var (
	kills  = flag.Int("kills", 8, "processes that are killed, or asked to stop, over all verbs")
	faults = flag.Int("faults", 3, "processes in which calls of the system fail, over all verbs")
	cuts   = flag.Int("cuts", 4, "power cuts over all verbs")
	start  = flag.Uint64("seed", 1, "of the random moments")
)

// A bench is the program and what it works on.
type bench struct {
	dir, program string
	stories      []story
}

// A story is a verb that makes files below the folder out.
type story struct {
	name     string
	args     []string
	resume   string // the flag that takes it up again
	verified bool   // voxsaw verify knows what it makes
	want     map[string]string
	took     time.Duration
}

// work makes the bench once: the tests share it.
func work(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{dir: dir, program: program(t, filepath.Join(dir, "voxsaw"))}
	makeScans(t, b.at("scans"))
	makePhotos(t, b.at("photos"))
	copyScan(t, "../../testdata/nnunet/flat/scan_0000.nii.gz", b.at("flat"))
	b.stories = b.allStories(t)
	for n := range b.stories {
		s := &b.stories[n]
		where := b.at(s.name)
		if err := os.MkdirAll(where, 0o777); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if out, err := b.command(where, s.args).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, out)
		}
		s.took, s.want = time.Since(begin), outcome(t, where)
		if len(s.want) < 3 {
			t.Fatalf("%s made only %d files", s.name, len(s.want))
		}
	}
	return b
}

// at is a path below the bench's folder. What a story has made lies in out below its name.
func (b *bench) at(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// makeScans writes four small patients.
func makeScans(t *testing.T, dir string) {
	t.Helper()
	for n := range 4 {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("case_%d.nii.gz", n+1)
		for _, sub := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(nifti.Write(filepath.Join(dir, "imagesTr", name), scan),
			nifti.WriteLabels(filepath.Join(dir, "labelsTr", name), organs)); err != nil {
			t.Fatal(err)
		}
	}
}

// copyScan writes a scan that nnU-Net's small model can look at, as two of that name.
func copyScan(t *testing.T, from, dir string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "a_0000.nii.gz"), data, 0o666),
		os.WriteFile(filepath.Join(dir, "b_0000.nii.gz"), data, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// makePhotos writes 12 photographs of each of two classes.
func makePhotos(t *testing.T, dir string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 24 {
		picture := image.NewRGBA(image.Rect(0, 0, 60, 60))
		for k := range picture.Pix {
			picture.Pix[k] = byte(r.Uint32())
		}
		path := filepath.Join(dir, fmt.Sprint("class-", n%2), fmt.Sprintf("%02d.jpg", n))
		var file bytes.Buffer
		if err := errors.Join(jpeg.Encode(&file, picture, nil), os.MkdirAll(filepath.Dir(path), 0o777),
			os.WriteFile(path, file.Bytes(), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

// allStories are the verbs that write, in an order in which each finds what it needs.
func (b *bench) allStories(t *testing.T) []story {
	t.Helper()
	config := func(name, text string) string {
		path := b.at(name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	indented := func(text string) string {
		return "\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	const (
		steps    = "train: {steps: 12, validate_every: 5, checkpoint_every: 3}\n"
		network  = "network: {channels: 2, levels: 1}\n"
		finetune = network + steps + "crop: 16\nlabels: [2, 3]\n"
		pretrain = network + steps + "grid: 2x2x2\ncrop: 16\nfeatures: 8\nhidden: 8\n"
		puzzles  = "network: {backbone: resnet18, width: 0.0625}\n" + steps +
			"grid: 2x2\ncell: 24\npatch: 16\nbatch: 2\nfeatures: 8\nhidden: 8\nrounds: 2\nbinary: false\n"
		study   = "folds: 2\nfractions: [1]\nseeds: [1]\ninitialisations:\n  - {name: scratch}\nfinetune:"
		compare = "seeds: [1]\nrounds: [1, 2]\narms:\n  - {name: random, random: true}\n  - " +
			"{name: puzzles, pretrain: {}}\npretrain:"
	)
	prepared, photos := b.at("prepare", "out"), b.at("2d prepare", "out")
	transfer := fmt.Sprintf("photos: %q\ntransfer:\n  - {name: own, data: %q, per_class: 4, C: [10], draws: "+
		"1, mix: true, normalise: true, side: 48}\n", photos, photos)
	flat, err := filepath.Abs("../../testdata/nnunet/flat")
	if err != nil {
		t.Fatal(err)
	}
	return []story{
		{name: "prepare", verified: true, args: []string{"prepare", b.at("scans"), "--out", "out"}},
		{name: "finetune", verified: true, resume: "--resume", args: []string{"finetune", "--data", prepared,
			"--config", config("finetune.yaml", finetune), "--out", "out"}},
		{name: "pretrain", verified: true, resume: "--resume", args: []string{"pretrain", "--data", prepared,
			"--config", config("pretrain.yaml", pretrain), "--out", "out"}},
		{name: "crossval", verified: true, args: []string{"crossval", "--data", prepared, "--config",
			config("study.yaml", study+indented(finetune)), "--out", "out"}},
		{name: "predict", args: []string{"predict", b.at("scans", "imagesTr"), "--checkpoint",
			b.at("finetune", "out", "last.safetensors"), "--out", "out"}},
		{name: "predict nnunet", args: []string{"predict", b.at("flat"), "--checkpoint", flat, "--agreement", "--force",
			"--probabilities", "--out", "out"}},
		{name: "evaluate", args: []string{"evaluate", b.at("predict", "out"), b.at("scans", "labelsTr"), "--out",
			"out"}},
		{name: "next", args: []string{"next", prepared, "--drawn", "--count", "2", "--out", "out"}},
		{name: "2d prepare", verified: true, args: []string{"2d", "prepare", b.at("photos"), "--size", "48x48", "--out",
			"out"}},
		{name: "2d pretrain", verified: true, resume: "--resume", args: []string{"2d", "pretrain", "--data", photos,
			"--config", config("puzzles.yaml", puzzles), "--out", "out"}},
		{name: "2d compare", verified: true, args: []string{"2d", "compare", "--config",
			config("compare.yaml", transfer+compare+indented(puzzles)), "--out", "out"}},
	}
}

// indented is YAML as the value of a key.
func indented(text string) string {
	return "\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// shortStories are those that the short form has time for; in the long one, all.
func (b *bench) shortStories(t *testing.T) []story {
	t.Helper()
	if *kills >= 50 {
		return b.stories
	}
	return inTurn(t, slices.DeleteFunc(slices.Clone(b.stories), func(s story) bool {
		return slices.Contains([]string{"crossval", "2d compare", "predict nnunet"}, s.name)
	}))
}

// inTurn are every third of the stories in a run of CI, otherwise all.
func inTurn(t *testing.T, stories []story) (some []story) {
	t.Helper()
	for n, s := range stories {
		if turns.Has(t, n, 3) {
			some = append(some, s)
		}
	}
	return some
}

// command runs the program in a folder. The number of threads decides the last bits.
func (b *bench) command(dir string, args []string) *exec.Cmd {
	cmd := exec.Command(b.program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
	return cmd
}

// outcome is a digest of every file below the folder out, but for the report, which tells the time
// that everything took.
func outcome(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join(dir, "out")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		// what digests there are depends on when it ended: none may be wrong
		if err == nil && d.Name() == atomicfile.SumsFile {
			_, err := atomicfile.Compare(filepath.Dir(path))
			return err
		}
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "report") || strings.Contains(path, "report_files") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data = withoutCircumstances(d.Name(), data)
		name, err := filepath.Rel(root, path)
		sum := sha256.Sum256(data)
		all[name] = hex.EncodeToString(sum[:8])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutCircumstances drops how long things took, the last two columns of metrics.csv and a line
// of result.json, and where a run was started, a line of run.json.
func withoutCircumstances(name string, data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		switch {
		case name == "metrics.csv":
			cells := bytes.Split(line, []byte(","))
			out = append(append(out, bytes.Join(cells[:max(len(cells)-2, 1)], []byte(","))...), '\n')
		case name == "result.json" && bytes.Contains(line, []byte(`"elapsed_ns"`)), name == "run.json" &&
			bytes.Contains(line, []byte(`"relative_to"`)):
		default:
			out = append(out, line...)
		}
	}
	return out
}

// again is the command that takes a story up.
func (s story) again() []string {
	if s.resume == "" {
		return s.args
	}
	return append(slices.Clone(s.args), s.resume)
}

// end runs a story to its end, whatever was done to it before, and compares what it made.
func (b *bench) end(t *testing.T, s story, dir, history string) {
	t.Helper()
	out, err := b.command(dir, s.again()).CombinedOutput()
	if err != nil {
		t.Errorf("%s after %s: %v\n%s", s.name, history, err, out)
		return
	}
	if bytes.Contains(out, []byte("has a gap")) {
		t.Errorf("%s after %s: a gap in the log\n%s", s.name, history, out)
	}
	got := outcome(t, dir)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if s.want[name] == "" {
			t.Errorf("%s after %s: left over: %s", s.name, history, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.want)) {
		if got[name] != s.want[name] && !settled(s, name, history) {
			t.Errorf("%s after %s: %s is not that of a run that nothing happened to", s.name, history, name)
		}
	}
	if s.verified {
		if out, err := b.command(dir, []string{"verify", "out"}).CombinedOutput(); err != nil {
			t.Errorf("%s after %s: %v\n%s", s.name, history, err, out)
		}
	}
}

// settled says whether a file may differ: the best checkpoint that could not be kept is not, and
// what names its step differs with it.
func settled(s story, name, history string) bool {
	return strings.Contains(history, "fault") && s.verified && s.name != "prepare" && s.name != "2d prepare" &&
		slices.Contains([]string{"best.safetensors", "last.safetensors", "run.json"}, filepath.Base(name))
}

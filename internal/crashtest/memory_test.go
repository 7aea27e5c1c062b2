//go:build linux

package crashtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

var allVerbs = flag.Bool("memory", false, "measure the memory of every verb, not only of a few")

// A demand is a verb that is held to a limit of memory.
type demand struct {
	verb  string
	limit int // MiB; 0: the verb takes none
	args  []string
	short []string // the arguments in the short form; nil: it is left out there
}

// No verb takes more than its limit and a tenth. What counts is memory that the system cannot drop:
// prepared cases and photographs are mapped, and the pages of mapped files are dropped where others
// need the room. The table has both, and the verbs that take no limit. Without -memory a few verbs
// are run.
func TestMemory(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	b.program = program(t, b.at("voxsaw"))
	b.largeScans(t)
	makePhotos(t, b.at("photos"))
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "verb\tlimit, MiB\tpeak, MiB\tof that not mapped files")
	for _, d := range b.demands(t) {
		if !*allVerbs {
			if d.args = d.short; d.args == nil {
				continue
			}
		}
		if d.limit > 0 {
			d.args = append(d.args, "--memory", fmt.Sprintf("%dMiB", d.limit))
		}
		peak, own := b.measure(t, d)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", d.verb, d.limit, peak, own)
		if d.limit > 0 && own > d.limit+d.limit/10 {
			t.Errorf("%s took %d MiB, its limit was %d", d.verb, own, d.limit)
		}
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// largeScans writes three patients of 160 x 160 x 128 voxels, each voxel of a small one repeated
// four times along each axis.
func (b *bench) largeScans(t *testing.T) {
	t.Helper()
	for n := range 3 {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{40, 40, 32}})
		if err != nil {
			t.Fatal(err)
		}
		image, labels := *scan, *organs
		image.Int16, image.Grid = repeat(scan.Int16, scan.Grid, 4)
		labels.Labels, labels.Grid = repeat(organs.Labels, organs.Grid, 4)
		name := fmt.Sprintf("case_%d.nii.gz", n)
		for _, sub := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(b.at("scans", sub), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(nifti.Write(b.at("scans", "imagesTr", name), &image),
			nifti.WriteLabels(b.at("scans", "labelsTr", name), &labels)); err != nil {
			t.Fatal(err)
		}
	}
}

// repeat makes every voxel into factor^3 smaller ones.
func repeat[T any](values []T, g volume.Grid, factor int) ([]T, volume.Grid) {
	to := g
	for axis := range 3 {
		to.Shape[axis] *= factor
		for row := range 3 {
			to.Affine[row][axis] /= float64(factor)
		}
	}
	all := make([]T, 0, to.Len())
	for k := range to.Shape[2] {
		for j := range to.Shape[1] {
			for i := range to.Shape[0] {
				all = append(all, values[i/factor+g.Shape[0]*(j/factor+g.Shape[1]*(k/factor))])
			}
		}
	}
	return all, to
}

// measure runs a verb and says how many MiB it had at most, and how many of its own: its peak as
// the system counted it, and that of its memory without mapped files, which is looked at all the
// time.
func (b *bench) measure(t *testing.T, d demand) (peak, own int) {
	t.Helper()
	cmd := exec.Command(b.program, d.args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, looked := make(chan bool), make(chan int)
	go func() {
		most := 0
		for {
			select {
			case <-ended:
				looked <- most
				return
			case <-time.After(2 * time.Millisecond):
				most = max(most, anonymous(cmd.Process.Pid))
			}
		}
	}()
	err := cmd.Wait()
	ended <- true
	own = <-looked >> 10
	if err != nil {
		t.Errorf("%s: %v\n%s", d.verb, err, said.String())
	}
	return int(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10), own
}

// anonymous is a process's memory in KiB, without mapped files.
func anonymous(pid int) (kib int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "RssAnon" || name == "RssShmem" {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			kib += n
		}
	}
	return kib
}

// demands are all verbs, in an order in which each finds what it needs. The limits are a little
// above the least that the verb accepts.
func (b *bench) demands(t *testing.T) []demand {
	t.Helper()
	config := func(name, text string) string {
		path := b.at(name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const (
		steps    = "train: {steps: 2, validate_every: 0, checkpoint_every: 1}\n"
		finetune = "network: {channels: 4}\n" + steps + "crop: 64\nlabels: [2, 3, 6]\n"
		pretrain = "network: {channels: 8}\n" + steps + "grid: 2x2x2\ncrop: 96\n"
		puzzles  = "network: {backbone: resnet18}\n" + steps +
			"grid: 2x2\ncell: 24\npatch: 16\nrounds: 2\nbinary: false\n"
	)
	study := "folds: 3\nrun_folds: [1]\nfractions: [1]\nseeds: [1]\ninitialisations:\n  - {name: scratch}\nfinetune:" +
		indented(finetune)
	compare := "photos: photos-prepared\nseeds: [1]\nrounds: [1]\narms:\n  - {name: random, random: true}\n  - " +
		"{name: puzzles, pretrain: {}}\npretrain:" + indented(puzzles) +
		"transfer:\n  - {name: own, data: photos-prepared, per_class: 4, C: [10], draws: " +
		"1, mix: true, normalise: true, side: 48}\n"
	return []demand{
		{verb: "inspect", args: []string{"inspect", "scans"}},
		{verb: "prepare", limit: 300, args: []string{"prepare", "scans", "--spacing", "2x2x2", "--workers", "3",
			"--out", "resampled"}},
		{verb: "prepare, the scans' own spacing", limit: 128, args: []string{"prepare", "scans", "--workers", "3",
			"--out", "prepared"}, short: []string{"prepare", "scans", "--workers", "3", "--out", "prepared"}},
		{verb: "verify", args: []string{"verify", "prepared"}},
		{verb: "pretrain", limit: 216, args: []string{"pretrain", "--data", "prepared", "--hold-out", "0.3", "--config",
			config("pretrain.yaml", pretrain), "--out", "pretrain"}},
		{verb: "solve", args: []string{"solve", "--data", "prepared", "--checkpoint", "pretrain"}},
		{verb: "finetune", limit: 170, args: []string{"finetune", "--data", "prepared", "--hold-out", "0.3", "--config",
			config("finetune.yaml", finetune), "--out", "finetune"},
			short: []string{"finetune", "--data", "prepared", "--hold-out", "0.3", "--validate-overlap", "0",
				"--config", "finetune.yaml", "--out", "finetune"}},
		{verb: "predict", limit: 144, args: []string{"predict", "scans/imagesTr", "--checkpoint", "finetune", "--out",
			"labels"},
			short: []string{"predict", "scans/imagesTr/case_0.nii.gz", "--overlap", "0", "--checkpoint", "finetune",
				"--out", "labels"}},
		{verb: "predict --probabilities", limit: 196, args: []string{"predict", "scans/imagesTr", "--checkpoint",
			"finetune", "--probabilities", "--out", "maps"}},
		{verb: "evaluate", args: []string{"evaluate", "labels", "scans/labelsTr", "--out", "scores"}},
		{verb: "crossval", limit: 180, args: []string{"crossval", "--data", "prepared", "--config",
			config("study.yaml", study), "--out", "study"}},
		{verb: "2d prepare", args: []string{"2d", "prepare", "photos", "--size", "48x48", "--out", "photos-prepared"}},
		{verb: "2d pretrain", limit: 172, args: []string{"2d", "pretrain", "--data", "photos-prepared", "--config",
			config("puzzles.yaml", puzzles), "--out", "puzzles"}},
		{verb: "2d solve", args: []string{"2d", "solve", "--data", "photos-prepared", "--checkpoint", "puzzles"}},
		{verb: "2d transfer", args: []string{"2d", "transfer", "--data", "photos-prepared", "--checkpoint", "puzzles",
			"--mix", "--per-class", "4", "--side", "48"}},
		{verb: "2d compare", limit: 172, args: []string{"2d", "compare", "--config", config("compare.yaml", compare),
			"--out", "comparison"}},
	}
}

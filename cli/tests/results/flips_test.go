package results_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/miniature"
)

// flips is how many bits are flipped; the environment variable VOXSAW_FLIPS says another number.
func flips(t *testing.T) int {
	if text := os.Getenv("VOXSAW_FLIPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 120
}

// A bit that has changed anywhere in what the program has written (a store, a run, a study, an
// evaluation, a batch of predictions) is found by verify, whatever it means. All whole again, there
// is nothing to find.
func TestNoFlippedBitIsUnnoticed(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	voxsaw := func(code int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := cli.Run(args, &stdout, &stderr); got != code {
			t.Fatalf("voxsaw %s: exit code %d\n%s%s", strings.Join(args, " "), got, stdout.String(), stderr.String())
		}
		return stdout.String() + stderr.String()
	}
	study := `
folds: 2
fractions: [1]
seeds: [1]
initialisations: [{name: scratch}, {name: puzzles, pretrain: {grid: 2x2x2}}]
pretrain: {network: {channels: 2, levels: 1}, train: {steps: 2}, crop: 16, features: 8, hidden: 8}
finetune: {network: {channels: 2, levels: 1}, train: {steps: 2}, crop: 16, labels: [2, 3]}
`
	if err := os.WriteFile(in("study.yaml"), []byte(study), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := miniature.Scans(in("scans"), miniature.ScanOptions{Cases: 6, Labelled: 4}); err != nil {
		t.Fatal(err)
	}
	voxsaw(0, "prepare", in("scans"), "--out", in("all/prepared"))
	voxsaw(0, "finetune", "--data", in("all/prepared"), "--out", in("all/run"), "--steps", "4", "--validate-every", "2",
		"--hold-out", "0.5",
		"--crop", "16", "--labels", "2,3", "--channels", "2", "--levels", "1")
	voxsaw(0, "report", in("all/run"))
	voxsaw(0, "crossval", "--config", in("study.yaml"), "--data", in("all/prepared"), "--out", in("all/study"))
	voxsaw(0, "predict", in("scans/imagesTr"), "--checkpoint", in("all/run"), "--out", in("all/labels"))
	voxsaw(0, "evaluate", in("all/labels"), in("scans/labelsTr"), "--missing", "left-out", "--labels", "2,3", "--out",
		in("all/scores"))

	said := voxsaw(0, "verify", in("all"))
	for line := range strings.Lines(said) {
		if !strings.HasSuffix(line, ": is what was written\n") {
			t.Errorf("whole: %s", line)
		}
	}
	files := map[string][]string{} // by the part that verify is asked about
	parts := []string{"all/prepared", "all/run", "all/study", "all/labels", "all/scores"}
	for _, part := range parts {
		err := filepath.WalkDir(in(part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := d.Info(); err != nil || info.Size() == 0 {
				return err // a lock
			}
			files[part] = append(files[part], path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(35, 24))
	unnoticed := 0
	for n := range flips(t) {
		part := parts[r.IntN(len(parts))]
		path := files[part][r.IntN(len(files[part]))]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		bit := r.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if code := cli.Run([]string{"verify", in(part)}, &stdout, &stderr); code != 1 {
			unnoticed++
			t.Errorf("flip %d: bit %d of %s: exit code %d\n%s%s", n, bit, path, code, stdout.String(), stderr.String())
		}
		data[bit/8] ^= 1 << (bit % 8)
		if err := errors.Join(os.WriteFile(path, data, 0o666),
			os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	if again := voxsaw(0, "verify", in("all")); again != said {
		t.Errorf("all whole again: %s", again)
	}
	t.Logf("%d of %d flips were unnoticed", unnoticed, flips(t))
}

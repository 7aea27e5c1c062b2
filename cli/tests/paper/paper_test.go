package paper_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// shrunk writes a plan of configs with other words in it, each of which must be there.
func shrunk(t *testing.T, name string, words ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "configs", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for n := 0; n < len(words); n += 2 {
		if !strings.Contains(text, words[n]) {
			t.Fatalf("%s has no %q: the test makes it small by that", name, words[n])
		}
		text = strings.ReplaceAll(text, words[n], words[n+1])
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// The paper's Table 3 from its data sets as they are published, at a tiny size: data sets that are
// missing are named before anything else, those that are there are prepared, and the table has the
// published numbers beside ours.
func TestPaperTable3(t *testing.T) {
	if !turns.Has(t, 0, 2) {
		return
	}
	if testing.Short() {
		t.Skip("trains 15 networks, each for a step")
	}
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "table3")
	plan := shrunk(t, "paper-table3.yaml", "[120, 120, 120]", "[24, 24, 18]", "[96, 96, 96]", "[16, 16, 16]",
		"patch: [48, 48, 48]", "patch: [8, 8, 8]", "patch: [32, 32, 32]", "patch: [6, 6, 6]",
		"channels: 16", "channels: 2, levels: 1", "steps: 20000", "steps: 1", "steps: 15000", "steps: 1",
		"warmup: 100", "warmup: 0", "features: 1024", "features: 8", "spacing: [1, 1, 1]", "spacing: [0, 0, 0]",
		"validate_cases: 8", "validate_cases: 1", "validate_every: 2000", "validate_every: 0")
	if err := miniature.NIH(root, []int{1, 2, 21, 25, 41, 42, 62, 70}); err != nil {
		t.Fatal(err)
	}
	_, stderr := commandtest.Run(t, 1, "crossval", "--config", plan, "--data-root", root)
	for _, want := range []string{`NIH Pancreas-CT.* as published +8 of 82 `, `Task07_Pancreas.* missing +0 of 281 `,
		`8 cases, published are 82`, `10 pretrainings and 60 fine-tunings`, `Here: about .* GFLOP/s`, `On one H200 in bf16: `,
		`missing: Task07_Pancreas of the Medical Segmentation Decathlon$`, `^hint: fetch it `} {
		if !regexp.MustCompile("(?m)" + want).MatchString(stderr) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	if err := miniature.MSD(root, 3, 1); err != nil {
		t.Fatal(err)
	}
	_, stderr = commandtest.Run(t, 0, "crossval", "--config", plan, "--data-root", root)
	if !regexp.MustCompile(`all is there: --out FOLDER runs the experiment, and prepares before: .*nih, .*msd`).
		MatchString(
			stderr) {
		t.Errorf("only looked for:\n%s", stderr)
	}
	before, _ := commandtest.Run(t, 0, "crossval", "--config", plan, "--data-root", root, "--plan")
	if before != "" {
		t.Errorf("trials of cases that are not prepared:\n%s", before)
	}
	stdout, stderr := commandtest.Run(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out,
		"--run-folds", "1",
		"--threads", "2")
	rows := regexp.MustCompile(`(?m)^(10|20|100) % .*$`).FindAllString(stdout, -1)
	for n, published := range [][]string{{"65.52", "69.36", "70.80", "68.44", "72.24"},
		{"74.78", "76.30", "76.50", "76.58", "77.80"}, {"80.96", "79.88", "81.68", "81.48", "82.33"}} {
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.HasPrefix(row, []string{"10 ", "20 ", "100 "}[n]) &&
				!slices.ContainsFunc(published, func(score string) bool { return !strings.Contains(row, score) })
		}) {
			t.Errorf("no row with the published %v:\n%s", published, stdout)
		}
	}
	if !strings.Contains(stderr, "25") ||
		!strings.Contains(stderr, "one patient") && !strings.Contains(stderr, "repeat") {
		t.Errorf("nothing is said of the patient who is in several folds:\n%s", stderr)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, score := range []string{"65.52", "82.33"} {
		if !bytes.Contains(page, []byte("<small>published: "+score+"</small>")) {
			t.Errorf("the report has no %s in grey", score)
		}
	}
	// MSD is without labels, and what it holds back is not learnt from.
	listed, _ := commandtest.Run(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out, "--plan",
		"--json")
	var preview struct {
		Encoders []struct {
			Init  string   `json:"initialisation"`
			Cases []string `json:"cases"`
		} `json:"encoders"`
	}
	if err := json.Unmarshal([]byte(listed), &preview); err != nil {
		t.Fatal(err)
	}
	learnt := 0
	for _, e := range preview.Encoders {
		if strings.HasPrefix(e.Init, "MSD") {
			learnt++
			if !slices.Equal(e.Cases, []string{"pancreas_001", "pancreas_002", "pancreas_003"}) {
				t.Errorf("%s learns from %v", e.Init, e.Cases)
			}
		}
	}
	if learnt == 0 {
		t.Errorf("no encoder of MSD in\n%s", listed)
	}
	labels, err := filepath.Glob(filepath.Join(root, "prepared", "msd", "cases", "*label*"))
	if err != nil || labels != nil {
		t.Errorf("labels of MSD were prepared: %v, %v", labels, err)
	}
	again, stderr := commandtest.Run(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out,
		"--run-folds", "1",
		"--threads", "2")
	if again != stdout || !regexp.MustCompile(`NIH.* prepared +8 of 82`).MatchString(stderr) {
		t.Errorf("done again:\n%s\n%s", again, stderr)
	}
}

// The paper's Table 1 from its data sets as they are unpacked, at a tiny size: every row is
// trained, its puzzles are solved, and its network is fine-tuned and measured, beside the published
// numbers.
func TestPaperTable1(t *testing.T) {
	if !turns.Has(t, 1, 2) {
		return
	}
	if testing.Short() {
		t.Skip("trains 21 networks and fine-tunes each twice, for a step")
	}
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "table1")
	plan := shrunk(
		t,
		"paper-table1.yaml",
		"width: 1,",
		"width: 0.0625,",
		"steps: 250000",
		"steps: 1",
		"steps: 350000",
		"steps: 1",
		"steps: 20000",
		"steps: 1",
		"steps: 40000",
		"steps: 1",
		"batch: 256",
		"batch: 2",
		"accumulate: 8",
		"accumulate: 2",
		"cell: 85",
		"cell: 64",
		"size: 255x255",
		"size: 192x192",
		"size: 170x170",
		"size: 128x128",
		"size: 256x256",
		"size: 80x80",
		"size: 600x450",
		"size: 96x72",
		"crop: 227",
		"crop: 64",
		"side: 227",
		"side: 64",
		"batch: 16",
		"batch: 2",
		"views: 10",
		"views: 1",
		"features: 1024",
		"features: 8",
		"hidden: 4096",
		"hidden: 8",
		"classes: 1000",
		"classes: 20",
		"per_class: 30",
		"per_class: 2",
		"draws: 5",
		"draws: 2",
		"task: detect,",
		"task: detect, regions: 8,",
		"most: 2000",
		"most: 50",
		"solve_photos: 0",
		"solve_photos: 2",
		"rounds: 20\n",
		"rounds: 2\n",
		"rounds: [1, 5, 10, 20]",
		"rounds: [1, 2]",
		"classes: 20\n",
		"classes: 20\n",
	)
	_, stderr := commandtest.Run(t, 1, "2d", "compare", "--config", plan, "--data-root", root)
	for _, want := range []string{`21 pretrainings: `, `Here: about .* GFLOP/s`,
		`^voxsaw: .*missing: ImageNet .*; Pascal VOC 2007 .*; Caltech-256$`} {
		if !regexp.MustCompile("(?m)" + want).MatchString(stderr) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	for _, err := range []error{miniature.ImageNet(filepath.Join(root, "ILSVRC2012"), 3, 3, 2),
		voctest.Write(filepath.Join(root, "VOCdevkit", "VOC2007"),
			voctest.Options{Train: 4, Val: 4, Test: 4, Side: 84}),
		miniature.Caltech256(root, 3, 4)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr := commandtest.Run(t, 0, "2d", "compare", "--config", plan, "--data-root", root, "--out", out,
		"--threads", "2")
	for _, row := range []string{
		`a AlexNet labels +1 +.*78\.2.*56\.8`, `b AlexNet random +1 +.*53\.3.*43\.3.*18\.7`,
		`e AlexNet U\+B\+M +1 +[0-9.]+ +3\.8 +[0-9.]+ +17\.1 +[0-9.]+ +60\.2 .*68\.3 .*52\.5 .*29\.1`,
		`f AlexNet 2x2 U\+B\+M +1 .*74\.5 .*49\.1`, `h ResNet-18 random +1 .*41\.3 .*24\.8`,
		`p ResNet-50 U\+B\+M +1 +[0-9.]+ +5\.2 +[0-9.]+ +20\.8 .*75\.3 .*56\.2`, `e, 1 % of the orders +1 `,
		`K-way 1000 +1 .*71\.0 .*20\.8`} {
		if !regexp.MustCompile("(?m)^" + row).MatchString(stdout) {
			t.Errorf("no row %q in\n%s", row, stdout)
		}
	}
	for _, want := range []string{"ImageNet.*as published", "Caltech-256 .*as published"} {
		if !regexp.MustCompile(want).MatchString(stderr) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !bytes.Contains(page, []byte(`<td class="n others">56.2</td>`)) {
		t.Errorf("the report has no published number in grey: %v", err)
	}
	again, _ := commandtest.Run(t, 0, "2d", "compare", "--config", plan, "--data-root", root, "--out", out,
		"--threads", "2")
	if again != stdout {
		t.Errorf("done again:\n%s\n%s", again, stdout)
	}
}

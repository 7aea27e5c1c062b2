package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/miniature"
)

// shrunk writes a plan of configs with other words in it, each of which must be there.
func shrunk(t *testing.T, name string, words ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "configs", name))
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

// in runs the program, which must end with the exit code.
func in(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	if got := run(args, &out, &messages); got != code {
		t.Fatalf("voxsaw %v: exit code %d, want %d\n%s", args, got, code, messages.String())
	}
	return out.String(), messages.String()
}

// The paper's Table 3 from its data sets as they are published, at a tiny size: data sets that are
// missing are named before anything else, those that are there are prepared, and the table has the
// published numbers beside ours.
func TestPaperTable3(t *testing.T) {
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
	_, stderr := in(t, 1, "crossval", "--config", plan, "--data-root", root, "--plan")
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
	before, _ := in(t, 0, "crossval", "--config", plan, "--data-root", root, "--plan")
	if before != "" {
		t.Errorf("trials of cases that are not prepared:\n%s", before)
	}
	stdout, stderr := in(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out, "--run-folds", "1",
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
	if !strings.Contains(stderr, "25") || !strings.Contains(stderr, "one patient") && !strings.Contains(stderr, "repeat") {
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
	listed, _ := in(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out, "--plan", "--json")
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
	if labels, err := filepath.Glob(filepath.Join(root, "prepared", "msd", "cases", "*label*")); err != nil || labels != nil {
		t.Errorf("labels of MSD were prepared: %v, %v", labels, err)
	}
	again, stderr := in(t, 0, "crossval", "--config", plan, "--data-root", root, "--out", out, "--run-folds", "1",
		"--threads", "2")
	if again != stdout || !regexp.MustCompile(`NIH.* prepared +8 of 82`).MatchString(stderr) {
		t.Errorf("done again:\n%s\n%s", again, stderr)
	}
}

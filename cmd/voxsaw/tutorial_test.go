package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTutorial types every command of docs/tutorial.md, on made-up scans, which are small: so crops
// and networks are, too, and trainings are short.
func TestTutorial(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	smaller := strings.NewReplacer("--channels 4", "--channels 2 --levels 1", "--crop 64", "--crop 16", "--patch 24",
		"--patch 8",
		"--steps 400", "--steps 3", "--steps 600", "--steps 3", "--hours 0.25", "--hours 0.001",
		"channels: 4", "channels: 2, levels: 1", "[64, 64, 64]", "[16, 16, 16]", "[24, 24, 24]", "[8, 8, 8]",
		"steps: 400", "steps: 3", "steps: 600", "steps: 3")
	t.Chdir(t.TempDir())
	if err := writePhantoms("scans", phantomOptions{cases: 6, labelled: 4, axcodes: "RAS"}); err != nil {
		t.Fatal(err)
	}
	if err := writePhantoms("new", phantomOptions{first: 6, cases: 2, axcodes: "LPS"}); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range regexp.MustCompile("(?ms)^```(console|yaml)\n(.*?)^```$").FindAllStringSubmatch(string(text),
		-1) {
		kind, content := block[1], smaller.Replace(block[2])
		if kind == "yaml" {
			if err := os.WriteFile("study.yaml", []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for line := range strings.Lines(content) {
			commands++
			words := strings.Fields(line)
			var stdout, stderr bytes.Buffer
			if code := run(words[1:], &stdout, &stderr); code != 0 {
				t.Fatalf("%sexit code %d\n%s%s", line, code, stdout.String(), stderr.String())
			}
		}
	}
	if commands < 10 {
		t.Errorf("%d commands in the tutorial: are its blocks marked as console?", commands)
	}
	for _, file := range []string{"puzzle.png", "scores/scores.csv", "runs/study/report.html",
		"runs/organs/last.safetensors"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

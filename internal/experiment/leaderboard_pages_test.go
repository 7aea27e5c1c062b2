package experiment

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/table"
)

// scoredParts are the sections of a report that need nothing but scores and curves.
var scoredParts = []string{"Segmentation of unseen cases", "Comparison", "Other measures", "More labels",
	"Learning curves", "Structures"}

// tableRows are the rows of all tables of a page in Markdown, in these sections.
func tableRows(page string, sections []string) (rows []string) {
	section := ""
	for line := range strings.SplitSeq(page, "\n") {
		if title, is := strings.CutPrefix(line, "## "); is {
			section = title
		}
		if strings.HasPrefix(line, "|") && slices.Contains(sections, section) {
			rows = append(rows, line)
		}
	}
	return rows
}

// The tables of the leaderboard's pages are what the scores beside them say.
func TestLeaderboardPagesAreOfTheirScores(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "results", "leaderboard")
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	difference := regexp.MustCompile(`(?m)^\*\*DSC \(%\): difference to (.*)\*\*$`)
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := Scored{Baseline: Scratch}
			if baseline := difference.FindStringSubmatch(string(page)); baseline != nil {
				s.Baseline = baseline[1]
			}
			plan := strings.TrimSuffix(name, "-longer") // the claim, compared with scratch+
			f, err := os.Open(filepath.Join(folder, plan+"-scores.csv"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if s.Runs, err = table.ReadRuns(f); err != nil {
				t.Fatal(err)
			}
			if curves, err := os.Open(filepath.Join(folder, plan+"-curves.csv")); err == nil {
				defer curves.Close()
				if s.Curves, err = table.ReadCurves(curves); err != nil {
					t.Fatal(err)
				}
			}
			report, err := s.Report("", "")
			if err != nil {
				t.Fatal(err)
			}
			text, _, err := report.Markdown("")
			if err != nil {
				t.Fatal(err)
			}
			want, got := tableRows(string(text), scoredParts), tableRows(string(page), scoredParts)
			if len(got) < 10 {
				t.Errorf("%d rows of tables", len(got))
			}
			for _, row := range got {
				if !slices.Contains(want, row) {
					t.Errorf("the scores do not say\n%s", row)
				}
			}
		})
	}
}

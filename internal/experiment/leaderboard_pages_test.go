package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
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

// runsOf reads the runs of a table of scores.
func runsOf(t *testing.T, path string) []eval.Trial {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs, _, err := table.ReadRuns(f)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// ofItsScores compares the tables of a page with what its scores say.
func ofItsScores(t *testing.T, page string, s Scored) {
	t.Helper()
	s.Baseline = Scratch
	difference := regexp.MustCompile(`(?m)^\*\*DSC \(%\): difference to (.*)\*\*$`)
	if baseline := difference.FindStringSubmatch(page); baseline != nil {
		s.Baseline = baseline[1]
	}
	report, err := s.Report("", "")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := report.Markdown("")
	if err != nil {
		t.Fatal(err)
	}
	want, got := tableRows(string(text), scoredParts), tableRows(page, scoredParts)
	if len(got) < 6 {
		t.Errorf("%d rows of tables", len(got))
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("the scores do not say\n%s", row)
		}
	}
}

// The tables of the leaderboard's pages are what the scores beside them say.
func TestLeaderboardPagesAreOfTheirScores(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "results", "leaderboard")
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.TrimSuffix(name, "-longer") // the claim, compared with scratch+
			s := Scored{Runs: runsOf(t, filepath.Join(folder, plan+"-scores.csv"))}
			if curves, err := os.Open(filepath.Join(folder, plan+"-curves.csv")); err == nil {
				defer curves.Close()
				if s.Curves, err = table.ReadCurves(curves); err != nil {
					t.Fatal(err)
				}
			}
			ofItsScores(t, string(page), s)
		})
	}
}

// The page of the paper's 3D setting has every run that its scores have, and says which are to
// come.
func TestPaperOpenKBPPageIsOfItsScores(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "results")
	page, err := os.ReadFile(filepath.Join(folder, "paper-openkbp.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := Scored{Runs: runsOf(t, filepath.Join(folder, "paper-openkbp", "scores.csv"))}
	ofItsScores(t, string(page), s)
	var arms, rows []string
	for _, r := range s.Runs {
		if !slices.Contains(arms, r.Initialisation) {
			arms = append(arms, r.Initialisation)
		}
	}
	for _, arm := range arms {
		row, sum, there := "| `"+arm+"` |", 0.0, 0
		for _, seed := range []uint64{1, 2} {
			for fold := 1; fold <= 2; fold++ {
				at := slices.IndexFunc(s.Runs, func(r eval.Trial) bool {
					return r.Initialisation == arm && r.Fold == fold && r.Seed == seed
				})
				if at < 0 {
					row += " to come |"
					continue
				}
				v := 0.0 // each patient has each structure
				for _, score := range s.Runs[at].Scores {
					v += 100 * score.DSC / float64(len(s.Runs[at].Scores))
				}
				row, sum, there = row+fmt.Sprintf(" %.1f |", v), sum+v, there+1
			}
		}
		rows = append(rows, row+fmt.Sprintf(" %.1f |", sum/float64(there)))
	}
	if got := tableRows(string(page), []string{"Scores"}); !slices.Equal(got[min(2, len(got)):], rows) {
		t.Errorf("the rows of the scores are\n%s", strings.Join(rows, "\n"))
	}
}

package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/table"
)

// sample is a report with one of everything, and names that would break a page that does not escape
// them.
func sample(t *testing.T) Report {
	t.Helper()
	seeds := map[string]uint64{}
	run := func(initialisation string, fraction float64, dsc ...float64) eval.Trial {
		key := fmt.Sprint(initialisation, fraction)
		seeds[key]++ // each call is another run of its cell
		r := eval.Trial{Initialisation: initialisation, Fraction: fraction, Seed: seeds[key]}
		for n, d := range dsc {
			r.Scores = append(r.Scores, eval.Score{Case: string(rune('a' + n)), Label: 1, DSC: d, HD95: math.Inf(1)})
		}
		return r
	}
	runs := []eval.Trial{run("scratch", 0.1, 0.5, 0.6), run("scratch", 1, 0.8, 0.7), run("<3x3x3>", 0.1, 0.6, 0.72),
		run("scratch", 0.1, 0.4, 0.5), run("<3x3x3>", 0.1, 0.5, 0.66)}
	folds, err := eval.Folds(runs, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hd95, err := eval.Folds(runs, eval.FoldOptions{Metric: "hd95"})
	if err != nil {
		t.Fatal(err)
	}
	metric, err := eval.MetricNamed("dsc")
	if err != nil {
		t.Fatal(err)
	}
	return Report{Title: "A & B", Subtitle: "<script>alert(1)</script>", Sections: []Section{
		{
			"Result",
			[]Block{
				Folds{FoldTable: folds, Others: []eval.FoldTable{hd95}},
				Figures{Differences(folds),
					RunBoxes(runs, 0.1, metric, nil, "scratch")},
				Text("one\n\ntwo <b>"),
			},
		},
		{"More", []Block{
			Facts{{"version", "1 < 2"}, {"Fingerprint", strings.Repeat("0a", 32)}},
			Table{Table: table.PerLabel(runs[0].Scores)}, Table{Table: table.PerCase(runs[0].Scores), Folded: true},
			Table{Table: table.PerCase(runs[1].Scores)},
			Charts{{Title: "Loss", X: "step",
				Series: []Series{{Name: "a", X: []float64{0, 1, 2}, Y: []float64{3, math.NaN(), 1}}},
				Levels: []Level{{"chance", 2}}}},
			Pictures{{image.NewGray(image.Rect(0, 0, 3, 2)), `a "picture" [1]`}},
			Code{"Configuration", "a: 1 # <&>\n```\n"},
		}},
	}}
}

func TestHTMLIsWellFormedAndAlone(t *testing.T) {
	var b strings.Builder
	if err := sample(t).HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	counts := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
			for _, a := range e.Attr {
				if (a.Name.Local == "src" || a.Name.Local == "href") && !strings.HasPrefix(a.Value, "data:") &&
					!strings.HasPrefix(a.Value, "#") {
					t.Errorf("%s loads %s", e.Name.Local, a.Value)
				}
			}
		}
	}
	if counts["script"]+counts["link"] > 0 || strings.Contains(page, "url(") || strings.Contains(page, "@import") {
		t.Error("the page needs something outside itself")
	}
	for name, want := range map[string]int{"section": 3, "table": 4, "img": 1, "svg": 5, "details": 2, "pre": 1} {
		if counts[name] != want {
			t.Errorf("%d %s, want %d", counts[name], name, want)
		}
	}
	for _, want := range []string{"<title>A &amp; B</title>", "+12.00", "(-0.71 to +24.71)", "p = 0.053, 2 pairs",
		"62.00", "&lt;3x3x3&gt;", "1 &lt; 2", "(2 ∞)", "HD95 (mm) – (4\u00a0∞)",
		"<div class=\"code\"><dt>Fingerprint</dt>", "<dt>HD95</dt>", "are coloured: green"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestWriteLeavesEverythingThatIsLinked(t *testing.T) {
	dir := t.TempDir()
	if err := sample(t).Write(dir, "report"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`!\[(?:[^\]\\]|\\.)*\]\(([^)]*)\)`).FindAllSubmatch(page, -1)
	if len(links) != 5 {
		t.Errorf("%d pictures, want 5: %q", len(links), links)
	}
	for _, l := range links {
		data, err := os.ReadFile(filepath.Join(dir, string(l[1])))
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(string(l[1]), ".svg") {
			if err := xml.Unmarshal(data, new(struct{})); err != nil || !strings.Contains(string(data), "xmlns") {
				t.Errorf("%s: %v", l[1], err)
			}
		}
	}
	for _, want := range []string{"# A & B",
		"| 10 % | 50.00 ± 7.07; HD95 (mm) – (4\u00a0∞) | 62.00 ± 5.66; +12.00 (-0.71 to +24.71), p = " +
			"0.053, 2 pairs; HD95 (mm) – (4\u00a0∞) |",
		"| 100 % | 75.00;", "Bold: the difference", "- version: 1 < 2", "````\na: 1"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, name := range []string{"per-case.csv", "per-case-2.csv", "per-label.csv",
		"mean-dsc-by-share-of-the-training-data.csv"} {
		if _, err := os.Stat(filepath.Join(dir, "report_files", name)); err != nil {
			t.Error(err)
		}
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".report-") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
}

func TestWriteRemovesWhatAnEarlierReportLeft(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, "report_files")
	list := func() (names []string) {
		entries, err := os.ReadDir(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	small := sample(t)
	small.Sections = small.Sections[:1]
	if err := small.Write(dir, "report"); err != nil {
		t.Fatal(err)
	}
	alone := list()
	if err := sample(t).Write(dir, "report"); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) <= len(alone) {
		t.Fatalf("the whole report has the files %q, a part of it %q", all, alone)
	}
	// a file of the reader's, a file that is gone, and names that no report ever had
	outside := filepath.Join(dir, "outside.csv")
	for _, path := range []string{filepath.Join(files, "mine.csv"), filepath.Join(files, "notes.txt"), outside} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(filepath.Join(files, "contents.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("gone.csv\n../outside.csv\n" + outside + "\nnotes.txt\n.\n\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := small.Write(dir, "report"); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(alone), "mine.csv", "notes.txt")
	slices.Sort(want)
	if left := list(); !slices.Equal(left, want) {
		t.Errorf("%q is left, want %q", left, want)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// Processes that share a study may end at once: a report is written when nobody else writes there,
// and not before.
func TestWriteByTurns(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, "report_files")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := atomicfile.Hold(files)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- sample(t).Write(dir, "report") }()
	time.Sleep(500 * time.Millisecond)
	select {
	case err := <-written:
		t.Fatalf("written while another process held the folder: %v", err)
	default:
	}
	if entries, err := os.ReadDir(files); err != nil || len(entries) > 0 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(files, "contents.txt")); err != nil {
		t.Error(err)
	}
}

func TestWriteReportsWhatFailed(t *testing.T) {
	r := Report{Sections: []Section{{"Pictures", []Block{Pictures{{nil, "lost"}}}}}}
	if err := r.Write(t.TempDir(), "report"); err == nil ||
		!strings.Contains(err.Error(), `section Pictures: picture "lost" has no image`) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sample(t).Write(file, "report"); err == nil || !strings.Contains(err.Error(), "writing report") {
		t.Error(err)
	}
}

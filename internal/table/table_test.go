package table

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/voxsaw/voxsaw/eval"
)

var some = []eval.Score{
	{Case: "a", Label: 1, Name: "liver, left", DSC: 0.5, HD95: 3.25, HD: 4, ASSD: 1, NSD: 0.75, Tolerance: 2,
		Predicted: 10, Reference: 12},
	{Case: "b", Label: 1, Name: "liver, left", DSC: 0, HD95: math.Inf(1), HD: math.Inf(1), ASSD: math.Inf(1),
		Tolerance: 2, Reference: 9},
	{Case: "b", Label: 2, DSC: math.NaN(), HD95: math.NaN(), HD: math.NaN(), ASSD: math.NaN(), NSD: math.NaN(),
		Tolerance: 2},
}

func text(t *testing.T, write func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTables(t *testing.T) {
	perCase, perLabel := PerCase(some), PerLabel(some)
	perCaseCSV := text(t, func(b *strings.Builder) error { return perCase.CSV(b) })
	if want := "case,label,name,outcome,dsc,hd95_mm,hd_mm,assd_mm,nsd,predicted_ml,reference_ml,difference_ml," +
		"tolerance_mm\na,1,\"liver, " +
		"left\",scored,0.5,3.25,4,1,0.75,10,12,-2,2\nb,1,\"liver, " +
		"left\",missed,0,inf,inf,inf,0,0,9,-9,2\nb,2,,absent,nan,nan,nan,nan,nan,0,0,0,2\n"; perCaseCSV != want {
		t.Errorf("CSV: %s", cmp.Diff(want, perCaseCSV))
	}
	perCaseJSON := text(t, func(b *strings.Builder) error { return perCase.JSON(b) })
	if want := `{"case": "b", "label": 1, "name": "liver, left", "outcome": "missed", "dsc": 0, "hd95_mm": "inf", `; !strings.Contains(
		perCaseJSON,
		want,
	) {
		t.Errorf("no %s in %s", want, perCaseJSON)
	}
	markdown := text(t, func(b *strings.Builder) error { return perLabel.Markdown(b) })
	want := `**Per label**

| label | name | cases | missed | invented | DSC | HD95 (mm) | HD (mm) | ASSD (mm) | NSD (2 mm) | predicted (ml) | reference (ml) | difference (ml) |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| 1 | liver, left | 2 | 1 | 0 | 0.2500 ± 0.3536 | 3.25 (1 ∞) | 4.00 (1 ∞) | 1.00 (1 ∞) | 0.3750 ± 0.5303 | 5.00 ± 7.07 | 10.50 ± 2.12 | -5.50 ± 4.95 |
| 2 |  | 1 | 0 | 0 | – | – | – | – | – | 0.00 | 0.00 | 0.00 |
|  | all | 2 | 1 | 0 | 0.2500 ± 0.3536 | 3.25 (1 ∞) | 4.00 (1 ∞) | 1.00 (1 ∞) | 0.3750 ± 0.5303 | 3.33 ± 5.77 | 7.00 ± 6.24 | -3.67 ± 4.73 |

Mean ± standard deviation over the cases. Missed: only the reference shows the label; invented: only the prediction does.

–: in no prediction and no reference, so that nothing can be measured: label 2.

∞: so many labels that were missed or invented, whose distances are not in the mean.
`
	if markdown != want {
		t.Errorf("Markdown: %s", cmp.Diff(want, markdown))
	}
	if csv := text(t, func(b *strings.Builder) error { return perLabel.CSV(b) }); !strings.HasPrefix(csv,
		"label,name,cases,missed,invented,dsc_mean,dsc_sd,dsc_n,dsc_infinite,hd95_mm_mean,") {
		t.Errorf("CSV of spreads: %s", csv)
	}
}

// Scores of what nobody drew are told from those of what is absent, in a file, too.
func TestUndrawnScoresSurviveCSV(t *testing.T) {
	nan := math.NaN()
	scores := []eval.Score{
		{Case: "a", Label: 1, Name: "liver", DSC: nan, HD95: nan, HD: nan, ASSD: nan, NSD: nan, Predicted: 30,
			Reference: nan, Tolerance: 2},
		{Case: "b", Label: 1, Name: "liver", DSC: 0.5, Predicted: 3, Reference: 4, Tolerance: 2},
	}
	perLabel := PerLabel(scores)
	if notes := strings.Join(perLabel.Notes, " "); !strings.Contains(notes,
		"not scored where it is not: liver in 1 of 2.") {
		t.Errorf("notes: %s", notes)
	}
	row := "| 1 | liver | 1 | 0 | 0 | 0.5000 | 0.00 | 0.00 | 0.00 | 0.0000 | 3.00 | 4.00 | -1.00 |"
	if markdown := text(t, func(b *strings.Builder) error { return perLabel.Markdown(b) }); !strings.Contains(markdown,
		row) {
		t.Errorf("no %s in %s", row, markdown)
	}
	nobody := PerLabel(scores[:1])
	if notes := strings.Join(nobody.Notes, " "); strings.Contains(notes, "in no prediction") ||
		!strings.Contains(notes, "liver in 1 of 1.") || nobody.Rows[0][2] != 0 {
		t.Errorf("drawn in no case: %v, %s", nobody.Rows, notes)
	}
	csv := text(t, func(b *strings.Builder) error { return PerCase(scores).CSV(b) })
	back, err := ReadScores(strings.NewReader(csv))
	if err != nil || back[0].Outcome() != eval.Undrawn || back[1].Outcome() != eval.Scored {
		t.Errorf("%+v, %v", back, err)
	}
	// A table that has no volumes says nothing about what was drawn.
	runs, _, err := ReadRuns(
		strings.NewReader("initialisation,fold,fraction,seed,case,label,dsc\nscratch,1,0.1,1,a,1,nan\n"),
	)
	if err != nil || runs[0].Scores[0].Outcome() != eval.Absent {
		t.Errorf("%+v, %v", runs, err)
	}
}

func TestScoresSurviveCSV(t *testing.T) {
	csv := text(t, func(b *strings.Builder) error { return PerCase(some).CSV(b) })
	back, err := ReadScores(strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(some, back, cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	for name, text := range map[string]string{
		"no header":              "",
		`no column "case"`:       "a,b\n1,2\n",
		`label "x"`:              strings.Replace(csv, "a,1", "a,x", 1),
		`line 2: dsc "much"`:     strings.Replace(csv, "0.5", "much", 1),
		"wrong number of fields": csv + "1,2\n",
	} {
		if _, err := ReadScores(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want ...%s...", err, name)
		}
	}
}

func TestRunsSurviveCSV(t *testing.T) {
	runs := []eval.Trial{
		{Initialisation: "scratch", Fold: 1, Fraction: 0.1, Seed: 1<<64 - 1, Scores: some},
		{Initialisation: "=3x3x3", Fold: 2, Fraction: 1, Seed: 2, Scores: some[:1]},
	}
	drawn := append(slices.Clone(runs), eval.Trial{Initialisation: "scratch", Fold: 1, Fraction: 0.1, Seed: 4, Draw: 1,
		Scores: some[:1]})
	for _, all := range [][]eval.Trial{runs, drawn} {
		file := text(t, func(b *strings.Builder) error { return Runs(all).CSV(b) })
		back, known, err := ReadRuns(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(all, back, cmpopts.EquateNaNs()); d != "" {
			t.Error(d)
		}
		header, _, _ := strings.Cut(file, "\n")
		if !strings.HasSuffix(header, ",components,draw") || !known {
			t.Errorf("the header is %s", header)
		}
	}
	short := "initialisation,fold,fraction,seed,case,label,dsc\nscratch,1,0.1,1,a,1,0.5\n"
	if back, known, err := ReadRuns(strings.NewReader(short)); err != nil || known || back[0].Scores[0].DSC != 0.5 ||
		!math.IsNaN(back[0].Scores[0].HD95) {
		t.Errorf("a table without HD95: %+v, %v", back, err)
	}
	for want, text := range map[string]string{
		`no column "dsc"`: strings.Replace(short, "dsc", "iou", 1), `line 2: fold "x"`: strings.Replace(short,
			"scratch,1", "scratch,x", 1),
		`line 2: seed "-1"`:              strings.Replace(short, "0.1,1", "0.1,-1", 1),
		`line 2: dsc "" is not a number`: strings.Replace(short, "0.5", "", 1),
		"line 3: draw 2, and 0 in another line": "initialisation,fold,fraction,seed,case,label,dsc,draw\n" +
			"scratch,1,0.1,1,a,1,0.5,\nscratch,1,0.1,1,a,2,0.5,2\n",
		"line 3: case a, label 1 is there twice": short + "scratch,1,0.1,1,a,1,0.5\n",
	} {
		if _, _, err := ReadRuns(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

func TestCurvesSurviveCSV(t *testing.T) {
	curves := []eval.LearningCurve{
		{Initialisation: "=3x3x3", Fraction: 0.1, Fold: 2, Seed: 7, Steps: []float64{10, 20},
			Values: []float64{1.0 / 3, 50}},
		{Initialisation: "scratch", Fraction: 1, Fold: 1, Seed: 1, Steps: []float64{10}, Values: []float64{40}},
	}
	file := text(t, func(b *strings.Builder) error { return Curves(curves).CSV(b) })
	back, err := ReadCurves(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(curves, back); d != "" {
		t.Error(d)
	}
	for want, text := range map[string]string{
		`no column "step"`: strings.Replace(file, "step", "steps", 1), `line 2: data "10"`: strings.Replace(file,
			"10 %", "10", 1),
		`line 2: fold "x"`: strings.Replace(file, "%,2", "%,x", 1), `line 2: seed "-7"`: strings.Replace(file, "2,7",
			"2,-7", 1),
		`line 3: dsc "half"`:             strings.Replace(file, "20,50", "20,half", 1),
		`line 3: step "10" is not after`: strings.Replace(file, "20,50", "10,50", 1),
	} {
		if _, err := ReadCurves(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

// Of a distance, less is better: the tables say so.
func TestLessIsBetter(t *testing.T) {
	run := func(initialisation string, seed uint64, hd95 float64) eval.Trial {
		return eval.Trial{Initialisation: initialisation, Fraction: 0.1, Seed: seed,
			Scores: []eval.Score{{Case: "a", Label: 1, HD95: hd95}}}
	}
	f, err := eval.Folds([]eval.Trial{run("scratch", 1, 3), run("scratch", 2, 4), run("3x3x3", 1, 5),
		run("3x3x3", 2, 7)}, eval.FoldOptions{Metric: "hd95"})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []Table{Folds(f), Differences(f)} {
		markdown := text(t, func(b *strings.Builder) error { return got.Markdown(b) })
		if strings.Contains(markdown, " gain") || !strings.Contains(markdown, "Less is better: a difference below 0") ||
			!strings.Contains(markdown, "| difference |") {
			t.Errorf("%s", markdown)
		}
	}
}

// Two pairs of runs: a difference of 10 and 20 points, the quantile of t with one degree of freedom
// is 12.7062.
func TestFolds(t *testing.T) {
	run := func(initialisation string, seed uint64, dsc float64) eval.Trial {
		return eval.Trial{Initialisation: initialisation, Fraction: 0.1, Seed: seed,
			Scores: []eval.Score{{Case: "a", Label: 1, DSC: dsc}}}
	}
	f, err := eval.Folds([]eval.Trial{run("scratch", 1, 0.5), run("scratch", 2, 0.6), run("3x3x3", 1, 0.6),
		run("3x3x3", 2, 0.8)}, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := Folds(f)
	markdown := text(t, func(b *strings.Builder) error { return got.Markdown(b) })
	for _, want := range []string{
		"**Mean DSC (%) by share of the training data**",
		"| data | scratch | 3x3x3 | difference | 95 % interval | p (runs) |",
		"| 10 % | 55.00 ± 7.07 | 70.00 ± 14.14 | 15.00 ± 7.07 | -48.53 to +78.53 | 0.205 |",
	} {
		if !strings.Contains(markdown, want) {
			t.Errorf("no %s in\n%s", want, markdown)
		}
	}
	if !strings.Contains(got.Notes[1], "over pairs of runs") {
		t.Errorf("notes %q", got.Notes)
	}
	gains := text(t, func(b *strings.Builder) error { return Differences(f).Markdown(b) })
	// resamples of 10 and 20 reach from one to the other
	if want := "| 3x3x3 | 10 % | 2 | 15.00 ± 7.07 | -48.53 to +78.53 | 0.205 | 0.500 | +10.00 to +20.00 | – | 1," +
		" 0 |"; !strings.Contains(gains, want) {
		t.Errorf("no %s in\n%s", want, gains)
	}
	csv := text(t, func(b *strings.Builder) error { return got.CSV(b) })
	if want := "data,scratch_dsc_percent_mean,scratch_dsc_percent_sd,scratch_dsc_percent_n," +
		"scratch_dsc_percent_infinite,3x3x3_dsc_percent_mean,"; !strings.HasPrefix(csv, want) {
		t.Errorf("CSV begins %s, want %s", csv, want)
	}
}

// The same pairs of runs by two measures: a distance that no run has makes no row.
func TestMeasures(t *testing.T) {
	var runs []eval.Trial
	for _, r := range []struct {
		name  string
		seed  uint64
		score float64
	}{{"scratch", 1, 0.5}, {"scratch", 2, 0.6}, {"3x3x3", 1, 0.6}, {"3x3x3", 2, 0.8}, {"alone", 3, 0.7}} {
		runs = append(runs, eval.Trial{Initialisation: r.name, Fraction: 0.1, Seed: r.seed, Scores: []eval.Score{
			{Case: "a", Label: 1, Name: "lung", DSC: r.score, NSD: 1, HD95: 10 * r.score, ASSD: math.Inf(1)},
			{Case: "a", Label: 2, DSC: 1, NSD: r.score, HD95: 10 * r.score, ASSD: math.Inf(1)}}})
	}
	var measures []Measure
	for name, o := range map[string]eval.FoldOptions{"NSD (%)": {Metric: "nsd"}, "HD95 (mm)": {Metric: "hd95"},
		"ASSD (mm)": {Metric: "assd"}, "DSC (%) of label 1": {Label: 1}} {
		f, err := eval.Folds(runs, o)
		if err != nil {
			t.Fatal(err)
		}
		measures = append(measures, Measure{name, f})
	}
	page := text(t, func(b *strings.Builder) error { return Measures(measures).Markdown(b) })
	for _, want := range []string{
		"**Difference to scratch by other measures**",
		"| DSC (%) of label 1 | 3x3x3 | 10 % | 2 | 15.00 ± 7.07 | -48.53 to +78.53 | 0.205 |",
		"| NSD (%) | 3x3x3 | 10 % | 2 | 7.50 ± 3.54 | -24.27 to +39.27 | 0.205 |",
		"| HD95 (mm), less is better | 3x3x3 | 10 % | 2 | 1.50 ± 0.71 | -4.85 to +7.85 | 0.205 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if strings.Contains(page, "ASSD") || strings.Contains(page, "alone") {
		t.Errorf("rows without pairs:\n%s", page)
	}
}

// With several initialisations people see the adjusted p.
func TestSeveralInitialisationsAreAdjusted(t *testing.T) {
	var runs []eval.Trial
	for seed, gains := range map[uint64][2]float64{1: {0.1, 0.05}, 2: {0.12, 0.01}, 3: {0.11, 0.02}} {
		for n, name := range []string{"scratch", "a", "b"} {
			dsc := 0.5
			if n > 0 {
				dsc += gains[n-1]
			}
			runs = append(runs, eval.Trial{Initialisation: name, Fraction: 1, Seed: seed,
				Scores: []eval.Score{{Case: "c", Label: 1, DSC: dsc, HD95: math.Inf(1)}}})
		}
	}
	f, err := eval.Folds(runs, eval.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	header, rows := Folds(f).Text()
	if got := strings.Join(header,
		","); got != "data,scratch,a,difference,95 % interval,p (runs, "+
		"Holm),b,difference,95 % interval,p (runs, Holm)" {
		t.Errorf("header %s", got)
	}
	if got, want := rows[0][5], Rounded(2*f.Cells[0][1].Test.P, 3); got != want {
		t.Errorf("p %s, want %s", got, want)
	}
	hd, err := eval.Folds(runs, eval.FoldOptions{Metric: "hd95"})
	if err != nil {
		t.Fatal(err)
	}
	if _, rows := Folds(hd).Text(); rows[0][1] != "– (3 ∞)" || !strings.Contains(strings.Join(FoldNotes(hd), " "),
		"missed or invented") {
		t.Errorf("HD95 of labels that are never found: %s, %q", rows[0][1], FoldNotes(hd))
	}
}

func TestMixed(t *testing.T) {
	fit := eval.MixedFit{Effects: []eval.Effect{{Name: "3x3x3", Estimate: 4.014, SE: 2.3, DF: 11,
		Interval: eval.Interval{Low: -1.05, High: 9.08}, Test: eval.Test{Statistic: 1.746, P: 0.109}}},
		Random: []eval.Scatter{{Name: "run", SD: 5.6}, {Name: "case", SD: 4.75}}, Residual: 2.93, Observations: 588}
	dsc, _ := eval.MetricNamed("dsc")
	page := text(t, func(b *strings.Builder) error { return Mixed(fit, dsc).Markdown(b) })
	for _, want := range []string{"| 3x3x3 | 4.01 | 2.30 | 11.0 | -1.05 to +9.08 | 1.75 | 0.109 |", "588 observations",
		"run 5.60, case 4.75, residual 2.93"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

func TestProbabilitiesAndLists(t *testing.T) {
	for want, got := range map[string]string{
		"< 0.001": P(0.0004).String(), "0.001": P(0.0006).String(), "0.050": P(0.05).String(),
		"–": P(math.NaN()).String(),
		"":  List(nil, 3), "a": List([]string{"a"}, 3), "a and b": List([]string{"a", "b"}, 3),
		"a, b and c":      List([]string{"a", "b", "c"}, 3),
		"a, b and 2 more": List([]string{"a", "b", "c", "d"}, 2), "a, b, c and d": List([]string{"a", "b", "c", "d"},
			0),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Whoever names a file decides nothing but a name.
func TestNamesFromFilesAreOnlyText(t *testing.T) {
	names := []string{
		"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "'=1", "''", "＝1", "\t=1", "<script>alert(1)</script>", "a|b",
		"[x](javascript:y)", "`ls`", "**bold**",
		"_em_", "a_b", "\x1b[31mred", "gpj.\u202egnp", "Gr\xf6sse", `a\b`, "http://x.y", "www.x.y", "me@x.y", "&lt;",
		"$x$", "two\nlines", "tag\U000e0041",
	}
	var scores []eval.Score
	for _, n := range names {
		scores = append(scores, eval.Score{Case: n, Label: 1, Name: n})
	}
	perCase := PerCase(scores)
	csvFile := text(t, func(b *strings.Builder) error { return perCase.CSV(b) })
	records, err := csv.NewReader(strings.NewReader(csvFile)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for n, r := range records[1:] {
		if strings.ContainsAny(r[0][:1], "=+-@\t\r") || strings.HasPrefix(r[0], "＝") {
			t.Errorf("%q: %q is a formula", names[n], r[0])
		}
	}
	back, err := ReadScores(strings.NewReader(csvFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(scores, back, cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	jsonFile := text(t, func(b *strings.Builder) error { return perCase.JSON(b) })
	var objects []struct{ Case string }
	if err := json.Unmarshal([]byte(jsonFile), &objects); err != nil {
		t.Fatal(err)
	}
	for n, o := range objects {
		if want := strings.ToValidUTF8(names[n], "\ufffd"); o.Case != want {
			t.Errorf("JSON holds %q, want %q", o.Case, want)
		}
	}
	page := text(t, func(b *strings.Builder) error { return perCase.Markdown(b) })
	for what, file := range map[string]string{"CSV": csvFile, "JSON": jsonFile, "Markdown": page} {
		for _, raw := range []string{"\x1b", "\u202e", "\xf6", "\U000e0041"} {
			if strings.Contains(file, raw) {
				t.Errorf("%s holds %q", what, raw)
			}
		}
	}
	for in, want := range map[string]string{
		"<script>x</script>": `\<script>x\</script>`, "a|b": `a\|b`, "[x](y)": `\[x\](y)`, "`ls`": "\\`ls\\`",
		"pt_001": "pt_001", "_em_": `\_em\_`, "__init__": `\_\_init\_\_`,
		"D<=2": "D<=2", "http://x": `http\://x`, "www.x": `www\.x`, "a@b": `a\@b`, "&lt;": `\&lt;`, "A & B": "A & B",
		"$x$": `\$x\$`, "**": `\*\*`, `\`: `\\`, "50 %": "50 %",
	} {
		if got := EscapeMarkdown(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// A label that is called by its number has the number once.
func TestNumbersAreNoNames(t *testing.T) {
	one := []eval.Score{{Case: "a", Label: 1, Name: "1"}, {Case: "b", Label: 1}}
	two := append(slices.Clone(one), eval.Score{Case: "a", Label: 2, Name: "2"})
	for want, table := range map[string]Table{
		"| case | label | DSC |":           PerCase(two),
		"| label | cases | missed |":       PerLabel(one),
		"| 1 |  | 2 | 0 | 0 |":             PerLabel(two),
		"|  | all | 2 | 0 | 0 |":           PerLabel(two),
		"| a | 3 | liver | 0.0000 |":       PerCase([]eval.Score{{Case: "a", Label: 3, Name: "liver"}}),
		"| label | name | cases | missed ": PerLabel([]eval.Score{{Case: "a", Label: 3, Name: "liver"}}),
	} {
		if got := text(t, func(b *strings.Builder) error { return table.Markdown(b) }); !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// There is no standard deviation over one run, and no test over one pair.
func TestNotesOfOneRun(t *testing.T) {
	f := eval.FoldTable{Metric: eval.Metrics[0], Baseline: "scratch", Initialisations: []string{"scratch", "3x3x3"},
		Fractions: []float64{1},
		Cells: [][]eval.FoldCell{{{Spread: eval.Spread{N: 1}},
			{Spread: eval.Spread{N: 1}, Comparison: eval.Comparison{Gain: eval.Spread{N: 1}}}}}}
	if got := FoldNotes(f); len(got) != 1 || got[0] != "Of one run in each cell: the mean over its test cases." {
		t.Errorf("%q", got)
	}
}

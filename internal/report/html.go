package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"image/png"
	"io"
	"math"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
)

//go:embed style.css
var style string

// mark is two pieces of a puzzle: the only ornament.
const mark = `<svg viewBox="0 0 24 24" aria-hidden="true"><path fill="#2463c4" d="M2 2h8v3.2a2 2 0 1 1 0 3.6V12H7.8a2 2 0 1 0-3.6 0H2z"/><path fill="#d9791f" d="M14 22v-3.2a2 2 0 1 1 0-3.6V12h2.2a2 2 0 1 0 3.6 0H22v10z"/></svg>`

// HTML writes the report as one file without scripts and without links to anything outside. It is
// well-formed XML, too.
func (r Report) HTML(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n", html.EscapeString(r.Title), style)
	fmt.Fprintf(&b, "<header><div class=\"mark\">%s Voxsaw</div><h1>%s</h1><p>%s</p></header>\n<nav>", mark, html.EscapeString(r.Title), html.EscapeString(r.Subtitle))
	for n, s := range r.Sections {
		fmt.Fprintf(&b, "<a href=\"#s%d\">%s</a>", n+1, html.EscapeString(s.Title))
	}
	b.WriteString("</nav>\n")
	for n, s := range r.Sections {
		fmt.Fprintf(&b, "<section id=\"s%d\">\n<h2>%s</h2>\n", n+1, html.EscapeString(s.Title))
		for _, block := range s.Blocks {
			if err := block.html(&b); err != nil {
				return fmt.Errorf("section %s: %w", s.Title, err)
			}
		}
		b.WriteString("</section>\n")
	}
	b.WriteString("<footer>Made by voxsaw. The numbers are defined in the documentation of its package eval.</footer>\n</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Text) html(b *strings.Builder) error {
	for paragraph := range strings.SplitSeq(string(t), "\n\n") {
		if p := strings.TrimSpace(paragraph); p != "" {
			fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(p))
		}
	}
	return nil
}

func (f Facts) html(b *strings.Builder) error {
	b.WriteString("<dl class=\"facts\">\n")
	for _, fact := range f {
		fmt.Fprintf(b, "<div><dt>%s</dt><dd>%s</dd></div>\n", html.EscapeString(fact.Name), html.EscapeString(fact.Value))
	}
	b.WriteString("</dl>\n")
	return nil
}

func (t Table) html(b *strings.Builder) error {
	if t.Folded {
		fmt.Fprintf(b, "<details><summary>%s (%d rows)</summary>\n", html.EscapeString(t.Title), len(t.Rows))
	} else if t.Title != "" {
		fmt.Fprintf(b, "<h3>%s</h3>\n", html.EscapeString(t.Title))
	}
	header, rows := t.Text()
	b.WriteString("<div class=\"scroll\"><table>\n<thead><tr>")
	line := func(tag string, cells []string) {
		for n, c := range cells {
			class := ""
			if t.Numeric(n) {
				class = " class=\"n\""
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, class, html.EscapeString(c), tag)
		}
	}
	line("th", header)
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, r := range rows {
		b.WriteString("<tr>")
		line("td", r)
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody>\n</table></div>\n")
	notes(b, t.Notes)
	if t.Folded {
		b.WriteString("</details>\n")
	}
	return nil
}

func notes(b *strings.Builder, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", html.EscapeString(n))
	}
}

func (f Folds) html(b *strings.Builder) error {
	fmt.Fprintf(b, "<div class=\"pair\"><div class=\"scroll\"><table class=\"folds\">\n<thead><tr><th>data</th>")
	for _, i := range f.Initialisations {
		fmt.Fprintf(b, "<th>%s</th>", html.EscapeString(i))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for row, fraction := range f.Fractions {
		fmt.Fprintf(b, "<tr><td>%s</td>", table.Percent(fraction))
		best := f.best(row)
		for n, c := range f.Cells[row] {
			class := ""
			if n == best {
				class = " class=\"best\""
			}
			fmt.Fprintf(b, "<td%s><b>%s</b>", class, table.Rounded(c.Spread.Mean, f.column().Digits))
			if !math.IsNaN(c.Spread.SD) {
				fmt.Fprintf(b, " ± %s", table.Rounded(c.Spread.SD, f.column().Digits))
			}
			if f.Initialisations[n] != f.Baseline {
				if gain, test := f.change(c); gain != "" {
					fmt.Fprintf(b, "<small><span class=\"%s\">%s</span> %s</small>", f.direction(c), gain, test)
				}
			} else {
				fmt.Fprintf(b, "<small>%s</small>", runs(c.Spread.N))
			}
			b.WriteString("</td>")
		}
		b.WriteString("</tr>\n")
	}
	fmt.Fprintf(b, "</tbody>\n</table></div>\n<figure><figcaption>%s by share of the training data</figcaption>\n%s</figure></div>\n", html.EscapeString(f.column().Title), f.svg())
	notes(b, table.FoldNotes(f.FoldTable))
	return nil
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// higher tells whether more of the metric is better.
func (f Folds) higher() bool { return f.Metric.Better >= 0 }

// column says how the metric is called and rounded.
func (f Folds) column() table.Column { return table.MetricColumn(f.Metric, true) }

// best is the column with the best mean of a row.
func (f Folds) best(row int) int {
	best, found := math.NaN(), -1
	for n, c := range f.Cells[row] {
		if m := c.Spread.Mean; !math.IsNaN(m) && (found < 0 || (m > best) == f.higher() && m != best) {
			best, found = m, n
		}
	}
	return found
}

// change writes the gain over the baseline with its sign, and its interval and p over the runs.
func (f Folds) change(c eval.FoldCell) (gain, test string) {
	if math.IsNaN(c.Gain.Mean) {
		return "", ""
	}
	gain = fmt.Sprintf("%+.*f", f.column().Digits, c.Gain.Mean)
	if math.IsNaN(c.Test.P) {
		return gain, ""
	}
	return gain, fmt.Sprintf("95 %% interval %s, p = %.2f over %s", table.Interval(c.Interval, f.column().Digits), c.Test.P, pairs(c.Gain.N))
}

// direction is the class that colours a gain: only one whose interval excludes 0 is up or down.
func (f Folds) direction(c eval.FoldCell) string {
	switch {
	case c.Interval.Low > 0 && f.higher(), c.Interval.High < 0 && !f.higher():
		return "up"
	case c.Interval.High < 0, c.Interval.Low > 0:
		return "down"
	}
	return "open"
}

func pairs(n int) string { return fmt.Sprintf("%d pairs of runs", n) }

func (c Charts) html(b *strings.Builder) error {
	b.WriteString("<div class=\"charts\">\n")
	for _, chart := range c {
		fmt.Fprintf(b, "<figure><figcaption>%s</figcaption>\n%s</figure>\n", html.EscapeString(chart.Title), chart.svg())
	}
	b.WriteString("</div>\n")
	return nil
}

func (p Pictures) html(b *strings.Builder) error {
	for _, picture := range p {
		if picture.Image == nil {
			return fmt.Errorf("picture %q has no image", picture.Caption)
		}
		var data bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&data, picture.Image); err != nil {
			return fmt.Errorf("picture %q: %w", picture.Caption, err)
		}
		size := picture.Image.Bounds().Size()
		fmt.Fprintf(b, "<figure><img width=\"%d\" height=\"%d\" alt=\"%s\" src=\"data:image/png;base64,%s\"/><figcaption>%s</figcaption></figure>\n",
			size.X, size.Y, html.EscapeString(picture.Caption), base64.StdEncoding.EncodeToString(data.Bytes()), html.EscapeString(picture.Caption))
	}
	return nil
}

func (c Code) html(b *strings.Builder) error {
	fmt.Fprintf(b, "<details><summary>%s</summary>\n<pre>%s</pre></details>\n", html.EscapeString(c.Title), html.EscapeString(c.Text))
	return nil
}

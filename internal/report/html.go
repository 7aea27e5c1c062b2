package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"image/png"
	"io"
	"regexp"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

//go:embed style.css
var style string

// mark is two pieces of a puzzle: the only ornament.
const mark = `<svg viewBox="0 0 24 24" aria-hidden="true"><path fill="#2463c4" d="M2 2h8v3.2a2 2 0 1 1 0 3.6V12H7.8a2 2 0 1 0-3.6 0H2z"/><path fill="#d9791f" d="M14 22v-3.2a2 2 0 1 1 0-3.6V12h2.2a2 2 0 1 0 3.6 0H22v10z"/></svg>`

// footer ends every page.
const footer = "<footer>Made by voxsaw.</footer>"

// IsPage says whether a text is a page that [Report.HTML] has written.
func IsPage(text []byte) bool { return bytes.Contains(text, []byte(footer)) }

// HTML writes the report as one file without scripts and without links to anything outside. It is
// well-formed XML, too.
func (r Report) HTML(w io.Writer) error {
	var b strings.Builder
	refresh := ""
	if r.Refresh > 0 {
		refresh = fmt.Sprintf("<meta http-equiv=\"refresh\" content=\"%d\"/>\n", r.Refresh)
	}
	fmt.Fprintf(&b,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n%s<meta name=\"viewport\" "+
			"content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light "+
			"dark\"/>\n<title>%s</title>\n<style>\n%s%s</style>\n</head>\n<body>\n",
		refresh, escape(r.Title), style, chartStyle)
	fmt.Fprintf(&b, "<header><div class=\"mark\">%s Voxsaw</div><h1>%s</h1><p>%s</p></header>\n<nav>", mark,
		escape(r.Title), escape(r.Subtitle))
	sections := r.complete()
	for n, s := range sections {
		fmt.Fprintf(&b, "<a href=\"#s%d\">%s</a>", n+1, escape(s.Title))
	}
	b.WriteString("</nav>\n")
	for n, s := range sections {
		fmt.Fprintf(&b, "<section id=\"s%d\">\n<h2>%s</h2>\n", n+1, escape(s.Title))
		for _, block := range s.Blocks {
			if err := block.html(&b); err != nil {
				return fmt.Errorf("section %s: %w", s.Title, err)
			}
		}
		b.WriteString("</section>\n")
	}
	b.WriteString(footer + "\n</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// negative is a hyphen before a number that begins a text or stands after a space or a bracket.
var negative = regexp.MustCompile(`(^|[ (])-([0-9.∞])`)

// figures matches texts that are numbers with what belongs to them, such as "-1.20 ± 0.30 (2 ∞)".
var figures = regexp.MustCompile(`^[-+]?[0-9.∞][-+0-9.∞±%() ]*( to [-+0-9.∞]+\)?)?$`)

// minus writes numbers for readers, with a minus sign for the hyphen. Other texts stay.
func minus(text string) string {
	if !figures.MatchString(text) {
		return text
	}
	return negative.ReplaceAllString(text, "$1\u2212$2")
}

func (t Text) html(b *strings.Builder) error {
	for _, p := range t.paragraphs() {
		fmt.Fprintf(b, "<p>%s</p>\n", escape(p))
	}
	return nil
}

func (f Facts) html(b *strings.Builder) error {
	b.WriteString("<dl class=\"facts\">\n")
	for _, fact := range f {
		class := ""
		switch {
		case fact.isCode():
			class = " class=\"code\""
		case len(fact.Value) > 36:
			class = " class=\"long\""
		}
		fmt.Fprintf(b, "<div%s><dt>%s</dt><dd>%s</dd></div>\n", class, escape(fact.Name), escape(fact.Value))
	}
	b.WriteString("</dl>\n")
	return nil
}

// mostRows is how many rows of a table a page shows: browsers take long to lay out more.
const mostRows = 2000

func (t Table) html(b *strings.Builder) error {
	if t.Folded {
		fmt.Fprintf(b, "<details><summary>%s (%s)</summary>\n", escape(t.Title), numbers.Count(len(t.Rows), "row"))
	} else if t.Title != "" {
		fmt.Fprintf(b, "<h3>%s</h3>\n", escape(t.Title))
	}
	short := t.Table
	short.Rows = t.Rows[:min(len(t.Rows), mostRows)]
	header, rows := short.Text()
	classes := make([]string, len(header))
	for n := range header {
		switch {
		case t.Others(n):
			classes[n] = " class=\"n others\""
		case t.Numeric(n):
			classes[n] = " class=\"n\""
		}
	}
	b.WriteString("<div class=\"scroll\"><table>\n<thead><tr>")
	line := func(tag string, cells []string) {
		for n, c := range cells {
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, classes[n], escape(minus(c)), tag)
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
	if more := len(t.Rows) - len(rows); more > 0 {
		notes(b, []string{fmt.Sprintf("%s more: the CSV files beside this page have all.", numbers.Count(more, "row"))})
	}
	notes(b, t.Notes)
	if t.Folded {
		b.WriteString("</details>\n")
	}
	return nil
}

func notes(b *strings.Builder, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", escape(n))
	}
}

func (c Charts) html(b *strings.Builder) error {
	b.WriteString("<div class=\"charts\">\n")
	for _, chart := range c {
		fmt.Fprintf(b, "<figure><figcaption>%s</figcaption>\n%s</figure>\n", escape(chart.caption()), chart.svg())
	}
	b.WriteString("</div>\n")
	return nil
}

func (f Figures) html(b *strings.Builder) error {
	for _, figure := range f {
		fmt.Fprintf(b, "<figure class=\"wide\"><figcaption>%s</figcaption>\n<div class=\"scroll\">%s</div></figure>\n",
			escape(figure.caption()), figure.svg())
	}
	return nil
}

// png is the picture's file. The best compression makes it hardly smaller, and takes many times as
// long where much of it is of one colour.
func (p Picture) png() ([]byte, error) {
	if p.Image == nil {
		return nil, fmt.Errorf("picture %q has no image", p.Caption)
	}
	var data bytes.Buffer
	if err := png.Encode(&data, p.Image); err != nil {
		return nil, fmt.Errorf("picture %q: %w", p.Caption, err)
	}
	return data.Bytes(), nil
}

func (p Pictures) html(b *strings.Builder) error {
	for _, picture := range p {
		data, err := picture.png()
		if err != nil {
			return err
		}
		size := picture.Image.Bounds().Size()
		fmt.Fprintf(b,
			"<figure><img width=\"%d\" height=\"%d\" alt=\"%s\" "+
				"src=\"data:image/png;base64,%s\"/><figcaption>%s</figcaption></figure>\n",
			size.X, size.Y, escape(picture.Caption), base64.StdEncoding.EncodeToString(data),
			escape(picture.Caption))
	}
	return nil
}

func (c Code) html(b *strings.Builder) error {
	fmt.Fprintf(b, "<details><summary>%s</summary>\n<pre>%s</pre></details>\n", escape(c.Title),
		html.EscapeString(safetext.Lines(c.Text)))
	return nil
}

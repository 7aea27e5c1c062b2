// Package report draws results: one HTML file that needs nothing beside it, Markdown with its
// pictures in a folder, CSV files of the tables.
//
// Start at [Report], a list of sections made of blocks: [Text], [Facts], [Table], [Folds],
// [Charts], [Figures], [Pictures], [Code]. [Scores] is the whole page on label maps that were
// compared with references, [Runs] that on trainings. [Curves] makes charts of what a training
// wrote, [Differences] the forest plot of an experiment, [LabelBoxes] and [RunBoxes] box plots,
// [Overlay] a picture of a segmentation. The numbers come from package eval; nothing is computed
// here but where to put the ink. The HTML has no scripts and loads nothing, so it can be mailed,
// archived and printed; it follows the reader's choice of light or dark.
package report

import (
	"fmt"
	"image"
	"regexp"
	"strings"

	"github.com/voxsaw/voxsaw/internal/table"
)

// Report is a page.
type Report struct {
	Title    string
	Subtitle string // a sentence: what, on what, when
	Sections []Section
	Refresh  int // seconds after which a browser looks for a newer page; 0: never
}

// Section is a heading and what stands under it.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a piece of a section. The types of this package are all there are.
type Block interface {
	html(*strings.Builder) error
	markdown(*markdown) error
}

// Text is running text. An empty line starts a paragraph. It is shown as it is: no markup.
type Text string

func (t Text) paragraphs() (all []string) {
	for p := range strings.SplitSeq(string(t), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			all = append(all, strings.ReplaceAll(p, "\n", " "))
		}
	}
	return all
}

// Facts are names and values: a version, a device, a fingerprint.
type Facts []Fact

// Fact is one line of [Facts].
type Fact struct{ Name, Value string }

// isCode tells a fingerprint or another long text without spaces, which gets a line of its own.
func (f Fact) isCode() bool { return code.MatchString(f.Value) }

// Shortened is the beginning of a fingerprint, which is enough to tell two apart.
func Shortened(fingerprint string) string { return fingerprint[:min(len(fingerprint), 16)] }

var code = regexp.MustCompile(`^[0-9A-Za-z+/=_:.-]{25,}$`)

// Table is a table of results. A folded one is closed until the reader opens it, as long ones
// should be.
type Table struct {
	table.Table
	Folded bool
}

// Charts are line charts, side by side where there is room.
type Charts []Chart

// Figures are wide charts, one below the other.
type Figures []Figure

// Figure is a [Forest], [Boxes] or [Chart].
type Figure interface {
	caption() string
	svg() string
}

// Pictures are shown one below the other at their own size, smaller where the page is narrower.
type Pictures []Picture

// Picture is an image with what it shows.
type Picture struct {
	Image   image.Image
	Caption string
}

// Code is text to be shown letter by letter, such as a configuration; closed until the reader opens
// it.
type Code struct{ Title, Text string }

// tables finds the tables of the report, by the names of their files: titles made fit for that,
// numbered where they repeat.
func (r Report) tables() map[string]table.Table {
	all := map[string]table.Table{}
	add := func(t table.Table) {
		base := slug(t.Title)
		path := base + ".csv"
		for n := 2; all[path].Columns != nil; n++ {
			path = fmt.Sprintf("%s-%d.csv", base, n)
		}
		all[path] = t
	}
	for _, s := range r.Sections {
		for _, b := range s.Blocks {
			switch b := b.(type) {
			case Table:
				add(b.Table)
			case Folds:
				add(table.Folds(b.FoldTable))
				for _, o := range b.Others {
					add(table.Folds(o))
				}
			}
		}
	}
	return all
}

// slug makes a title fit for a file name or an anchor.
func slug(title string) string {
	s := strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}), "-")
	if s == "" {
		return "untitled"
	}
	return s
}

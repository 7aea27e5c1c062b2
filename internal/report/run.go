package report

import (
	"errors"
	"fmt"
	"image"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/table"
)

// Run is a training that a page is about, at its end or on its way there.
type Run struct {
	Training
	Facts    Facts       // what it is and how far it has come
	Settings string      // its resolved configuration
	Sheet    image.Image // of held-out cases; nil: none
	Task     *Picture    // how the network does the task it learns now, such as a puzzle; nil: none
	Without  error       // why there is no picture of that; nil: there need not be one
}

// Runs is the page on one training, or on several side by side: what they are, the measures on
// held-out cases at the last validation and at the best one, curves, settings. A training that has
// done no step yet has no curves.
func Runs(title, subtitle string, runs []Run) (Report, error) {
	r := Report{Title: title, Subtitle: subtitle}
	var begun []Training
	var sheets, tasks Pictures
	var without []Block
	made := Section{Title: "How it was made"}
	for _, run := range runs {
		training, err := run.Training.Read()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		var validated table.Table
		if err == nil {
			begun = append(begun, training)
			validated = heldOut(training.logs.validations)
		}
		section := Section{Title: run.Name, Blocks: []Block{run.Facts}}
		if run.Name == title { // which stands above
			section.Title = "Summary"
		}
		if run.Sheet != nil {
			sheets = append(sheets, Picture{Image: run.Sheet, Caption: run.Name})
		}
		if run.Task != nil {
			tasks = append(tasks, *run.Task)
		}
		if run.Without != nil {
			without = append(without, Text(fmt.Sprintf("%s: no picture of it: %v", run.Name, run.Without)))
		}
		if len(validated.Rows) > 0 {
			section.Blocks = append(section.Blocks, Table{Table: validated})
		}
		r.Sections = append(r.Sections, section)
		made.Blocks = append(made.Blocks, Code{Title: filepath.ToSlash(filepath.Join(run.Name, "config.yaml")),
			Text: run.Settings})
	}
	if len(begun) > 0 {
		charts, err := Curves(begun...)
		if err != nil {
			return r, err
		}
		r.Sections = append(r.Sections, Section{Title: "Curves", Blocks: []Block{charts}})
	}
	if len(tasks) > 0 {
		without = append(without, tasks)
	}
	if len(without) > 0 {
		r.Sections = append(r.Sections, Section{Title: "How it does its task now", Blocks: without})
	}
	if len(sheets) > 0 {
		r.Sections = append(r.Sections, Section{Title: "Held-out cases, the worst first", Blocks: []Block{
			Text("The slices with the largest errors, at the validation that stands above the pictures. " +
				"Filled: the network's labels. Outline: the reference."),
			sheets}})
	}
	r.Sections = append(r.Sections, made)
	return r, nil
}

// heldOut is the table of what a training measured on its held-out cases, at its last validation
// and at that with the highest score; empty where nothing was validated.
func heldOut(l *log) table.Table {
	if l == nil || len(l.values["step"]) == 0 {
		return table.Table{}
	}
	last, best := len(l.values["step"])-1, 0
	for n, score := range l.values["score"] {
		if score > l.values["score"][best] {
			best = n
		}
	}
	at := func(n int) string { return fmt.Sprintf("%.0f", l.values["step"][n]) }
	out := table.Table{Title: "On held-out cases", Columns: []table.Column{
		{Key: "measure", Title: "measure"}, {Key: "last", Title: "last, step " + at(last), Digits: 4},
		{Key: "best", Title: "best score, step " + at(best), Digits: 4},
	}}
	for _, column := range l.columns {
		if name := measureName(column); name != "" {
			out.Rows = append(out.Rows, []any{name, l.values[column][last], l.values[column][best]})
		}
	}
	return out
}

// measureName is what a column of the validations is called in a table; "" for those that are no
// measure, or of a single round.
func measureName(column string) string {
	switch {
	case column == "step" || column == "score" || strings.Contains(column, "@"):
		return ""
	case column == "loss":
		return "Loss"
	case column == "ceiling":
		return "Patches that can be told apart"
	}
	name := title(column)
	for _, suffix := range []string{", held-out", ", validation cases"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

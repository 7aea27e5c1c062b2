package predict

import (
	"bytes"
	"fmt"
	"image"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
)

// This file: the page beside label maps that shows those to look at first.

// pageFile is its name.
const pageFile = "predictions.html"

// page is its path; "" where there is none, as beside a single file.
func (b *Batch) page() string {
	if b.table() == "" {
		return ""
	}
	return filepath.Join(b.options.Out, pageFile)
}

// writePage draws the label maps that are most unusual beside the others, then those in most
// pieces. They are read again: so the page is the same however often the batch was taken up.
func (b *Batch) writePage(all outcome, p Model, watch Observer) error {
	path := b.page()
	if path == "" || len(all.Cases) == 0 || all.Stopped || all.Machine {
		return nil
	}
	order := slices.Sorted(maps.Keys(all.Cases))
	cases := make([]quality.Case, len(order))
	for i, n := range order {
		cases[i] = all.Cases[n]
	}
	set := quality.NewSet(cases)
	var sheet report.Sheet
	for _, n := range order {
		value, text := worthALook(all.Cases[n], set)
		err := sheet.Add(b.scans[n].ID, value, text, func() (image.Image, error) { return b.draw(n, p) })
		if err != nil {
			watch.Note(fmt.Sprintf("%s: no picture of it in %s: %v", b.scans[n].ID, path, err))
		}
	}
	page := report.Report{Title: "Predictions", Subtitle: numbers.Count(len(all.Cases), "label map")}
	page.Sections = sheet.Section("Worth a look first",
		"The slices with the largest area of structures. First come label maps that are unusual beside the "+
			"others, then those whose structures are in most pieces; "+quality.File+" measures all. Nothing "+
			"here says how right they are.")
	var text bytes.Buffer
	if err := page.HTML(&text); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, text.Bytes())
}

// worthALook is the lower, the sooner a person should look, and why.
func worthALook(c quality.Case, set *quality.Set) (value float64, text string) {
	whole, all := 0.0, 0.0
	for _, s := range c.Structures {
		whole, all = whole+s.Largest*s.Volume, all+s.Volume
	}
	text = "nothing found"
	if all > 0 {
		value = whole / all
		digits := 0
		if all < 10 {
			digits = 2
		}
		text = fmt.Sprintf("%.*f ml in all, %.1f %% of it in the largest component of its structure", digits, all,
			100*value)
	}
	for _, f := range set.Judge(c) {
		value = math.Min(value, -f.Unusual)
		text += "; " + f.String()
	}
	return value, text
}

// draw draws a label map that is there.
func (b *Batch) draw(n int, p Model) (image.Image, error) {
	c := b.scans[n].TakenFor(p.Modality())
	scan, _, err := c.ReadImage(b.options.Read)
	if err != nil {
		return nil, err
	}
	labels, err := c.ReadLabelMap(b.targets[n], b.options.Read)
	if err != nil {
		return nil, err
	}
	return report.Overlay(scan, nil, []report.Segmented{{Labels: labels}},
		report.OverlayOptions{Errors: true, AxialOnly: true, Window: report.UsualWindow(scan)})
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file draws contact sheets: pictures of the cases to look at first.

// filled is what a sheet says of its colours.
const filled = "Filled: the prediction. Outline: the reference."

// errorSlices are pictures of the slices with the largest errors, or areas.
var errorSlices = report.OverlayOptions{Errors: true, AxialOnly: true}

// sheetOfPairs draws the pairs with the lowest mean DSC. A case that cannot be drawn is noted.
func sheetOfPairs(pairs []filePair, scores []eval.Score, references string, o evaluateOptions,
	note func(string)) *report.Sheet {
	sheet := &report.Sheet{}
	byName := map[string]filePair{}
	for _, p := range pairs {
		byName[p.name] = p
	}
	images := newScanFinder(o.Scans, references)
	names, means := report.WorstFirst(scores)
	for _, name := range names {
		err := sheet.Add(name, means[name], report.MeanDSC(means[name]), func() (image.Image, error) {
			return drawPair(byName[name], images, o)
		})
		if err != nil {
			note(fmt.Sprintf("%s: no picture of it: %v", name, err))
		}
	}
	return sheet
}

func drawPair(p filePair, images *scanFinder, o evaluateOptions) (image.Image, error) {
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	prediction, reference, _, err := p.read(scans, o.Read)
	if err != nil {
		return nil, err
	}
	options := errorSlices
	scan := images.read(p.name, reference.Grid, o.Read)
	if scan != nil {
		options.Window = report.UsualWindow(scan)
	}
	return report.Overlay(scan, reference, []report.Segmented{{Labels: prediction}}, options)
}

// scanFinder finds the scans that label maps are of, once one is asked for.
type scanFinder struct {
	folders []string
	found   []map[string]dataset.Case
}

func newScanFinder(folders ...string) *scanFinder { return &scanFinder{folders: folders} }

// read reads the scan of a case, if there is one on the grid; nil otherwise.
func (f *scanFinder) read(name string, g volume.Grid, o dataset.ReadOptions) *volume.Volume {
	if f.found == nil {
		for _, folder := range f.folders {
			if isDir(folder) {
				f.found = append(f.found, dataset.ScansNamed(folder, dataset.Options{}))
			}
		}
	}
	for _, found := range f.found {
		c, ok := found[name]
		if !ok {
			continue
		}
		scan, _, err := c.ReadImage(o)
		if err != nil {
			continue // the picture is of the label maps alone
		}
		if s := g.Spacing(); scan.Same(g, 0.05*min(s[0], s[1], s[2])) {
			return scan
		}
	}
	return nil
}

// heldOutSheet draws the held-out cases of a training at each validation.
type heldOutSheet struct {
	store  *prepared.Store
	sheet  report.Sheet
	failed error
}

func newHeldOutSheet(store *prepared.Store) *heldOutSheet {
	return &heldOutSheet{store: store, sheet: report.Sheet{Most: heldOutMost}}
}

func (h *heldOutSheet) add(id string, dsc float64, prediction, reference *volume.LabelMap) {
	err := h.sheet.Add(id, dsc, report.MeanDSC(dsc), func() (image.Image, error) {
		c, err := h.store.Open(id)
		if err != nil {
			return nil, err
		}
		scan, err := c.Volume()
		if err != nil {
			return nil, err
		}
		o := errorSlices
		how := h.store.Preparation()
		o.Window = report.ShownNumbers(how.Channel(0), c.Intensities(0))
		return report.Overlay(scan, reference, []report.Segmented{{Labels: prediction}}, o)
	})
	h.failed = errors.Join(h.failed, err)
}

// write writes the pictures of a validation into the run's folder, and begins the next one.
func (h *heldOutSheet) write(folder string) error {
	picture, err := h.sheet.Image(), h.failed
	h.sheet, h.failed = report.Sheet{Most: heldOutMost}, nil
	if picture == nil || err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(folder, train.Sheet), func(w io.Writer) error { return png.Encode(w, picture) })
}

// heldOutMost is how many held-out cases are drawn.
const heldOutMost = 8

// sheetIn reads the contact sheet in a run's folder; nil where there is none.
func sheetIn(folder string) (image.Image, error) {
	path := filepath.Join(folder, train.Sheet)
	data, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// predictionsPage is the page beside the label maps of a batch.
const predictionsPage = "predictions.html"

// addPrediction draws what was made of a scan: those first whose structures are in most pieces.
func addPrediction(sheet *report.Sheet, c quality.Case, scan *volume.Volume, labels *volume.LabelMap) error {
	whole, all := 0.0, 0.0
	for _, s := range c.Structures {
		whole, all = whole+s.Largest*s.Volume, all+s.Volume
	}
	text, value := "nothing found", 0.0
	if all > 0 {
		value = whole / all
		text = fmt.Sprintf("%.0f ml in all, %.1f %% of it in the largest component of its structure", all, 100*value)
	}
	return sheet.Add(c.ID, value, text, func() (image.Image, error) {
		o := errorSlices
		o.Window = report.UsualWindow(scan)
		return report.Overlay(scan, nil, []report.Segmented{{Labels: labels}}, o)
	})
}

// writePredictions writes the page on the scans that were segmented just now.
func writePredictions(folder string, of int, sheet *report.Sheet) error {
	if sheet.Seen() == 0 {
		return nil
	}
	page := report.Report{Title: "Predictions", Subtitle: fmt.Sprintf("%d of %d scans, segmented by voxsaw %s until %s",
		sheet.Seen(), of, voxsaw.Version(), time.Now().Format("2006-01-02 15:04"))}
	page.Sections = sheet.Section("Slices", "Those with the largest area of structures. Scans whose structures are in most pieces come first: they are worth a look; quality.csv measures all. Nothing here says how right the label maps are.")
	if err := writeFile(filepath.Join(folder, predictionsPage), page.HTML); err != nil {
		return err
	}
	return atomicfile.Seal(folder, predictionsPage)
}

func isDir(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.IsDir()
}

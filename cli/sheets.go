package cli

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/tensorboard"
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
func sheetOfPairs(pairs []pairing.Pair, scores []eval.Score, references string, o evaluateOptions,
	note func(string)) *report.Sheet {
	sheet := &report.Sheet{}
	byName := map[string]pairing.Pair{}
	for _, p := range pairs {
		byName[p.Name] = p
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

func drawPair(p pairing.Pair, images *scanFinder, o evaluateOptions) (image.Image, error) {
	var scans *dataset.Scans
	if o.Scans != "" {
		scans = dataset.ScansIn(o.Scans)
	}
	prediction, reference, _, err := p.Read(scans, o.Read)
	if err != nil {
		return nil, err
	}
	options := errorSlices
	options.Together = o.Metrics.Merge
	for _, text := range o.Metrics.Labels {
		// a name that the case does not know is not scored in it, which was said
		if label, err := eval.Find(text, prediction, reference); err == nil {
			options.Labels = append(options.Labels, label)
		}
	}
	scan := images.read(p.Name, reference.Grid, o.Read)
	if scan != nil {
		options.Window = report.UsualWindow(scan)
	}
	return report.Overlay(scan, reference, []report.Segmented{{Labels: prediction}}, options)
}

// scanFinder finds the scans of label maps, once one is asked for.
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
	draw   drawCase
	sheet  report.Sheet
	failed error
}

// drawCase draws what a network makes of a case.
type drawCase func(id string, prediction, reference *volume.LabelMap) (image.Image, error)

func newHeldOutSheet(draw drawCase) *heldOutSheet {
	return &heldOutSheet{draw: draw, sheet: report.Sheet{Most: heldOutMost}}
}

// onPrepared draws on a prepared case.
func onPrepared(store *prepared.Store) drawCase {
	return func(id string, prediction, reference *volume.LabelMap) (image.Image, error) {
		c, err := store.Open(id)
		if err != nil {
			return nil, err
		}
		scan, err := c.Volume()
		if err != nil {
			return nil, err
		}
		o := errorSlices
		how := store.Preparation()
		o.Window = report.Shown(how.Channel(0), c.Intensities(0))
		return report.Overlay(scan, reference, []report.Segmented{{Labels: prediction}}, o)
	}
}

func (h *heldOutSheet) add(id string, dsc float64, prediction, reference *volume.LabelMap) {
	err := h.sheet.Add(id, dsc, report.MeanDSC(dsc), func() (image.Image, error) {
		return h.draw(id, prediction, reference)
	})
	h.failed = errors.Join(h.failed, err)
}

func encodePNG(picture image.Image) (*tensorboard.PNG, error) {
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		return nil, err
	}
	return &tensorboard.PNG{Data: data.Bytes(), Size: picture.Bounds().Size()}, nil
}

// write writes the pictures of the validation after a step into the run's folder, of the cases that
// could be drawn, and begins the next one. It gives nil where there are none, and leaves the
// pictures of an earlier validation, which say so.
func (h *heldOutSheet) write(folder string, step int) (*tensorboard.PNG, error) {
	h.sheet.Title = fmt.Sprintf("validation at step %d", step)
	picture, failed := h.sheet.Image(), h.failed
	h.sheet, h.failed = report.Sheet{Most: heldOutMost}, nil
	if picture == nil {
		return nil, failed
	}
	file, err := encodePNG(picture)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	return file, errors.Join(failed, atomicfile.WriteBytes(filepath.Join(folder, train.Sheet), file.Data))
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

func isDir(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.IsDir()
}

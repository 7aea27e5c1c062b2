package triage

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/predict"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: what is left in a folder, for a person to go on with.

// Owner is whose files they are.
const Owner = "voxsaw next"

// Untouched makes sure that nobody has changed what an earlier run left in a folder: label maps
// that were corrected, say, are not written over.
func Untouched(dir string) error {
	names, err := outdir.Names(dir)
	if err == nil {
		_, err = atomicfile.Compare(dir, names...)
	}
	return err
}

// Write leaves the tables in a folder, and of the first so many cases a picture and the label map
// to correct, on the voxels of the scan.
func (r *Ranking) Write(ctx context.Context, dir string, count int) error {
	first := r.Cases[:min(count, len(r.Cases))]
	names := []string{"next.csv", quality.File}
	tables := []table.Table{r.Table(), r.Quality()}
	if !r.options.Drawn {
		names, tables = append(names, "calibration.csv"), append(tables, r.Calibration())
	}
	for _, k := range first {
		names = append(names, k.ID+".png", k.ID+".nii.gz")
	}
	release, err := outdir.Owner{Name: Owner, Files: names}.Enter(dir)
	if err != nil {
		return err
	}
	defer release()
	if err := Untouched(dir); err != nil {
		return err
	}
	// the tables first: they took the longest, and a picture must not cost them
	for n, t := range tables {
		if err := atomicfile.Write(filepath.Join(dir, names[n]), t.CSV); err != nil {
			return err
		}
	}
	var failed []error
	for _, k := range first {
		if err := r.writeCase(ctx, dir, k); err != nil {
			failed = append(failed, fmt.Errorf("case %s: %w", k.ID, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return atomicfile.Seal(dir, names...)
}

// writeCase writes the label map of a case, and a picture of the structure that is the most
// doubtful.
func (r *Ranking) writeCase(ctx context.Context, dir string, k Ranked) error {
	c, err := r.store.Open(k.ID)
	if err != nil {
		return err
	}
	network := r.options.Network
	var drawn, shown, whole *volume.LabelMap
	var extensions []nifti.Extension
	if r.options.Drawn {
		if drawn, _, err = r.drawn(k.ID); err == nil {
			whole, err = c.OriginalLabelMap()
		}
	} else if extensions, err = predict.Extension(predict.Own(network)); err == nil {
		whole, err = network.PredictOriginal(ctx, c)
	}
	if err == nil {
		err = nifti.WriteLabelsWith(filepath.Join(dir, k.ID+".nii.gz"), whole, extensions)
	}
	if err == nil && network != nil {
		shown, err = network.PredictCase(ctx, c)
	}
	if err != nil {
		return err
	}
	scan, err := c.Volume()
	if err != nil {
		return err
	}
	o := report.OverlayOptions{Window: report.Shown(r.store.Preparation().Channel(0), c.Intensities(0))}
	for _, one := range k.Structures {
		if len(k.Findings) > 0 && one.Key() == k.Findings[0].Key {
			o.Labels = []uint16{one.Label}
		}
	}
	title := k.ID
	if len(k.Findings) > 0 {
		title += ": " + k.Findings[0].String()
	}
	picture, err := report.Overlay(scan, drawn, []report.Segmented{{Title: title, Labels: shown}}, o)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, k.ID+".png"), func(w io.Writer) error { return png.Encode(w, picture) })
}

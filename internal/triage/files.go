package triage

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/predict"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
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

// AsScan is the format of label maps that is that of their scans: DICOM SEG where the scan is a
// DICOM series, NIfTI otherwise.
const AsScan = "scan"

// The extensions of label maps.
const niftiExt, segExt = ".nii.gz", ".dcm"

// files are the names of what a case has in the folder, and the series that its label map refers
// to; nil: it is a NIfTI file.
type files struct {
	picture, labels string
	series          *dicom.Series
	read            dicom.Options
}

// Write leaves the tables in a folder, and of the first so many cases a picture and the label map
// to correct, on the voxels of the scan, in the format [AsScan] or [predict.NIfTI]. What people
// should know of it is noted.
func (r *Ranking) Write(ctx context.Context, dir string, count int, format string, note func(string)) error {
	first := r.Cases[:min(count, len(r.Cases))]
	for n := range first {
		var err error
		if first[n].files, err = r.filesOf(first[n].ID, format); err != nil {
			note(fmt.Sprintf("WARNING: case %s: its label map is written as NIfTI, "+
				"for its DICOM series cannot be referred to: %v", first[n].ID, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	names := []string{"next.csv", quality.File}
	tables := []table.Table{r.Table(), r.Quality()}
	if !r.options.Drawn {
		known, err := r.Calibration()
		if err != nil {
			return err
		}
		names, tables = append(names, "calibration.csv"), append(tables, known)
	}
	for _, k := range first {
		names = append(names, k.files.picture, k.files.labels)
	}
	owner := outdir.Owner{Name: Owner, Files: names}
	release, err := owner.Hold(dir)
	if err != nil {
		return err
	}
	defer release()
	if err := Untouched(dir); err != nil {
		return err
	}
	written, err := owner.Listed(dir)
	if err != nil {
		return err
	}
	// the tables first: they took the longest, and a picture must not cost them
	for n, t := range tables {
		if err := atomicfile.Write(filepath.Join(dir, names[n]), t.CSV); err != nil {
			return err
		}
	}
	var failed []error
	for n, k := range first {
		err := r.writeCase(ctx, dir, k, note)
		if err == nil { // each at once: what is listed and was changed is not written over
			err = atomicfile.Seal(dir, k.files.labels, k.files.picture)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("case %s: %w", k.ID, err))
		}
		if stopped := ctx.Err(); stopped != nil && (err != nil || n+1 < len(first)) {
			return fmt.Errorf("stopped: the tables in %s are whole, label maps and pictures are there of %d of %s: %w",
				dir, n+1-len(failed), numbers.Count(len(first), "case"), stopped)
		}
	}
	if err := removeEarlier(dir, written, names, note); err != nil {
		failed = append(failed, err)
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return atomicfile.Seal(dir, names...)
}

// removeEarlier removes the label maps and pictures of an earlier ranking that are not of this one,
// or in another format, so that nobody corrects, and prepare does not take, what no longer counts.
// Nobody has changed those whose digests are known: [Untouched]. Others stay, which is noted.
func removeEarlier(dir string, written, now []string, note func(string)) error {
	earlier := slices.DeleteFunc(slices.Clone(written), func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err != nil || slices.Contains(now, name) || filepath.Ext(name) == ".csv"
	})
	if len(earlier) == 0 {
		return nil
	}
	known, err := atomicfile.Compare(dir, earlier...)
	if err != nil {
		return err
	}
	for _, name := range earlier {
		if !slices.Contains(known, name) {
			note(fmt.Sprintf("WARNING: %s is of an earlier ranking that was interrupted, and may have been corrected: "+
				"it stays", filepath.Join(dir, name)))
		}
	}
	if len(known) == 0 {
		return nil
	}
	return atomicfile.RemoveFrom(dir, known...)
}

// filesOf says what is written of a case. An error says why its label map is no DICOM SEG object,
// though its scan is a series.
func (r *Ranking) filesOf(id, format string) (f files, err error) {
	f = files{picture: id + ".png", labels: id + niftiExt}
	if format == predict.NIfTI {
		return f, nil
	}
	record, _ := r.store.Record(id)
	if f.series, f.read, err = dataset.SeriesOf(record); f.series != nil {
		f.labels = id + segExt
	}
	return f, err
}

// writeCase writes the label map of a case, and its picture.
func (r *Ranking) writeCase(ctx context.Context, dir string, k Ranked, note func(string)) error {
	c, err := r.store.Open(k.ID)
	if err != nil {
		return err
	}
	if err := r.writeLabels(ctx, filepath.Join(dir, k.files.labels), k, c, note); err != nil {
		return err
	}
	picture, err := r.draw(ctx, k, c)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, k.files.picture),
		func(w io.Writer) error { return png.Encode(w, picture) })
}

// writeLabels writes the label map to correct: what people drew, or what the network makes of the
// scan, which then says so.
func (r *Ranking) writeLabels(ctx context.Context, path string, k Ranked, c *prepared.Case, note func(string)) error {
	network, drawn := r.options.Network, r.options.Drawn
	var whole *volume.LabelMap
	var extensions []nifti.Extension
	var err error
	o := dicom.WriteOptions{Algorithm: "Voxsaw", Version: voxsaw.Version(), Read: k.files.read, Manual: drawn}
	if drawn {
		for label := range r.store.LabelNames() { // also those that have no voxel here
			if !slices.Contains(c.Undrawn, label) {
				o.Labels = append(o.Labels, label)
			}
		}
		whole, err = c.OriginalLabelMap()
	} else {
		o.Labels = network.Labels()
		if o.Parameters, err = predict.Parameters(predict.Own(network)); err != nil {
			return err
		}
		if extensions, err = predict.Extension(predict.Own(network)); err != nil {
			return err
		}
		whole, err = network.PredictOriginal(ctx, c)
	}
	if err != nil {
		return err
	}
	return keepingEarlier(path, note, func() error {
		if k.files.series != nil {
			return dicom.WriteSegmentation(path, whole, k.files.series, o)
		}
		var scan *nifti.Header
		if record, _ := r.store.Record(k.ID); len(record.Sources) > 0 {
			scan = nifti.HeaderOf(record.Sources[0].Path)
		}
		return nifti.WriteLabelsWith(path, whole, scan, extensions)
	})
}

// keepingEarlier writes a label map. One that lies there already, and of which nobody knows whether
// it is as a run has left it, for that run was killed before it said so, may have been corrected: a
// copy is kept in a folder beside, which prepare does not read with this one, unless the new label
// map is the same.
func keepingEarlier(path string, note func(string), write func() error) error {
	dir, name := filepath.Split(path)
	sums, err := atomicfile.Sums(dir)
	if err != nil {
		return err
	}
	before, err := atomicfile.SHA256(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && sums[name] != "" {
		return write()
	}
	if err != nil {
		return err
	}
	beside, err := copyBeside(path, before)
	if err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	now, err := atomicfile.SHA256(path)
	if err != nil {
		return err
	}
	if now == before {
		err := os.Remove(beside)
		os.Remove(filepath.Dir(beside)) // if nothing else is there
		return err
	}
	note(fmt.Sprintf("WARNING: %s was there already, of a run that was killed, and may have been corrected: it is "+
		"kept as %s", path, beside))
	return nil
}

// copyBeside copies a file with that digest into the folder beside its own, where no other gives
// way to it.
func copyBeside(path, digest string) (beside string, err error) {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	folder += ".earlier"
	if err := atomicfile.MakeFolder(folder); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		beside = filepath.Join(folder, filepath.Base(path))
		if n > 1 {
			beside = filepath.Join(folder, fmt.Sprintf("%d_%s", n, filepath.Base(path)))
		}
		there, err := atomicfile.SHA256(beside)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil || there == digest {
			return beside, err
		}
	}
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer from.Close()
	return beside, atomicfile.Write(beside, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// draw is a picture of the most doubtful structure, on the slices where label maps differ most: the
// drawn one from the network's, or the compared ones from each other. Where there is only one map,
// it shows the slices where the structure is largest.
func (r *Ranking) draw(ctx context.Context, k Ranked, c *prepared.Case) (image.Image, error) {
	scan, err := c.Volume()
	if err != nil {
		return nil, err
	}
	o := report.OverlayOptions{Errors: true, Window: report.Shown(r.store.Preparation().Channel(0), c.Intensities(0))}
	title := k.ID
	if len(k.Findings) > 0 {
		title += ": " + k.Findings[0].String()
		for _, one := range k.Structures {
			if one.Key() == k.Findings[0].Key {
				o.Labels = []uint16{one.Label}
			}
		}
	}
	network := r.options.Network
	var drawn *volume.LabelMap
	if r.options.Drawn {
		if drawn, _, err = r.drawn(k.ID); err != nil {
			return nil, err
		}
	}
	rows := []report.Segmented{{Title: title}}
	switch {
	case network != nil && drawn == nil && network.CanAgree() == nil:
		all, err := network.Opinions(ctx, c)
		if err != nil {
			return nil, err
		}
		rows = nil
		for n, l := range all {
			rows = append(rows, report.Segmented{Title: fmt.Sprintf("label map %d of %d", n+1, len(all)), Labels: l})
		}
		rows[0].Title = title + ", " + rows[0].Title
	case network != nil:
		if rows[0].Labels, err = network.PredictCase(ctx, c); err != nil {
			return nil, err
		}
	}
	return report.Overlay(scan, drawn, rows, o)
}

package prepared

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: the labels as they lie on the voxels of the scan, which predictions are scored on.
// Where the scan was only turned, they are the prepared labels turned back. Where it was resampled,
// the prepared labels have lost detail: then they are kept beside them, as runs of one label in the
// order of the voxels, each its label and its length as unsigned varints (encoding/binary).

// keepsOriginal reports whether the labels of a case are kept on the scan's voxels, too.
func keepsOriginal(prepared, original volume.Grid, hasLabels bool) bool {
	if !hasLabels {
		return false
	}
	turned, err := original.Oriented(prepared.Axcodes())
	return err != nil || turned.Shape != prepared.Shape || !turned.Same(prepared, 1e-6)
}

// Restoration is the way from the prepared voxels back onto those of the scan.
func (c *Case) Restoration() (*volume.Restoration, error) {
	r, err := c.preparation.Restoration(c.Bounds())
	if err == nil && r.Prepared.Shape != c.Shape {
		err = fmt.Errorf("%v voxels, where the scan is prepared to %v: run voxsaw prepare again",
			numbers.Extents(c.Shape[:]), numbers.Extents(r.Prepared.Shape[:]))
	}
	return r, err
}

// OriginalLabelMap reads all labels on the voxels of the scan that the case was prepared from,
// merged and dropped as the preparation says; nil where the case has none.
func (c *Case) OriginalLabelMap() (l *volume.LabelMap, err error) {
	if !c.HasLabels {
		return nil, nil
	}
	if !keepsOriginal(c.Grid, c.Original, true) {
		l, err := c.LabelMap()
		if err != nil {
			return nil, err
		}
		return c.preparation.Restore(l, c.Bounds())
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return nil, err
	}
	defer end()
	l = &volume.LabelMap{Grid: c.Original, Labels: make([]uint16, c.Original.Len()), Names: maps.Clone(c.LabelNames),
		Undrawn: slices.Clone(c.Undrawn), Emptied: slices.Clone(c.Emptied)}
	if err := decodeRuns(l.Labels, v.bytes[v.layout.original:v.layout.end]); err != nil {
		return nil, fmt.Errorf("case %s: the labels on the scan's voxels: %w: run voxsaw prepare again", c.ID, err)
	}
	return l, nil
}

// encodeRuns is the inverse of decodeRuns.
func encodeRuns(labels []uint16) (out []byte) {
	for from := 0; from < len(labels); {
		to := from + 1
		for to < len(labels) && labels[to] == labels[from] {
			to++
		}
		out = binary.AppendUvarint(out, uint64(labels[from]))
		out = binary.AppendUvarint(out, uint64(to-from))
		from = to
	}
	return out
}

var errRuns = errors.New("they are damaged")

// decodeRuns fills labels from runs, which must be as long as these.
func decodeRuns(labels []uint16, runs []byte) error {
	next := func() (uint64, error) {
		x, n := binary.Uvarint(runs)
		if n <= 0 {
			return 0, io.ErrUnexpectedEOF
		}
		runs = runs[n:]
		return x, nil
	}
	for len(labels) > 0 {
		label, err := next()
		if err != nil || label > 0xffff {
			return errRuns
		}
		length, err := next()
		if err != nil || length == 0 || length > uint64(len(labels)) {
			return errRuns
		}
		for n := range labels[:length] {
			labels[n] = uint16(label)
		}
		labels = labels[length:]
	}
	if len(runs) > 0 {
		return errRuns
	}
	return nil
}

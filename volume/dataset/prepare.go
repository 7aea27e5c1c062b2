package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// PrepareOptions say how [Prepare] works.
type PrepareOptions struct {
	Workers int `yaml:"workers" help:"cases prepared at once; 0: one a core"`
	// Memory is the bytes that the cases prepared at once may take together; one that needs more
	// alone fails. 0: 4 GiB, or what this process may take where that is less; a case that needs
	// more than that is prepared alone, and fails where it needs more than this process may take.
	Memory int64       `yaml:"-"`
	Part   string      `yaml:"part" help:"prepare this part of the cases only, such as 3/16 for the third of 16: parts may run at once, on one machine or on many that share the folder, and the last of them finishes it"`
	Merge  bool        `yaml:"merge" help:"finish a folder whose parts have all been prepared"`
	Strict bool        `yaml:"strict" help:"stop at the first case that cannot be prepared"`
	Force  bool        `yaml:"force" help:"remove prepared cases in the folder that are of other scans than these, and replace those that were prepared with other settings, or that would lose labels, structures or their image"`
	Read   ReadOptions `yaml:",inline"`

	allowed int64 // bytes that one case may take
}

// DefaultPrepareOptions goes on after a bad file.
func DefaultPrepareOptions() PrepareOptions { return PrepareOptions{Read: DefaultReadOptions()} }

// Prepare turns the cases of a data set into a store in dir; see package prepared. Cases that an
// earlier run prepared with the same settings from the same files are kept. A spacing that is yet
// to be chosen is that of [Dataset.ChooseSpacing]. Each result is passed to progress (which may be
// nil), one at a time, in no particular order.
//
// Prepared cases in dir that are not of this data set are an [OthersError], those that were
// prepared with other settings are a [SettingsError], and those that would lose labels, structures
// or their image are a [LossError], unless o.Force says that they are to be removed. If some cases
// cannot be prepared, the others are all the same. The store holds these, and of the failed ones
// what an earlier run prepared with the same settings; the error counts and names the failed ones.
// A case without foreground is prepared like any other. When ctx ends, the cases finished so far
// stay for the next run. An earlier store stays as it was until one of its cases is replaced; from
// then on there is none until a run ends well. The same holds when the machine fails: its disk is
// full or cannot be read, or there are too many open files.
func Prepare(ctx context.Context, d *Dataset, dir string, p volume.Preparation, o PrepareOptions,
	progress func(Result)) (*Summary, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := d.checkNames(); err != nil {
		return nil, err
	}
	part, err := ParsePart(o.Part)
	if err == nil {
		d, p, _, err = d.ChooseModality(p, o)
	}
	if err == nil {
		p, _, err = d.ChooseSpacing(dir, p, o.Force)
	}
	if err == nil {
		p, err = d.chooseForeground(ctx, dir, p, o)
	}
	if err != nil {
		return nil, err
	}
	summary, err := d.prepare(ctx, dir, part, p, o, progress)
	if summary != nil {
		summary.Preparation = p
	}
	return summary, err
}

// prepare is Prepare by a preparation that says all.
func (d *Dataset) prepare(ctx context.Context, dir string, part Part, p volume.Preparation, o PrepareOptions,
	progress func(Result)) (*Summary, error) {
	switch {
	case part.Of > 0 && o.Merge:
		return nil, errors.New("a part is prepared, or all are merged: choose one")
	case part.Of > 0:
		return d.preparePart(ctx, dir, part, p, o, progress)
	case o.Merge:
		return d.mergeParts(dir, p, o)
	}
	var w *prepared.Writer
	release, err := outdir.Hold(dir, func() (err error) { w, err = prepared.NewWriter(dir, p); return err })
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	defer release()
	if !o.Force {
		if err := d.checkEarlier(w, dir, p); err != nil {
			return nil, err
		}
	}
	summary, err := newPreparer(d, w, p, o).run(ctx, d.Cases, progress)
	if err == nil && summary.Prepared+summary.Kept > 0 {
		if err = summary.finish(d, w, p); err == nil {
			err = removeParts(dir)
		}
	}
	if standing := w.Standing(); atomicfile.OfMachine(err) && standing != "" {
		err = fmt.Errorf("%w; %s", err, standing)
	}
	if err != nil {
		return summary, fmt.Errorf("preparing %s: %w", d.Root, err)
	}
	return summary, summary.failure(d)
}

// complete checks the options and fills in what is not said.
func (o PrepareOptions) complete() (PrepareOptions, error) {
	if err := o.Read.check(); err != nil {
		return o, err
	}
	// A default that is given and one that is left out are the same way of reading.
	usual := DefaultReadOptions()
	o.Read = ReadOptions{
		cmp.Or(o.Read.Tilt, usual.Tilt), cmp.Or(o.Read.Gaps, usual.Gaps), cmp.Or(o.Read.Shear, usual.Shear),
		cmp.Or(o.Read.Overlap, usual.Overlap),
		cmp.Or(o.Read.LabelsBy, usual.LabelsBy), cmp.Or(o.Read.Flips, usual.Flips),
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.allowed = o.Memory; o.Memory <= 0 {
		o.allowed = memory.Allowed()
		o.Memory = min(4<<30, o.allowed)
	}
	return o, nil
}

// Package prepare makes a store of prepared cases from a data set.
//
// Start at [Run], which prepares the cases of a [dataset.Dataset] into a folder: it reads each by
// package dataset, brings it to the grid and intensities of a [volume.Preparation], and adds it to
// the folder's [prepared.Writer]. What an earlier run prepared is kept (cases.go), or refused where
// it would be lost (losses.go); several processes may prepare parts of one set (parts.go); a
// [Summary] says what became of all, and what is odd about them together (summary.go, labels.go,
// resampled.go).
//
// It leaves out how cases are found and read, and the store's format.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Options say how [Run] works.
type Options struct {
	// cases prepared at once; 0: one a core
	Workers int `yaml:"workers" most:"4096"`
	// Memory is the bytes that the cases prepared at once may take together; one that needs more
	// alone fails. 0: 4 GiB, or what this process may take where that is less; a case that needs
	// more than that is prepared alone, and fails where it needs more than this process may take.
	Memory int64 `yaml:"-"`
	// prepare this part of the cases only, such as 3/16 for the third of 16: parts may run at once,
	// on one machine or on many that share the folder, and the last of them finishes it
	Part string `yaml:"part"`
	// finish a folder whose parts have all been prepared
	Merge bool `yaml:"merge"`
	// stop at the first case that cannot be prepared
	Strict bool `yaml:"strict"`
	// end well though cases cannot be prepared, which are named, as long as this share of all
	// cases, and of those with labels, is, and none is missing for want of memory; 0: all must be
	LeastShare float64 `yaml:"least_share" range:"[0,1]"`
	// remove prepared cases in the folder that are of other scans than these, and replace those
	// that were prepared with other settings, or that would lose labels, structures or their image
	Force bool                `yaml:"force"`
	Read  dataset.ReadOptions `yaml:",inline"`

	allowed int64 // bytes that one case may take
}

// DefaultOptions goes on after a bad file.
func DefaultOptions() Options { return Options{Read: dataset.DefaultReadOptions()} }

// Run turns the cases of a data set into a store in dir; see package prepared. Cases that an
// earlier run prepared with the same settings from the same files are kept. A spacing that is yet
// to be chosen is that of [dataset.Dataset.ChooseSpacing]. Each result is passed to progress (which
// may be nil), one at a time, in no particular order.
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
func Run(ctx context.Context, d *dataset.Dataset, dir string, p volume.Preparation, o Options,
	progress func(Result)) (*Summary, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := d.CheckNames(); err != nil {
		return nil, err
	}
	part, err := dataset.ParsePart(o.Part)
	if err == nil {
		d, p, _, err = d.ChooseModality(p, o.Read, o.allowed)
		p = p.WithMasks()
	}
	if err == nil {
		p, _, err = d.ChooseSpacing(dir, p, o.Force)
	}
	if err == nil {
		p, err = chooseForeground(ctx, d, dir, p, o)
	}
	if err != nil {
		return nil, err
	}
	summary, err := job{d, dir, p, o, progress}.run(ctx, part)
	if summary != nil {
		summary.Preparation = p
	}
	return summary, err
}

// A job is a data set and how it is to be prepared, with nothing left to choose.
type job struct {
	set         *dataset.Dataset
	dir         string
	preparation volume.Preparation
	options     Options
	progress    func(Result) // may be nil
}

// run prepares all cases, or a part of them, or merges the parts.
func (j job) run(ctx context.Context, part dataset.Part) (*Summary, error) {
	switch {
	case part.Of > 0 && j.options.Merge:
		return nil, errors.New("a part is prepared, or all are merged: choose one")
	case part.Of > 0:
		return j.preparePart(ctx, part)
	case j.options.Merge:
		return j.mergeParts()
	}
	var w *prepared.Writer
	release, err := outdir.Hold(j.dir,
		func() (err error) { w, err = prepared.NewWriter(j.dir, j.preparation); return err })
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", j.set.Root, err)
	}
	defer release()
	if !j.options.Force {
		if err := j.checkEarlier(w); err != nil {
			return nil, err
		}
	}
	summary, err := newPreparer(j, w).run(ctx, j.set.Cases)
	if err == nil && summary.Prepared+summary.Kept > 0 {
		if err = summary.finish(j, w); err == nil {
			err = removeParts(j.dir)
		}
	}
	if standing := w.Standing(); atomicfile.OfMachine(err) && standing != "" {
		err = fmt.Errorf("%w; %s", err, standing)
	}
	if err != nil {
		return summary, fmt.Errorf("preparing %s: %w", j.set.Root, err)
	}
	return summary, summary.failure(j)
}

// complete checks the options and fills in what is not said.
func (o Options) complete() (Options, error) {
	var err error
	if o.Read, err = o.Read.Complete(); err != nil {
		return o, err
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

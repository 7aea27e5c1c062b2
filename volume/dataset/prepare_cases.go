package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
	"golang.org/x/sync/errgroup"
)

// This file: cases are prepared, several at once.

// preparer prepares the cases of a data set, several at once.
type preparer struct {
	dataset     *Dataset
	writer      *prepared.Writer
	preparation volume.Preparation
	options     PrepareOptions
	memory      *memory.Budget // that the cases at work share
	sources     *sources
}

func newPreparer(d *Dataset, w *prepared.Writer, p volume.Preparation, o PrepareOptions) *preparer {
	return &preparer{
		dataset: d, writer: w, preparation: p, options: o,
		memory:  memory.NewBudget(o.allowed, o.Memory),
		sources: &sources{known: map[string]func() (prepared.Source, error){}},
	}
}

// run prepares cases of the data set. It goes on where one fails, unless the options or the machine
// forbid it.
func (p *preparer) run(ctx context.Context, cases []Case, progress func(Result)) (*Summary, error) {
	var mutex sync.Mutex
	summary := &Summary{}
	report := func(r Result) {
		mutex.Lock()
		defer mutex.Unlock()
		summary.add(r)
		if progress != nil {
			progress(r)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.options.Workers)
	for _, c := range cases {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r := p.prepare(ctx, c)
			if ctx.Err() != nil && errors.Is(r.Err, ctx.Err()) {
				return r.Err
			}
			if r.Err != nil {
				r.Record, r.Kept = p.writer.Retain(c.ID, c.Group)
			}
			report(r)
			if r.Err != nil && (p.options.Strict || atomicfile.OfMachine(r.Err)) {
				return fmt.Errorf("case %s: %w", c.ID, r.Err)
			}
			return nil
		})
	}
	err := group.Wait()
	slices.Sort(summary.Empty)
	slices.SortFunc(summary.Failed, func(a, b Result) int { return compareNatural(a.Case.ID, b.Case.ID) })
	return summary, err
}

// prepare prepares a case, unless an earlier run has done so.
func (p *preparer) prepare(ctx context.Context, c Case) (r Result) {
	r.Case = c
	paths, origin, err := c.origin(p.options.Read)
	if err != nil {
		r.Err = err
		return r
	}
	in, err := c.input(p.preparation, origin)
	if err != nil {
		r.Err = err
		return r
	}
	if r.Record, r.Kept = p.writer.Keep(in, paths); r.Kept {
		return r
	}
	c = c.located()
	need, known := c.memory(p.preparation)
	if !known {
		need = min(need, p.options.Memory)
	}
	release, err := p.memory.Take(ctx, need)
	if err != nil {
		r.Err = c.tooLarge(err)
		return r
	}
	defer release()
	for _, path := range paths { // before reading, so that a change meanwhile is noticed
		source, err := p.sources.of(path)
		if err != nil {
			r.Err = err
			return r
		}
		in.Sources = append(in.Sources, source)
	}
	c.seenFlips = &flipEvidence{}
	r.flips = c.seenFlips
	if in.Image, in.Labels, in.Notes, r.Err = c.Read(p.options.Read, p.dataset.LabelNames); r.Err != nil {
		return r
	}
	more, notes, err := c.ReadMore(in.Image.Grid, p.options.Read)
	if err != nil {
		r.Err = err
		return r
	}
	in.More, in.Notes = more, append(in.Notes, notes...)
	if !p.dataset.said {
		if err := c.CheckModality(in.Image, p.preparation.ModalityName()); err != nil {
			r.Err = fmt.Errorf("%s %w: --modality says what all of these scans are", c.Image, err)
			return r
		}
	}
	if r.Err = ctx.Err(); r.Err != nil {
		return r
	}
	if note := emptiedNote(in.Labels); note != "" {
		in.Notes = append(in.Notes, note)
	}
	r.Record, r.Err = p.writer.Add(in)
	return r
}

// sources are read once, though a folder may hold many cases.
type sources struct {
	mutex sync.Mutex
	known map[string]func() (prepared.Source, error)
}

func (s *sources) of(path string) (prepared.Source, error) {
	s.mutex.Lock()
	look := s.known[path]
	if look == nil {
		look = sync.OnceValues(func() (prepared.Source, error) { return prepared.NewSource(path) })
		s.known[path] = look
	}
	s.mutex.Unlock()
	return look()
}

package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: cases are prepared, several at once.

// preparer prepares the cases of a data set, several at once.
type preparer struct {
	job
	writer  *prepared.Writer
	memory  *memory.Budget // that the cases at work share
	sources *sources
}

func newPreparer(j job, w *prepared.Writer) *preparer {
	return &preparer{
		job: j, writer: w,
		memory:  memory.NewBudget(j.options.allowed, j.options.Memory),
		sources: &sources{known: map[string]func() (prepared.Source, error){}},
	}
}

// run prepares cases of the data set. It goes on where one fails, unless the options or the machine
// forbid it.
func (p *preparer) run(ctx context.Context, cases []dataset.Case) (*Summary, error) {
	var mutex sync.Mutex
	summary := &Summary{}
	report := func(r Result) {
		mutex.Lock()
		defer mutex.Unlock()
		summary.add(r)
		if p.progress != nil {
			p.progress(r)
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
				if r.named {
					return r.Err
				}
				return fmt.Errorf("case %s: %w", c.ID, r.Err)
			}
			return nil
		})
	}
	err := group.Wait()
	slices.Sort(summary.Empty)
	slices.SortFunc(summary.Failed, func(a, b Result) int { return numbers.CompareNatural(a.Case.ID, b.Case.ID) })
	return summary, err
}

// prepare prepares a case, unless an earlier run has done so.
func (p *preparer) prepare(ctx context.Context, c dataset.Case) (r Result) {
	r.Case = c
	in, paths, err := c.Input(p.preparation, p.options.Read, p.set.LabelNames)
	if err != nil {
		r.Err = err
		return r
	}
	if r.Record, r.Kept = p.writer.Keep(in, paths); r.Kept {
		return r
	}
	c = c.Located()
	need, known := c.Memory(p.preparation)
	if !known {
		need = min(need, p.options.Memory)
	}
	release, err := p.memory.Take(ctx, need)
	if err != nil {
		r.Err = c.TooLarge(err)
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
	r.flips = c.SeeFlips()
	if in.Image, in.Labels, in.Notes, r.Err = c.Read(p.options.Read, p.set.LabelNames); r.Err != nil {
		return r
	}
	more, notes, err := c.ReadMore(in.Image.Grid, p.options.Read)
	if err != nil {
		r.Err = err
		return r
	}
	in.More, in.Notes = more, append(in.Notes, notes...)
	r.Err = p.set.CheckModality(c, p.preparation, append([]*volume.Volume{in.Image}, more...)...)
	if r.Err != nil {
		return r
	}
	if r.Err = ctx.Err(); r.Err != nil {
		return r
	}
	if note := emptiedNote(in.Labels); note != "" {
		in.Notes = append(in.Notes, note)
	}
	r.Record, r.Err = p.writer.Add(in)
	r.named = r.Err != nil
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

// emptiedNote names structures that were drawn and have lost all their voxels to others; "" where
// none has.
func emptiedNote(l *volume.LabelMap) string {
	if l == nil || len(l.Emptied) == 0 {
		return ""
	}
	var names []string
	for _, label := range l.Emptied {
		names = append(names, cmp.Or(l.Names[label], fmt.Sprintf("label %d", label)))
	}
	return "WARNING: emptied, because others have all their voxels (--segment-overlap): " + safetext.List(names) +
		". They were drawn, and are neither absent nor undrawn"
}

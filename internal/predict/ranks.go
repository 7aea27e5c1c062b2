package predict

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/voxsaw/voxsaw/internal/quality"
)

// This file: a batch whose scans are shared out. Parts know nothing of each other: each makes its
// label maps, and the same batch without a part passes these over and tells of all. Of ranks, each
// segments its own scans of the batch, or of the part, and writes their files; at the end all know
// what became of all.

// mine says whether this rank segments scan n.
func (b *Batch) mine(n int) bool {
	if !b.options.Part.Has(n) {
		return false
	}
	r := b.options.Ranks
	return r == nil || n/max(b.options.Part.Of, 1)%r.Size() == r.Rank()
}

// whole says whether the batch is no part of another.
func (b *Batch) whole() bool { return b.options.Part.Of == 0 }

// total is how many scans there are for all ranks.
func (b *Batch) total() int { return b.options.Part.Len(len(b.scans)) }

// checkPart refuses what a part cannot do, since it writes nothing that tells of all scans.
func (b *Batch) checkPart() error {
	switch {
	case b.whole():
		return nil
	case b.options.Known != nil:
		return refuse("leave --calibration out; the same command without --part, once all parts are done, takes it",
			"--part %s: --calibration is for quality.csv, which tells of all scans and no part writes", b.options.Part)
	case b.options.Maps.Agreement && b.options.Format != NIfTI:
		return refuse("leave --part or --agreement out",
			"--part %s: files of --format %s have no room for --agreement, and quality.csv, which has, tells of all "+
				"scans and no part writes", b.options.Part, b.options.Format)
	}
	return nil
}

// sayPart says what a part leaves out.
func (b *Batch) sayPart(watch Observer) {
	if b.table() == "" {
		return
	}
	if b.total() == 0 {
		watch.Note(fmt.Sprintf("nothing is in part %s: there are fewer scans than parts", b.options.Part))
		return
	}
	watch.Note(fmt.Sprintf("part %s: %s and %s tell of all scans: the same command without --part writes them, once "+
		"all parts are done", b.options.Part, quality.File, pageFile))
}

// An outcome is what one rank has done.
type outcome struct {
	Done    int       `json:"done"`    // scans, failed ones included
	Stopped bool      `json:"stopped"` // by its context
	Machine bool      `json:"machine"` // stopped by a failure of the machine
	Written []string  `json:"written"` // label maps
	Failed  []failure `json:"failed"`

	Cases  map[int]quality.Case `json:"cases"`  // by their scans
	Learnt map[int]lesson       `json:"learnt"` // by their scans
	Notes  []string             `json:"notes"`  // of ranks that nobody hears
}

// A failure is a scan that could not be segmented.
type failure struct {
	Scan    int    `json:"scan"`
	Message string `json:"message"`
	err     error  // where it happened
}

// together gives every rank the outcome of all, and tells the observer of those of the others.
func (b *Batch) together(own outcome, watch Observer) (outcome, error) {
	r := b.options.Ranks
	if r == nil {
		return own, nil
	}
	data, err := json.Marshal(own)
	if err != nil {
		return own, err
	}
	all, err := r.Gather(data)
	if err != nil {
		return own, err
	}
	own.Learnt = maps.Clone(own.Learnt)
	if own.Learnt == nil {
		own.Learnt = map[int]lesson{}
	}
	for rank, data := range all {
		if rank == r.Rank() {
			continue
		}
		var other outcome
		if err := json.Unmarshal(data, &other); err != nil {
			return own, fmt.Errorf("what %s has done: %w", r.Name(rank), err)
		}
		for _, path := range other.Written {
			if _, err := os.Stat(path); err != nil {
				return own,
					fmt.Errorf("%s, which %s has written, is not here: --out must be a folder that all ranks share",
						path, r.Name(rank))
			}
		}
		for i, f := range other.Failed {
			other.Failed[i].err = errors.New(f.Message)
			watch.Note(f.Message)
		}
		for _, note := range other.Notes {
			watch.Note(note)
		}
		watch.Elsewhere(other.Written)
		maps.Copy(own.Cases, other.Cases)
		maps.Copy(own.Learnt, other.Learnt)
		own.Machine = own.Machine || other.Machine
		own.Done, own.Stopped, own.Failed = own.Done+other.Done, own.Stopped ||
			other.Stopped, append(own.Failed, other.Failed...)
	}
	slices.SortFunc(own.Failed, func(x, y failure) int { return x.Scan - y.Scan })
	return own, nil
}

// facts are what all ranks must have alike.
func (b *Batch) facts(made origin) (map[string]string, error) {
	how, err := made.text(1 << 20)
	if err != nil {
		return nil, err
	}
	scans := sha256.New()
	for n, c := range b.scans {
		fmt.Fprintln(scans, c.ID, c.Image, c.Series, b.targets[n])
	}
	return map[string]string{
		"settings": how, // and the version, and which checkpoints
		"scans":    fmt.Sprintf("%d, digest %.16x", len(b.scans), scans.Sum(nil)),
		"part":     b.options.Part.String(),
	}, nil
}

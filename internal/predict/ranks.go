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

// This file: a batch whose scans are shared out among ranks. Each rank segments its own and writes
// their files; at the end all know what became of all.

// mine says whether this rank segments scan n.
func (b *Batch) mine(n int) bool {
	r := b.options.Ranks
	return r == nil || n%r.Size() == r.Rank()
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
	}, nil
}

// Package pace times trainings on a user's prepared cases: a few steps of each verb, to say how
// many fit into the time that there is.
//
// Start at [Try], for a training that is about to begin, and at [Machine], for a plan. What single
// networks and operators take is package bench's.
package pace

import (
	"context"
	"time"

	"github.com/voxsaw/voxsaw"
)

// timeEnough is the time after which few steps are enough.
const timeEnough = 10 * time.Second

// stopwatch times the steps of a training and ends it when it knows enough.
type stopwatch struct {
	at      []time.Duration // the end of each step
	enough  context.CancelFunc
	stepped func()
	least   int           // steps that are timed
	most    int           // which are enough, however short they are; 0: none are
	long    time.Duration // after which so many are enough
}

func (s *stopwatch) Started(int, int)                       {}
func (s *stopwatch) Validated(int, voxsaw.Validation, bool) {}
func (s *stopwatch) Saved(string, int)                      {}
func (s *stopwatch) Note(string)                            {}

func (s *stopwatch) Stepped(p voxsaw.Progress) {
	s.at = append(s.at, p.Elapsed)
	s.stepped()
	if len(s.at) >= s.least && p.Elapsed > s.long || len(s.at) == s.most {
		s.enough()
	}
}

// mean is that of the later half of the steps, for which no data lay ready from before the first
// one, and how many these are.
func (s *stopwatch) mean() (time.Duration, int) {
	last := len(s.at) - 1
	if last < 1 {
		return 0, 0
	}
	from := last / 2
	return (s.at[last] - s.at[from]) / time.Duration(last-from), last - from
}

package solver

import (
	"encoding/binary"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// An End says why an iteration ended.
type End int

// The ends. A network that has no answer but the one it got is at rest; one that is back at an
// arrangement it had before would go in circles for ever.
const (
	Going   End = iota // it has not ended
	Resting            // the last answer moved no patch
	Cycling            // the patches lie as they did before an earlier round
	Stopped            // the rounds ran out
)

func (e End) String() string { return [...]string{"going", "resting", "cycling", "stopped"}[e] }

// An Iteration is the state of one puzzle that is solved, re-arranged and looked at again (Wei et
// al. 2019, section 3.3). It never sees the truth: what it keeps is where the patches of the first
// arrangement have gone.
type Iteration struct {
	// Circles says that a puzzle that goes in circles is played on.
	Circles bool

	now puzzle.Configuration // now[s] is the slot in which the patch in slot s lay at first
	// answer[s] is the position at which the patch that lay in slot s at first is now
	answer puzzle.Configuration
	seen   map[string]struct{}
	rounds int // left
	end    End
	key    []byte
}

// NewIteration starts with n patches as they lie and at most so many rounds.
func NewIteration(n, rounds int) *Iteration {
	it := &Iteration{now: puzzle.Identity(n), answer: puzzle.Identity(n), seen: map[string]struct{}{}, rounds: rounds}
	if rounds < 1 {
		it.end = Stopped
	}
	it.visit()
	return it
}

// visit says whether the arrangement is new, and remembers it.
func (it *Iteration) visit() bool {
	it.key = it.key[:0]
	for _, s := range it.now {
		it.key = binary.LittleEndian.AppendUint16(it.key, uint16(s))
	}
	_, seen := it.seen[string(it.key)]
	it.seen[string(it.key)] = struct{}{}
	return !seen
}

// Arrangement is what lies where: element s is the slot in which the patch that is now in slot s
// lay at first. It is overwritten by Move.
func (it *Iteration) Arrangement() puzzle.Configuration { return it.now }

// Answer is where all moves so far have put the patch that lay in slot s at first: an answer to the
// puzzle as it was given.
func (it *Iteration) Answer() puzzle.Configuration { return it.answer }

// End says whether and why the iteration has ended.
func (it *Iteration) End() End { return it.end }

// Move re-arranges the patches by the answer of one round: the patch in slot s goes to slot
// step[s]. After the end it does nothing.
func (it *Iteration) Move(step puzzle.Configuration) {
	if it.end != Going {
		return
	}
	it.rounds--
	if step.Solved() {
		it.end = Resting
		return
	}
	copy(it.now, it.now.Rearranged(step))
	for s, first := range it.now {
		it.answer[first] = s
	}
	switch {
	case !it.visit() && !it.Circles:
		it.end = Cycling
	case it.rounds == 0:
		it.end = Stopped
	}
}

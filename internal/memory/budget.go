package memory

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Own is what a process takes besides what it plans: itself, its threads, garbage. Spare is the
// share of a limit, one in so many bytes, that the garbage collector keeps free, 3 %: where a plan
// reached into it, it would collect all the time, and let memory grow past the limit rather than
// stop the program. Pages' tables are in it, too.
const (
	Own   = 32 << 20
	Spare = 32
)

// Planned is how much of a limit may be planned with.
func Planned(limit int64) int64 { return limit - min(Own+limit/Spare, limit/4) }

// An Error says that something needs more memory than is allowed, in bytes.
type Error struct{ Need, Allowed int64 }

func (e *Error) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("needs %d MiB of memory, and %d MiB are allowed (--memory sets the limit; "+
		"without it, it is what the machine has left)",
		(e.Need+mib-1)/mib, e.Allowed/mib)
}

// A Budget is memory that pieces of work share: each says what it needs before it takes it.
type Budget struct {
	allowed int64 // bytes that one piece may take
	shared  int64 // bytes that pieces at the same time may take together
	room    *semaphore.Weighted
}

// NewBudget makes a budget. A piece that needs more than is shared, but not more than is allowed,
// is done alone.
func NewBudget(allowed, shared int64) *Budget {
	shared = min(shared, allowed)
	return &Budget{allowed: allowed, shared: shared, room: semaphore.NewWeighted(shared)}
}

// Check says whether one piece of work may take so many bytes: the error is an [Error].
func (b *Budget) Check(need int64) error {
	if need > b.allowed {
		return &Error{Need: need, Allowed: b.allowed}
	}
	return nil
}

// Take waits until so many bytes are free, and takes them until release is called. The error is an
// [Error] where they never will be, or that of ctx.
func (b *Budget) Take(ctx context.Context, need int64) (release func(), err error) {
	if err := b.Check(need); err != nil {
		return nil, err
	}
	need = min(max(need, 0), b.shared)
	if err := b.room.Acquire(ctx, need); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { b.room.Release(need) }), nil
}

var (
	process sync.Mutex
	whole   *Budget // of this process, once it is known
)

// Process is the budget of this process: what [Limit] says, or else what the machine had left when
// it was first asked for. Where the system does not say that either, there is no limit.
func Process() *Budget {
	process.Lock()
	defer process.Unlock()
	if whole == nil {
		whole = budget(Available())
	}
	return whole
}

// Limit sets what this process may take in all; 0: what the machine has left.
func Limit(bytes int64) {
	if bytes <= 0 {
		bytes = Available()
	}
	process.Lock()
	defer process.Unlock()
	whole = budget(bytes)
}

func budget(limit int64) *Budget {
	const none = 1 << 60
	if limit <= 0 {
		return NewBudget(none, none)
	}
	planned := Planned(limit)
	return NewBudget(planned, planned)
}

// Allowed is how many bytes one piece of work of this process may take.
func Allowed() int64 { return Process().allowed }

// Check is [Budget.Check] of this process: what reads a file asks before it makes room for what the
// file's header promises.
func Check(need int64) error { return Process().Check(need) }

// Take is [Budget.Take] of this process. Who holds some must not ask for more.
func Take(ctx context.Context, need int64) (release func(), err error) {
	return Process().Take(ctx, need)
}

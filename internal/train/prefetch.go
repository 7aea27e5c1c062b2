package train

import (
	"context"
	"io"
	"sync"
	"time"
)

// A Prefetch makes a sequence of items ahead of their use, in goroutines, and hands them out in
// order. Item i depends on i alone, so the sequence does not depend on the number of goroutines.
type Prefetch[T any] struct {
	order  chan chan made[T] // one channel an item, in order
	tokens chan struct{}     // one for each item begun and not yet handed out
	cancel context.CancelFunc
	done   sync.WaitGroup
	ctx    context.Context
	next   chan made[T] // of the item to be handed out next, if somebody has looked for it
	left   int          // items not yet handed out
	err    error        // the first error, repeated from then on
	waited time.Duration
}

type made[T any] struct {
	item T
	err  error
}

// NewPrefetch makes the items first, first+1, ..., end-1 with the given number of goroutines. At
// most ahead items are begun and not yet handed out, which bounds the memory. Close it after use.
func NewPrefetch[T any](ctx context.Context, first, end, goroutines, ahead int,
	item func(ctx context.Context, i int) (T, error)) *Prefetch[T] {
	ctx, cancel := context.WithCancel(ctx)
	goroutines, ahead = max(goroutines, 1), max(ahead, 1)
	p := &Prefetch[T]{order: make(chan chan made[T], ahead), tokens: make(chan struct{}, ahead), cancel: cancel,
		ctx: ctx, left: end - first}
	type job struct {
		i   int
		out chan made[T]
	}
	jobs := make(chan job)
	p.done.Go(func() {
		defer close(p.order)
		defer close(jobs)
		for i := first; i < end; i++ {
			select {
			case p.tokens <- struct{}{}:
			case <-ctx.Done():
				return
			}
			j := job{i, make(chan made[T], 1)}
			p.order <- j.out // there is room: a token was free
			select {
			case jobs <- j:
			case <-ctx.Done():
				j.out <- made[T]{err: ctx.Err()}
				return
			}
		}
	})
	for range goroutines {
		p.done.Go(func() {
			for j := range jobs {
				item, err := item(ctx, j.i)
				j.out <- made[T]{item, err}
			}
		})
	}
	return p
}

// Next returns the next item, or the error that making it ended with; io.EOF after the last one.
// After an error it returns the same error again.
func (p *Prefetch[T]) Next() (T, error) {
	start := time.Now()
	defer func() { p.waited += time.Since(start) }()
	var none T
	if p.err != nil {
		return none, p.err
	}
	out, ok := p.next, true
	if p.next = nil; out == nil {
		out, ok = <-p.order
	}
	if !ok && p.left > 0 {
		p.err = p.ctx.Err()
		return none, p.err
	}
	if !ok {
		p.err = io.EOF
		return none, p.err
	}
	m := <-out
	<-p.tokens
	if m.err != nil {
		p.err = m.err
		return none, p.err
	}
	p.left--
	return m.item, nil
}

// Peek returns the item that Next will hand out, if that is there already. It does not wait.
func (p *Prefetch[T]) Peek() (item T, ok bool) {
	if p.next == nil {
		select {
		case p.next = <-p.order: // nil after the last one
		default:
		}
	}
	select {
	case m := <-p.next:
		p.next <- m // there is room: it was just taken
		return m.item, m.err == nil
	default:
		return item, false
	}
}

// Waited is the time spent in Next so far: what the training has lost by waiting for data.
func (p *Prefetch[T]) Waited() time.Duration { return p.waited }

// Close stops the goroutines and waits for them to end.
func (p *Prefetch[T]) Close() {
	p.cancel()
	p.done.Wait()
}

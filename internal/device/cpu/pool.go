package cpu

import "sync/atomic"

// A task is work in items 0..n-1 that may run in any order. worker is 0..Threads-1, for scratch
// memory of its own.
type task interface {
	do(worker, item int)
}

// pool is a set of goroutines that share the items of one task at a time. Items are handed out one
// by one: a worker whose core is taken away by another process delays the others by one item, not
// by its whole share.
type pool struct {
	wake []chan struct{} // one a helper; the caller is worker 0
	done chan any        // nil, or what a helper panicked with
	next atomic.Int64
	n    int
	t    task
}

func newPool(threads int) *pool {
	p := &pool{done: make(chan any, threads)}
	for w := 1; w < threads; w++ {
		wake := make(chan struct{})
		p.wake = append(p.wake, wake)
		go func() {
			for range wake {
				p.done <- p.work(w)
			}
		}()
	}
	return p
}

// run does items 0..n-1 of t on all workers and returns when they are done. It does not allocate. A
// panic in an item reaches the caller.
func (p *pool) run(n int, t task) {
	helpers := min(len(p.wake), n-1)
	if helpers <= 0 {
		for i := range n {
			t.do(0, i)
		}
		return
	}
	p.n, p.t = n, t
	p.next.Store(0)
	for _, wake := range p.wake[:helpers] {
		wake <- struct{}{}
	}
	failure := p.work(0)
	for range helpers {
		if f := <-p.done; f != nil {
			failure = f
		}
	}
	p.t = nil
	if failure != nil {
		panic(failure)
	}
}

func (p *pool) work(worker int) (failure any) {
	defer func() { failure = recover() }()
	for {
		i := int(p.next.Add(1)) - 1
		if i >= p.n {
			return nil
		}
		p.t.do(worker, i)
	}
}

func (p *pool) close() {
	for _, wake := range p.wake {
		close(wake)
	}
}

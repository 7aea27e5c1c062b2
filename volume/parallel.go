package volume

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls f(0) ... f(n-1), in any order, on every core that Go may use.
func parallel(n int, f func(item int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for item := range n {
			f(item)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				item := int(next.Add(1)) - 1
				if item >= n {
					return
				}
				f(item)
			}
		})
	}
	wg.Wait()
}

// blocks cuts 0..n into pieces that fit the processor's cache and calls f on each, in any order, on
// every core.
func blocks(n int, f func(from, to int)) {
	const block = 1 << 16
	parallel((n+block-1)/block, func(b int) { f(b*block, min((b+1)*block, n)) })
}

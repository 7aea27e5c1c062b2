package train

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPrefetchKeepsOrderAndBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, taken atomic.Int64
		p := NewPrefetch(t.Context(), 3, 103, 7, 5, func(_ context.Context, i int) (int, error) {
			// five, and the one that is being handed out
			if n := begun.Add(1) - taken.Load(); n > 6 {
				t.Errorf("%d items in flight", n)
			}
			time.Sleep(time.Duration(i*7919%13) * time.Millisecond) // out of order
			return i * i, nil
		})
		defer p.Close()
		for i := 3; i < 103; i++ {
			if got, err := p.Next(); err != nil || got != i*i {
				t.Fatalf("item %d: %d, %v", i, got, err)
			}
			taken.Add(1)
		}
		for range 2 {
			if _, err := p.Next(); err != io.EOF {
				t.Errorf("after the end: %v", err)
			}
		}
		if p.Waited() <= 0 {
			t.Error("no time was spent waiting")
		}
	})
}

func TestPrefetchHandsErrorsOutInTheirPlace(t *testing.T) {
	bad := errors.New("bad")
	p := NewPrefetch(t.Context(), 0, 10, 3, 4, func(_ context.Context, i int) (int, error) {
		if i >= 4 {
			return 0, bad
		}
		return i, nil
	})
	defer p.Close()
	for i := range 4 {
		if got, err := p.Next(); got != i || err != nil {
			t.Fatalf("item %d: %d, %v", i, got, err)
		}
	}
	for range 2 {
		if _, err := p.Next(); err != bad {
			t.Errorf("got %v", err)
		}
	}
}

// synctest fails if a goroutine of its bubble is left over.
func TestPrefetchLeavesNothingBehind(t *testing.T) {
	for _, taken := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := NewPrefetch(ctx, 0, 1000, 4, 6, func(ctx context.Context, i int) (int, error) {
				select {
				case <-time.After(time.Millisecond):
					return i, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			for range taken {
				if _, err := p.Next(); err != nil {
					t.Fatal(err)
				}
			}
			if taken == 1 {
				cancel()
				for range 20 {
					if _, err := p.Next(); err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				}
			}
			p.Close()
			cancel()
		})
	}
	runtime.GC()
}

// Peek shows what Next will hand out, as soon as it is there, and takes nothing.
func TestPrefetchPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		p := NewPrefetch(t.Context(), 3, 9, 2, 2, func(_ context.Context, i int) (int, error) {
			time.Sleep(time.Second)
			if i == 8 {
				return 0, bad
			}
			return i, nil
		})
		defer p.Close()
		for i := 3; i < 8; i++ {
			if got, ok := p.Peek(); i == 3 && ok {
				t.Errorf("item %d was there before it was made", got)
			}
			time.Sleep(2 * time.Second)
			for range 2 {
				if got, ok := p.Peek(); got != i || !ok {
					t.Errorf("peeked at %d, %v, want %d", got, ok, i)
				}
			}
			if got, err := p.Next(); got != i || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, i)
			}
		}
		time.Sleep(2 * time.Second)
		if _, ok := p.Peek(); ok {
			t.Error("an item that could not be made was there")
		}
		if _, err := p.Next(); err != bad {
			t.Errorf("got %v, want %v", err, bad)
		}
		if _, ok := p.Peek(); ok {
			t.Error("there was an item after the last one")
		}
	})
}

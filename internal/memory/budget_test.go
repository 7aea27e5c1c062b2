package memory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

// Pieces of work that together need more than is shared wait for each other; one that needs more
// than that is done alone, and one that needs more than is allowed not at all.
func TestBudget(t *testing.T) {
	b := NewBudget(300, 100)
	var mutex sync.Mutex
	var group sync.WaitGroup
	now, most := int64(0), int64(0)
	work := func(need, counts int64) {
		release, err := b.Take(context.Background(), need)
		if err != nil {
			t.Errorf("%d: %v", need, err)
			return
		}
		mutex.Lock()
		now += counts
		most = max(most, now)
		mutex.Unlock()
		mutex.Lock()
		now -= counts
		mutex.Unlock()
		release()
		release() // is done once
	}
	for n := range int64(200) {
		group.Go(func() { work(n%60, n%60) })
		if n%50 == 0 {
			group.Go(func() { work(250, 100) })
		}
	}
	group.Wait()
	if most > 100 {
		t.Errorf("%d were taken at once", most)
	}
	var tooMuch *Error
	if _, err := b.Take(context.Background(), 301); !errors.As(err, &tooMuch) || tooMuch.Need != 301 ||
		tooMuch.Allowed != 300 {
		t.Errorf("more than is allowed: %v", err)
	}
	release, err := b.Take(context.Background(), 250)
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(context.Background())
	stop()
	if _, err := b.Take(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a budget that is taken: %v", err)
	}
	release()
}

// A limit is the process's, itself included; none is what the machine has.
func TestLimit(t *testing.T) {
	defer Limit(0)
	Limit(320 << 20)
	if got := Allowed(); got != 278<<20 {
		t.Errorf("of 320 MiB, %d bytes are allowed", got)
	}
	if err := Check(278 << 20); err != nil {
		t.Error(err)
	}
	if err := Check(1 << 30); err == nil ||
		!strings.HasPrefix(err.Error(), "needs 1024 MiB of memory, and 278 MiB are allowed") {
		t.Error(err)
	}
	Limit(0)
	if there := Available(); there > 0 && (Allowed() <= 0 || Allowed() > 2*there) {
		t.Errorf("%d bytes are allowed of %d", Allowed(), there)
	}
}

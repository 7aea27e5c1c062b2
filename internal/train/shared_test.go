package train_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Ranks see that their folder is one, also where another job that begins in it removes what killed
// runs have left there; of two folders they say so.
func TestSharedFolder(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for until := time.Now().Add(time.Second); time.Now().Before(until) && !stop.Load(); {
			if err := atomicfile.Clean(dir, nil); err != nil {
				t.Error(err)
			}
		}
	}()
	onRanks(2, func(g train.Group) {
		if err := g.Shares(dir); err != nil {
			t.Errorf("rank %d: %v", g.Rank, err)
		}
	})
	stop.Store(true)
	<-done
	onRanks(2, func(g train.Group) {
		if err := g.Shares([]string{dir, other}[g.Rank]); err == nil {
			t.Errorf("rank %d takes two folders for one", g.Rank)
		}
	})
	for _, folder := range []string{dir, other} {
		if left, err := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(left) > 0 {
			t.Errorf("%q is left, %v", left, err)
		}
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
	}
}

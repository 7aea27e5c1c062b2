package prepared

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// casesOf opens a store of n small cases. All voxels of a case have one value: its number.
func casesOf(t testing.TB, n int, maps *mappings) (*Store, []*Case) {
	t.Helper()
	dir := t.TempDir()
	w, err := NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	g := volume.Grid{Shape: [3]int{4, 3, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	for number := range n {
		v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
		for at := range v.Int16 {
			v.Int16[at] = int16(number)
		}
		if _, err := w.Add(Input{ID: fmt.Sprintf("case%03d", number), Image: v}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	store.maps = maps
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if maps.recent.Len() != 0 || maps.bytes != 0 {
			t.Errorf("%d cases of %d bytes are mapped after the store was closed", maps.recent.Len(), maps.bytes)
		}
	})
	var cases []*Case
	for r := range store.Records() {
		c, err := store.Open(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return store, cases
}

// Of many cases only those that were read last stay mapped, and every one can be read at any time.
func TestMappingsAreBounded(t *testing.T) {
	maps := &mappings{most: 3, mostBytes: math.MaxInt64}
	_, cases := casesOf(t, 20, maps)
	for round := range 2 {
		for number, c := range cases {
			v, err := c.Volume()
			if err != nil || v.Int16[5] != int16(number) {
				t.Fatalf("case %d holds %v (%v)", number, v, err)
			}
			if want := min(3, number+1); round == 0 && maps.recent.Len() != want || maps.recent.Len() > 3 {
				t.Fatalf("%d cases mapped after case %d, want %d", maps.recent.Len(), number, want)
			}
			if maps.recent.Front().Value != c {
				t.Fatalf("case %d was read last, and is not the last to go", number)
			}
		}
	}
	maps.mostBytes = 2 * cases[0].Bytes
	if _, err := cases[7].Volume(); err != nil || maps.recent.Len() != 2 || maps.bytes != maps.mostBytes {
		t.Errorf("%d cases of %d bytes mapped (%v), where %d bytes are allowed", maps.recent.Len(), maps.bytes, err,
			maps.mostBytes)
	}
}

// A case that is being read is never unmapped, whatever others read meanwhile: where it were, the
// program would end in a fault. Under the race detector this looks at the counts, too.
func TestMappingsWithReadersAtWork(t *testing.T) {
	maps := &mappings{most: 2, mostBytes: math.MaxInt64}
	_, cases := casesOf(t, 12, maps)
	held := cases[0]
	var err error
	view, end, ok := held.begin(&err)
	if !ok {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			crop := make([]float32, 8)
			for range 300 {
				number := r.IntN(len(cases))
				c := cases[number]
				v, err := c.Volume()
				if err != nil || v.Int16[0] != int16(number) || v.Int16[23] != int16(number) {
					t.Errorf("case %d holds %v (%v)", number, v, err)
				}
				if err := c.Crop(crop, [3]int{1, 1, 0}, [3]int{2, 2, 2}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if held.view != view || view.bytes[0] != 0 {
		t.Error("the case that was read all the time is mapped no longer")
	}
	end()
	if _, err := cases[5].Volume(); err != nil {
		t.Error(err)
	}
	if maps.recent.Len() > 2 {
		t.Errorf("%d cases are still mapped", maps.recent.Len())
	}
}

// A case that is mapped again is looked at again: it may have been cut short meanwhile.
func TestMappedAgainAfterDamage(t *testing.T) {
	store, cases := casesOf(t, 3, &mappings{most: 1, mostBytes: math.MaxInt64})
	for _, c := range cases {
		if _, err := c.Volume(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(voxelPath(store.dir, cases[0].ID), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := cases[0].Volume(); err == nil || !strings.Contains(err.Error(), "has 10 bytes") {
		t.Errorf("a case that was cut short while it was not mapped: %v", err)
	}
	if err := os.Remove(voxelPath(store.dir, cases[1].ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := cases[1].Volume(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a case whose file is gone: %v", err)
	}
}

func TestMappingLimits(t *testing.T) {
	for _, c := range []struct {
		count, bytes, wantBytes int64
		want                    int
	}{{0, 0, math.MaxInt64, usualMappings}, {65530, 0, math.MaxInt64, 32765},
		{1 << 20, 1 << 30, 1 << 29, usualMappings}, {1, 0, math.MaxInt64, 1}} {
		if most, bytes := mappingsWithin(c.count, c.bytes); most != c.want || bytes != c.wantBytes {
			t.Errorf("%d mappings and %d bytes allowed: %d and %d are used", c.count, c.bytes, most, bytes)
		}
	}
	if most, bytes := mappingLimits(); most < 1 || bytes < 1 {
		t.Errorf("%d mappings of %d bytes", most, bytes)
	}
}

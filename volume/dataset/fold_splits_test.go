package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

func nih(numbers ...int) (ids []string) {
	for _, n := range numbers {
		ids = append(ids, fmt.Sprintf("PANCREAS_%04d", n))
	}
	return ids
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// each checks that every case is tested on once and trained on in all other folds.
func each(t *testing.T, splits []Split, ids []string) {
	t.Helper()
	tested := map[string]int{}
	for _, s := range splits {
		for _, id := range s.Val {
			tested[id]++
		}
		both := slices.Concat(s.Train, s.Val)
		slices.SortFunc(both, numbers.CompareNatural)
		if !slices.Equal(both, sorted(ids)) {
			t.Error("a fold does not hold every case once")
		}
	}
	for _, id := range ids {
		if tested[id] != 1 {
			t.Errorf("%s is tested on %d times", id, tested[id])
		}
	}
}

func TestPublishedFolds(t *testing.T) {
	ids := nih(upTo(82)...)
	slices.Reverse(ids) // the order does not matter
	published, err := Folds(FoldsNIH, ids, nil, 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	each(t, published, ids)
	for f, want := range [][2]int{{1, 20}, {21, 40}, {41, 61}, {62, 82}} {
		val := published[f].Val
		if val[0] != nih(want[0])[0] || val[len(val)-1] != nih(want[1])[0] || len(val) != want[1]-want[0]+1 {
			t.Errorf("fold %d is %v", f, val)
		}
	}
	consecutive, err := Folds(FoldsConsecutive, ids, nil, 4, 0)
	if err != nil || !reflect.DeepEqual(consecutive, published) {
		t.Errorf("consecutive folds of all 82 cases are not the published ones: %v", err)
	}
	without := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return id == "PANCREAS_0025" ||
			id == "PANCREAS_0070"
	})
	some, err := Folds(FoldsNIH, without, nil, 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	each(t, some, without)
	if sizes := []int{len(some[0].Val), len(some[1].Val), len(some[2].Val), len(some[3].Val)}; !slices.Equal(sizes,
		[]int{20, 19, 21, 20}) {
		t.Errorf("the published folds without repeated patients have %v cases", sizes)
	}
	for _, test := range []struct {
		how string
		ids []string
		k   int
	}{{FoldsNIH, ids, 5}, {FoldsNIH, append(nih(83), ids...), 4}, {FoldsNIH, []string{"a", "b", "c", "d"}, 4},
		{FoldsNIH, nih(upTo(61)...), 4}, {FoldsShuffled, ids[:3], 4},
		{FoldsShuffled, ids, 1}, {"random", ids, 4}, {FoldsShuffled, append(nih(1), ids...), 4}} {
		if _, err := Folds(test.how, test.ids, nil, test.k, 0); err == nil {
			t.Errorf("%d %s folds of %d cases", test.k, test.how, len(test.ids))
		}
	}
}

func TestShuffledFolds(t *testing.T) {
	ids := nih(upTo(23)...)
	a, err := Folds(FoldsShuffled, ids, nil, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	each(t, a, ids)
	slices.Reverse(ids)
	if b, err := Folds(FoldsShuffled, ids, nil, 5, 1); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("the same seed makes other folds: %v", err)
	}
	if b, err := Folds(FoldsShuffled, ids, nil, 5, 2); err != nil || reflect.DeepEqual(a, b) {
		t.Errorf("another seed makes the same folds: %v", err)
	}
	if b, err := Folds(FoldsConsecutive, ids, nil, 5, 1); err != nil || reflect.DeepEqual(a, b) {
		t.Errorf("shuffled folds are consecutive: %v", err)
	}
}

func TestNested(t *testing.T) {
	ids := nih(upTo(62)...)
	for number := range uint64(20) {
		subsets, err := Nested(ids, []float64{0.1, 0.2, 1, 0.001}, number)
		if err != nil {
			t.Fatal(err)
		}
		small, middle, all, one := subsets[0], subsets[1], subsets[2], subsets[3]
		if len(small) != 6 || len(middle) != 12 || !slices.Equal(all, ids) || len(one) != 1 {
			t.Errorf("%d, %d, %d and %d of 62 cases", len(small), len(middle), len(all), len(one))
		}
		for _, id := range small {
			if !slices.Contains(middle, id) {
				t.Errorf("%s is in the smaller subset only", id)
			}
		}
		if !slices.Contains(small, one[0]) {
			t.Errorf("%s is in the smallest subset only", one[0])
		}
		if again, err := Nested(ids, []float64{0.2}, number); err != nil || !slices.Equal(again[0], middle) {
			t.Errorf("a subset depends on which others are drawn (%v)", err)
		}
	}
	for _, fraction := range []float64{0, -1, 1.1} {
		if _, err := Nested(ids, []float64{fraction}, 0); err == nil {
			t.Errorf("fraction %g", fraction)
		}
	}
	if _, err := Nested(nil, []float64{1}, 0); err == nil {
		t.Error("a subset of nothing")
	}
}

func TestHoldOut(t *testing.T) {
	ids := nih(upTo(10)...)
	rest, held, err := HoldOut(ids, nil, 0.25, 3)
	if err != nil || len(held) != 3 || len(rest) != 7 {
		t.Errorf("%v, %v, %v", rest, held, err)
	}
	both := sorted(slices.Concat(rest, held))
	if !slices.Equal(both, ids) {
		t.Errorf("%v", both)
	}
	if rest, held, err := HoldOut(ids[:2], nil, 0.9, 3); err != nil || len(rest) != 1 || len(held) != 1 {
		t.Errorf("%v, %v, %v", rest, held, err)
	}
	if _, _, err := HoldOut(ids[:1], nil, 0.5, 0); err == nil {
		t.Error("held out the only case")
	}
	if _, _, err := HoldOut(ids, nil, 1, 0); err == nil {
		t.Error("held out every case")
	}
}

func TestSplitsFile(t *testing.T) {
	ids := nih(upTo(7)...)
	splits, err := Folds(FoldsShuffled, ids, nil, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "splits_final.json")
	if err := WriteSplits(path, splits); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSplits(path, ids); err != nil || !reflect.DeepEqual(got, splits) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "a list of", "{}": "a list of", "[]": "there are none",
		`[{"train": ["a"]}]`:                              "fold 1 has 1 case to train on and 0 to validate",
		`[{"train": ["a"], "val": ["x"]}]`:                "fold 1 names case x, which is not in the data set",
		`[{"train": ["a", "b"], "val": ["a"]}]`:           "fold 1 names case a twice",
		`[{"train": ["a"], "val": ["b"]}, {"train": []}]`: "fold 2 has 0 cases",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadSplits(path, []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	if err := os.WriteFile(path, []byte(`[{"train": ["a"], "val": ["b"]}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSplits(path, []string{"a", "b", "c"}); err != nil {
		t.Error(err)
	}
}

// A file of folds without the fold that is held out says nothing: it must not be passed over.
func TestSplitsWithoutAFold(t *testing.T) {
	s := DefaultSelection()
	s.Splits = filepath.Join(t.TempDir(), "nothing.json")
	if _, _, err := s.Choose([]string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), "--fold 1") {
		t.Error(err)
	}
	s.Fold = 1
	if _, _, err := s.Choose([]string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), "nothing.json") {
		t.Error(err)
	}
}

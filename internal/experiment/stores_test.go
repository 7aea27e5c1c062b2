package experiment

import (
	"errors"
	"testing"

	"github.com/voxsaw/voxsaw/sample"
)

// counted is a store that counts how often it is closed.
type counted struct{ closed int }

func (*counted) KeepLocal(sample.Local) (bool, error) { return true, nil }
func (c *counted) Close() error                       { c.closed++; return nil }

// A folder is opened once and closed once, however often it is asked for; one that could not be
// kept is not open.
func TestStoresOpenOnce(t *testing.T) {
	all := map[string]*counted{}
	open := func(folder string) (*counted, error) {
		if all[folder] != nil {
			t.Errorf("%s is opened twice", folder)
		}
		all[folder] = &counted{}
		return all[folder], nil
	}
	full := errors.New("the disk is full")
	told := 0
	stores := NewStores(Setting{Opened: func(s Store) error {
		if told++; s == Store(all["large"]) {
			return full
		}
		return nil
	}}, open)
	for _, folder := range []string{"a", "b", "a", "b"} {
		if store, err := stores.Of(folder); err != nil || store != all[folder] {
			t.Errorf("%s: %v, %v", folder, store, err)
		}
	}
	if _, err := stores.Of("large"); !errors.Is(err, full) || all["large"].closed != 1 {
		t.Errorf("%v, closed %d times", err, all["large"].closed)
	}
	stores.Close()
	for folder, store := range all {
		if store.closed != 1 {
			t.Errorf("%s is closed %d times", folder, store.closed)
		}
	}
	if told != 3 {
		t.Errorf("told of %d stores", told)
	}
}

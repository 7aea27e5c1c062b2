package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A long list of cases lies in a file beside the checkpoint, which knows its digest.
func TestLongListOfCases(t *testing.T) {
	var names []string
	for n := range manyNames + 1 {
		names = append(names, fmt.Sprintf("case %d", n))
	}
	short := write(t, Description{Kind: "jigsaw", TrainedOn: names[1:]}, newModel(1))
	if files, _ := os.ReadDir(filepath.Dir(short)); len(files) != 1 {
		t.Errorf("a short list has files of its own: %v", files)
	}
	path := write(t, Description{Kind: "jigsaw", TrainedOn: names}, newModel(1))
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "case 17") {
		t.Errorf("the checkpoint has the names of all cases (%v)", err)
	}
	for _, p := range []string{short, path} {
		if d, err := Read(p); err != nil || d.Lost != "" ||
			!slices.Equal(d.TrainedOn, names[1:]) && !slices.Equal(d.TrainedOn, names) {
			t.Errorf("%d cases were read: %v", len(d.TrainedOn), err)
		}
	}

	list, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "names-*.txt"))
	if len(list) != 1 {
		t.Fatalf("lists: %v", list)
	}
	said := ListForConfig(names)
	if len(said) != 1 || !strings.Contains(said[0], filepath.Base(list[0])) ||
		slices.Equal(said, ListForConfig(names[:manyNames])) ||
		slices.Equal(said, ListForConfig(append(slices.Clone(names[1:]), "x"))) {
		t.Errorf("a configuration has %q", said)
	}
	folder := filepath.Dir(list[0])
	for _, want := range [][]string{names, names[:2], {"case 1"}, {}} {
		if got, err := ListFromConfig(folder, ListForConfig(want)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d of %d names are read from a configuration: %v", len(got), len(want), err)
		}
	}
	if err := os.WriteFile(list[0], []byte("case 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ListFromConfig(folder, said); err == nil {
		t.Error("another list is taken for that of the configuration")
	}
	if _, err := Read(path); err == nil ||
		!strings.Contains(err.Error(), "is not the list of names that was written with it") {
		t.Errorf("another list: %v", err)
	}
	if err := os.Remove(list[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := ListFromConfig(folder, said); err == nil || !strings.Contains(err.Error(), "is not in "+folder) {
		t.Errorf("without the list: %v", err)
	}
	if d, err := Read(path); err != nil || d.TrainedOn != nil ||
		!strings.Contains(d.Lost, "1001 cases that it was trained on are named in names-") {
		t.Errorf("without the list: %+v, %v", d, err)
	}
}

package puzzle2d

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// Proposals of a data set in VOC's layout are read by detection, hold an object each, and are the
// same however often they were stopped.
func TestPropose(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	if err := miniature.VOC2007(root, 4); err != nil {
		t.Fatal(err)
	}
	set, err := photos.Find(filepath.Join(root, "VOCdevkit", "VOC2007"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	path, stopped := filepath.Join(dir, "new", "folder", "proposals.csv.gz"), filepath.Join(dir, "stopped.csv.gz")
	o := DefaultProposeOptions()
	o.Most = 60
	seen := 0
	if err := Propose(t.Context(), set, path, o, func(p Proposed) {
		if seen++; p.Err != nil || p.Kept || p.Boxes < 1 || p.Boxes > 60 {
			t.Errorf("%+v", p)
		}
	}); err != nil || seen != 12 {
		t.Fatalf("%d photographs, %v", seen, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, o.Workers = 0, 1
	if err := Propose(ctx, set, stopped, o, func(Proposed) {
		if seen++; seen == 3 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	kept := 0
	if err := Propose(t.Context(), set, stopped, o, func(p Proposed) {
		if p.Kept {
			kept++
		}
	}); err != nil || kept < 3 || kept == 12 {
		t.Errorf("%d of 12 photographs were kept, %v", kept, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := os.ReadFile(stopped); err != nil || !slices.Equal(whole, parts) {
		t.Errorf("after a stop: %d bytes, %v; at once %d", len(parts), err, len(whole))
	}

	prepared := filepath.Join(dir, "prepared")
	options := photos.DefaultOptions()
	options.Size = [2]int{48, 36}
	if _, err := photos.Prepare(t.Context(), set, prepared, options, func(photos.Result) {}); err != nil {
		t.Fatal(err)
	}
	store, err := photos.Open(prepared)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, err := ReadProposals(path, store, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for n := range store.Len() {
		for _, object := range store.Record(n).Objects {
			truth := voc.Box{float64(object.Box[0]), float64(object.Box[1]), float64(object.Box[2]), float64(object.Box[3])}
			if slices.ContainsFunc(p.of(n), func(b voc.Box) bool { return b.Overlap(truth) > 0.7 }) {
				found++
			}
		}
	}
	if found < 11 {
		t.Errorf("proposals overlap by more than 0.7 with %d of 12 objects", found)
	}

	for name, text := range map[string]string{
		"no file of proposals in gzip": "photo\n", "is no photograph of": "",
	} {
		other := filepath.Join(dir, "other.csv.gz")
		content := []byte(text)
		if text == "" {
			block, err := proposalBlock("elsewhere", nil)
			if err != nil {
				t.Fatal(err)
			}
			head, _ := zipped([]byte(proposalColumns + "\nelsewhere,1,1,2,2\n"))
			content = append(head, block...)
		}
		if err := os.WriteFile(other, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Propose(t.Context(), set, other, o, func(Proposed) {}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

package puzzle2d

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/draw"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// twelve are photographs in VOC's layout, made in a folder.
func twelve(t *testing.T, root string) *photos.Set {
	t.Helper()
	if err := voctest.Write(root, voctest.Options{Train: 4, Val: 4, Test: 4, Side: 84, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	set, err := photos.Find(root, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// half leaves the right half of a photograph, and makes the left one black.
func half(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := jpeg.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	m, b := image.NewRGBA(whole.Bounds()), whole.Bounds()
	b.Min.X = b.Max.X / 2
	draw.Draw(m, b, whole, b.Min, draw.Src)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(jpeg.Encode(f, m, nil), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Proposals of a data set in VOC's layout are read by detection, hold an object each, and are the
// same however often they were stopped.
func TestPropose(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	set := twelve(t, root)
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
			truth := voc.Box{
				float64(object.Box[0]),
				float64(object.Box[1]),
				float64(object.Box[2]),
				float64(object.Box[3]),
			}
			if slices.ContainsFunc(p.of(n), func(b voc.Box) bool { return b.Overlap(truth) > 0.7 }) {
				found++
			}
		}
	}
	if found < 11 {
		t.Errorf("proposals overlap by more than 0.7 with %d of 12 objects", found)
	}

	// A photograph that is another one by now has other boxes.
	half(t, filepath.Join(root, filepath.FromSlash(set.Photos[3].Path)))
	var again []string
	if err := Propose(t.Context(), set, path, o, func(p Proposed) {
		if !p.Kept {
			again = append(again, p.Path)
		}
	}); err != nil || !slices.Equal(again, []string{set.Photos[3].Path}) {
		t.Errorf("%q was done again, %v", again, err)
	}
	after, err := ReadProposals(path, store, 0)
	if err != nil || slices.Equal(after.of(3), p.of(3)) || !slices.Equal(after.of(4), p.of(4)) {
		t.Errorf("the boxes of the other photograph are the same, or those of one that has stayed differ, %v", err)
	}
}

// A file that is there is gone on with only where its boxes are those that this run would write.
func TestProposeRefusesOtherFiles(t *testing.T) {
	root, path := t.TempDir(), filepath.Join(t.TempDir(), "other.csv.gz")
	set := twelve(t, root)
	o := ProposeOptions{Most: 60, Seed: 1}
	file := func(comment, head string, blocks ...block) []byte {
		all, err := zipped(comment, []byte(head))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			all = append(all, b.member...)
		}
		return all
	}
	elsewhere, err := proposalBlock("elsewhere", "0", []image.Rectangle{image.Rect(0, 0, 2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	head := proposalColumns + "\n"
	for want, content := range map[string][]byte{
		"no file of proposals in gzip": []byte("photo\n"),
		"is no file of proposals":      file(o.comment(), "photo\n"),
		"is no photograph of":          file(o.comment(), head, elsewhere),
		"was made by voxsaw 2d propose --most 50 --seed 1, and this is voxsaw 2d propose --most 60 --seed 1": file(
			ProposeOptions{Most: 50, Seed: 1}.comment(), head),
		"--most 60 --seed 2, and":      file(ProposeOptions{Most: 60, Seed: 2}.comment(), head),
		"does not say with which":      file("", head),
		"has lines of another program": file(o.comment(), head, block{member: file("", "elsewhere,1,1,2,2\n")}),
		"EOF: --force begins again":    file(o.comment(), head, block{member: elsewhere.member[:40]}),
		"header: --force begins again": file(o.comment(), head, block{member: []byte("elsewhere,1,1,2,2\n")}),
	} {
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Propose(t.Context(), set, path, o, func(Proposed) {}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	set.Photos = append(set.Photos, photos.Found{Path: "another/" + filepath.Base(set.Photos[0].Path)})
	if err := Propose(t.Context(), set, path, o, func(Proposed) {}); err == nil ||
		!strings.Contains(err.Error(), "rename one") {
		t.Errorf("two photographs of one name: %v", err)
	}
}

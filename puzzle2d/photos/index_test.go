package photos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written can be read: the index of the largest data set that the manual names, and of one
// that has twice as many photographs.
func TestIndexOfManyPhotographs(t *testing.T) {
	r := Record{Path: "ILSVRC/Data/CLS-LOC/train/n02115641/n02115641_12345.JPEG", Class: 999, Split: Train,
		Width: 5000, Height: 5000, Digest: strings.Repeat("f", 32), Shard: 12345, Place: 12345, Begin: 60 << 20,
		Bytes: 123456}
	line, err := encodeJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	const photographs = 2 * 1431167 // Kaggle's ImageNet, twice
	if size := int64(len(line)+1) * photographs; size > indexLimit {
		t.Errorf("an index of %d photographs takes %d bytes, and %d are read", photographs, size, indexLimit)
	}
	if besides := len(line) + 1 - len(r.Path); besides > indexLine {
		t.Errorf("a photograph takes %d bytes besides its path, and %d are reckoned with", besides, indexLine)
	}
}

// More photographs than an index can list are refused before the work, not after it.
func TestTooManyPhotographs(t *testing.T) {
	o := small(t)
	set := find(t, tree(t, pictures(map[string][]byte{}, "train/cat", 8)))
	was := indexLimit
	defer func() { indexLimit = was }()
	indexLimit = 8 * indexLine
	dir := filepath.Join(t.TempDir(), "prepared")
	_, err := Prepare(t.Context(), set, dir, o, nil)
	want := fmt.Sprintf("%s: 8 photographs are more than", set.Root)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, shardsFolder)); err == nil {
		t.Error("shards were made")
	}
	indexLimit = was
	prepare(t, set, dir, o)
	open(t, dir)
}

package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Channels that have changed places are another scan. That of one file is the file's SHA-256.
func TestDigestKnowsTheOrderOfChannels(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.nii"), filepath.Join(dir, "b.nii")
	for _, path := range []string{a, b} {
		if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(c Case) string {
		t.Helper()
		text, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	sum := sha256.Sum256([]byte(a))
	if got := digest(Case{Image: a}); got != hex.EncodeToString(sum[:]) {
		t.Errorf("one channel: %s", got)
	}
	seen := map[string]int{}
	for n, c := range []Case{{Image: a}, {Image: b}, {Image: a, More: []Case{{Image: b}}},
		{Image: b, More: []Case{{Image: a}}}, {Image: a, Volume: 1, More: []Case{{Image: a, Volume: 2}}},
		{Image: a, Volume: 2, More: []Case{{Image: a, Volume: 1}}}} {
		text := digest(c)
		if other, twice := seen[text]; twice {
			t.Errorf("cases %d and %d have one digest", other, n)
		}
		seen[text] = n
	}
}

// Predicted labels of another scan are told of, for which the scan is read twice; who drops the
// notes reads it once.
func TestScanIsReadOnceForNoNotes(t *testing.T) {
	dir := t.TempDir()
	g := volume.Grid{Shape: [3]int{64, 64, 64}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	c := Case{ID: "a", Image: filepath.Join(dir, "a.nii"), Labels: filepath.Join(dir, "a_seg.nii.gz")}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	if err := nifti.Write(c.Image, v); err != nil {
		t.Fatal(err)
	}
	if err := nifti.WriteLabelsWith(c.Labels, &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}, nil,
		[]nifti.Extension{provenance.Extension(`{"program": "voxsaw predict", "scan_sha256": "another"}`)}); err != nil {
		t.Fatal(err)
	}
	bytes := func(read func()) (n int) {
		t.Helper()
		var at [2]int
		for i := range at {
			text, err := os.ReadFile("/proc/self/io")
			if err != nil {
				t.Skip("bytes that are read are counted under Linux")
			}
			if _, err := fmt.Sscanf(string(text), "rchar: %d", &at[i]); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				read()
			}
		}
		return at[1] - at[0]
	}
	twice := bytes(func() {
		if _, _, notes, err := c.Read(DefaultReadOptions(), nil); err != nil ||
			!strings.Contains(strings.Join(notes, ""), "predicted from other files") {
			t.Errorf("%q, %v", notes, err)
		}
	})
	once := bytes(func() {
		if _, l, err := c.ReadQuietly(DefaultReadOptions(), nil); err != nil || l == nil {
			t.Error(err)
		}
	})
	if size := 2 * g.Len(); once < size || twice-once < size {
		t.Errorf("%d bytes are read for notes, %d for none, of a scan of %d", twice, once, size)
	}
}

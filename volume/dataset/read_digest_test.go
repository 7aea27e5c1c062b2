package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
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

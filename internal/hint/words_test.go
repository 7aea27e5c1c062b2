package hint

import "testing"

func TestWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-1.5,c=%": "a/b-1.5,c=%", "": "''", "it's mine": `'it'\''s mine'`} {
		if got := quoted(word, false); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
	for word, want := range map[string]string{`C:\data\x.nii`: `C:\data\x.nii`, `C:\my data`: `"C:\my data"`, "": `""`} {
		if got := quoted(word, true); got != want {
			t.Errorf("on Windows %q: %s, want %s", word, got, want)
		}
	}
}

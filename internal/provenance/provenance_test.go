package provenance

import "testing"

// Earlier versions wrote a question mark for each backslash into DICOM objects: what is no JSON
// then is a stamp all the same, so that the prediction is not taken for drawn labels.
func TestSpoiltStamps(t *testing.T) {
	for text, want := range map[string]bool{
		`{"program":"voxsaw predict","version":"1"}`:                                                true,
		`{"program":"voxsaw predict","version":"1","scan":{"series":"description~?"thin?""}}`:       true,
		`{"program":"somebody's","version":"1","scan":{"series":"description~?"voxsaw predict?""}}`: false,
		`drawn by hand`: false,
		``:              false,
	} {
		if Is([]byte(text)) != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
}

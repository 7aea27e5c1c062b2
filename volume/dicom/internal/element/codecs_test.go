package element_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
)

// Each transfer syntax that compresses pixels has a codec, and no other.
func TestEverySyntaxHasItsCodec(t *testing.T) {
	compressed := 0
	for _, s := range element.Syntaxes() {
		codec, there := pixels.Codecs[s.UID]
		if there != s.Compressed || there && (codec.Decode == nil) == (codec.Unpack == nil) {
			t.Errorf("%s: a codec %v, compressed %v", s.Name, there, s.Compressed)
		}
		if s.Compressed {
			compressed++
		}
	}
	if compressed != len(pixels.Codecs) {
		t.Errorf("%d codecs for %d transfer syntaxes", len(pixels.Codecs), compressed)
	}
}

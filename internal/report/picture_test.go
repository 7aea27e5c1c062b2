package report

import (
	"bytes"
	"image"
	"strings"
	"testing"
)

func TestPicturesAreWhatTheirNameSays(t *testing.T) {
	for name, want := range map[string]string{"a.png": "png", "B.PNG": "png", "a.jpg": "jpeg", "a.b.JPEG": "jpeg"} {
		write, err := PictureFormat(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := write(&b, image.NewGray(image.Rect(0, 0, 4, 3))); err != nil {
			t.Fatal(err)
		}
		if _, format, err := image.DecodeConfig(&b); err != nil || format != want {
			t.Errorf("%s is written as %s, %v", name, format, err)
		}
	}
	for _, name := range []string{"a", "a.gif", "a.png.gz", ".png/x", ""} {
		if _, err := PictureFormat(name); err == nil || !strings.Contains(err.Error(), ".png or .jpg") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

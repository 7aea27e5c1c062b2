package report

import (
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"path/filepath"
	"strings"
)

// PictureFormat is the way to write a picture that a file's name asks for: .png, .jpg or .jpeg. Any
// other name is an error, before there is anything to write.
func PictureFormat(name string) (func(io.Writer, image.Image) error, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png":
		return png.Encode, nil
	case ".jpg", ".jpeg":
		return func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, &jpeg.Options{Quality: 92}) }, nil
	}
	return nil, fmt.Errorf("%s: a picture is written as its name says, .png or .jpg", name)
}

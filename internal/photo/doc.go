// Package photo reads photographs: bytes of a JPEG, PNG, GIF, BMP, WebP or TIFF to 8-bit RGB of the
// size that a network wants.
//
// Start at [Read] or [Decode], which give a [Photo], and [Resizer.Resize], which writes its pixels.
// A Photo keeps the planes that the file holds. A JPEG's chroma is brought to full size by the same
// sums that resize it, and colour is computed for the resized pixels only: the work for pixels that
// nobody sees is saved. At the photograph's own size this is what libjpeg computes, within two
// levels.
//
// JPEGs of one and three channels are decoded here (fromScans in jpeg.go) and not by image/jpeg:
// three times as fast, and to the bits of libjpeg's samples, so that networks trained elsewhere see
// what they have seen there. The few with four channels go to image/jpeg.
//
// What a file is, its content says and not its name ([Sniff]). Of an animation the first picture is
// read, transparency is laid over white, 16-bit samples keep their upper byte, and the orientation
// that a camera has noted is applied. Colour profiles are left out: nobody's training applies them.
package photo

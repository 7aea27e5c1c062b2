package nifti

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/voxsaw/voxsaw/volume"
)

// maxRatio is how much gzip can shrink at most: a match of 258 bytes in two bits, with rounding up for the block's own header.
const maxRatio = 1032

// pair returns the paths of the header and of the voxels, which are the same for a single file.
func pair(path string) (header, image string, err error) {
	base, gz := strings.CutSuffix(path, ".gz")
	if !gz {
		base, gz = strings.CutSuffix(path, ".GZ")
	}
	if len(base) < 4 {
		return path, path, nil
	}
	stem, ext := base[:len(base)-4], base[len(base)-4:]
	var other string
	switch ext {
	case ".hdr":
		other = ".img"
	case ".HDR":
		other = ".IMG"
	case ".img":
		other = ".hdr"
	case ".IMG":
		other = ".HDR"
	default:
		return path, path, nil
	}
	if _, err := os.Stat(path); err != nil {
		return "", "", err
	}
	candidates := []string{stem + other, stem + other + ".gz"}
	if gz {
		candidates = []string{stem + other + ".gz", stem + other}
	}
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); err == nil {
			if strings.EqualFold(other, ".img") {
				return path, candidate, nil
			}
			return candidate, path, nil
		}
	}
	if strings.EqualFold(other, ".hdr") {
		return "", "", &volume.FormatError{Path: path, Problem: "is the image of a pair, but its header " + stem + other + " is missing", Err: os.ErrNotExist}
	}
	// A .hdr file alone: its header may still tell what is wrong with it, if anything is.
	raw, _, err := head(path, 540)
	if err != nil {
		return "", "", err
	}
	if _, err := parse(raw, path, stem+other); err != nil {
		return "", "", err
	}
	return "", "", &volume.FormatError{Path: path, Problem: "is the header of a pair, but its image " + stem + other + " is missing", Err: os.ErrNotExist}
}

// head returns the first n bytes of a file's content, or fewer, and how many bytes it can hold at most.
func head(path string, n int) ([]byte, int64, error) {
	c, err := open(path, 4096)
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	raw := make([]byte, n)
	n, err = io.ReadFull(c, raw)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, 0, &volume.FormatError{Path: path, Problem: "is damaged", Err: err}
	}
	return raw[:n], c.most, nil
}

// content is what a file holds, uncompressed.
type content struct {
	io.Reader
	file *os.File
	gzip bool
	most int64 // bytes that it can hold at most
}

func (c *content) Close() error { return c.file.Close() }

// open opens a file, compressed if its first bytes say so, whatever its name is.
func open(path string, buffer int) (*content, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, not a NIfTI file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	b := bufio.NewReaderSize(file, buffer)
	c := &content{Reader: b, file: file, most: info.Size()}
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			file.Close()
			return nil, &volume.FormatError{Path: path, Problem: "has a damaged gzip header", Err: err}
		}
		c.Reader, c.gzip, c.most = z, true, info.Size()*maxRatio
	}
	return c, nil
}

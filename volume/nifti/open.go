package nifti

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
)

// maxRatio is how much gzip can shrink at most: a match of 258 bytes in two bits, with rounding up
// for the block's own header.
const maxRatio = 1032

// Files lists the files that an image lies in: of a pair the header, then the voxels, whichever of
// them the path names and however either is compressed; of any other image the path alone, as it is
// of a pair of which half is missing.
func Files(path string) []string {
	header, image, err := pair(path)
	if err != nil || header == image {
		return []string{path}
	}
	return []string{header, image}
}

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
	candidates := []string{stem + other, stem + other + ".gz", stem + other + ".GZ"}
	if gz {
		candidates = []string{stem + other + path[len(base):], stem + other}
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
		return "", "", &volume.FormatError{Path: path, Problem: "is the image of a pair, but its header " + stem +
			other + " is missing", Err: os.ErrNotExist}
	}
	// A .hdr file alone: something else may be wrong with its header, and is told first.
	raw, _, err := head(path, 540)
	if err != nil {
		return "", "", err
	}
	if _, err := parse(raw, path, stem+other); err != nil {
		return "", "", err
	}
	return "", "", &volume.FormatError{Path: path, Problem: "is the header of a pair, but its image " + stem + other +
		" is missing", Err: os.ErrNotExist}
}

// content is what a file holds, uncompressed.
type content struct {
	path string
	file *os.File
	size int64 // of the file
	gzip bool
}

func (c *content) Close() error { return c.file.Close() }

// open opens a file, and looks at its first bytes: they say whether it is compressed, its name need
// not.
func open(path string) (*content, error) {
	file, err := folders.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, not a NIfTI file", path)
	}
	var first [standin.Enough]byte
	n := 0
	if err == nil {
		if n, err = file.ReadAt(first[:], 0); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if what := standin.Instead(first[:n]); err == nil && what != "" {
		err = &volume.FormatError{Path: path, Problem: what}
	}
	if err == nil {
		for _, c := range compressions {
			if bytes.HasPrefix(first[:], []byte(c.magic)) {
				err = &volume.UnsupportedError{Path: path,
					Problem: fmt.Sprintf("is compressed with %s: decompress it, or compress it with gzip", c.name)}
			}
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &content{path, file, info.Size(), first[0] == 0x1f && first[1] == 0x8b}, nil
}

// compressions that are named instead of read.
var compressions = []struct{ magic, name string }{
	{"BZh", "bzip2"}, {"\x28\xb5\x2f\xfd", "Zstandard"}, {"\xfd7zXZ\x00", "xz"}, {"PK\x03\x04", "zip"},
}

// most returns how many bytes the file can hold at most, uncompressed.
func (c *content) most() int64 {
	if c.gzip {
		return c.size * maxRatio
	}
	return c.size
}

// A length is how many bytes a file's content has: at most, where it is compressed.
type length struct {
	bytes int64
	exact bool
}

// head returns the first n bytes of a file's content, or fewer, and its length.
func head(path string, n int) ([]byte, length, error) {
	c, err := open(path)
	if err != nil {
		return nil, length{}, err
	}
	defer c.Close()
	if !c.gzip {
		raw := make([]byte, min(int64(n), c.size))
		if _, err := io.ReadFull(c.file, raw); err != nil {
			return nil, length{}, &volume.FormatError{Path: path, Problem: "cannot be read", Err: err}
		}
		return raw, length{c.most(), !c.gzip}, nil
	}
	raw := make([]byte, min(int64(max(n, standin.Enough)), c.most()))
	u, err := unzip(c.file)
	got := 0
	if err == nil {
		got, err = u.fill(raw)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, length{}, c.damaged(err)
	}
	raw = raw[:got]
	if what := standin.Instead(raw); what != "" { // a server may have compressed it
		return nil, length{}, &volume.FormatError{Path: path, Problem: what}
	}
	return raw[:min(n, len(raw))], length{c.most(), !c.gzip}, nil
}

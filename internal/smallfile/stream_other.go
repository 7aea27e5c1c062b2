//go:build !unix

package smallfile

import (
	"io"
	"io/fs"
	"os"
)

// openStream opens a pipe or a device.
func openStream(path string, _ fs.FileInfo) (io.ReadCloser, error) { return os.Open(path) }

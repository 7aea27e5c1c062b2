package dicom

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/standin"
)

// archives are files that may hold scans, by how they begin, and what to do with them.
var archives = []struct{ magic, what string }{
	{"PK\x03\x04", "a zip archive: unpack it"},
	{"7z\xBC\xAF\x27\x1C", "a 7z archive: unpack it"},
	{"Rar!\x1A\x07", "a rar archive: unpack it"},
	{"BZh", "compressed with bzip2: decompress it"},
	{"\xFD7zXZ\x00", "compressed with xz: decompress it"},
	{"\x28\xB5\x2F\xFD", "compressed with Zstandard: decompress it"},
}

// standsIn says what a file is that is not DICOM, and stands where another should be; "" for other
// files.
func standsIn(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var start [standin.Enough]byte
	n, _ := io.ReadFull(f, start[:])
	if strings.EqualFold(filepath.Ext(path), ".dcm") { // others may be JSON by right
		return standin.Instead(start[:n])
	}
	return standin.What(start[:n])
}

// archive says what a file is that is not DICOM itself, if it may hold DICOM, and what to do with
// it; "" for other files. Zip archives without DICOM files, such as those of office programs, are
// none.
func archive(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var start [264]byte
	n, _ := io.ReadFull(f, start[:]) // a short file is none
	begin := string(start[:n])
	if strings.HasPrefix(begin, "\x1F\x8B") {
		return compressed(f)
	}
	if n > 262 && begin[257:262] == "ustar" {
		return "a tar archive: unpack it"
	}
	for _, a := range archives {
		if strings.HasPrefix(begin, a.magic) {
			if a.magic[:2] == "PK" && !holdsDICOM(f) {
				return ""
			}
			return a.what
		}
	}
	return ""
}

// compressed says what a gzip file holds, if that is DICOM or an archive.
func compressed(f *os.File) string {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ""
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return ""
	}
	var start [264]byte
	n, _ := io.ReadFull(z, start[:])
	switch {
	case n >= 132 && bytes.Equal(start[128:132], []byte("DICM")):
		return "DICOM compressed with gzip: decompress it"
	case n > 262 && bytes.Equal(start[257:262], []byte("ustar")):
		return "a tar archive compressed with gzip: unpack it"
	}
	return ""
}

// holdsDICOM reports whether a zip archive holds files that may be DICOM, by the first of them.
func holdsDICOM(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return true // damaged: whoever unpacks it is told
	}
	for _, entry := range z.File {
		r, err := entry.Open()
		if err != nil {
			continue
		}
		var start [132]byte
		n, _ := io.ReadFull(r, start[:])
		r.Close()
		if n == len(start) && string(start[128:]) == "DICM" {
			return true
		}
	}
	return false
}

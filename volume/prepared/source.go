package prepared

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/folders"
)

// Source is a file, or a folder with all files in it, that a prepared case was read from, and what
// tells whether it is still the same.
type Source struct {
	Path     string    `json:"path"`
	Files    int       `json:"files"`
	Size     int64     `json:"size"`     // of all files together
	Modified time.Time `json:"modified"` // the latest of them
	// SHA-256 over the files' contents, in the order of their names
	Hash string `json:"hash"`
}

// plainSource is a Source as JSON has it. JSON is UTF-8: a path that is not is there twice, once
// for people and once as it is.
type plainSource struct {
	sourceFields
	PathBytes []byte `json:"path_bytes,omitempty"`
}

// sourceFields is a Source without its methods.
type sourceFields Source

// MarshalJSON implements [json.Marshaler].
func (s Source) MarshalJSON() ([]byte, error) {
	plain := plainSource{sourceFields: sourceFields(s)}
	if !utf8.ValidString(s.Path) {
		plain.PathBytes = []byte(s.Path)
	}
	return json.Marshal(plain)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Source) UnmarshalJSON(data []byte) error {
	var plain plainSource
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	*s = Source(plain.sourceFields)
	if plain.PathBytes != nil {
		s.Path = string(plain.PathBytes)
	}
	return nil
}

// NewSource describes a file or a folder. It reads all of it.
func NewSource(path string) (Source, error) {
	s, err := look(path)
	if err != nil {
		return s, err
	}
	s.Hash, err = hashOf(path)
	return s, err
}

// Changed reports whether the path holds other data now than when s was made. A newer time alone is
// no change: then the contents are compared.
func (s Source) Changed() (bool, error) {
	now, err := look(s.Path)
	if err != nil {
		return false, err
	}
	if now.Files != s.Files || now.Size != s.Size {
		return true, nil
	}
	if now.Modified.Equal(s.Modified) {
		return false, nil
	}
	sum, err := hashOf(s.Path)
	return sum != s.Hash, err
}

// Among reports whether a source is one of the paths, or a folder that one of them lies in, or a
// file in one that is a folder: a series is its folder only as long as nothing else lies there.
func (s Source) Among(paths []string) bool {
	below := func(path, folder string) bool {
		rest, inside := strings.CutPrefix(path, folder)
		return inside && (rest == "" || rest[0] == filepath.Separator)
	}
	return slices.ContainsFunc(paths, func(path string) bool { return below(path, s.Path) || below(s.Path, path) })
}

// unchanged reports whether the paths are those of the sources, with the same data behind them.
func unchanged(sources []Source, paths []string) bool {
	return slices.EqualFunc(sources, paths, func(s Source, path string) bool {
		changed, err := s.Changed()
		return s.Path == path && !changed && err == nil
	})
}

// look fills everything but the hash.
func look(path string) (Source, error) {
	s := Source{Path: path}
	err := eachFile(path, func(_ string, info fs.FileInfo) error {
		s.Files++
		s.Size += info.Size()
		if info.ModTime().After(s.Modified) {
			s.Modified = info.ModTime().UTC()
		}
		return nil
	})
	return s, err
}

func hashOf(path string) (string, error) {
	h := sha256.New()
	err := eachFile(path, func(file string, _ fs.FileInfo) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		return copyAll(h, f)
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// eachFile calls f for a file, or for every file below a folder in the order of their names,
// through links: data sets are often made of those. Links that lead nowhere, pipes, sockets and
// devices hold no data.
func eachFile(path string, f func(string, fs.FileInfo) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() { // most are, and of many it counts what a look costs
		return f(path, info)
	}
	return folders.Walk(path, func(file string, info fs.FileInfo, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, folders.ErrNotFile), errors.Is(err, syscall.ELOOP):
			return nil
		case err != nil || !info.Mode().IsRegular():
			return err
		}
		return f(file, info)
	})
}

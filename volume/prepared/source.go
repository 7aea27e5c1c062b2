package prepared

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

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

// NewSource describes a file or a folder. It reads all of it.
func NewSource(path string) (Source, error) {
	s, err := look(path)
	if err != nil {
		return s, err
	}
	s.Hash, err = hash(path)
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
	sum, err := hash(s.Path)
	return sum != s.Hash, err
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

func hash(path string) (string, error) {
	h := sha256.New()
	err := eachFile(path, func(file string, _ fs.FileInfo) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// eachFile calls f for a file, or for every file below a folder in the order of their names,
// through links: data sets are often made of those. Links that lead nowhere hold no data.
func eachFile(path string, f func(string, fs.FileInfo) error) error {
	return folders.Walk(path, func(file string, info fs.FileInfo, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !info.Mode().IsRegular():
			return err
		}
		return f(file, info)
	})
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// source is an entry of a list of volumes: volumes of one repository under one licence.
type source struct {
	Repository string `yaml:"repository"` // owner/name
	Commit     string `yaml:"commit"`
	Licence    string `yaml:"licence"`
	Stated     string `yaml:"stated"` // the file of the repository that states the licence
	Volumes    []scan `yaml:"volumes"`
}

// scan is a volume of a source.
type scan struct {
	Path   string `yaml:"path"` // ends in / for a folder
	Region string `yaml:"region"`
	// voxels and mm, along columns, rows and slices
	Size    [3]int     `yaml:"size"`
	Spacing [3]float64 `yaml:"spacing"`
	Files   int        `yaml:"files"`
	// of the file; of a folder, of the lines that sha256sum prints of its files in the order of
	// their paths
	SHA256 string `yaml:"sha256"`
}

// The states of a volume in the folder.
const (
	present = "present" // it was there
	written = "written"
)

// readSources returns the entries of a list of volumes.
func readSources(list string) ([]source, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var sources []source
	if err := yaml.UnmarshalWithOptions(text, &sources, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	return sources, nil
}

// gather writes the volumes of a list below a folder, under owner/name/path, from clones. Volumes
// that are there are compared with their digests alone; without clones nothing is written. It
// returns how many are wrong or missing.
func gather(out io.Writer, clones, list, folder, only string) (bad int, err error) {
	sources, err := readSources(list)
	if err != nil {
		return 0, err
	}
	counts := map[string]int{}
	for _, s := range sources {
		var c *clone
		var cloneProblem error
		for _, v := range s.Volumes {
			name := s.Repository + "/" + v.Path
			if !strings.Contains(name, only) {
				continue
			}
			verdict, why := s.held(v, folder)
			if verdict == missing && clones != "" {
				if c == nil && cloneProblem == nil {
					c, cloneProblem = openClone(filepath.Join(clones, filepath.FromSlash(s.Repository)), s.Commit)
				}
				if cloneProblem != nil {
					why = ": " + cloneProblem.Error()
				} else {
					verdict, why = s.fill(c, v, folder)
				}
			}
			counts[verdict]++
			fmt.Fprintf(out, "%-8s %s (%s)%s\n", verdict, name, s.Licence, why)
		}
		if c != nil {
			if err := c.close(); err != nil {
				return 0, err
			}
		}
	}
	if len(counts) == 0 {
		return 0, fmt.Errorf("%s: no volume's path contains %q", list, only)
	}
	fmt.Fprintf(out, "\n%d written, %d present, %d wrong, %d missing\n",
		counts[written], counts[present], counts[wrong], counts[missing])
	return counts[wrong] + counts[missing], nil
}

// held says whether a folder holds a volume as the list has it.
func (s source) held(v scan, folder string) (verdict, why string) {
	path := filepath.Join(folder, filepath.FromSlash(s.Repository), filepath.FromSlash(v.Path))
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, ": not in " + folder
	}
	if why := v.differs(path); why != "" {
		return wrong, why + "; remove " + path + " to have it written again"
	}
	return present, ""
}

// fill writes a volume that is not there: aside first, so that what lies in its place is whole.
func (s source) fill(c *clone, v scan, folder string) (verdict, why string) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return missing, ": " + err.Error()
	}
	aside, err := os.MkdirTemp(folder, ".corpus-")
	if err != nil {
		return missing, ": " + err.Error()
	}
	defer os.RemoveAll(aside)
	files, err := c.checkout(v.Path, aside)
	switch {
	case err != nil:
		return missing, ": " + err.Error()
	case files == 0:
		return missing, ": the clone does not hold it"
	}
	from := filepath.Join(aside, filepath.FromSlash(v.Path))
	if why := v.differs(from); why != "" {
		return wrong, why
	}
	to := filepath.Join(folder, filepath.FromSlash(s.Repository), filepath.FromSlash(v.Path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return missing, ": " + err.Error()
	}
	if err := os.Rename(from, to); err != nil {
		return missing, ": " + err.Error()
	}
	return written, ""
}

// differs says how a file or folder differs from the list's; nothing if it is the same.
func (v scan) differs(path string) string {
	digest, files, err := digestOf(path)
	switch {
	case err != nil:
		return ": " + err.Error()
	case files != v.Files:
		return fmt.Sprintf(": %d files, the list has %d", files, v.Files)
	case digest != v.SHA256:
		return fmt.Sprintf(": SHA-256 %s, the list has %s", digest, v.SHA256)
	}
	return ""
}

// digestOf returns the SHA-256 of a file, or that of the lines that sha256sum prints of the files
// of a folder, by paths relative to it and in their order; and how many files these are.
func digestOf(path string) (digest string, files int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	if !info.IsDir() {
		digest, err = atomicfile.SHA256(path)
		return digest, 1, err
	}
	var lines []string
	err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		one, err := atomicfile.SHA256(p)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(path, p)
		lines = append(lines, one+"  "+filepath.ToSlash(relative)+"\n")
		return err
	})
	if err != nil {
		return "", 0, err
	}
	// by path, which stands behind 64 digits and two spaces
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:]), len(lines), nil
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// repository is an entry of list.yaml.
type repository struct {
	Repository string   `yaml:"repository"` // owner/name
	Commit     string   `yaml:"commit"`
	Files      []string `yaml:"files"`  // patterns of files that are read one by one
	Trees      []string `yaml:"trees"`  // folders that dcm2niix reads as a whole
	Stacks     []string `yaml:"stacks"` // folders that are one volume
	// words of an error, and patterns of the files that must be refused with it
	Refused map[string][]string `yaml:"refused"`
	// files that no other program reads, and files that hold the same pixels
	Like map[string]string `yaml:"like"`

	expected []expectation
}

// expectation is a line of expected.jsonl: what another program read.
type expectation struct {
	Repository string   `json:"repository"`
	Path       string   `json:"path"` // ends in / for a folder
	Files      int      `json:"files"`
	Reader     string   `json:"reader"`
	Error      string   `json:"error"` // why the other program read nothing
	Is         []string `json:"is"`    // what speaks against a scan, by its header; see facts
	Lossy      bool     `json:"lossy"` // decoders may differ by rounding
	Volumes    []figure `json:"volumes"`
	Segments   int      `json:"segments"` // of a DICOM SEG object
	Labelled   int      `json:"labelled"` // pixels in any of them
}

// figure is a volume in numbers.
type figure struct {
	Shape []int `json:"shape"`
	// mm; of single slices those in the plane alone
	Spacing []float64 `json:"spacing"`
	// RAS coordinates of the first and of the last voxel, nil where the file does not say them
	First  []float64 `json:"first"`
	Last   []float64 `json:"last"`
	Min    float64   `json:"min"` // of the finite values
	Max    float64   `json:"max"`
	Mean   float64   `json:"mean"`
	Centre []float64 `json:"centre"` // of the values above the smallest, in voxels
}

// readList returns the repositories of list.yaml with their lines of expected.jsonl.
func readList(folder string) ([]repository, error) {
	text, err := os.ReadFile(filepath.Join(folder, "list.yaml"))
	if err != nil {
		return nil, err
	}
	var repositories []repository
	if err := yaml.UnmarshalWithOptions(text, &repositories, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("list.yaml: %w", err)
	}
	byName := map[string]*repository{}
	for n := range repositories {
		byName[repositories[n].Repository] = &repositories[n]
	}
	f, err := os.Open(filepath.Join(folder, "expected.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var e expectation
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("expected.jsonl, line %d: %w", number, err)
		}
		r := byName[e.Repository]
		if r == nil {
			return nil, fmt.Errorf("expected.jsonl, line %d: %s is not in list.yaml", number, e.Repository)
		}
		r.expected = append(r.expected, e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for n := range repositories {
		if err := repositories[n].liken(); err != nil {
			return nil, err
		}
	}
	return repositories, nil
}

// liken expects of files that nothing else reads what others hold.
func (r *repository) liken() error {
	for path, other := range r.Like {
		find := func(path string) int {
			return slices.IndexFunc(r.expected, func(e expectation) bool { return e.Path == path })
		}
		a, b := find(path), find(other)
		if a < 0 || b < 0 {
			return fmt.Errorf("list.yaml: %s: %s is like %s, but one of them is not in expected.jsonl", r.Repository,
				path, other)
		}
		like := r.expected[b]
		like.Path = path
		r.expected[a] = like
	}
	return nil
}

// words returns the words with which a file must be refused; none where it must be read.
func (r *repository) words(path string) (words []string) {
	for w, patterns := range r.Refused {
		for _, p := range patterns {
			if fits(p, path) {
				words = append(words, w)
				break
			}
		}
	}
	return words
}

// fits reports whether a pattern fits a path. In it, * stands for anything, slashes too.
func fits(pattern, path string) bool {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	return regexp.MustCompile("^(?s:" + expression + ")$").MatchString(path)
}

package photos

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: the classes of ImageNet's photographs for validation, which lie in one flat folder
// val. They come in a file beside the photographs, in one of several forms.

// The files that say, in the order in which they are believed.
const (
	// of the competition's pages: ImageId,PredictionString, the synset first
	truthKaggle = "LOC_val_solution.csv"
	// a synset a line, in the order of the photographs' numbers
	truthSynsets = "imagenet_2012_validation_synset_labels.txt"
	// of the development kit: an ILSVRC2012_ID a line, in the order of the photographs' numbers
	truthIDs = "ILSVRC2012_validation_ground_truth.txt"
	// of Caffe: NAME.JPEG NUMBER, the number of a synset in synsets.txt, from 0
	truthCaffe = "val.txt"
)

// What tells the synsets of numbers.
const (
	// SYNSET NUMBER NAME, the number as an ILSVRC2012_ID of the development kit
	metaMap = "map_clsloc.txt"
	// a synset a line, in Caffe's order, which is that of their names
	metaSynsets = "synsets.txt"
)

// truthFiles are the names that a walk over a folder looks for.
var truthFiles = []string{truthKaggle, truthSynsets, truthIDs, truthCaffe, metaMap, metaSynsets}

// isSynset says whether a name is that of a synset: n01440764.
func isSynset(name string) bool {
	digits, ok := strings.CutPrefix(name, "n")
	return ok && len(digits) == 8 && strings.Trim(digits, "0123456789") == ""
}

// readTruth reads the classes of photographs in a flat folder val, by the base of their names
// without the extension; nil where no file has them. Known are the classes that are trained on. The
// notes say which file was read, and what is missing where one cannot be used. Where several have
// them, they must agree.
func (s *Set) readTruth(flat, known []string) (map[string]string, error) {
	if len(flat) == 0 {
		return nil, nil
	}
	var believed map[string]string
	var from string // the file that has them
	for _, form := range []struct {
		file string
		read func(file string, flat, known []string) (map[string]string, error)
	}{{truthKaggle, readKaggle}, {truthSynsets, readInOrder}, {truthIDs, s.readIDs}, {truthCaffe, s.readCaffe}} {
		name := s.beside[form.file]
		if name == "" {
			continue
		}
		file := filepath.Join(s.Root, filepath.FromSlash(name))
		notes := s.Notes
		truth, err := form.read(file, flat, known)
		switch {
		case believed != nil: // the other file is only looked at for whether it says the same
			s.Notes = notes
			if err := contradiction(flat, believed, truth); err != nil {
				return nil, fmt.Errorf("the classes of the folder val: %s and %s: %w: remove the file that is wrong",
					from, name, err)
			}
		case err != nil:
			return nil, fmt.Errorf("the classes of the folder val: %w", err)
		case truth != nil:
			believed, from = truth, name
			s.Notes = append(s.Notes, fmt.Sprintf("the classes of the folder val are those of %s", name))
		}
	}
	return believed, nil
}

// contradiction is an error where two lists give a photograph different classes.
func contradiction(flat []string, one, other map[string]string) error {
	for _, name := range flat {
		if a, b := one[stem(name)], other[stem(name)]; a != "" && b != "" && a != b {
			return fmt.Errorf("%s is of %s in the one, of %s in the other", name, a, b)
		}
	}
	return nil
}

// sayWithoutTruth says of photographs in a flat folder val that nobody knows their classes.
func (s *Set) sayWithoutTruth(n, of int) {
	if n == 0 {
		return
	}
	s.Notes = append(s.Notes,
		fmt.Sprintf("%d of the %s in the folder val have no class, so that nothing can be validated by them that "+
			"needs one: put them into folders of their classes, or lay the ground truth into the data set's folder: "+
			"%s with %s of ImageNet's development kit, %s, %s, or Caffe's %s with %s",
			n, numbers.Count(of, "photograph"), truthIDs, metaMap, truthSynsets, truthKaggle, truthCaffe, metaSynsets))
}

// stem is a file's name without folder and extension.
func stem(name string) string {
	base := path.Base(name)
	return strings.TrimSuffix(base, path.Ext(base))
}

// readKaggle reads LOC_val_solution.csv.
func readKaggle(file string, _, _ []string) (map[string]string, error) {
	text, err := smallfile.Read(file, smallfile.List)
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(strings.NewReader(string(text)))
	truth := map[string]string{}
	for n := 1; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return truth, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if n == 1 && row[0] == "ImageId" {
			continue
		}
		if len(row) != 2 {
			return nil, fmt.Errorf("%s, line %d: want ImageId,PredictionString", file, n)
		}
		synset, _, _ := strings.Cut(row[1], " ")
		truth[row[0]] = synset
	}
}

// readInOrder reads a class a line, in the order of the numbers that the photographs' names end in,
// from 1.
func readInOrder(file string, flat, _ []string) (map[string]string, error) {
	lines, err := readLines(file)
	if err != nil {
		return nil, err
	}
	return inOrder(file, flat, lines)
}

// inOrder gives photographs the entry of their number. Every number must have one: a list of other
// photographs would give all of them wrong classes.
func inOrder(file string, flat, entries []string) (map[string]string, error) {
	truth := map[string]string{}
	for _, name := range flat {
		base := stem(name)
		digits := base[strings.LastIndexFunc(base, func(r rune) bool { return r < '0' || r > '9' })+1:]
		number, err := strconv.Atoi(digits)
		if err != nil {
			return nil, fmt.Errorf("%s lists classes by the photographs' numbers, and %s has none", file, name)
		}
		if number < 1 || number > len(entries) {
			return nil, fmt.Errorf("%s has %s, and %s is number %d: it is of other photographs", file,
				numbers.Count(len(entries), "line"), name, number)
		}
		truth[base] = entries[number-1]
	}
	return truth, nil
}

// readIDs reads the development kit's ground truth, and which synsets its numbers stand for.
func (s *Set) readIDs(file string, flat, _ []string) (map[string]string, error) {
	lines, err := readLines(file)
	if err != nil {
		return nil, err
	}
	if s.beside[metaMap] == "" {
		s.Notes = append(s.Notes, fmt.Sprintf("%s has numbers, and nothing says which synsets they stand for: lay %s "+
			"beside it, with lines of SYNSET NUMBER NAME (meta.mat of the kit has them for MATLAB)",
			filepath.Base(file), metaMap))
		return nil, nil
	}
	synsets, err := readMetaMap(filepath.Join(s.Root, filepath.FromSlash(s.beside[metaMap])))
	if err != nil {
		return nil, err
	}
	for n, line := range lines {
		id, err := strconv.Atoi(line)
		if err != nil || synsets[id] == "" {
			return nil, fmt.Errorf("%s, line %d: %q is no number of a synset", file, n+1, line)
		}
		lines[n] = synsets[id]
	}
	return inOrder(file, flat, lines)
}

// readMetaMap reads lines of SYNSET NUMBER NAME.
func readMetaMap(file string) (map[int]string, error) {
	lines, err := readLines(file)
	if err != nil {
		return nil, err
	}
	synsets := map[int]string{}
	for n, line := range lines {
		words := strings.Fields(line)
		id := 0
		if len(words) > 1 && isSynset(words[0]) {
			id, err = strconv.Atoi(words[1])
		}
		if id < 1 || err != nil {
			return nil, fmt.Errorf("%s, line %d: want SYNSET NUMBER NAME", file, n+1)
		}
		synsets[id] = words[0]
	}
	return synsets, nil
}

// readCaffe reads Caffe's val.txt. Its numbers count the synsets of synsets.txt, or, where that is
// missing, all 1000 of the training folder, whose names are in the same order. Another val.txt is
// none.
func (s *Set) readCaffe(file string, _, known []string) (map[string]string, error) {
	lines, err := readLines(file)
	if err != nil {
		return nil, err
	}
	order := slices.Sorted(slices.Values(known))
	if name := s.beside[metaSynsets]; name != "" {
		if order, err = readLines(filepath.Join(s.Root, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	} else if len(order) != 1000 {
		return nil, nil
	}
	truth := map[string]string{}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) != 2 || path.Ext(words[0]) == "" {
			return nil, nil
		}
		number, err := strconv.Atoi(words[1])
		if err != nil || number < 0 || number >= len(order) {
			return nil, nil
		}
		truth[stem(words[0])] = order[number]
	}
	return truth, nil
}

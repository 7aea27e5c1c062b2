package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: long lists of cases. A checkpoint of 100,000 cases would repeat their names each time
// that it is written, and again in the configuration. So a list of more than manyNames lies in a
// file of its own beside it, one name a line, and the checkpoint says the file's name and its
// SHA-256.

// manyNames is the length up to which a list is written where it is needed.
const manyNames = 1000

// A List says which file has a long list of names.
type List struct {
	File   string `yaml:"file"`
	Names  int    `yaml:"names"`
	SHA256 string `yaml:"sha256"`
}

// listOf is the file of a list of names; nil for a short one.
func listOf(names []string) (l *List, text []byte) {
	if len(names) <= manyNames {
		return nil, nil
	}
	text = []byte(strings.Join(names, "\n") + "\n")
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	return &List{"names-" + digest[:16] + ".txt", len(names), digest}, text
}

func (l List) String() string {
	return fmt.Sprintf("%d names, those in %s, SHA-256 %s", l.Names, l.File, l.SHA256)
}

// ListForConfig is a list of names as a configuration has it: a long one is its file and digest, as
// one text.
func ListForConfig(names []string) []string {
	if l, _ := listOf(names); l != nil {
		return []string{l.String()}
	}
	return names
}

// ListFromConfig is the list of names that [ListForConfig] gave the configuration in a folder.
func ListFromConfig(folder string, names []string) ([]string, error) {
	if len(names) != 1 {
		return names, nil
	}
	l, isList := parseList(names[0])
	if !isList {
		return names, nil
	}
	all, err := l.read(folder)
	if err == nil && all == nil {
		err = fmt.Errorf("%s, with the names of %d cases, is not in %s", l.File, l.Names, folder)
	}
	return all, err
}

// parseList is the list that [List.String] wrote, if it wrote the text.
func parseList(text string) (l List, ok bool) {
	found := inConfig.FindStringSubmatch(text)
	if found == nil || found[0] != text {
		return l, false
	}
	l = List{File: found[2], SHA256: found[3]}
	var err error
	l.Names, err = strconv.Atoi(found[1])
	return l, err == nil
}

// WriteList writes the file of a long list of names into a folder, and nothing for a short one. A
// file that is there already, whose name says its content, is left alone.
func WriteList(folder string, names []string) error {
	l, text := listOf(names)
	if l == nil {
		return nil
	}
	path := filepath.Join(folder, l.File)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(text)) {
		return nil
	}
	return atomicfile.WriteBytes(path, text)
}

// Lists names the files of long lists of names in a folder.
func Lists(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if listName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// listName is how [WriteList] calls a file.
var listName = regexp.MustCompile(`^names-[0-9a-f]{16}\.txt$`)

// inConfig finds what [List.String] leaves in a configuration.
var inConfig = regexp.MustCompile(`([0-9]+) names, those in (names-[0-9a-f]{16}\.txt), SHA-256 ([0-9a-f]{64})`)

// VerifyLists says what is wrong with the files of long lists of names that a configuration names.
// They lie beside it.
func VerifyLists(path string) (problems []string) {
	// folded, a line's end is a blank
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return nil // who reads the configuration says so
	}
	for _, found := range inConfig.FindAllString(strings.Join(strings.Fields(string(text)), " "), -1) {
		l, _ := parseList(found)
		switch names, err := l.read(filepath.Dir(path)); {
		case err != nil:
			problems = append(problems, err.Error())
		case names == nil:
			problems = append(problems, fmt.Sprintf("%s names %d cases in %s, which is not beside it",
				filepath.Base(path), l.Names, l.File))
		}
	}
	return problems
}

// read reads the names. Where the file is not there, it returns nil.
func (l List) read(folder string) ([]string, error) {
	if filepath.Base(l.File) != l.File {
		return nil, fmt.Errorf("%q is no file of the same folder", l.File)
	}
	text, err := smallfile.Read(filepath.Join(folder, l.File), smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != l.SHA256 {
		return nil, fmt.Errorf("%s is not the list of names that was written with it", l.File)
	}
	names := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(names) != l.Names {
		return nil, fmt.Errorf("%s has %d names, not %d", l.File, len(names), l.Names)
	}
	return names, nil
}

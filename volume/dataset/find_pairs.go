package dataset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: which files belong together where names do not tell, as somebody says.

// A pair is a scan with a file of its labels, or with the mask of one structure.
type pair struct {
	scan, labels, name string
}

// readPairs reads the pairs of scans and labels: a CSV file with the columns scan and labels, and
// name where each file is the mask of a structure; or a pattern such as
// images/*.nii.gz=masks/*_organs.nii.gz, whose stars stand for the same text on both sides. Paths
// may have backslashes, as on Windows. They are relative to the table or to one of the data sets,
// those of a pattern to each.
func readPairs(text string, roots []string) (pairs []pair, err error) {
	if scan, labels, isPattern := strings.Cut(text, "="); isPattern && strings.Contains(scan, "*") {
		var alone []string
		for _, root := range roots {
			found, without, err := matchPairs(scan, labels, root, root)
			if err != nil {
				return nil, fmt.Errorf("pairs %s: %w", text, err)
			}
			pairs, alone = append(pairs, found...), append(alone, without...)
		}
		if len(pairs) == 0 {
			return nil, fmt.Errorf("pairs %s: %s", text, noMatch(scan, labels, roots, roots, alone))
		}
		return pairs, nil
	}
	rows, err := readTable(text, "scan", "labels", "name")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		p := pair{name: row["name"]}
		if p.scan, err = findPaired(text, row["scan"], roots); err == nil {
			p.labels, err = findPaired(text, row["labels"], roots)
		}
		if err != nil {
			return nil, err
		}
		if !isBelow(absoluteOf(p.scan), absolutesOf(roots)) {
			return nil, fmt.Errorf("pairs: %s is no scan that was found", p.scan)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// PairLabels reads which prediction belongs to which reference: a CSV file with the columns
// prediction and reference, or a pattern such as *_pred.nii.gz=*_manual.nii.gz. Paths are relative
// to the table or the folders, those of a pattern to the folders. It returns a map of references to
// predictions, and the references of a pattern that have none: "" is their prediction.
func PairLabels(text, predictions, references string) (map[string]string, error) {
	pairs := map[string]string{}
	if prediction, reference, isPattern := strings.Cut(text, "="); isPattern && strings.Contains(prediction, "*") {
		found, alone, err := matchPairs(reference, prediction, references, predictions)
		if err != nil {
			return nil, fmt.Errorf("pairs %s: %w", text, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("pairs %s: %s", text, noMatch(reference, prediction, []string{references},
				[]string{predictions}, alone))
		}
		for _, p := range found {
			pairs[p.scan] = p.labels
		}
		for _, path := range alone {
			pairs[path] = ""
		}
		return pairs, nil
	}
	rows, err := readTable(text, "prediction", "reference", "")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		prediction, err := findPaired(text, row["prediction"], []string{predictions})
		if err != nil {
			return nil, err
		}
		reference, err := findPaired(text, row["reference"], []string{references})
		if err != nil {
			return nil, err
		}
		if other, twice := pairs[reference]; twice {
			return nil, fmt.Errorf("%s: %s has two predictions, %s and %s: keep one", text, reference, other,
				prediction)
		}
		pairs[reference] = prediction
	}
	return pairs, nil
}

// readTable reads a table with two columns that every line fills, and perhaps a third.
func readTable(path, first, second, third string) ([]map[string]string, error) {
	text, err := smallfile.ReadGiven(path, smallfile.List)
	if err != nil {
		return nil, err
	}
	rows, header, err := table(text, separators...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	columns := first + "," + second
	if third != "" {
		columns += " or " + columns + "," + third
	}
	if !slices.Contains(header, first) || !slices.Contains(header, second) {
		if second == "patient" { // the line may be a patient's, by name
			return nil, fmt.Errorf("%s: its first line must name the columns (%s), and does not", path, columns)
		}
		return nil, fmt.Errorf("%s: its first line must name the columns (%s), and is %s", path, columns,
			strings.Join(header, ","))
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no line follows the one that names the columns", path)
	}
	for n, row := range rows {
		if row[first] == "" || row[second] == "" {
			return nil, fmt.Errorf("%s, line %d: needs %s and %s", path, n+2, first, second)
		}
	}
	return rows, nil
}

// findPaired finds a file that a table names: beside the table, or in one of the folders.
func findPaired(text, path string, roots []string) (string, error) {
	path = filepath.FromSlash(path)
	if filepath.IsAbs(path) {
		_, err := os.Stat(path)
		return path, err
	}
	for _, relative := range []string{path, slashed(path)} {
		for _, folder := range append([]string{filepath.Dir(text)}, roots...) {
			full := filepath.Join(folder, filepath.FromSlash(relative))
			if _, err := os.Stat(full); err == nil {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("%s: there is no %s, neither beside it nor in %s", text, path, strings.Join(roots, ", "))
}

// matchPairs finds the pairs of a pattern: the files of one folder, and those of another that they
// go with. It also lists the files of the first that have no partner.
func matchPairs(first, second, root, other string) (pairs []pair, alone []string, err error) {
	if strings.Count(first, "*") != strings.Count(second, "*") {
		return nil, nil, fmt.Errorf("both sides need the same number of *")
	}
	parts := strings.Split(slashed(first), "*")
	for n := range parts {
		parts[n] = regexp.QuoteMeta(parts[n])
	}
	pattern := regexp.MustCompile("^" + strings.Join(parts, "([^/]*)") + "$")
	err = walk(root, func(path string, _ fs.FileInfo, err error) error {
		relative, wrong := filepath.Rel(root, path)
		if err != nil || wrong != nil {
			return nil // the search for scans says what cannot be looked at
		}
		m := pattern.FindStringSubmatch(filepath.ToSlash(relative))
		if m == nil {
			return nil
		}
		partner := slashed(second)
		for _, text := range m[1:] {
			partner = strings.Replace(partner, "*", text, 1)
		}
		switch partner = filepath.Join(other, filepath.FromSlash(partner)); {
		case partner == path:
		case isFile(partner):
			pairs = append(pairs, pair{scan: path, labels: partner})
		case isFile(path):
			alone = append(alone, path)
		}
		return nil
	})
	return pairs, alone, err
}

// noMatch says why a pattern has no pairs: no file matches its first side, or none of those that do
// has a partner. Who wrote it sees a path as the pattern must have it.
func noMatch(first, second string, roots, others, alone []string) string {
	if len(alone) > 0 {
		return fmt.Sprintf("%s matches %s, but none has a partner %s in %s, such as %s", alone[0], first, second,
			strings.Join(others, ", "), exampleBelow(others))
	}
	return fmt.Sprintf("no file matches %s: patterns have paths as they are below %s, such as %s", first,
		strings.Join(roots, ", "), exampleBelow(roots))
}

// exampleBelow is the path of the first file of voxels below folders, as seen from there.
func exampleBelow(roots []string) string {
	example := "none, for there is no file of voxels"
	for _, root := range roots {
		found := false
		// nothing but an example
		_ = walk(root, func(path string, entry fs.FileInfo, err error) error {
			if relative, wrong := filepath.Rel(root, path); err == nil && wrong == nil && !entry.IsDir() &&
				format.IsName(path) {
				example, found = filepath.ToSlash(relative), true
				return fs.SkipAll
			}
			return nil
		})
		if found {
			break
		}
	}
	return example
}

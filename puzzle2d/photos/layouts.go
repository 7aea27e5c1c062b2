package photos

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// sides are the names that folders of a split go by.
var sides = map[string]string{
	"train": Train, "training": Train,
	"val": Val, "valid": Val, "validation": Val,
	"test": Test, "testing": Test,
}

// clutter are folders that Caltech's data sets have beside their classes: what a search for nothing
// found. They are no class, but photographs.
var clutter = map[string]bool{"BACKGROUND_Google": true, "257.clutter": true}

// arrange gives photographs their classes and splits, by the layout.
func (s *Set) arrange(paths []string) error {
	common := commonFolder(paths)
	inner := func(p string) []string { return strings.Split(strings.TrimPrefix(p, common), "/") }
	top := map[string]bool{} // folders
	for _, p := range paths {
		if parts := inner(p); len(parts) > 1 {
			top[parts[0]] = true
		}
	}
	present := map[string]bool{}
	for name := range top {
		present[sides[strings.ToLower(name)]] = true
	}
	if present[Train] && (present[Val] || present[Test]) {
		return s.arrangeSides(paths, common, inner)
	}
	classes := make([]string, len(paths))
	for n, p := range paths {
		if parts := inner(p); len(parts) > 1 && !clutter[parts[0]] {
			classes[n] = parts[0]
		}
	}
	lists, err := readLists(s.Root, common, paths)
	if err != nil {
		return err
	}
	splits := make([]string, len(paths))
	if lists != nil {
		s.Layout = LayoutLists
		for n, p := range paths {
			splits[n] = lists[p]
		}
	}
	s.fill(paths, classes, splits)
	return nil
}

// arrangeSides reads folders train, val and test, with a folder a class in each.
func (s *Set) arrangeSides(paths []string, common string, inner func(string) []string) error {
	s.Layout = LayoutImageNet
	annotations, err := readTinyAnnotations(filepath.Join(s.Root, filepath.FromSlash(common)))
	if err != nil {
		return err
	}
	if annotations != nil {
		s.Layout = LayoutTinyImageNet
	}
	classes, splits := make([]string, len(paths)), make([]string, len(paths))
	for n, p := range paths {
		parts := inner(p)
		splits[n] = sides[strings.ToLower(parts[0])]
		switch {
		case annotations != nil && splits[n] == Val:
			classes[n] = annotations[path.Base(p)]
		case annotations != nil && splits[n] == Test:
			// test/images: nobody has published their classes
		case len(parts) > 2:
			classes[n] = parts[1]
		}
	}
	if annotations == nil {
		if err := s.tellFlat(paths, classes, splits); err != nil {
			return err
		}
	}
	s.fill(paths, classes, splits)
	return nil
}

// tellFlat gives the photographs that lie in the folder val itself, as ImageNet's do, the classes
// that a file of the ground truth says.
func (s *Set) tellFlat(paths, classes, splits []string) error {
	var flat []string
	trained := map[string]bool{}
	val, folders := 0, map[string]bool{}
	for n := range paths {
		switch {
		case splits[n] == Train && classes[n] != "":
			trained[classes[n]] = true
		case splits[n] == Val:
			folders[classes[n]] = true
		}
	}
	for n, p := range paths {
		if splits[n] == Val && len(folders) == 1 && !trained[classes[n]] && len(trained) > 1 {
			classes[n] = "" // val/images or the like
		}
		switch {
		case splits[n] == Val && classes[n] == "":
			flat = append(flat, p)
		}
		if splits[n] == Val {
			val++
		}
	}
	if len(trained) == 0 {
		return nil // nothing is learnt of classes
	}
	truth, err := s.readTruth(flat, slices.Collect(maps.Keys(trained)))
	if err != nil {
		return err
	}
	without := 0
	for n, p := range paths {
		if splits[n] != Val || classes[n] != "" {
			continue
		}
		if classes[n] = truth[stem(p)]; classes[n] == "" {
			without++
		}
	}
	s.sayWithoutTruth(without, val)
	return nil
}

// dropUntrained takes classes away that no photograph of the side train has, where any there has a
// class: nothing learns them, and each of their photographs would count as answered wrong.
func (s *Set) dropUntrained(classes, splits []string) {
	trained, shared, of := map[string]bool{}, false, map[string]int{}
	for n, class := range classes {
		of[splits[n]]++
		trained[class] = trained[class] || class != "" && splits[n] == Train
	}
	if !slices.Contains(slices.Collect(maps.Values(trained)), true) {
		return
	}
	for n, class := range classes {
		shared = shared || trained[class] && (splits[n] == Val || splits[n] == Test)
	}
	if !shared { // new classes are to be learnt: 2d transfer --mix draws from all
		return
	}
	for _, side := range []string{Val, Test} {
		others, count := map[string]bool{}, 0
		for n, class := range classes {
			if splits[n] == side && class != "" && !trained[class] {
				classes[n], others[class] = "", true
				count++
			}
		}
		if count > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf(
				"%d of %s of %s are of classes that "+
					"%s does not have: they are given none (%s)",
				count,
				numbers.Count(of[side], "photograph"),
				side,
				Train,
				safetext.List(slices.Sorted(maps.Keys(others))),
			))
		}
	}
}

// fill numbers the classes. Where others have a split, a photograph without one is passed over.
func (s *Set) fill(paths, classes, splits []string) {
	for n := range classes {
		if s.Layout != LayoutFolder && splits[n] == "" { // passed over below
			classes[n] = ""
		}
	}
	s.dropUntrained(classes, splits)
	names := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(classes))),
		func(name string) bool { return name == "" })
	s.Classes = names
	passed := 0
	for n, p := range paths {
		if s.Layout != LayoutFolder && splits[n] == "" {
			passed++
			continue
		}
		class, known := slices.BinarySearch(names, classes[n])
		if !known {
			class = Unlabelled
		}
		s.Photos = append(s.Photos, Found{Path: p, Class: class, Split: splits[n]})
	}
	if passed > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("passed over, being on no side of the split: %s",
			numbers.Count(passed, "photograph")))
	}
}

// commonFolder is the folder that all photographs lie in below another folder: data sets come
// wrapped. It ends in a slash, or is empty.
func commonFolder(paths []string) string {
	common := ""
	for {
		rest := strings.TrimPrefix(paths[0], common)
		first, below, nested := strings.Cut(rest, "/")
		if !nested || !strings.Contains(below, "/") {
			return common
		}
		next := common + first + "/"
		for _, p := range paths {
			if !strings.HasPrefix(p, next) || !strings.Contains(strings.TrimPrefix(p, next), "/") {
				return common
			}
		}
		common = next
	}
}

// readLists reads train.txt, test.txt and val.txt, lines of CLASS/FILE, at the root or beside the
// classes. It gives the side of each photograph; nil where there are no such lists.
func readLists(root, common string, paths []string) (map[string]string, error) {
	for folder := common; ; folder = path.Dir(strings.TrimSuffix(folder, "/")) + "/" {
		if folder == "./" {
			folder = ""
		}
		lists, err := readListsIn(root, folder, common, paths)
		if lists != nil || err != nil || folder == "" {
			return lists, err
		}
	}
}

func readListsIn(root, folder, common string, paths []string) (map[string]string, error) {
	lists := map[string]string{}
	found := map[string]bool{}
	known := map[string]bool{}
	for _, p := range paths {
		known[p] = true
	}
	for _, side := range []string{Train, Val, Test} {
		name := map[string]string{Train: "train.txt", Val: "val.txt", Test: "test.txt"}[side]
		file := filepath.Join(root, filepath.FromSlash(folder), name)
		lines, err := readLines(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		met, missed, missing := 0, 0, ""
		for _, line := range lines {
			listed, _, _ := strings.Cut(line, "\t")
			listed = strings.TrimPrefix(filepath.ToSlash(listed), "./")
			place := ""
			for _, candidate := range []string{common + listed, folder + listed, listed} {
				if place == "" && known[candidate] {
					place = candidate
				}
			}
			if place == "" {
				missed, missing = missed+1, listed
				continue
			}
			if other := lists[place]; other != "" && other != side {
				return nil, fmt.Errorf("%s: %s is in the list of another side, too: take it out of one", file, listed)
			}
			met++
			lists[place] = side
		}
		if met == 0 {
			continue // a list of something else
		}
		if missed > met/20 {
			return nil, fmt.Errorf("%s lists photographs that are not there, %d in all, such as %s: "+
				"complete the folder, or take the list away", file, missed, missing)
		}
		found[side] = true
	}
	if !found[Train] || !found[Val] && !found[Test] {
		return nil, nil
	}
	return lists, nil
}

// readTinyAnnotations reads the classes of Tiny ImageNet's val folder, by file name; nil where
// there are none.
func readTinyAnnotations(root string) (map[string]string, error) {
	lines, err := readLines(filepath.Join(root, "val", "val_annotations.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	classes := map[string]string{}
	for _, line := range lines {
		if parts := strings.Split(line, "\t"); len(parts) >= 2 {
			classes[parts[0]] = parts[1]
		}
	}
	return classes, nil
}

// readLines reads lines that are not empty.
func readLines(file string) (lines []string, err error) {
	text, err := smallfile.Read(file, smallfile.Log)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// holdOut splits each class: the share whose paths have the smallest digests under the seed goes to
// Val, all others to Train. So a photograph that is added moves at most one other.
func (s *Set) holdOut(share float64, seed uint64) {
	type place struct {
		index  int
		digest [sha256.Size]byte
	}
	byClass := map[int][]place{}
	for n, p := range s.Photos {
		key := binary.LittleEndian.AppendUint64(nil, seed)
		byClass[p.Class] = append(byClass[p.Class], place{n, sha256.Sum256(append(key, p.Path...))})
		s.Photos[n].Split = Train
	}
	for _, places := range byClass {
		slices.SortFunc(places, func(a, b place) int {
			return cmp.Or(slices.Compare(a.digest[:], b.digest[:]), a.index-b.index)
		})
		for _, p := range places[:int(math.Round(share*float64(len(places))))] {
			s.Photos[p.index].Split = Val
		}
	}
}

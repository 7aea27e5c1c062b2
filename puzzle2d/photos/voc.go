package photos

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// vocFolder finds the folder of a Pascal VOC data set: the root, one VOC year below it or below
// VOCdevkit. It is relative to the root, "" where there is none.
func vocFolder(root string) (string, error) {
	var found []string
	for _, pattern := range []string{".", "VOC*", "VOCdevkit/VOC*"} {
		matches, err := filepath.Glob(filepath.Join(escapeGlob(root), filepath.FromSlash(pattern), "JPEGImages"))
		if err != nil {
			return "", err
		}
		for _, m := range matches {
			folder := filepath.Dir(m)
			if info, err := os.Stat(filepath.Join(folder, "ImageSets", "Main")); err != nil || !info.IsDir() {
				continue
			}
			name, err := filepath.Rel(root, folder)
			if err != nil {
				return "", err
			}
			found = append(found, filepath.ToSlash(name))
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%s holds %d Pascal VOC data sets (%s): name one of these folders", root, len(found),
			strings.Join(found, ", "))
	}
	if len(found) == 0 {
		return "", nil
	}
	return found[0], nil
}

// escapeGlob makes a path match itself only.
func escapeGlob(p string) string {
	if os.PathSeparator == '\\' {
		return p // Windows has no escapes, and no * in names
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p)
}

// annotation is an Annotations/NAME.xml (VOC2007 development kit, section 10.1).
type annotation struct {
	Objects []struct {
		Name      string `xml:"name"`
		Difficult int    `xml:"difficult"`
		Box       struct {
			XMin float64 `xml:"xmin"`
			YMin float64 `xml:"ymin"`
			XMax float64 `xml:"xmax"`
			YMax float64 `xml:"ymax"`
		} `xml:"bndbox"`
	} `xml:"object"`
}

// readVOC reads the photographs that ImageSets/Main lists, with what their annotations say.
func readVOC(root, folder string) (*Set, error) {
	s := &Set{Root: root, Layout: LayoutVOC}
	base := filepath.Join(root, filepath.FromSlash(folder))
	splits := map[string]string{}
	for _, list := range []struct{ file, side string }{{"train.txt", Train}, {"val.txt", Val}, {"test.txt", Test},
		{"trainval.txt", Train}} {
		file := filepath.Join(base, "ImageSets", "Main", list.file)
		lines, err := readLines(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			name := strings.Fields(line)[0]
			switch other := splits[name]; {
			case other == "":
				splits[name] = list.side
			case other != list.side && list.file != "trainval.txt":
				return nil, fmt.Errorf("%s: %s is in the list of another side, too: take it out of one", file, name)
			}
		}
	}
	if len(splits) == 0 {
		return nil, fmt.Errorf("%s: no photograph is listed in ImageSets/Main: complete the data set", base)
	}
	entries, err := os.ReadDir(filepath.Join(base, "JPEGImages"))
	if err != nil {
		return nil, err
	}
	known, err := classLists(filepath.Join(base, "ImageSets", "Main"))
	if err != nil {
		return nil, err
	}
	annotations := map[string]annotation{}
	unlisted, unannotated := 0, 0
	names := slices.Clone(known) // of classes
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if splits[name] == "" {
			unlisted++
			continue
		}
		file := filepath.Join(base, "Annotations", name+".xml")
		a, there, err := readAnnotation(file)
		if err != nil {
			return nil, err
		}
		if !there {
			unannotated++
		}
		annotations[name] = a
		for _, o := range a.Objects {
			if known != nil && !slices.Contains(known, o.Name) {
				return nil, fmt.Errorf("%s: an object of class %q, which ImageSets/Main has no list of (%s): mend "+
					"the name, or add the list %s_trainval.txt", file, o.Name, strings.Join(known, ", "), o.Name)
			}
			names = append(names, o.Name)
		}
		s.Photos = append(s.Photos, Found{Path: path.Join(folder, "JPEGImages", e.Name()), Class: Unlabelled,
			Split: splits[name]})
	}
	s.Classes = slices.Compact(slices.Sorted(slices.Values(names)))
	for n, p := range s.Photos {
		for _, o := range annotations[strings.TrimSuffix(path.Base(p.Path), path.Ext(p.Path))].Objects {
			class, _ := slices.BinarySearch(s.Classes, o.Name)
			s.Photos[n].Objects = append(s.Photos[n].Objects,
				Object{class, [4]float64{o.Box.XMin, o.Box.YMin, o.Box.XMax, o.Box.YMax}, o.Difficult != 0})
		}
	}
	if unlisted > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("passed over, because ImageSets/Main does not list them: %s",
			numbers.Count(unlisted, "photograph")))
	}
	if unannotated > 0 && unannotated < len(s.Photos) {
		s.Notes = append(s.Notes, fmt.Sprintf("no annotation, so that nothing is marked on them: %s",
			numbers.Count(unannotated, "photograph")))
	}
	if missing := len(splits) - len(s.Photos); missing > len(splits)/20 {
		return nil, fmt.Errorf("%s: %d of the %d photographs that ImageSets/Main lists are "+
			"not in JPEGImages: complete the data set", base, missing, len(splits))
	} else if missing > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("listed in ImageSets/Main, but not in JPEGImages: %s",
			numbers.Count(missing, "photograph")))
	}
	return s, nil
}

// classLists are the classes that ImageSets/Main has lists of, such as dog_train.txt: lines of a
// photograph and 1, -1 or 0. nil where it has none; then the annotations alone say what classes
// there are.
func classLists(folder string) (classes []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, isText := strings.CutSuffix(e.Name(), ".txt")
		at := strings.LastIndexByte(name, '_')
		if !isText || at < 1 || strings.HasPrefix(name, ".") ||
			!slices.Contains([]string{"train", "val", "trainval", "test"}, name[at+1:]) {
			continue
		}
		lines, err := readLines(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		if len(lines) > 0 && len(strings.Fields(lines[0])) == 2 {
			classes = append(classes, name[:at])
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes), nil
}

// readAnnotation reads what is marked on a photograph; there is false where it has no annotation.
func readAnnotation(file string) (a annotation, there bool, err error) {
	data, err := smallfile.Read(file, smallfile.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	if err := xml.Unmarshal(data, &a); err != nil {
		return a, true, fmt.Errorf("%s is no annotation of Pascal VOC (%w): mend it, or take it away", file, err)
	}
	for _, o := range a.Objects {
		if o.Name == "" || !(o.Box.XMax >= o.Box.XMin && o.Box.YMax >= o.Box.YMin) {
			return a, true,
				fmt.Errorf("%s: an object without a name, or with a box whose corners are exchanged: mend it", file)
		}
	}
	return a, true, nil
}

package photos

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photo"
)

// The sides of a split.
const (
	Train = "train"
	Val   = "val"
	Test  = "test"
)

// Unlabelled is the class of a photograph that has none.
const Unlabelled = -1

// The layouts of data sets.
const (
	LayoutFolder       = "folder"        // no split; subfolders, if any, are classes
	LayoutImageNet     = "ImageNet"      // train/CLASS, val/CLASS, perhaps test
	LayoutTinyImageNet = "Tiny ImageNet" // train/CLASS/images, val/images, val/val_annotations.txt
	LayoutLists        = "lists"         // CLASS folders beside train.txt and test.txt: Caltech's
	LayoutVOC          = "Pascal VOC"    // JPEGImages, Annotations, ImageSets/Main
)

// A Set is what a folder of photographs holds.
type Set struct {
	Root    string
	Layout  string
	Classes []string // by name
	Photos  []Found  // by path
	Notes   []string // what was passed over, a line each

	beside map[string]string // paths of files of the names truthFiles, the nearest to the root
}

// Found is a photograph that was found; nobody has decoded it yet.
type Found struct {
	Path    string   // below the root, with slashes
	Class   int      // index into Set.Classes, or Unlabelled
	Split   string   // Train, Val or Test; "" before the data set is split
	Objects []Object // what an annotation says is on it
}

// An Object is something that an annotation marks on a photograph.
type Object struct {
	Class int `json:"class"`
	// xmin, ymin, xmax and ymax in pixels of the original, the first of which is 1, as Pascal VOC
	// counts
	Box       [4]float64 `json:"box"`
	Difficult bool       `json:"difficult,omitempty"`
}

// ErrScans says that a folder holds scans, not photographs.
var ErrScans = errors.New("scans, not photographs: voxsaw prepare reads them")

// Find looks for photographs below root: files whose names end as those of photographs do, and
// others that begin like one. A share holdOut of each class goes to [Val] where the data set has no
// split of its own; which ones depends on the seed and their paths alone. Errors name the folder
// and wrap [ErrScans] where there are scans only.
func Find(root string, holdOut float64, seed uint64) (*Set, error) {
	if holdOut < 0 || holdOut >= 1 {
		return nil, fmt.Errorf("a share of %g cannot be held out: at least 0 and less than 1", holdOut)
	}
	if folder, err := vocFolder(root); err != nil {
		return nil, err
	} else if folder != "" {
		return readVOC(root, folder)
	}
	found, err := collect(root)
	if err != nil {
		return nil, err
	}
	if len(found.photos) == 0 {
		if found.scans > 0 {
			return nil, fmt.Errorf("%s holds %d files of %w", root, found.scans, ErrScans)
		}
		return nil, fmt.Errorf("%s: no photograph here: JPEG, PNG, GIF, BMP, WebP and TIFF are read", root)
	}
	s := &Set{Root: root, Layout: LayoutFolder, Notes: found.notes(), beside: found.beside}
	if err := s.arrange(found.photos); err != nil {
		return nil, err
	}
	if s.Layout == LayoutFolder {
		s.holdOut(holdOut, seed)
	}
	return s, nil
}

// collection is what a walk has found.
type collection struct {
	photos         []string // below the root, with slashes
	scans, others  int
	cannotBeOpened []string
	beside         map[string]string // as in Set
}

// collect walks over a folder. A file is a photograph if its name says so, whatever it holds: then
// reading it says what is wrong. Files with other names are looked into.
func collect(root string) (*collection, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: name the folder of photographs", root)
	}
	c := &collection{beside: map[string]string{}}
	err = folders.Walk(root, func(file string, entry fs.FileInfo, err error) error {
		if err != nil {
			if Machine(err) {
				return err
			}
			c.cannotBeOpened = append(c.cannotBeOpened, err.Error())
			return nil
		}
		if strings.HasPrefix(filepath.Base(file), ".") { // ._NAME and .DS_Store, too
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		if base := filepath.Base(file); slices.Contains(truthFiles, base) {
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if before := c.beside[base]; before == "" || strings.Count(name, "/") < strings.Count(before, "/") {
				c.beside[base] = name
			}
		}
		kind, err := kindOf(file)
		switch {
		case Machine(err):
			return err
		case err != nil:
			c.cannotBeOpened = append(c.cannotBeOpened, err.Error())
		case kind == aPhoto:
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			c.photos = append(c.photos, filepath.ToSlash(name))
		case kind == aScan:
			c.scans++
		default:
			c.others++
		}
		return nil
	})
	slices.Sort(c.photos)
	return c, err
}

func (c *collection) notes() (notes []string) {
	if c.scans > 0 {
		notes = append(notes, fmt.Sprintf("passed over: %s of scans, which voxsaw prepare reads",
			numbers.Count(c.scans, "file")))
	}
	for _, line := range c.cannotBeOpened {
		notes = append(notes, "passed over: "+line)
	}
	return notes
}

type kind int

const (
	another kind = iota
	aPhoto
	aScan
)

// kindOf tells photographs and scans from other files, by name where that says enough.
func kindOf(file string) (kind, error) {
	if photo.IsPicture(file) {
		return aPhoto, nil
	}
	name := strings.ToLower(filepath.Base(file))
	switch strings.TrimPrefix(path.Ext(name), ".") {
	case "nii", "dcm", "nrrd", "mha", "mhd":
		return aScan, nil
	case "txt", "xml", "json", "csv", "tsv", "md", "py", "m", "mat", "npy", "npz", "html", "pdf", "yaml", "yml", "log",
		"sh", "zip", "tar", "rgb", "jpegs":
		return another, nil
	case "gz":
		if strings.HasSuffix(name, ".nii.gz") {
			return aScan, nil
		}
		return another, nil
	}
	f, err := folders.Open(file)
	if err != nil {
		return another, err
	}
	defer f.Close()
	head := make([]byte, photo.SniffLen)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return another, &fs.PathError{Op: "read", Path: file, Err: err}
	}
	switch format := photo.Sniff(head[:n]); {
	case format.Scan():
		return aScan, nil
	case format.Picture():
		return aPhoto, nil
	}
	return another, nil
}

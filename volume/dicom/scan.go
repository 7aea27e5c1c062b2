package dicom

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Passed is a file that Scan passed over.
type Passed struct {
	Path string
	What string // "not DICOM", "RTSTRUCT", "SR", "damaged", ...
	Err  error  // for damaged files
}

// Scan looks at every file under the paths (files or folders), with whatever name, and groups the images into series: by SeriesInstanceUID, orientation,
// matrix and pixel spacing, and where one of these holds several volumes, by what tells them apart (acquisition, time, echo, ...). It reads headers only. Files
// that are no images are listed in passed. Series are in the order of their first file.
func Scan(paths ...string) (series []*Series, passed []Passed, err error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Type()&fs.ModeSymlink != 0 {
				if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
					return nil
				}
			} else if !d.Type().IsRegular() {
				return nil
			}
			files = append(files, p)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	images := make([]*image, len(files))
	errs := make([]error, len(files))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for n, path := range files {
		g.Go(func() error {
			images[n], errs[n] = readImage(path)
			return nil
		})
	}
	g.Wait()
	var found []*image
	for n, path := range files {
		switch {
		case errors.Is(errs[n], errNotDICOM):
			passed = append(passed, Passed{Path: path, What: "not DICOM"})
		case errs[n] != nil:
			passed = append(passed, Passed{Path: path, What: "damaged", Err: errs[n]})
		case images[n].passOver() != "":
			passed = append(passed, Passed{Path: path, What: images[n].passOver()})
		default:
			found = append(found, images[n])
		}
	}
	series, copies := group(found)
	for _, path := range copies {
		passed = append(passed, Passed{Path: path, What: "copy"})
	}
	return series, passed, nil
}

// group makes series of images, which are in the order of their paths. Copies are files whose images others hold as well.
func group(images []*image) (all []*Series, copies []string) {
	type bin struct {
		key    string
		slices []slice
	}
	var bins []*bin
	for _, im := range images {
		for _, s := range im.slices() {
			key := fmt.Sprintf("%s %dx%d", im.series, im.rows, im.columns)
			if im.series == "" {
				key += "in " + filepath.Dir(im.path) // anonymised too well: the folder is all that holds it together
			}
			if s.located() {
				if _, _, normal, err := s.axes(); err == nil {
					s.at = vector(s.info.position).dot(normal)
				}
			}
			at := slices.IndexFunc(bins, func(b *bin) bool { return b.key == key && alike(&b.slices[0], &s) })
			if at < 0 {
				bins = append(bins, &bin{key: key})
				at = len(bins) - 1
			}
			bins[at].slices = append(bins[at].slices, s)
		}
	}
	for _, b := range bins {
		b.slices, copies = withoutCopies(b.slices, copies)
		for _, part := range split(b.slices) {
			all = append(all, newSeries(part))
		}
	}
	parts := map[string][]*Series{}
	for _, s := range all {
		if s.UID != "" {
			parts[s.UID] = append(parts[s.UID], s)
		}
	}
	for _, of := range parts {
		if len(of) > 1 {
			for n, s := range of {
				s.Part = n + 1
			}
		}
	}
	return all, copies
}

// withoutCopies drops images that are there already, by their SOPInstanceUID, and appends their paths to copies. Of two, the one whose pixels can be read stays.
func withoutCopies(all []slice, copies []string) ([]slice, []string) {
	type key struct {
		sop   string
		frame int
	}
	kept := map[key]int{}
	var out []slice
	for _, s := range all {
		k := key{s.image.sop, s.frame}
		n, there := kept[k]
		if !there || s.image.sop == "" {
			kept[k] = len(out)
			out = append(out, s)
			continue
		}
		if out[n].image.checkPixels() != nil && s.image.checkPixels() == nil {
			out[n], s = s, out[n]
		}
		if s.frame == 0 {
			copies = append(copies, s.image.path)
		}
	}
	return out, copies
}

// slices returns the frames of an image.
func (im *image) slices() []slice {
	out := make([]slice, im.frames)
	for n := range out {
		out[n] = slice{image: im, frame: n, info: im.shared}
		if n < len(im.perFrame) {
			out[n].info = im.perFrame[n]
			out[n].info.under(im.shared)
		}
	}
	if im.frames > 1 && len(im.perFrame) != im.frames {
		// Positions are those of the first frame at best.
		for n := range out {
			out[n].info.position = nil
		}
	}
	return out
}

// alike says whether two slices of a series can be of one volume: same orientation and spacing, to what their digits tell.
func alike(a, b *slice) bool {
	if a.located() != b.located() {
		return false
	}
	if !a.located() {
		return a.image == b.image || a.image.frames == 1 && b.image.frames == 1
	}
	for n := range a.info.orientation {
		if math.Abs(a.info.orientation[n]-b.info.orientation[n]) > 1e-3 {
			return false
		}
	}
	for n := range a.info.spacing {
		if math.Abs(a.info.spacing[n]-b.info.spacing[n]) > 1e-3*a.info.spacing[n] {
			return false
		}
	}
	return true
}

// split sorts slices along the normal and divides them into volumes where they are several.
func split(all []slice) [][]slice {
	if !all[0].located() {
		return [][]slice{all}
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].at < all[b].at })
	if regular(all) {
		return [][]slice{all}
	}
	// By one attribute, if that is enough; else by one after the other (echoes of several types).
	for tag := range volumeTags {
		if parts := by(tag, all); volumes(parts) {
			return parts
		}
	}
	parts := [][]slice{all}
	for tag := range volumeTags {
		var finer [][]slice
		for _, part := range parts {
			if smaller := by(tag, part); !regular(part) && smaller != nil {
				finer = append(finer, smaller...)
			} else {
				finer = append(finer, part)
			}
		}
		parts = finer
	}
	if volumes(parts) {
		return parts
	}
	return [][]slice{all}
}

// by divides sorted slices by the value of an attribute, or returns nil if that makes single slices of them, or no difference.
func by(tag int, all []slice) [][]slice {
	values := map[string][]slice{}
	for _, s := range all {
		values[s.info.volumeKeys[tag]] = append(values[s.info.volumeKeys[tag]], s)
	}
	if len(values) < 2 || len(values) > len(all)/2 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) // numbers in their order
	var parts [][]slice
	for _, key := range keys {
		parts = append(parts, values[key])
	}
	return parts
}

// volumes says whether parts are several regular stacks that lie in the same place. Those that lie one behind the other are one stack with a gap.
func volumes(parts [][]slice) bool {
	inside := false
	for n, part := range parts {
		if len(part) < 2 || !regular(part) {
			return false
		}
		for _, other := range parts[:n] {
			inside = inside || part[0].at < other[len(other)-1].at-samePlace && other[0].at < part[len(part)-1].at-samePlace
		}
	}
	return inside
}

// regular says whether sorted slices are evenly spaced, none in the place of another.
func regular(all []slice) bool {
	at := make([]float64, len(all))
	for n := range all {
		at[n] = all[n].at
		if n > 0 && at[n]-at[n-1] < samePlace {
			return false
		}
	}
	even, _, _ := evenly(at)
	return even
}

func newSeries(all []slice) *Series {
	first := all[0]
	s := &Series{UID: first.image.series, Number: first.image.number, Modality: first.image.modality, Syntax: first.image.syntax.name, slices: all}
	if s.Number == "" {
		s.Number = "(no number)"
	}
	if s.Modality == "" {
		s.Modality = "(no modality)"
	}
	for n, one := range all {
		if n == 0 || one.image != all[n-1].image {
			s.Files = append(s.Files, one.image.path)
			s.Instances = append(s.Instances, one.image.instance)
		}
		for _, t := range one.info.imageType {
			s.Localizer = s.Localizer || strings.EqualFold(t, "LOCALIZER")
		}
	}
	if s.UID == "" {
		s.Problems = append(s.Problems, "no SeriesInstanceUID: what lies in one folder is taken for one series")
	}
	s.Tilt = s.tilt()
	var o Options
	if err := o.defaults(); err != nil {
		panic(err)
	}
	p, err := s.plan(o)
	if err != nil {
		s.Err = err
		s.Problems = append(s.Problems, err.Error())
		return s
	}
	s.Grid = p.grid
	s.Problems = append(s.Problems, p.notes...)
	if s.Localizer {
		s.Problems = append(s.Problems, "a localizer, not a scan")
	}
	if first.image.photometric == "MONOCHROME1" {
		s.Problems = append(s.Problems, "stored for display with white as the lowest value (MONOCHROME1): the values are kept")
	}
	return s
}

// tilt returns the angle between the way from the first slice to the last and their normal, in degrees.
func (s *Series) tilt() float64 {
	first, last := &s.slices[0], &s.slices[len(s.slices)-1]
	if !first.located() || !last.located() || len(s.slices) < 2 {
		return 0
	}
	_, _, normal, err := first.axes()
	way := vector(last.info.position).minus(vector(first.info.position))
	if err != nil || way.length() == 0 {
		return 0
	}
	return math.Acos(min(way.dot(normal)/way.length(), 1)) * 180 / math.Pi
}

// Choose picks a series: the one whose UID or number is wanted, or with wanted empty the only one that can be read, or else the largest axial CT that can.
// Why says in words how it was chosen.
func Choose(series []*Series, wanted string) (chosen *Series, why string, err error) {
	if wanted != "" {
		var matches []*Series
		for _, s := range series {
			if wanted == s.UID || wanted == s.Number || wanted == fmt.Sprintf("%s.%d", s.Number, s.Part) {
				matches = append(matches, s)
			}
		}
		switch len(matches) {
		case 1:
			return matches[0], "as asked for", nil
		case 0:
			return nil, "", fmt.Errorf("there is no series %s; there are:%s", wanted, list(series))
		}
		return nil, "", fmt.Errorf("series %s is not one but %d (choose by UID, or by number and part: 3.2):%s", wanted, len(matches), list(matches))
	}
	var readable, scans []*Series
	for _, s := range series {
		if s.Err == nil && !s.Localizer {
			readable = append(readable, s)
			if s.Modality == "CT" && s.Grid.Axcodes()[2] == 'S' {
				scans = append(scans, s)
			}
		}
	}
	switch {
	case len(series) == 0:
		return nil, "", errors.New("there are no images")
	case len(readable) == 0 && len(series) == 1:
		return nil, "", series[0].Err
	case len(readable) == 0:
		return nil, "", fmt.Errorf("none of the series can be read:%s", list(series))
	case len(readable) == 1:
		return readable[0], "the only one that can be read", nil
	case len(scans) == 0:
		return nil, "", fmt.Errorf("none of several series is an axial CT: choose with --series:%s", list(series))
	}
	slices.SortStableFunc(scans, func(a, b *Series) int { return cmp.Compare(b.Grid.Len(), a.Grid.Len()) })
	return scans[0], fmt.Sprintf("the largest axial CT of %d series", len(series)), nil
}

func list(series []*Series) string {
	var b strings.Builder
	for _, s := range series {
		fmt.Fprintf(&b, "\n  %s", s)
		if s.Err != nil {
			fmt.Fprintf(&b, ": %v", s.Err)
		}
	}
	return b.String()
}

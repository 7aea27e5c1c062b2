package dicom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: which files there are, and which series their images make. What is done about images
// that are there twice is in copies.go, which of several series is taken in choose.go.

// Passed is a file that Scan passed over.
type Passed struct {
	Path string
	What string // "not DICOM", "RTSTRUCT", "SR", "damaged", ...
	Err  error  // for damaged files
}

// Scan looks at every file under the paths (files or folders), with whatever name, and groups the
// images into series: by SeriesInstanceUID, orientation, matrix and pixel spacing, localizers and
// colours apart, and where one of these holds several volumes, by what tells them apart
// (acquisition, time, echo, ...). It reads headers only, but for images that seem to be there
// twice. Links are followed. Files that are no images, and whatever cannot be opened, are listed in
// passed. Series are in the order of their first file.
func Scan(paths ...string) (series []*Series, passed []Passed, err error) {
	var files []string
	for _, path := range paths {
		err := folders.Walk(path, func(file string, info fs.FileInfo, err error) error {
			switch {
			case err != nil:
				passed = append(passed, Passed{Path: file, What: "cannot be opened", Err: err})
			case info.Mode().IsRegular():
				files = append(files, file)
			}
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
	var spoilt []string
	for n, path := range files {
		switch {
		case errors.Is(errs[n], errNotDICOM):
			passed = append(passed, Passed{Path: path, What: "not DICOM"})
			if ending(path) != "" || blank(path) {
				spoilt = append(spoilt, path)
			}
		case errors.Is(errs[n], fs.ErrPermission):
			passed = append(passed, Passed{Path: path, What: "cannot be opened", Err: errs[n]})
		case errs[n] != nil:
			passed = append(passed, Passed{Path: path, What: "damaged", Err: errs[n]})
			spoilt = append(spoilt, path)
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
	for _, s := range series {
		s.missSpoilt(spoilt)
	}
	return series, passed, nil
}

// missSpoilt says whether files that are empty or damaged lie beside the slices and are called as
// they are: these may be slices that a transfer has lost, and where they are the first or the last,
// no gap tells it.
func (s *Series) missSpoilt(files []string) {
	beside := map[[2]string]bool{}
	for _, path := range s.Files {
		beside[[2]string{filepath.Dir(path), ending(path)}] = true
	}
	var mine []string
	for _, path := range files {
		if beside[[2]string{filepath.Dir(path), ending(path)}] {
			mine = append(mine, filepath.Base(path))
		}
	}
	switch len(mine) {
	case 0:
	case 1:
		s.doubt("a file beside its slices, %s, is empty or damaged: was the transfer complete?", mine[0])
	default:
		s.doubt("%d files beside its slices, %s and more, are empty or damaged: was the transfer complete?", len(mine), mine[0])
	}
}

// ending returns the extension of a file's name in small letters, "" where it has none, or one
// without letters as UIDs have.
func ending(path string) string {
	ext := strings.ToLower(filepath.Ext(path))
	if !strings.ContainsFunc(ext, unicode.IsLetter) {
		return ""
	}
	return ext
}

// blank says whether a file with a number in its name holds nothing, or zeros as far as one looks.
func blank(path string) bool {
	if !strings.ContainsAny(filepath.Base(path), "0123456789") {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 4<<10)
	n, err := io.ReadFull(f, start)
	return (err == nil || err == io.EOF || err == io.ErrUnexpectedEOF) && len(bytes.Trim(start[:n], "\x00")) == 0
}

// group makes series of images, which are in the order of their paths. Copies are files whose
// images others hold as well.
func group(images []*image) (all []*Series, copies []string) {
	type key struct {
		series, study string
		space         string // FrameOfReferenceUID: positions in different ones do not compare
		// of images without a series: anonymised too well, the folder is all that holds them
		// together
		folder             string
		rows, columns      int
		localizer, colours bool
	}
	bins := map[key][][]slice{}
	var order []key
	for _, im := range images {
		for _, s := range im.slices() {
			k := key{series: im.series, study: im.study, space: im.frameOfRef, rows: im.rows, columns: im.columns, localizer: s.localizer(), colours: im.samples != 1}
			if im.series == "" {
				k.folder = filepath.Dir(im.path)
			}
			if s.located() {
				if _, _, normal, err := s.axes(); err == nil {
					s.at = vector(s.info.position).dot(normal)
				}
			}
			there, known := bins[k]
			if !known {
				order = append(order, k)
			}
			at := slices.IndexFunc(there, func(b []slice) bool { return alike(&b[0], &s) })
			if at < 0 {
				bins[k] = append(there, []slice{s})
			} else {
				there[at] = append(there[at], s)
			}
		}
	}
	for _, k := range order {
		for _, bin := range bins[k] {
			parts, twice := split(bin)
			copies = append(copies, twice...)
			for _, part := range parts {
				all = append(all, newSeries(part))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Series) int { return cmp.Compare(firstPath(a), firstPath(b)) })
	parts := map[string][]*Series{}
	for _, s := range all {
		if s.UID != "" {
			parts[s.UID] = append(parts[s.UID], s)
		}
	}
	for _, of := range parts {
		if len(of) > 1 {
			// Which part is which must not depend on the names of files.
			slices.SortStableFunc(of, func(a, b *Series) int { return a.compareParts(b) })
			for n, s := range of {
				s.Part = n + 1
				s.missStrangers(of)
			}
		}
	}
	for _, s := range all {
		s.check()
	}
	return all, copies
}

// missStrangers says whether some of the others, of one SeriesInstanceUID, may have been meant to
// be slices of the series: what keeps them from it is no reason to make a series of them, as an
// acquisition is.
func (s *Series) missStrangers(others []*Series) {
	count, reasons, together := 0, map[string]bool{}, slices.Clone(s.slices)
	for _, o := range others {
		a, b := &s.slices[0], &o.slices[0]
		if a.image.samples != 1 || b.image.samples != 1 || s.Localizer || o.Localizer || s.Axcodes == "" || o.Axcodes != "" && o.Axcodes != s.Axcodes {
			continue
		}
		reason := ""
		switch {
		case a.image.study != b.image.study:
			reason = "study"
		case a.image.frameOfRef != b.image.frameOfRef:
			reason = "frame of reference" // places in different ones do not compare
		case a.image.rows != b.image.rows || a.image.columns != b.image.columns:
			reason = "matrix"
		case o.Axcodes == "":
			reason = "what they say of their place"
		case !alike(a, b):
			reason = "orientation or pixel spacing"
		default:
			continue
		}
		reasons[reason] = true
		count += o.Shape[2]
		if o.Axcodes != "" {
			together = append(together, o.slices...)
		}
	}
	if count > 0 {
		what := strings.Join(slices.Sorted(maps.Keys(reasons)), ", ")
		s.doubt("its SeriesInstanceUID has more images (%d), which differ in %s: they are no slices of it", count, what)
		sort.SliceStable(together, func(a, b int) bool { return together[a].at < together[b].at })
		if regular(together) {
			s.filled = what
		}
	}
}

func firstPath(s *Series) string {
	return slices.MinFunc(s.slices, func(a, b slice) int { return cmp.Compare(a.image.path, b.image.path) }).image.path
}

// compareParts orders the volumes of one series: the larger ones first, then by what tells volumes
// apart, then by where they lie.
func (s *Series) compareParts(o *Series) int {
	a, b := &s.slices[0], &o.slices[0]
	order := cmp.Compare(o.voxels(), s.voxels())
	for key := range volumeTags {
		order = cmp.Or(order, compareValues(a.info.volumeKeys[key], b.info.volumeKeys[key]))
	}
	return cmp.Or(order, slices.Compare(a.info.orientation, b.info.orientation), slices.Compare(a.info.position, b.info.position), cmp.Compare(a.image.sop, b.image.sop))
}

func (s *Series) voxels() int { return s.Shape[0] * s.Shape[1] * s.Shape[2] }

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

// alike says whether two slices of a series can be of one volume: same orientation and spacing, to
// what their digits tell.
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

// split sorts slices along the normal and divides them into volumes where they are several. Copies
// are files whose images are there twice.
func split(all []slice) (parts [][]slice, copies []string) {
	if !all[0].located() {
		all, copies = withoutCopies(all, sameInstance)
		return [][]slice{all}, copies
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].at < all[b].at })
	if parts := by(kernelTag, all); volumes(parts) {
		// even where they interleave evenly: sharp and smooth slices are no volume
		return parts, nil
	}
	if regular(all) {
		return [][]slice{all}, nil
	}
	all, copies = withoutCopies(all, sameInstance)
	if regular(all) {
		return [][]slice{all}, copies
	}
	if parts := divide(all); parts != nil {
		return parts, copies
	}
	// Images that were sent again under other UIDs make one volume once they are gone. Volumes that
	// differ do not.
	once, again := withoutCopies(all, samePosition)
	if regular(once) {
		return [][]slice{once}, append(copies, again...)
	}
	for key, t := range volumeTags {
		if slices.Contains(timeTags, t) {
			if parts := byTime(key, all); volumes(parts) {
				return parts, copies
			}
		}
	}
	// Whatever else is wrong will be said of what is left: of each volume, where an attribute keeps
	// slices of one place apart.
	for key := range volumeTags {
		if parts := by(key, once); len(parts) > 1 && crowded(once) > 0 && !slices.ContainsFunc(parts, func(p []slice) bool { return crowded(p) > 0 }) {
			return parts, append(copies, again...)
		}
	}
	return [][]slice{once}, append(copies, again...)
}

// crowded counts the sorted slices that lie in the place of another.
func crowded(all []slice) (count int) {
	for n := 1; n < len(all); n++ {
		if all[n].at-all[n-1].at < samePlace {
			count++
		}
	}
	return count
}

// divide returns the volumes that sorted slices are by their attributes, or nil if they are not
// several.
func divide(all []slice) [][]slice {
	// By one attribute, if that is enough; else by one after the other (echoes of several types).
	for key := range volumeTags {
		if parts := by(key, all); volumes(parts) {
			return parts
		}
	}
	parts := [][]slice{all}
	for key := range volumeTags {
		var finer [][]slice
		for _, part := range parts {
			if smaller := by(key, part); !regular(part) && smaller != nil {
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
	return nil
}

// by divides sorted slices by the value of an attribute, or returns nil if that makes single slices
// of them, or no difference.
func by(key int, all []slice) [][]slice {
	return divided(all, func(s *slice) string { return s.info.volumeKeys[key] })
}

func divided(all []slice, key func(*slice) string) [][]slice {
	values := map[string][]slice{}
	for n := range all {
		values[key(&all[n])] = nil
	}
	if len(values) < 2 || len(values) > len(all)/2 {
		return nil
	}
	for n := range all {
		k := key(&all[n])
		values[k] = append(values[k], all[n])
	}
	var parts [][]slice
	for _, key := range slices.SortedFunc(maps.Keys(values), compareValues) {
		parts = append(parts, values[key])
	}
	return parts
}

// compareValues orders attributes: those that are numbers as such, before all others.
func compareValues(a, b string) int {
	x, errX := decimal(a)
	y, errY := decimal(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// byTime divides sorted slices, each of which may have a time of its own, into volumes that were
// taken one after the other: as many as there are slices in each place, where all of one volume are
// earlier than any of the next. It returns nil where times do not say that.
func byTime(key int, all []slice) [][]slice {
	places := len(all) - crowded(all)
	if len(all)%places != 0 || places == len(all) {
		return nil
	}
	time := func(s *slice) string { return s.info.volumeKeys[key] }
	compare := cmp.Compare[string] // of times of day, which may be cut short: 1200 for 120000
	if volumeTags[key] == tag.FrameReferenceTime {
		compare = compareValues
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b slice) int { return compare(time(&a), time(&b)) })
	var parts [][]slice
	for part := range slices.Chunk(order, places) {
		if n := len(parts); n > 0 && compare(time(&parts[n-1][places-1]), time(&part[0])) >= 0 {
			return nil
		}
		parts = append(parts, slices.Clone(part))
	}
	for _, part := range parts {
		sort.SliceStable(part, func(a, b int) bool { return part[a].at < part[b].at })
	}
	return parts
}

// volumes says whether parts are several regular stacks that lie in the same place. Those that lie
// one behind the other are one stack with a gap.
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
	}
	even, _, _ := evenly(at)
	return even && crowded(all) == 0
}

func newSeries(all []slice) *Series {
	first := all[0]
	s := &Series{
		UID: first.image.series, Study: first.image.study, Number: integerString(first.image.number), Modality: "(no modality)", Syntax: first.image.syntax.name,
		Shape: [3]int{first.image.columns, first.image.rows, len(all)}, Localizer: first.localizer(), Axcodes: first.axcodes(), slices: all,
	}
	if s.Number == "" {
		s.Number = "(no number)"
	}
	if first.image.modality != "" {
		s.Modality = codeString(first.image.modality)
	}
	for n, one := range all {
		if n == 0 || one.image != all[n-1].image {
			s.Files = append(s.Files, one.image.path)
			s.Instances = append(s.Instances, one.image.instance)
		}
	}
	if s.UID == "" {
		s.Problems = append(s.Problems, "no SeriesInstanceUID: what lies in one folder is taken for one series")
	}
	if what := interleaved(all); what != "" {
		s.doubt("slices that differ in %s interleave evenly: they are taken for one volume", what)
	}
	if first.image.modality == "CT" && first.info.intercept == nil {
		s.doubt("a CT without RescaleIntercept: its values are taken for HU as they are stored")
	}
	if n := slices.IndexFunc(all, func(one slice) bool { return one.image.spare() }); n >= 0 {
		im := all[n].image
		s.doubt("slice %d has %d bytes of pixels, more than %d times %dx%d pixels of %d bits: is its header right?", n+1, im.pixels.length, im.frames, im.columns, im.rows, im.allocated)
	}
	if what, projection := s.derived(); projection {
		s.doubt("a projection (%s), not a scan", what)
	}
	s.Tilt = s.tilt()
	return s
}

// check finds out whether the series can be read with the default options.
func (s *Series) check() {
	var o Options
	if err := o.defaults(); err != nil {
		panic(err)
	}
	p, err := s.plan(o)
	if err != nil {
		s.Err = err
		s.Problems = append(s.Problems, err.Error())
		return
	}
	s.Grid = p.grid
	s.Problems = append(s.Problems, p.notes...)
	if s.Localizer {
		s.Problems = append(s.Problems, "a localizer, not a scan")
	}
	if slices.ContainsFunc(s.slices, func(one slice) bool { return one.image.photometric == "MONOCHROME1" }) {
		s.Problems = append(s.Problems, "stored for display with white as the lowest value (MONOCHROME1): the values are kept")
	}
}

// doubt adds a problem that is told whenever the series is read: it may be something else than it
// seems.
func (s *Series) doubt(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.Problems, s.doubts = append(s.Problems, text), append(s.doubts, text)
}

// interleaved says in what sorted slices differ that could be several volumes as well, each
// regular, in one place, or "".
func interleaved(all []slice) string {
	if !all[0].located() || !regular(all) {
		return ""
	}
	for key, t := range volumeTags {
		if !slices.Contains(timeTags, t) && volumes(by(key, all)) {
			return t.String()
		}
	}
	if volumes(divided(all, func(s *slice) string { return filepath.Dir(s.image.path) })) {
		return "their folders"
	}
	return ""
}

// tilt returns the angle between the way from the first slice to the last and their normal, in
// degrees.
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

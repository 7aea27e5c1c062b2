package dicom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/grouping"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: which files there are, and which series their images make. choose.go says which of
// several series is taken.

// Passed is a file that Scan passed over.
type Passed struct {
	Path string
	What string // NotDICOM, "RTSTRUCT", "SR", "damaged", ...
	Err  error  // for damaged files
	// Archive marks archives and compressed files, which may hold DICOM files.
	Archive bool
	// StandsIn says what a file that is not DICOM is in place of another, and what to do about it:
	// "is a pointer of Git LFS, ..."; "" of most.
	StandsIn string
}

// NotDICOM is the reason for files that are something else.
const NotDICOM = "not DICOM"

// Scan looks at every file under the paths (files or folders), with whatever name, and groups the
// images into series: by where they lie and how they are numbered, then by SeriesInstanceUID, and
// where one of these holds several volumes, by what tells them apart (acquisition, time, echo,
// ...). Localizers and colours are apart. It reads headers only, except of images that seem to be
// there twice. Links are followed. Files that are no images, and whatever cannot be opened, are
// listed in passed. Series are in the order of their first file.
func Scan(paths ...string) (series []*Series, passed []Passed, err error) {
	return ScanOnly(func(string) bool { return true }, paths...)
}

// ScanOnly is [Scan] of the files that want takes. Others are not opened, nor told of.
func ScanOnly(want func(file string) bool, paths ...string) (series []*Series, passed []Passed, err error) {
	var files []string
	for _, path := range paths {
		err := folders.Walk(path, func(file string, info fs.FileInfo, err error) error {
			switch {
			case err != nil:
				passed = append(passed, Passed{Path: file, What: "cannot be opened", Err: err})
			case info.Mode().IsRegular() && want(file):
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
	images := make([]*stack.Image, len(files))
	errs := make([]error, len(files))
	archives := make([]string, len(files)) // what they are, of those that are no DICOM
	var g errgroup.Group
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for n := int(next.Add(1)) - 1; n < len(files); n = int(next.Add(1)) - 1 {
				if images[n], errs[n] = stack.ReadImage(files[n]); errors.Is(errs[n], element.ErrNotDICOM) {
					archives[n] = archive(files[n])
				}
			}
			return nil
		})
	}
	g.Wait()
	var found []*stack.Image
	var spoilt []string
	for n, path := range files {
		switch {
		case errors.Is(errs[n], element.ErrNotDICOM):
			if archives[n] != "" {
				passed = append(passed, Passed{Path: path, What: archives[n], Archive: true})
				break
			}
			passed = append(passed, Passed{Path: path, What: NotDICOM, StandsIn: standsIn(path)})
			if ending(path) != "" || blank(path) {
				spoilt = append(spoilt, path)
			}
		case errors.Is(errs[n], fs.ErrPermission):
			passed = append(passed, Passed{Path: path, What: "cannot be opened", Err: errs[n]})
		case errs[n] != nil:
			passed = append(passed, Passed{Path: path, What: "damaged", Err: errs[n]})
			spoilt = append(spoilt, path)
		case images[n].PassOver() != "":
			passed = append(passed, Passed{Path: path, What: images[n].PassOver()})
		default:
			found = append(found, images[n])
		}
	}
	volumes, copies := grouping.Group(found)
	series = seriesOf(volumes)
	for _, path := range copies {
		passed = append(passed, Passed{Path: path, What: "copy"})
	}
	for _, s := range series {
		s.missSpoilt(spoilt)
	}
	return series, passed, nil
}

// missSpoilt notes files that are empty or damaged, lie beside the slices and have names like
// theirs. They may be slices that a transfer has lost; if these are the first or the last, there is
// no gap to tell it.
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
		s.doubt("%d files beside its slices, %s and more, are empty or damaged: was the transfer complete?", len(mine),
			mine[0])
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

// blank reports whether a file with a number in its name is empty, or begins with zeros.
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

// seriesOf makes series of the slices of each volume.
func seriesOf(volumes []grouping.Volume) (all []*Series) {
	for _, v := range volumes {
		all = append(all, newSeries(v))
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
			tellApart(of)
		}
	}
	for _, s := range all {
		s.check()
	}
	return all
}

// missStrangers notes that some of the other volumes of the SeriesInstanceUID may have been meant
// to be slices of this one. What they differ in is no reason to make a volume of its own, as
// another acquisition would be.
func (s *Series) missStrangers(others []*Series) {
	count, reasons, together := 0, map[string]bool{}, slices.Clone(s.stack.Slices)
	for _, o := range others {
		a, b := &s.stack.Slices[0], &o.stack.Slices[0]
		if a.Image.Samples != 1 || b.Image.Samples != 1 || s.Localizer || o.Localizer || s.Axcodes == "" ||
			o.Axcodes != "" && o.Axcodes != s.Axcodes {
			continue
		}
		reason := ""
		switch {
		case differ(s, o, func(im *stack.Image) string { return im.Study }):
			reason = "study"
		case differ(s, o, func(im *stack.Image) string { return im.FrameOfRef }):
			reason = "frame of reference" // places in different ones do not compare
		case a.Image.Rows != b.Image.Rows || a.Image.Columns != b.Image.Columns:
			reason = "matrix"
		case o.Axcodes == "":
			reason = "what they say of their place"
		case !stack.Alike(a, b):
			reason = "orientation or pixel spacing"
		default:
			continue
		}
		reasons[reason] = true
		count += o.Shape[2]
		if o.Axcodes != "" {
			together = append(together, o.stack.Slices...)
		}
	}
	if count > 0 {
		what := strings.Join(slices.Sorted(maps.Keys(reasons)), ", ")
		s.doubt("its SeriesInstanceUID has more images (%d), which differ in %s: they are no slices of it", count, what)
		sort.SliceStable(together, func(a, b int) bool { return together[a].At < together[b].At })
		if stack.Regular(together) {
			s.stack.Filled = what
		}
	}
}

// differ reports whether all images of one volume have the same value, and all of another a
// different one.
func differ(s, o *Series, value func(*stack.Image) string) bool {
	a := value(s.stack.Slices[0].Image)
	b := value(o.stack.Slices[0].Image)
	mixed := func(all []stack.Slice, first string) bool {
		return slices.ContainsFunc(all, func(one stack.Slice) bool { return value(one.Image) != first })
	}
	return a != b && !mixed(s.stack.Slices, a) && !mixed(o.stack.Slices, b)
}

func firstPath(s *Series) string {
	return slices.MinFunc(s.stack.Slices,
		func(a, b stack.Slice) int { return cmp.Compare(a.Image.Path, b.Image.Path) }).Image.Path
}

// compareParts orders the volumes of one series: the larger ones first, then by what tells volumes
// apart, then by where they lie.
func (s *Series) compareParts(o *Series) int {
	a, b := &s.stack.Slices[0], &o.stack.Slices[0]
	order := cmp.Compare(o.voxels(), s.voxels())
	for key := range stack.VolumeTags {
		order = cmp.Or(order, grouping.CompareValues(a.Info.VolumeKeys[key], b.Info.VolumeKeys[key]))
	}
	return cmp.Or(order, slices.Compare(a.Info.Orientation, b.Info.Orientation),
		slices.Compare(a.Info.Position, b.Info.Position), cmp.Compare(a.Image.SOP, b.Image.SOP))
}

func (s *Series) voxels() int { return s.Shape[0] * s.Shape[1] * s.Shape[2] }

// uidsOf lists the different values of a UID, the most frequent first, without the missing one.
func uidsOf(all []stack.Slice, value func(*stack.Image) string) []string {
	count := map[string]int{}
	for n := range all {
		count[value(all[n].Image)]++
	}
	delete(count, "")
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
}

// newSeries describes a volume.
func newSeries(v grouping.Volume) *Series {
	all := v.Slices
	first := all[0]
	s := &Series{
		Number: element.IntegerString(first.Image.Number), Modality: "(no modality)", Syntax: first.Image.Syntax.Name,
		Shape: [3]int{first.Image.Columns, first.Image.Rows, len(all)}, Localizer: first.Localizer(),
		Axcodes: first.Axcodes(),
	}
	if s.uids = uidsOf(all, func(im *stack.Image) string { return im.Series }); len(s.uids) > 0 {
		s.UID = element.UID(s.uids[0])
	}
	s.Number = cmp.Or(s.Number, "(no number)")
	if studies := uidsOf(all, func(im *stack.Image) string { return im.Study }); len(studies) == 1 {
		s.Study = element.UID(studies[0]) // of several, none is the series'
	}
	if patients := uidsOf(all, func(im *stack.Image) string { return im.Patient }); len(patients) == 1 {
		s.Patient = patients[0]
	}
	s.stack = &stack.Stack{Slices: all, Number: s.Number, Tilt: stack.TiltOf(all)}
	if first.Image.Modality != "" {
		s.Modality = element.CodeString(first.Image.Modality)
	}
	s.Description, s.Protocol = first.Image.Description, first.Image.Protocol
	s.Kernel = common(all, tag.ConvolutionKernel)
	s.ImageType, s.Phase = first.Info.ImageType, s.phase()
	s.Localizer = s.Localizer || s.calledScout()
	for n, one := range all {
		if n == 0 || one.Image != all[n-1].Image {
			s.Files = append(s.Files, one.Image.Path)
			s.Instances = append(s.Instances, one.Image.Instance)
		}
	}
	if s.UID == "" {
		s.Problems = append(s.Problems, "no SeriesInstanceUID: what lies in one folder is taken for one series")
	}
	if v.Merged != "" {
		s.doubt("its images differ in %s, which those of one series share: by "+
			"where they lie, they are taken for one volume", v.Merged)
	}
	if what := grouping.Interleaved(all); what != "" {
		s.doubt("slices that differ in %s interleave evenly: they are taken for one volume", what)
	}
	if first.Image.Modality == "CT" && first.Info.Intercept == nil {
		s.doubt("a CT without RescaleIntercept: its values are taken for HU as they are stored")
	}
	if n := slices.IndexFunc(all, func(one stack.Slice) bool { return one.Image.Spare() }); n >= 0 {
		im := all[n].Image
		s.doubt("slice %d has %d bytes of pixels, more than %d times %dx%d pixels of %d bits: is its header right?",
			n+1, im.Pixels.Length, im.Frames, im.Columns, im.Rows, im.Allocated)
	}
	if n := slices.IndexFunc(all, func(one stack.Slice) bool { return one.Image.Texts != "" }); n >= 0 {
		s.Problems = append(s.Problems, all[n].Image.Texts)
	}
	if n := slices.IndexFunc(all, func(one stack.Slice) bool { return one.Image.Odd != "" }); n >= 0 {
		s.doubt("slice %d: %s", n+1, all[n].Image.Odd)
	}
	if what, projection := s.derived(); projection {
		s.doubt("a projection (%s), not a scan", what)
	}
	s.units()
	s.Tilt = s.stack.Tilt
	return s
}

// check finds out whether the series can be read with the default options.
func (s *Series) check() {
	var o Options
	if err := o.defaults(); err != nil {
		panic(err)
	}
	p, err := s.stack.Plan(o.stack())
	if err != nil {
		s.Err = err
		s.Problems = append(s.Problems, err.Error())
		return
	}
	s.Grid = p.Grid
	s.Problems = append(s.Problems, p.Notes...)
	if s.Localizer {
		s.Problems = append(s.Problems, "a localizer, not a scan")
	}
	if slices.ContainsFunc(s.stack.Slices,
		func(one stack.Slice) bool { return one.Image.Photometric == "MONOCHROME1" }) {
		s.Problems = append(s.Problems,
			"stored for display with white as the lowest value (MONOCHROME1): the values are kept")
	}
}

// doubt adds a problem that is told whenever the series is read: it may be something else than it
// seems.
func (s *Series) doubt(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.Problems, s.doubts = append(s.Problems, text), append(s.doubts, text)
}

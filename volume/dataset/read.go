package dataset

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// ReadImage reads a scan: a NIfTI file, or of DICOM files (one, or a folder with all below it) the
// only series, or the largest axial CT. Notes say what was chosen and repaired.
func ReadImage(path string, o ReadOptions) (v *volume.Volume, notes []string, err error) {
	return Case{Image: path}.ReadImage(o)
}

// ReadImage reads the case's scan. Notes say what was chosen and repaired.
func (c Case) ReadImage(o ReadOptions) (v *volume.Volume, notes []string, err error) {
	v, _, notes, err = c.readImage(o)
	return v, notes, err
}

// ReadMore reads the channels of the case after the first, onto the voxels of the first. Values
// beyond a channel's own field of view are its least one, which stands for air. Of a case that is
// taken as stored, channels on other voxels are refused.
func (c Case) ReadMore(first volume.Grid, o ReadOptions) (more []*volume.Volume, notes []string, err error) {
	const rounding = 1e-3 // mm
	for n, channel := range c.More {
		channel.modality, channel.asStored = Modality{Name: "OT"}, c.asStored
		path, name := channel.Image, filepath.Base(channel.Image)
		if channel.Volume > 0 || channel.IsDICOM() {
			name = fmt.Sprintf("channel %d", n+2)
		}
		v, own, err := channel.ReadImage(o)
		if err != nil {
			return nil, nil, err
		}
		for _, note := range own {
			notes = append(notes, name+": "+note)
		}
		switch {
		case c.asStored && !besides(v.Grid, first):
			return nil, nil, fmt.Errorf("%s does not lie on the voxels of %s: %s voxels of %s, and %s of %s, or their "+
				"corners are a quarter of a voxel apart. nnU-Net takes channels voxel by voxel: resample it onto the "+
				"first, or mend its header", path, filepath.Base(c.Image), numbers.Extents(v.Shape[:]),
				volume.SpacingText(v.Spacing()), numbers.Extents(first.Shape[:]), volume.SpacingText(first.Spacing()))
		case v.Same(first, rounding):
		case c.asStored:
			notes = append(notes, name+": by its header less than a quarter of a voxel beside the first channel: the "+
				"voxels are taken as they are, as in nnU-Net")
		default:
			share, err := v.Grid.Covers(first)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			if share == 0 {
				return nil, nil,
					fmt.Errorf("%s lies nowhere where %s does: is it of another patient, or its header wrong?", path,
						filepath.Base(c.Image))
			}
			if v, err = v.ResampleTo(first, volume.Linear, v.Statistics().Min); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			note := name + ": resampled onto the voxels of the first channel"
			if share < 0.99 {
				note += fmt.Sprintf(", of which it covers %.0f %%", 100*share)
			}
			notes = append(notes, note)
		}
		v.Grid = first
		more = append(more, v)
	}
	return more, notes, nil
}

// besides says whether two grids of one shape and spacing lie less than a quarter of a voxel apart.
func besides(g, first volume.Grid) bool {
	const rounding = 1e-5 // of spacing, as nnU-Net has it
	a, b := g.Spacing(), first.Spacing()
	for n := range a {
		if math.Abs(a[n]-b[n]) > rounding*b[n] {
			return false
		}
	}
	return g.Same(first, min(b[0], b[1], b[2])/4)
}

// Extent is the grid of the case's scan and the bytes that a voxel of it takes in memory, from
// headers alone. It is not known of what cannot be read, or only as it is read: a series whose
// files were not looked at. Where slices are straightened or resampled, the grid read may be
// larger.
func (c Case) Extent() (g volume.Grid, voxelBytes int, known bool) {
	if c.series != nil {
		return c.series.Grid, c.seriesBytes(), c.series.Err == nil
	}
	if c.refused != nil || c.IsDICOM() {
		return g, 0, false
	}
	h, err := format.ReadHeader(c.Image)
	if err != nil {
		return g, 0, false
	}
	return h.Grid, h.VoxelBytes, true
}

// StoredBytes is what the files of a case take on their own voxels, before they are compressed:
// channels in their own type, and labels. What no header says is left out.
func (c Case) StoredBytes() (n int64) {
	for k, channel := range append([]Case{c}, c.More...) {
		g, voxelBytes, _ := channel.Extent()
		if k == 0 && c.Labels != "" {
			voxelBytes++
		}
		n += int64(g.Len()) * int64(voxelBytes)
	}
	return n
}

// CheckHeader says what is wrong with the case's scan as far as headers tell: nothing of a series
// whose files were not looked at.
func (c Case) CheckHeader() error {
	switch {
	case c.series != nil:
		return c.series.Err
	case c.refused != nil:
		return c.refused
	case c.IsDICOM():
		return nil
	}
	_, err := format.ReadHeader(c.Image)
	return err
}

// readImage also returns the scan's DICOM series, nil for a NIfTI file.
func (c Case) readImage(o ReadOptions) (v *volume.Volume, s *dicom.Series, notes []string, err error) {
	if _, err := os.Stat(c.Image); err != nil && c.refused == nil {
		return nil, nil, nil, err
	}
	if c.refused != nil || c.IsDICOM() {
		return c.readSeries(o)
	}
	if v, err = format.Read(c.Image, o.format(c.Volume, func(note string) {
		notes = append(notes,
			note)
	})); err != nil {
		return nil, nil, nil, err
	}
	if nifti.VolumeMayBeLabels(v) {
		notes = append(notes, notLabels)
	}
	notes = append(notes, doubtsAboutGrid(v.Grid)...)
	if m := c.Modality().Name; m == "" || m == volume.ModalityCT {
		notes = append(notes, doubtsAbout(v)...)
	}
	if err := v.CheckFinite(); err != nil && !c.asStored { // what a volume.Preparation does
		notes = append(notes, err.Error()+": NaN is taken for air, infinite values for the ends of the window")
	}
	return v, nil, notes, nil
}

// Read reads the case's scan and labels (nil where it has none), and brings the labels onto the
// scan's voxels where they go by index. Labels are called by the given names, unless their file has
// names itself. Labels that [Detect] found no names for, though others have some, get none. Where
// names decide which number a label has in the data set, it gets that. Where labels say from which
// files they were predicted, all files of the scan are read once more, for a note to say that they
// are of others.
func (c Case) Read(o ReadOptions, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap, notes []string,
	err error) {
	if v, l, notes, err = c.readNumbered(o, names); err != nil || l == nil {
		return v, l, notes, err
	}
	if why, _ := c.madeOfOthers(c.Labels); why != "" {
		notes = append(notes, "WARNING: "+why)
	}
	return v, l, notes, nil
}

// ReadQuietly is [Case.Read] for who does not tell the notes.
func (c Case) ReadQuietly(o ReadOptions, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap, err error) {
	v, l, _, err = c.readNumbered(o, names)
	return v, l, err
}

// readNumbered is [Case.Read] that does not ask whose scan the labels are.
func (c Case) readNumbered(o ReadOptions, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap,
	notes []string, err error) {
	if c.renumber == nil {
		return c.readAsStored(o, names)
	}
	if v, l, notes, err = c.readAsStored(o, c.names); err != nil || l == nil {
		return v, l, notes, err
	}
	if l, err = c.renumbered(l); err != nil {
		return nil, nil, nil, err
	}
	return v, l, notes, nil
}

// renumbered gives labels the numbers that the data set has for their names.
func (c Case) renumbered(l *volume.LabelMap) (*volume.LabelMap, error) {
	after := *l
	after.Labels, after.Names = make([]uint16, len(l.Labels)), map[uint16]string{}
	for n, label := range l.Labels {
		if label == 0 {
			continue
		}
		if after.Labels[n] = c.renumber[label]; after.Labels[n] == 0 {
			return nil, &volume.FormatError{Path: c.Labels, Problem: fmt.Sprintf(
				"has voxels of label %d and no name for it, and labels go by their names here: name it, or leave "+
					"the case out", label)}
		}
	}
	for label, name := range c.names {
		after.Names[c.renumber[label]] = name
	}
	for _, list := range []*[]uint16{&after.Undrawn, &after.Emptied} {
		changed := make([]uint16, 0, len(*list))
		for _, label := range *list {
			changed = append(changed, c.renumber[label])
		}
		slices.Sort(changed)
		*list = changed
	}
	return &after, nil
}

// readAsStored is [Case.Read] with the numbers that the files have.
func (c Case) readAsStored(o ReadOptions, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap,
	notes []string, err error) {
	if c.unnamed {
		names = nil
	}
	if c.structures != nil {
		return c.readStructures(o)
	}
	if c.objects != nil {
		return c.readObjects(o)
	}
	if c.Labels != "" && c.Masks == nil && !format.IsName(c.Labels) {
		return c.readSegmentation(o)
	}
	v, s, notes, err := c.readImage(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if c.Labels == "" {
		return v, nil, notes, nil
	}
	if c.ByIndex {
		if v, l, err = c.readByIndex(v, s, o); err != nil {
			return nil, nil, nil, err
		}
		l.Names = maps.Clone(names)
		l, note, err := c.checkFlips(v, l, o.Flips)
		if err != nil {
			return nil, nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		return v, l, notes, nil
	}
	if err := c.checkVolumes(v.Grid, o); err != nil {
		return nil, nil, nil, err
	}
	l, more, err := c.readLabels(o, names, &v.Grid)
	if err != nil {
		return nil, nil, nil, err
	}
	notes = append(notes, more...)
	var note string
	if o.LabelsBy == LabelsByIndex {
		if l, err = byIndex(c.Labels, l, v, s, o); err == nil {
			l, note, err = c.checkFlips(v, l, o.Flips)
		}
	} else {
		l, note, err = onScan(c.Labels, l, v.Grid)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	return v, l, notes, nil
}

// readLabels reads labels that lie in files of voxels, on the grid that they have there. What is
// done about the scan is done about them. The grid of the scan is nil where it is not known.
func (c Case) readLabels(o ReadOptions, names map[uint16]string, scan *volume.Grid) (l *volume.LabelMap, notes []string,
	err error) {
	if c.Masks != nil {
		return c.readMasks(o, scan)
	}
	if l, notes, err = readLabelFile(c.Labels, o, names, nil); err != nil {
		return nil, nil, err
	}
	if l.Names == nil { // the file has none itself
		l.Names = maps.Clone(names)
	}
	return l, notes, nil
}

// readByIndex reads labels that lie on the voxels of a scan in the order of its columns, rows and
// slices, whatever their header says, and turns both to the axes that an axial CT has on disk: to
// the patient's left, to the back, to the head. Of a DICOM series, slices are counted by instance
// number; a NIfTI file is taken for one that was scanned like that.
func (c Case) readByIndex(v *volume.Volume, s *dicom.Series, o ReadOptions) (*volume.Volume, *volume.LabelMap, error) {
	l, err := format.ReadLabels(c.Labels, format.Options{})
	if err != nil {
		return nil, nil, err
	}
	if v, err = v.Orient("LPS"); err != nil {
		return nil, nil, err
	}
	scan := v.Shape
	if s != nil {
		scan = s.Shape
	}
	if l.Shape != scan {
		return nil, nil, fmt.Errorf("%s: has %v voxels, its scan has %v", c.Labels, numbers.Extents(l.Shape[:]),
			numbers.Extents(scan[:]))
	}
	if s == nil {
		return v, &volume.LabelMap{Grid: v.Grid, Labels: l.Labels}, nil
	}
	stack, err := byInstance(s, l.Labels)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.Labels, err)
	}
	if l, err = s.Labels(stack, o.dicom(nil)); err != nil {
		return nil, nil, err
	}
	l, err = l.Orient("LPS")
	return v, l, err
}

// checkFlips compares the labels with the image, as they lie and flipped.
func (c Case) checkFlips(v *volume.Volume, l *volume.LabelMap, f Flips) (flipped *volume.LabelMap, note string,
	err error) {
	if f == FlipsOff {
		return l, "", nil
	}
	e := lookAtFlips(v, l)
	better, _ := e.verdict()
	if f == FlipsFix {
		e = e.flipped(better)
	}
	if c.seenFlips != nil {
		*c.seenFlips = e
	}
	switch {
	case better == "":
		return l, "", nil
	case f == FlipsFix:
		return flipLabels(l, better), fmt.Sprintf("labels flipped along %s, where they fit the scan better", better),
			nil
	}
	return nil, "",
		fmt.Errorf("%s: fits its scan better when flipped along %s, by the HU inside and around it: --flips "+
			"fix flips it, --flips off takes it as it is", c.Labels, better)
}

// readSeries reads the case's series. Notes say what was chosen and repaired.
func (c Case) readSeries(o ReadOptions) (v *volume.Volume, s *dicom.Series, notes []string, err error) {
	s, why, err := c.findSeries()
	if err != nil {
		return nil, nil, nil, err
	}
	if why != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", s, why))
	}
	how := o.format(0, func(note string) { notes = append(notes, note) })
	how.SUV = c.suv
	v, err = format.OfSeries(s).Read(how)
	if err != nil {
		if c.suv {
			err = fmt.Errorf("%w: mend the header, or convert the series to NIfTI in "+
				"SUV with a program that knows the scanner", err)
		}
		return nil, nil, nil, named(c.Image, err)
	}
	notes = append(notes, doubtsAboutGrid(v.Grid)...)
	if mayBeCT(s) {
		notes = append(notes, doubtsAbout(v)...)
	}
	return v, s, notes, nil
}

// readStructures reads a case whose labels are contours on the slices of its series.
func (c Case) readStructures(o ReadOptions) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	v, s, notes, err := c.readImage(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if s == nil {
		return nil, nil, nil,
			fmt.Errorf("%s is contours on the slices of a DICOM series: they cannot be brought onto %s", c.Labels,
				c.Image)
	}
	labels := map[int]uint16{}
	for _, m := range c.Masks {
		labels[m.at] = m.Label
	}
	l, err = c.structures.ReadOn(s, labels, o.dicom(func(note string) {
		level := ""
		if text, ok := strings.CutPrefix(note, "WARNING: "); ok {
			level, note = "WARNING: ", text
		}
		notes = append(notes, level+filepath.Base(c.Labels)+": "+note)
	}))
	return v, l, notes, err
}

// readObjects reads a case whose labels are segments of several SEG objects, and puts these
// together as masks are.
func (c Case) readObjects(o ReadOptions) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	v, s, notes, err := c.readImage(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if s == nil {
		return nil, nil, nil, fmt.Errorf("%s is no DICOM series, on which SEG objects lie", c.Image)
	}
	all := layers{scan: &v.Grid, rule: o.Overlap}
	for _, g := range c.objects {
		of := slices.DeleteFunc(slices.Clone(c.Masks), func(m Mask) bool { return m.Path != g.Path })
		if len(of) == 0 {
			continue
		}
		segments, err := g.ReadOn(s, o.dicom(func(note string) {
			notes = append(notes, filepath.Base(g.Path)+": "+note)
		}))
		if err != nil {
			return nil, nil, nil, err
		}
		for _, m := range of {
			one := &volume.LabelMap{Grid: segments.Grid, Labels: make([]uint16, segments.Len())}
			for n, label := range segments.Labels {
				if int(label) == m.at {
					one.Labels[n] = 1
				}
			}
			if err := all.add(m, one); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	l, more, err := all.done(o)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", c.Labels, err)
	}
	return v, l, append(notes, more...), nil
}

// readSegmentation reads a case whose labels are a SEG object: its scan, if nobody has chosen a
// series, is the one that the object refers to.
func (c Case) readSegmentation(o ReadOptions) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	g := c.segmentation
	if g == nil {
		if g, err = dicom.OpenSegmentation(c.Labels); err != nil {
			return nil, nil, nil, err
		}
	}
	if c.IsDICOM() && c.series == nil && c.Series == "" && c.refused == nil {
		all, _, err := scanDICOM(c.Image)
		if err != nil {
			return nil, nil, nil, err
		}
		object := format.Object{Path: c.Labels, Segmentation: g}
		if c.series = g.Find(all); c.series == nil && len(object.Candidates(all)) > 1 {
			return nil, nil, nil, fmt.Errorf("%s: %s", c.Labels, object.NotFound(all))
		} else if c.series == nil {
			return nil, nil, nil, fmt.Errorf("%s refers to none of the series in %s", c.Labels, c.Image)
		}
	}
	if v, _, notes, err = c.readImage(o); err != nil {
		return nil, nil, nil, err
	}
	options := o.dicom(func(note string) { notes = append(notes, filepath.Base(c.Labels)+": "+note) })
	if !c.IsDICOM() {
		l, err = g.ReadOnGrid(v.Grid, options)
	} else if s, failed := c.DICOM(); failed == nil {
		l, err = g.ReadOn(s, options)
	} else {
		err = failed
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return v, l, notes, nil
}

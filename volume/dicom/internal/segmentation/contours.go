package segmentation

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file writes labels as contours: an RT structure set.

// classRTSTRUCT is the SOP class of RT Structure Set Storage.
const classRTSTRUCT = "1.2.840.10008.5.1.4.1.1.481.3"

// mostPoints bounds a contour: three numbers of at most 16 characters each, in an element of 64
// KiB.
const mostPoints = 1200

// WriteContours writes a label map as an RT structure set that refers to a stack; see
// dicom.WriteStructureSet.
func WriteContours(path string, l *volume.LabelMap, s *stack.Stack, o WriteOptions) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	w, err := newSegWriter(l, s, o)
	if err == nil {
		err = w.outline()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.Write(path, func(to io.Writer) error {
		out := bufio.NewWriterSize(to, 1<<16)
		w.writeHead(out, classRTSTRUCT)
		return out.Flush()
	})
}

// outline makes all elements of a structure set.
func (w *segWriter) outline() error {
	s, first := w.stack, w.stack.Slices[0].Image
	carried, err := carry(first.Path)
	if err != nil {
		return err
	}
	e := &w.head
	carried.add(e)
	hash := sha256.Sum256(fmt.Appendf(nil, "RTSTRUCT %x", w.hash()))
	date, time := carried.moment()
	number, _ := strconv.Atoi(s.Number)
	frame := first.FrameOfRef
	if !carried.has(tag.FrameOfReferenceUID) {
		frame = w.uid(sha256.Sum256([]byte(first.Series)), "frame of reference")
		e.Text(tag.FrameOfReferenceUID, "UI", frame)
	}
	e.Text(tag.SOPClassUID, "UI", classRTSTRUCT)
	e.Text(tag.SOPInstanceUID, "UI", w.uid(hash, "instance"))
	e.Text(tag.Modality, "CS", "RTSTRUCT")
	e.Text(tag.Manufacturer, "LO", "Voxsaw")
	e.Text(tag.ManufacturerModelName, "LO", "Voxsaw")
	e.Text(tag.SeriesDescription, "LO", "Structures")
	e.Text(tag.OperatorsName, "PN", "")
	e.Text(tag.SoftwareVersions, "LO", cmp.Or(element.ASCII(w.options.Version, 64), "unknown"))
	e.Text(tag.SeriesInstanceUID, "UI", w.uid(hash, "series"))
	e.Text(tag.SeriesNumber, "IS", strconv.Itoa(2000+min(max(number, 0), 1<<30)))
	e.Text(tag.InstanceNumber, "IS", "1")
	e.Text(tag.StructureSetLabel, "SH", "Voxsaw")
	if w.options.Parameters != "" && !w.options.Manual {
		e.Text(tag.StructureSetDescription, "ST", element.ASCII(w.options.Parameters, 1024))
	}
	e.Text(tag.StructureSetDate, "DA", date)
	e.Text(tag.StructureSetTime, "TM", time)

	var images []*element.Encoder
	seen := map[*stack.Image]bool{}
	for k := range s.Slices {
		if im := s.Slices[k].Image; !seen[im] {
			seen[im] = true
			images = append(images, reference(im, 0))
		}
	}
	series, study, space := &element.Encoder{}, &element.Encoder{}, &element.Encoder{}
	series.Text(tag.SeriesInstanceUID, "UI", first.Series)
	series.Sequence(tag.ContourImageSequence, images...)
	// Detached Study Management
	study.Text(tag.ReferencedSOPClassUID, "UI", "1.2.840.10008.3.1.2.3.1")
	study.Text(tag.ReferencedSOPInstanceUID, "UI", first.Study)
	study.Sequence(tag.RTReferencedSeriesSequence, series)
	space.Text(tag.FrameOfReferenceUID, "UI", frame)
	space.Sequence(tag.RTReferencedStudySequence, study)
	e.Sequence(tag.ReferencedFrameOfReferenceSequence, space)

	var names, contours, observations []*element.Encoder
	for n, label := range w.wanted {
		roi := strconv.Itoa(int(label))
		name, drawn, seen := &element.Encoder{}, &element.Encoder{}, &element.Encoder{}
		name.Text(tag.ROINumber, "IS", roi)
		name.Text(tag.ReferencedFrameOfReferenceUID, "UI", frame)
		name.Name(tag.ROIName, w.name(label))
		name.Text(tag.ROIGenerationAlgorithm, "CS", w.options.drawnBy())
		names = append(names, name)
		drawn.Text(tag.ReferencedROINumber, "IS", roi)
		lines, err := w.contours(label)
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			drawn.Sequence(tag.ContourSequence, lines...)
		}
		contours = append(contours, drawn)
		seen.Text(tag.ObservationNumber, "IS", strconv.Itoa(n+1))
		seen.Text(tag.ReferencedROINumber, "IS", roi)
		seen.Text(tag.RTROIInterpretedType, "CS", "")
		seen.Text(tag.ROIInterpreter, "PN", "")
		observations = append(observations, seen)
	}
	e.Sequence(tag.StructureSetROISequence, names...)
	e.Sequence(tag.ROIContourSequence, contours...)
	e.Sequence(tag.RTROIObservationsSequence, observations...)
	return nil
}

// contours are the items of a label's ContourSequence.
func (w *segWriter) contours(label uint16) (items []*element.Encoder, err error) {
	columns, rows := w.stack.Slices[0].Image.Columns, w.stack.Slices[0].Image.Rows
	for k := range w.stack.Slices {
		if !w.present[k][label] {
			continue
		}
		s := &w.stack.Slices[k]
		grid, err := s.Grid(1)
		if err != nil {
			return nil, err
		}
		number := 0
		if s.Image.Frames > 1 {
			number = s.Frame + 1
		}
		m := mask{w.labels[k*columns*rows:][:columns*rows], columns, label}
		for _, loop := range m.loops(0, rows) {
			var points []float64
			for _, corner := range loop {
				at := grid.Affine.Apply([3]float64{float64(corner[0]) - 0.5, float64(corner[1]) - 0.5, 0})
				points = append(points, -at[0], -at[1], at[2]) // RAS to LPS
			}
			e := &element.Encoder{}
			e.Sequence(tag.ContourImageSequence, reference(s.Image, number))
			e.Text(tag.ContourGeometricType, "CS", "CLOSED_PLANAR")
			e.Text(tag.NumberOfContourPoints, "IS", strconv.Itoa(len(loop)))
			e.Decimals(tag.ContourData, points...)
			items = append(items, e)
		}
	}
	return items, nil
}

// mask is the pixels of a slice that have a label.
type mask struct {
	labels  []uint16
	columns int
	label   uint16
}

// loops are the outlines of the pixels in rows from first to below last, along the borders between
// pixels: corners (column, row), where (0, 0) is the outer corner of the first pixel. Readers ask
// whether a pixel's centre is within, and no centre is near a border. Pixels that meet in a corner
// are outlined apart; holes have outlines of their own. An outline that is too long for an element
// is cut between two rows.
func (m mask) loops(first, last int) (all [][][2]int) {
	has := func(c, r int) bool {
		return c >= 0 && c < m.columns && r >= first && r < last && m.labels[r*m.columns+c] == m.label
	}
	// to the right, down, to the left, up: the pixel on the right-hand side of an edge is inside
	steps := [4][2]int{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}
	border := func(at [2]int, way int) bool {
		c, r := at[0], at[1]
		right := [4][2]int{{c, r}, {c - 1, r}, {c - 1, r - 1}, {c, r - 1}}
		left := right[(way+3)%4]
		return has(right[way][0], right[way][1]) && !has(left[0], left[1])
	}
	done := map[[2]int]bool{} // edges to the right that have been walked along
	for r := first; r <= last; r++ {
		for c := range m.columns {
			start := [2]int{c, r}
			if done[start] || !border(start, 0) {
				continue
			}
			var loop [][2]int
			at, way := start, 0
			for {
				if way == 0 {
					done[at] = true
				}
				at = [2]int{at[0] + steps[way][0], at[1] + steps[way][1]}
				// a turn to the right keeps pixels that meet in a corner apart
				next := (way + 1) % 4
				for !border(at, next) {
					next = (next + 3) % 4
				}
				if next != way {
					loop = append(loop, at)
				}
				way = next
				if at == start && way == 0 {
					break
				}
			}
			if len(loop) > mostPoints && last-first > 1 {
				middle := (first + last) / 2
				return append(m.loops(first, middle), m.loops(middle, last)...)
			}
			all = append(all, loop)
		}
	}
	return all
}

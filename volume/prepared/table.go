package prepared

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: the records of all cases in few bytes, which are read without being taken apart. Of
// 100,000 cases, JSON takes seconds to read and records take 100 MB; a table takes a third of that,
// and a record is made of its bytes when it is asked for. In memory a store always has a table. On
// disk there is one where there are many cases.
//
//	magic
//	shared strings    their number, then each: texts that many records have in common
//	number of records
//	records           each with its length before it, ordered by ID; the fields are in record.encode
//
// Integers are varints (encoding/binary), strings have their length before them. A float64 is the
// varint of its bits in the reverse order of bytes: few bytes where it has few digits.
const tableMagic = "voxsaw cases 1\n"

// A table is the records of all cases. Strings of its records are parts of its text.
type table struct {
	text   string
	shared []string
	start  []int // where the records begin in the text, ordered by ID
}

var errTable = errors.New("its table of cases is not whole")

// encodeTable writes records, which must be ordered by ID.
func encodeTable(records iter.Seq[Record], n int) []byte {
	e := &tableEncoder{known: map[string]uint64{}}
	var body, one []byte
	for r := range records {
		one = e.record(one[:0], r)
		body = append(binary.AppendUvarint(body, uint64(len(one))), one...)
	}
	out := binary.AppendUvarint([]byte(tableMagic), uint64(len(e.shared)))
	for _, text := range e.shared {
		out = appendString(out, text)
	}
	return append(binary.AppendUvarint(out, uint64(n)), body...)
}

// parseTable finds the records in a text and checks each.
func parseTable(text string) (*table, error) {
	d := &tableDecoder{table: &table{text: text}}
	if !strings.HasPrefix(text, tableMagic) {
		return nil, errTable
	}
	d.at = len(tableMagic)
	for n := d.count(); n > 0; n-- {
		d.shared = append(d.shared, d.string())
	}
	n := d.count()
	d.start = make([]int, 0, n)
	before := ""
	for range n {
		length := d.count()
		end := d.at + length
		if d.bad {
			break
		}
		d.start = append(d.start, d.at)
		r := d.record(false)
		if d.bad || d.at != end || r.ID <= before {
			return nil, errTable
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("case %q: %w", r.ID, err)
		}
		before = r.ID
	}
	if d.bad || d.at != len(text) {
		return nil, errTable
	}
	return d.table, nil
}

// len is the number of records.
func (t *table) len() int { return len(t.start) }

// record makes the record number n.
func (t *table) record(n int) Record {
	d := tableDecoder{table: t, at: t.start[n]}
	return d.record(true) // it was read before
}

// without is the record number n without its sources, which take as much memory as all the rest.
func (t *table) without(n int) Record {
	d := tableDecoder{table: t, at: t.start[n]}
	return d.record(false)
}

// id is the ID of record n.
func (t *table) id(n int) string {
	d := tableDecoder{table: t, at: t.start[n]}
	return d.string()
}

// find is the number of the record of that ID.
func (t *table) find(id string) (n int, found bool) {
	return sort.Find(t.len(), func(n int) int { return strings.Compare(id, t.id(n)) })
}

// all goes through the records.
func (t *table) all() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for n := range t.start {
			if !yield(t.record(n)) {
				return
			}
		}
	}
}

// What a record has, as bits.
const (
	hasLabels = 1 << iota
	isCropped
	isTransformed // its grid is not the scan's
	isPartial     // labels are not drawn
	hasShares     // labels lie by their shares of voxels
	isLevelled    // it has levels of intensities of its own
	hasChannels   // more than one
)

// hasScan is a bit, too: the digest of the scan is known.
const hasScan = 1 << 10

// isPredicted is one: its labels are.
const isPredicted = 1 << 11

type tableEncoder struct {
	known  map[string]uint64
	shared []string
}

func (e *tableEncoder) record(out []byte, r Record) []byte {
	out = appendString(out, r.ID)
	var flags uint64
	if r.HasLabels {
		flags |= hasLabels
	}
	if r.Predicted {
		flags |= isPredicted
	}
	if r.Box != nil {
		flags |= isCropped
	}
	if r.Original != r.Grid {
		flags |= isTransformed
	}
	if len(r.Undrawn) > 0 {
		flags |= isPartial
	}
	if r.Scan != "" {
		flags |= hasScan
	}
	if r.LabelsBy != "" || len(r.DrawnCounts) > 0 || len(r.Emptied) > 0 {
		flags |= hasShares
	}
	if r.Levels != nil {
		flags |= isLevelled
	}
	if len(r.More) > 0 {
		flags |= hasChannels
	}
	out = binary.AppendUvarint(out, flags)
	out = e.share(out, r.Group, r.Patient, r.Origin)
	out = appendGrid(out, r.Grid)
	if r.Original != r.Grid {
		out = appendGrid(out, r.Original)
	}
	if r.Box != nil {
		out = appendShape(appendShape(out, r.Box.Origin), r.Box.Size)
	}
	if r.Levels != nil {
		out = appendLevels(out, r.Levels)
	}
	if len(r.More) > 0 {
		out = binary.AppendUvarint(out, uint64(len(r.More)))
		for _, c := range r.More {
			if c.Levels == nil {
				out = binary.AppendUvarint(out, 0)
			} else {
				out = appendLevels(binary.AppendUvarint(out, 1), c.Levels)
			}
			out = appendString(out, c.Scan)
		}
	}
	for _, s := range r.Spacing {
		out = appendFloat(out, s)
	}
	out = appendFloat(out, r.Air)
	out = appendCounts(out, r.LabelCounts)
	out = binary.AppendUvarint(out, uint64(len(r.LabelNames)))
	for _, label := range slices.Sorted(maps.Keys(r.LabelNames)) {
		out = e.share(binary.AppendUvarint(out, uint64(label)), r.LabelNames[label])
	}
	if len(r.Undrawn) > 0 {
		out = binary.AppendUvarint(out, uint64(len(r.Undrawn)))
		for _, label := range r.Undrawn {
			out = binary.AppendUvarint(out, uint64(label))
		}
	}
	if flags&hasShares != 0 {
		out = appendCounts(e.share(out, r.LabelsBy), r.DrawnCounts)
		out = binary.AppendUvarint(out, uint64(len(r.Emptied)))
		for _, label := range r.Emptied {
			out = binary.AppendUvarint(out, uint64(label))
		}
	}
	out = e.share(binary.AppendUvarint(out, uint64(len(r.Notes))), r.Notes...)
	out = binary.AppendUvarint(out, uint64(len(r.Sources)))
	for _, s := range r.Sources {
		out = appendString(out, s.Path)
		out = binary.AppendVarint(out, int64(s.Files))
		out = binary.AppendVarint(out, s.Size)
		out = binary.AppendVarint(out, s.Modified.Unix())
		out = binary.AppendUvarint(out, uint64(s.Modified.Nanosecond()))
		out = appendString(out, s.Hash)
	}
	if r.Scan != "" {
		out = appendString(out, r.Scan)
	}
	out = appendString(binary.AppendVarint(out, r.OriginalBytes), r.Checksum)
	return binary.AppendVarint(out, r.Bytes)
}

// share appends the numbers of shared strings.
func (e *tableEncoder) share(out []byte, texts ...string) []byte {
	for _, text := range texts {
		n, known := e.known[text]
		if !known {
			n = uint64(len(e.shared))
			e.known[text], e.shared = n, append(e.shared, text)
		}
		out = binary.AppendUvarint(out, n)
	}
	return out
}

func appendCounts(out []byte, counts map[uint16]int) []byte {
	out = binary.AppendUvarint(out, uint64(len(counts)))
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		out = binary.AppendUvarint(out, uint64(label))
		out = binary.AppendVarint(out, int64(counts[label]))
	}
	return out
}

func appendString(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func appendFloat(out []byte, x float64) []byte {
	return binary.AppendUvarint(out, bits.ReverseBytes64(math.Float64bits(x)))
}

func appendLevels(out []byte, l *volume.Levels) []byte {
	for _, x := range []float64{l.Centre, l.Width, l.Low, l.High} {
		out = appendFloat(out, x)
	}
	return out
}

func appendShape(out []byte, shape [3]int) []byte {
	for _, n := range shape {
		out = binary.AppendVarint(out, int64(n))
	}
	return out
}

func appendGrid(out []byte, g volume.Grid) []byte {
	out = appendShape(out, g.Shape)
	for _, row := range g.Affine {
		for _, x := range row {
			out = appendFloat(out, x)
		}
	}
	return out
}

// A tableDecoder reads the text from a place on. What cannot be read is 0 or "", and bad is set.
type tableDecoder struct {
	*table
	at  int
	bad bool
}

// record reads a record, with its sources or without.
func (d *tableDecoder) record(sources bool) (r Record) {
	r.ID = d.string()
	flags := d.uvarint()
	r.Group, r.Patient, r.Origin = d.common(), d.common(), d.common()
	r.Grid = d.grid()
	r.Original = r.Grid
	if flags&isTransformed != 0 {
		r.Original = d.grid()
	}
	if flags&isCropped != 0 {
		r.Box = &volume.Box{Origin: d.shape(), Size: d.shape()}
	}
	if flags&isLevelled != 0 {
		r.Levels = d.levels()
	}
	if flags&hasChannels != 0 {
		r.More = decodeList(d, func() (c Channel) {
			if d.uvarint() != 0 {
				c.Levels = d.levels()
			}
			c.Scan = d.string()
			return c
		})
	}
	r.HasLabels, r.Predicted = flags&hasLabels != 0, flags&isPredicted != 0
	for axis := range r.Spacing {
		r.Spacing[axis] = d.float()
	}
	r.Air = d.float()
	count := func() int { return int(d.varint()) }
	r.LabelCounts = decodeLabels(d, count)
	r.LabelNames = decodeLabels(d, d.common)
	if flags&isPartial != 0 {
		r.Undrawn = decodeList(d, func() uint16 { return uint16(d.uvarint()) })
	}
	if flags&hasShares != 0 {
		r.LabelsBy, r.DrawnCounts = d.common(), decodeLabels(d, count)
		r.Emptied = decodeList(d, func() uint16 { return uint16(d.uvarint()) })
	}
	r.Notes = decodeList(d, d.common)
	if sources {
		r.Sources = decodeList(d, d.source)
	} else {
		for range d.count() {
			d.source()
		}
	}
	if flags&hasScan != 0 {
		r.Scan = d.string()
	}
	r.OriginalBytes, r.Checksum, r.Bytes = d.varint(), d.string(), d.varint()
	return r
}

func (d *tableDecoder) source() Source {
	return Source{Path: d.string(), Files: int(d.varint()), Size: d.varint(),
		Modified: time.Unix(d.varint(), int64(d.uvarint())).UTC(), Hash: d.string()}
}

// decodeLabels reads what is said of labels; nil where there is nothing.
func decodeLabels[T any](d *tableDecoder, value func() T) map[uint16]T {
	n := d.count()
	if n == 0 {
		return nil
	}
	values := make(map[uint16]T, n)
	for range n {
		label := uint16(d.uvarint())
		values[label] = value()
	}
	return values
}

// decodeList reads a list; nil where it is empty.
func decodeList[T any](d *tableDecoder, value func() T) []T {
	n := d.count()
	if n == 0 {
		return nil
	}
	values := make([]T, n)
	for i := range values {
		values[i] = value()
	}
	return values
}

func (d *tableDecoder) uvarint() (x uint64) {
	for shift := uint(0); shift < 64 && d.at < len(d.text); shift += 7 {
		b := d.text[d.at]
		d.at++
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
	d.bad = true
	return 0
}

func (d *tableDecoder) varint() int64 {
	x := d.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

// count reads the number of things that follow, each of at least a byte.
func (d *tableDecoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.text)-d.at) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *tableDecoder) string() string {
	n := d.count()
	d.at += n
	return d.text[d.at-n : d.at]
}

// common reads the number of a shared string.
func (d *tableDecoder) common() string {
	n := d.uvarint()
	if n >= uint64(len(d.shared)) {
		d.bad = true
		return ""
	}
	return d.shared[n]
}

func (d *tableDecoder) float() float64 {
	return math.Float64frombits(bits.ReverseBytes64(d.uvarint()))
}

func (d *tableDecoder) levels() *volume.Levels {
	return &volume.Levels{Centre: d.float(), Width: d.float(), Low: d.float(), High: d.float()}
}

func (d *tableDecoder) shape() (shape [3]int) {
	for axis := range shape {
		shape[axis] = int(d.varint())
	}
	return shape
}

func (d *tableDecoder) grid() (g volume.Grid) {
	g.Shape = d.shape()
	for i := range g.Affine {
		for j := range g.Affine[i] {
			g.Affine[i][j] = d.float()
		}
	}
	return g
}

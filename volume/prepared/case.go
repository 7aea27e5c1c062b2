package prepared

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// A Case is a prepared case whose crops can be read without loading the rest. Its methods may be
// called from any number of goroutines.
type Case struct {
	Record      // without its Sources, which [Store.Record] has
	dir         string
	preparation *volume.Preparation
	maps        *mappings
	local       *localcopy.Copies // nil: the case is read where it lies
	view        *view             // while it is mapped; guarded by maps
	readers     int               // who read it now; guarded by maps
	place       *list.Element     // among those that are mapped; guarded by maps

	kept     atomic.Bool // the local copy is there, as far as is known
	verify   sync.Once
	verified error
}

var _ sample.Sample = (*Case)(nil)

// begin is called before voxels are read, and gives the case's file, which stays mapped until end
// is called. By the first of all readers, the file is compared with its checksum. The function end
// must be deferred. It turns a page of the file that cannot be read, because the file was cut short
// or its disk is gone, into an error that names the case: to the process such a page is a fault
// that would end it.
func (c *Case) begin(err *error) (v *view, end func(), ok bool) {
	c.verify.Do(func() { c.verified = c.check() })
	if *err = c.verified; *err != nil {
		return nil, func() {}, false
	}
	if v, *err = c.maps.acquire(c); *err != nil {
		return nil, func() {}, false
	}
	before := debug.SetPanicOnFault(true)
	return v, func() {
		debug.SetPanicOnFault(before)
		c.maps.release(c)
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // of the runtime, for a fault at an address
			*err = fmt.Errorf("case %s: its file cannot be read any more (was it cut short, or its "+
				"disk taken away?): run voxsaw prepare again", c.ID)
		default:
			panic(fault)
		}
	}, true
}

// check compares the case's file, or its local copy, with the checksum.
func (c *Case) check() error {
	if c.local == nil {
		return verifyVoxels(c.dir, c.Record)
	}
	kept, err := c.local.Fetch(itemOf(c.dir, c.Record))
	c.kept.Store(kept)
	return err
}

// openFile opens what is mapped: the local copy if there is one. A copy that gave way to other data
// since it was checked is made again if there is room.
func (c *Case) openFile() (*os.File, error) {
	for range 2 {
		if !c.kept.Load() {
			break
		}
		if path := c.local.Path(itemOf(c.dir, c.Record)); path != "" {
			if f, err := os.Open(path); err == nil {
				return f, nil
			}
		}
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	if err := checkVoxels(c.dir, c.Record); err != nil {
		return nil, err
	}
	return os.Open(voxelPath(c.dir, c.ID))
}

// Intensities say what the whole numbers of a channel stand for.
func (c *Case) Intensities(channel int) volume.Intensities {
	return c.preparation.Channel(channel).Intensities(c.levels(channel))
}

// Name implements [sample.Sample]: it is the case's ID.
func (c *Case) Name() string { return c.ID }

// Size implements [sample.Sample].
func (c *Case) Size() [3]int { return c.Shape }

// Channels implements [sample.Sample].
func (c *Case) Channels() int { return 1 + len(c.More) }

// Range implements [sample.Sample]: it is [volume.Preparation.Range] of how the channel was
// prepared.
func (c *Case) Range(channel int) [2]float32 { return c.preparation.Channel(channel).Range() }

// Crop implements [sample.Sample]: values are normalised as the network sees them.
func (c *Case) Crop(dst []float32, origin, size [3]int) (err error) {
	if err := checkCrop(len(dst), c.Channels(), size); err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return err
	}
	defer end()
	voxels := len(dst) / c.Channels()
	for channel := range c.Channels() {
		c.crop(dst[channel*voxels:(channel+1)*voxels], v, channel, origin, size)
	}
	return nil
}

// CropChannel implements [sample.ByChannel].
func (c *Case) CropChannel(dst []float32, channel int, origin, size [3]int) (err error) {
	if err := checkCrop(len(dst), 1, size); err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	if channel < 0 || channel >= c.Channels() {
		return fmt.Errorf("case %s has no channel %d: it has %s", c.ID, channel+1,
			numbers.Count(c.Channels(), "channel"))
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return err
	}
	defer end()
	c.crop(dst, v, channel, origin, size)
	return nil
}

// crop reads one channel.
func (c *Case) crop(dst []float32, v *view, channel int, origin, size [3]int) {
	stored := v.bytes[2*channel*c.Len() : 2*(channel+1)*c.Len()]
	how := c.Intensities(channel)
	scale, shift, air := how.Scale, how.Shift, how.Of(how.Outside)
	rows(c.Shape, origin, size, func(to, length, from, left, n int) {
		row := dst[to : to+length]
		fill(row[:left], air)
		values, bytes := row[left:left+n], stored[2*from:2*(from+n)]
		for i := range values {
			values[i] = scale*float32(int16(binary.LittleEndian.Uint16(bytes[2*i:]))) + shift
		}
		fill(row[left+n:], air)
	})
}

// Labels reads the labels of a crop, as numbers, in the order of [Case.Crop]; outside the scan is
// background.
func (c *Case) Labels(dst []float32, origin, size [3]int) (err error) {
	if err := checkCrop(len(dst), 1, size); err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	if !c.HasLabels {
		return fmt.Errorf("case %s has no labels", c.ID)
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return err
	}
	defer end()
	labels, width := v.bytes[v.layout.labels:v.layout.blocks], v.layout.labelBytes
	rows(c.Shape, origin, size, func(to, length, from, left, n int) {
		row := dst[to : to+length]
		fill(row[:left], 0)
		values, bytes := row[left:left+n], labels[width*from:width*(from+n)]
		if width == 1 {
			for i, b := range bytes {
				values[i] = float32(b)
			}
		} else {
			for i := range values {
				values[i] = float32(binary.LittleEndian.Uint16(bytes[2*i:]))
			}
		}
		fill(row[left+n:], 0)
	})
	return nil
}

// Volume reads the first channel of the whole prepared image: whole numbers, whose meaning is
// [Case.Intensities].
func (c *Case) Volume() (image *volume.Volume, err error) {
	v, end, ok := c.begin(&err)
	if !ok {
		return nil, err
	}
	defer end()
	image = &volume.Volume{Grid: c.Grid, Int16: make([]int16, c.Len())}
	for i := range image.Int16 {
		image.Int16[i] = int16(binary.LittleEndian.Uint16(v.bytes[2*i:]))
	}
	return image, nil
}

// LabelMap reads all labels on the prepared grid; nil where the case has none.
func (c *Case) LabelMap() (l *volume.LabelMap, err error) {
	if !c.HasLabels {
		return nil, nil
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return nil, err
	}
	defer end()
	l = &volume.LabelMap{Grid: c.Grid, Labels: make([]uint16, c.Len()), Names: maps.Clone(c.LabelNames),
		Undrawn: slices.Clone(c.Undrawn), Emptied: slices.Clone(c.Emptied)}
	bytes := v.bytes[v.layout.labels:v.layout.blocks]
	for i := range l.Labels {
		if v.layout.labelBytes == 1 {
			l.Labels[i] = uint16(bytes[i])
		} else {
			l.Labels[i] = binary.LittleEndian.Uint16(bytes[2*i:])
		}
	}
	return l, nil
}

// rows calls row for each line of a crop along i. The line is elements to to to+length of the crop.
// After the first left elements, n of them are the scan's, from element from on. A line outside the
// scan has n = 0.
func rows(shape, origin, size [3]int, row func(to, length, from, left, n int)) {
	left := min(max(-origin[0], 0), size[0])
	n := max(min(origin[0]+size[0], shape[0])-max(origin[0], 0), 0)
	if n == 0 {
		left = size[0]
	}
	to := 0
	for k := origin[2]; k < origin[2]+size[2]; k++ {
		for j := origin[1]; j < origin[1]+size[1]; j++ {
			if n == 0 || j < 0 || j >= shape[1] || k < 0 || k >= shape[2] {
				row(to, size[0], 0, size[0], 0)
			} else {
				row(to, size[0], origin[0]+left+shape[0]*(j+shape[1]*k), left, n)
			}
			to += size[0]
		}
	}
}

func fill(row []float32, value float32) {
	for i := range row {
		row[i] = value
	}
}

func checkCrop(length, channels int, size [3]int) error {
	if size[0] < 1 || size[1] < 1 || size[2] < 1 || length != channels*size[0]*size[1]*size[2] {
		return fmt.Errorf("a crop of %s voxels in %s does not go into %d values", numbers.Extents(size[:]),
			numbers.Count(channels, "channel"), length)
	}
	return nil
}

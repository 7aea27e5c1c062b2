package sliding

import (
	"slices"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Source is what windows are cut from.
type Source interface {
	// Crop reads the voxels from origin on, (Channels, K, J, I) of a size along (i, j, k), as the
	// network wants them, and air outside of the scan.
	Crop(dst []float32, origin, size [3]int) error
	// Size is the scan's along (i, j, k).
	Size() [3]int
	// Bytes is the memory that the source takes, as far as it counts towards a limit.
	Bytes() int64
}

// Case is a prepared case as a source. It is read where it lies.
type Case struct{ *prepared.Case }

// Bytes implements [Source].
func (c Case) Bytes() int64 { return 0 }

// Held is a prepared scan in memory as a source: its channels, all on one grid.
type Held struct {
	channels []heldChannel
	bytes    int64 // that they and the scans that they were made of take
}

type heldChannel struct {
	volume *volume.Volume
	how    volume.Intensities
}

// Hold makes a source of a prepared volume, whose numbers have the given meaning, and of the scan
// that it was made of.
func Hold(scan, prepared *volume.Volume, how volume.Intensities) Held {
	return Held{}.With(scan, prepared, how)
}

// With is the source with one more channel, of those that [Hold] takes.
func (h Held) With(scan, prepared *volume.Volume, how volume.Intensities) Held {
	h.channels = append(slices.Clip(h.channels), heldChannel{prepared, how})
	for i, v := range []*volume.Volume{scan, prepared} {
		if i == 0 || v != scan {
			h.bytes += 2*int64(len(v.Int16)) + 4*int64(len(v.Float32))
		}
	}
	return h
}

// Size implements [Source].
func (h Held) Size() [3]int { return h.Grid().Shape }

// Grid is that of all channels.
func (h Held) Grid() volume.Grid { return h.channels[0].volume.Grid }

// Bytes implements [Source].
func (h Held) Bytes() int64 { return h.bytes }

// Crop implements [Source].
func (h Held) Crop(dst []float32, origin, size [3]int) error {
	n := len(dst) / len(h.channels)
	for i, c := range h.channels {
		c.crop(dst[i*n:(i+1)*n], origin, size)
	}
	return nil
}

// crop is [Held.Crop] of one channel, row by row: no voxel is copied on the way.
func (c heldChannel) crop(dst []float32, origin, size [3]int) {
	shape := c.volume.Shape
	from, to := min(max(-origin[0], 0), size[0]), max(min(size[0], shape[0]-origin[0]), 0)
	var outside [1]float32
	c.how.Normalise(outside[:], []int16{c.how.Outside})
	for at := 0; at < len(dst); at += size[0] {
		row := dst[at:][:size[0]]
		j, k := origin[1]+at/size[0]%size[1], origin[2]+at/size[0]/size[1]
		if j < 0 || j >= shape[1] || k < 0 || k >= shape[2] || from >= to {
			fill(row, outside[0])
			continue
		}
		fill(row[:from], outside[0])
		fill(row[to:], outside[0])
		c.how.Normalise(row[from:to], c.volume.Int16[c.volume.Index(origin[0]+from, j, k):][:to-from])
	}
}

func fill(row []float32, value float32) {
	for i := range row {
		row[i] = value
	}
}

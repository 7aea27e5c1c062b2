package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// Digest tells a scan from others by its voxels, whatever file they came from: the SHA-256, in
// hexadecimal digits, of the extents (three uint32) and the values (float32) along the axes that
// are nearest to right, front and head (RAS), the first fastest, all little endian. Copies of a
// scan whose axes are in another order or direction have one digest. Where the grid lies and how
// large its voxels are does not count, because formats round it, nor by how much a value is less
// than -1024, with which scanners and converters fill what was not seen, each in its way.
func (v *Volume) Digest() (string, error) {
	g, from, flip, err := v.Grid.orient("RAS")
	if err != nil {
		return "", err
	}
	strides := [3]int{1, v.Shape[0], v.Shape[0] * v.Shape[1]}
	first, step := 0, [3]int{}
	for a := range 3 {
		if step[a] = strides[from[a]]; flip[a] {
			first += step[a] * (g.Shape[a] - 1)
			step[a] = -step[a]
		}
	}
	value := func(n int) float32 { return float32(v.Int16[n]) }
	if v.Int16 == nil {
		value = func(n int) float32 { return v.Float32[n] + 0 } // + 0 turns -0 into 0
	}
	const notSeen = -1024
	sum := sha256.New()
	for _, n := range g.Shape {
		binary.Write(sum, binary.LittleEndian, uint32(n)) // a hash takes everything
	}
	row := make([]byte, 0, 4*g.Shape[0])
	for k := range g.Shape[2] {
		for j := range g.Shape[1] {
			row = row[:0]
			at := first + j*step[1] + k*step[2]
			for range g.Shape[0] {
				x := value(at)
				if x != x {
					x = float32(math.NaN()) // one of many
				}
				x = max(x, notSeen)
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
				at += step[0]
			}
			sum.Write(row)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

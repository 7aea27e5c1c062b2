// Package seed makes every random number of the program a function of the run's seed and of what
// the number is for.
//
// Start at [Rand]. No generator is ever carried from one step to the next, so there is no generator
// state to save: step 700 of a resumed run draws the same numbers as step 700 of a run that was
// never interrupted, whatever the number of goroutines.
package seed

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
)

// Rand returns a generator that is fully determined by the run's seed, the name of the stream
// ("crop", "dropout", a parameter's name) and the indices within it (step, item of the batch, case
// number).
func Rand(seed uint64, stream string, index ...uint64) *rand.Rand {
	h := fnv.New128a()
	var b [8]byte
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	put(seed)
	put(uint64(len(stream)))
	h.Write([]byte(stream))
	for _, i := range index {
		put(i)
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(mix(binary.BigEndian.Uint64(sum[:8])), mix(binary.BigEndian.Uint64(sum[8:]))))
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014): FNV alone leaves neighbouring
// indices correlated.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

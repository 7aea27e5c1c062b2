package puzzle

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Selection is K configurations that stand for all n!: the classes of a K-way puzzle (Noroozi and
// Favaro, Unsupervised Learning of Visual Representations by Solving Jigsaw Puzzles, ECCV 2016).
type Selection []Configuration

// The criteria of [Select].
const (
	// MinDistance takes the configuration whose nearest one among those already taken is farthest
	// away: none of the set is easily mistaken for another. It is the one of Noroozi and Favaro's
	// text.
	MinDistance = "min"
	// MeanDistance takes the one that is farthest away on average, as the permutations of VISSL
	// were made ("max_avg"). It says nothing about the nearest two.
	MeanDistance = "mean"
)

// enumerated is the largest n whose n! configurations are all looked at; of more patches each step
// looks at that many drawn ones.
const (
	enumerated = 9
	candidates = 1 << 14
)

// Select chooses k different configurations of n patches: the first by chance, then greedily those
// that are farthest from the ones already taken, by their Hamming distance and the criterion. Of
// equal ones the first in lexicographic order is taken. The same generator gives the same set.
//
// Up to 9 patches all n! are looked at, in k n! / 2 steps of some nanoseconds; of more, each step
// draws 16384 candidates. A context that ends stops it, with the context's error: thousands of
// configurations take minutes.
func Select(ctx context.Context, r *rand.Rand, n, k int, criterion string) (Selection, error) {
	if err := CheckSelect(n, k, criterion); err != nil {
		return nil, err
	}
	if n <= enumerated {
		return selectAmongAll(ctx, r, n, k, criterion)
	}
	return selectAmongDrawn(ctx, r, n, k, criterion)
}

// CheckSelect says what is wrong with what [Select] is asked for, nil if nothing is.
func CheckSelect(n, k int, criterion string) error {
	if criterion != MinDistance && criterion != MeanDistance {
		return fmt.Errorf("criterion %q: want %s or %s", criterion, MinDistance, MeanDistance)
	}
	logFactorial, _ := math.Lgamma(float64(n) + 1)
	if n < 2 || n > 255 {
		return fmt.Errorf("configurations of %d patches: need from 2 to 255", n)
	}
	if k < 2 || math.Log(float64(k)) > logFactorial+1e-9 {
		return fmt.Errorf("%d of the %d! configurations: must be from 2 to all of them", k, n)
	}
	return nil
}

// selectAmongAll looks at all configurations, packed into nibbles.
func selectAmongAll(ctx context.Context, r *rand.Rand, n, k int, criterion string) (Selection, error) {
	all := packedPermutations(n)
	// of each to those taken: the smallest distance, or the sum; -1 once it is taken itself
	score := make([]int32, len(all))
	for i := range score {
		if criterion == MinDistance {
			score[i] = math.MaxInt32
		}
	}
	chosen := Selection{}
	for next := r.IntN(len(all)); ; {
		taken := all[next]
		chosen = append(chosen, unpack(taken, n))
		score[next] = -1
		if len(chosen) == k {
			return chosen, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		best := int32(-1)
		for i, c := range all {
			s := score[i]
			if s < 0 {
				continue
			}
			if d := packedDistance(c, taken); criterion == MinDistance {
				s = min(s, d)
			} else {
				s += d
			}
			score[i] = s
			if s > best {
				best, next = s, i
			}
		}
	}
}

// selectAmongDrawn takes the best of some drawn configurations in each step.
func selectAmongDrawn(ctx context.Context, r *rand.Rand, n, k int, criterion string) (Selection, error) {
	chosen := Selection{Random(r, n)}
	for len(chosen) < k {
		var next Configuration
		best := -1
		for range candidates {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c := Random(r, n)
			s := math.MaxInt
			if criterion == MeanDistance {
				s = 0
			}
			same := false
			for _, taken := range chosen {
				d := c.Distance(taken)
				same = same || d == 0
				if criterion == MinDistance {
					if s = min(s, d); s <= best {
						break
					}
				} else {
					s += d
				}
			}
			if !same && s > best {
				best, next = s, c
			}
		}
		if next != nil { // all candidates are taken only where n! is small
			chosen = append(chosen, next)
		}
	}
	return chosen, nil
}

// packedPermutations lists the configurations of n patches in lexicographic order, element s in the
// bits from 4s.
func packedPermutations(n int) []uint64 {
	var list []uint64
	var grow func(packed uint64, used, length int)
	grow = func(packed uint64, used, length int) {
		if length == n {
			list = append(list, packed)
			return
		}
		for p := range n {
			if used&(1<<p) == 0 {
				grow(packed|uint64(p)<<(4*length), used|1<<p, length+1)
			}
		}
	}
	grow(0, 0, 0)
	return list
}

// packedDistance counts the nibbles in which two differ.
func packedDistance(a, b uint64) int32 {
	x := a ^ b
	x |= x >> 2
	x |= x >> 1
	return int32(bits.OnesCount64(x & 0x1111111111111111))
}

func unpack(packed uint64, n int) Configuration {
	c := make(Configuration, n)
	for s := range c {
		c[s] = int(packed >> (4 * s) & 15)
	}
	return c
}

// Check says whether all are different configurations of n patches.
func (s Selection) Check(n int) error {
	seen := make(map[string]int, len(s))
	for i, c := range s {
		if len(c) != n {
			return fmt.Errorf("configuration %d has %d patches, the puzzle has %d", i, len(c), n)
		}
		if err := c.Check(); err != nil {
			return err
		}
		if first, twice := seen[c.key()]; twice {
			return fmt.Errorf("configurations %d and %d are the same", first, i)
		}
		seen[c.key()] = i
	}
	if len(s) < 2 {
		return fmt.Errorf("%d configurations: a choice needs at least two", len(s))
	}
	return nil
}

// index is where each configuration stands, by its key.
func (s Selection) index() map[string]int {
	at := make(map[string]int, len(s))
	for i, c := range s {
		at[c.key()] = i
	}
	return at
}

// Finder returns a function that says where in the selection a configuration stands, -1 if it does
// not.
func (s Selection) Finder() func(Configuration) int {
	at := s.index()
	return func(c Configuration) int {
		if i, ok := at[c.key()]; ok {
			return i
		}
		return -1
	}
}

// key is the configuration as a map can have it.
func (c Configuration) key() string {
	b := make([]byte, 0, 2*len(c))
	for _, p := range c {
		b = binary.LittleEndian.AppendUint16(b, uint16(p))
	}
	return string(b)
}

// Chance is what blind guessing among the configurations scores, if the truth is one of them: see
// [Grid.Chance].
func (s Selection) Chance() (correct, near, patches float64) {
	k, n := float64(len(s)), len(s[0])
	find := s.Finder()
	placed := make([]int, n*n) // how many put the patch of a slot at a position
	swaps := 0
	for _, c := range s {
		other := c.Clone()
		for a, p := range c {
			placed[a*n+p]++
			for b := range a {
				other[a], other[b] = other[b], other[a]
				if find(other) >= 0 {
					swaps++
				}
				other[a], other[b] = other[b], other[a]
			}
		}
	}
	for _, m := range placed {
		patches += float64(m) / k * float64(m) / k
	}
	return 1 / k, 1/k + float64(swaps)/(k*k), patches / float64(n)
}

// ReadSelection reads a set that others have made: a file of NumPy (.npy, an array (K, n) of
// integers, as VISSL and bbrattoli's JigsawPuzzlePytorch have it), or one of the Context Free
// Network (permutations_*.bin: int32 K and n, then the numbers, row by row). Positions may count
// from 0 or from 1.
func ReadSelection(r io.Reader) (Selection, error) {
	const most = 64 << 20
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("a set of permutations of more than %d MiB", most>>20)
	}
	var values []int
	var k, n int
	if bytes.HasPrefix(data, []byte("\x93NUMPY")) {
		values, k, n, err = readNumPy(data)
	} else {
		values, k, n, err = readContextFree(data)
	}
	if err != nil {
		return nil, err
	}
	if least := slices.Min(values); least == 1 {
		for i := range values {
			values[i]--
		}
	}
	s := make(Selection, k)
	for i := range s {
		s[i] = values[i*n : (i+1)*n : (i+1)*n]
	}
	return s, s.Check(n)
}

// checkShape refuses what cannot be a set of permutations before memory is taken for it.
func checkShape(k, n, bytes, size int) error {
	if k < 1 || n < 2 || k > 1<<20 || n > 255 || k*n*size != bytes {
		return fmt.Errorf("%d bytes for %d permutations of %d patches: not a set of permutations, or cut off", bytes, k,
			n)
	}
	return nil
}

func readContextFree(data []byte) (values []int, k, n int, err error) {
	if len(data) < 8 {
		return nil, 0, 0,
			fmt.Errorf("%d bytes are not a set of permutations: want a .npy file, or int32 rows, columns and values",
				len(data))
	}
	k, n = int(int32(binary.LittleEndian.Uint32(data))), int(int32(binary.LittleEndian.Uint32(data[4:])))
	data = data[8:]
	if err := checkShape(k, n, len(data), 4); err != nil {
		return nil, 0, 0, err
	}
	return integers(data, 4), k, n, nil
}

// integers are the little-endian signed numbers of so many bytes each.
func integers(data []byte, size int) []int {
	values := make([]int, 0, len(data)/size)
	for b := range slices.Chunk(data, size) {
		var wide [8]byte
		if copy(wide[:], b); b[size-1]&0x80 != 0 {
			for i := size; i < 8; i++ {
				wide[i] = 0xff
			}
		}
		values = append(values, int(int64(binary.LittleEndian.Uint64(wide[:]))))
	}
	return values
}

// numPyHeader is what the header of an array of little-endian signed integers says.
var numPyHeader = regexp.MustCompile(
	`^\{'descr': '[<|]([iu])([1248])', 'fortran_order': False, 'shape': \((\d+), (\d+)\), \}\s*$`,
)

// readNumPy reads NumPy's format 1.0 to 3.0.
func readNumPy(data []byte) (values []int, k, n int, err error) {
	const versionAt, lengthAt = 6, 8
	if len(data) < 12 {
		return nil, 0, 0, fmt.Errorf("a NumPy file that is cut off")
	}
	start, length := lengthAt+2, int(binary.LittleEndian.Uint16(data[lengthAt:]))
	if data[versionAt] > 1 {
		start, length = lengthAt+4, int(binary.LittleEndian.Uint32(data[lengthAt:]))
	}
	if length > len(data)-start {
		return nil, 0, 0, fmt.Errorf("a NumPy file that is cut off")
	}
	header := numPyHeader.FindStringSubmatch(string(data[start : start+length]))
	if header == nil {
		return nil, 0, 0,
			fmt.Errorf("a NumPy file with header %.100q: want an array of integers with two axes in C order",
				strings.TrimSpace(string(data[start:start+length])))
	}
	var numbers [3]int
	for i, text := range header[2:] {
		if numbers[i], err = strconv.Atoi(text); err != nil {
			return nil, 0, 0, fmt.Errorf("a NumPy file with shape %s: %w", text, err)
		}
	}
	size := numbers[0]
	k, n = numbers[1], numbers[2]
	data = data[start+length:]
	if err := checkShape(k, n, len(data), size); err != nil {
		return nil, 0, 0, err
	}
	return integers(data, size), k, n, nil
}

package nnunet

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/half"
)

// starts are where windows begin along an axis: evenly spread, a share of a window apart at most.
func starts(n, patch int, step float64) []int {
	count := int(math.Ceil(float64(n-patch)/(float64(patch)*step))) + 1
	at := make([]int, count)
	for i := range at {
		if count > 1 {
			at[i] = int(math.RoundToEven(float64(n-patch) / float64(count-1) * float64(i)))
		}
	}
	return at
}

// layers are where windows begin along axis 0: of a flat plan at each slice.
func (p *Plan) layers(n int, step float64) []int {
	if !p.Flat {
		return starts(n, p.Patch[0], step)
	}
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	return at
}

// slicesTogether is how many slices of a flat plan one of several folds sees before the next one's
// weights are put in its place, which takes as long as some slices.
const slicesTogether = 16

// together is how many layers go together, and how many planes they reach over.
func (p *Plan) together(members int) (layers, planes int) {
	switch {
	case !p.Flat:
		return 1, p.Patch[0]
	case members == 1:
		return 1, 1
	}
	return slicesTogether, slicesTogether
}

// gaussian is the weight of each voxel of a window: of a standard deviation of an eighth of its
// size, cut at four of them, 10 at its centre, in float16. Zeros, of what was cut and what rounds
// to it, become the least of the others.
func gaussian(patch [3]int) array[half.Float] {
	var axes [3][]float64
	peak := 1.0
	for a, n := range patch {
		sigma := float64(n) / 8
		reach := int(4*sigma + 0.5)
		highest := 0.0
		for i := range n {
			d := i - n/2
			w := 0.0
			if d <= reach && -d <= reach {
				w = math.Exp(-0.5 * float64(d*d) / (sigma * sigma))
			}
			axes[a] = append(axes[a], w)
			highest = max(highest, w)
		}
		peak *= highest
	}
	g := newArray[half.Float](patch)
	n := 0
	least := half.Float(0x7c00)
	for _, x := range axes[0] {
		for _, y := range axes[1] {
			for _, z := range axes[2] {
				g.values[n] = half.From64(x * y * z / (peak / 10))
				if g.values[n] > 0 {
					least = min(least, g.values[n])
				}
				n++
			}
		}
	}
	for i, w := range g.values {
		if w == 0 {
			g.values[i] = least
		}
	}
	return g
}

// sums are logits of each head, added up over windows, of the planes that windows still reach. They
// are float16 at every step as nnU-Net has them: where few windows reach, that rounding decides.
type sums struct {
	heads  []array[half.Float] // (depth of a window, rows of a band, padded width)
	weight array[half.Float]
	base   int    // the first plane
	rows   [2]int // of the padded scan
}

// newSums makes room for so many rows, which [sums.begin] chooses.
func newSums(heads int, depth, rows, width int) *sums {
	shape := [3]int{depth, rows, width}
	s := &sums{heads: make([]array[half.Float], heads), weight: newArray[half.Float](shape)}
	for h := range s.heads {
		s.heads[h] = newArray[half.Float](shape)
	}
	return s
}

// begin makes sums those of other rows, which are no more than there is room for.
func (s *sums) begin(rows [2]int) {
	s.base, s.rows = 0, rows
	resize := func(x *array[half.Float]) {
		x.shape[1] = rows[1] - rows[0]
		x.values = x.values[:x.shape[0]*x.shape[1]*x.shape[2]]
		clear(x.values)
	}
	resize(&s.weight)
	for h := range s.heads {
		resize(&s.heads[h])
	}
}

// forget makes a plane the first one: those before it are final and were taken.
func (s *sums) forget(before int) {
	plane := s.weight.shape[1] * s.weight.shape[2]
	drop := min(before-s.base, s.weight.shape[0]) * plane
	move := func(x array[half.Float]) { clear(x.values[copy(x.values, x.values[drop:]):]) }
	move(s.weight)
	for _, x := range s.heads {
		move(x)
	}
	s.base = before
}

// planes gives the final logits of each head in the rows of one plane of the padded scan, from one
// column to before another.
func (s *sums) planes(at, from, to int, into [][]half.Float) {
	width := s.weight.shape[2]
	parallel(len(s.heads), func(h int) {
		n := 0
		for j := range s.weight.shape[1] {
			row := ((at-s.base)*s.weight.shape[1] + j) * width
			for k := row + from; k < row+to; k++ {
				into[h][n] = half.From(s.heads[h].values[k].Float32() / s.weight.values[k].Float32())
				n++
			}
		}
	})
}

// inference is one scan under the windows of all folds.
type inference struct {
	*Plan
	channels []array[float32]
	mirror   [][]int
	step     float64
	members  int
	use      func(member int) error // puts a fold's weights in place
	network  *network
	progress func()
	votes    *votes // of each member, or with mirror images and without; nil: not wanted
}

// pad is the shape of a scan that is padded to a window where it is smaller, and how many voxels of
// that come before it.
func pad(shape, patch [3]int) (padded, before [3]int) {
	padded = shape
	for a, n := range shape {
		if missing := patch[a] - n; missing > 0 {
			padded[a], before[a] = patch[a], missing/2
		}
	}
	return padded, before
}

// workspace is the memory of an inference, with room for the rows of any band: bands follow one
// another in it.
type workspace struct {
	weights array[half.Float]
	bell    []float32 // the weights
	// of each member; then of windows without their mirror images, where these are wanted
	all []*sums

	x, turned, total, plain []float32      // windows, and what the network gives of them
	logits, one             [][]half.Float // of a plane: their mean, and those of one of several
}

// newWorkspace takes the memory for so many rows of logits.
func (f *inference) newWorkspace(rows int) *workspace {
	shape, heads := f.channels[0].shape, f.network.heads
	padded, _ := pad(shape, f.Patch)
	w := &workspace{weights: gaussian(f.Patch)}
	w.bell = make([]float32, len(w.weights.values))
	for i, x := range w.weights.values {
		w.bell[i] = x.Float32()
	}
	_, depth := f.together(f.members)
	for range f.members {
		w.all = append(w.all, newSums(heads, depth, rows, padded[2]))
	}
	voxels := len(w.bell)
	w.x = make([]float32, len(f.channels)*voxels)
	if len(f.mirror) > 1 {
		w.total, w.turned = make([]float32, f.network.channels*voxels), make([]float32, len(w.x))
	}
	if f.aside() {
		w.all = append(w.all, newSums(heads, depth, rows, padded[2]))
		w.plain = make([]float32, len(w.total))
	}
	w.logits, w.one = make([][]half.Float, heads), make([][]half.Float, heads)
	for h := range heads {
		w.logits[h] = make([]half.Float, rows*shape[2])
		if len(w.all) > 1 {
			w.one[h] = make([]half.Float, rows*shape[2])
		}
	}
	return w
}

// begin makes a workspace one of other rows.
func (w *workspace) begin(rows [2]int, width int) {
	for _, s := range w.all {
		s.begin(rows)
	}
	for h := range w.logits {
		w.logits[h] = w.logits[h][:(rows[1]-rows[0])*width]
		if w.one[h] != nil {
			w.one[h] = w.one[h][:len(w.logits[h])]
		}
	}
}

// aside says whether windows without their mirror images are summed, too.
func (f *inference) aside() bool { return f.votes != nil && f.members == 1 }

// over slides the network over rows of a prepared scan: the windows of a plane, or of a few slices,
// with one fold after the other, then the next. Planes that no window reaches any more are handed
// to emit in their order, with these rows, averaged over the folds: the float16 sum divided by the
// number of folds.
func (f *inference) over(ctx context.Context, w *workspace, rows [2]int,
	emit func(plane int, logits [][]half.Float)) error {
	shape := f.channels[0].shape
	padded, before := pad(shape, f.Patch)
	rows[0], rows[1] = rows[0]+before[1], rows[1]+before[1]
	w.begin(rows, shape[2])
	together, _ := f.together(f.members)
	layers := f.layers(padded[0], f.step)
	next := 0            // layer
	var corners [][2]int // of the windows of a layer
	for _, j := range reach(padded[1], f.Patch[1], f.step, rows) {
		for _, k := range starts(padded[2], f.Patch[2], f.step) {
			corners = append(corners, [2]int{j, k})
		}
	}
	for group := range slices.Chunk(layers, together) {
		if err := f.add(ctx, w, group, corners); err != nil {
			return err
		}
		final := padded[0] // planes before it are final now
		if next += len(group); next < len(layers) {
			final = layers[next]
		}
		for plane := max(group[0], before[0]); plane < min(final, before[0]+shape[0]); plane++ {
			f.mean(w, plane, before[2], before[2]+shape[2])
			if f.votes != nil {
				f.votes.count(rows[0]-before[1], shape[2])
			}
			if err := checkFinite(w.logits); err != nil {
				return err
			}
			emit(plane-before[0], w.logits)
		}
		for _, s := range w.all {
			s.forget(final)
		}
	}
	if f.votes != nil {
		f.votes.done = rows[1] - before[1]
	}
	return nil
}

// add adds the windows of some layers to the sums, at the given corners in each, of one fold after
// the other.
func (f *inference) add(ctx context.Context, w *workspace, layers []int, corners [][2]int) error {
	_, before := pad(f.channels[0].shape, f.Patch)
	voxels := len(w.bell)
	for m, s := range w.all[:f.members] {
		if f.members > 1 {
			if err := f.use(m); err != nil {
				return err
			}
		}
		for n := range len(layers) * len(corners) {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := corners[n%len(corners)]
			corner := [3]int{layers[n/len(corners)], at[0], at[1]}
			for c, channel := range f.channels {
				cut(w.x[c*voxels:][:voxels], channel, corner, before, f.Patch)
			}
			values, err := mirrored(w.x, w.turned, w.total, w.plain, f.Patch, f.mirror, f.network.run)
			if err == nil {
				err = f.weigh(w, s, values, corner)
			}
			if err == nil && f.aside() {
				err = f.weigh(w, w.all[f.members], w.plain, corner)
			}
			if err != nil {
				return err
			}
			f.progress()
		}
	}
	return nil
}

// weigh adds what the network gives of a window to sums.
func (f *inference) weigh(w *workspace, s *sums, values []float32, corner [3]int) error {
	s.weigh(w.weights, corner)
	return f.network.each(values, func(logits []float32, plane int) {
		s.add(logits, w.bell, corner, f.Patch, plane)
	})
}

// mean makes the final logits of a plane, from one column to before another: the mean over the
// folds.
func (f *inference) mean(w *workspace, plane, left, right int) {
	w.all[0].planes(plane, left, right, w.logits)
	f.say(0, w.logits)
	for m, s := range w.all[1:] {
		s.planes(plane, left, right, w.one)
		f.say(m+1, w.one)
		if m+1 == f.members { // without mirror images
			continue
		}
		for h := range w.logits {
			for v, x := range w.one[h] {
				w.logits[h][v] = half.From(w.logits[h][v].Float32() + x.Float32())
			}
		}
	}
	if count := float32(f.members); count > 1 {
		for h := range w.logits {
			for v, x := range w.logits[h] {
				w.logits[h][v] = half.From(x.Float32() / count)
			}
		}
	}
}

// say has the logits of a plane counted as one of the opinions, where these are wanted.
func (f *inference) say(opinion int, logits [][]half.Float) {
	if f.votes != nil {
		f.votes.say(opinion, logits)
	}
}

// What logits say that decide nothing. nnU-Net stops at infinite ones, too.
var (
	errNotNumbers = errors.New("the network's output is not a number: were the weights damaged, in training or since?")
	errInfinite   = errors.New("the network's output, summed over windows in float16 as nnU-Net does, is infinite: " +
		"were the weights damaged, in training or since?")
)

// checkFinite says of the logits of each head that some are infinite or no numbers: every
// comparison with these is false, so that they would be background.
func checkFinite(logits [][]half.Float) error {
	var infinite, none atomic.Bool
	parallel(len(logits), func(h int) {
		for _, x := range logits[h] {
			if x&0x7c00 == 0x7c00 { // no finite number has all bits of the exponent
				infinite.Store(true)
				if x&0x3ff != 0 {
					none.Store(true)
				}
			}
		}
	})
	switch {
	case none.Load():
		return errNotNumbers
	case infinite.Load():
		return errInfinite
	}
	return nil
}

// cut copies a window of a channel; outside of the channel it is 0.
func cut(dst []float32, x array[float32], corner, before, patch [3]int) {
	clear(dst)
	from := max(corner[2]-before[2], 0)
	to := min(corner[2]-before[2]+patch[2], x.shape[2])
	for i := range patch[0] {
		a := corner[0] - before[0] + i
		if a < 0 || a >= x.shape[0] {
			continue
		}
		for j := range patch[1] {
			b := corner[1] - before[1] + j
			if b < 0 || b >= x.shape[1] {
				continue
			}
			row := x.values[(a*x.shape[1]+b)*x.shape[2]:]
			copy(dst[(i*patch[1]+j)*patch[2]+from-(corner[2]-before[2]):], row[from:to])
		}
	}
}

// mirrored computes what the network gives of a window: the mean over its mirror images, which are
// turned back and summed in float32. mirror has the axes of each image. The first is the window
// itself: what the network gives for it goes into plain, unless that is nil. Where the window is
// alone, it is what run gives, and nothing else is written to.
func mirrored(x, turned, total, plain []float32, patch [3]int, mirror [][]int,
	run func(x []float32) ([]float32, error)) ([]float32, error) {
	if len(mirror) == 1 {
		return run(x)
	}
	for n, axes := range mirror {
		in := x
		if len(axes) > 0 {
			flip(turned, x, patch, axes)
			in = turned
		}
		y, err := run(in)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			copy(total, y)
			copy(plain, y)
		} else {
			addFlipped(total, y, patch, axes)
		}
	}
	count := float32(len(mirror))
	for i := range total {
		total[i] /= count
	}
	return total, nil
}

// mirrorSets are the sets of axes that nnU-Net mirrors along: none, single axes, pairs, all.
func mirrorSets(axes []int) [][]int {
	sets := [][]int{nil}
	for size := 1; size <= len(axes); size++ {
		for mask := range 1 << len(axes) {
			var set []int
			for n := range axes {
				// ascending masks are in the order of itertools.combinations where the first axis
				// has the highest bit
				if mask>>(len(axes)-1-n)&1 == 1 {
					set = append(set, axes[n])
				}
			}
			if len(set) == size {
				sets = append(sets, set)
			}
		}
		// combinations come with the first axis first
		from := len(sets)
		for from > 0 && len(sets[from-1]) == size {
			from--
		}
		for i, j := from, len(sets)-1; i < j; i, j = i+1, j-1 {
			sets[i], sets[j] = sets[j], sets[i]
		}
	}
	return sets
}

// flipped calls do with the index of each voxel of a window and of its mirror image, row by row.
func flipped(patch [3]int, axes []int, do func(row, mirrorRow int, reversed bool)) {
	var on [3]bool
	for _, a := range axes {
		on[a] = true
	}
	for i := range patch[0] {
		mi := i
		if on[0] {
			mi = patch[0] - 1 - i
		}
		for j := range patch[1] {
			mj := j
			if on[1] {
				mj = patch[1] - 1 - j
			}
			do((i*patch[1]+j)*patch[2], (mi*patch[1]+mj)*patch[2], on[2])
		}
	}
}

// flip mirrors all channels of x.
func flip(dst, x []float32, patch [3]int, axes []int) {
	n := patch[0] * patch[1] * patch[2]
	for c := 0; c < len(x); c += n {
		flipped(patch, axes, func(row, mirrorRow int, reversed bool) {
			to, from := dst[c+row:][:patch[2]], x[c+mirrorRow:][:patch[2]]
			if !reversed {
				copy(to, from)
				return
			}
			for k := range to {
				to[k] = from[len(from)-1-k]
			}
		})
	}
}

// addFlipped adds the mirror image of all channels of y.
func addFlipped(total, y []float32, patch [3]int, axes []int) {
	n := patch[0] * patch[1] * patch[2]
	for c := 0; c < len(y); c += n {
		flipped(patch, axes, func(row, mirrorRow int, reversed bool) {
			to, from := total[c+row:][:patch[2]], y[c+mirrorRow:][:patch[2]]
			for k := range to {
				if reversed {
					to[k] += from[len(from)-1-k]
				} else {
					to[k] += from[k]
				}
			}
		})
	}
}

// within calls do with the parts of a window's rows that lie in the rows of the sums: for planes of
// the window, where such a part begins in the window's plane, and in the sums.
func (s *sums) within(corner, patch [3]int, from, to int, do func(i, row, at int)) {
	first, last := max(s.rows[0]-corner[1], 0), min(s.rows[1]-corner[1], patch[1])
	for i := from; i < to; i++ {
		for j := first; j < last; j++ {
			row := (corner[0]-s.base+i)*s.weight.shape[1] + corner[1] + j - s.rows[0]
			do(i, j*patch[2], row*s.weight.shape[2]+corner[2])
		}
	}
}

// weigh adds the weights of a window.
func (s *sums) weigh(weights array[half.Float], corner [3]int) {
	patch := weights.shape
	s.within(corner, patch, 0, patch[0], func(i, row, at int) {
		to, w := s.weight.values[at:][:patch[2]], weights.values[i*patch[1]*patch[2]+row:]
		for k := range to {
			to[k] = half.From(to[k].Float32() + w[k].Float32())
		}
	})
}

// add adds the logits (heads, some planes, ..) of a window from one of its planes on, weighted.
func (s *sums) add(logits, bell []float32, corner, patch [3]int, plane int) {
	size := patch[1] * patch[2]
	voxels := len(logits) / len(s.heads)
	parallel(len(s.heads), func(h int) {
		s.within(corner, patch, plane, plane+voxels/size, func(i, row, at int) {
			to, w := s.heads[h].values[at:][:patch[2]], bell[i*size+row:]
			y := logits[h*voxels+(i-plane)*size+row:]
			for k := range to {
				to[k] = half.From(to[k].Float32() + y[k]*w[k])
			}
		})
	})
}

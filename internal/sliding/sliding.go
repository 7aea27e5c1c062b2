// Package sliding makes a label for every voxel of a scan that is larger than what a network takes
// at once: it slides a window over the scan.
//
// Start at [New] and [Inferer.Infer].
//
//   - Windows of one size lie on a lattice that covers the scan, neighbours overlapping by at least
//     the asked share. A scan smaller than the window is centred in it, with air around.
//   - Each window adds its class probabilities, weighted by a Gaussian around its centre (sigma an
//     eighth of its size, as nnU-Net has it), to a sum for each voxel and class. Divided by the sum
//     of weights, that is the mean over the windows; those of several networks are averaged alike.
//   - The scan was resampled before the windows saw it. The mean probabilities are interpolated
//     linearly between the prepared voxels, and each voxel of the scan gets the class with the
//     highest ([emission], [volume.Restoration]).
//   - The lattice is walked along j or k, whichever keeps fewer voxels waiting. Voxels below the
//     next layer of windows are final: they are emitted and their sums forgotten ([slab]). So the
//     sums take classes x window's extent x the scan's other two extents x 4 bytes, however long
//     the scan is along that axis.
//   - With [Options].Mirror the network sees every window and its mirror images, and what it says
//     of these is turned back and averaged.
//   - On a device that blends, and has room for the sums of the whole scan, they stay there, and
//     only what is wanted on the grid of the results comes back ([blender], [pieces]).
//
// The package does not know what the classes are.
package sliding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

// Options say how windows lie.
type Options struct {
	Size    [3]int  // of a window, along (i, j, k)
	Batch   int     // windows that the network takes at once
	Overlap float64 // share of a window that its neighbour covers too
	Logits  bool    // the network's logits are read, too, so that they can be asked for
	// axes out of i, j and k: the outputs are means over all mirror images along these
	Mirror string
	Inputs int // channels of a scan; 0: 1; New fills it in

	inParts bool // the last layer is a program of its own; New fills it in
	// of its result that are made at once, though that saves nothing; 0: where it does
	partBytes int
}

// Check says what is wrong with the options, nil if nothing is.
func (o Options) Check() error {
	if o.Batch < 1 || o.Batch > 1<<16 {
		return fmt.Errorf("batch is %d, must be at least 1", o.Batch)
	}
	if !(o.Overlap >= 0 && o.Overlap <= 0.95) {
		return fmt.Errorf("an overlap of %v: must be a share from 0 to 0.95", o.Overlap)
	}
	return CheckMirror(o.Mirror)
}

// An Inferer runs a network over windows.
type Inferer struct {
	Options
	// Note is told how a scan is taken apart where the memory is too little for all of its sums;
	// may be nil.
	Note func(text string)

	dev     device.Device
	program *nn.Program // nil: the network lies in parts
	parts   *nn.Apart
	classes int
	room    int64        // bytes for what Infer holds; negative: no limit
	weights [3][]float32 // Gaussian along each axis
	spare   spare
	mirrored
}

// New compiles the network for batches of windows, with the parameters and the limit of memory
// given.
func New(dev device.Device, params *nn.Params, b backbone.Backbone, o Options, compile nn.Options) (*Inferer, error) {
	if err := backbone.Fits(b, o.Size); err != nil {
		return nil, config.Mistaken(fmt.Errorf("window: %w", err))
	}
	if err := o.Check(); err != nil {
		return nil, config.Mistaken(err)
	}
	o.Inputs = b.Settings().InputChannels()
	g, logits := o.graph(dev, b)
	if g.Err() != nil {
		return nil, g.Err()
	}
	s := &Inferer{Options: o, dev: dev, classes: b.Settings().Classes, room: -1}
	if err := s.compile(g, logits, params, compile); err != nil {
		return nil, fmt.Errorf("preparing inference on windows of %s: %w", numbers.Extents(o.Size[:]), err)
	}
	if compile.MemoryLimit > 0 {
		s.room = compile.MemoryLimit
		if _, own := dev.(device.Accountant); !own { // the network lies in the host's memory, too
			s.room -= params.Total()
		}
		if s.parts != nil {
			s.room -= s.parts.HostBytes()
		}
		s.room = max(s.room, 0)
	}
	for axis, n := range o.Size {
		s.weights[axis] = gaussian(n)
	}
	return s, nil
}

// graph is the network on a batch of windows. Where it cannot be, the graph says why.
func (o Options) graph(dev device.Device, b backbone.Backbone) (g *nn.Graph, logits *nn.Node) {
	g = nn.NewGraph(nn.Eval, dev.Activations())
	stages := b.Encoder(g, backbone.Input(g, "image", b, o.Batch, o.Size))
	if g.Err() == nil {
		logits = b.Decoder(g, stages)[0]
	}
	return g, logits
}

// partsOf is how many bytes of logits are made at once where the last layer is a program of its
// own; 0 where it is not.
func (o Options) partsOf(dev device.Device, logits *nn.Node) int {
	_, blends := dev.(device.Blender)
	switch {
	case blends:
		return 0
	case o.partBytes == 0 && nn.SavesApart(logits):
		return nn.PartBytes
	}
	return o.partBytes
}

// BytesOf is [Options.Bytes] of windows of a network, whose last layer [New] may make a program of
// its own: what that is given and gives counts, and not the classes of whole windows.
func (o Options) BytesOf(dev device.Device, b backbone.Backbone, shape [3]int) int64 {
	classes := b.Settings().Classes
	o.Inputs = b.Settings().InputChannels()
	g, logits := o.graph(dev, b)
	if g.Err() != nil { // who makes the network says so
		return o.Bytes(shape, classes)
	}
	host := int64(0)
	if part := o.partsOf(dev, logits); part > 0 {
		outputs := 1
		if o.Logits {
			outputs = 2
		}
		host = nn.ApartBytes(logits, part, outputs)
		o.inParts = host > 0
	}
	return o.Bytes(shape, classes) + host
}

// compile makes the program of a graph, or its parts: of many classes the probabilities in a whole
// window are much more than what they are made of. On a device that blends they never leave it.
func (s *Inferer) compile(g *nn.Graph, logits *nn.Node, params *nn.Params, o nn.Options) (err error) {
	outputs := func(g *nn.Graph, logits *nn.Node) map[string]*nn.Node {
		all := map[string]*nn.Node{"probability": g.Softmax(logits)}
		if s.Logits {
			all["logits"] = logits
		}
		return all
	}
	if s.partBytes = s.partsOf(s.dev, logits); s.partBytes > 0 {
		s.parts, err = nn.CompileApart(s.dev, g, logits, params, s.partBytes, outputs, o)
		if s.inParts = s.parts != nil; s.inParts || err != nil {
			return err
		}
	}
	o.Outputs = outputs(g, logits)
	s.program, err = nn.Compile(s.dev, g, params, o)
	return err
}

// NetworkBytes is the memory of the network, beside its parameters.
func (s *Inferer) NetworkBytes() int64 {
	if s.parts != nil {
		return s.parts.Bytes()
	}
	return s.program.Bytes()
}

// WindowFLOPs is the arithmetic of the network on a window, its mirror images included.
func (s *Inferer) WindowFLOPs() float64 {
	var forward float64
	if s.parts != nil {
		forward = s.parts.FLOPs()
	} else {
		forward = s.program.ForwardFLOPs()
	}
	return forward / float64(s.Batch) * float64(int(1)<<len(s.Mirror))
}

// Close gives the memory back.
func (s *Inferer) Close() {
	if s.parts != nil {
		s.parts.Close()
	} else {
		s.program.Close()
	}
}

// positions are where windows of the given size start along an axis of n voxels: evenly spread, the
// first at 0, the last at the end.
func positions(n, size int, overlap float64) []int {
	if n <= size {
		return []int{-((size - n) / 2)}
	}
	step := max(float64(size)*(1-overlap), 1)
	count := int(math.Ceil(float64(n-size)/step)) + 1
	out := make([]int, count)
	for i := range out {
		out[i] = int(math.Round(float64(i) * float64(n-size) / float64(count-1)))
	}
	return out
}

// crops are the windows of a batch.
type crops struct {
	origins [][3]int
	voxels  []float32
}

// spare is the memory of crops that are done with. What was made for every window, some megabytes,
// would be garbage: a limit of memory would have to leave room for it.
type spare struct {
	mutex sync.Mutex
	all   [][]float32
}

// take gives zeros.
func (s *spare) take(n int) []float32 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if last := len(s.all) - 1; last >= 0 && len(s.all[last]) == n {
		voxels := s.all[last]
		s.all = s.all[:last]
		clear(voxels)
		return voxels
	}
	return make([]float32, n)
}

func (s *spare) put(voxels []float32) {
	if voxels != nil {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.all = append(s.all, voxels)
	}
}

// An Ensemble is several sets of parameters whose probabilities are averaged: Use(i) puts those of
// member i in place. The zero value uses what is there.
type Ensemble struct {
	Members int
	Use     func(member int) error
}

// Wanted says which results are wanted, and where. The zero value asks for classes on the grid of
// the source.
type Wanted struct {
	Classes *volume.Restoration // the grid of the classes; nil: the source's
	// the grid of probabilities and logits; nil: the source's
	Maps *volume.Restoration
	// the mean over windows and networks, for each class and voxel
	Probabilities, Logits bool
}

// Result is what windows say about a scan.
type Result struct {
	Classes []uint16 // (K, J, I)
	// (class, K, J, I); nil if not wanted. Logits are means of the logits: their softmax is not the
	// mean of the probabilities.
	Probabilities, Logits []float32
}

// channels is how many sums there are for a voxel: the probabilities, then the logits.
func (w Wanted) channels(classes int) int {
	if w.Logits {
		return 2 * classes
	}
	return classes
}

// complete puts the grid of the source in the place of those left out.
func (w Wanted) complete(shape [3]int) (Wanted, error) {
	for _, to := range []**volume.Restoration{&w.Classes, &w.Maps} {
		if *to == nil {
			var err error
			if *to, err = volume.Stay(volume.Grid{Shape: shape,
				Affine: volume.Scaling([3]float64{1, 1, 1})}); err != nil {
				return w, err
			}
		}
		if (*to).Prepared.Shape != shape {
			return w, fmt.Errorf("the windows lie over %v voxels, their results over %v", numbers.Extents(shape[:]),
				numbers.Extents((*to).Prepared.Shape[:]))
		}
	}
	return w, nil
}

// slab is the sums for these results.
func (w Wanted) slab(shape, size [3]int, classes int) *slab {
	return newSlab(shape, size, classes, w.channels(classes), w.interpolated())
}

// maps is how many values a voxel of the maps has.
func (w Wanted) maps(classes int) (n int) {
	if w.Probabilities {
		n += classes
	}
	if w.Logits {
		n += classes
	}
	return n
}

// Windows is how many windows are laid over a scan of a shape.
func (o Options) Windows(shape [3]int) int {
	n := 1
	for axis := range 3 {
		n *= len(positions(shape[axis], o.Size[axis], o.Overlap))
	}
	return n
}

// Bytes is the memory that Classify takes beside the network and the source: in bands, where the
// limit asks for them.
func (s *Inferer) Bytes(src Source) int64 {
	shape := src.Size()
	w, err := Wanted{}.complete(shape)
	if err != nil { // there is no such shape
		return 0
	}
	return s.bytes(shape, s.classes, w, s.count(shape, src.Bytes(), w))
}

// Bytes is the memory of windows over a scan of the given shape whose classes are wanted on its own
// grid: sums, the probabilities of a batch, its crops and those made ahead, and the result.
func (o Options) Bytes(shape [3]int, classes int) int64 {
	w, err := Wanted{}.complete(shape)
	if err != nil { // there is no such shape
		return 0
	}
	return o.bytes(shape, classes, w, 1)
}

func (o Options) bytes(shape [3]int, classes int, w Wanted, bands int) int64 {
	patch := int64(o.Size[0]) * int64(o.Size[1]) * int64(o.Size[2])
	inputs := max(o.Inputs, 1)
	outputs := w.channels(classes)
	if o.inParts { // what it says of a part is the network's
		outputs = 0
	}
	batches := outputs + inputs*(cropsAhead+1)
	if o.Mirror != "" { // one mirror image, and what the network says of it
		batches += outputs + inputs
	}
	sums := w.slab(shape, o.Size, classes)
	sums.lines = 0
	for _, b := range w.bands(sums, bands) {
		sums.lines = max(sums.lines, b.lines)
	}
	return sums.bytes() + 4*int64(o.Batch)*patch*int64(batches) +
		2*int64(w.Classes.Scan.Len()) + 4*int64(w.Maps.Scan.Len())*int64(w.maps(classes))
}

// cropsAhead is how many batches of windows are cut before they are needed, so that the network
// never waits for them.
const cropsAhead = 2

// Classify gives the class of every voxel of a source, (K, J, I).
func (s *Inferer) Classify(ctx context.Context, src Source, of Ensemble, progress func(done, total int)) ([]uint16,
	error) {
	r, err := s.Infer(ctx, src, of, Wanted{}, progress)
	return r.Classes, err
}

// Infer slides the window over a source. progress, if not nil, is told how many windows are done.
func (s *Inferer) Infer(ctx context.Context, src Source, of Ensemble, wanted Wanted,
	progress func(done, total int)) (r Result, err error) {
	shape := src.Size()
	if wanted.Logits && !s.Logits {
		return r, errors.New("logits were not asked for when the network was prepared")
	}
	if wanted, err = wanted.complete(shape); err != nil {
		return r, err
	}
	count := s.count(shape, src.Bytes(), wanted)
	if err := s.fits(shape, s.bytes(shape, s.classes, wanted, count)+src.Bytes(), wanted); err != nil {
		return r, err
	}
	var starts [3][]int
	for axis := range 3 {
		starts[axis] = positions(shape[axis], s.Size[axis], s.Overlap)
	}
	slab := wanted.slab(shape, s.Size, s.classes)
	members := max(of.Members, 1)
	blend, err := s.newBlender(s.dev, shape, wanted)
	if err != nil {
		return r, err
	}
	emissions := s.emissions(&r, wanted, starts, members)
	bands := wanted.bands(slab, count)
	if blend != nil {
		defer blend.close()
		bands = wanted.bands(slab, 1) // on the device
	} else {
		slab.allocate(bands)
		slab.to = emissions
	}
	values := map[string][]float32{} // what the host reads of a batch
	if n := s.Batch * s.classes * s.Size[0] * s.Size[1] * s.Size[2]; blend == nil && s.parts == nil {
		values["probability"] = make([]float32, n)
		if wanted.Logits {
			values["logits"] = make([]float32, n)
		}
	}
	if len(bands) > 1 && s.Note != nil {
		s.Note(s.apart(slab, starts, bands, wanted.bands(slab, 1)))
	}
	done, all := 0, s.windowsOf(slab, starts, bands)*members
	tell := func() {
		if done++; progress != nil {
			progress(done, all)
		}
	}
	for _, b := range bands {
		if blend == nil {
			slab.hold(b)
		}
		across := b.reach(starts[slab.across], s.Size[slab.across])
		if err := s.slide(ctx, src, of, blend, values, slab, starts, across, tell); err != nil {
			return Result{}, err
		}
	}
	if blend != nil {
		for _, e := range emissions {
			if err := blend.emit(e); err != nil {
				return Result{}, err
			}
		}
	}
	return r, nil
}

// slide computes all windows that lie at some starts across the planes of the sums, layer by layer.
func (s *Inferer) slide(ctx context.Context, src Source, of Ensemble, blend *blender, values map[string][]float32,
	sums *slab, starts [3][]int, across []int, done func()) error {
	layers, windows := starts[sums.along], len(starts[0])*len(across)
	for layer := range layers {
		for member := range max(of.Members, 1) {
			if of.Use != nil {
				if err := of.Use(member); err != nil {
					return err
				}
			}
			origins := make([][3]int, windows)
			for n := range origins {
				origins[n][0] = starts[0][n%len(starts[0])]
				origins[n][sums.across] = across[n/len(starts[0])]
				origins[n][sums.along] = layers[layer]
			}
			if err := s.layer(ctx, src, origins, blend, values, sums, done); err != nil {
				return err
			}
		}
		if blend != nil {
			continue
		}
		final := sums.shape[sums.along] // planes before it are final now
		if layer+1 < len(layers) {
			final = layers[layer+1]
		}
		if err := sums.settle(final); err != nil {
			return err
		}
	}
	return nil
}

// Room is the memory that the limit leaves beside the network; negative: there is no limit.
func (s *Inferer) Room() int64 { return s.room }

// Need is the memory that Infer takes for a scan of a shape beside the network, where nothing
// limits it.
func (s *Inferer) Need(shape [3]int, wanted Wanted) (int64, error) {
	wanted, err := wanted.complete(shape)
	if err != nil {
		return 0, err
	}
	return s.bytes(shape, s.classes, wanted, 1), nil
}

// Fits says whether there is memory for a scan of a shape, whose source will take so many bytes,
// and what can be done where there is not. Nothing of the scan is needed for that.
func (s *Inferer) Fits(shape [3]int, source int64, wanted Wanted) error {
	wanted, err := wanted.complete(shape)
	if err != nil {
		return err
	}
	need := s.bytes(shape, s.classes, wanted, s.count(shape, source, wanted)) + source
	return s.fits(shape, need, wanted)
}

func (s *Inferer) fits(shape [3]int, need int64, wanted Wanted) error {
	if s.room < 0 || need <= s.room {
		return nil
	}
	return hint.ShortOfMemory(fmt.Errorf(
		"a scan of %s in %d classes needs %d MiB of memory beside the network, which leaves %d MiB: %s",
		numbers.Extents(shape[:]), s.classes, need>>20, s.room>>20, wanted.saving()))
}

// saving says what takes less memory.
func (w Wanted) saving() string {
	if w.Probabilities || w.Logits {
		return "do without probabilities and logits, or take them on the prepared " +
			"grid, or make the window or the batch smaller"
	}
	return "make the window or the batch smaller"
}

// emissions makes the memory of the results, and says how the sums get there.
func (s *Inferer) emissions(r *Result, wanted Wanted, starts [3][]int, members int) []*emission {
	var weights [3][]float32
	for axis := range 3 {
		weights[axis] = sumOfWeights(starts[axis], s.weights[axis], wanted.Classes.Prepared.Shape[axis])
	}
	e := newEmission(wanted.Classes, weights, members)
	r.Classes = make([]uint16, wanted.Classes.Scan.Len())
	e.classes = r.Classes
	if wanted.maps(s.classes) == 0 {
		return []*emission{e}
	}
	n := wanted.Maps.Scan.Len()
	m := newEmission(wanted.Maps, weights, members)
	m.maps = make([][]float32, wanted.channels(s.classes))
	spread := func(values []float32, first int) {
		for class := range s.classes {
			m.maps[first+class] = values[class*n : (class+1)*n]
		}
	}
	if wanted.Probabilities {
		r.Probabilities = make([]float32, s.classes*n)
		spread(r.Probabilities, 0)
	}
	if wanted.Logits {
		r.Logits = make([]float32, s.classes*n)
		spread(r.Logits, s.classes)
	}
	if !wanted.Maps.IsWhole() {
		beyond(r, s.classes)
	}
	if wanted.Maps == wanted.Classes { // one pass for both
		m.classes = r.Classes
		return []*emission{m}
	}
	return []*emission{e, m}
}

// beyond says of every voxel that it is background, class 0, and nothing else. Those of the part
// that the network sees are written over.
func beyond(r *Result, classes int) {
	const never = -30 // a logit: its probability beside one of 0 is 1e-13
	for n := range len(r.Probabilities) / classes {
		r.Probabilities[n] = 1
	}
	for n := len(r.Logits) / classes; n < len(r.Logits); n++ {
		r.Logits[n] = never
	}
}

// layer adds the windows at the given origins to the sums: to those on the device, if blend is not
// nil.
func (s *Inferer) layer(ctx context.Context, src Source, origins [][3]int, blend *blender, values map[string][]float32,
	sums *slab, done func()) error {
	if blend != nil {
		if err := blend.begin(origins); err != nil {
			return err
		}
	}
	patch := s.Size[0] * s.Size[1] * s.Size[2]
	input := s.Inputs * patch
	batches := (len(origins) + s.Batch - 1) / s.Batch
	ahead := train.NewPrefetch(ctx, 0, batches, 1, cropsAhead, func(_ context.Context, b int) (crops, error) {
		c := crops{origins: origins[b*s.Batch : min((b+1)*s.Batch, len(origins))],
			voxels: s.spare.take(s.Batch * input)}
		for n, origin := range c.origins {
			if err := src.Crop(c.voxels[n*input:(n+1)*input], origin, s.Size); err != nil {
				return c, err
			}
		}
		return c, nil
	})
	defer ahead.Close()
	var c crops
	for batch := range batches {
		s.spare.put(c.voxels) // of the batch before
		var err error
		if c, err = ahead.Next(); err != nil {
			return err
		}
		if s.parts != nil {
			if err := s.addParts(c, sums); err != nil {
				return err
			}
			for range c.origins {
				done()
			}
			continue
		}
		run := s.run
		if s.Mirror != "" {
			run = s.runMirrored
		}
		if err := run(c.voxels, values); err != nil {
			return err
		}
		one := s.classes * patch
		for n, origin := range c.origins {
			if blend != nil {
				blend.window(n, batch*s.Batch+n)
				done()
				continue
			}
			sums.add(values["probability"][n*one:(n+1)*one], 0, origin, s.Size, &s.weights)
			if logits := values["logits"]; logits != nil {
				sums.add(logits[n*one:(n+1)*one], s.classes, origin, s.Size, &s.weights)
			}
			done()
		}
	}
	s.spare.put(c.voxels)
	return nil
}

// run runs the network on a batch and reads the outputs that are wanted.
func (s *Inferer) run(voxels []float32, outputs map[string][]float32) error {
	if err := s.program.Set("image", voxels); err != nil {
		return err
	}
	if err := s.program.Forward(); err != nil {
		return err
	}
	for name, values := range outputs {
		if err := s.program.Read(name, values); err != nil {
			return err
		}
	}
	return nil
}

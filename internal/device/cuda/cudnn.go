//go:build gpu

package cuda

/*
#include <stdlib.h>
#include "cudnn.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

// cuDNN 9, which is optional. It is opened when a choice asks for one of its plans, or when
// somebody measures. The graphs that it is asked to plan are made here; scripts/cudnn plans the
// same ones without a GPU.

// cudnn is the library, opened.
type cudnn struct {
	path    string
	version int
	handle  unsafe.Pointer
	plans   map[string]*C.vs_plan // by convolution, use and name
	checked map[string]error      // by convolution and variant; nil: it is right
	ones    map[int]*Buffer       // for so many channels, see addBias
}

// A libraryError says why the library as a whole is not used.
type libraryError struct{ text string }

func (e *libraryError) Error() string { return e.text }

// cudnnFolders are where cuDNN lies beside where the system's loader looks: patterns.
var cudnnFolders = []string{
	"/usr/local/cuda/lib64", "/usr/local/cudnn/lib*", "/usr/lib/x86_64-linux-gnu",
	"$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cudnn/lib",
	"$CONDA_PREFIX/lib/python3*/site-packages/nvidia/cudnn/lib", "$CONDA_PREFIX/lib",
	"$HOME/.local/lib/python3*/site-packages/nvidia/cudnn/lib", "/usr/local/lib/python3*/*-packages/nvidia/cudnn/lib",
	"/usr/lib/python3/dist-packages/nvidia/cudnn/lib",
	"/opt/conda/lib/python3*/site-packages/nvidia/cudnn/lib",
}

const cudnnLibrary = "libcudnn.so.9"

// loadCuDNN loads the library: the one that is named, or the one that is found. It returns its path
// and its version.
func loadCuDNN(named string) (path string, version int, err error) {
	paths := []string{cudnnLibrary}
	if named != "" {
		paths = []string{named}
	} else {
		for _, folder := range cudnnFolders {
			found, _ := filepath.Glob(filepath.Join(expanded(folder), cudnnLibrary))
			paths = append(paths, found...)
		}
	}
	var message [1024]C.char
	for _, path := range paths {
		name := C.CString(path)
		r := C.vs_cudnn_open(name, &message[0], C.int(len(message)))
		C.free(unsafe.Pointer(name))
		if r == 0 {
			return C.GoString(C.vs_cudnn_file()), int(C.vs_cudnn_version()), loadCompanions()
		}
		err = cmp.Or(err, error(&libraryError{C.GoString(&message[0])}))
	}
	looked := named
	if looked == "" {
		looked = cudnnLibrary +
			" where the system's loader looks (LD_LIBRARY_PATH, /etc/ld.so.conf), in /usr/local/cuda, " +
			"and in Python's folders nvidia/cudnn/lib"
	}
	return "", 0, &libraryError{fmt.Sprintf("looked for %s: %v; install cuDNN 9, or name its library in VOXSAW_CUDNN",
		looked, err)}
}

// loadCompanions loads the libraries that cuDNN itself looks for once it plans. Where it does not
// find them it ends the program, and so they are looked for first: beside it, as Python's packages
// have them, and where the system's loader looks.
func loadCompanions() error {
	major, folder := int(C.vs_cudnn_cuda())/1000, filepath.Dir(C.GoString(C.vs_cudnn_file()))
	if major == 0 {
		return nil
	}
	for _, stem := range []string{"libcublasLt.so", "libnvrtc.so"} {
		name := fmt.Sprintf("%s.%d", stem, major)
		if !slices.ContainsFunc([]string{folder, folder + "/../../cublas/lib", folder + "/../../cuda_nvrtc/lib",
			fmt.Sprintf("%s/../../cu%d/lib", folder, major), ""}, func(in string) bool {
			path := C.CString(filepath.Join(in, name))
			defer C.free(unsafe.Pointer(path))
			return C.vs_cudnn_companion(path) == 0
		}) {
			return &libraryError{fmt.Sprintf("%s wants %s, which is neither beside it nor where the system's loader "+
				"looks: install it, or put its folder into LD_LIBRARY_PATH", folder, name)}
		}
	}
	return nil
}

// expanded is a pattern with the environment's folders; where one is not set, a pattern of nothing.
func expanded(pattern string) string {
	return os.Expand(pattern, func(name string) string { return cmp.Or(os.Getenv(name), "/nonexistent") })
}

// cudnnVersion writes cuDNN's number of a version as people do.
func cudnnVersion(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// openCuDNN opens the library for this device, or says why it cannot be used with it.
func (d *Device) openCuDNN() (*cudnn, error) {
	if d.cudnn != nil || d.cudnnError != nil {
		return d.cudnn, d.cudnnError
	}
	l := &cudnn{plans: map[string]*C.vs_plan{}, checked: map[string]error{}, ones: map[int]*Buffer{}}
	d.cudnnError = func() (err error) {
		if l.path, l.version, err = loadCuDNN(cmp.Or(d.cudnnPath, os.Getenv("VOXSAW_CUDNN"))); err != nil {
			return err
		}
		if why := badLibrary(l.version, d.precision); why != "" {
			return &libraryError{fmt.Sprintf("version %s (%s): %s", cudnnVersion(l.version), l.path, why)}
		}
		if err := check(C.vs_cudnn_create(d.ctx(), d.queue(), &l.handle)); err != nil {
			return &libraryError{fmt.Sprintf("version %s (%s) does not start: %v", cudnnVersion(l.version), l.path,
				err)}
		}
		return nil
	}()
	if d.cudnnError == nil {
		d.cudnn = l
	}
	return d.cudnn, d.cudnnError
}

// Libraries implements [device.Librarian].
func (d *Device) Libraries() []string {
	l, err := d.openCuDNN()
	if err != nil {
		return []string{"cuDNN is not used: " + err.Error()}
	}
	return []string{fmt.Sprintf("cuDNN %s (%s): its plans are used where voxsaw tune has found them to be faster",
		cudnnVersion(l.version), l.path)}
}

// close gives back what cuDNN holds. The context must still be there.
func (l *cudnn) close(d *Device) {
	if l == nil {
		return
	}
	for _, p := range l.plans {
		C.vs_cudnn_free(p)
		C.free(unsafe.Pointer(p))
	}
	d.fail("closing cuDNN", check(C.vs_cudnn_destroy(d.ctx(), l.handle)))
}

// --- Versions that are known to be wrong

// A flaw is a range of versions with a fault that was reported for 3D convolutions.
type flaw struct {
	first, after int // of versions: first <= v < after
	precision    precision
	text         string
}

// flaws of the whole library for a precision. Each has the report that it is known from.
var flaws = []flaw{
	// github.com/pytorch/pytorch issue 163539; PyTorch does not use it since pull request 163581,
	// and uses it again from 9.15 on: pull request 166480, "broken on cuDNN 9.8 - 9.14"
	{90800, 91500, bf16, "3D convolutions in bfloat16 are silently wrong in 9.8 to 9.14 (pytorch issue 163539)"},
	// github.com/pytorch/pytorch pull request 167024: "a broken kernel for 3D conv cases without
	// clearly defined constraints, known to affect 9.10.2-9.15"
	{91002, 91600, tf32, "3D convolutions in TF32 are wrong in 9.10.2 to 9.15 (pytorch pull request 167024)"},
}

// badLibrary says why a version is not used at all, or nothing.
func badLibrary(version int, p precision) string {
	if version < 90000 || version >= 100000 {
		return "it is of another generation: cuDNN 9 is wanted"
	}
	for _, f := range flaws {
		if f.precision == p && version >= f.first && version < f.after {
			return f.text
		}
	}
	return ""
}

// badEngine says why an engine of a version is not used, or nothing.
func badEngine(version int, use planUse, engine int) string {
	// github.com/pytorch/pytorch issue 188288 and pull request 188318; mended in 9.24, pull request
	// 189483. It was seen on sm_86 alone; elsewhere, too, we can do without this engine.
	if version == 92301 && use == useForward && engine == 5 {
		return "this engine of 9.23.1 does not give the same result twice (pytorch issue 188288)"
	}
	return ""
}

// refusedNotes are the notes of engines that are not used: where results depend on the order in
// which blocks run, where sums are not float32, and, for fp32, where products are not.
func refusedNotes(p precision) C.uint {
	refused := C.uint(1<<C.vs_note_nondeterministic | 1<<C.vs_note_reduced)
	if p == fp32 {
		refused |= 1<<C.vs_note_tensor_core | 1<<C.vs_note_down_convert
	}
	return refused
}

// --- Graphs

// planUse is how a plan makes a kernel of a convolution.
type planUse string

const (
	useForward planUse = "forward" // as it is
	// the forward pass as a data gradient with flipped, exchanged weights
	useByData  planUse = "by data"
	useData    planUse = "data"
	useWeights planUse = "weights" // its result in the activations' type
	useExact   planUse = "weights in float32"
	useSlices  planUse = "slices" // of one plane of taps each, such as five of 1x5x5
)

// usesOf lists how cuDNN may make a kernel of a convolution. It is not asked for groups.
func usesOf(s device.ConvSpec, kind device.ConvKind) (uses []planUse) {
	if s.Grouped() {
		return nil
	}
	s, _ = s.Live()
	plain := s.Stride == [3]int{1, 1, 1}
	switch kind {
	case device.ConvForward:
		uses = append(uses, useForward)
		if plain {
			uses = append(uses, useByData)
		}
	case device.ConvTransposed:
		uses = append(uses, useData)
	case device.ConvWeights:
		uses = append(uses, useWeights)
		if s.Type == device.BFloat16 {
			uses = append(uses, useExact)
		}
		// every slice must have planes to read, or its gradient would have to be cleared
		if k, p := s.Kernel[0], s.Pad[0]; plain && k > 1 && k == 2*p+1 && s.Size[0] > p {
			uses = append(uses, useSlices)
		}
	}
	return uses
}

// cudnnType is cuDNN's number of a type.
func cudnnType(t device.Type) C.int {
	if t == device.BFloat16 {
		return 9
	}
	return 0
}

// tensorOf describes a tensor with the channels innermost.
func tensorOf(t device.Type, n, c int, size [3]int) C.vs_tensor {
	area, row := size[1]*size[2]*c, size[2]*c
	to := C.vs_tensor{_type: cudnnType(t), alignment: 16}
	for i, v := range [5]int{n, c, size[0], size[1], size[2]} {
		to.size[i] = C.int64_t(v)
	}
	for i, v := range [5]int{size[0] * area, 1, area, row, c} {
		to.stride[i] = C.int64_t(v)
	}
	return to
}

// graphsOf are the graphs of a use, without taps that reach no voxel: one, or for slices one for
// each distance of a plane of taps from the middle one, which is how many planes it lacks.
func graphsOf(s device.ConvSpec, use planUse) []C.vs_convolution {
	s, _ = s.Live()
	o := s.OutSize()
	g := C.vs_convolution{x: tensorOf(s.Type, s.N, s.In, s.Size), y: tensorOf(s.Type, s.N, s.Out, o),
		w: tensorOf(s.Type, s.Out, s.In, s.Kernel)}
	for i := range 3 {
		g.stride[i], g.pad[i] = C.int64_t(s.Stride[i]), C.int64_t(s.Pad[i])
	}
	switch use {
	case useForward:
		g.operation = C.vs_cudnn_forward
	case useData:
		g.operation = C.vs_cudnn_data
	case useByData:
		g.operation, g.flipped = C.vs_cudnn_data, 1
		g.x, g.y, g.w = g.y, g.x, tensorOf(s.Type, s.In, s.Out, s.Kernel)
		for i := range 3 {
			g.pad[i] = C.int64_t(s.Kernel[i] - 1 - s.Pad[i])
		}
	case useWeights:
		g.operation = C.vs_cudnn_weights
	case useExact:
		g.operation, g.w._type = C.vs_cudnn_weights, cudnnType(device.Float32)
	case useSlices:
		return slicesOf(s, g)
	}
	return []C.vs_convolution{g}
}

// slicesOf are the graphs of slices, from the middle plane of taps outwards.
func slicesOf(s device.ConvSpec, whole C.vs_convolution) (graphs []C.vs_convolution) {
	whole.operation = C.vs_cudnn_weights
	whole.pad[0] = 0
	whole.w = tensorOf(s.Type, s.Out, s.In, [3]int{1, s.Kernel[1], s.Kernel[2]})
	for lacking := range s.Pad[0] + 1 {
		g := whole
		g.x.size[2] -= C.int64_t(lacking)
		g.y.size[2] -= C.int64_t(lacking)
		g.x.alignment, g.y.alignment = alignmentOf(planeBytes(s, s.In)), alignmentOf(planeBytes(s, s.Out))
		graphs = append(graphs, g)
	}
	return graphs
}

// planeBytes is the size of a plane of so many channels.
func planeBytes(s device.ConvSpec, channels int) int64 {
	return int64(s.Size[1]*s.Size[2]*channels) * s.Type.Bytes()
}

// alignmentOf is what divides an offset, up to 16.
func alignmentOf(offset int64) C.int { return C.int(min(16, offset&-offset)) }

// --- Plans

// A planName is a choice of cuDNN: which library planned it, what for, and the engines.
type planName struct {
	version string
	use     planUse
	engines []string // as many as the use has graphs
}

// String is how it stands in files: cuDNN 9.28.0 by data: eng73_k2=4.
func (p planName) String() string {
	return fmt.Sprintf("cuDNN %s %s: %s", p.version, p.use, strings.Join(p.engines, " "))
}

func parsePlan(name string) (p planName, ok bool) {
	text, ok := strings.CutPrefix(name, "cuDNN ")
	if !ok {
		return p, false
	}
	head, engines, ok := strings.Cut(text, ": ")
	version, use, okay := strings.Cut(head, " ")
	return planName{version, planUse(use), strings.Fields(engines)}, ok && okay
}

// proposals is how many plans of each graph are tried: those that cuDNN expects to be fastest.
const proposals = 3

// plansOf asks cuDNN for plans of a graph, at most so many, or for the one with a name.
func (l *cudnn) plansOf(d *Device, g C.vs_convolution, name string, most int) ([]C.vs_plan, error) {
	var wanted *C.char
	if name != "" {
		wanted = C.CString(name)
		defer C.free(unsafe.Pointer(wanted))
	}
	return planGraph(d.ctx(), l.handle, nil, g, wanted, d.precision, most)
}

// planGraph plans for a device, or without one for the properties in JSON.
func planGraph(c C.CUcontext, handle unsafe.Pointer, json *C.char, g C.vs_convolution, wanted *C.char, p precision,
	most int) ([]C.vs_plan, error) {
	plans, count := make([]C.vs_plan, most), C.int(0)
	var message [1024]C.char
	r := C.vs_cudnn_plans(c, handle, json, &g, wanted, refusedNotes(p), &plans[0], C.int(most), &count, &message[0],
		C.int(len(message)))
	if r != 0 || count == 0 {
		return nil, errors.New(cmp.Or(C.GoString(&message[0]), "cuDNN has no such plan"))
	}
	return plans[:count], nil
}

// keep moves a plan to where it stays, and gives the one that is there already.
func (l *cudnn) keep(key string, p C.vs_plan) *C.vs_plan {
	if kept, ok := l.plans[key]; ok {
		C.vs_cudnn_free(&p)
		return kept
	}
	kept := (*C.vs_plan)(C.malloc(C.size_t(unsafe.Sizeof(p))))
	*kept = p
	l.plans[key] = kept
	return kept
}

// planKey names a plan of a graph of a use.
func planKey(s device.ConvSpec, use planUse, graph int, engine string) string {
	return fmt.Sprintf("%s %s %d %s", device.ChoiceKey(s, ""), use, graph, engine)
}

// planned is the variant that a choice names.
func (d *Device) planned(s device.ConvSpec, kind device.ConvKind, name planName) (variant, error) {
	l, err := d.openCuDNN()
	if err != nil {
		return variant{}, err
	}
	if v := cudnnVersion(l.version); v != name.version {
		return variant{},
			&libraryError{fmt.Sprintf("version %s is here (%s), %s was measured: measure again with voxsaw tune", v,
				l.path, name.version)}
	}
	known := false
	for _, u := range usesOf(s, kind) {
		known = known || u == name.use
	}
	graphs := graphsOf(s, name.use)
	if !known || len(graphs) != len(name.engines) {
		return variant{}, fmt.Errorf("this is no plan for such a convolution")
	}
	plans := make([]*C.vs_plan, len(graphs))
	for i, g := range graphs {
		key := planKey(s, name.use, i, name.engines[i])
		if plans[i] = l.plans[key]; plans[i] != nil {
			continue
		}
		list, err := l.plansOf(d, g, name.engines[i], 1)
		if err != nil {
			return variant{}, err
		}
		plans[i] = l.keep(key, list[0])
	}
	return d.planVariant(s, kind, name, plans)
}

// proposed are the variants that cuDNN offers for a kernel of a convolution. It need not have any.
func (d *Device) proposed(s device.ConvSpec, kind device.ConvKind) (list []variant, err error) {
	if _, err := d.openCuDNN(); err != nil {
		return nil, err
	}
	for _, use := range usesOf(s, kind) {
		offers := d.offers(s, use)
		for i := range len(offers[0]) {
			name, plans := planName{cudnnVersion(d.cudnn.version), use, nil}, []*C.vs_plan{}
			for _, o := range offers {
				if i < len(o) {
					name.engines, plans = append(name.engines, C.GoString(&o[i].name[0])), append(plans, o[i])
				}
			}
			if len(plans) < len(offers) {
				break
			}
			v, err := d.planVariant(s, kind, name, plans)
			if err != nil {
				d.refuse(device.ChoiceKey(s, kind), name.String(), err)
				continue
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// offers are the plans of each graph of a use.
func (d *Device) offers(s device.ConvSpec, use planUse) (offers [][]*C.vs_plan) {
	for i, g := range graphsOf(s, use) {
		plans, _ := d.cudnn.plansOf(d, g, "", proposals) // none is no error
		var kept []*C.vs_plan
		for _, p := range plans {
			kept = append(kept, d.cudnn.keep(planKey(s, use, i, C.GoString(&p.name[0])), p))
		}
		offers = append(offers, kept)
	}
	return offers
}

// planVariant is the variant of plans, unless an engine is known to be wrong.
func (d *Device) planVariant(s device.ConvSpec, kind device.ConvKind, name planName, plans []*C.vs_plan) (variant,
	error) {
	for _, p := range plans {
		if why := badEngine(d.cudnn.version, name.use, int(p.engine)); why != "" {
			return variant{}, errors.New(why)
		}
	}
	v := variant{name: name.String()}
	switch kind {
	case device.ConvWeights:
		v.append = func(k *kernel, o convOperands) { k.planGradWeights(s, name.use, plans, o) }
	default:
		ones, err := d.onesFor(s, kind)
		if err != nil {
			return variant{}, err
		}
		v.append = func(k *kernel, o convOperands) { k.planConv(s, name.use, plans[0], ones, o) }
	}
	return v, nil
}

// --- Kernels

// plan appends a plan with its workspace, which is scratch memory as any other.
func (k *kernel) plan(p *C.vs_plan, x, y, w operand) {
	if k.err != nil {
		return
	}
	var workspace operand
	if p.workspace > 0 {
		workspace = k.scratch(int64(p.workspace))
	}
	k.addPlan(C.GoString(&p.name[0]), unsafe.Pointer(p), x, y, w, workspace)
}

// planConv appends a convolution, or its adjoint. The bias is a pass of its own over the result.
func (k *kernel) planConv(s device.ConvSpec, use planUse, p *C.vs_plan, ones *Buffer, o convOperands) {
	pack := forward(s)
	if use == useByData {
		pack = adjoint(s)
	}
	packed := k.packWeights(pack.live(), s.Type, o.b)
	result := s.YShape()
	if use == useForward {
		k.plan(p, o.a, o.to, packed)
	} else {
		k.plan(p, o.to, o.a, packed) // the result is what cuDNN calls x
	}
	if use == useData {
		result = s.XShape()
	}
	if o.bias.kind != nothing {
		k.addBias(device.Tensor{Shape: result, Type: s.Type}, ones, o.to, o.bias)
	}
}

// addBias appends y += bias: the kernel of norms with means of 0, and deviations and gammas of 1.
func (k *kernel) addBias(y device.Tensor, ones *Buffer, to, bias operand) {
	c := k.d.cutOf(y.Shape, y.Type, true)
	a := activationOf(device.ActivateSpec{Shape: y.Shape, Norm: device.BatchNorm, Type: y.Type}, c.channels)
	channels := int64(y.Shape[1])
	statistics := operand{kind: fixed, offset: int64(ones.address)}
	k.launch("activate"+c.suffix, c.grid, ownerThreads, 0, a, to, to, operand{}, statistics, statistics.at(4*channels),
		bias, operand{})
}

// onesFor is constant memory for addBias of a convolution's result: as many zeros as it has
// channels, then as many ones. It is there before a step and stays.
func (d *Device) onesFor(s device.ConvSpec, kind device.ConvKind) (*Buffer, error) {
	channels := s.Out
	if kind == device.ConvTransposed {
		channels = s.In
	}
	if b := d.cudnn.ones[channels]; b != nil {
		return b, nil
	}
	values := make([]float32, 2*channels)
	for i := channels; i < len(values); i++ {
		values[i] = 1
	}
	b, err := d.alloc(4 * int64(len(values)))
	if err != nil {
		return nil, err
	}
	if err := d.up(b.address, values); err != nil {
		return nil, err
	}
	d.cudnn.ones[channels] = b
	return b, nil
}

// planGradWeights appends dw <- x, dy: the plans' results, then turned to the weights' layout and
// type, with zeros for the taps that reach no voxel.
func (k *kernel) planGradWeights(s device.ConvSpec, use planUse, plans []*C.vs_plan, o convOperands) {
	if live, first := s.Live(); live.Kernel != s.Kernel {
		dw := o.to
		o.to = k.scratch(4 * int64(live.WShape().Elements()))
		k.planGradWeights(live, use, plans, o)
		k.sumWeights(weightParts{s.Out * s.In, 1, live.Kernel, s.Kernel, first, allSplits(1)}, dw, o.to)
		return
	}
	result := device.Tensor{Shape: s.WShape(), Type: s.Type}
	switch use {
	case useSlices:
		k.planSlices(s, plans, o)
		return
	case useExact:
		result.Type = device.Float32
	}
	dw := k.scratch(k.d.Size(result))
	k.plan(plans[0], o.a, o.b, dw)
	k.transpose(result, true, o.to, dw)
}

// planSlices appends dw <- x, dy, a plane of taps at a time. Plane t of the taps sees the planes of
// x that lie t - pad further on than those of dy, as far as there are such.
func (k *kernel) planSlices(s device.ConvSpec, plans []*C.vs_plan, o convOperands) {
	slice := device.Tensor{Shape: device.Shape{s.Out, s.In, 1, s.Kernel[1], s.Kernel[2]}, Type: s.Type}
	plane, taps := s.Kernel[1]*s.Kernel[2], s.Kernel[0]*s.Kernel[1]*s.Kernel[2]
	dw, turned := k.scratch(k.d.Size(slice)), k.scratch(4*int64(slice.Shape.Elements()))
	for t := range s.Kernel[0] {
		ahead := t - s.Pad[0]
		x, y := o.a.at(int64(max(0, ahead))*planeBytes(s, s.In)), o.b.at(int64(max(0, -ahead))*planeBytes(s, s.Out))
		k.plan(plans[max(ahead, -ahead)], x, y, dw)
		k.transpose(slice, true, turned, dw)
		c := k.d.cutOf(device.Shape{s.Out * s.In, plane}, device.Float32, false)
		k.launch("copyChannels"+c.suffix, c.grid, ownerThreads, 0, part{c.channels, int32(taps), int32(t * plane),
			int32(plane), 0}, o.to, turned)
	}
}

//go:build gpu

package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The plans of cuDNN on the simulated one: sim/cudnn/cudnn.cc.

// simulatedCuDNN is the library, in the folder of the simulated GPU.
var simulatedCuDNN = sync.OnceValues(func() (string, error) {
	gpu, err := simulator()
	if err != nil {
		return "", err
	}
	library := filepath.Join(filepath.Dir(gpu), "libcudnnsim.so")
	if text, err := exec.Command("sim/cudnn/build.sh", library).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the simulated cuDNN: %w\n%s", err, text)
	}
	return library, nil
})

// openWithCuDNN opens the simulated GPU with the simulated cuDNN.
func openWithCuDNN(t testing.TB, p precision, choices map[string]string) *Device {
	t.Helper()
	library, err := simulatedCuDNN()
	if err != nil {
		t.Fatal(err)
	}
	d := openSimulated(t, p)
	d.cudnnPath, d.choices = library, choices
	return d
}

// planShapes are convolutions for each way to use cuDNN: odd sizes, one channel, strides, taps that
// reach no voxel.
func planShapes(t device.Type) []device.ConvSpec {
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	return []device.ConvSpec{
		{N: 2, In: 3, Out: 5, Size: [3]int{4, 5, 6}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Type: t},
		{N: 1, In: 1, Out: 8, Size: [3]int{3, 4, 4}, Kernel: cube(3), Stride: cube(1), Pad: cube(1), Bias: true,
			Type: t},
		{N: 2, In: 2, Out: 3, Size: [3]int{4, 4, 6}, Kernel: cube(2), Stride: cube(2), Bias: true, Type: t},
		{N: 2, In: 3, Out: 2, Size: [3]int{2, 1, 4}, Kernel: cube(5), Stride: cube(1), Pad: cube(2), Bias: true,
			Type: t},
	}
}

var convKinds = []device.ConvKind{device.ConvForward, device.ConvTransposed, device.ConvWeights}

// usesIn are how candidates use cuDNN, each once.
func usesIn(names []string) (uses []planUse) {
	for _, name := range names {
		if p, ok := parsePlan(name); ok && !slices.Contains(uses, p.use) {
			uses = append(uses, p.use)
		}
	}
	return uses
}

// TestPlans: every plan makes what the convolution on the processor makes, as part of a kernel that
// was chosen by name, at every precision.
func TestPlans(t *testing.T) {
	for _, p := range []precision{bf16, tf32, fp32} {
		choices := map[string]string{}
		d := openWithCuDNN(t, p, choices)
		for _, s := range planShapes(d.Activations()) {
			for _, kind := range convKinds {
				names, err := d.Candidates(s, kind)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := usesIn(names), usesOf(s, kind); !slices.Equal(got, want) {
					t.Fatalf("%s %v %s: cuDNN is used for %q, want %q; refused: %q", p, s, kind, got, want, d.refused)
				}
				for _, name := range names {
					if strings.Contains(name, "eng2") {
						t.Errorf("%s: an engine that says it is not deterministic is a candidate", name)
					}
					choices[device.ChoiceKey(s, kind)] = name
					planned(t, d, s, kind, name)
				}
			}
		}
		inForce, refused := d.Engines()
		if len(inForce) != 3*len(planShapes(d.Activations())) || len(refused) != 0 {
			t.Errorf("%s: in force %q, refused %q", p, inForce, refused)
		}
		d.Close()
	}
}

// planned compares the chosen kernel with the definition.
func planned(t *testing.T, d *Device, s device.ConvSpec, kind device.ConvKind, name string) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	x, y := normals(r, s.XShape().Elements(), 1), normals(r, s.YShape().Elements(), 1)
	w, bias := normals(r, s.WShape().Elements(), 0.3), normals(r, max(s.In, s.Out), 1)
	var got, want []float32
	if kind == device.ConvWeights {
		k, err := d.ConvGradWeights(s)
		dw := onGPU(t, d, 4*int64(len(w)), nil)
		run(t, d, k, err, []device.Buffer{dw}, []device.Buffer{activations(t, d, s.XShape(), x),
			activations(t, d, s.YShape(), y)})
		got = make([]float32, len(w))
		if err := d.DownloadWeights(got, dw, s.WShape(), 0); err != nil {
			t.Fatal(err)
		}
		want = gradWeightsOf(s, x, y)
	} else {
		from, to, values, channels, make1 := s.XShape(), s.YShape(), x, s.Out, d.Conv
		if kind == device.ConvTransposed {
			from, to, values, channels, make1 = to, from, y, s.In, d.ConvTransposed
		}
		in := []device.Buffer{activations(t, d, from, values), onGPU(t, d, 4*int64(len(w)), w)}
		var b []float32
		if s.Bias {
			b = bias[:channels]
			in = append(in, onGPU(t, d, 4*int64(channels), b))
		}
		k, err := make1(s)
		result := activations(t, d, to, nil)
		run(t, d, k, err, []device.Buffer{result}, in)
		got = downloaded(t, d, result, device.Tensor{Shape: to, Type: s.Type})
		want = referenceConv(t, s, kind == device.ConvTransposed, values, w, b)
	}
	if e, most := distance(got, want), closeEnough[d.precision].all; !(e <= most) {
		t.Errorf("%s %v, %s, %s: relative error %.2g, want at most %g", d.precision, s, kind, name, e, most)
	}
}

// gradWeightsOf is the definition of the gradient of the weights.
func gradWeightsOf(s device.ConvSpec, x, dy []float32) []float32 {
	o, k := s.OutSize(), s.Kernel
	dw := make([]float32, s.WShape().Elements())
	at := 0
	for out := range s.Out {
		for in := range s.In {
			for tap := range k[0] * k[1] * k[2] {
				t := [3]int{tap / (k[1] * k[2]), tap / k[2] % k[1], tap % k[2]}
				var sum float64
				for n := range s.N {
					for v := range o[0] * o[1] * o[2] {
						p, from, inside := [3]int{v / (o[1] * o[2]), v / o[2] % o[1], v % o[2]}, 0, true
						for i := range 3 {
							q := p[i]*s.Stride[i] + t[i] - s.Pad[i]
							inside = inside && q >= 0 && q < s.Size[i]
							from = from*s.Size[i] + q
						}
						if inside {
							sum += float64(x[(n*s.In+in)*s.XShape().Voxels()+
								from]) * float64(dy[(n*s.Out+out)*s.YShape().Voxels()+v])
						}
					}
				}
				dw[at] = float32(sum)
				at++
			}
		}
	}
	return dw
}

// TestRefusedPlans plants faults in the simulated library: the choice is refused, with the reason,
// and our own kernel gives the bits that it gives without cuDNN.
func TestRefusedPlans(t *testing.T) {
	s := planShapes(device.BFloat16)[0]
	key := device.ChoiceKey(s, device.ConvForward)
	const chosen = "cuDNN 9.28.0 by data: eng1_k2=5"
	for fault, want := range map[string]string{
		"":              "",
		"wrong":         "it is wrong: on random numbers it differs from our kernel by",
		"partial":       "it is wrong: on random numbers it differs from our kernel by",
		"unsteady":      "it does not give the same result twice",
		"fails":         "CUDNN_STATUS_EXECUTION_FAILED: planted",
		"unplanned":     "CUDNN_STATUS_NOT_SUPPORTED: planted",
		"uncapturable":  "it cannot be part of a CUDA graph",
		"handle":        "version 9.28.0 (",
		"companions":    "wants libcublasLt.so.99, which is neither beside it nor",
		"version=90900": "3D convolutions in bfloat16 are silently wrong in 9.8 to 9.14",
		"version=92900": "version 9.29.0 is here",
		"version=80907": "cuDNN 9 is wanted",
	} {
		t.Setenv("VOXSAW_SIM_CUDNN", fault)
		d := openWithCuDNN(t, bf16, map[string]string{key: chosen})
		planned(t, d, s, device.ConvForward, fault)
		inForce, refused := d.Engines()
		if want == "" {
			if !slices.Equal(inForce, []string{key + " = " + chosen}) || refused != nil {
				t.Errorf("without a fault: in force %q, refused %q", inForce, refused)
			}
			continue
		}
		if len(inForce) != 0 || len(refused) != 1 || !strings.Contains(refused[0], want) {
			t.Errorf("%s: in force %q, refused %q; want none and %q", fault, inForce, refused, want)
		}
		d.Close()
	}
}

// TestNoCuDNN: where the library is missing, that is said once, with where it was looked for,
// however many choices want it.
func TestNoCuDNN(t *testing.T) {
	choices := map[string]string{}
	for _, s := range planShapes(device.BFloat16) {
		for _, kind := range convKinds {
			choices[device.ChoiceKey(s, kind)] = fmt.Sprintf("cuDNN 9.28.0 %s: eng0", usesOf(s, kind)[0])
		}
	}
	d := openSimulated(t, bf16)
	d.cudnnPath, d.choices = "/nowhere/libcudnn.so.9", choices
	for _, s := range planShapes(device.BFloat16) {
		for _, kind := range convKinds {
			planned(t, d, s, kind, "our own")
		}
	}
	if inForce, refused := d.Engines(); len(inForce) != 0 || len(refused) != 1 ||
		!strings.Contains(refused[0], "looked for /nowhere/libcudnn.so.9") {
		t.Errorf("in force %q, refused %q", inForce, refused)
	}
	if said := d.Libraries(); len(said) != 1 || !strings.Contains(said[0], "cuDNN is not used: looked for /nowhere") {
		t.Errorf("libraries: %q", said)
	}
}

// TestUnknownVariant: a choice that is no algorithm is an error that says what there is.
func TestUnknownVariant(t *testing.T) {
	s := planShapes(device.BFloat16)[0]
	d := openWithCuDNN(t, bf16, map[string]string{device.ChoiceKey(s, device.ConvForward): "Winograd"})
	if _, err := d.Conv(s); err == nil ||
		!strings.Contains(err.Error(),
			`"Winograd", which is none of its algorithms here (gathered, cuDNN 9.28.0 forward: eng0`) {
		t.Errorf("got %v", err)
	}
}

// TestBadVersions holds the table of flaws to the reports that it is made of.
func TestBadVersions(t *testing.T) {
	for _, c := range []struct {
		version int
		p       precision
		bad     bool
	}{
		{90701, bf16, false}, {90800, bf16, true}, {91002, bf16, true}, {91400, bf16, true}, {91500, bf16, false},
		{92800, bf16, false},
		{90900, tf32, false}, {91001, tf32, false}, {91002, tf32, true}, {91501, tf32, true}, {91600, tf32, false},
		{90900, fp32, false}, {91300, fp32, false}, {80907, fp32, true}, {100000, bf16, true},
	} {
		if why := badLibrary(c.version, c.p); (why != "") != c.bad {
			t.Errorf("version %d, %s: %q", c.version, c.p, why)
		}
	}
	if badEngine(92301, useForward, 5) == "" || badEngine(92301, useData, 5) != "" ||
		badEngine(92400, useForward, 5) != "" {
		t.Error("engine 5 of 9.23.1")
	}
	if refusedNotes(bf16) != 1<<4|1<<2 || refusedNotes(fp32) != 1<<4|1<<2|1<<1|1<<0 {
		t.Error("notes of engines")
	}
}

// TestPlansAreFreed: the checks give back what they took.
func TestPlansAreFreed(t *testing.T) {
	s := planShapes(device.BFloat16)[0]
	d := openWithCuDNN(t, bf16, nil)
	if _, err := d.Candidates(s, device.ConvWeights); err != nil {
		t.Fatal(err)
	}
	before, _, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range convKinds {
		if _, err := d.Candidates(s, kind); err != nil {
			t.Fatal(err)
		}
	}
	after, _, err := d.Memory()
	if most := int64(2 * 4 * (s.In + s.Out)); err != nil || before-after > most {
		t.Errorf("%d bytes fewer are free, %d may be (the constants of a bias); %v", before-after, most, err)
	}
	if os.Getenv("VOXSAW_SIM_CUDNN") != "" {
		t.Error("a fault is planted")
	}
}

package cpu

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/asmtest"
)

// TestGenerated runs the generators again: what is checked in must be what they make.
func TestGenerated(t *testing.T) {
	asmtest.Generated(t, "./asm", "cpu", "kernels_amd64.s", "kernels_amd64.go", "tables_amd64.go")
	asmtest.Generated(t, "./asm/lanes", "cpu", "lanes_kernels_amd64.s", "lanes_kernels_amd64.go",
		"lanes_tables_amd64.go")
	asmtest.Generated(t, "./asm", "cpu", "kernels_arm64.s", "kernels_arm64.go", "tables_arm64.go")
	asmtest.Generated(t, "./asm/lanes", "cpu", "lanes_kernels_arm64.s", "lanes_kernels_arm64.go",
		"lanes_tables_arm64.go")
}

// TestARM64Registers: R18 is the system's on macOS and Windows, R16 and R17 the linker's, R27 and
// R28 Go's, R29 and R30 frame and link.
func TestARM64Registers(t *testing.T) {
	reserved := regexp.MustCompile(`\bR(1[678]|2[789]|3\d)\b`)
	for _, file := range []string{"kernels_arm64.s", "lanes_kernels_arm64.s"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if r := reserved.FindString(line); r != "" {
				t.Errorf("%s:%d uses %s: %s", file, i+1, r, line)
			}
		}
	}
}

// TestAVX2Registers: the assembler's register allocator does not know that AVX2 ends at register
// 15, and the machine that generates has more.
func TestAVX2Registers(t *testing.T) {
	high := regexp.MustCompile(`\b(Z\d+|K\d|[XY](1[6-9]|2\d|3[01]))\b`)
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly found: %v", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range strings.Split(string(source), "\nTEXT ·")[1:] {
			name, body, _ := strings.Cut(function, "(SB)")
			if strings.HasSuffix(name, "AVX2") && high.MatchString(body) {
				t.Errorf("%s: %s uses %s, which AVX2 does not have", file, name, high.FindString(body))
			}
		}
	}
}

// TestExp: the exponential of every table, within 2 units in the last place of the true one, and
// its ends.
func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		x := -100 * r.Float32() * r.Float32()
		want := math.Exp(float64(x))
		if err := math.Abs(float64(exp(x)) - want); err > 2.5e-7*want && want > 1.2e-38 {
			t.Fatalf("exp(%v) = %v, want %v", x, exp(x), want)
		}
	}
	for x, want := range map[float32]float32{0: 1, -200: 0, float32(math.Inf(-1)): 0, 200: float32(math.Inf(1))} {
		if exp(x) != want {
			t.Errorf("exp(%v) = %v, want %v", x, exp(x), want)
		}
	}
	if x := exp(float32(math.NaN())); x == x {
		t.Errorf("exp(NaN) = %v", x)
	}
	everyDevice(t, func(t *testing.T, c *CPU) {
		lanes := lanesOf(c.kernels.name)
		p := actParams{}
		for i := range p.scale {
			p.scale[i] = 1
		}
		x, y := make([]float32, 1<<16), make([]float32, 1<<16)
		for i := range x {
			x[i] = -110 * r.Float32() * r.Float32()
		}
		x[0], x[1], x[2], x[3] = float32(math.NaN()), 1000, -1e30, float32(math.Inf(-1))
		lanes.activate[1][0](y, x, nil, &p, 0)
		if y[0] == y[0] || y[1] != 1000 || y[2] != -1 || y[3] != -1 {
			t.Errorf("ELU of NaN, 1000, -1e30, -Inf: %v", y[:4])
		}
		for i := 4; i < len(x); i++ {
			if want := math.Expm1(float64(x[i])); math.Abs(float64(y[i])-want) > 2e-7 {
				t.Fatalf("ELU(%v) = %v, want %v", x[i], y[i], want)
			}
		}
	})
}

// TestStreamed: a result that is stored past the caches is the same to the bit.
func TestStreamed(t *testing.T) {
	const voxels, classes = 48, 21 // two blocks
	r := rand.New(rand.NewPCG(2, 2))
	values := func(n int) Slice {
		s := alignedSlice(n)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return s
	}
	n := 2 * voxels * block
	x, y, z, slopes := values(n), values(n), values(n), values(1+2*classes)
	for v := range voxels { // lanes that are no class are zero
		clear(x[(voxels+v)*block+classes-block : (voxels+v+1)*block])
		clear(y[(voxels+v)*block+classes-block : (voxels+v+1)*block])
	}
	target, rows, sums := values(voxels), alignedSlice(2*classRows(classes)), alignedSlice(classes*block)
	for i := range target {
		target[i] = float32(r.IntN(classes+1) - 1)
	}
	var p actParams
	var m mixParams
	for _, v := range []*[block]float32{&p.mean, &p.scale, &p.shift, &p.residual, &p.slope, &m.a, &m.b, &m.c, &m.mean} {
		copy(v[:], values(block))
	}
	everyDevice(t, func(t *testing.T, c *CPU) {
		k := lanesOf(c.kernels.name)
		same := func(name string, run func(out Slice, stream bool)) {
			plain, streamed := alignedSlice(n), alignedSlice(n)
			run(plain, false)
			run(streamed, true)
			for i := range plain {
				if math.Float32bits(plain[i]) != math.Float32bits(streamed[i]) {
					t.Fatalf("%s: element %d is %v, past the caches %v", name, i, plain[i], streamed[i])
				}
			}
		}
		for elu := range 2 {
			for residual := range 3 {
				same("activate", func(out Slice, stream bool) { k.runActivate(elu, residual, out, x, z, &p, stream) })
				same(
					"gradient",
					func(out Slice, stream bool) { k.runGradient(elu, residual, out, y, x, z, &p, &actSums{}, stream) },
				)
			}
		}
		same("mix", func(out Slice, stream bool) { k.runMix(out, y, x, &m, &[block]float32{}, stream) })
		same(
			"softmax",
			func(out Slice, stream bool) { k.runSoftmax(out, x, voxels, classes, voxels*block, rows, stream) },
		)
		same("softmaxGrad", func(out Slice, stream bool) {
			clear(rows)
			k.runSoftmaxGrad(out, x, y, voxels, classes, voxels*block, rows, stream)
		})
		same("lossGrad", func(out Slice, stream bool) {
			clear(rows)
			k.runLossGrad(out, x, target, classes, voxels*block, rows, slopes, sums, stream)
		})
	})
}

// TestSpecialValues: what activations and their gradients make of NaN, infinities and the ends of
// float32 is what PyTorch 1.13 makes of them, but for the ReLU of -Inf, which is 0 there:
//
//	x = torch.tensor([nan, inf, -inf, 0, -1e38, 1e38, -100, 100, -3, 5], requires_grad=True)
//	y = torch.relu(x)  # or F.prelu(x.view(1, 1, -1), torch.tensor([0.25])), F.elu(x)
//	y.sum().backward(); print(y, x.grad)
//
// The gradient of PyTorch's ReLU is 1 at NaN; here it is 0, as that of PReLU is its slope.
func TestSpecialValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{nan, inf, -inf, 0, -1e38, 1e38, -100, 100, -3, 5}
	x, dy := alignedSlice(3*block), alignedSlice(3*block)
	for i := range x {
		x[i], dy[i] = special[i%len(special)], 1
	}
	for name, want := range map[string]struct {
		elu             int
		slope           float32
		value, gradient []float32
	}{
		"ReLU": {0, 0, []float32{nan, inf, nan, 0, 0, 1e38, 0, 100, 0, 5}, []float32{0, 1, 0, 0, 0, 1, 0, 1, 0, 1}},
		"PReLU": {0, 0.25, []float32{nan, inf, -inf, 0, -2.5e37, 1e38, -25, 100, -0.75, 5},
			[]float32{0.25, 1, 0.25, 0.25, 0.25, 1, 0.25, 1, 0.25, 1}},
		"ELU": {1, 0, []float32{nan, inf, -1, 0, -1, 1e38, -1, 100, -0.950213, 5},
			[]float32{nan, 1, 0, 1, 0, 1, 0, 1, 0.049787067, 1}},
	} {
		var p actParams
		for i := range block {
			p.scale[i], p.slope[i] = 1, want.slope
		}
		everyDevice(t, func(t *testing.T, c *CPU) {
			k := lanesOf(c.kernels.name)
			y, dz := alignedSlice(len(x)), alignedSlice(len(x))
			k.runActivate(want.elu, 0, y, x, nil, &p, false)
			k.runGradient(want.elu, 0, dz, dy, x, nil, &p, &actSums{}, false)
			near := func(a, b float32) bool { return a == b || a != a && b != b || math.Abs(float64(a-b)) < 1e-6 }
			for i := range x {
				if j := i % len(special); !near(y[i], want.value[j]) || !near(dz[i], want.gradient[j]) {
					t.Errorf("%s of %v: %v, gradient %v; want %v, %v", name, x[i], y[i], dz[i], want.value[j],
						want.gradient[j])
				}
			}
		})
	}
}

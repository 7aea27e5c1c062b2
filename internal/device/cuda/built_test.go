//go:build gpu

package cuda

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/childtest"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// What the compiled kernels may be made of.

// emulated are the PTX instructions that the simulated GPU knows: those of one thread, loads and
// stores, and, of what threads do together or what comes later, the few of sim/intrinsics.h. There
// are no atomic operations: no sum may depend on the order in which blocks run.
var emulated = regexp.MustCompile(
	`^((abs|add|and|bfi|cvt|cvta|div|ex2|fma|mad|max|min|mov|mul|neg|not|or|prmt|rcp|rem|rsqrt|selp|setp|shl|shr|sqrt|sub|xor)(\.[a-z0-9]+)+` +
		`|bra(\.uni)?|ret|(ld|st)\.(param|local|shared|global)(\.v[24])?\.[bfsu](16|32|64)` +
		`|bar\.sync|bar\.warp\.sync|shfl\.sync\.(bfly|idx)\.b32` +
		`|cp\.async\.(cg\.shared\.global|commit_group|wait_group)` +
		`|ldmatrix\.sync\.aligned\.m8n8\.(x4(\.trans)?|x2\.trans)\.shared\.b16` +
		`|fence\.proxy\.async\.shared::cta` +
		`|wgmma\.((fence|commit_group|wait_group)\.sync\.aligned|mma_async\.sync\.aligned\.m64n(32|64|96|160)k16\.f32\.bf16\.bf16)` +
		`|mma\.sync\.aligned\.(m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32|m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32))$`,
)

// instruction is a PTX instruction in a line: after a brace or a predicate, if there is one.
var instruction = regexp.MustCompile(`^[{\s]*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)*)[\s;]`)

// foreign are the instructions of a PTX text that the simulated GPU does not know, each once, and
// how many it does.
func foreign(ptx string) (names []string, known int) {
	for line := range strings.Lines(ptx) {
		m := instruction.FindStringSubmatch(line)
		switch {
		case m == nil:
		case emulated.MatchString(m[1]):
			known++
		case !slices.Contains(names, m[1]):
			names = append(names, m[1])
		}
	}
	return names, known
}

// TestInstructions: the kernels use no instruction that the simulated GPU does not emulate, so that
// what it shows is of what a GPU runs.
func TestInstructions(t *testing.T) {
	ptx, err := readBuilt("kernels.ptx")
	if err != nil {
		t.Fatal(err)
	}
	if names, known := foreign(string(ptx)); len(names) > 0 || known < 10000 {
		t.Errorf("%d instructions are emulated on the simulated GPU, these are not: %q", known, names)
	}
	// What the code for compute capability 9.0 is made of beside that.
	text, err := os.ReadFile("kernels/built/instructions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(text)) {
		if !emulated.MatchString(name) {
			t.Errorf("%s is not emulated on the simulated GPU", name)
		}
	}
	const others = "atom.global.add.f32 red.shared.add.u32 vote.sync.ballot.b32 shfl.sync.down.b32 " +
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 mbarrier.init.shared.b64 cp.async.bulk.commit_group " +
		"ld.volatile.global.f32 membar.gl mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
	for _, name := range strings.Fields(others) {
		if names, _ := foreign("\t@%p1 " + name + " \t%f1, [%rd1];\n"); !slices.Equal(names, []string{name}) {
			t.Errorf("%s is taken for one that is emulated", name)
		}
	}
}

// TestSharedMemory: all shared memory of a kernel is what its launch asks for, and a launch that
// asks for more than the GPU has is refused.
func TestSharedMemory(t *testing.T) {
	text, err := os.ReadFile("kernels/built/resources.json")
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]struct{ Shared *int }
	if err := json.Unmarshal(text, &found); err != nil || len(found) == 0 {
		t.Fatalf("%d kernels, %v", len(found), err)
	}
	for name, r := range found {
		if r.Shared == nil || *r.Shared != 0 {
			t.Errorf("kernel %s has shared memory of its own, beside what its launch asks for", name)
		}
	}
	d := openSimulated(t, bf16)
	if d.sharedMost != 227<<10 {
		t.Fatalf("a block may have %d bytes, want those of a Hopper", d.sharedMost)
	}
	for bytes, refused := range map[int]bool{227 << 10: false, 227<<10 + 1: true} {
		k := d.newKernel()
		k.launch("sumTiles", grid{1, 1, 1}, 256, bytes, struct{}{})
		if (k.err != nil) != refused || refused && !strings.Contains(k.err.Error(),
			"kernel sumTiles: a block needs 232449 bytes of shared memory, simulated GPU allows 232448") {
			t.Errorf("%d bytes: %v", bytes, k.err)
		}
	}
}

// TestSmallerGPU: convolutions fit GPUs that allow a block 99 KiB of shared memory, as those of
// compute capability 8.6 and 8.9 do.
func TestSmallerGPU(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	library, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	c := suite(library, bf16, 1, "^TestDevice$/^Conv$")
	c.Env = append(c.Env, "VOXSAW_SIM_SHARED=101376")
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: TestDevice/Conv") {
		t.Errorf("%v:\n%s", err, failures(string(text)))
	}
	childtest.ShowSkips(t, string(text))
}

// TestMachineCode: each GPU gets the code of its generation.
func TestMachineCode(t *testing.T) {
	for capability, want := range map[[2]int]string{{8, 0}: "sm_80.cubin", {8, 6}: "sm_86.cubin", {8, 7}: "sm_86.cubin",
		{8, 9}: "sm_89.cubin", {9, 0}: "sm_90a.cubin", {10, 0}: "kernels.ptx", {12, 0}: "kernels.ptx"} {
		got := imageFor(capability[0], capability[1])
		if got != want {
			t.Errorf("compute capability %v gets %s, want %s", capability, got, want)
		}
		if image, err := readBuilt(got); err != nil || len(image) == 0 {
			t.Errorf("%s: %d bytes, %v", got, len(image), err)
		}
	}
}

//go:build gpu

package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// A fault is an edit of a kernel that makes it wrong, often only by luck: the suite on the
// simulated GPU must notice each, with one of three seeds. One that is not noticed says that the
// simulator, or the suite, has become blind.
type fault struct {
	what, file, old, new string
	precision            precision
	tests                string // of the suite, or a test of its own
}

// rowsFault are convolutions whose weights' gradient is made row by row: of several images, of
// several columns of strips, of rows in several stages.
const rowsFault = "Conv$/(5x32-32@.4.*|1x32-32@.8.*|9x32-32@.*)"

// oneFault is a convolution of one channel, several tiles of which a block makes where there are
// few multiprocessors.
const oneFault = "Conv$/1x1-20@.*"

// groupsFault are convolutions that are made by products of four warps: of neighbours in a row, of
// several images, of several stages of x.
const groupsFault = "Conv$/(2x32-32@.9.*|9x32-64@.*|2x64-32@.*|1x32-32@.2_20.*)"

// groupWeightsFault are gradients of weights by products of four warps, which no shape asks for.
const groupWeightsFault = "TestGroupWeights"

var faults = []fault{
	{"no barrier when a stage has arrived", "conv.cu",
		"    barrier(); // stage c is there, and nobody reads the one before it any more\n", "", tf32, "Conv"},
	{"no wait for a stage", "conv.cu", "    waitAsync<convStages - 2>();\n", "", tf32, "Conv"},
	{"a wait for one stage too few", "conv.cu", "waitAsync<convStages - 2>();", "waitAsync<convStages - 1>();", bf16,
		"Conv"},
	{"no barrier before the stages are written over", "conv.cu", "  waitAsync<0>();\n  barrier();\n  float *out",
		"  waitAsync<0>();\n  float *out", tf32, "Conv"},
	{"a stage is fetched to where one is read", "conv.cu", "fetch((c + convStages - 1) % convStages)",
		"fetch((c + convStages) % convStages)", bf16, "Conv"},
	{"a halo that is not masked", "conv.cu", "if (z < 0 || z >= a.from[0] ||", "if (z >= a.from[0] ||", fp32, "Conv"},
	{"weights past the last row", "conv.cu", "if (o >= a.out || c.tap", "if (c.tap", fp32, "Conv"},
	{"a wrong lane for the left matrix", "product.h", "16 * m + lane % 16) * convPitch",
		"16 * m + lane / 2) * convPitch", tf32, "Conv"},
	{"a wrong phase of an adjoint", "conv.cu", "s, 1, (phase + a.pad[i] - first) / s", "s, 1, 0", fp32, "Conv"},
	{"five products shifted by one too few", "conv5.cu", "at[m][half] + 2 - kx", "at[m][half] + 1 - kx", bf16, "Conv"},
	{"no barrier between the shifts", "conv5.cu", "  for (int kx = 0; kx < 5; kx++) {\n    barrier();\n",
		"  for (int kx = 0; kx < 5; kx++) {\n", bf16, "Conv"},
	{"no barrier when a plane has arrived", "conv5.cu",
		"    barrier(); // the stage is there, and nobody reads the one before it any more\n", "", bf16, "Conv"},
	{"a barrier in a branch", "conv5.cu", "    barrier(); // the stage",
		"    if (warp || stage) barrier(); // the stage", bf16, "Conv"},
	{"rows above the image", "conv5.cu", "there = v >= low && v < high;", "there = v < high;", bf16, "Conv"},
	{"a plane outside that is not left out", "conv5.cu", "end = min(D, z0 + 3)", "end = z0 + 3", bf16, "Conv"},
	{"no wait for a plane", "conv5.cu", "    waitAsync<0>();\n    barrier(); // the stage",
		"    barrier(); // the stage", bf16, "Conv"},
	{"no wait for a tile of one channel", "conv5.cu", "    waitAsync<0>();\n    barrier(); // the tile",
		"    barrier(); // the tile", bf16, oneFault},
	{"no barrier when a tile of one channel has arrived", "conv5.cu",
		"    barrier(); // the tile is there, and nobody reads the one before it any more\n", "", bf16, oneFault},
	{"a tile of one channel is fetched to where one is read", "conv5.cu", "fetch(stage ^ 1, t + gridDim.x)",
		"fetch(stage, t + gridDim.x)", bf16, oneFault},
	{"no barrier when weights have arrived", "conv5.cu", "w[first * 125 + i] : 0;\n  barrier();\n",
		"w[first * 125 + i] : 0;\n", bf16, oneFault},
	{"the wrong taps of odd voxels", "conv5.cu", "kx = 2 * pair - odd", "kx = 2 * pair", bf16, oneFault},
	{"a sixteenth pair with a weight", "conv5.cu", "none || kx < 0", "kx < 0", bf16, oneFault},
	{"rows of one channel above the image", "conv5.cu", "* 32, max(0, 2 - y0),", "* 32, 0,", bf16, oneFault},
	{"a plane of one channel outside that is read", "conv5.cu", "inside = z >= 0 && z < D", "inside = z < D", bf16,
		oneFault},
	{"a row of sums that begins with another one's", "conv5.cu", "        begin(made);\n", "", bf16, oneFault},
	{"voxels right of the image", "conv5.cu", "live && voxel + 16 < W", "live", bf16, oneFault},
	{"moments of the tile that is being made", "conv5.cu", "if (moments && last >= 0) leave(stage ^ 1, last);",
		"if (moments && last >= 0) leave(stage, last);", bf16, "Activate/after_a_convolution/1_to_16.*"},
	{"no barrier before the last moments", "conv5.cu", "  barrier();\n  if (moments) leave", "  if (moments) leave",
		bf16,
		"Activate/after_a_convolution/1_to_16.*"},
	{"no barrier when a stage of weights has arrived", "conv_groups.cu",
		"      barrier(); // this stage is there, and nobody multiplies the one before the last any more\n", "", bf16,
		groupsFault},
	{"no wait for a stage of weights", "conv_groups.cu",
		"      if (early == 2)\n        waitAsync<1>();\n      else\n        waitAsync<0>();\n", "", bf16, groupsFault},
	{"products read what they may not see yet", "conv_groups.cu", "      fenceProducts();\n", "", bf16, groupsFault},
	{"no wait for products", "conv_groups.cu", "      waitProducts<1>();\n", "", bf16, groupsFault},
	{"no wait for the last products", "conv_groups.cu", "    waitProducts<0>();\n  };", "    waitProducts<1>();\n  };",
		bf16, groupsFault},
	{"weights are fetched to where some are read", "conv_groups.cu",
		"ring + early < a.ring ? ring + early : ring + early - a.ring", "ring", bf16, groupsFault},
	{"a plane of x is fetched to where one is read", "conv_groups.cu", "fetchX(stage ^ 1, next", "fetchX(stage, next",
		bf16, groupsFault},
	{"a row above the image", "conv_groups.cu", "c.image + image < a.images && yy >= 0 && yy < H",
		"c.image + image < a.images && yy < H", bf16, groupsFault},
	{"a plane of x that reaches no image", "conv_groups.cu", "c.s = max(0, K / 2 - c.z)", "c.s = 0", bf16, groupsFault},
	{"pieces of x a row too far apart", "conv_groups.cu", "a.inner > 1 ? 128 : 16 * across)",
		"a.inner > 1 ? 128 : 16 * across + 16)", bf16, groupsFault},
	{"the second plane has the first one's weights", "conv_groups.cu", "kz = min(s, K - 1) - e / 512",
		"kz = min(s, K - 1)", bf16, groupsFault},
	{"a third plane", "conv_groups.cu", "      if (c.z + h >= D) break;\n", "", bf16, groupsFault},
	{"a table made over the one in use", "conv_groups.cu", "makeTable(next, tables ^= 1)", "makeTable(next, tables)",
		bf16, groupsFault},
	{"no barrier before moments of warps are merged", "conv_groups.cu", "counts[warp] = count;\n    barrier();\n",
		"counts[warp] = count;\n", bf16, "Activate$/after.*"},
	{"no wait for voxels", "conv_weights.cu", "    waitAsync<weightsStages - 2>();\n", "", bf16, "Conv"},
	{"voxels past the split", "conv_weights.cu", "min(a.voxels, begin + a.perSplit)", "begin + a.perSplit + 32", bf16,
		"Conv"},
	{"a wrong matrix for the right side", "conv_weights.cu",
		"right + (v + lane / 8 % 2 * 8 + lane % 8) * pr + 2 * (column + 8 * t + lane / 16 * 8)",
		"right + (v + lane / 16 * 8 + lane % 8) * pr + 2 * (column + 8 * t + lane / 8 % 2 * 8)", bf16, "Conv"},
	{"a split left out", "conv_weights.cu", "for (; s < splits; s += 2)", "for (; s < splits - 1; s += 2)", fp32,
		"Conv"},
	{"no barrier before parts are turned round", "conv_weights.cu",
		"  barrier();\n  for (int i = threadIdx.x; i < a.tile * a.piece",
		"  for (int i = threadIdx.x; i < a.tile * a.piece", bf16, rowsFault},
	{"no wait for rows", "rows_weights.cu", "    waitAsync<rowsAhead - 1>();\n", "", bf16, rowsFault},
	{"no barrier when rows have arrived", "rows_weights.cu",
		"    barrier(); // the stage is there, and nobody reads the one any more that is fetched over\n", "", bf16,
		rowsFault},
	{"rows are fetched to where some are read", "rows_weights.cu", "if (early) fetch(after);",
		"if (early) fetch(stage);",
		bf16, rowsFault},
	{"no barrier before the list of voxels is read", "rows_weights.cu", "  barrier(); // the list of voxels is there\n",
		"", bf16, rowsFault},
	{"a column of x past the image", "rows_weights.cu", "if (c + kx >= low && c + kx < high)", "if (c + kx >= low)",
		bf16,
		rowsFault},
	{"a column of x outside that is fetched", "rows_weights.cu", "&& w >= 0 && w < W", "&& w < W", bf16, rowsFault},
	{"a row that meets none", "rows_weights.cu", "max(now.low, far)", "now.low", bf16, rowsFault},
	{"planes of another image", "rows_weights.cu", "pair + image * away + planes", "pair + planes", bf16, rowsFault},
	{"pairs of planes past the last image", "rows_weights.cu", "pair < pairs && y", "y", bf16, rowsFault},
	{"a second bundle with the rows of the first", "rows_weights.cu", "(a.bundles > 1 ? other * bundle : 0)", "0", bf16,
		rowsFault},
	{"no wait for rows of four warps", "group_weights.cu",
		"    if (early == 1)\n      waitAsync<0>();\n    else if (early == 2)\n" +
			"      waitAsync<1>();\n    else\n      waitAsync<2>();\n",
		"", bf16, groupWeightsFault},
	{"products read rows that they may not see yet", "group_weights.cu",
		"    fenceProducts();\n",
		"", bf16, groupWeightsFault},
	{"no barrier when rows of four warps have arrived", "group_weights.cu",
		"    barrier(); // this stage is there, and nobody multiplies the one before the last any more\n",
		"", bf16, groupWeightsFault},
	{"no wait for products of weights", "group_weights.cu",
		"      waitProducts<1>();\n",
		"", bf16, groupWeightsFault},
	{"no wait for the last products of weights", "group_weights.cu",
		"  waitProducts<0>();\n",
		"", bf16, groupWeightsFault},
	{"rows are fetched to where some are multiplied", "group_weights.cu",
		"stage + early < a.ring ? stage + early : stage + early - a.ring",
		"stage", bf16, groupWeightsFault},
	{"a row of dy above the image", "group_weights.cu",
		"p >= 0 && y >= 0 && y < H && w < W",
		"p >= 0 && y < H && w < W", bf16, groupWeightsFault},
	{"a column of x left of the image", "group_weights.cu",
		"y < H && w >= 0 && w < W",
		"y < H && w < W", bf16, groupWeightsFault},
	{"a copy of x that is not shifted", "group_weights.cu",
		"parts * groupX - 1",
		"parts * groupX", bf16, groupWeightsFault},
	{"the plane of x that dy lies in", "group_weights.cu",
		"(p + shift) * H",
		"p * H", bf16, groupWeightsFault},
	{"a second slab with the rows above of the first", "group_weights.cu",
		"? 0 : between",
		"? 0 : 0", bf16, groupWeightsFault},
	{"taps upside down", "group_weights.cu",
		"K - 1 - b",
		"b", bf16, groupWeightsFault},
	{"a slab past the last image", "group_weights.cu",
		"pair < pairs ?",
		"pair >= 0 ?", bf16, groupWeightsFault},
	{"slabs of planes of another image", "group_weights.cu",
		"a.byLive[away]) * away",
		"a.byLive[away]) * 0", bf16, groupWeightsFault},
	{"no barrier before the next tile is loaded", "rows_weights.cu",
		"    barrier(); // nobody reads the tile before any more\n", "", bf16, "Conv$/1x1-32@.*"},
	{"no wait for a tile", "rows_weights.cu", "    waitAsync<1>();\n", "", bf16, "Conv$/1x1-32@.*"},
	{"no barrier when a tile has arrived", "rows_weights.cu", "    barrier(); // this one is there\n", "", bf16,
		"Conv$/1x1-32@.*"},
	{"a tile is fetched to where one is read", "rows_weights.cu", "(t + 1) % 2 * oneBytes", "t % 2 * oneBytes", bf16,
		"Conv$/1x1-32@.*"},
	{"pairs of the wrong copy", "rows_weights.cu", "at % 2 * (oneCopy / 2)", "0", bf16, "Conv$/1x1-32@.*"},
	{"no barrier between the sums of warps", "rows_weights.cu", "    barrier();\n    if (warp == w) {",
		"    if (warp == w) {", bf16, "Conv$/1x1-32@.*"},
	{"one copy only of the first voxel", "rows_weights.cu", "if (i && i < oneHalo)", "if (i > 20 && i < oneHalo)", bf16,
		"Conv$/1x1-32@.*"},
	{"no barrier when the weights of patches have arrived", "patches.cu", " * 8 * NT) / 8;\n  }\n  barrier();\n",
		" * 8 * NT) / 8;\n  }\n", bf16, "Conv$/3x16-32@.*"},
	{"the unit after the next one is fetched", "patches.cu", "ahead += (stride - 1) * directRows;",
		"ahead += stride * directRows;", bf16, "Conv$/1x32-32@.13.*"},
	{"the wrong half of a piece", "patches.cu", "l[1].z, l[0].w, l[1].w", "l[1].z, l[1].w, l[0].w", bf16,
		"Conv$/3x16-32@.*"},
	{"patches past the last row", "patches.cu", "if (m0 + 8 * h < p.rows) at[", "at[", bf16, "Conv$/3x16-32@.*"},
	{"a second part with the groups of the first", "patches.cu", "((1 << a.parts) - 1)) * per", "0) * per", bf16,
		"Conv$/2x32-64@.*"},
	{"a bias of another channel", "patches.cu", "i - quotient(i, p.byRight) * p.right", "0", bf16, "Conv$/3x16-32@.*"},
	{"moments of rows that are not there", "patches.cu", "if (m < p.rows) {\n              bf16",
		"{\n              bf16", bf16,
		"Activate/after_a_convolution/16_to_32.*"},
	{"moments of every other eight rows", "patches.cu", "mask = 4; mask < 32; mask *= 2",
		"mask = 8; mask < 32; mask *= 2",
		bf16, "Activate/after_a_convolution/16_to_32.*"},
	{"rows past those of a block", "patches.cu", "m < end ? reinterpret_cast<const uint32_t *>(x)",
		"true ? reinterpret_cast<const uint32_t *>(x)", bf16,
		"Conv$/2x32-4@.*"},
	{"no wait for rows of patches", "patches.cu", "    waitAsync<convStages - 2>();\n", "", bf16, "Conv$/3x24-20@.*"},
	{"no barrier before sums are written to patches", "patches.cu", "    barrier();\n    if (a.spreads) {",
		"    if (a.spreads) {", tf32, "Conv$/2x16-48@.*"},
	{"a block's second tile is its first", "patches.cu", "tileM += gridDim.x;\n    place();", "tileM += gridDim.x;",
		fp32, "Conv$/3x24-20@.*"},
	{"no barrier before sums of warps are added", "conv_weights.cu", "= sum; });\n  barrier();\n", "= sum; });\n", bf16,
		"Conv$/2x32-9@.*"},
	{"no barrier before rows are merged", "activate.cu", "  barrier();\n  // what the rows", "  // what the rows", bf16,
		"Activate"},
	{"no barrier before rows are added", "channels.h", "  barrier();\n  if (c.parts == 1) {", "  if (c.parts == 1) {",
		bf16, "Activate"},
	{"no barrier before parts of rows are added", "channels.h", "  barrier();\n  for (int i = threadIdx.x; i < K",
		"  for (int i = threadIdx.x; i < K", bf16, "Activate"},
	{"no barrier in the merger of moments", "activate.cu",
		"      n[i] = all.count, mean[i] = all.mean, m2[i] = all.m2;\n    }\n    barrier();\n",
		"      n[i] = all.count, mean[i] = all.mean, m2[i] = all.m2;\n    }\n", bf16, "Activate"},
	{"a residual read after it was written over", "activate.cu",
		"a.residual == 1) && dr) store(dr + o.at(a.shape, w), dz);\n        store(dx",
		"a.residual == 1) && dr) store(dx + o.at(a.shape, w), to), load(dz, dy + o.at(a.shape, w)), store(dr + " +
			"o.at(a.shape, w), dz);\n        store(dx",
		bf16, "Activate"},
	{"no barrier before sums of tiles are added", "activate.cu",
		"  barrier();\n  float total = 0;\n  if (threadIdx.x < 8", "  float total = 0;\n  if (threadIdx.x < 8", bf16,
		"Activate"},
	{"sums of images that are never written", "activate.cu", "  if (to) to[c] = total;",
		"  if (to && c) to[c] = total;", bf16, "Activate"},
	{"no barrier before the sums of an image are used", "activate.cu",
		"  barrier(); // the block's sums are there\n", "", bf16, "Activate"},
	{"no barrier before the statistics of an image are used", "activate.cu",
		"  barrier(); // the block's statistics are there\n", "", bf16, "Activate"},
	{"no barrier before the coefficients of an image are used", "activate.cu",
		"  barrier(); // its coefficients, too\n", "", bf16, "Activate"},
	{"lanes of another voxel are added", "activate.cu", "lanes < o.slots; lanes *= 2", "lanes <= o.slots; lanes *= 2",
		bf16, "Activate"},
	{"lanes that stop before others of their warp", "activate.cu", "v < (tiled ? o.end + o.row : o.end)", "v < o.end",
		bf16, "Activate"},
	{"a scratch sum that is never written", "activate.cu", "  to[(size_t)blockIdx.y * a.inner + inner] = sum;",
		"  if (inner) to[(size_t)blockIdx.y * a.inner + inner] = sum;", bf16, "Elementwise"},
	{"no barrier in the sum of tiles", "activate.cu", "  barrier();\n  if ((int)threadIdx.x >= sumTilesWidth",
		"  if ((int)threadIdx.x >= sumTilesWidth", bf16, "Elementwise"},
	{"no barrier before moments are merged", "tile.h", "= all.m2;\n    barrier();\n    const int half",
		"= all.m2;\n    const int half", bf16, "Activate/after_a_convolution"},
	{"moments of another tile", "conv.cu", "moments + (size_t)blockIdx.x * a.out * a.groups",
		"moments + (size_t)(blockIdx.x / 2) * a.out * a.groups", fp32, "Activate/after_a_convolution"},
	{"no barrier in a transposition", "tensor.cu",
		"  barrier();\n#pragma unroll\n  for (int i = 0; i < 32; i += 8)\n    if (c0",
		"#pragma unroll\n  for (int i = 0; i < 32; i += 8)\n    if (c0", fp32, "Reshape"},
	{"an element past the end", "tensor.cu", "if (i + V <= n) {", "if (i < n) {", fp32, "Elementwise"},
	{"no barrier when a pair of tiles is there", "matrix.cu",
		"    barrier(); // the pair is there, and nobody reads the one before it any more\n", "", tf32, "MatMul"},
	{"a pair of tiles is written over the one before", "matrix.cu", "now = other, other = swap;", "(void)swap;", fp32,
		"MatMul"},
	{"the first range of parts twice", "conv_weights.cu", "splits * (range + 1) / a.share",
		"splits * (range + 2) / a.share",
		bf16, "Conv"},
	{"no barrier before rows are summed", "matrix.cu",
		"  barrier(); // of the block, which alone reads what it wrote\n", "", fp32, "Rows"},
	{"no barrier before the sums of two classes are added", "loss.cu",
		"  barrier(); // the sums of the warps are there\n", "",
		tf32, "Loss"},
	{"no barrier before probabilities are written over", "loss.cu", "      barrier();\n    }\n    const float sums[3]",
		"    }\n    const float sums[3]", fp32, "Loss"},
	{"no barrier in a sum of squares", "optimiser.cu", "  shared[threadIdx.x] = sum;\n  barrier();\n",
		"  shared[threadIdx.x] = sum;\n", fp32, "Optimiser"},
	{"a window's edge past the sums", "volume.cu", "if (at < 0 || at >= a.sums[k] || at >= (int)place[3 + k]) return;",
		"if (at < 0 || at >= (int)place[3 + k] + 1) return;", fp32, "Blend"},
	{"a voxel past the last plane", "volume.cu", "  if (i >= n) return;\n", "", fp32, "Blend"},
	{"a class of what is no number", "volume.cu", "number ? (float)which : -1.0f", "(float)which", fp32, "Blend"},
	{"no barrier in the decision on a step", "optimiser.cu", "    barrier();\n  }\n  const double norm",
		"  }\n  const double norm", fp32, "Optimiser"},
	{"a step whose loss is not finite is taken", "optimiser.cu", " && isFinite(l);", ";", fp32, "Optimiser"},
	{"parameters past the end", "optimiser.cu", "whole = m + 4 <= end;", "whole = true;", fp32, "Optimiser"},
	{"the last few elements left out", "optimiser.cu", "if (rest < end) step(", "if (rest + 1 < end) step(", fp32,
		"Optimiser"},
	{"a block of another tensor", "optimiser.cu", "blockIdx.x >= a.first[j]", "blockIdx.x > a.first[j]", fp32,
		"Optimiser"},
	{"squares past the end", "optimiser.cu", "k + u * 1024 + 4 <= end", "true", fp32, "Optimiser"},
	{"an attention's weights along the wrong axis", "tokens.cu", "step = t.transposed ? t.rows : 1", "step = 1", fp32,
		"Tokens"},
	{"channels past the last one", "images.cu", "min(a.channels - 1, c + a.after)", "c + a.after", fp32, "Images"},
}

// TestPlantedFaults plants each of the faults; in a short test every thirtieth, by turns.
func TestPlantedFaults(t *testing.T) {
	for n, f := range faults {
		if testing.Short() && (n%30 != devicetest.Turn(t)%30 || !turns.Has(t, n/30, 3)) {
			continue
		}
		t.Run(f.what, func(t *testing.T) {
			t.Parallel()
			library, err := buildSimulator(filepath.Join(f.plant(t), "sim"), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			pattern := "^TestDevice$/^" + f.tests + "$"
			if strings.HasPrefix(f.tests, "Test") {
				pattern = "^" + f.tests + "$"
			}
			for seed := 1; seed <= 3; seed++ {
				text, err := suite(library, f.precision, seed, pattern, "-test.failfast").CombinedOutput()
				if err != nil {
					if !strings.Contains(string(text), "=== RUN   Test") {
						t.Fatalf("the suite did not start: %v\n%s", err, text)
					}
					reason, _, _ := strings.Cut(strings.TrimSpace(failures(string(text))), "\n")
					t.Logf("seed %d: %s", seed, reason)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}

// plant copies the simulator and the kernels, with the fault in them, and returns the
// folder of both.
func (f fault) plant(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, part := range []string{"sim", "kernels"} {
		files, err := filepath.Glob(filepath.Join(part, "*.*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: nothing to copy: %v", part, err)
		}
		if err := os.Mkdir(filepath.Join(folder, part), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(file) == f.file {
				if strings.Count(string(text), f.old) < 1 {
					t.Fatalf("%s has no %q: the fault is not planted", file, f.old)
				}
				text = []byte(strings.Replace(string(text), f.old, f.new, 1))
			}
			if err := os.WriteFile(filepath.Join(folder, file), text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

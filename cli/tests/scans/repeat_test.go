package scans_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// grids of the sets below: small, so that each can be prepared many times.
const rows, columns, slices3 = 8, 7, 6

// nrrd writes a file of voxels in layers, the first axis, with further lines of its header.
func nrrd(t *testing.T, path, kind string, layers int, data []byte, lines ...string) {
	t.Helper()
	axes, none, list := "3", "", ""
	sizes := fmt.Sprintf("%d %d %d", rows, columns, slices3)
	if layers > 1 {
		axes, none, list, sizes = "4", "none ", "list ", fmt.Sprintf("%d %s", layers, sizes)
	}
	header := fmt.Sprintf("NRRD0004\ntype: %s\ndimension: %s\nspace: left-posterior-superior\nsizes: %s\n"+
		"space directions: %s(1,0,0) (0,1,0) (0,0,2)\nkinds: %sdomain domain domain\nendian: little\nencoding: raw\n"+
		"space origin: (0,0,0)\n%s\n", kind, axes, sizes, none, list, strings.Join(lines, ""))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte(header), data...), 0o666); err != nil {
		t.Fatal(err)
	}
}

// scan writes an image of random HU, another at each call.
func scan(t *testing.T, path string, r *rand.Rand) {
	t.Helper()
	var data []byte
	for range rows * columns * slices3 {
		data = binary.LittleEndian.AppendUint16(data, uint16(int16(r.IntN(1500)-1000)))
	}
	nrrd(t, path, "short", 1, data)
}

// labels are random ones below a number.
func labels(r *rand.Rand, below int) []byte {
	data := make([]byte, rows*columns*slices3)
	for n := range data {
		data[n] = byte(r.IntN(below))
	}
	return data
}

// sets are data sets in which much is said of several things at once, any of which could come
// first.
var sets = map[string]func(t *testing.T, root string, r *rand.Rand){
	"layers": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 3 {
			scan(t, fmt.Sprintf("%s/p%d.nrrd", root, n), r)
			var data []byte
			for _, label := range labels(r, 4) { // the layers of a voxel lie together
				data = append(data, map[byte][]byte{0: {0, 0}, 1: {1, 0}, 2: {0, 1}, 3: {0, 2}}[label]...)
			}
			nrrd(t, fmt.Sprintf("%s/p%d.seg.nrrd", root, n), "uchar", 2, data,
				"Segment0_Name:=ball\nSegment0_LabelValue:=1\nSegment0_Layer:=0\n",
				"Segment1_Name:=box\nSegment1_LabelValue:=1\nSegment1_Layer:=1\n",
				"Segment2_Name:=tube\nSegment2_LabelValue:=2\nSegment2_Layer:=1\n")
		}
	},
	"overlaps": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 3 {
			folder := fmt.Sprintf("%s/p%d/", root, n)
			scan(t, folder+"ct.nrrd", r)
			for _, organ := range []string{"liver", "spleen", "aorta", "kidney"} {
				mask := make([]byte, rows*columns*slices3)
				mask[0] = 1 // which all of them have: six pairs, as large as each other
				mask[1+r.IntN(len(mask)-1)] = 1
				nrrd(t, folder+"segmentations/"+organ+".nrrd", "uchar", 1, mask)
			}
		}
	},
	"masks": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 4 {
			folder := fmt.Sprintf("%s/p%d/", root, n)
			scan(t, folder+"ct.nrrd", r)
			organs := labels(r, 5)
			for label, organ := range []string{"liver", "spleen", "aorta", "kidney"} {
				if n > 0 && (label+n)%3 == 0 {
					continue // nobody drew it
				}
				mask := make([]byte, len(organs))
				for at, l := range organs {
					if int(l) == label+1 {
						mask[at] = 1
					}
				}
				nrrd(t, folder+"segmentations/"+organ+".nrrd", "uchar", 1, mask)
			}
		}
	},
	"named": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 4 {
			scan(t, fmt.Sprintf("%s/imagesTr/p%d.nrrd", root, n), r)
			nrrd(t, fmt.Sprintf("%s/labelsTr/p%d.nrrd", root, n), "uchar", 1, labels(r, 9))
		}
		text := `{"labels": {"0": "background", "1": "liver", "3": "aorta", "2": "spleen", "5": "tumour", ` +
			`"all": [1, 2, 7], "some": [3, 5, 8], "9": "none"}, "training": []}`
		if err := os.WriteFile(root+"/dataset.json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	},
	"numbers": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 6 { // of three sites, whose numbers differ
			folder := fmt.Sprintf("%s/site%d/", root, n%3)
			scan(t, fmt.Sprintf("%sp%d.nrrd", folder, n), r)
			nrrd(t, fmt.Sprintf("%sp%d_seg.nrrd", folder, n), "uchar", 1, labels(r, 2+3*(n%3)))
		}
	},
	"mixed": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 4 {
			scan(t, fmt.Sprintf("%s/p%d.nrrd", root, n), r)
			names := ""
			if n%2 == 0 {
				names = fmt.Sprintf("Segment0_Name:=liver%d\nSegment0_LabelValue:=1\n"+
					"Segment1_Name:=aorta%[1]d\nSegment1_LabelValue:=2\n", n)
			}
			nrrd(t, fmt.Sprintf("%s/p%d.seg.nrrd", root, n), "uchar", 1, labels(r, 3), names)
		}
	},
	"channels": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 6 {
			scan(t, fmt.Sprintf("%s/p%d_%04d.nrrd", root, n/2, n%2), r)
		}
	},
	"damaged": func(t *testing.T, root string, r *rand.Rand) {
		for n := range 5 {
			scan(t, fmt.Sprintf("%s/p%d.nrrd", root, n), r)
			data := labels(r, 3)
			nrrd(t, fmt.Sprintf("%s/p%d_seg.nrrd", root, n), "uchar", 1, data[:len(data)-n/2])
		}
	},
}

// Nothing that a person or a program reads depends on the order of a map, or on which goroutine is
// first: the same sets give the same bytes, however often they are prepared, inspected and planned.
//
// Commits have one of three seeds in their turns. VOXSAW_TEST_LONG=1: twenty times each.
func TestTheSameEachTime(t *testing.T) {
	for name, build := range sets {
		for seed := range uint64(3) {
			if !turns.Has(t, int(seed), 3) {
				continue
			}
			times := 4
			if os.Getenv("VOXSAW_TEST_LONG") != "" {
				times = 20
			}
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				root, out := filepath.Join(t.TempDir(), "set"), filepath.Join(t.TempDir(), "prepared")
				build(t, root, rand.New(rand.NewPCG(seed, 7)))
				sizes := small
				if name == "layers" && seed == 0 {
					sizes = nil
				}
				first := all(t, root, out, sizes)
				for n := range times - 1 {
					if again := all(t, root, out, sizes); again != first {
						t.Fatalf("time %d: %s", n+2, firstDifference(first, again))
					}
				}
			})
		}
	}
}

// clock is how long something took.
var clock = regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|s|min)\b`)

// small are sizes of trainings for which a plan takes no time. One set has those that nobody says:
// the search for a place in memory for each tensor of the large network is the same each time, too.
var small = []string{
	"--pretrain-channels", "2", "--pretrain-levels", "1", "--pretrain-crop", "16", "--pretrain-grid", "2",
	"--finetune-channels", "2", "--finetune-levels", "1", "--finetune-crop", "16",
}

// all inspects, prepares and plans a set, and returns all that is said and written.
func all(t *testing.T, root, out string, sizes []string) string {
	t.Helper()
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	voxsaw := func(args ...string) (code int) {
		var stdout, stderr bytes.Buffer
		code = cli.Run(args, &stdout, &stderr)
		told := strings.Split(clock.ReplaceAllString(stderr.String(), "TIME"), "\n")
		slices.Sort(told) // cases are told of as they are done
		fmt.Fprintf(&said, "%q: %d\n%s\n%s\n", args, code, stdout.String(), strings.Join(told, "\n"))
		return code
	}
	voxsaw("inspect", root, "--json")
	if voxsaw("prepare", root, "--out", out) != 0 {
		voxsaw("prepare", root, "--out", out, "--segment-overlap", "last")
	}
	voxsaw(append([]string{"crossval", "--data", out, "--folds", "2", "--plan"}, sizes...)...)
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&said, "%s: %q\n", path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return said.String()
}

// firstDifference shows the first lines that differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for n := range min(len(x), len(y)) {
		if x[n] != y[n] {
			return fmt.Sprintf("\n%.400s\n%.400s", x[n], y[n])
		}
	}
	return "one is longer"
}

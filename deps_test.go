package voxsaw_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/voxsaw/voxsaw/"

// mayImport lists, for every room of the house, the rooms that it may import. Imports go one way;
// docs/architecture.md tells why.
var mayImport = map[string][]string{
	"internal/asmtest":    {},
	"internal/atomicfile": {},
	"internal/auto": {"internal/backbone", "internal/checkpoint", "internal/config", "internal/folders",
		"internal/planning", "internal/sliding", "internal/terminal", "internal/train", "internal/triage", "segment",
		"volume/dataset", "volume/prepared"},
	"internal/ballot": {},
	"internal/fingerprint": {"internal/memory", "internal/numbers", "internal/planning", "volume", "volume/dataset",
		"volume/prepared"},
	"internal/nnplan":    {"internal/fingerprint", "internal/planning", "volume", "volume/dataset"},
	"internal/childtest": {},
	"internal/turns":     {},
	"internal/cluster":   {"internal/terminal"},
	"internal/outdir":    {},
	"internal/numbers":   {},
	"internal/memory":    {},
	"internal/crashtest": {},
	"internal/hint":      {},
	"internal/localcopy": {"sample"},
	"internal/pace": {".", "internal/backbone", "internal/bench", "internal/device", "internal/memory",
		"internal/planning", "internal/pretext", "internal/seed", "internal/sliding", "internal/terminal",
		"internal/train", "puzzle3d", "sample", "segment", "volume", "volume/prepared"},
	"internal/pairing": {"eval", "volume", "volume/dataset", "volume/dicom", "volume/format", "volume/nifti",
		"internal/outdir", "internal/provenance", "internal/table"},
	"internal/seed":        {},
	"internal/config":      {},
	"internal/mpi":         {},
	"internal/terminal":    {},
	"internal/tiles":       {},
	"internal/puzzle":      {},
	"internal/solver":      {"internal/puzzle"},
	"internal/svm":         {"internal/seed"},
	"internal/folders":     {},
	"internal/half":        {},
	"internal/safetensors": {"internal/folders", "internal/half"},
	"internal/pytorch":     {"volume", "internal/folders", "internal/half"},
	"internal/standin":     {},
	"internal/photo":       {"internal/folders"},
	"internal/voc":         {},
	"internal/voc/voctest": {},
	"internal/photo/fixed": {},

	"sample":        {},
	"volume":        {"internal/ballot"},
	"volume/nifti":  {"volume", "internal/folders"},
	"volume/itk":    {"volume", "internal/folders"},
	"volume/dicom":  {"volume", "internal/folders"},
	"volume/format": {"volume", "volume/nifti", "volume/itk", "volume/dicom", "internal/provenance"},

	"volume/format/formattest": {"volume/format"},
	"volume/prepared": {
		"sample",
		"volume",
		"internal/localcopy",
		"internal/outdir",
		"internal/folders",
		"internal/seed",
	},

	"volume/dicom/internal/tag":     {},
	"volume/dicom/internal/element": {"volume", "volume/dicom/internal/tag", "internal/folders"},
	"volume/dicom/internal/pixels": {"volume", "volume/dicom/internal/tag", "volume/dicom/internal/element",
		"volume/dicom/internal/jpeg", "volume/dicom/internal/jpegls", "volume/dicom/internal/jpeg2000"},
	"volume/dicom/internal/stack": {"volume", "internal/ballot", "volume/dicom/internal/tag",
		"volume/dicom/internal/element", "volume/dicom/internal/pixels"},
	"volume/dicom/internal/grouping": {"volume", "volume/dicom/internal/tag", "volume/dicom/internal/element",
		"volume/dicom/internal/pixels", "volume/dicom/internal/stack"},
	"volume/dicom/internal/segmentation": {"volume", "internal/ballot", "volume/dicom/internal/tag",
		"volume/dicom/internal/element", "volume/dicom/internal/pixels", "volume/dicom/internal/stack"},
	"volume/dicom/internal/structures": {"volume", "volume/dicom/internal/tag", "volume/dicom/internal/element",
		"volume/dicom/internal/stack"},
	"internal/provenance": {"volume/nifti", "volume/dicom"},
	"volume/dataset": {"volume", "volume/nifti", "volume/format", "volume/dicom", "volume/prepared",
		"internal/seed", "internal/folders", "internal/outdir", "internal/provenance", "internal/quality"},
	"volume/prepare": {"volume", "volume/dataset", "volume/prepared", "internal/outdir"},
	"volume/internal/datasettest": {"volume", "volume/dicom", "volume/nifti", "volume/phantom",
		"internal/seed"},
	"volume/phantom": {"volume", "internal/seed"},

	"internal/device":            {},
	"internal/device/cpu":        {"internal/device", "internal/numbers"},
	"internal/device/cuda":       {"internal/device"},
	"internal/device/devicetest": {"internal/device", "internal/turns"},
	"internal/exec":              {"internal/device"},
	"internal/nn":                {"internal/device", "internal/exec", "internal/seed"},

	".": {"internal/device/cpu", "internal/device/cuda"},
	"internal/checkpoint": {".", "volume", "internal/config", "internal/device", "internal/pytorch",
		"internal/safetensors"},
	"internal/backbone":              {".", "internal/nn"},
	"internal/backbone/backbonetest": {"internal/backbone", "internal/device", "internal/nn"},
	"internal/backbone/all":          {"vnet", "internal/resenc", "internal/unet"},
	"internal/resenc":                {".", "internal/backbone", "internal/device", "internal/nn", "internal/unet"},
	"internal/unet":                  {".", "internal/backbone", "internal/device", "internal/nn"},
	"internal/nnunet": {"volume", "internal/device", "internal/folders", "internal/half", "internal/nn",
		"internal/pytorch", "internal/quality", "internal/unet"},
	"internal/totalseg": {"segment", "volume", "volume/dataset", "internal/device", "internal/nnunet"},
	"network":           {".", "internal/backbone", "internal/device", "internal/nn"},
	"vnet": {".", "internal/backbone", "internal/checkpoint", "internal/device",
		"internal/nn"},
	"internal/photonet": {".", "internal/device", "internal/nn", "internal/safetensors", "internal/train"},
	"internal/train": {".", "internal/checkpoint", "internal/outdir", "internal/config",
		"internal/device", "internal/nn", "internal/seed", "internal/steplog"},
	"internal/train/traintest": {".", "sample", "internal/seed", "volume", "volume/phantom", "volume/prepared",
		"internal/checkpoint", "internal/device", "internal/nn", "internal/safetensors", "internal/train"},
	"internal/jigsaw": {".", "internal/checkpoint", "internal/config", "internal/device", "internal/nn",
		"internal/puzzle", "internal/seed", "internal/solver", "internal/tiles", "internal/train"},
	"internal/sliding": {"volume", "volume/prepared", "internal/backbone", "internal/config", "internal/device",
		"internal/nn", "internal/train"},
	"internal/pretext": {".", "sample", "volume", "internal/backbone", "internal/checkpoint",
		"internal/config", "internal/device", "internal/nn", "internal/seed", "internal/train"},
	"internal/patches":  {"sample", "internal/backbone", "internal/puzzle"},
	"internal/rot90":    {},
	"internal/classify": slices.Concat(guest, []string{"internal/patches", "internal/tiles"}),
	"internal/classify/classifytest": slices.Concat(guest, []string{"volume/prepared", "internal/classify",
		"internal/train/traintest"}),
	"task": {".", "sample", "volume", "internal/backbone", "internal/classify", "internal/nn", "internal/pretext",
		"internal/train"},
	"internal/spatial": slices.Concat(guest, []string{"internal/classify", "internal/puzzle", "internal/rot90",
		"internal/tiles"}),
	"internal/restoration": slices.Concat(guest, []string{"internal/tiles"}),
	"internal/rubik": slices.Concat(guest, []string{"internal/classify", "internal/jigsaw", "internal/puzzle",
		"internal/tiles", "internal/rot90"}),
	"puzzle2d": {
		".",
		"sample", "puzzle2d/photos", "internal/classify", "internal/pretext", "internal/checkpoint", "internal/config",
		"internal/device",
		"internal/jigsaw", "internal/nn", "internal/numbers", "internal/photo", "internal/photonet",
		"internal/proposal", "internal/puzzle", "internal/rot90", "internal/safetensors", "internal/seed",
		"internal/svm", "internal/tiles", "internal/train", "internal/voc",
	},
	"internal/proposal": {"internal/seed"},
	"puzzle3d": slices.Concat(guest, []string{"volume/prepared", "internal/patches", "internal/jigsaw",
		"internal/puzzle", "internal/restoration", "internal/tiles"}),
	"segment": {".", "eval", "sample", "volume", "volume/prepared", "internal/backbone", "internal/backbone/all",
		"internal/checkpoint", "internal/config", "internal/device", "internal/nn", "internal/nnunet",
		"internal/quality", "internal/seed", "internal/sliding", "internal/train"},
	// for tests alone
	"internal/device/cpu/cputest": {"internal/device/cpu"},
	"internal/commandtest":        {"internal/miniature", "internal/train", "internal/turns", "internal/voc/voctest"},
	"internal/miniature":          {"volume", "volume/nifti", "volume/phantom"},
	"internal/quality":            {"volume", "volume/prepared", "internal/table"},

	"puzzle2d/photos": {"sample", "internal/folders", "internal/localcopy", "internal/outdir", "internal/photo"},

	"internal/verify": {"internal/outdir", "volume/dataset", "volume/prepared", "puzzle2d/photos",
		"internal/checkpoint", "internal/folders", "internal/train"},
	"internal/predict": {".", "segment", "volume", "volume/dataset", "volume/dicom", "volume/nifti",
		"internal/checkpoint", "internal/device", "internal/folders", "internal/nnunet", "internal/provenance",
		"internal/quality", "internal/report", "internal/table", "internal/train"},
	"internal/triage": {".", "eval", "segment", "volume", "volume/dataset", "volume/dicom", "volume/nifti",
		"volume/prepared", "internal/outdir", "internal/predict", "internal/quality", "internal/report",
		"internal/table"},
	"internal/bench": {".", "eval", "internal/backbone", "internal/device", "internal/jigsaw", "internal/nn",
		"internal/puzzle", "internal/quality", "internal/seed", "internal/sliding", "internal/solver",
		"internal/train"},
	"internal/planning": {".", "internal/quality", "internal/terminal", "internal/unet"},
	"internal/tuning":   {"internal/device", "internal/device/cpu", "internal/config"},

	"eval":                 {"volume", "internal/memory"},
	"internal/safetext":    {},
	"internal/smallfile":   {},
	"internal/steplog":     {},
	"internal/table":       {"eval"},
	"internal/report":      {"eval", "internal/steplog", "internal/table", "volume"},
	"internal/export":      {"volume", "volume/dataset", "volume/nifti", "internal/atomicfile", "internal/outdir"},
	"internal/tensorboard": {"."},
	"internal/viewer":      {"volume", "volume/nifti"},

	"examples/command":    {"cli", "sample", "task"},
	"examples/evaluation": {"eval", "volume/phantom"},
	"examples/format":     {"volume", "volume/dataset", "volume/format", "volume/phantom", "volume/prepare"},
	"examples/graph":      {".", "network", "puzzle3d", "sample"},
	"examples/intensity":  {"volume", "volume/phantom", "volume/prepared"},
	"examples/task": {".", "sample", "segment", "task", "volume", "volume/phantom",
		"volume/prepared"},
	"examples/network": {".", "network", "sample", "segment", "volume", "volume/phantom", "volume/prepared"},

	"scripts/changelog": {},
	"scripts/columns":   {},
	"scripts/corpus":    {"volume", "volume/dicom", "volume/nifti"},
	"scripts/fuzz":      {},
	"scripts/help":      {},
	"scripts/many":      {"volume", "volume/nifti", "volume/phantom"},
	"scripts/notices":   {},
	"scripts/platforms": {},
	"scripts/readme":    {},
	"scripts/sbom":      {},
	"scripts/scale":     {},
	"scripts/skips":     {},
	"scripts/cudnn": {".", "internal/backbone", "internal/backbone/all", "internal/device", "internal/device/cpu",
		"internal/device/cuda", "internal/nn", "internal/tuning"},
}

// guest is what a pretext task may import.
var guest = []string{".", "sample", "volume", "internal/backbone", "internal/backbone/all", "internal/checkpoint",
	"internal/config", "internal/device", "internal/nn", "internal/pretext", "internal/seed", "internal/train"}

// everybodys are the rooms that all others may import.
var everybodys = []string{
	"internal/atomicfile", "internal/hint", "internal/memory", "internal/numbers", "internal/safetext",
	"internal/smallfile",
	"internal/standin",
}

// mayEverything are the rooms at the top, where everything comes together: the command line, and
// the experiments that it runs.
var mayEverything = []string{"cli/", "cmd/", "internal/experiment"}

// onlyImporter names libraries that are kept behind one room, so that they can be replaced there;
// avo, which writes assembly, behind the generators of two.
var onlyImporter = map[string]string{
	"gorgonia.org/gorgonia":        "internal/nn",
	"gorgonia.org/tensor":          "internal/nn",
	"gorgonia.org/cu":              "internal/device/cuda",
	"github.com/okieraised/gonii":  "volume/nifti",
	"github.com/suyashkumar/dicom": "volume/dicom",
	"github.com/spf13/cobra":       "cli",
	"github.com/mmcloughlin/avo":   "internal/device/cpu/ internal/photo/asm internal/svm/asm",
	"github.com/vbauerster/mpb/v8": "internal/terminal",
	"github.com/edsrzf/mmap-go":    "volume/prepared puzzle2d/photos",
	"github.com/ebitengine/purego": "internal/mpi",
}

// standardLibraryOnly are the rooms that import nothing from outside.
var standardLibraryOnly = []string{"internal/puzzle", "internal/solver", "internal/seed", "internal/atomicfile",
	"internal/smallfile", "internal/standin", "internal/device", "vnet", "."}

func TestImportsGoOneWay(t *testing.T) {
	rooms := importsByRoom(t)
	if len(rooms) < 10 {
		t.Fatalf("found %d packages: the walk is broken", len(rooms))
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		allowed, known := mayImport[room]
		// a room's own store: who may look in there, the compiler knows
		if inner, _, ok := strings.Cut(room, "/internal/"); ok && !known {
			allowed, known = append(mayImport[inner], inner), true
		}
		free := slices.ContainsFunc(
			mayEverything,
			func(p string) bool { return strings.HasPrefix(room+"/", p) || strings.HasPrefix(room, p) },
		)
		generator := strings.HasPrefix(room, "internal/device/cpu/") || room == "internal/photo/asm" ||
			room == "internal/svm/asm"
		if !known && !free && !generator {
			t.Errorf("%s: a new room; say in deps_test.go what it may import", room)
			continue
		}
		for _, imported := range rooms[room] {
			if ours, ok := ours(imported); ok {
				if !free && !generator && !strings.HasPrefix(ours, room+"/") && !slices.Contains(allowed, ours) &&
					!slices.Contains(everybodys, ours) {
					t.Errorf("%s imports %s: not allowed by deps_test.go", room, ours)
				}
				continue
			}
			if !strings.Contains(strings.Split(imported, "/")[0], ".") {
				continue // standard library
			}
			if slices.Contains(standardLibraryOnly, room) {
				t.Errorf("%s imports %s: this room keeps to the standard library", room, imported)
			}
			for library, owner := range onlyImporter {
				owns := func(o string) bool { return strings.HasPrefix(room, o) }
				if (imported == library || strings.HasPrefix(imported, library+"/")) &&
					!slices.ContainsFunc(strings.Fields(owner), owns) {
					t.Errorf("%s imports %s, which belongs to %s", room, imported, owner)
				}
			}
		}
	}
}

// follows says whose method, format or rules the pretext tasks, backbones, readers and codecs
// follow. Their code names each; docs/dependencies.md has the papers, programs and licences.
var follows = map[string][]string{
	"internal/photo":                 {"ITU-T", "libjpeg"},
	"internal/resenc":                {"nnU-Net"},
	"internal/restoration":           {"He et al", "Wang", "Wald", "MIC-DKFZ"},
	"internal/rubik":                 {"Zhuang"},
	"internal/spatial":               {"Gidaris", "Taleb", "HealthML"},
	"internal/unet":                  {"nnU-Net"},
	"puzzle2d":                       {"Wei et al", "Noroozi", "Favaro"},
	"puzzle3d":                       {"Wei et al", "Noroozi", "Favaro"},
	"vnet":                           {"Milletari", "MONAI"},
	"volume/dicom/internal/element":  {"PS3"},
	"volume/dicom/internal/jpeg":     {"ITU-T"},
	"volume/dicom/internal/jpeg2000": {"ITU-T", "OpenJPEG"},
	"volume/dicom/internal/jpegls":   {"ITU-T"},
	"volume/dicom/internal/pixels":   {"PS3.5"},
	"volume/itk":                     {"ITK"},
	"volume/nifti":                   {"NIfTI", "nibabel"},
}

// The code of each pretext task, backbone, reader and codec names what it follows.
func TestMethodsNameTheirSources(t *testing.T) {
	// what registers for others follows nothing itself, and prepared cases are a format of our own
	general := []string{"internal/classify", "network", "task", "volume/format", "volume/prepared"}
	method := regexp.MustCompile(
		`(?m)\b(?:pretext\.\w+|classify|backbone)\.Register\(|^func (?:Decode|decode[A-Z]\w*|ReadHeader)\(`)
	texts, found := map[string]string{}, map[string]bool{}
	eachSource(t, func(room, p string) error {
		text, err := os.ReadFile(p)
		texts[room] += string(text)
		return err
	})
	for room, text := range texts {
		if !method.MatchString(text) || slices.Contains(general, room) || strings.HasPrefix(room, "examples/") {
			continue
		}
		found[room] = true
		if len(follows[room]) == 0 {
			t.Errorf("%s: say in follows what it follows, and in docs/dependencies.md under which licence", room)
		}
		for _, source := range follows[room] {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(source) + `\b`).MatchString(text) {
				t.Errorf("the code of %s does not name %s, which it follows", room, source)
			}
		}
	}
	for room := range follows {
		if !found[room] {
			t.Errorf("%s registers and decodes nothing", room)
		}
	}
}

// layers are the storeys of the house, from the ground up, with the rooms of each and what lies in
// their folders. All other rooms are at the top: what a user does, the command line, experiments,
// and what tests share.
var layers = [][]string{
	{"sample", "internal/atomicfile", "internal/ballot", "internal/cluster", "internal/config", "internal/folders",
		"internal/half", "internal/hint", "internal/localcopy", "internal/memory", "internal/mpi", "internal/numbers",
		"internal/outdir", "internal/puzzle", "internal/rot90", "internal/safetensors", "internal/safetext",
		"internal/seed", "internal/smallfile", "internal/solver", "internal/standin", "internal/steplog",
		"internal/terminal", "internal/tiles", "internal/turns", "internal/voc"},
	{"internal/device", "internal/exec", "internal/nn"},
	{"volume", "eval", "puzzle2d/photos", "internal/photo", "internal/proposal", "internal/provenance",
		"internal/pytorch", "internal/quality", "internal/svm", "internal/table"},
	{"."},
	{"network", "vnet", "internal/backbone", "internal/checkpoint", "internal/nnunet", "internal/resenc",
		"internal/unet"},
	{"task", "internal/classify", "internal/jigsaw", "internal/patches", "internal/photonet", "internal/pretext",
		"internal/sliding", "internal/train", "internal/tuning"},
	{"puzzle2d", "puzzle3d", "segment", "internal/restoration", "internal/rubik", "internal/spatial"},
}

// layerOf is the number of a room's layer, by the longest name that it begins with.
func layerOf(room string) int {
	layer, longest := len(layers), ""
	for n, rooms := range layers {
		for _, r := range rooms {
			if (room == r || strings.HasPrefix(room, r+"/")) && len(r) > len(longest) {
				layer, longest = n, r
			}
		}
	}
	return layer
}

// No room imports one of a layer above its own.
func TestLayers(t *testing.T) {
	rooms := importsByRoom(t)
	for _, r := range slices.Concat(layers...) {
		if _, ok := rooms[r]; !ok {
			t.Errorf("there is no package %s", r)
		}
	}
	for room, all := range rooms {
		for _, imported := range all {
			if ours, ok := ours(imported); ok && layerOf(ours) > layerOf(room) {
				t.Errorf("%s, of layer %d, imports %s, of layer %d", room, layerOf(room), ours, layerOf(ours))
			}
		}
	}
}

// ours is the room that an import path names, "." for the module's own package.
func ours(imported string) (room string, ok bool) {
	if imported+"/" == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module)
}

// importsByRoom parses the imports of every package's Go files, tests apart, for all build tags.
func importsByRoom(t *testing.T) map[string][]string {
	t.Helper()
	rooms := map[string][]string{}
	eachSource(t, func(room, p string) error {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rooms[room] = append(rooms[room], []string{}...)
		for _, i := range f.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			rooms[room] = append(rooms[room], imported)
		}
		return nil
	})
	return rooms
}

// eachSource calls f for each file of Go that is no test, with the room that it is in.
func eachSource(t *testing.T, f func(room, p string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
				name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		return f(path.Dir(filepath.ToSlash(p)), p)
	})
	if err != nil {
		t.Fatal(err)
	}
}

package pages_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// small makes the work of a documented command small: flags that are added to those of the page.
var small = map[string]string{
	"pretrain": "--steps 3 --warmup 0",
	"finetune": "--crop 16 --steps 3",
	"crossval": "--folds 2",
	"doctor":   "--crop 16 --channels 2 --levels 1",
	"tune":     "--crop 16 --channels 2 --levels 1",
	"plan":     "--hours 0.001",
	"auto":     "--hours 0.005",

	"bench predict": "--channels 2 --window 32 --windows 1",
	"bench segment": "--channels 2 --steps 1 --warmup 0",

	"2d prepare":  "--size 72x72",
	"2d pretrain": "--width 0.0625 --grid 2x2 --cell 32 --patch 24 --steps 3 --batch 2 --validate-every 0",
	"2d transfer": "--per-class 5",
	"2d finetune": "--steps 2",
}

// page is a page whose commands are typed, in their order, in a folder of its own.
type page struct {
	file string
	// what the page takes for granted beside the scans; the folder is the working directory
	given func(t *testing.T)
	// commands that are not typed, by how they begin, and why
	not map[string]string
}

// pages are those that have blocks of commands, but for docs/results, whose studies take hours.
var pages = []page{
	{file: "README.md", not: map[string]string{
		"demo":                             "TestDemo does that",
		"auto SCANS --hours 3 --out":       "docs/planning.md has the same, and goes on from it",
		"predict SCANS --checkpoint MODEL": "the block about one's own scans has that",
	}},
	{file: "docs/tutorial.md"},
	{file: "docs/planning.md", given: func(t *testing.T) {
		plans := bytes.Replace(thickPlans(t), []byte(`"configurations": {`),
			[]byte(`"configurations": {"3d_lowres": {"inherits_from": "3d_fullres"}, `), 1)
		commandtest.Must(t, os.WriteFile("nnUNetPlans.json", plans, 0o644))
	}},
	{file: "docs/coming-from.md", given: func(t *testing.T) {
		model := "nnUNet_results/Dataset001_NAME/nnUNetTrainer__nnUNetPlans__3d_fullres"
		commandtest.Must(t, os.CopyFS(model, os.DirFS(filepath.Join(repository, "testdata", "nnunet", "thick"))))
		plans := thickPlans(t)
		commandtest.Must(t, os.WriteFile("plans.json", plans, 0o644))
		commandtest.Must(t, os.WriteFile(filepath.Join(model, "plans.json"), plans, 0o644))
	}},
	{file: "docs/next.md", given: trained},
	{file: "docs/watching.md", given: cases, not: map[string]string{"view": "goes on until somebody ends it"}},
	{file: "docs/cluster.md", given: func(t *testing.T) {
		for n := range 16 { // the page's part is one of those that several machines prepare
			commandtest.Type(t, fmt.Sprintf("prepare scans --out prepared --part %d/16", n+1))
		}
	}},
	{file: "docs/scale.md", given: cases},
	{file: "docs/benchmarks.md", given: func(t *testing.T) {
		cases(t)
		commandtest.Type(t, "finetune --data prepared --out runs/organs --preset monai --norm batch --channels 2 "+
			"--crop 32 --steps 1")
		commandtest.Must(t, miniature.Scans(".", miniature.ScanOptions{Cases: 1, Format: "dicom", Axcodes: "LPS"}))
		commandtest.Must(t, os.Rename("imagesTr/case_1", "series"))
		commandtest.Must(t, miniature.Scans(".", miniature.ScanOptions{Cases: 1, Format: "nii"}))
		commandtest.Must(t, os.Rename("imagesTr/case_1.nii", "ct.nii"))
		plans, err := os.ReadFile(filepath.Join(repository, "testdata", "nnunet", "thick", "plans.json"))
		commandtest.Must(t, err)
		commandtest.Must(t, os.WriteFile("plans.json", plans, 0o644))
	}},
	{file: "docs/photographs.md", given: func(t *testing.T) {
		commandtest.Type(t, "2d prepare PHOTOS --size 72x72 --out LABELLED")
		commandtest.Type(t, "2d prepare VOCdevkit/VOC2007 --size 72x72 --out VOC")
		commandtest.Must(t, os.Rename("VOCdevkit/VOC2007/proposals.csv", "selective_search.csv"))
	}, not: map[string]string{
		"2d compare":                      "the study takes hours; TestConfigurations reads its plan",
		"2d convert resnet50_torchvision": "TestScripts/photos_finetune takes PyTorch's weights",
		"2d finetune --data voc --checkpoint resnet50_torchvision": "as above",
	}},
}

// repository is where the test's source lies.
var repository, _ = filepath.Abs(filepath.Join("..", "..", ".."))

// thickPlans is a plans.json of nnU-Net, with the spacing of the scans here.
func thickPlans(t *testing.T) []byte {
	plans, err := os.ReadFile(filepath.Join(repository, "testdata", "nnunet", "thick", "plans.json"))
	commandtest.Must(t, err)
	return regexp.MustCompile(`"spacing": \[[^]]*\]`).ReplaceAll(plans, []byte(`"spacing": [12, 12, 12]`))
}

// cases has prepared cases.
func cases(t *testing.T) { commandtest.Type(t, "prepare scans --out prepared") }

// trained has two runs on prepared cases.
func trained(t *testing.T) {
	cases(t)
	for _, name := range []string{"runs/organs", "runs/a", "runs/b"} {
		commandtest.Type(t, "finetune --data prepared --channels 2 --levels 1 --out "+name+" "+small["finetune"])
	}
}

// TestDocumentedCommands types every command of the pages' blocks. Scans and photographs are made
// up, and small: so crops and networks are, too, and trainings are short.
func TestDocumentedCommands(t *testing.T) {
	world := t.TempDir()
	for _, name := range []string{"scans", "SCANS"} {
		commandtest.Must(t, miniature.Scans(filepath.Join(world, name), miniature.ScanOptions{Cases: 6, Labelled: 4}))
	}
	for _, name := range []string{"new", "NEWSCANS", "REFERENCES"} {
		o := miniature.ScanOptions{First: 6, Cases: 2, Labelled: 8, Axcodes: "LPS"}
		commandtest.Must(t, miniature.Scans(filepath.Join(world, name), o))
	}
	for n, name := range []string{"PHOTOS/a", "PHOTOS/b"} {
		for k := range 10 {
			commandtest.Must(t, miniature.Picture(filepath.Join(world, name, string(rune('a'+k))+".jpg"), 1000*n+k))
		}
	}
	commandtest.Must(t, voctest.Write(filepath.Join(world, "VOCdevkit", "VOC2007"),
		voctest.Options{Side: 64, Seed: 1, Train: 8, Val: 4, Test: 4}))
	blocks := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	smaller := strings.NewReplacer("channels: 4", "channels: 2, levels: 1", "[64, 64, 64]", "[16, 16, 16]",
		"[24, 24, 24]", "[8, 8, 8]", "steps: 400", "steps: 3", "steps: 600", "steps: 3")
	for _, p := range pages {
		t.Run(p.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(repository, p.file))
			commandtest.Must(t, err)
			t.Chdir(t.TempDir())
			commandtest.Must(t, os.CopyFS(".", os.DirFS(world)))
			if p.given != nil {
				p.given(t)
			}
			typed, not := 0, map[string]bool{}
			for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
				if block[1] == "yaml" {
					commandtest.Must(t, os.WriteFile("study.yaml", []byte(smaller.Replace(block[2])), 0o644))
				}
			line:
				for line := range strings.Lines(block[2]) {
					line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
					line, _, _ = strings.Cut(line, " | ") // another program reads what it prints
					command, ok := strings.CutPrefix(line, "voxsaw ")
					if !ok {
						continue
					}
					for start := range p.not {
						if strings.HasPrefix(command, start) {
							not[start] = true
							continue line
						}
					}
					words := strings.Fields(command)
					verb := words[0]
					if len(words) > 1 && (verb == "2d" || verb == "bench") {
						verb += " " + words[1]
					}
					if n := slices.Index(words, "--out"); n > 0 && !slices.Contains(words, "--part") {
						// of another example on the page
						commandtest.Must(t, os.RemoveAll(words[n+1]))
					}
					typed++
					for _, more := range []struct{ verb, unless, flags string }{
						{"finetune", "--init|plan.yaml", "--channels 2 --levels 1"},
						{"pretrain", "--network", "--channels 2 --levels 1"},
						{"pretrain", "--task", "--crop 16 --grid 2 --patch 8"},
						{"pretrain", "jigsaw|--grid|--data prepared --out", "--crop 32"},
						{"2d finetune", "--task detect", "--crop 56 --batch 2"},
					} {
						if verb == more.verb && !regexp.MustCompile(more.unless).MatchString(command) {
							command += " " + more.flags
						}
					}
					if strings.Contains(small[verb], "--steps") { // not a time: TestScripts/hours
						command = regexp.MustCompile(` --hours \S+`).ReplaceAllString(command, "")
					}
					commandtest.Type(t, strings.TrimSpace(command)+" "+small[verb])
				}
			}
			if typed == 0 || len(not) != len(p.not) {
				t.Errorf("%d commands were typed, and %v are not there", typed, p.not)
			}
		})
	}
}

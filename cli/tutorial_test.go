package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		"predict SCANS --checkpoint MODEL": "the block about one's own scans has that",
	}},
	{file: "docs/tutorial.md"},
	{file: "docs/planning.md"},
	{file: "docs/coming-from.md", given: func(t *testing.T) {
		model := "nnUNet_results/Dataset001_NAME/nnUNetTrainer__nnUNetPlans__3d_fullres"
		must(t, os.CopyFS(model, os.DirFS(filepath.Join(repository, "testdata", "nnunet", "thick"))))
		plans, err := os.ReadFile(filepath.Join(model, "plans.json"))
		must(t, err)
		// the spacing and the size of the scans here
		plans = regexp.MustCompile(`"spacing": \[[^]]*\]`).ReplaceAll(plans, []byte(`"spacing": [12, 12, 12]`))
		must(t, os.WriteFile("plans.json", plans, 0o644))
		must(t, os.WriteFile(filepath.Join(model, "plans.json"), plans, 0o644))
	}},
	{file: "docs/next.md", given: trained},
	{file: "docs/watching.md", given: cases, not: map[string]string{"view": "goes on until somebody ends it"}},
	{file: "docs/cluster.md", given: func(t *testing.T) {
		for n := range 16 { // the page's part is one of those that several machines prepare
			typeIn(t, fmt.Sprintf("prepare scans --out prepared --part %d/16", n+1))
		}
	}},
	{file: "docs/scale.md", given: cases},
	{file: "docs/benchmarks.md", given: func(t *testing.T) {
		cases(t)
		typeIn(t, "finetune --data prepared --out runs/organs --preset monai --norm batch --channels 2 --crop 32 --steps 1")
		must(t, writePhantoms(".", phantomOptions{cases: 1, format: "dicom", axcodes: "LPS"}))
		must(t, os.Rename("imagesTr/case_1", "series"))
		must(t, writePhantoms(".", phantomOptions{cases: 1, format: "nii", axcodes: "RAS"}))
		must(t, os.Rename("imagesTr/case_1.nii", "ct.nii"))
	}},
	{file: "docs/photographs.md", given: func(t *testing.T) {
		typeIn(t, "2d prepare PHOTOS --size 72x72 --out LABELLED")
		typeIn(t, "2d prepare VOCdevkit/VOC2007 --size 72x72 --out VOC")
		must(t, os.Rename("VOCdevkit/VOC2007/proposals.csv", "selective_search.csv"))
	}, not: map[string]string{
		"2d compare":                      "the study takes hours; TestConfigurations reads its plan",
		"2d convert resnet50_torchvision": "TestScripts/photos_finetune takes PyTorch's weights",
		"2d finetune --data voc --checkpoint resnet50_torchvision": "as above",
	}},
}

// repository is where the test's source lies.
var repository, _ = filepath.Abs(filepath.Join(".."))

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// typeIn carries out a command.
func typeIn(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	var stdout, stderr bytes.Buffer
	if code := run(words, &stdout, &stderr); code != exitOK {
		t.Fatalf("voxsaw %s\nexit code %d\n%s%s", line, code, stdout.String(), stderr.String())
	}
}

// cases has prepared cases.
func cases(t *testing.T) { typeIn(t, "prepare scans --out prepared") }

// trained has two runs on prepared cases.
func trained(t *testing.T) {
	cases(t)
	for _, name := range []string{"runs/organs", "runs/a", "runs/b"} {
		typeIn(t, "finetune --data prepared --channels 2 --levels 1 --out "+name+" "+small["finetune"])
	}
}

// TestDocumentedCommands types every command of the pages' blocks. Scans and photographs are made
// up, and small: so crops and networks are, too, and trainings are short.
func TestDocumentedCommands(t *testing.T) {
	world := t.TempDir()
	for _, name := range []string{"scans", "SCANS"} {
		must(t, writePhantoms(filepath.Join(world, name), phantomOptions{cases: 6, labelled: 4, axcodes: "RAS"}))
	}
	for _, name := range []string{"new", "NEWSCANS", "REFERENCES"} {
		must(t, writePhantoms(filepath.Join(world, name), phantomOptions{first: 6, cases: 2, labelled: 8, axcodes: "LPS"}))
	}
	for n, name := range []string{"PHOTOS/a", "PHOTOS/b"} {
		for k := range 10 {
			must(t, writePicture(filepath.Join(world, name, string(rune('a'+k))+".jpg"), 1000*n+k))
		}
	}
	must(t, voctest.Write(filepath.Join(world, "VOCdevkit", "VOC2007"),
		voctest.Options{Side: 64, Seed: 1, Train: 8, Val: 4, Test: 4}))
	blocks := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	smaller := strings.NewReplacer("channels: 4", "channels: 2, levels: 1", "[64, 64, 64]", "[16, 16, 16]",
		"[24, 24, 24]", "[8, 8, 8]", "steps: 400", "steps: 3", "steps: 600", "steps: 3")
	for _, p := range pages {
		t.Run(p.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(repository, p.file))
			must(t, err)
			t.Chdir(t.TempDir())
			must(t, os.CopyFS(".", os.DirFS(world)))
			if p.given != nil {
				p.given(t)
			}
			typed, not := 0, map[string]bool{}
			for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
				if block[1] == "yaml" {
					must(t, os.WriteFile("study.yaml", []byte(smaller.Replace(block[2])), 0o644))
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
						must(t, os.RemoveAll(words[n+1])) // of another example on the page
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
					typeIn(t, strings.TrimSpace(command)+" "+small[verb])
				}
			}
			if typed == 0 || len(not) != len(p.not) {
				t.Errorf("%d commands were typed, and %v are not there", typed, p.not)
			}
		})
	}
}

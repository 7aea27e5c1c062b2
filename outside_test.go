package voxsaw_test

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/zip"

	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Go can make a module of the repository's files, as the proxy does for go install of a version,
// and go.mod has nothing that go install refuses.
func TestModuleCanBeInstalled(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []zip.File
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		files = append(files, repositoryFile(path))
	}
	checked, err := zip.CheckFiles(files)
	if err != nil {
		t.Error(err)
	}
	if len(checked.Valid) < 1000 {
		t.Errorf("the module has %d files of %d", len(checked.Valid), len(files))
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Error("go.mod replaces or excludes modules: go install of a version refuses that")
	}
}

// repositoryFile implements [zip.File].
type repositoryFile string

func (f repositoryFile) Path() string                 { return string(f) }
func (f repositoryFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(string(f)) }
func (f repositoryFile) Open() (io.ReadCloser, error) { return os.Open(string(f)) }

// Programs of another module are built against this one and run: testdata/outside, which prepares,
// pretrains, fine-tunes, predicts and compares, and the examples, each of which adds something to
// the library.
func TestOutsideModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	programs, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(programs) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	files := map[string]string{"go.sum": "go.sum", "go.mod": "go.mod"}
	for n, p := range append(programs, filepath.Join("testdata", "outside", "main.go")) {
		if !turns.Has(t, n, 2) {
			continue
		}
		files[p] = filepath.Join(filepath.Base(filepath.Dir(p)), "main.go")
	}
	for from, to := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "go.mod" { // its requirements, so that no version need be looked up
			data = []byte(strings.Replace(string(data), "module github.com/voxsaw/voxsaw\n",
				"module example.org/outside\n", 1))
		}
		path := filepath.Join(module, to)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A workspace, unlike a replacement, finds the packages compiled that the tests of this module
	// are built of.
	work := "go 1.26.0\n\nuse .\nuse " + strconv.Quote(here) + "\n"
	if err := os.WriteFile(filepath.Join(module, "go.work"), []byte(work), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(module, "bin") + string(filepath.Separator)
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, "./...")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(module, "go.work"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]string{ // how the output ends: whole lines, a pattern
		"command":    `picture: .*solved\.png`,
		"evaluation": "liver 0.5", "format": "1 scan prepared", "outside": "done",
		"intensity": "a network sees values from 0.00 to 1.00", "network": "2 steps; a label map of \\[28 24 24\\]",
		"task":  "40 tensors come from pretraining",
		"graph": "nodes in place: ([89][0-9]|100) %, by guessing 6 %\nmore than half of the graphs in order: true",
	}
	cases, run := filepath.Join(module, "prepared"), filepath.Join(module, "run")
	prepare(t, cases)
	small := " --crop 16 --channels 2 --levels 1 --data " + cases
	typed := map[string][]string{ // command lines; one without words where there is nothing
		"command": {
			"pretrain --task upside-down --features 8 --steps 2 --warmup 0 --out " + run + small,
			"finetune --init " + run + " --steps 1 --warmup 0 --out " + run + "-organs" + small,
			"solve --checkpoint " + run + " --data " + cases + " --picture " + filepath.Join(module, "solved.png"),
		},
	}
	for _, to := range files {
		name := filepath.Dir(to)
		if name == "." {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var out []byte
			for _, line := range append(typed[name], "")[:max(1, len(typed[name]))] {
				out, err = exec.Command(filepath.Join(bin, name), strings.Fields(line)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
			said := strings.TrimSpace(string(out))
			if want[name] == "" || !regexp.MustCompile(`(^|\n)`+want[name]+"$").MatchString(said) {
				t.Errorf("it does not end with %q:\n%s", want[name], out)
			}
		})
	}
}

// prepare prepares scans of two made-up patients, with their organs.
func prepare(t *testing.T, folder string) {
	t.Helper()
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(2) {
		scan, organs, err := phantom.New(n, phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(prepared.Input{ID: strconv.Itoa(int(n)), Image: scan, Labels: organs}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

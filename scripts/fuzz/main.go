// Command fuzz runs all fuzz targets of the repository, one after the other, for a time in all.
//
//	go run ./scripts/fuzz --for 20s --part 2/3    # what CI does by turns: every third target
//	go run ./scripts/fuzz --for 1h --keep    # by hand; then commit what is new in testdata/fuzz
//	go run ./scripts/fuzz --list
//
// An input that breaks a target lies in its package's testdata/fuzz then, where go test runs it
// again each time: commit it with the change that mends it. Inputs that reach code which no other
// reaches are in Go's build cache; --keep copies the core of them to testdata/fuzz, so that the
// next run, on whatever machine, begins where this one ended.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kept are at most so many inputs of a target, and none that is larger.
const (
	mostKept = 24
	mostSize = 16 << 10
)

// A target is a function FuzzName of a package's tests.
type target struct{ folder, name string }

func main() {
	total := flag.Duration("for", time.Minute, "time in all, without that of compiling")
	workers := flag.Int("workers", 1, "processes at once")
	keep := flag.Bool("keep", false, "keep the core of what was found in testdata/fuzz")
	part := flag.String("part", "1/1", "K/N: every Nth target alone, from the Kth one on")
	only := flag.String("run", "", "regular expression: targets such as volume/dicom.FuzzFile to run; empty: all")
	list := flag.Bool("list", false, "list the targets")
	flag.Parse()
	targets, err := find()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz: looking for targets:", err)
		os.Exit(1)
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz: --run:", err)
		os.Exit(2)
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !chosen.MatchString(t.folder + "." + t.name) })
	if targets, err = ofPart(targets, *part); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz: --part:", err)
		os.Exit(2)
	}
	each := *total / time.Duration(max(len(targets), 1))
	work, err := os.MkdirTemp("", "voxsaw-fuzz-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	built := programs{work: work, paths: map[string]string{}}
	failed := 0
	for _, t := range targets {
		fmt.Printf("%s %s\n", t.folder, t.name)
		if *list {
			continue
		}
		program, err := built.of(t.folder)
		if err == nil {
			err = t.fuzz(program, each, *workers)
		}
		if err == nil && *keep {
			err = t.keep()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "fuzz: %s %s: %v\n", t.folder, t.name, err)
			failed++
		}
	}
	_ = os.RemoveAll(work)
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "fuzz: %d of %d targets failed\n", failed, len(targets))
		os.Exit(1)
	}
}

var function = regexp.MustCompile(`^(.+)/[^/]+_test\.go:func (Fuzz\w+)\(`)

// find lists the targets of all test files.
func find() (targets []target, err error) {
	out, err := exec.Command("git", "grep", "--untracked", "-E", `^func Fuzz[A-Za-z0-9_]*\(`, "--",
		"*_test.go").Output()
	for line := range strings.Lines(string(out)) {
		if m := function.FindStringSubmatch(line); m != nil {
			targets = append(targets, target{m[1], m[2]})
		}
	}
	return targets, err
}

// ofPart are the targets of a part K/N: all parts together have each target once.
func ofPart(targets []target, part string) (some []target, err error) {
	var first, every int
	if n, err := fmt.Sscanf(part+"\n", "%d/%d\n", &first, &every); err != nil || n != 2 || first < 1 || first > every {
		return nil, fmt.Errorf("%q is no part such as 2/3", part)
	}
	for i := first - 1; i < len(targets); i += every {
		some = append(some, targets[i])
	}
	return some, nil
}

// programs are the tests of packages, compiled for fuzzing: once for all targets of a package.
type programs struct {
	work  string
	paths map[string]string // by folder
}

// of is the program of a folder's package.
func (p programs) of(folder string) (string, error) {
	if path, ok := p.paths[folder]; ok {
		return path, nil
	}
	path := filepath.Join(p.work, fmt.Sprintf("%d.test", len(p.paths)))
	out, err := exec.Command("go", "test", "-c", "-fuzz", ".", "-o", path, "./"+folder).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling: %w\n%s", err, out)
	}
	p.paths[folder] = path
	return path, nil
}

// fuzz runs a target of its package's program for a time.
func (t target) fuzz(program string, duration time.Duration, workers int) error {
	cache, _, err := t.folders()
	if err != nil {
		return err
	}
	// Go's default spends a minute on making every new input smaller, which leaves large ones no
	// time.
	smaller := min(duration/20, time.Second)
	// A process that an input ends leaves its temporary folder behind.
	temporary, err := os.MkdirTemp("", "voxsaw-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	cmd := exec.Command(program, "-test.run", "^$", "-test.fuzz", "^"+t.name+"$", "-test.fuzztime",
		duration.String(), "-test.fuzzminimizetime", smaller.String(), "-test.parallel", strconv.Itoa(workers),
		"-test.fuzzcachedir", filepath.Dir(cache))
	cmd.Dir, cmd.Env = t.folder, append(os.Environ(), "TMPDIR="+temporary)
	var printed bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &printed)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	if err != nil && onlyTheClock(printed.String()) {
		fmt.Printf("%s %s: no input failed; Go took the end of the time for a failure (golang/go#75804)\n", t.folder,
			t.name)
		return nil
	}
	return err
}

// Go up to 1.26 reports the end of -fuzztime as a failure now and then: the error of the clock
// stands alone under the target's name. A failing input is named, and its error is another.
var clock = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([0-9.]+s\)\n    context deadline exceeded\nFAIL$`)

// onlyTheClock reports whether what a target printed shows no failure but that of golang/go#75804.
func onlyTheClock(printed string) bool {
	return clock.MatchString(printed) && !strings.Contains(printed, "Failing input written to") &&
		!strings.Contains(printed, "panic:")
}

// keep copies inputs from the build cache to testdata/fuzz: of those that reach statements which
// the package's own do not, the smallest first.
func (t target) keep() error {
	cache, corpus, err := t.folders()
	if err != nil {
		return err
	}
	found, err := os.ReadDir(cache)
	if len(found) == 0 { // nothing, or not even a folder
		return nil
	}
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "voxsaw-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	program := filepath.Join(work, "fuzz.test")
	if out, err := exec.Command("go", "test", "-c", "-coverpkg", "./"+t.folder+"/...", "-o", program,
		"./"+t.folder).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	reached, err := t.reaches(program, work, "^"+t.name+"$")
	if err != nil {
		return err
	}
	kept, err := os.ReadDir(corpus)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.MkdirAll(corpus, 0o777); err != nil {
		return err
	}
	count := len(kept)
	for _, input := range smallest(cache, found) {
		if count >= mostKept {
			break
		}
		path := filepath.Join(corpus, filepath.Base(input))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		isNew, err := t.try(program, work, input, path, reached)
		if err != nil {
			return err
		}
		if isNew {
			count++
		}
	}
	_ = os.Remove(corpus) // where it is empty
	fmt.Printf("%s: %d inputs, %d of them new\n", corpus, count, count-len(kept))
	return nil
}

// folders are where Go keeps what it has found for a target, and where the package keeps inputs.
func (t target) folders() (cache, corpus string, err error) {
	env, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", "", err
	}
	path, err := exec.Command("go", "list", "./"+t.folder).Output()
	if err != nil {
		return "", "", err
	}
	cache = filepath.Join(strings.TrimSpace(string(env)), "fuzz", strings.TrimSpace(string(path)), t.name)
	return cache, filepath.Join(t.folder, "testdata", "fuzz", t.name), nil
}

// smallest lists the inputs of a folder that are not too large, the smallest first.
func smallest(dir string, inputs []os.DirEntry) (paths []string) {
	size := map[string]int64{}
	for _, e := range inputs {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() <= mostSize {
			size[path] = info.Size()
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if size[a] != size[b] {
			return int(size[a] - size[b])
		}
		return strings.Compare(a, b)
	})
	return paths
}

// try copies an input to the corpus, and takes it away again if it reaches nothing new.
func (t target) try(program, work, input, path string, reached map[string]bool) (isNew bool, err error) {
	data, err := os.ReadFile(input)
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		return false, err
	}
	all, err := t.reaches(program, work, "^"+t.name+"$/^"+filepath.Base(path)+"$")
	if err != nil {
		return false, err // the input stays: it fails
	}
	for block := range all {
		isNew = isNew || !reached[block]
		reached[block] = true
	}
	if !isNew {
		return false, os.Remove(path)
	}
	return true, nil
}

// reaches runs tests and lists the blocks of statements that they reach.
func (t target) reaches(program, work, tests string) (map[string]bool, error) {
	profile, err := filepath.Abs(filepath.Join(work, "profile"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-test.run", tests, "-test.coverprofile", profile)
	cmd.Dir = t.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", tests, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	blocks := map[string]bool{}
	for line := range strings.Lines(string(text)) { // file:from,to statements count
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] != "0" {
			blocks[fields[0]] = true
		}
	}
	return blocks, nil
}

//go:build linux && amd64

package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// temporaryName is a file's that has not got its name yet, or one's that says whose turn it is.
var temporaryName = regexp.MustCompile(`^\.(.+)\.(?:[0-9]+\.tmp|turn)$`)

var each = flag.Int("each", 1,
	"calls of each verb that fail, one a run, evenly over its calls that write; 0: every one")

var part = flag.String("part", "1/1", "of the calls of -each, those to make fail: 2/3 is the second third")

// callTests are the tests that count calls of the system.
func (b *bench) callTests() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){"EachCall": b.testEachCall}
}

// Each call that writes fails once: the verb says which file it was and ends with 1, or goes on and
// makes good what it could not do; nothing is left half-written, and the next run comes to the same
// end.
func (b *bench) testEachCall(t *testing.T) {
	r := rand.New(rand.NewPCG(*start, 4))
	var k, of int
	if _, err := fmt.Sscanf(*part, "%d/%d", &k, &of); err != nil || k < 1 || k > of {
		t.Fatalf("-part %s: want such as 2/3", *part)
	}
	stories := b.stories
	if *each == 1 {
		stories = b.shortStories(t)
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			all, err := plant{}.run(b.program, t.TempDir(), s.args)
			if err != nil {
				t.Skipf("processes may not be traced here: %v", err)
			}
			if all.exit != 0 || all.calls < len(s.want) {
				t.Fatalf("traced it ends with %d after %d calls\n%s", all.exit, all.calls, all.output)
			}
			tries := *each
			if tries == 0 || tries > all.calls {
				tries = all.calls
			}
			offset := 0
			if tries < all.calls {
				offset = r.IntN(all.calls / tries)
			}
			ends := map[int]int{}
			for n := (k - 1) * tries / of; n < k*tries/of; n++ {
				p := plant{nth: 1 + n*all.calls/tries + offset, code: []syscall.Errno{syscall.ENOSPC, syscall.EIO}[n%2]}
				ends[b.failOnce(t, s, p)]++
			}
			t.Logf("%d of %d calls failed (part %s), one a run: %d runs ended with 1, %d went on to their end",
				ends[0]+ends[1], all.calls, *part, ends[1], ends[0])
		})
	}
}

// failOnce runs a story with one call that fails, looks at what is there, and runs it again.
func (b *bench) failOnce(t *testing.T, s story, p plant) (exit int) {
	t.Helper()
	dir := t.TempDir()
	got, err := p.run(b.program, dir, s.args)
	if err != nil {
		t.Fatal(err)
	}
	if got.call == "" { // one call less than in the run before
		return got.exit
	}
	file := strings.TrimPrefix(got.path, dir+"/")
	if m := temporaryName.FindStringSubmatch(filepath.Base(file)); m != nil {
		file = filepath.Join(filepath.Dir(file), m[1])
	}
	history := "fault: " + got.call + " of " + file + " fails with " + p.code.Error()
	switch {
	case strings.Contains(got.output, "goroutine ") || got.exit != 0 && got.exit != 1:
		t.Errorf("%s, %s: exit code %d\n%s", s.name, history, got.exit, got.output)
	case got.exit == 1 && !strings.Contains(got.output, file):
		t.Errorf("%s, %s: the error does not name it\n%s", s.name, history, got.output)
	case got.exit == 0 && got.call != "unlink" && !strings.Contains(got.output, filepath.Base(file)):
		t.Errorf("%s, %s: nothing is said of it\n%s", s.name, history, got.output)
	}
	b.checkWhole(t, s, dir, got, history)
	b.end(t, s, dir, history)
	return got.exit
}

// checkWhole looks for what is half-written after a call has failed, before anything mends it.
func (b *bench) checkWhole(t *testing.T, s story, dir string, got outbreak, history string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "out")); errors.Is(err, fs.ErrNotExist) && got.exit == 1 {
		return
	}
	present := outcome(t, dir)
	for _, name := range slices.Sorted(maps.Keys(present)) {
		switch trained := s.resume != "" || s.name == "crossval" || s.name == "2d compare"; {
		case temporaryName.MatchString(filepath.Base(name)):
			if got.call != "unlink" {
				t.Errorf("%s, %s: left over: %s", s.name, history, name)
			}
		case present[name] != s.want[name] && (got.exit == 0 && !settled(s, name, history) ||
			got.exit == 1 && !trained):
			t.Errorf("%s, %s: %s is not what it should be", s.name, history, name)
		}
	}
	if _, last := present["last.safetensors"]; last && s.verified {
		if out, err := b.command(dir, []string{"verify", "out"}).CombinedOutput(); err != nil {
			t.Errorf("%s, %s, before it is run again: %v\n%s", s.name, history, err, out)
		}
	}
}

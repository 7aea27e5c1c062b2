//go:build unix

package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A power cut loses what was not synced, in any order. So whatever gets a name was synced before,
// and names are synced before something that counts on them gets its own.
func (b *bench) testOrder(t *testing.T) {
	traced := b.tracer(t)
	for _, s := range inTurn(t, b.stories) {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			trace := filepath.Join(dir, "trace")
			cmd := traced(s, dir, "-y", "-s", "0", "-o", trace, "-e", "trace="+strings.Join(watched, ","))
			cmd.Env = os.Environ() // with as many threads as there are
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			d := newDisk(dir)
			for _, line := range whole(string(text)) {
				d.see(line)
			}
			if lost := d.pending(); len(lost) > 0 {
				d.fault("at the end a power cut would lose %q", lost)
			}
			for _, fault := range d.faults {
				t.Error(fault)
			}
			if d.names < len(s.want) {
				t.Errorf("%d names were given, and %d files are there\n%s", d.names, len(s.want), text)
			}
		})
	}
}

// watched are the calls that change what a disk holds, and those that see to it that it lasts.
var watched = []string{"openat", "write", "pwrite64", "ftruncate", "fsync", "?mkdir", "mkdirat", "?rename", "?renameat",
	"renameat2"}

// whole lists the calls of a trace, with those put together that others came between.
func whole(trace string) (calls []string) {
	begun := map[string]string{}
	for line := range strings.Lines(trace) {
		thread, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if first, cut := strings.CutSuffix(call, "<unfinished ...>"); cut {
			begun[thread] = first
			continue
		}
		if _, rest, resumed := strings.Cut(call, " resumed>"); resumed {
			call = begun[thread] + rest
		}
		if !strings.Contains(call, ") = -1 ") && !strings.HasSuffix(call, "= ?") {
			calls = append(calls, call)
		}
	}
	return calls
}

// A disk keeps what POSIX promises and no more: of a file what was there at its last fsync, of a
// folder the names that it had at its own.
type disk struct {
	dir      string
	contents map[string]bool // files that were written to since they were synced
	folders  map[string]bool // with names that were not synced
	faults   []string
	names    int
}

func newDisk(dir string) *disk {
	return &disk{dir: dir, contents: map[string]bool{}, folders: map[string]bool{}}
}

var (
	called    = regexp.MustCompile(`^(\w+)\(`)
	opened    = regexp.MustCompile(`<([^>]*)>`)
	quoted    = regexp.MustCompile(`"([^"]*)"`)
	temporary = regexp.MustCompile(`/\.[^/]*\.tmp$`)
)

// see takes note of a call.
func (d *disk) see(call string) {
	name := called.FindStringSubmatch(call)
	if name == nil {
		return
	}
	var given []string
	for _, m := range quoted.FindAllStringSubmatch(call, -1) {
		if filepath.IsAbs(m[1]) {
			given = append(given, m[1])
		} else {
			given = append(given, filepath.Join(d.dir, m[1]))
		}
	}
	path := "" // of an open file
	if m := opened.FindStringSubmatch(call); m != nil {
		path = m[1]
	}
	switch name[1] {
	case "write", "pwrite64", "ftruncate":
		if d.below(path) {
			d.contents[path] = true
		}
	case "fsync":
		delete(d.contents, path)
		delete(d.folders, path)
	case "mkdir", "mkdirat":
		d.named(given[0])
	case "openat":
		if strings.Contains(call, "O_CREAT") && d.below(given[0]) && !temporary.MatchString(given[0]) {
			d.named(given[0])
		}
	case "rename", "renameat", "renameat2":
		d.rename(given[0], given[1])
	}
}

// counts are the files that stand for others: with one of them goes that the others are there.
var counts = []string{"manifest.json", "index.json", "last.safetensors", "run.json", "result.json", "scores.csv"}

func (d *disk) rename(from, to string) {
	if d.contents[from] {
		d.fault("%s gets its name before it is synced", filepath.Base(to))
		delete(d.contents, from)
	}
	if lost := d.pending(); len(lost) > 0 && slices.Contains(counts, filepath.Base(to)) {
		d.fault("%s gets its name while a power cut would lose %q", filepath.Base(to), lost)
	}
	d.named(to)
}

// fault notes what is wrong, once.
func (d *disk) fault(format string, args ...any) {
	if fault := fmt.Sprintf(format, args...); !slices.Contains(d.faults, fault) {
		d.faults = append(d.faults, fault)
	}
}

// named notes a new name, which its folder holds.
func (d *disk) named(path string) {
	d.names++
	d.folders[filepath.Dir(path)] = true
}

func (d *disk) below(path string) bool { return strings.HasPrefix(path, d.dir+"/") }

// pending lists what would be lost.
func (d *disk) pending() []string {
	var lost []string
	for path := range d.contents {
		if !temporary.MatchString(path) {
			lost = append(lost, "contents of "+strings.TrimPrefix(path, d.dir))
		}
	}
	for path := range d.folders {
		lost = append(lost, "names in "+strings.TrimPrefix(path, d.dir))
	}
	slices.Sort(lost)
	return lost
}

package commandtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/train"
)

// pauseAt names a pattern: the process that writes it to standard error waits there for its signal,
// so that a test decides where a run is interrupted.
const pauseAt = "VOXSAW_TEST_PAUSE_AT"

// processorTime is the time that the process has had of the processors; nil where the system does
// not tell.
var processorTime func() time.Duration

// ProcessorClock times trainings and their --hours by the time that the process has had of the
// processors, which others cannot take from it: what fits into it fits on a busy machine, too.
func ProcessorClock() {
	if processorTime != nil {
		begun := time.Now()
		train.Now = func() time.Time { return begun.Add(processorTime()) }
	}
}

// voxsawMain is the command voxsaw. Whatever it writes to people must read well, in every script.
func voxsawMain() {
	stdout, stderr := &reading{Writer: os.Stdout}, &reading{Writer: os.Stderr}
	memory.BoundGarbage()
	ProcessorClock()
	code := command(os.Args[1:], stdout, paused(stderr))
	for _, line := range append(stdout.clumsy(), stderr.clumsy()...) {
		fmt.Fprintf(os.Stderr, "this does not read well: %s\n", line)
		code = exitClumsy
	}
	os.Exit(code)
}

// exitClumsy is the exit code, in tests alone, of a command whose words do not read well.
const exitClumsy = 99

// clumsy is what no line for people has: a plural of one, and lists as Go writes them.
var clumsy = regexp.MustCompile(
	`(?:^|[^0-9.,+x-])\b1 (?:cases|steps|scans|folds|runs|labels|files|trials|seeds|channels|classes|patients|crops|puzzles|photographs|voxels|levels|stages|structures|predictions|references|series are|of the cases have)\b|\[-?[0-9.]+(?: -?[0-9.]+)+\]|map\[|%!|\{[A-Z][A-Za-z]*:|0x[0-9a-f]{6}`,
)

// reading passes on what is written, and remembers it.
type reading struct {
	io.Writer
	text bytes.Buffer
}

func (r *reading) Write(text []byte) (int, error) {
	r.text.Write(text)
	return r.Writer.Write(text)
}

// clumsy lists the lines that do not read well. JSON is for programs.
func (r *reading) clumsy() (lines []string) {
	for line := range strings.Lines(r.text.String()) {
		if start := strings.TrimSpace(line); clumsy.MatchString(line) && !strings.HasPrefix(start, "{") &&
			!strings.HasPrefix(start, `"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// paused is the writer that waits where a test says so.
func paused(w io.Writer) io.Writer {
	if pattern := os.Getenv(pauseAt); pattern != "" {
		return PauseAt(w, pattern)
	}
	return w
}

// Pausing passes on what is written. Whoever writes the first match is blocked until somebody else
// has written that the process is stopping.
type Pausing struct {
	io.Writer
	at        *regexp.Regexp
	paused    atomic.Bool
	signalled chan struct{}
}

// PauseAt is a writer in front of another one, with a pattern.
func PauseAt(w io.Writer, pattern string) *Pausing {
	return &Pausing{Writer: w, at: regexp.MustCompile(pattern), signalled: make(chan struct{})}
}

// Paused says whether the pattern was written.
func (p *Pausing) Paused() bool { return p.paused.Load() }

func (p *Pausing) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	switch {
	case bytes.HasPrefix(text, []byte("stopping;")):
		close(p.signalled)
	case p.at.Match(text) && !p.paused.Swap(true):
		<-p.signalled
	}
	return n, err
}

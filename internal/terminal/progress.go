package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows how far a piece of work has come. Its methods may be called from any goroutine;
// after Finish they do nothing.
type Progress interface {
	Add(n int)            // n more are done; 0: what Describe said is to be shown
	Skip(n int)           // n were done before: they count as done, but not for the speed
	Describe(text string) // what is shown beside the count, such as the loss
	Note(text string)     // a line of its own, which stays
	Finish()              // the end, of all or of what was done
}

// every is how often a line is written where there is no terminal.
const every = 5 * time.Second

// NewProgress starts to show the progress of total pieces on w, usually standard error: a bar with
// the time left on a terminal, otherwise a line every few seconds and one at the end.
func NewProgress(w io.Writer, name string, total int) Progress {
	w = past(w)
	p := &progress{w: w, name: clean(name), total: total, start: time.Now(), now: time.Now}
	p.last = p.start
	if IsTerminal(w) {
		p.bar = newBar(w, p, mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

type progress struct {
	w     io.Writer
	name  string
	total int
	now   func() time.Time
	bar   *bar // nil: lines

	drawing sync.Mutex // one caller at a time; held while the bar is told
	last    time.Time  // of the last line

	state         sync.Mutex // of what follows: the bar, which draws on its own, takes this one
	done, skipped int
	text          string
	start         time.Time
	finished      bool
}

type bar struct {
	screen *mpb.Progress
	bar    *mpb.Bar
}

// newBar draws name ━━━━━── 120/500  loss 0.53  1 min 20 s left.
func newBar(w io.Writer, p *progress, options ...mpb.ContainerOption) *bar {
	screen := mpb.New(append([]mpb.ContainerOption{mpb.WithOutput(w)}, options...)...)
	style := mpb.BarStyle().Lbound("").Rbound("").Filler("━").Tip("━").Padding("─")
	// a bar that is made without a total ends when it is told to, not when it is full
	b := screen.New(0, style,
		mpb.BarWidth(24),
		mpb.PrependDecorators(decor.Name(p.name+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.describe() })),
	)
	b.SetTotal(int64(p.total), false)
	return &bar{screen, b}
}

func (p *progress) Add(n int)  { p.move(n, 0) }
func (p *progress) Skip(n int) { p.move(n, n) }

func (p *progress) move(n, skipped int) {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	p.state.Lock()
	if !p.finished {
		p.done += n
		p.skipped += skipped
	}
	done, finished := p.done, p.finished
	p.state.Unlock()
	switch now := p.now(); {
	case finished:
	case p.bar != nil:
		p.bar.bar.SetCurrent(int64(done))
	case now.Sub(p.last) >= every && (done < p.total || n == 0): // the last line is Finish's
		p.last = now
		fmt.Fprintf(p.w, "%s: %s\n", p.name, p.describe())
	}
}

func (p *progress) Describe(text string) {
	p.state.Lock()
	defer p.state.Unlock()
	p.text = clean(text)
}

func (p *progress) Note(text string) {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	p.state.Lock()
	finished := p.finished
	p.state.Unlock()
	if p.bar != nil && !finished {
		fmt.Fprintln(p.bar.screen, clean(text))
		return
	}
	fmt.Fprintln(p.w, clean(text))
}

func (p *progress) Finish() {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	p.state.Lock()
	before, all, none := p.finished, p.done >= p.total, p.done == 0
	p.finished = true
	p.state.Unlock()
	switch {
	case before, p.bar == nil && none: // work that was refused before it began
	case p.bar == nil:
		fmt.Fprintf(p.w, "%s: %s\n", p.name, p.describe())
	case all:
		p.bar.bar.SetTotal(-1, true)
		p.bar.screen.Wait()
	default:
		p.bar.bar.Abort(none)
		p.bar.screen.Wait()
	}
}

// describe says how much is done, what Describe said, and the time left at the mean speed so far,
// or, at the end, the time it took.
func (p *progress) describe() string {
	p.state.Lock()
	defer p.state.Unlock()
	text := fmt.Sprintf("%d/%d", p.done, p.total)
	if p.text != "" {
		text += "  " + p.text
	}
	elapsed := p.now().Sub(p.start)
	switch fresh := p.done - p.skipped; {
	case p.finished || p.done >= p.total:
		text += "  in " + Duration(elapsed)
	case fresh > 0:
		left := time.Duration(float64(elapsed) / float64(fresh) * float64(p.total-p.done))
		text += "  " + Duration(max(left.Round(time.Second), time.Second)) + " left"
	}
	return text
}

package train

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// An Observer is told how a run gets on. Its methods are called from the goroutine of [Run].
type Observer interface {
	Started(step, steps int)
	Stepped(Progress)
	Validated(step int, v Validation, best bool)
	Saved(path string, step int)
	Note(message string)
}

// Progress is a step that has just been done.
type Progress struct {
	Step, Steps    int // steps done, steps in all
	Loss           float64
	Rate, GradNorm float64
	Metrics        []Metric
	Items          int           // puzzles or crops in the step
	Elapsed        time.Duration // since the run was started or resumed
	Remaining      time.Duration // at the mean speed so far
	WaitShare      float64       // of the time since then, spent waiting for data
}

// Lines returns an observer that writes plain lines: one for every so many steps, with the mean
// loss and metrics since the last one, and one for each validation.
func Lines(w io.Writer, every int) Observer { return &lines{w: w, every: max(every, 1)} }

type lines struct {
	w            io.Writer
	every        int
	loss         float64
	metrics      []Metric // sums
	steps, items int
	since        time.Duration
}

func (l *lines) Started(step, steps int) {
	if step > 0 {
		fmt.Fprintf(l.w, "continuing at step %d of %d\n", step, steps)
	}
}

func (l *lines) Stepped(p Progress) {
	l.loss, l.steps, l.items = l.loss+p.Loss, l.steps+1, l.items+p.Items
	if l.metrics == nil {
		l.metrics = make([]Metric, len(p.Metrics))
	}
	for i, m := range p.Metrics {
		l.metrics[i] = Metric{m.Name, l.metrics[i].Value + m.Value}
	}
	if p.Step%l.every != 0 && p.Step != p.Steps {
		return
	}
	for i := range l.metrics {
		l.metrics[i].Value /= float64(l.steps)
	}
	speed := float64(l.items) / max((p.Elapsed-l.since).Seconds(), 1e-9)
	fmt.Fprintf(l.w, "step %d/%d loss %.4f%s lr %.2e gradient %.2f, %.2f items/s, waiting %.0f %%, %s left\n", p.Step, p.Steps, l.loss/float64(l.steps), text(l.metrics),
		p.Rate, p.GradNorm, speed, 100*p.WaitShare, p.Remaining.Round(time.Second))
	*l = lines{w: l.w, every: l.every, since: p.Elapsed}
}

func (l *lines) Validated(step int, v Validation, best bool) {
	note := ""
	if best {
		note = ", the best so far"
	}
	fmt.Fprintf(l.w, "validation after step %d:%s%s\n", step, text(v.Metrics), note)
}

func (l *lines) Saved(path string, step int) {}

func (l *lines) Note(message string) { fmt.Fprintln(l.w, message) }

func text(metrics []Metric) string {
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, " %s %.4g", m.Name, m.Value)
	}
	return b.String()
}

// silent is the observer of a run that has none.
type silent struct{}

func (silent) Started(int, int)                {}
func (silent) Stepped(Progress)                {}
func (silent) Validated(int, Validation, bool) {}
func (silent) Saved(string, int)               {}
func (silent) Note(string)                     {}

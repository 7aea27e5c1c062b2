package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// trainProgress shows a training on standard error: a bar with loss, speed and time left, and a
// line that stays for every validation.
type trainProgress struct {
	w    io.Writer
	name string
	unit string // "puzzles", "crops"
	bar  terminal.Progress
	loss float64 // running mean over about 50 steps
	text string  // of loss and speed
	from int     // the step that this sitting began at
	told bool    // how long it will take
	// of this sitting, when its first step was done
	first time.Duration
}

var _ voxsaw.Observer = (*trainProgress)(nil)

func newTrainProgress(w io.Writer, name, unit string) *trainProgress {
	return &trainProgress{w: w, name: name, unit: unit}
}

func (t *trainProgress) Started(step, steps int) {
	t.bar = terminal.NewProgress(t.w, t.name, steps)
	t.bar.Skip(step)
	t.from = step
	if step > 0 {
		t.bar.Note(fmt.Sprintf("%s: continuing at step %d of %d", t.name, step, steps))
	}
}

func (t *trainProgress) Stepped(p voxsaw.Progress) {
	t.loss = cmp.Or(t.loss, p.Loss)
	t.loss += (p.Loss - t.loss) / 50
	speed := float64(p.Items*(p.Step-t.from)) / max(p.Elapsed.Seconds(), 1e-9)
	t.text = fmt.Sprintf("loss %.3f, %.2f %s/s", t.loss, speed, t.unit)
	t.bar.Describe(t.text)
	if !t.told {
		t.tell(p)
	}
	t.bar.Add(1)
}

// How long a training must have run, without its first step, before it is said how long all of it
// takes, and how long that must be to be worth a line.
const (
	tellAfter = 2 * time.Second
	worthTell = time.Minute
	fewSteps  = 3 // are no measure, unless they are slow
)

// tell says how long the training will take, as soon as a few steps or a long one say it. The first
// step is left out, for it is slower than the others: memory is new, and no crop is ready.
func (t *trainProgress) tell(p voxsaw.Progress) {
	if t.first == 0 {
		t.first = p.Elapsed
		return
	}
	if measured := p.Elapsed - t.first; measured < tellAfter || p.Step-t.from <= fewSteps && measured < worthTell {
		return
	}
	t.told = true
	if note := t.whole(p); note != "" {
		t.bar.Note(note)
	}
}

// whole says how long the training will take; "" where that is not long.
func (t *trainProgress) whole(p voxsaw.Progress) string {
	step := (p.Elapsed - t.first) / time.Duration(max(p.Step-t.from-1, 1))
	left := t.first + time.Duration(p.Steps-t.from-1)*step
	if left < worthTell {
		return ""
	}
	text := fmt.Sprintf("%s: about %s for %s, at %s a step; validations come on top", t.name, terminal.Duration(left),
		numbers.Count(p.Steps-t.from, "step"), terminal.Duration(step))
	if left > time.Hour && (t.name == "pretrain" || t.name == "finetune") {
		text += "; --hours 3 trains for as many steps as fit"
	}
	return text
}

// Validating takes the place of loss and speed until the validation is done.
func (t *trainProgress) Validating(_, done, of int) {
	t.bar.Describe(fmt.Sprintf("validating, %d of %d", done, of))
	t.bar.Add(0)
}

func (t *trainProgress) Validated(step int, v voxsaw.Validation, best bool) {
	t.bar.Describe(t.text)
	var b strings.Builder
	for i, m := range v.Metrics {
		if i == 8 { // the rest is in validation.csv
			b.WriteString(", ...")
			break
		}
		if math.IsNaN(m.Value) {
			fmt.Fprintf(&b, ", %s not measured", m.Name)
			continue
		}
		fmt.Fprintf(&b, ", %s %.4g", m.Name, m.Value)
	}
	if best {
		b.WriteString(" (best so far)")
	}
	t.bar.Note(fmt.Sprintf("%s: after step %d%s", t.name, step, b.String()))
}

func (t *trainProgress) Saved(string, int) {}

func (t *trainProgress) Note(message string) {
	if t.bar == nil {
		say(t.w, "%s", message)
		return
	}
	t.bar.Note(message)
}

func (t *trainProgress) finish() {
	if t.bar != nil {
		t.bar.Finish()
	}
}

// oneByOne shows the progress of cases that begin one after another; how many there are is known
// with the first. end is told whether the last one has ended, too.
func oneByOne(w io.Writer, name string) (begin func(id string, of int), end func(error)) {
	var bar terminal.Progress
	begin = func(id string, of int) {
		if bar == nil {
			bar = terminal.NewProgress(w, name, of)
		} else {
			bar.Add(1)
		}
		bar.Describe(id)
	}
	return begin, func(err error) {
		if bar == nil {
			return
		}
		if err == nil {
			bar.Add(1)
		}
		bar.Finish()
	}
}

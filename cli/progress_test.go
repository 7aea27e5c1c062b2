package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
)

// A long training begins with the time that all of it takes; it is told once.
func TestProgressBeginsWithTheWholeTime(t *testing.T) {
	for want, c := range map[string]struct {
		from, steps int
		elapsed     time.Duration // of each step
		first       time.Duration // of the first one, more than that
	}{
		"pretrain: about 5 h 20 min for 1000 steps, at 19.2 s a step; validations come on top; --hours 3": {0, 1000,
			19200 * time.Millisecond, 0},
		"pretrain: about 3 min 20 s for 100 steps, at 2.0 s a step; validations come on top\n": {900, 1000,
			2 * time.Second, 0},
		"": {0, 20, time.Second, 0}, // not worth a line
		// the first step, which is slow, is counted once
		"pretrain: about 3 min 25 s for 100 steps, at 2.0 s a step; validations": {0, 100, 2 * time.Second,
			5 * time.Second},
	} {
		var out bytes.Buffer
		p := newTrainProgress(&out, "pretrain", "puzzles")
		p.Started(c.from, c.steps)
		for n := 1; n <= 4; n++ {
			p.Stepped(voxsaw.Progress{Step: c.from + n, Steps: c.steps, Items: 2, Loss: 1,
				Elapsed: c.first + time.Duration(n)*c.elapsed})
		}
		if told := strings.Count(out.String(), "about"); !strings.Contains(out.String(), want) || told > 1 ||
			told == 1 && want == "" {
			t.Errorf("want %q, got\n%s", want, out.String())
		}
	}
}

// A validation that takes long is not silent, not even the last one. It ends with what was shown
// before it.
func TestValidationShowsHowItGetsOn(t *testing.T) {
	r := &reporter{Observer: newTrainProgress(io.Discard, "finetune", "crops"), last: time.Now()}
	bar := &shownTexts{}
	p := r.Observer.(*trainProgress)
	p.bar = bar
	p.Stepped(voxsaw.Progress{Step: 1, Steps: 1, Items: 2, Loss: 1, Elapsed: time.Second})
	e := newEvents(io.Discard, r)
	for done := range 3 {
		e.Validating(1, done, 2)
	}
	e.Validated(1, voxsaw.Validation{}, false)
	if want := []string{"loss 1.000, 2.00 crops/s", "validating, 0 of 2", "validating, 1 of 2", "validating, 2 of 2",
		"loss 1.000, 2.00 crops/s"}; !slices.Equal(bar.texts, want) {
		t.Errorf("shown %q, want %q", bar.texts, want)
	}
	if bar.drawn != 4 {
		t.Errorf("drawn %d times, want 4: once for the step, then for the validation", bar.drawn)
	}
}

// shownTexts is a bar that remembers what it shows.
type shownTexts struct {
	texts []string
	drawn int
}

func (s *shownTexts) Add(int)              { s.drawn++ }
func (s *shownTexts) Skip(int)             {}
func (s *shownTexts) Describe(text string) { s.texts = append(s.texts, text) }
func (s *shownTexts) Note(string)          {}
func (s *shownTexts) Finish()              {}

package main

import (
	"bytes"
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
		"pretrain: about 5 h 20 min for 1000 steps, at 19.2 s a step; validations come on top; voxsaw doctor": {0, 1000, 19200 * time.Millisecond, 0},
		"pretrain: about 3 min 20 s for 100 steps, at 2.0 s a step; validations come on top\n":                {900, 1000, 2 * time.Second, 0},
		"": {0, 20, time.Second, 0}, // not worth a line
		// the first step, which is slow, is counted once
		"pretrain: about 3 min 25 s for 100 steps, at 2.0 s a step; validations": {0, 100, 2 * time.Second, 5 * time.Second},
	} {
		var out bytes.Buffer
		p := newTrainProgress(&out, "pretrain", "puzzles")
		p.Started(c.from, c.steps)
		for n := 1; n <= 4; n++ {
			p.Stepped(voxsaw.Progress{Step: c.from + n, Steps: c.steps, Items: 2, Loss: 1, Elapsed: c.first + time.Duration(n)*c.elapsed})
		}
		if told := strings.Count(out.String(), "about"); !strings.Contains(out.String(), want) || told > 1 || told == 1 && want == "" {
			t.Errorf("want %q, got\n%s", want, out.String())
		}
	}
}

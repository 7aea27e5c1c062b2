package bench

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile is where the time of a step goes.
type Profile struct {
	Seconds float64 `json:"seconds"` // of the mean step
	Entries []Entry `json:"entries"` // in the order of a step
	Kinds   []Entry `json:"kinds"`   // the same, kernels of a kind added up, the slowest first
}

// Entry is a kernel, or all of a kind, in a step.
type Entry struct {
	Name    string  `json:"name"`
	Phase   string  `json:"phase"` // forward, backward, host or update
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	FLOPs   float64 `json:"flop"`  // of direct arithmetic; 0 where nobody counts
	Bytes   float64 `json:"bytes"` // that it reads and writes, see exec.StepTime
}

// The phases of a step.
const (
	Forward  = "forward"
	Backward = "backward"
	Host     = "host"   // what the host moves in and out of a program
	Update   = "update" // the optimiser
)

func newProfile(s Steps, steps []time.Duration, update time.Duration) *Profile {
	n := float64(len(steps))
	p := &Profile{}
	for _, d := range steps {
		p.Seconds += d.Seconds() / n
	}
	for _, program := range s.Programs {
		forward, all := program.Summary().ForwardSteps, program.Summary().Steps
		for i, t := range program.Times() {
			if t.Calls == 0 {
				continue
			}
			phase := Host
			switch {
			case i < forward:
				phase = Forward
			case i < all:
				phase = Backward
			}
			calls := float64(t.Calls) / n
			p.Entries = append(p.Entries, Entry{Name: t.Name, Phase: phase, Calls: max(1, int(calls+0.5)),
				Seconds: t.Seconds / n, FLOPs: t.FLOPs * calls, Bytes: t.Bytes * calls})
		}
	}
	if s.Update != nil {
		p.Entries = append(p.Entries, Entry{Name: "optimiser", Phase: Update, Calls: 1, Seconds: update.Seconds() / n})
	}
	p.Kinds = kinds(p.Entries)
	return p
}

// Accounted is the share of the step that its entries add up to.
func (p *Profile) Accounted() float64 {
	sum := 0.0
	for _, e := range p.Entries {
		sum += e.Seconds
	}
	return sum / p.Seconds
}

// particular matches what tells two kernels of a kind apart in their names: sizes, and the
// parameter that is updated.
var particular = regexp.MustCompile(` \d+x\d+->\d+\b| of [\dx]+$| \d+(x\d+)*$| \S+\.\S+$`)

// kinds adds up kernels of a kind.
func kinds(entries []Entry) []Entry {
	type key struct{ name, phase string }
	at := map[key]int{}
	var out []Entry
	for _, p := range entries {
		p.Name = strings.TrimSpace(particular.ReplaceAllString(p.Name, ""))
		k := key{p.Name, p.Phase}
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			out = append(out, p)
			continue
		}
		o := &out[i]
		o.Calls, o.Seconds, o.FLOPs, o.Bytes = o.Calls+p.Calls, o.Seconds+p.Seconds, o.FLOPs+p.FLOPs, o.Bytes+p.Bytes
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return out
}

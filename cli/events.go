package cli

import (
	"io"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// events writes what happens in a training as JSON, one line an event, and passes it on.
type events struct {
	voxsaw.Observer
	w      io.Writer
	failed error // of writing
}

func newEvents(w io.Writer, next voxsaw.Observer) *events { return &events{Observer: next, w: w} }

// An event is one line. What it is says which of the others are there.
type event struct {
	Event     string              `json:"event"`
	Step      int                 `json:"step"`
	Steps     int                 `json:"steps,omitempty"`
	Loss      *float64            `json:"loss,omitempty"` // null where it is no number
	LR        *float64            `json:"lr,omitempty"`
	GradNorm  *float64            `json:"grad_norm,omitempty"`
	Score     *float64            `json:"score,omitempty"`
	Best      *float64            `json:"best,omitempty"`
	BestStep  int                 `json:"best_step,omitempty"`
	IsBest    bool                `json:"is_best,omitempty"`
	Metrics   map[string]*float64 `json:"metrics,omitempty"`
	FLOPs     float64             `json:"flops,omitempty"`
	Elapsed   *float64            `json:"elapsed_seconds,omitempty"`
	Remaining *float64            `json:"remaining_seconds,omitempty"`
	Path      string              `json:"path,omitempty"`
	Text      string              `json:"text,omitempty"`
}

func (e *events) write(v event) {
	if err := printJSONLine(e.w, v); err != nil && e.failed == nil {
		e.failed = err
	}
}

// number is a number as JSON has it; nil where it is none.
func number(x float64) *float64 {
	if !numbers.Finite(x) {
		return nil
	}
	return &x
}

func seconds(d time.Duration) *float64 { return number(d.Seconds()) }

func named(metrics []voxsaw.Metric) map[string]*float64 {
	m := map[string]*float64{}
	for _, x := range metrics {
		m[x.Name] = number(x.Value)
	}
	return m
}

func (e *events) Started(step, steps int) {
	e.write(event{Event: "started", Step: step, Steps: steps})
	e.Observer.Started(step, steps)
}

func (e *events) Stepped(p voxsaw.Progress) {
	e.write(event{
		Event: "step", Step: p.Step, Steps: p.Steps, Loss: number(p.Loss), LR: number(p.Rate),
		GradNorm: number(p.GradNorm), Metrics: named(p.Metrics),
		Elapsed: seconds(p.Elapsed), Remaining: seconds(p.Remaining),
	})
	e.Observer.Stepped(p)
}

// Validating is no event: it is for people.
func (e *events) Validating(step, done, of int) { passValidating(e.Observer, step, done, of) }

// passValidating passes on how a validation gets on, to who wants to know.
func passValidating(o voxsaw.Observer, step, done, of int) {
	if v, ok := o.(voxsaw.ValidationObserver); ok {
		v.Validating(step, done, of)
	}
}

func (e *events) Validated(step int, v voxsaw.Validation, best bool) {
	validated := event{Event: "validated", Step: step, IsBest: best, Metrics: named(v.Metrics)}
	if !v.Unscored {
		validated.Score = number(v.Score)
	}
	e.write(validated)
	e.Observer.Validated(step, v, best)
}

func (e *events) Saved(path string, step int) {
	e.write(event{Event: "saved", Step: step, Path: path})
	e.Observer.Saved(path, step)
}

func (e *events) Note(text string) {
	e.write(event{Event: "note", Text: text})
	e.Observer.Note(text)
}

// scored tells the scores at the end of a training, and the file that has them.
func (e *events) scored(path string, step int, p puzzle2d.Precision) {
	e.write(event{Event: "scored", Step: step, Path: path,
		Metrics: map[string]*float64{"map_11_points": number(p.ElevenPoints), "map_area": number(p.Area)}})
}

// finished is the last line of a training that came to its end.
func (e *events) finished(folder string, s voxsaw.Summary) error {
	v := event{Event: "finished", Step: s.Step, Path: folder, Elapsed: seconds(s.Elapsed), FLOPs: s.FLOPs}
	if s.BestStep > 0 {
		v.BestStep, v.Best, v.Score, v.Metrics = s.BestStep, number(s.Best), number(s.Validation.Score),
			named(s.Validation.Metrics)
	}
	e.write(v)
	return e.failed
}

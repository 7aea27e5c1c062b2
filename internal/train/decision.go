package train

import (
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
)

// A Report is what a step has left on the device for the loop to download together with what comes
// of the step, so that the host waits once.
type Report struct {
	Loss   device.Buffer // one element
	Values device.Buffer // N elements, such as a loss's statistics
	N      int
	// Metrics makes the step's metrics of the values.
	Metrics func(values []float32) []voxsaw.Metric
}

// decision is how the device itself decides on a step.
type decision struct {
	dev              device.StepDecider
	planned, verdict device.Buffer
	host             []float32 // the verdict
	spec             device.DecideSpec
	kernel           device.Kernel // for spec; nil: not yet made
}

// prepare takes the memory.
func (d *decision) prepare(s *optimizer) (err error) {
	frozen, pitch := s.rule.frozen(), int(d.dev.Alignment()/4)
	d.spec = device.DecideSpec{
		Squares: len(s.spans), Rates: len(s.rates), Width: len(frozen), Pitch: pitch, Factor: s.rule.factor(),
		One: slices.Index(frozen, 1), Clip: float32(s.options.Clip),
	}
	d.planned, err = d.dev.Alloc(4 * int64(pitch*len(s.rates)))
	return err
}

// fit makes the kernel for reports of a kind, and takes memory for its verdict.
func (d *decision) fit(loss bool, values int) (err error) {
	if d.kernel != nil && d.spec.Loss == loss && d.spec.Values == values {
		return nil
	}
	d.spec.Loss, d.spec.Values = loss, values
	if d.kernel, err = d.dev.DecideStep(d.spec); err != nil {
		return err
	}
	if n := 3 + values; n > len(d.host) {
		if d.verdict != nil {
			d.dev.Free(d.verdict)
			d.verdict = nil
		}
		d.host = make([]float32, n)
		d.verdict, err = d.dev.Alloc(4 * int64(n))
	}
	return err
}

// take starts the whole step, and then waits for its verdict: the one download.
func (d *decision) take(s *optimizer, step int, report *Report) (Outcome, error) {
	in := []device.Buffer{s.squares, d.planned}
	values := 0
	if report != nil {
		in, values = append(in, report.Loss), report.N
		if values > 0 {
			in = append(in, report.Values)
		}
	}
	err := d.fit(report != nil, values)
	if err == nil {
		err = s.set(step, 1)
	}
	if err != nil {
		return Outcome{}, err
	}
	d.kernel.Run([]device.Buffer{d.verdict, s.hyper}, in, s.scratch)
	if err := s.update(); err != nil {
		return Outcome{}, err
	}
	host := d.host[:3+values]
	if err := d.dev.DownloadPlain(host, d.verdict, 0); err != nil {
		return Outcome{}, err
	}
	return Outcome{Norm: float64(host[0]), Taken: host[1] != 0, Loss: float64(host[2]), Values: host[3:]}, nil
}

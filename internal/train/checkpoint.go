package train

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/train/safetensors"
)

// velocityPrefix marks the optimiser's tensors in a checkpoint that a run can be resumed from.
const velocityPrefix = "optimizer.velocity/"

// Meta is what a checkpoint says about itself.
type Meta struct {
	Identity
	Step      int // steps that the weights have seen
	Validated int // the last step that was validated
	BestStep  int // the step with the highest score so far; 0 if nothing has been validated
	Best      float64
}

// strings is the form in which a Meta lies in the file.
func (m Meta) strings() map[string]string {
	return map[string]string{
		"kind": m.Kind, "config": m.Config, "version": m.Version, "device": m.Device, "fingerprint": m.Fingerprint,
		"step": strconv.Itoa(m.Step), "validated": strconv.Itoa(m.Validated),
		"best_step": strconv.Itoa(m.BestStep), "best": strconv.FormatFloat(m.Best, 'g', -1, 64),
	}
}

func parseMeta(s map[string]string) (Meta, error) {
	m := Meta{Identity: Identity{Kind: s["kind"], Config: s["config"], Version: s["version"], Device: s["device"], Fingerprint: s["fingerprint"]}}
	var err error
	for key, to := range map[string]*int{"step": &m.Step, "validated": &m.Validated, "best_step": &m.BestStep} {
		if *to, err = strconv.Atoi(s[key]); err != nil || *to < 0 {
			return m, fmt.Errorf("not a checkpoint of this program: its metadata has no usable %q", key)
		}
	}
	if m.Best, err = strconv.ParseFloat(s["best"], 64); err != nil {
		return m, errors.New(`not a checkpoint of this program: its metadata has no usable "best"`)
	}
	return m, nil
}

// SaveCheckpoint writes the parameters and states to one safetensors file, atomically.
func SaveCheckpoint(path string, params Params, meta Meta) error {
	return writeCheckpoint(path, params, nil, meta)
}

// writeCheckpoint also writes the optimiser's velocity, if it is given. Weights that are not finite
// are no checkpoint: the one before is kept.
func writeCheckpoint(path string, params Params, velocity device.Buffer, meta Meta) error {
	var tensors []safetensors.Tensor
	var values []float32 // of one tensor at a time: memory may be short
	for _, name := range params.Names() {
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: params.Shape(name), Values: func() (_ []float32, err error) {
			values, err = params.ReadInto(name, values)
			if err == nil && slices.ContainsFunc(values, func(v float32) bool { return !numbers.Finite(float64(v)) }) {
				err = fmt.Errorf("not all of it is finite after step %d: the training has diverged: lower the learning rate", meta.Step)
			}
			return values, err
		}})
	}
	for _, name := range params.Names() {
		offset, n, trained := params.Range(name)
		if velocity == nil || !trained {
			continue
		}
		tensors = append(tensors, safetensors.Tensor{Name: velocityPrefix + name, Shape: params.Shape(name), Values: func() ([]float32, error) {
			dev, shape := params.Device(), params.Shape(name)
			values = slices.Grow(values[:0], shape.Elements())[:shape.Elements()]
			return values, dev.DownloadWeights(values, dev.View(velocity, offset, n), shape, 0)
		}})
	}
	return atomicfile.Write(path, func(w io.Writer) error { return safetensors.Write(w, meta.strings(), tensors) })
}

// restore sets every parameter, state and velocity from a checkpoint of the same model; anything
// missing or misshapen is an error.
func restore(path string, params Params, velocity device.Buffer) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var values []float32 // of one tensor at a time
	read := func(name string, shape device.Shape) (err error) {
		if !f.Has(name) || !shape.Equal(f.Shape(name)) {
			return fmt.Errorf("%s: tensor %q has shape %v, need %v: the run cannot be resumed with this network", path, name, f.Shape(name), shape)
		}
		values, err = f.ReadInto(name, values)
		return err
	}
	for _, name := range params.Names() {
		if err := read(name, params.Shape(name)); err != nil {
			return err
		}
		if err := params.Write(name, values); err != nil {
			return err
		}
		offset, n, trained := params.Range(name)
		if !trained {
			continue
		}
		if err := read(velocityPrefix+name, params.Shape(name)); err != nil {
			return err
		}
		dev := params.Device()
		if err := dev.UploadWeights(dev.View(velocity, offset, n), params.Shape(name), 0, values); err != nil {
			return err
		}
	}
	return nil
}

// ReadMeta reads what a checkpoint says about itself.
func ReadMeta(path string) (Meta, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Meta{}, err
	}
	defer f.Close()
	m, err := parseMeta(f.Metadata)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// A Report says what became of the tensors of a checkpoint and of the parameters of a network.
type Report struct {
	Path    string
	Loaded  []string // parameters and states that have the checkpoint's values now
	Skipped []Skip   // tensors of the checkpoint that were not used
	Missing []string // parameters and states that were wanted and are not in the checkpoint
}

// A Skip is a tensor that was not used, and why.
type Skip struct{ Name, Reason string }

// String is the report for a person: a line of counts, then a line for each group of names with the
// same fate.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d tensors loaded, %d skipped, %d missing", r.Path, len(r.Loaded), len(r.Skipped), len(r.Missing))
	if len(r.Loaded) > 0 {
		fmt.Fprintf(&b, "\n  loaded: %s", summary(r.Loaded))
	}
	reasons := map[string][]string{}
	var order []string
	for _, s := range r.Skipped {
		if reasons[s.Reason] == nil {
			order = append(order, s.Reason)
		}
		reasons[s.Reason] = append(reasons[s.Reason], s.Name)
	}
	for _, reason := range order {
		fmt.Fprintf(&b, "\n  skipped, %s: %s", reason, summary(reasons[reason]))
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "\n  not in the checkpoint, left at their initial values: %s", summary(r.Missing))
	}
	return b.String()
}

// summary lists names, the middle of long lists left out.
func summary(names []string) string {
	if n := len(names); n > 6 {
		return fmt.Sprintf("%s, ... (%d more) ..., %s", strings.Join(names[:3], ", "), n-4, names[n-1])
	}
	return strings.Join(names, ", ")
}

// LoadWeights sets the parameters and states of a network from a checkpoint, by name: those that
// want accepts (nil: all), if the shapes agree. The report says what was loaded and what was not. A
// checkpoint of which nothing can be used is an error.
func LoadWeights(path string, params Params, want func(name string) bool) (Report, error) {
	r := Report{Path: path}
	f, err := safetensors.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if want == nil {
		want = func(string) bool { return true }
	}
	var values []float32 // of one tensor at a time
	for _, name := range f.Names() {
		inFile, inNetwork := f.Shape(name), params.Shape(name)
		switch {
		case strings.HasPrefix(name, velocityPrefix):
			continue
		case !slices.Contains(params.Names(), name):
			r.Skipped = append(r.Skipped, Skip{name, "not in this network"})
		case !want(name):
			r.Skipped = append(r.Skipped, Skip{name, "not wanted here"})
		case !inNetwork.Equal(inFile):
			r.Skipped = append(r.Skipped, Skip{name, fmt.Sprintf("shape %v in the checkpoint, %v in the network", inFile, []int(inNetwork))})
		default:
			if values, err = f.ReadInto(name, values); err != nil {
				return r, fmt.Errorf("reading %s: %w", path, err)
			}
			if err := params.Write(name, values); err != nil {
				return r, fmt.Errorf("setting %q: %w", name, err)
			}
			r.Loaded = append(r.Loaded, name)
		}
	}
	for _, name := range params.Names() {
		if want(name) && !f.Has(name) {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(r.Loaded) == 0 {
		return r, fmt.Errorf("no weights of the checkpoint fit this network: is it a checkpoint of another preset, norm or number of channels?\n%v", r)
	}
	return r, nil
}

package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// Read reads what a checkpoint says about itself.
func Read(path string) (Description, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Description{}, err
	}
	defer f.Close()
	return parse(path, f.Metadata)
}

// ReadKind is [Read] of a checkpoint that must be of one of the given kinds. use says what for, and
// which command makes one: "puzzles are solved with one of kind jigsaw, as voxsaw pretrain makes
// it".
func ReadKind(path, use string, kinds ...string) (Description, error) {
	d, err := Read(path)
	if err == nil && !slices.Contains(kinds, d.Kind) {
		err = fmt.Errorf("%s is a checkpoint of kind %q: %s", path, d.Kind, use)
	}
	return d, err
}

// Verify compares the tensors of a checkpoint with the digest that was written with them. known is
// false for a checkpoint of an earlier format, which has none.
func Verify(path string) (known bool, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return verify(path, f)
}

func verify(path string, f *safetensors.File) (known bool, err error) {
	want, known := f.Metadata[digestKey]
	if !known {
		return false, nil
	}
	sum := sha256.New()
	for _, name := range f.Names() {
		describe(sum, name, f.Shape(name))
	}
	if _, err := io.Copy(sum, f.Data()); err != nil {
		return true, fmt.Errorf("reading %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return true, fmt.Errorf("%s is damaged: its tensors have the digest %.12s, and were written with %.12s", path, got, want)
	}
	return true, nil
}

// Restore sets weights and further tensors from the checkpoint of a run of the same model. Anything
// that is missing or has another shape is an error, as is a file that does not [Verify].
func Restore(path string, weights Weights, extra ...Target) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := verify(path, f); err != nil {
		return err
	}
	var values []float32 // of one tensor at a time
	read := func(name string, shape device.Shape) (err error) {
		if !f.Has(name) || !shape.Equal(f.Shape(name)) {
			return fmt.Errorf("%s: tensor %q has shape %v, need %v: the run cannot be resumed with this network", path, name, f.Shape(name), shape)
		}
		values, err = f.ReadInto(name, values)
		return err
	}
	for _, name := range weights.Names() {
		if err := read(name, weights.Shape(name)); err != nil {
			return err
		}
		if err := weights.Write(name, values); err != nil {
			return err
		}
	}
	for _, t := range extra {
		if err := read(t.Name, t.Shape); err != nil {
			return err
		}
		if err := t.Set(values); err != nil {
			return err
		}
	}
	return nil
}

// A Target is a tensor that [Restore] sets beside the weights.
type Target struct {
	Name  string
	Shape device.Shape
	Set   func(values []float32) error
}

// Load sets the weights of a network from a checkpoint, by name, where the shapes agree. A moving
// average goes before the parameter that it is of. The report says what was loaded and what was not.
// A checkpoint of which nothing can be used is an error, as is one that does not [Verify].
func Load(path string, weights Weights) (voxsaw.Loaded, error) {
	r := voxsaw.Loaded{Path: path}
	f, err := safetensors.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if _, err := verify(path, f); err != nil {
		return r, err
	}
	known := map[string]bool{}
	for _, name := range weights.Names() {
		known[name] = true
	}
	var values []float32 // of one tensor at a time
	for _, name := range f.Names() {
		inFile, inNetwork := f.Shape(name), weights.Shape(name)
		switch {
		case isExtra(name):
			continue
		case !known[name]:
			r.Skipped = append(r.Skipped, voxsaw.Skip{Name: name, Reason: "not in this network"})
		case !inNetwork.Equal(inFile):
			r.Skipped = append(r.Skipped, voxsaw.Skip{Name: name, Reason: fmt.Sprintf("shape %v in the checkpoint, %v in the network", inFile, []int(inNetwork))})
		default:
			from := name
			if average := AveragePrefix + name; inNetwork.Equal(f.Shape(average)) && f.Has(average) {
				from = average
			}
			if values, err = f.ReadInto(from, values); err != nil {
				return r, fmt.Errorf("reading %s: %w", path, err)
			}
			if err := weights.Write(name, values); err != nil {
				return r, fmt.Errorf("setting %q: %w", name, err)
			}
			r.Loaded = append(r.Loaded, name)
		}
	}
	for _, name := range weights.Names() {
		if !f.Has(name) {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(r.Loaded) == 0 {
		return r, fmt.Errorf("no weights of the checkpoint fit this network: is it a checkpoint of another preset, norm or number of channels?\n%v", r)
	}
	return r, nil
}

// LoadAll is [Load] of a checkpoint that must have all weights of the network. explain turns the name
// of one that is missing into what that means.
func LoadAll(path string, weights Weights, explain func(missing string) string) (voxsaw.Loaded, error) {
	r, err := Load(path, weights)
	if err != nil {
		return r, err
	}
	for _, s := range r.Skipped {
		if strings.HasPrefix(s.Reason, "shape ") {
			return r, fmt.Errorf("%s does not fit the configuration: %s: %s", path, s.Name, s.Reason)
		}
	}
	if len(r.Missing) > 0 {
		return r, fmt.Errorf("%s has no %s: %s", path, r.Missing[0], explain(r.Missing[0]))
	}
	return r, nil
}

package pytorch

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/volume"
)

// Weights are the tensors of a checkpoint of nnU-Net, or of a file that is a dictionary of tensors,
// by their names.
type Weights struct {
	*File
	names   []string
	tensors map[string]*Tensor
}

// weightsKey is where nnU-Net's checkpoints have the weights.
const weightsKey = "network_weights"

// OpenWeights opens a file for its weights alone. Errors are those of [Open].
func OpenWeights(path string) (*Weights, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	w := &Weights{File: f, tensors: map[string]*Tensor{}}
	list, _ := f.Root().(*Dict)
	if inner, ok := list.Get(weightsKey).(*Dict); ok {
		list = inner
	}
	if list != nil {
		for n, key := range list.Keys {
			name, isText := key.(string)
			if t, ok := list.Values[n].(*Tensor); ok && isText {
				w.names, w.tensors[name] = append(w.names, name), t
			}
		}
	}
	if len(w.names) == 0 {
		f.Close()
		return nil, &volume.UnsupportedError{Path: path,
			Problem: "it is a checkpoint of PyTorch, but has no " + weightsKey + ", as nnU-Net's have"}
	}
	return w, nil
}

// Names lists the tensors in the order of the file.
func (w *Weights) Names() []string { return slices.Clone(w.names) }

// Has says whether there is a tensor of this name.
func (w *Weights) Has(name string) bool { return w.tensors[name] != nil }

// Shape is the shape of a tensor, nil if there is none of this name.
func (w *Weights) Shape(name string) []int {
	if t := w.tensors[name]; t != nil {
		return slices.Clone(t.Shape)
	}
	return nil
}

// ReadInto reads the elements of a tensor in row-major order.
func (w *Weights) ReadInto(name string, _ []float32) ([]float32, error) {
	if !w.Has(name) {
		return nil, fmt.Errorf("there is no tensor %q", name)
	}
	return w.Read(w.tensors[name])
}

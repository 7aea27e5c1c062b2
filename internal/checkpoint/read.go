package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// Read reads what a checkpoint says about itself.
func Read(path string) (Description, error) {
	if IsPyTorch(path) {
		if _, err := os.Stat(path); err != nil {
			return Description{}, err
		}
		return Description{}, fmt.Errorf("%s: %w: PyTorch has written it", path, ErrForeign)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return Description{}, err
	}
	defer f.Close()
	return parse(path, f.Metadata)
}

// ReadKind is [Read] of a checkpoint that must be of one of the given kinds. use says what for, and
// which command makes one: "puzzles are solved with one of kind jigsaw, as voxsaw pretrain makes
// it". Another kind is a [KindError].
func ReadKind(path, use string, kinds ...string) (Description, error) {
	d, err := Read(path)
	if err == nil && !slices.Contains(kinds, d.Kind) {
		err = &KindError{path, d.Kind, use}
	}
	return d, err
}

// A KindError says that a checkpoint is of another kind than what is done with it needs.
type KindError struct{ path, kind, use string }

func (e *KindError) Error() string {
	return fmt.Sprintf("%s is a checkpoint of kind %q: %s", e.path, e.kind, e.use)
}

// Digest is the SHA-256 of a checkpoint's tensors, their names and shapes, as the file says; of
// another program's file, which does not say it, it is worked out. Of a file that PyTorch has
// written it is that of all its bytes.
func Digest(path string) (string, error) {
	if IsPyTorch(path) {
		return atomicfile.SHA256(path)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if known, ok := f.Metadata[digestKey]; ok {
		return known, nil
	}
	return digest(path, f)
}

// Verify compares the tensors of a checkpoint with the digest that was written with them. Another
// program's file has none.
func Verify(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return verify(path, f)
}

func verify(path string, f *safetensors.File) error {
	want, known := f.Metadata[digestKey]
	if !known {
		return nil
	}
	got, err := digest(path, f)
	if err == nil && got != want {
		err = fmt.Errorf("%s is damaged: its tensors have the digest %.12s, and were written with %.12s", path, got,
			want)
	}
	return err
}

// digest works out the digest of a file's tensors.
func digest(path string, f *safetensors.File) (string, error) {
	sum := sha256.New()
	for _, name := range f.Names() {
		describe(sum, name, f.Shape(name))
	}
	if _, err := io.Copy(sum, f.Data()); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Restore sets weights and further tensors from the checkpoint of a run of the same model. Anything
// that is missing or has another shape is an error, as is a file that does not [Verify].
func Restore(path string, weights Weights, extra ...Target) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := verify(path, f); err != nil {
		return err
	}
	var values []float32 // of one tensor at a time
	read := func(name string, shape device.Shape) (err error) {
		if !f.Has(name) || !shape.Equal(f.Shape(name)) {
			return fmt.Errorf("%s: tensor %q has shape %v, need %v: the run cannot be resumed with this network", path,
				name, numbers.Extents(f.Shape(name)), numbers.Extents(shape))
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

// Load sets the weights of a network from a checkpoint, by name, where the shapes agree. A
// parameter's moving average goes before the parameter. The report says what was loaded and what
// was not. A checkpoint of which nothing can be used is an error, as is one that does not [Verify].
func Load(path string, weights Weights) (voxsaw.Loaded, error) {
	return LoadRenamed(path, weights, func(name string) string { return name })
}

// LoadRenamed is [Load] of a file that may be another program's: rename gives a tensor of the file
// the name that the network has for it. If several tensors map to one parameter, the one with the
// same name wins, else the first.
func LoadRenamed(path string, weights Weights, rename func(name string) string) (voxsaw.Loaded, error) {
	return LoadPart(path, weights, rename, func(string) Left { return Left{} })
}

// LoadPart is [LoadRenamed] of a part of the network: leave says why a parameter keeps the value
// that it has, and "" where it does not.
func LoadPart(path string, weights Weights, rename func(name string) string, leave func(name string) Left) (
	voxsaw.Loaded, error) {
	f, err := open(path)
	if err != nil {
		return voxsaw.Loaded{Path: path}, err
	}
	defer f.Close()
	l := loading{file: f, weights: weights, leave: leave, known: map[string]bool{}, found: map[string]bool{},
		Loaded: voxsaw.Loaded{Path: path}}
	for _, name := range weights.Names() {
		l.known[name] = true
	}
	for _, name := range f.Names() {
		to := name
		if !l.known[name] {
			to = rename(name)
		}
		if isExtra(name) || to != name && (f.Has(to) || l.found[to]) {
			continue
		}
		if err := l.load(name, to); err != nil {
			return l.Loaded, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, b := range l.biases {
		if !l.found[b.mean] {
			continue
		}
		if err := l.shift(b); err != nil {
			return l.Loaded, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, name := range weights.Names() {
		if !l.found[name] {
			l.Missing = append(l.Missing, name)
		}
	}
	if len(l.Loaded.Loaded) == 0 {
		return l.Loaded,
			fmt.Errorf("no weights of the checkpoint fit this network: is it a checkpoint of another kind of "+
				"network, preset, norm or number of channels?\n  %v", l.Loaded)
	}
	return l.Loaded, nil
}

// CheckWhole is a [voxsaw.PartialError] where less than nine tenths of an encoder's parameters were
// loaded. States, such as the running means of a normalisation, are no parameters: a training finds
// them again.
func CheckWhole(l voxsaw.Loaded, encoder []string) error {
	loaded := map[string]bool{}
	for _, name := range l.Loaded {
		loaded[name] = true
	}
	fit := 0
	for _, name := range encoder {
		if loaded[name] {
			fit++
		}
	}
	if 10*fit < 9*len(encoder) {
		return &voxsaw.PartialError{Fit: fit, Of: len(encoder), Loaded: l}
	}
	return nil
}

// tensors is a file of weights, of this program's or another's.
type tensors interface {
	Names() []string
	Has(name string) bool
	Shape(name string) []int
	ReadInto(name string, values []float32) ([]float32, error)
	Close() error
}

// IsPyTorch says whether a file is called like one that PyTorch writes.
func IsPyTorch(path string) bool {
	return slices.Contains([]string{".pth", ".pt"}, strings.ToLower(filepath.Ext(path)))
}

// open opens a file of weights, which must not be damaged.
func open(path string) (tensors, error) {
	if IsPyTorch(path) {
		return pytorch.OpenWeights(path)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	if err := verify(path, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// loading is the weights of a file on their way to a network.
type loading struct {
	file    tensors
	weights Weights
	leave   func(name string) Left
	known   map[string]bool // the network's parameters and states
	found   map[string]bool // those that the file has
	values  []float32       // of one tensor at a time
	biases  []bias
	voxsaw.Loaded
}

// batchCount ends the names of PyTorch's counts of batches, which only norms with a cumulative
// average use.
const batchCount = "num_batches_tracked"

// A bias is one that a network of this program does without, because a batch normalisation follows:
// it takes the bias away with the mean. Its running mean has the bias in it, as the other program
// counted.
type bias struct{ name, mean string }

// meanBehind is the running mean of the norm that follows a bias's layer; "" if there is none.
func (l *loading) meanBehind(name string) string {
	layer, is := strings.CutSuffix(name, ".bias")
	if mean := layer + ".norm.running_mean"; is && l.known[mean] {
		return mean
	}
	return ""
}

// shift takes a bias away from the running mean.
func (l *loading) shift(b bias) error {
	values, err := l.file.ReadInto(b.name, nil)
	if err != nil {
		return err
	}
	mean, err := l.weights.ReadInto(b.mean, nil)
	if err != nil {
		return err
	}
	for i, x := range values {
		mean[i] -= x
	}
	return l.weights.Write(b.mean, mean)
}

// load sets parameter "to" from the file's tensor, if there is such a parameter of that shape.
func (l *loading) load(name, to string) (err error) {
	inFile, inNetwork := l.file.Shape(name), l.weights.Shape(to)
	if strings.HasSuffix(name, batchCount) {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name, Reason: "counts batches, which is not needed"})
		return nil
	}
	left := l.leave(to)
	if mean := l.meanBehind(to); !l.known[to] && left.Why == "" && mean != "" && l.weights.Shape(mean).Equal(inFile) {
		l.biases = append(l.biases, bias{name, mean})
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name,
			Reason: "the running mean of the norm behind it is shifted instead"})
		return nil
	}
	if !l.known[to] {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name, Reason: "not in this network"})
		return nil
	}
	l.found[to] = true
	if left.Rows != nil {
		return l.loadRows(name, to, left)
	}
	if left.Why != "" {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name, Reason: left.Why})
		return nil
	}
	if !inNetwork.Equal(inFile) {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name,
			Reason: fmt.Sprintf("shape %v in the checkpoint, %v in the network", numbers.Extents(inFile),
				numbers.Extents([]int(inNetwork)))})
		return nil
	}
	from := name
	if average := AveragePrefix + name; l.file.Has(average) && inNetwork.Equal(l.file.Shape(average)) {
		from = average
	}
	if l.values, err = l.file.ReadInto(from, l.values); err != nil {
		return fmt.Errorf("reading %q: %w", from, err)
	}
	if err := l.weights.Write(to, l.values); err != nil {
		return fmt.Errorf("setting %q: %w", to, err)
	}
	l.Loaded.Loaded = append(l.Loaded.Loaded, to)
	return nil
}

// Left says of a parameter of the network why it is not taken over; "" where it is.
type Left struct {
	Why string
	// Rows are those of the file's tensor that are taken over all the same, one for each row of the
	// parameter: -1 for a row that stays as it is. Why is of these. nil: none.
	Rows []int
}

// loadRows sets some rows of a parameter from a tensor of the file whose rows are others.
func (l *loading) loadRows(name, to string, left Left) (err error) {
	inFile, inNetwork := l.file.Shape(name), []int(l.weights.Shape(to))
	if len(inFile) == 0 || slices.Max(left.Rows) >= inFile[0] || inNetwork[0] != len(left.Rows) ||
		!slices.Equal(inFile[1:], inNetwork[1:]) {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name,
			Reason: fmt.Sprintf("shape %v in the checkpoint, %v in the network", numbers.Extents(inFile),
				numbers.Extents(inNetwork))})
		return nil
	}
	if l.values, err = l.file.ReadInto(name, l.values); err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	values, err := l.weights.ReadInto(to, nil)
	if err != nil {
		return err
	}
	size := len(values) / len(left.Rows)
	for row, from := range left.Rows {
		if from >= 0 {
			copy(values[row*size:][:size], l.values[from*size:])
		}
	}
	if err := l.weights.Write(to, values); err != nil {
		return fmt.Errorf("setting %q: %w", to, err)
	}
	if left.Why != "" {
		l.Skipped = append(l.Skipped, voxsaw.Skip{Name: name, Reason: left.Why})
	} else {
		l.Loaded.Loaded = append(l.Loaded.Loaded, to)
	}
	return nil
}

// LoadAll is [Load] of a checkpoint that must have all weights of the network. explain turns the
// name of one that is missing into what that means.
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

package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// model is weights in memory.
type model struct {
	names  []string
	shapes map[string]device.Shape
	values map[string][]float32
}

func newModel(head int) *model {
	m := &model{names: []string{"encoder.a", "encoder.mean", "head"},
		shapes: map[string]device.Shape{"encoder.a": {3, 2}, "encoder.mean": {2}, "head": {head}},
		values: map[string][]float32{}}
	for k, name := range m.names {
		for i := range m.shapes[name].Elements() {
			m.values[name] = append(m.values[name], float32(100*k+i))
		}
	}
	return m
}

func (m *model) Names() []string                { return m.names }
func (m *model) Shape(name string) device.Shape { return m.shapes[name] }
func (m *model) ReadInto(name string, v []float32) ([]float32, error) {
	return append(v[:0], m.values[name]...), nil
}
func (m *model) Write(name string, v []float32) error {
	m.values[name] = slices.Clone(v)
	return nil
}

func tensor(name string, values ...float32) Tensor {
	return Tensor{name, []int{len(values)}, func([]float32) ([]float32, error) { return values, nil }}
}

var description = Description{
	Kind: "test", Settings: "network:\n  preset: monai\n  channels: 4\nsteps: 5\n",
	Run:       "steps: 5 # in all\ndata: \"somewhere\"\n",
	TrainedOn: []string{"case 1", "case: 2"}, Version: "v1", Device: "reference", Fingerprint: "abc",
	Progress: Progress{Step: 4, Validated: 3, BestStep: 2, Best: 1.0 / 3, Largest: "2,4+5",
		LargestBecause: "+1 on 8 cases; +2 on 9"},
}

func write(t *testing.T, d Description, m *model, extra ...Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "last.safetensors")
	if err := Write(path, d, m, extra...); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDescriptionIsReadAsItWasWritten(t *testing.T) {
	for _, trained := range [][]string{description.TrainedOn, {}, nil} {
		want := description
		want.TrainedOn = trained
		path := write(t, want, newModel(3))
		got, err := Read(path)
		if want.path = path; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if n, err := got.Network(); err != nil || n.Preset != "monai" || n.Channels != 4 || n.Dropout != -1 {
			t.Errorf("network %+v, %v", n, err)
		}
	}
	if _, err := ReadKind(write(t, description, newModel(3)), "puzzles want kind jigsaw", "jigsaw"); err == nil ||
		!strings.Contains(err.Error(), `kind "test": puzzles want kind jigsaw`) {
		t.Errorf("another kind: %v", err)
	}
}

// A mistyped key is not the default of what was meant.
func TestSettingsAreReadStrictly(t *testing.T) {
	d := description
	d.Settings = "network:\n  presett: monai\nstep: 5\n"
	path := write(t, d, newModel(3))
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Network(); err == nil || !strings.Contains(err.Error(), `"network.preset"`) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("presett: %v", err)
	}
	var settings struct {
		Network voxsaw.Network `yaml:"network"`
		Steps   int            `yaml:"steps"`
	}
	if err := got.Parse(&settings); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a key that there is not: %v", err)
	}
}

func TestDescriptionsThatMakeNoSense(t *testing.T) {
	for want, text := range map[string]string{
		"reads 6: use the program that wrote it (v9)": "format: 7\nkind: test\nversion: v9\n",
		"has format 5":   "format: 5\nkind: test\n",
		"unknown key":    "format: 6\nkinds: test\n",
		"makes no sense": "format: 6\nstep: 3\n",
		"voxsaw":         "",
	} {
		meta := map[string]string{headerKey: text}
		meta[textKey] = digestOfTexts(meta)
		if text == "" {
			meta = map[string]string{}
		}
		if _, err := parse("file", meta); err == nil ||
			!strings.Contains(err.Error(), strings.Replace(want, "voxsaw", "not a checkpoint", 1)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read("../../testdata/train_numpy.safetensors"); err == nil ||
		!strings.Contains(err.Error(), "not a checkpoint") {
		t.Errorf("another program's file: %v", err)
	}
}

func TestDigestFindsDamage(t *testing.T) {
	m := newModel(3)
	path := write(t, description, m, tensor("optimizer.velocity/head", 1, 2, 3))
	if err := Verify(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{len(data) - 1, len(data) - 40, bytes.Index(data, []byte("encoder.mean"))} {
		damaged := slices.Clone(data)
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Verify(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d of %d: %v", at, len(data), err)
		}
		// Nobody trains on from such weights, or predicts with them.
		if err := Restore(path, newModel(3)); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("byte %d of %d is restored: %v", at, len(data), err)
		}
		if _, err := Load(path, newModel(3)); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("byte %d of %d is loaded: %v", at, len(data), err)
		}
	}
}

// A changed letter in what a checkpoint says about itself, its settings say, is found when it is
// read.
func TestDigestOfTexts(t *testing.T) {
	path := write(t, description, newModel(3))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{description.Kind, description.Version, description.Fingerprint} {
		at := bytes.Index(data, []byte(text))
		if at < 0 {
			t.Fatalf("%q is not in the file", text)
		}
		damaged := slices.Clone(data)
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+" is damaged") {
			t.Errorf("%q is damaged: %v", text, err)
		}
	}
}

func TestTheSameWeightsAreTheSameBytes(t *testing.T) {
	a, errA := os.ReadFile(write(t, description, newModel(3)))
	b, errB := os.ReadFile(write(t, description, newModel(3)))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("two files of the same differ (%v, %v)", errA, errB)
	}
}

// A disk that fills up half way through a checkpoint leaves the one before, and nothing else.
func TestFullDiskKeepsTheLastCheckpoint(t *testing.T) {
	path := write(t, description, newModel(3))
	err := atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 100)); err != nil {
			return err
		}
		return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if d, err := Read(path); err != nil || d.Step != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// Weights that overflowed would be resumed from for ever: they never take the place of good ones.
func TestWeightsThatAreNotFiniteAreNotSaved(t *testing.T) {
	m := newModel(3)
	path := write(t, description, m)
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		m.values["head"] = []float32{1, float32(bad), 3}
		later := description
		later.Step = 5
		if err := Write(path, later, m); err == nil || !strings.Contains(err.Error(), `"head"`) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if d, err := Read(path); err != nil || d.Step != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestLoadSaysWhatItDid(t *testing.T) {
	path := write(t, description, newModel(4), tensor("optimizer.velocity/head", 1, 2, 3, 4))
	to := newModel(3)
	to.names = append(to.names, "encoder.new")
	to.shapes["encoder.new"] = []int{1}
	for _, v := range to.values {
		clear(v)
	}
	got, err := Load(path, to)
	want := voxsaw.Loaded{
		Path: path, Loaded: []string{"encoder.a", "encoder.mean"}, Missing: []string{"encoder.new"},
		Skipped: []voxsaw.Skip{{Name: "head", Reason: "shape 4 in the checkpoint, 3 in the network"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if to.values["encoder.a"][5] != 5 || to.values["encoder.mean"][1] != 101 || to.values["head"][0] != 0 {
		t.Errorf("values %v", to.values)
	}
	if s := got.String(); !strings.Contains(s, "2 tensors loaded, 1 skipped, 1 missing") ||
		!strings.Contains(s, "skipped, shape 4 in") {
		t.Error(s)
	}
	explain := func(name string) string { return "because " + name }
	if _, err := LoadAll(path, to, explain); err == nil || !strings.Contains(err.Error(), "head: shape 4 in") {
		t.Errorf("a shape that does not fit: %v", err)
	}
	to.shapes["head"] = device.Shape{4}
	if _, err := LoadAll(path, to, explain); err == nil ||
		!strings.Contains(err.Error(), "has no encoder.new: because encoder.new") {
		t.Errorf("a tensor that is missing: %v", err)
	}
	other := &model{names: []string{"stem"}, shapes: map[string]device.Shape{"stem": {1}},
		values: map[string][]float32{}}
	if _, err := Load(path, other); err == nil || !strings.Contains(err.Error(), "no weights") {
		t.Errorf("nothing fits: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Another program's file says nothing about itself, and may have a tensor under several names: the
// network's own goes before others.
func TestForeignNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foreign.safetensors")
	var tensors []safetensors.Tensor
	for i, name := range []string{"other.encoder.a", "other.encoder.mean", "encoder.mean", "third.encoder.mean",
		"other.head"} {
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: []int{2},
			Values: func() ([]float32, error) { return []float32{float32(i), 0}, nil }})
	}
	err := atomicfile.Write(path, func(w io.Writer) error { return safetensors.Write(w, nil, tensors) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), path) {
		t.Errorf("description: %v", err)
	}
	m := newModel(2)
	rename := func(name string) string {
		_, inner, _ := strings.Cut(name, ".")
		return inner
	}
	got, err := LoadRenamed(path, m, rename)
	want := voxsaw.Loaded{
		Path: path, Loaded: []string{"encoder.mean", "head"},
		Skipped: []voxsaw.Skip{{Name: "other.encoder.a", Reason: "shape 2 in the checkpoint, 3x2 in the network"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if m.values["encoder.mean"][0] != 2 || m.values["head"][0] != 4 {
		t.Errorf("values %v", m.values)
	}
	if _, err := Load(path, newModel(3)); err != nil {
		t.Errorf("a name that needs no change: %v", err)
	}
}

// Predictions are made with the moving average, a run goes on with the weights.
func TestAverageGoesBeforeTheWeights(t *testing.T) {
	path := write(t, description, newModel(2), tensor("average/head", 7, 8))
	m := newModel(2)
	if _, err := LoadAll(path, m, nil); err != nil || !slices.Equal(m.values["head"], []float32{7, 8}) {
		t.Errorf("loaded %v, %v", m.values["head"], err)
	}
	var average []float32
	err := Restore(path, m, Target{"average/head", device.Shape{2},
		func(v []float32) error { average = slices.Clone(v); return nil }})
	if err != nil || !slices.Equal(m.values["head"], []float32{200, 201}) || !slices.Equal(average, []float32{7, 8}) {
		t.Errorf("restored %v and the average %v, %v", m.values["head"], average, err)
	}
	if err := Restore(path, newModel(3)); err == nil || !strings.Contains(err.Error(), `"head"`) {
		t.Errorf("another network: %v", err)
	}
	if err := Restore(path, m, Target{"optimizer.velocity/head", device.Shape{2},
		func([]float32) error { return nil }}); err == nil {
		t.Error("a state that is not there")
	}
}

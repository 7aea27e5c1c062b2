package pytorch

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is written is read back tensor for tensor, and one tensor of two names is one.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.pth")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{1, -2, 3.5, 4, 5, 6}
	one := &Numbers{Shape: []int{2, 3}, Values: func() ([]float32, error) { return want, nil }}
	err = Save(f, Dictionary{
		{"network_weights", Dictionary{{"a.weight", one}, {"b.weight", one}}},
		{"current_epoch", 7},
		{"inference_allowed_mirroring_axes", Tuple{0, 1, 2}},
	})
	if err = cmp.Or(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWeights(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range []string{"a.weight", "b.weight"} {
		got, err := w.ReadInto(name, nil)
		if err != nil || !slices.Equal(got, want) || !slices.Equal(w.Shape(name), []int{2, 3}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if !w.tensors["a.weight"].Same(w.tensors["b.weight"]) {
		t.Error("one tensor by two names is two")
	}
	if epoch := w.Root().(*Dict).Get("current_epoch"); epoch != int64(7) {
		t.Errorf("epoch %v", epoch)
	}
}

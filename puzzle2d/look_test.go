package puzzle2d

import (
	"fmt"
	"image"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
)

// What is drawn of a classification is told by the weights as the validation counts it: of one
// photograph, in each class once. The tiles are the photograph's own pixels.
func TestLookShowsWhatValidationCounts(t *testing.T) {
	store, dev := prepare(t, 32, 150, 150), open(t)
	for _, task := range []string{Labels, Rotation, Position} {
		data := Split(store)
		c := DefaultClassification(task)
		c.Network, c.Batch, c.Mirror = small().Network, 8, false
		if task == Position {
			c.Cell, c.Patch = 48, 40
		} else {
			c.Crop = 96
		}
		c.Train = small().Train
		c.Train.Steps, c.Train.ValidateEvery, c.Train.LR = 2, 2, 0.02
		if task != Labels {
			// the class goes round by the place in the list
			for k, first := 0, data.Validate[0]; k < 8; k++ {
				data.Validate = append(data.Validate[:k], first)
			}
		}
		c, err := c.Resolve(store)
		if err != nil {
			t.Fatal(err)
		}
		if task != Labels {
			data.Validate = data.Validate[:len(c.Classes)]
		}
		out := filepath.Join(t.TempDir(), task)
		summary, err := TrainClassifier(t.Context(), dev, c, data, voxsaw.RunOptions{Folder: out})
		if err != nil {
			t.Fatal(err)
		}
		picture, caption := look(t, dev, out, photoOf(t, store, data.Validate[0]))
		items := len(data.Validate)
		if want := int(summary.Validation.Score*float64(items) + 0.5); framed(picture) != items-want {
			t.Errorf("%s: %d tiles have a red frame, and %d of %d answers are wrong: %s", task, framed(picture),
				items-want, items, caption)
		}
		if task != Labels && !strings.Contains(caption, data.Validate[0]) {
			t.Errorf("%s: the caption names another photograph: %s", task, caption)
		}
		if task == Rotation {
			checkTurned(t, picture, data.Validate[0])
		}
		_, _, e, err := pretext.Photographs.Open(t.Context(), dev, filepath.Join(out, "last.safetensors"),
			pretext.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held, err := sample.Open(store, data.Validate)
		if err != nil {
			t.Fatal(err)
		}
		told, err := e.Evaluate(t.Context(), held)
		e.Close()
		if err != nil || told.Items != items || math.Abs(told.Final()[0]-summary.Validation.Score) > 1e-9 {
			t.Errorf("%s: %v of %d are told right, %v by the validation: %v", task, told.Rounds, told.Items,
				summary.Validation.Score, err)
		}
	}
}

// look draws what the last weights of a run have learnt, on a photograph.
func look(t *testing.T, dev voxsaw.Device, run string, of sample.Sample) (image.Image, string) {
	t.Helper()
	_, _, e, err := pretext.Photographs.Open(t.Context(), dev, filepath.Join(run, "last.safetensors"),
		pretext.OpenOptions{Items: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, err := e.Picture(of)
	if err != nil {
		t.Fatal(err)
	}
	return p.Image, p.Caption
}

// photoOf is the photograph of a name.
func photoOf(t *testing.T, store sample.Store, name string) sample.Sample {
	t.Helper()
	s, err := store.Sample(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// framed counts the tiles of a sheet with a red frame.
func framed(m image.Image) (n int) {
	const side, step, margin = 96, 102, 24
	for y := margin; y+side <= m.Bounds().Dy(); y += step {
		for x := margin; x+side <= m.Bounds().Dx(); x += step {
			if r, g, b, _ := m.At(x, y+side/2).RGBA(); r>>8 == 229 && g>>8 == 57 && b>>8 == 53 {
				n++
			}
		}
	}
	return n
}

// checkTurned holds four tiles against the photograph: its red grows to the right and its green
// downwards, and each tile is turned by a quarter more, against the clock.
func checkTurned(t *testing.T, m image.Image, name string) {
	t.Helper()
	// what red and green grow towards, in x and y
	grow := [][2]image.Point{
		{image.Pt(1, 0), image.Pt(0, 1)}, {image.Pt(0, -1), image.Pt(1, 0)},
		{image.Pt(-1, 0), image.Pt(0, -1)}, {image.Pt(0, 1), image.Pt(-1, 0)},
	}
	for k, want := range grow {
		centre := image.Pt(24+102*k+48, 24+48)
		for colour, towards := range want {
			level := func(at image.Point) int {
				r, g, _, _ := m.At(at.X, at.Y).RGBA()
				return int([]uint32{r, g}[colour] >> 8)
			}
			end, begin := level(centre.Add(towards.Mul(30))), level(centre.Sub(towards.Mul(30)))
			if end-begin < 90 || end-begin > 110 { // 60 of 150 pixels are 102 of 255 levels
				t.Errorf("%s, turned %d times: colour %d goes from %d to %d", name, k, colour, begin, end)
			}
		}
	}
}

// A puzzle is drawn from a run's checkpoint, and a checkpoint of something else is named.
func TestLookShowsPuzzles(t *testing.T) {
	store, dev := prepare(t, 16, 60, 60), open(t)
	data := Split(store)
	c := small()
	c.Train.Steps, c.Train.ValidateEvery = 2, 2
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "run")
	if _, err := Pretrain(t.Context(), dev, c, data, voxsaw.RunOptions{Folder: out}); err != nil {
		t.Fatal(err)
	}
	picture, caption := look(t, dev, out, photoOf(t, store, data.Validate[0]))
	if picture.Bounds().Dx() < 2*64*3 || !strings.Contains(caption, "of 9 patches") ||
		!strings.Contains(caption, data.Validate[0]) {
		t.Errorf("%v, %q", picture.Bounds(), caption)
	}
	if _, _, _, err := pretext.Photographs.Open(t.Context(), dev, filepath.Join(out, "best.safetensors.none"),
		pretext.OpenOptions{}); err == nil {
		t.Error("a checkpoint that is not there")
	}
}

// Who looks at photographs with a trained network is told which wishes do nothing, and which
// photographs have no class to compare an answer with: nothing is trained on then.
func TestLookTells(t *testing.T) {
	dir, dev := t.TempDir(), open(t)
	for k, folder := range []string{"train/dark", "train/light", "train/dark", "train/light", "val", "val"} {
		writePNG(t, filepath.Join(dir, "photos", folder, fmt.Sprintf("%02d.png", k)), photograph(120, 120, uint8(40*k)))
	}
	store := storeOf(t, filepath.Join(dir, "photos"), 0.25, 120, 120)
	data := Split(store)
	if len(data.Validate) != 2 || len(data.Train) != 4 {
		t.Fatalf("%d to train on, %d held out; want 4 and 2", len(data.Train), len(data.Validate))
	}
	c := DefaultClassification(Labels)
	c.Network, c.Crop, c.Batch, c.Mirror, c.Train = small().Network, 96, 4, false, small().Train
	c.Train.Steps, c.Train.ValidateEvery = 1, 0
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	labels := filepath.Join(dir, "labels")
	if _, err := TrainClassifier(t.Context(), dev, c, data, voxsaw.RunOptions{Folder: labels}); err != nil {
		t.Fatal(err)
	}
	p := small()
	p.Train.Steps, p.Train.ValidateEvery = 1, 0
	if p, err = p.Resolve(store); err != nil {
		t.Fatal(err)
	}
	puzzles := filepath.Join(dir, "puzzles")
	if _, err := Pretrain(t.Context(), dev, p, data, voxsaw.RunOptions{Folder: puzzles}); err != nil {
		t.Fatal(err)
	}
	for _, wish := range []struct {
		run    string
		wishes pretext.OpenOptions
		told   string
	}{
		{labels, pretext.OpenOptions{}, ""},
		{labels, pretext.OpenOptions{Rounds: 1}, ""},
		{labels, pretext.OpenOptions{Rounds: 2}, "neither rounds nor shuffles"},
		{labels, pretext.OpenOptions{Items: 2}, "neither rounds nor shuffles"},
		{puzzles, pretext.OpenOptions{}, ""},
		{puzzles, pretext.OpenOptions{Items: 2}, ""},
		{puzzles, pretext.OpenOptions{Rounds: 2}, "the same answer every round"},
		{puzzles, pretext.OpenOptions{Unary: true}, ""},
		{puzzles, pretext.OpenOptions{Rounds: 2, Only: 10}, "given at once"},
	} {
		_, _, e, err := pretext.Photographs.Open(t.Context(), dev, filepath.Join(wish.run, "last.safetensors"),
			wish.wishes)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(e.Notes(), "\n")
		e.Close()
		if (notes != "") != (wish.told != "") || !strings.Contains(notes, wish.told) {
			t.Errorf("%s with %+v: notes %q, want %q", filepath.Base(wish.run), wish.wishes, notes, wish.told)
		}
	}
	_, _, e, err := pretext.Photographs.Open(t.Context(), dev, filepath.Join(labels, "last.safetensors"),
		pretext.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	held, err := sample.Open(store, append(data.Validate, data.Train[0]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Evaluate(t.Context(), held[:2]); err == nil || strings.Contains(err.Error(), "train") ||
		!strings.Contains(err.Error(), "none of the 2 photographs has a class") {
		t.Errorf("two photographs without a class: error %v", err)
	}
	told, err := e.Evaluate(t.Context(), held)
	if err != nil || told.Cases != 1 || len(told.Notes) != 1 || !strings.Contains(told.Notes[0], "2 of 3 photographs") {
		t.Errorf("one photograph of three with a class: %d cases, notes %q, error %v", told.Cases, told.Notes, err)
	}
}

package puzzle2d

import (
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
		c.Network, c.Crop, c.Cell, c.Patch, c.Batch, c.Mirror = small().Network, 96, 48, 40, 8, false
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

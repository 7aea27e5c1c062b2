package cli

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// fourPhotos are photographs in a folder, and as they are prepared.
func fourPhotos(t *testing.T) (raw, prepared string) {
	t.Helper()
	raw, prepared = t.TempDir(), filepath.Join(t.TempDir(), "photos")
	for k := range 4 {
		picture := image.NewGray(image.Rect(0, 0, 80, 80))
		for i := range picture.Pix {
			picture.SetGray(i%80, i/80, color.Gray{Y: uint8(i*(k+3) + i/80*k)})
		}
		var file bytes.Buffer
		if err := png.Encode(&file, picture); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(raw, strconv.Itoa(k)+".png"), file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if code := Run([]string{"2d", "prepare", raw, "--out", prepared, "--size", "72x64"}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	return raw, prepared
}

// The paper's learning rate and weight decay are those of the loss that other flags leave, unless
// they are given, and what is given is no choice of the preset.
func TestPresetPaperRates(t *testing.T) {
	_, prepared := fourPhotos(t)
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("sum_loss: false\ntrain: {weight_decay: 0.03}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	several := filepath.Join(t.TempDir(), "grids.yaml")
	if err := os.WriteFile(several, []byte("grids: [2x1, 2x2]\nhead: symmetric\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string][2]float64{
		"--preset-paper UBM-2x2":                                               {0.0025, 0.002},
		"--preset-paper UBM --grid 2x2":                                        {0.0025, 0.002},
		"--preset-paper UBM --config " + several:                               {0.0025, 0.002},
		"--preset-paper UBM-2x2 --sum-loss=false":                              {0.01, 0.0005},
		"--preset-paper UBM-2x2 --sum-loss=false --lr 0.05":                    {0.05, 0.0005},
		"--preset-paper UBM-2x2 --config " + file:                              {0.01, 0.03},
		"--preset-paper U --sum-loss=false --head kway --classes 4 --grid 2x2": {0.01, 0.0005},
		"--preset-paper UBM --head kway --classes 4 --grid 2x2":                {0.01, 0.0005},
	} {
		folder := filepath.Join(t.TempDir(), "run")
		args := append([]string{"2d", "pretrain", "--data", prepared, "--out", folder, "--cell", "32", "--patch", "24",
			"--width", "0.0625", "--features", "8", "--batch", "2", "--rounds", "1", "--steps", "1"},
			strings.Fields(flags)...)
		var out bytes.Buffer
		if code := Run(args, &out, &out); code != exitOK {
			t.Errorf("%s: exit code %d: %s", flags, code, out.String())
			continue
		}
		var got struct {
			Train struct {
				LR          float64 `yaml:"lr"`
				WeightDecay float64 `yaml:"weight_decay"`
			} `yaml:"train"`
		}
		text, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Train.LR != want[0] || got.Train.WeightDecay != want[1] {
			t.Errorf("%s: lr %v, weight decay %v, want %v", flags, got.Train.LR, got.Train.WeightDecay, want)
		}
		decided := strings.Contains(flags, "kway") && !strings.Contains(flags, "--sum-loss")
		if strings.Contains(out.String(), "  sum_loss ") != decided {
			t.Errorf("%s: the preset does not say whether it decides upon sum_loss: %s", flags, out.String())
		}
		for _, unasked := range []string{"does nothing", "binary_weight", "size of the cells"} {
			if strings.Contains(out.String(), unasked) {
				t.Errorf("%s: the preset says %q: %s", flags, unasked, out.String())
			}
		}
		for name, value := range map[string]float64{"lr": want[0], "weight_decay": want[1]} {
			given := strings.Contains(flags, "--"+name+" ") || name == "weight_decay" && strings.Contains(flags, file)
			said := strings.Contains(out.String(), fmt.Sprintf("  %-24s %.4g", name, value))
			if given == said {
				t.Errorf("%s: %s is given: %v, and named among the choices: %v: %s", flags, name, given, said,
					out.String())
			}
		}
	}
}

// Where --data names prepared photographs, pretrain and solve are those of 2d, and so is crossval
// of a plan of them; other lines stay.
func TestVerbsForPhotos(t *testing.T) {
	raw, prepared := fourPhotos(t)
	for _, c := range []struct {
		args   []string
		photos bool
	}{
		{[]string{"pretrain", "--data", prepared, "--out", "x"}, true},
		{[]string{"solve", "--data=" + prepared}, true},
		{[]string{"pretrain", "--data", raw}, false},
		{[]string{"pretrain", "--data"}, false},
		{[]string{"finetune", "--data", prepared}, false},
		{[]string{"2d", "pretrain", "--data", prepared}, false},
		{nil, false},
	} {
		want := c.args
		if c.photos {
			want = append([]string{"2d"}, c.args...)
		}
		if got := forPhotos(c.args); !slices.Equal(got, want) {
			t.Errorf("%q becomes %q, want %q", c.args, got, want)
		}
	}
	for plan, want := range map[string]string{"photos-cpu": "2d compare", "paper-table1": "2d compare",
		"leaderboard": "crossval"} {
		for _, flag := range [][]string{{"--config", "../configs/" + plan + ".yaml"},
			{"--config=../configs/" + plan + ".yaml"},
			{"-c", "../configs/" + plan + ".yaml"}} {
			rest := append(flag, "--out", "x")
			for _, verb := range [][]string{{"crossval"}, {"2d", "compare"}} {
				line := append(verb, rest...)
				if got := strings.Join(forPhotos(line), " "); got != want+" "+strings.Join(rest, " ") {
					t.Errorf("%q becomes %q, want %s", line, got, want)
				}
			}
		}
	}
	var out bytes.Buffer
	if code := Run([]string{"pretrain", "--data", prepared, "--help"}, &out, &out); code != exitOK ||
		!bytes.Contains(out.Bytes(), []byte("\n  voxsaw pretrain [flags]\n")) ||
		!bytes.Contains(out.Bytes(), []byte("\nvoxsaw pretrain --help-all shows")) ||
		!bytes.Contains(out.Bytes(), []byte("photographs")) {
		t.Errorf("pretrain --help for photographs: exit code %d: %s", code, out.String())
	}
}

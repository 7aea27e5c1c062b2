package cli

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Where --data names prepared photographs, pretrain and solve are those of 2d, and so is crossval
// of a plan of them; other lines stay.
func TestVerbsForPhotos(t *testing.T) {
	raw, prepared := t.TempDir(), filepath.Join(t.TempDir(), "photos")
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
	out.Reset()
	if code := Run([]string{"pretrain", "--data", prepared, "--help"}, &out, &out); code != exitOK ||
		!bytes.Contains(out.Bytes(), []byte("\n  voxsaw pretrain [flags]\n")) ||
		!bytes.Contains(out.Bytes(), []byte("\nvoxsaw pretrain --help-all shows")) ||
		!bytes.Contains(out.Bytes(), []byte("photographs")) {
		t.Errorf("pretrain --help for photographs: exit code %d: %s", code, out.String())
	}
}

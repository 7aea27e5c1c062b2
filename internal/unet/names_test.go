package unet

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// Parameters have the names that nnU-Net's networks list, every one of them and no others.
func TestNames(t *testing.T) {
	plain := thick()
	plain.Residual, plain.In, plain.Classes = false, 1, 3
	residual := thick()
	residual.In, residual.Classes = 1, 3
	want := theirNames(t)
	for name, s := range map[string]Settings{"plain": plain, "residual": residual} {
		g := nn.NewGraph(nn.Train, devicetest.NewReference().Activations())
		s.Declare(g)
		p := nn.NewParams(devicetest.NewReference(), 1)
		if err := p.Declare(g); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, own := range p.Names() {
			for _, alias := range Names(own) {
				if Canonical(alias) != own || got[alias] != "" {
					t.Errorf("%s: %s is %s", name, alias, Canonical(alias))
				}
				got[alias] = shape(p.Shape(own))
			}
		}
		if !maps.Equal(got, want[name]) {
			t.Errorf(
				"%s: names\n%s\nwant\n%s",
				name,
				slices.Sorted(maps.Keys(got)),
				slices.Sorted(maps.Keys(want[name])),
			)
		}
	}
}

func shape(of []int) string {
	var text []string
	for _, n := range of {
		text = append(text, string(rune('0'+n/10))+string(rune('0'+n%10)))
	}
	return strings.Join(text, "x")
}

// theirNames reads testdata/nnunet_names.txt: network, name, shape on each line.
func theirNames(t *testing.T) map[string]map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "nnunet_names.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]map[string]string{"plain": {}, "residual": {}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		word := strings.Fields(lines.Text())
		names[word[0]][word[1]] = word[2]
	}
	return names
}

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
)

// Where held-out scans chose what is done after prediction, the scores of the same scans say so.
func TestChosenBySameScans(t *testing.T) {
	model := t.TempDir()
	of := func(name, largest string) {
		weights(t, filepath.Join(model, name), checkpoint.Description{Kind: checkpoint.Segmentation,
			Progress: checkpoint.Progress{Largest: largest}})
	}
	of("fold1.safetensors", "")
	of("fold2.safetensors", "")
	if got := chosenBySameScans(model); got != "" {
		t.Errorf("nothing was chosen: %q", got)
	}
	of("fold1.safetensors", "3,10")
	of("fold3.safetensors", "3,2")
	const want = "2 of 3 networks keep only the largest component of label 2, 3, 10, which these very scans chose: " +
		"there the DSC is a little too good. Together they do so where all of them chose it; voxsaw crossval " +
		"measures it on scans that chose nothing"
	if got := chosenBySameScans(model); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := os.RemoveAll(model); err != nil {
		t.Fatal(err)
	}
	if got := chosenBySameScans(model); got != "" {
		t.Errorf("of a folder that is not there: %q", got)
	}
}

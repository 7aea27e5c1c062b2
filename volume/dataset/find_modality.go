package dataset

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: what the files of a data set say of their modality.

// stateModalities says of the cases of a data set's folder what they are, as far as that is known
// without reading them. Of DICOM, that is the header's to say.
func (d Dataset) stateModalities(o Options) (Dataset, error) {
	var file struct {
		Channels map[string]any `json:"channel_names"`
		Modality map[string]any `json:"modality"`
	}
	stated := ""
	// What is wrong with the file, its other readers say.
	if found, err := readJSON(filepath.Join(d.Root, "dataset.json"), &file); found && err == nil {
		channels := file.Channels
		if channels == nil {
			channels = file.Modality
		}
		channel, _ := channels[fmt.Sprint(max(o.Volume, 1)-1)].(string)
		stated = ModalityOfChannel(channel)
	}
	return d.each(func(c *Case) {
		switch {
		case d.Layout == LayoutNIH:
			c.modality = Modality{volume.ModalityCT, "layout", true}
		case c.series != nil || c.IsDICOM():
		case stated != "":
			c.modality = Modality{stated, "dataset.json", true}
		default:
			c.modality = modalityOfName(c.Image)
		}
	}), nil
}

// A MixedError says that the cases of a data set are of several modalities.
type MixedError struct {
	Root  string
	Cases map[string][]string // by modality
}

func (e *MixedError) Error() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Cases)) {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", numbers.Count(len(e.Cases[name]), "case"), name,
			safetext.List(e.Cases[name])))
	}
	return fmt.Sprintf("%s holds scans of several modalities: %s", e.Root, strings.Join(parts, "; "))
}

// Hint says what to do.
func (e *MixedError) Hint() string {
	names := slices.Sorted(maps.Keys(e.Cases))
	return fmt.Sprintf("--modality %s prepares the cases of one alone: prepare the others into a folder of their own",
		strings.Join(names, ", or --modality "))
}

package dataset

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/format"
)

// OneChannel looks for scans of several channels among files that were found one by one: nnU-Net's
// CASE_0000, CASE_0001, ... on the same voxels. They are no patients of their own. Of each such
// scan it keeps the channel that is chosen, 1 for the first, as a case called CASE; 0 makes them an
// error.
func OneChannel(cases []Case, chosen int) ([]Case, error) {
	files := map[string]Case{} // by the path of the file without its ending
	for _, c := range cases {
		if stem, ok := format.Stem(c.Image); ok && !c.IsDICOM() {
			files[stem] = c
		}
	}
	kept := slices.Clone(cases)
	for _, stem := range slices.SortedFunc(maps.Keys(files), numbers.CompareNatural) {
		first := files[stem]
		scan := firstChannel.ReplaceAllString(stem, "")
		if scan == stem {
			continue
		}
		channels := []Case{first}
		for {
			next, found := files[fmt.Sprintf("%s_%04d", scan, len(channels))]
			if !found {
				break
			}
			channels = append(channels, next)
		}
		const most = 8 // more are numbers of patients
		if len(channels) < 2 || len(channels) > most || !onSameVoxels(channels[0], channels[1]) {
			continue
		}
		if chosen == 0 {
			return nil, fmt.Errorf("%s and %s lie on the same voxels: they look like %d channels of one "+
				"scan, %s, and not like %[3]d patients. Choose a channel with --volume, or "+
				"rename the files if they are of different patients",
				channels[0].Image, channels[1].Image, len(channels), filepath.Base(scan))
		}
		if chosen > len(channels) {
			return nil, fmt.Errorf("%s has %d channels: there is no channel %d", scan, len(channels), chosen)
		}
		kept = slices.DeleteFunc(kept, func(c Case) bool {
			return c.Image != channels[chosen-1].Image &&
				slices.ContainsFunc(channels, func(o Case) bool { return o.Image == c.Image })
		})
		for n := range kept {
			if c := &kept[n]; c.Image == channels[chosen-1].Image {
				c.ID, c.Volume, c.channel = channelSuffix.ReplaceAllString(c.ID, ""), 0, true
			}
		}
	}
	return kept, nil
}

// onSameVoxels says whether the headers of two files name one grid.
func onSameVoxels(a, b Case) bool {
	g, _, okA := a.Extent()
	h, _, okB := b.Extent()
	const rounding = 1e-3 // mm
	return okA && okB && g.Same(h, rounding)
}

// channelNames are the names of the channels in a data set's dataset.json; nil where it does not
// name several. What is wrong with the file, its other readers say.
func channelNames(root string) (names []string) {
	var file struct {
		Channels map[string]any `json:"channel_names"`
		Modality map[string]any `json:"modality"`
	}
	if found, err := readJSON(filepath.Join(root, "dataset.json"), &file); !found || err != nil {
		return nil
	}
	channels := file.Channels
	if channels == nil {
		channels = file.Modality
	}
	if len(channels) < 2 {
		return nil
	}
	for n := range len(channels) {
		name, _ := channels[fmt.Sprint(n)].(string)
		name = strings.TrimSpace(strings.ReplaceAll(name, ",", " "))
		if name == "" || slices.Contains(names, name) { // every channel needs a name of its own
			name = fmt.Sprintf("channel %d", n+1)
		}
		names = append(names, name)
	}
	return names
}

// withVolumes is the case with the volumes of its file for channels, if it has several.
func (c Case) withVolumes(names []string) Case {
	h, err := format.ReadHeader(c.Image)
	if err != nil || h.Volumes < 2 { // reading says what is wrong
		return c
	}
	c.channel = true
	if h.Volumes != len(names) {
		c.refused = fmt.Errorf("%s: holds %d volumes, and %d channels are wanted, %s", c.Image, h.Volumes, len(names),
			safetext.List(names))
		return c
	}
	c.Volume = 1
	for n := range names[1:] {
		c.More = append(c.More, Case{Image: c.Image, Volume: n + 2})
	}
	return c
}

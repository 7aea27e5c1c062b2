package dataset

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: the Medical Segmentation Decathlon.

// readMSD reads imagesTr, labelsTr, imagesTs (and labelsTs, where somebody has them) and the names
// of the labels.
func readMSD(root string, o Options) (*Dataset, error) {
	d := &Dataset{}
	asked := o.Channels != nil
	if !asked && o.Volume == 0 {
		o.Channels = channelNames(root)
	}
	pairs, err := d.folderPairs(root, o)
	if err != nil {
		return nil, err
	}
	for _, group := range pairs {
		images, labels := group.images, group.labels
		for _, stem := range slices.Sorted(maps.Keys(images)) {
			image := images[stem]
			d.Cases = append(d.Cases, Case{ID: stem, Group: group.name, Image: image, Labels: labels[stem]})
			if group.name == "" && labels[stem] == "" {
				d.note("%s has no labels", image)
			}
			delete(labels, stem)
		}
		for _, stem := range slices.Sorted(maps.Keys(labels)) {
			d.withoutScan(labels[stem])
		}
	}
	if o.Channels != nil {
		d.joinVolumes(o.Channels, asked)
	}
	var file struct {
		Labels   labelEntries      `json:"labels"`
		Order    []json.RawMessage `json:"regions_class_order"`
		Training []struct {
			Image string `json:"image"`
		} `json:"training"`
		nnUNetKeys
	}
	path := filepath.Join(root, "dataset.json")
	if found, err := readJSON(path, &file); !found || err != nil {
		return d, err
	}
	if err := d.nameLabels(path, labelKeys{file.Labels, file.Order}); err != nil {
		return nil, err
	}
	if file.given() && !slices.ContainsFunc(d.Cases, func(c Case) bool { return channelSuffix.MatchString(c.ID) }) {
		d.note("dataset.json is nnU-Net's, but no image has the number of a channel in its name, such as _0000: each " +
			"file is taken for a scan, as in the Medical Segmentation Decathlon")
	}
	missing := 0
	for _, t := range file.Training {
		if !isFile(filepath.Join(root, filepath.FromSlash(t.Image))) {
			missing++
		}
	}
	if missing > 0 {
		d.note("dataset.json lists %s, not on disk", numbers.Count(missing, "training case"))
	}
	return d, nil
}

// joinVolumes takes the volumes of each file for channels, if any file has as many, or if somebody
// asks for channels of these names.
func (d *Dataset) joinVolumes(names []string, asked bool) {
	joined, several := slices.Clone(d.Cases), false
	for n := range joined {
		if joined[n].More == nil && !joined[n].channel && !joined[n].IsDICOM() {
			joined[n] = joined[n].withVolumes(names)
		}
		several = several || joined[n].More != nil || asked && joined[n].refused != nil
	}
	if several {
		d.Cases, d.Channels = joined, names
		d.note("%d channels: %s, the volumes of each file (--volume chooses one)", len(names),
			strings.Join(names, ", "))
	}
}

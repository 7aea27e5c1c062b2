package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: nnU-Net, of both versions.

// readNNUNet reads CASE_0000.nii.gz (the first channel, or the one of o.Volume) with
// labelsTr/CASE.nii.gz.
func readNNUNet(root string, o Options) (*Dataset, error) {
	d := &Dataset{}
	channel := max(o.Volume, 1) - 1
	if o.Volume == 0 {
		d.Channels = channelNames(root)
		o.Channels = d.Channels // of scans beside imagesTr, too
	}
	pairs, err := d.folderPairs(root, o)
	if err != nil {
		return nil, err
	}
	for _, group := range pairs {
		images, labels := group.images, group.labels
		channels := map[string][]int{}
		for _, stem := range slices.Sorted(maps.Keys(images)) {
			image := images[stem]
			m := channelSuffix.FindStringSubmatch(stem)
			if m == nil && labels[stem] != "" {
				return nil, fmt.Errorf("%s lacks the number of its channel: rename it to %s", image,
					strings.Replace(filepath.Base(image), stem, stem+"_0000", 1))
			}
			if m == nil {
				d.note("WARNING: %s has no channel in its name, such as _0000: passed over", image)
				continue
			}
			number, _ := strconv.Atoi(m[1])
			id := strings.TrimSuffix(stem, m[0])
			if labels[stem] != "" && labels[id] == "" {
				return nil, fmt.Errorf("%s ends in the number of a channel, which labels have none of: rename it to %s",
					labels[stem], strings.Replace(filepath.Base(labels[stem]), stem, id, 1))
			}
			channels[id] = append(channels[id], number)
		}
		for _, id := range slices.Sorted(maps.Keys(channels)) {
			found := channels[id]
			if o.Volume == 0 && len(found) > 1 && d.Channels == nil {
				return nil, fmt.Errorf("case %s has %d channels: choose one with --volume, name all in dataset.json "+
					"(channel_names), or say --layout scans if these are numbers of cases", id, len(found))
			}
			image := images[fmt.Sprintf("%s_%04d", id, channel)]
			if image == "" {
				return nil, fmt.Errorf("case %s has no channel %d", id, channel+1)
			}
			c := Case{ID: id, Group: group.name, Image: image, Labels: labels[id]}
			if c.More, err = d.furtherChannels(id, images, slices.Max(found)); err != nil {
				return nil, err
			}
			d.Cases = append(d.Cases, c)
			if group.name == "" && labels[id] == "" {
				d.note("%s has no labels", image)
			}
			delete(labels, id)
		}
		for _, stem := range slices.Sorted(maps.Keys(labels)) {
			d.withoutScan(labels[stem])
		}
	}
	if d.Channels != nil {
		d.note("%d channels: %s (--volume chooses one)", len(d.Channels), strings.Join(d.Channels, ", "))
	}
	var file struct {
		Labels labelEntries      `json:"labels"`
		Order  []json.RawMessage `json:"regions_class_order"`
		nnUNetKeys
	}
	path := filepath.Join(root, "dataset.json")
	if found, err := readJSON(path, &file); !found || err != nil {
		return d, err
	}
	if err := d.nameLabels(path, labelKeys{file.Labels, file.Order}); err != nil {
		return nil, err
	}
	if file.Ending != "" && !format.IsName("x"+file.Ending) {
		return nil, fmt.Errorf("its files end in %s: only NIfTI is read", file.Ending)
	}
	return d, nil
}

// furtherChannels are the files of a case's channels after the first. There must be one for each
// that dataset.json names, and no more: last is the highest number that one has.
func (d *Dataset) furtherChannels(id string, images map[string]string, last int) (more []Case, err error) {
	if d.Channels == nil {
		return nil, nil
	}
	for n, name := range d.Channels[1:] {
		file := images[fmt.Sprintf("%s_%04d", id, n+1)]
		if file == "" {
			return nil, fmt.Errorf("case %s has no channel %s: there is no file %s_%04d, and dataset.json names %d "+
				"channels, %s: --volume 1 takes the first alone",
				id, name, id, n+1, len(d.Channels), strings.Join(d.Channels, ", "))
		}
		more = append(more, Case{Image: file})
	}
	if last >= len(d.Channels) {
		return nil, fmt.Errorf("%s is a channel beyond the %d that dataset.json names, %s",
			images[fmt.Sprintf("%s_%04d", id, last)], len(d.Channels), strings.Join(d.Channels, ", "))
	}
	return more, nil
}
